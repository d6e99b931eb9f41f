"""The coverage rules: touched lines over all cells, in each cell, and those of one platform only.

A cell is an interpreter that ran the project's own tests here, or a job whose data
were taken in. A line that one cell runs is covered: so a figure does not drop for
the sake of a platform that no other cell can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from ..model import Gap, RuleResult, Run, Touched, numbers
from .policy import CoveragePolicy, Policy

SHOWN = 6

Ran = dict[str, dict[str, set[int]]]
"""Cell -> file -> touched statements that ran."""


def cells_of(run: Run) -> Ran:
    """What ran in each cell: our own first, then other jobs."""
    found: Ran = {}
    measured = [(one.python, one.lines) for one in run.baselines if one.lines]
    for name, lines in (*measured, *((one.name, one.lines) for one in run.coverage)):
        cell = found.setdefault(name, {})
        for path, text in lines.items():
            cell.setdefault(path, set()).update(numbers(text))
    return found


def gaps_of(run: Run) -> tuple[Gap, ...]:
    """Touched statements that not every cell runs, those that follow each other as one."""
    cells = cells_of(run)
    return tuple(gap for one in run.touched for gap in _gaps(one, cells))


def _gaps(touched: Touched, cells: Ran) -> list[Gap]:
    reasons = {line: reason for lines, reason in touched.only.items() for line in numbers(lines)}

    def state(line: int) -> tuple[tuple[str, ...], str]:
        return tuple(name for name, ran in cells.items() if line in ran.get(touched.path, ())), reasons.get(line, "")

    found = []
    for (running, reason), group in groupby(sorted(numbers(touched.lines)), state):
        lines = list(group)
        if len(running) == len(cells) > 0:
            continue
        kind = "in some cells" if running else "one platform" if reason else "uncovered"
        found.append(Gap(touched.path, touched.place, lines[0], lines[-1], kind, running, reason))
    return found


def place_of(gap: Gap) -> str:
    """`src/pond/pipe.py:3-5`."""
    last = f"-{gap.last}" if gap.last != gap.first else ""
    return f"{gap.place or gap.path}:{gap.first}{last}"


def sentence(gap: Gap) -> str:
    """What a gap is, in a few words."""
    if gap.kind == "in some cells":
        text = f"runs only on {', '.join(gap.cells)}"
    else:
        text = "no cell runs it"
    return f"{text}: {gap.reason}" if gap.reason else text


def coverage_rules(run: Run, policy: Policy, gaps: Sequence[Gap]) -> list[RuleResult]:
    """The lines of the rules; none where nothing is asked and nothing was touched."""
    wanted = policy.coverage
    asked = wanted.union is not None or wanted.per_cell is not None
    if not run.touched:
        if not asked:
            return []
        why = "the diff touches no line that can run" if run.base else "there is no base, so no line is touched"
        return [RuleResult("coverage", True, why, warning=not run.base)]
    cells = cells_of(run)
    if not cells:
        look = "name tests = [...] in [tool.stormdrain.gate], or give --coverage-data FILE"
        return [RuleResult("coverage", not asked, "no test was run and no coverage data were given", look, not asked)]
    rules = [_union(run, wanted, cells, gaps)]
    if wanted.per_cell is not None or any(gap.kind == "in some cells" for gap in gaps):
        rules.append(_per_cell(run, wanted, cells, gaps))
    return rules


def _union(run: Run, policy: CoveragePolicy, cells: Ran, gaps: Sequence[Gap]) -> RuleResult:
    every = {(one.path, line): reason for one in run.touched for line, reason in _reasons(one).items()}
    ran = {(path, line) for cell in cells.values() for path, lines in cell.items() for line in lines} & every.keys()
    excused = {key for key, reason in every.items() if reason and key not in ran}
    of = len(every) - len(excused)
    figure = f"{len(ran)} of {_lines(of)} run in some cell ({_percent(len(ran), of)}); {_wanted(policy.union)}"
    if excused:
        figure += f"; {len(excused)} more of one platform only"
    if excluded := sum(len(numbers(one.excluded)) for one in run.touched):
        figure += f"; {excluded} left out by the project's coverage settings"
    open_ = [gap for gap in gaps if gap.kind != "in some cells"]
    spawns = sum(one.spawns for one in run.baselines)
    notes = []
    if spawns and len(ran) < of:
        notes = [f"{spawns} tests start processes, in which no line is seen: --coverage-data takes such data in"]
    held = _enough(len(ran), of, policy.union)
    return RuleResult("coverage", held, figure, _look(open_, notes), warning=bool(open_))


def _per_cell(run: Run, policy: CoveragePolicy, cells: Ran, gaps: Sequence[Gap]) -> RuleResult:
    """Each cell by itself; lines of one platform only count in the cells that run them."""
    parts, held = [], True
    for name, ran in cells.items():
        got = of = 0
        for one in run.touched:
            for line, reason in _reasons(one).items():
                here = line in ran.get(one.path, ())
                got += here
                of += here or not reason
        held = held and _enough(got, of, policy.per_cell)
        parts.append(f"{name} {_percent(got, of)}")
    some = [gap for gap in gaps if gap.kind == "in some cells"]
    wanted = _wanted(policy.per_cell) + ("" if policy.per_cell is None else " in each")
    look = _look(some or gaps)
    return RuleResult("cell coverage", held, f"{', '.join(parts)}; {wanted}", look, warning=bool(some))


def _reasons(touched: Touched) -> Mapping[int, str]:
    """Every touched statement with the reason why it runs on one platform only, or nothing."""
    reasons = {line: reason for lines, reason in touched.only.items() for line in numbers(lines)}
    return {line: reasons.get(line, "") for line in numbers(touched.lines)}


def _enough(number: int, of: int, percent: int | None) -> bool:
    return percent is None or number * 100 >= percent * of


def _percent(number: int, of: int) -> str:
    # Rounded down: 999 of 1000 must not read as all.
    return f"{number * 100 // of if of else 100} %"


def _wanted(percent: int | None) -> str:
    return "no minimum" if percent is None else "all wanted" if percent == 100 else f"{percent} % wanted"


def _lines(number: int) -> str:
    return f"{number} touched line{'' if number == 1 else 's'}"


def _look(gaps: Sequence[Gap], notes: Sequence[str] = ()) -> str:
    rows = [f"{place_of(gap)} ({sentence(gap)})" for gap in gaps[:SHOWN]]
    if len(gaps) > SHOWN:
        rows.append(f"and {len(gaps) - SHOWN} more, in run.json")
    return "; ".join([*rows, *notes])
