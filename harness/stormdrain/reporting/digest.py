"""What every report says, drawn from a run once: the head, the findings grouped, the counts.

Formats differ in how they quote and lay out; what they say must not differ.
All text here is raw; the formats pass it through :mod:`.escape`.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..compare import KINDS, doubtful, untried
from ..gate.policy import distinct
from ..model import Cell, CellResult, Change, Run, Verdict
from .groups import group_findings
from .kills import version_key
from .suites import KINDS as SUITE_KINDS
from .suites import pythons as suite_pythons

_PATH = re.compile(r"(?<![\w/])/(?:[^\s/]+/){3,}(?=[^\s/]+/[^\s/]+)")


def short_paths(text: str) -> str:
    """Absolute paths by their last two names, since the folders of a trial say nothing."""
    return _PATH.sub(".../", text)


def replay_command(token: str) -> str:
    """What to type to see one trial again."""
    return f"stormdrain replay {shlex.quote(token)}"


@dataclass(frozen=True)
class Changes:
    """Changes of one kind and expectation, over storms, probes, interpreters and backends."""

    lead: Change
    storms: tuple[str, ...]
    probes: tuple[str, ...]
    where: str

    @property
    def what(self) -> str:
        """The expectation, or what else it is about."""
        return self.lead.expectation or ("the whole storm" if self.lead.storm else "everything")


def changed(run: Run, kinds: Sequence[str]) -> tuple[Changes, ...]:
    """The changes of some kinds, grouped; lines without expectation only where they are inconclusive."""
    alike: dict[tuple[str, str, str], list[Change]] = {}
    for change in run.comparison:
        if change.kind in kinds and (change.expectation or change.kind == "inconclusive"):
            text = "" if change.expectation else change.message
            alike.setdefault((change.kind, change.expectation, text), []).append(change)
    return tuple(
        Changes(
            next((change for change in members if change.differs_from), members[0]),
            tuple(dict.fromkeys(change.storm for change in members if change.storm)),
            tuple(dict.fromkeys(change.probe for change in members)),
            ", ".join(
                (
                    " ".join(sorted({change.python for change in members}, key=version_key)),
                    " ".join(sorted({change.backend for change in members})),
                )
            ),
        )
        for members in alike.values()
    )


@dataclass(frozen=True)
class Counts:
    """How much was looked at, and how much was not."""

    trials: int
    failed: int
    not_reached: int
    not_tried: int
    unresolved: int
    not_applicable: int
    canaries: int
    flagged: int

    def sentence(self) -> str:
        """All of it in a line."""
        rest = {
            "not reached": self.not_reached,
            "not tried": self.not_tried,
            "unresolved": self.unresolved,
            "N/A": self.not_applicable,
        }
        more = ", ".join(f"{number} {what}" for what, number in rest.items() if number)
        return f"{self.trials} trials, {self.failed} failed" + (f"; {more}" if more else "")


def counts(cells: Sequence[CellResult]) -> Counts:
    """Sums over cells."""
    tallies = [tally for result in cells for tally in result.storms]
    canaries = [verdict for result in cells for verdict in result.canaries.values()]
    return Counts(
        trials=sum(result.trials for result in cells),
        failed=sum(tally.failed for tally in tallies),
        not_reached=sum(tally.not_reached for tally in tallies),
        not_tried=sum(tally.not_tried for tally in tallies),
        unresolved=sum(tally.unresolved for tally in tallies),
        not_applicable=sum(tally.verdict is Verdict.NA and not untried(tally) for tally in tallies),
        canaries=len(canaries),
        flagged=sum(verdict is Verdict.FAIL for verdict in canaries),
    )


_REMARKS = ("clock", "search", "known")
"""What a cell notes about itself that is no expectation and no storm that does not apply."""


def not_applicable(run: Run) -> tuple[str, ...]:
    """Each reason for which a storm or an expectation did not apply, with how often."""
    seen: Counter[str] = Counter()
    for result in run.cells:
        for tally in result.storms:
            if untried(tally):
                seen[f"{tally.storm}: not tried within the budget"] += 1
            elif tally.verdict is Verdict.NA:
                none = "no trial reached its point or had an expectation that applies"
                seen[f"{tally.storm}: {tally.why or none}"] += 1
        for note in result.notes:
            if note.expectation not in (*_REMARKS, "calm"):
                seen[f"{note.expectation}: {note.message}" if note.expectation else note.message] += 1
    return _counted(seen)


def cautions(result: CellResult) -> tuple[str, ...]:
    """What makes a cell worth less than it looks: calm was not as it should be, or there was nowhere to throw anything."""
    found = [note.message for note in result.notes if note.expectation == "calm"]
    on_a_loop = result.spec is not None and result.spec.kind != "service"
    if on_a_loop and result.verdict is Verdict.PASS and not result.points:
        found.append("the operation never waits: there is no point at which anything could be thrown into it")
    return tuple(found)


def remarks(run: Run) -> tuple[str, ...]:
    """What is worth saying of cells and of the run, and takes nothing away from the result."""
    cells = [note for result in run.cells for note in result.notes if note.expectation in _REMARKS]
    return _counted(Counter(f"{note.expectation}: {note.message}" for note in cells)) + run.notes


def _counted(seen: Counter[str]) -> tuple[str, ...]:
    return tuple(f"{text} (x{count})" if count > 1 else text for text, count in sorted(seen.items()))


def headline(run: Run) -> str:
    """The result in a few words."""
    if run.interrupted:
        return f"interrupted after {_plural(len(run.trials), 'trial')}; what follows was found so far"
    if run.errors:
        return next(iter(run.errors[0].splitlines()), "") or "an error without words"
    parts = []
    if run.comparison:
        kinds = Counter(change.kind for change in run.comparison if change.expectation)
        words = {"N/A on base": "failing where base is N/A"}
        parts += [f"{kinds[kind]} {words.get(kind, kind)}" for kind in KINDS if kinds[kind]]
        parts = parts or ["no findings on either side"]
    elif run.cells:
        number = len(group_findings(run))
        parts.append(_plural(number, "finding") if number else "no findings")
    number = counts([result for result in run.cells if result.cell.role != "base"]).unresolved
    if number:
        parts.append(f"{number} unresolved")
    broken = [result for result in run.cells if result.verdict is Verdict.ERROR]
    if broken:
        parts.insert(0, f"{_plural(len(broken), 'cell')} broken")
    if run.mutants:
        parts.append(mutants_line(run))
    if run.redgreen:
        kinds = Counter(one.kind for one in run.redgreen)
        parts.append(", ".join(f"{kinds[kind]} {kind}" for kind in SUITE_KINDS if kinds[kind]))
    if run.slack:
        parts.append(f"slack of {_plural(len(run.slack), 'test')}")
    if run.rules:
        lost = sum(not rule.held for rule in run.rules)
        parts.insert(0, f"{lost} of {len(run.rules)} rules broken" if lost else "all rules held")
    return ", ".join(parts) or "nothing was run"


def _plural(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def troubles(run: Run, key: str) -> tuple[str, ...]:
    """Why trials of a cell were ERROR or UNRESOLVED: the last line of each reason, with how often."""
    seen = Counter(
        (trial.verdict.value, trial.error.strip().splitlines()[-1].strip())
        for trial in run.trials
        if trial.cell == key and trial.phase == "storm" and trial.error.strip()
    )
    return tuple(f"{verdict} x{count}: {text}" for (verdict, text), count in seen.most_common())


def loose(run: Run) -> tuple[str, ...]:
    """What trials of cells that did not finish found, a line each kind; none of it was confirmed."""
    done = {result.cell.key for result in run.cells}
    seen = Counter(
        (finding.expectation, finding.storm)
        for trial in run.trials
        if trial.cell not in done and trial.phase in ("calm", "storm")
        for finding in trial.findings
    )
    return tuple(
        f"{expectation} under {storm}: {_plural(count, 'schedule')}, not confirmed"
        for (expectation, storm), count in seen.items()
    )


def doubts(run: Run) -> tuple[str, ...]:
    """Findings that real time did not show again, a line each kind."""
    seen = Counter(
        (finding.expectation, finding.storm, finding.runs, result.cell.probe, result.cell.python)
        for result in run.cells
        for finding in result.findings
        if doubtful(finding)
    )
    return tuple(
        f"{expectation} under {storm}: 0 of {runs} in real time ({probe}, {python}"
        + (f", {count} schedules)" if count > 1 else ")")
        for (expectation, storm, runs, probe, python), count in seen.items()
    )


def mutants_line(run: Run) -> str:
    """How the mutants ended, over all interpreters."""
    from .kills import ordered

    fates = Counter(kind for kind, _ in ordered(run))
    text = f"{fates['caught']} of {len(run.mutants) - fates['none']} mutants caught"
    rest = {
        "survivor": "survive",
        "caught only unwatched": "caught where nothing runs",
        "undecided": "undecided",
    }
    return ", ".join([text, *(f"{fates[kind]} {word}" for kind, word in rest.items() if fates[kind])])


def facts(run: Run) -> tuple[tuple[str, str], ...]:
    """The head of a report: what was compared, on what, in which clock."""
    cells = [result.cell for result in run.cells]
    rows = [("base", run.base), ("head" if run.base else "revision", run.head)]
    pythons = distinct([*(cell.python for cell in cells), *suite_pythons(run)])
    rows.append(("python", ", ".join(pythons)))
    rows.append(("backend", ", ".join(sorted({cell.backend for cell in cells}))))
    rows += [("clock", text) for text in clocks(cells)]
    if run.environment or any(cell.freeze for cell in cells):
        rows.append(("packages", "the full freeze of each cell is in run.json (environment)"))
    if run.seed:
        rows.append(("seed", str(run.seed)))
    return tuple((label, text) for label, text in rows if text)


def clocks(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Which clock the cells ran in, and why where it was not the virtual one."""
    by_reason: dict[tuple[str, str], dict[str, None]] = {}
    for cell in cells:
        by_reason.setdefault((cell.clock, cell.clock_why), {})[cell.probe] = None
    rows = []
    for (clock, why), probes in by_reason.items():
        text = clock + (f": {why}" if why else "")
        rows.append(text if len(by_reason) == 1 else f"{text} ({', '.join(probes)})")
    return tuple(rows)
