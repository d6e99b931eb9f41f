"""One run of several: shards of one job, and jobs on other machines.

The order in which runs are named makes no difference to what decides, and a run
merged with itself is itself. What contradicts is an error, never a choice.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UsageError
from ..model import (
    Baseline,
    CellResult,
    JobCoverage,
    MutantRecord,
    Run,
    Touched,
    Trial,
    Verdict,
    numbers,
    ranges,
    to_json,
)
from ..model.suites import OwnTest, RedGreen

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_SEVERITY = {70: 3, 2: 2, 4: 1}
"""Exit codes of runs that an error ended: the one that counts most."""
_OWN = ("broken by head", "new and red", "red", "unstable", "pre-existing")
"""What a test of the project may be, what counts first."""


def merge_runs(loaded: Sequence[tuple[Path, Run]]) -> Run:
    """One run of several.

    Raises:
        UsageError: they are of different revisions, or a cell, a mutant or a test came to different things.
    """
    first_path, first = loaded[0]
    for path, run in loaded:
        for what in ("base", "head"):
            _same_revision(what, first_path, first, path, run)
    cells: dict[str, CellResult] = {}
    mutants: dict[str, MutantRecord] = {}
    touched: dict[str, Touched] = {}
    redgreen: dict[tuple[str, str], RedGreen] = {}
    for path, run in loaded:
        for cell in run.cells:
            cells[cell.cell.key] = _cell(cells.get(cell.cell.key), cell, path)
        for mutant in run.mutants:
            mutants[mutant.id] = _mutant(mutants.get(mutant.id), mutant, path)
        for file in run.touched:
            touched[file.path] = _touched(touched.get(file.path), file, path)
        for new in run.redgreen:
            redgreen[new.test, new.python] = _redgreen(redgreen.get((new.test, new.python)), new, path)
    runs = [run for _, run in loaded]
    return dataclasses.replace(
        first,
        base=next((run.base for run in runs if run.base), ""),
        head=next((run.head for run in runs if run.head), ""),
        seconds=sum(run.seconds for run in runs),
        interrupted=any(run.interrupted for run in runs),
        environment=functools.reduce(_united, (run.environment for run in runs), {}),
        cells=tuple(cells.values()),
        trials=_trials(runs),
        mutants=tuple(mutants.values()),
        baselines=_by(lambda one: (one.python, one.revision), _baseline, (run.baselines for run in runs)),
        redgreen=tuple(redgreen.values()),
        slack=tuple(dict.fromkeys(one for run in runs for one in run.slack)),
        own=_by(lambda one: (one.test, one.python), _own, (run.own for run in runs)),
        touched=tuple(touched.values()),
        coverage=_by(lambda one: (one.name, one.file), _coverage, (run.coverage for run in runs)),
        gaps=(),
        rules=(),
        unwatched=functools.reduce(_united, (run.unwatched for run in runs), {}),
        errors=tuple(dict.fromkeys(error for run in runs for error in run.errors)),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def whole(run: Run, parts: Sequence[Run]) -> Run:
    """The merged and decided run, with what its parts did not get to: that never looks like a clean bill.

    A part that an error ended makes it an ERROR with that part's exit code; one that was
    interrupted, or a shard that is missing, leaves it undecided.
    """
    failed = [part for part in parts if part.errors]
    if failed:
        code = max((part.exit_code for part in failed), key=lambda code: _SEVERITY.get(code, 0))
        return dataclasses.replace(run, verdict=Verdict.ERROR, exit_code=code or 70)
    missing = missing_shards(parts)
    notes = (*run.notes, f"not merged: {', '.join(missing)}") if missing else run.notes
    run = dataclasses.replace(run, notes=notes)
    if (run.interrupted or missing) and run.exit_code == 0:
        return dataclasses.replace(run, verdict=Verdict.UNRESOLVED, exit_code=3)
    return run


def missing_shards(parts: Iterable[Run]) -> tuple[str, ...]:
    """Shards that the commands of the runs speak of and that none of the runs is: `shard 2/3`."""
    there: set[tuple[int, int]] = set()
    for part in parts:
        if match := re.search(r"--shard[= ](\d+)/(\d+)", " ".join(part.command)):
            there.add((int(match[1]), int(match[2])))
    wanted = {(number, of) for _, of in there for number in range(1, of + 1)}
    return tuple(f"shard {number}/{of}" for number, of in sorted(wanted - there))


def _same_revision(what: str, first_path: Path, first: Run, path: Path, run: Run) -> None:
    ours, theirs = getattr(first, what), getattr(run, what)
    if ours != theirs and ours and theirs:
        raise UsageError(
            f"the runs are of different revisions: {what} is {ours!r} and {theirs!r}",
            where=f"{first_path} and {path}",
            todo="merge runs of one base and one head",
        )


def _by(key: Callable[[T], K], merge: Callable[[T, T], T], of: Iterable[Iterable[T]]) -> tuple[T, ...]:
    found: dict[K, T] = {}
    for some in of:
        for one in some:
            name = key(one)
            found[name] = merge(found[name], one) if name in found else one
    return tuple(found.values())


def _order(value: Any) -> str:
    """Something to choose by that does not depend on which run came first."""
    return json.dumps(to_json(value), sort_keys=True)


def _cell(held: CellResult | None, new: CellResult, path: Path) -> CellResult:
    if held is None:
        return new
    if held.verdict != new.verdict:
        raise UsageError(
            f"the cell {new.cell.key} ({new.cell.probe}, {new.cell.python}) is {held.verdict.value} in one "
            f"run and {new.verdict.value} in another",
            where=str(path),
            todo="merge one of them",
        )
    return max(held, new, key=lambda one: (one.trials, _order(one)))


def _trials(runs: Sequence[Run]) -> tuple[Trial, ...]:
    """All trials; those of one token that several runs have, from the one that has most of them."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for run in runs:
        mine: dict[tuple[str, str], list[Trial]] = {}
        for trial in run.trials:
            mine.setdefault((trial.token, trial.phase), []).append(trial)
        for key, some in mine.items():
            held = found.get(key, [])
            found[key] = max(held, some, key=lambda one: (len(one), [_order(trial) for trial in one]))
    return tuple(trial for some in found.values() for trial in some)


