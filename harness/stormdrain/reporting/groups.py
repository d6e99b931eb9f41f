"""The findings of a run as problems: what is one is told once, however many schedules and cells show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..compare import KINDS, change_key, finding_key, standing
from ..model import Cell, Change, Finding, Observation, Run, Trial
from .kills import version_key


@dataclass(frozen=True)
class Group:
    """Findings that are one problem: same probe, side, expectation, suspension line and comparison with base.

    lead: the one that is shown, if possible one that was confirmed itself.
    cells: where it was found. storms: how many schedules of each storm came to it. ids: for acceptance.
    trial, calm: what was seen under the lead's schedule, and in calm.
    kind: how it compares with base (`regressed`, ...), empty where there is none.
    differs: the first timeline event that differs from base.
    """

    lead: Finding
    cells: tuple[Cell, ...]
    storms: dict[str, int]
    ids: tuple[str, ...]
    trial: Trial | None = None
    calm: Observation | None = None
    kind: str = ""
    differs: str = ""

    @property
    def others(self) -> int:
        """How many more schedules come to the same."""
        return sum(self.storms.values()) - 1

    @property
    def probe(self) -> str:
        """The probe's name, or the names of its parameter sets."""
        return ", ".join(dict.fromkeys(cell.probe for cell in self.cells))

    @property
    def where(self) -> str:
        """Side, interpreters and backends, in words."""
        pythons = sorted({cell.python for cell in self.cells}, key=version_key)
        backends = sorted({cell.backend for cell in self.cells})
        parts = (self.cells[0].role, " ".join(pythons), " ".join(backends))
        return ", ".join(part for part in parts if part)

    @property
    def under(self) -> str:
        """The storms, with how many schedules of each."""
        return ", ".join(f"{storm} (x{count})" if count > 1 else storm for storm, count in self.storms.items())

    @property
    def sentence(self) -> str:
        """What was seen, in a sentence: the message, with its detail where that only repeats and adds."""
        message = self.lead.message
        lead, colon, tail = message.partition(": ")
        if colon and len(self.lead.seen) == 1 and self.lead.seen[0].startswith(tail):
            return f"{lead}: {self.lead.seen[0]}"
        return message

    @property
    def seen(self) -> tuple[str, ...]:
        """Further details, as far as the sentence does not say them."""
        return tuple(text for text in self.lead.seen if text not in self.sentence)

    @property
    def left(self) -> tuple[str, ...]:
        """What was left when the trial had settled, as far as the finding does not say it itself."""
        observation = self.trial.observation if self.trial else None
        if observation is None:
            return ()
        said = " ".join((self.lead.message, *self.lead.seen))
        return tuple(row for row in left_over(observation, self.calm) if _subject_of(row) not in said)


def group_findings(run: Run, *, role: str | None = None) -> tuple[Group, ...]:
    """The findings, grouped; those that base does not have come first.

    Args:
        run: the run.
        role: only cells with this role; by default all but base's.
    """
    changes = {change_key(change): change for change in run.comparison if change.expectation}
    alike: dict[tuple[object, ...], list[tuple[Cell, Finding, Change | None]]] = {}
    for result in run.cells:
        cell = result.cell
        if cell.role != role if role is not None else cell.role == "base":
            continue
        for finding in standing(result):
            change = changes.get(finding_key(result, finding))
            kind = change.kind if change else ""
            family = cell.probe.partition("[")[0]
            key = (family, cell.revision, cell.role, finding.expectation, finding.site, kind)
            alike.setdefault(key, []).append((cell, finding, change))
    trials = first_trials(run)
    calm = {trial.cell: trial.observation for trial in run.trials if trial.phase == "calm"}
    found = [_group(members, trials, calm) for members in alike.values()]
    return tuple(sorted(found, key=lambda group: KINDS.index(group.kind) if group.kind in KINDS else 0))


def _group(
    members: Sequence[tuple[Cell, Finding, Change | None]],
    trials: Mapping[str, Trial],
    calm: Mapping[str, Observation | None],
) -> Group:
    cell, lead, change = min(members, key=lambda member: (bool(member[1].inherits), -member[1].runs))
    storms = Counter(finding.storm for _, finding, _ in members)
    return Group(
        lead,
        tuple({one.key: one for one, _, _ in members}.values()),
        {lead.storm: storms.pop(lead.storm), **storms},
        tuple(dict.fromkeys(finding.id for _, finding, _ in members)),
        trials.get(lead.token),
        calm.get(cell.key),
        change.kind if change else "",
        change.differs_from if change else "",
    )


def first_trials(run: Run) -> dict[str, Trial]:
    """Trials by token, the one that found it before the ones that confirmed it."""
    found: dict[str, Trial] = {}
    for trial in sorted(run.trials, key=lambda trial: trial.phase == "confirm"):
        found.setdefault(trial.token, trial)
    return found


def _subject_of(row: str) -> str:
    """What a row of left-overs is about: the process id, or all of it."""
    return row.split()[1] if row.startswith("pid ") else row.partition(": ")[2].partition(", from")[0]


def left_over(observation: Observation, calm: Observation | None = None) -> tuple[str, ...]:
    """What was there after settling, beyond what calm leaves: processes with their state, then the rest."""
    rows = [
        f"pid {process.pid} {process.state}"
        + (f" ({process.status})" if process.status else "")
        + f": {process.command}"
        for process in observation.processes
        if process.state != "gone"
    ]
    usual = Counter((left.kind, left.key) for left in (calm.left if calm else observation.before))
    for left in observation.left:
        if left.kind == "process":
            continue
        if usual[left.kind, left.key] > 0:
            usual[left.kind, left.key] -= 1
            continue
        rows.append(f"{left.kind}: {left.what}" + (f", from {left.site}" if left.site else ""))
    return tuple(rows)


def confirmed(finding: Finding) -> str:
    """How often it failed in real time, in words."""
    if not finding.runs:
        return "not confirmed"
    text = f"{finding.failed} of {finding.runs} failed"
    return f"{text} (another schedule that stands for it)" if finding.inherits else text
