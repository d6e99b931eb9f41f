"""What every report says, drawn from a run once: the head, the findings grouped, the counts.

Formats differ in how they quote and lay out; what they say must not differ.
All text here is raw; the formats pass it through :mod:`.escape`.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..compare import KINDS
from ..model import Cell, CellResult, Finding, Observation, Run, Site, Trial, Verdict


@dataclass(frozen=True)
class Group:
    """Findings of one cell that are one problem: same expectation, storm and suspension line.

    lead: the one that was confirmed itself.
    others: tokens of the rest.
    kind: how it compares with base (`regressed`, ...), empty where there is none.
    differs: the first timeline event that differs from base.
    """

    cell: Cell
    lead: Finding
    others: tuple[str, ...]
    trial: Trial | None
    kind: str = ""
    differs: str = ""

    @property
    def left(self) -> tuple[str, ...]:
        """What was left when the trial had settled."""
        observation = self.trial.observation if self.trial else None
        return left_over(observation) if observation else ()


def replay_command(token: str) -> str:
    """What to type to see one trial again."""
    return f"stormdrain replay {shlex.quote(token)}"


def groups(run: Run, *, role: str | None = None) -> tuple[Group, ...]:
    """The findings, grouped; those that base does not have come first.

    Args:
        run: the run.
        role: only cells with this role; by default all but base's.
    """
    trials = {trial.token: trial for trial in run.trials}
    changes = {
        (change.probe, change.python, change.backend, change.storm, change.expectation): change
        for change in run.comparison
        if change.expectation
    }
    found: list[Group] = []
    for result in run.cells:
        cell = result.cell
        if cell.role != role if role is not None else cell.role == "base":
            continue
        for members in _alike(result.findings):
            lead = min(members, key=lambda finding: (bool(finding.inherits), -finding.runs))
            change = changes.get((cell.probe, cell.python, cell.backend, lead.storm, lead.expectation))
            others = tuple(finding.token for finding in members if finding is not lead)
            kind, differs = (change.kind, change.differs_from) if change else ("", "")
            found.append(Group(cell, lead, others, trials.get(lead.token), kind, differs))
    return tuple(sorted(found, key=lambda group: KINDS.index(group.kind) if group.kind else 0))


def _alike(findings: Iterable[Finding]) -> list[list[Finding]]:
    by_key: dict[tuple[str, str, Site | None], list[Finding]] = {}
    for finding in findings:
        by_key.setdefault((finding.expectation, finding.storm, finding.site), []).append(finding)
    return list(by_key.values())


def left_over(observation: Observation) -> tuple[str, ...]:
    """What was there after settling: processes by pid, state and command line, then the rest."""
    rows = [
        f"pid {process.pid} {process.state}"
        + (f" ({process.status})" if process.status else "")
        + f": {process.command}"
        for process in observation.processes
        if process.state != "gone"
    ]
    before = Counter((left.kind, left.key) for left in observation.before)
    for left in observation.left:
        if left.kind == "process":
            continue
        if before[left.kind, left.key] > 0:
            before[left.kind, left.key] -= 1
            continue
        rows.append(f"{left.kind}: {left.what}" + (f", from {left.site}" if left.site else ""))
    return tuple(rows)


def confirmed(finding: Finding) -> str:
    """How often it failed in real time, in words."""
    if finding.runs:
        return f"{finding.failed} of {finding.runs}"
    return "as the one that stands for it" if finding.inherits else "not confirmed apart"


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
        """All of it in a line; what is zero is said too, since it is a claim."""
        return (
            f"{self.trials} trials, {self.failed} failed; {self.not_reached} not reached, "
            f"{self.not_tried} not tried, {self.unresolved} unresolved, {self.not_applicable} N/A"
        )


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
        not_applicable=sum(tally.verdict is Verdict.NA for tally in tallies),
        canaries=len(canaries),
        flagged=sum(verdict is Verdict.FAIL for verdict in canaries),
    )


def not_applicable(run: Run) -> tuple[str, ...]:
    """Each reason for which a storm or an expectation did not apply, with how often."""
    seen: Counter[str] = Counter()
    for result in run.cells:
        for tally in result.storms:
            if tally.verdict is Verdict.NA:
                seen[f"{tally.storm}: {tally.why or 'does not apply'}"] += 1
        for note in result.notes:
            seen[f"{note.expectation}: {note.message}" if note.expectation else note.message] += 1
    return tuple(f"{text} (x{count})" if count > 1 else text for text, count in sorted(seen.items()))


def headline(run: Run) -> str:
    """The result in a few words."""
    if run.interrupted:
        return "interrupted; what follows is what was found so far"
    if run.errors:
        return run.errors[0].splitlines()[0]
    parts = []
    if run.comparison:
        kinds = Counter(change.kind for change in run.comparison if change.expectation)
        parts += [f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]] or ["no findings on either side"]
    elif run.cells:
        number = len(groups(run))
        parts.append(f"{number} finding{'' if number == 1 else 's'}" if number else "no findings")
    broken = [result for result in run.cells if result.verdict is Verdict.ERROR]
    if broken:
        parts.insert(0, f"{len(broken)} cells broken")
    if run.mutants:
        parts.append(mutants_line(run))
    if run.rules:
        lost = sum(not rule.held for rule in run.rules)
        parts.insert(0, f"{lost} of {len(run.rules)} rules broken" if lost else "all rules held")
    return ", ".join(parts) or "nothing was run"


def mutants_line(run: Run) -> str:
    """How the mutants ended, over all interpreters."""
    from ..gate.policy import fate

    fates = Counter(fate(mutant) for mutant in run.mutants)
    text = f"{fates['caught']} of {len(run.mutants) - fates['none']} mutants caught"
    return text + (f", {fates['survivor']} survive" if fates["survivor"] else "")


def facts(run: Run) -> tuple[tuple[str, str], ...]:
    """The head of a report: what was compared, on what, in which clock."""
    cells = [result.cell for result in run.cells]
    rows = [("base", run.base), ("head" if run.base else "revision", run.head)]
    pythons = sorted({cell.python for cell in cells} | {one.python for one in run.baselines}, key=_version)
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


def _version(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split(".") if part.isdigit())


def trial_of(run: Run, token: str) -> Trial | None:
    """The recorded trial of a token."""
    return next((trial for trial in run.trials if trial.token == token), None)