def _mutant(held: MutantRecord | None, new: MutantRecord, path: Path) -> MutantRecord:
    if held is None:
        return new
    for python in held.outcome.keys() & new.outcome.keys():
        if held.outcome[python] != new.outcome[python]:
            raise UsageError(
                f"the mutant {new.name} is {held.outcome[python]} in one run and {new.outcome[python]} in "
                f"another, on {python}",
                where=str(path),
                todo="merge one of them, or look into the suite's stability",
            )
    return dataclasses.replace(
        held,
        outcome=_united(held.outcome, new.outcome),
        matrix=_united(held.matrix, new.matrix),
        ran=_united(held.ran, new.ran),
        left=_united(held.left, new.left),
        confirmed=_united(held.confirmed, new.confirmed),
        expected=held.expected or new.expected,
        site=held.site or new.site,
        head=held.head or new.head,
        why=held.why or new.why,
        error=max(held.error, new.error),
    )


def _united(held: Mapping[str, T], new: Mapping[str, T]) -> dict[str, T]:
    """Both, by key; where both have it, the one that comes last in an order of its own."""
    both = {key: max(held[key], new[key], key=_order) for key in held.keys() & new.keys()}
    return {**held, **new, **both}


def _touched(held: Touched | None, new: Touched, path: Path) -> Touched:
    if held is None or held == new:
        return new
    raise UsageError(
        f"the runs are of different code: they touch {new.place or new.path} at lines "
        f"{held.lines or 'none'} and {new.lines or 'none'}",
        where=str(path),
        todo="merge runs of one base and one head",
    )


def _redgreen(held: RedGreen | None, new: RedGreen, path: Path) -> RedGreen:
    if held is None:
        return new
    if held.kind != new.kind:
        raise UsageError(
            f"the new test {new.test} is {held.kind} in one run and {new.kind} in another, on {new.python}",
            where=str(path),
            todo="merge one of them, or look into the suite's stability",
        )
    return max(held, new, key=_order)


def _baseline(held: Baseline, new: Baseline) -> Baseline:
    """A test that was left out anywhere is left out; a line that ran anywhere ran."""
    left_out = _united(held.left_out, new.left_out)
    tests = dict.fromkeys((*held.tests, *new.tests))
    return dataclasses.replace(
        held,
        freeze=max(held.freeze, new.freeze),
        tests=tuple(test for test in tests if test not in left_out),
        left_out=left_out,
        forced=_forced(held.forced, new.forced),
        seconds=max(held.seconds, new.seconds),
        lines=_lines(held.lines, new.lines),
        spawns=max(held.spawns, new.spawns),
    )


def _forced(held: str, new: str) -> str:
    """What was not executed in either; `seen` only where nothing else is to be said."""
    parts = {part for text in (held, new) for part in text.split("; ") if part}
    return "; ".join(sorted(parts - {"seen"}) or sorted(parts))


def _lines(held: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    return {
        path: ranges(numbers(held.get(path, "")) | numbers(new.get(path, ""))) for path in dict.fromkeys((*held, *new))
    }


def _coverage(held: JobCoverage, new: JobCoverage) -> JobCoverage:
    return dataclasses.replace(held, lines=_lines(held.lines, new.lines))


def _own(held: OwnTest, new: OwnTest) -> OwnTest:
    """What counts wins: a test that one run saw broken is not pre-existing since another saw it so."""
    return min(held, new, key=lambda one: (_OWN.index(one.kind), _order(one)))
