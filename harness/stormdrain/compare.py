"""Base against head: which findings are gone, which are new, and what could not be compared.

Pure functions over the records of a run. Findings are matched by probe,
interpreter, backend, storm, aspect (the storm's variant, its wrapper and the
calls that were made to fail) and expectation. Points and lines are not part of
the match, since they move from revision to revision. A side that could not be
decided is never counted as a side that passed.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import CellResult, Change, Finding, StormTally, Trial, Verdict, parse_token
from .reporting.timeline import first_difference
from .storms import SEARCH

KINDS = (
    "regressed",
    "new",
    "N/A on base",
    "inconclusive",
    "still failing",
    "fixed",
    "still passing",
)
"""Every kind of change, the worst first."""

NEW_FAILURES = ("regressed", "new", "N/A on base", "inconclusive")
"""Kinds under which a finding on head is one that base did not have."""

Key = tuple[str, str, str]
"""Probe, interpreter, backend."""


def doubtful(finding: Finding) -> bool:
    """Whether it was seen in virtual time and in none of its runs in real time: unresolved, no failure."""
    return finding.runs > 0 and finding.failed == 0


def standing(result: CellResult) -> tuple[Finding, ...]:
    """The findings of a cell that were not put in doubt."""
    return tuple(finding for finding in result.findings if not doubtful(finding))


def untried(tally: StormTally) -> bool:
    """Whether the budget ended before the storm had a single trial."""
    return not tally.trials and tally.not_tried > 0


@functools.lru_cache(maxsize=65536)
def aspect_of(token: str) -> str:
    """What a schedule is about within its storm, without its points and seconds."""
    try:
        return parse_token(token).schedule.aspect
    except ValueError:
        return ""


@dataclass(frozen=True)
class Matter:
    """What is compared: an expectation under a storm, in one aspect of it."""

    storm: str
    aspect: str
    expectation: str


def matter_of(finding: Finding) -> Matter:
    """What a finding is about."""
    return Matter(finding.storm, aspect_of(finding.token), finding.expectation)


def change_key(change: Change) -> tuple[str, str, str, Matter]:
    """By which a finding of a cell finds its change."""
    matter = Matter(change.storm, change.aspect, change.expectation)
    return change.probe, change.python, change.backend, matter


def finding_key(result: CellResult, finding: Finding) -> tuple[str, str, str, Matter]:
    """The key of :func:`change_key` for a finding of a cell."""
    cell = result.cell
    return cell.probe, cell.python, cell.backend, matter_of(finding)


@dataclass(frozen=True)
class Side:
    """One revision's view of one probe, interpreter and backend."""

    name: str
    result: CellResult
    trials: tuple[Trial, ...]

    def findings(self, matter: Matter) -> tuple[Finding, ...]:
        """The standing findings of a matter, those that were confirmed themselves first."""
        found = [finding for finding in standing(self.result) if matter_of(finding) == matter]
        return tuple(sorted(found, key=lambda finding: (not finding.runs, bool(finding.inherits), finding.token)))

    def tally(self, storm: str) -> StormTally | None:
        """What the storm came to here, None where it was not run."""
        return next((tally for tally in self.result.storms if tally.storm == storm), None)

    def broken_in_calm(self, expectation: str) -> bool:
        """Whether the expectation fails here without any storm."""
        return any(f.storm == "calm" and f.expectation == expectation for f in standing(self.result))

    def alike(self, storm: str, aspect: str) -> tuple[Trial, ...]:
        """The recorded trials of a storm's aspect."""
        return tuple(one for one in self.trials if one.storm == storm and aspect_of(one.token) == aspect)

    def unsure(self, matter: Matter) -> tuple[str, str]:
        """Why a side without a finding may not be called passing: a kind and words; empty where it may.

        The kinds are `error`, `unresolved` and `N/A`.
        """
        if self.result.verdict is Verdict.ERROR:
            return "error", f"{self.name} could not be judged"
        if self.result.verdict is Verdict.NA and self.result.error:
            return "N/A", self.result.error
        tally = self.tally(matter.storm)
        if tally is None:
            return "N/A", "the storm did not run"
        if untried(tally):
            return "unresolved", "not tried within the budget"
        if tally.verdict is Verdict.NA:
            return "N/A", tally.why or "the storm does not apply"
        if any(doubtful(finding) and matter_of(finding) == matter for finding in self.result.findings):
            return "unresolved", "unresolved"
        return self._unsure_by_trials(matter, tally)

    def _unsure_by_trials(self, matter: Matter, tally: StormTally) -> tuple[str, str]:
        open_ = tally.unresolved or tally.verdict is Verdict.UNRESOLVED
        if not any(trial.storm == matter.storm for trial in self.trials):
            if matter.storm == SEARCH:
                return "unresolved", "this schedule was not thrown here"
            return ("unresolved", "unresolved") if open_ else ("", "")
        alike = self.alike(matter.storm, matter.aspect)
        if not alike:
            if tally.not_tried:
                return "unresolved", "not tried within the budget"
            return "N/A", "there is no such schedule"
        reached = [trial for trial in alike if trial.reached]
        if not reached:
            return "N/A", "the operation does not come to that point"
        if any(trial.verdict in (Verdict.UNRESOLVED, Verdict.ERROR) for trial in reached):
            return "unresolved", "unresolved"
        if all(any(note.expectation == matter.expectation for note in trial.na) for trial in reached):
            why = next(n.message for n in reached[0].na if n.expectation == matter.expectation)
            return "N/A", why or f"{matter.expectation} does not apply"
        return "", ""


def compare(cells: Iterable[CellResult], trials: Iterable[Trial]) -> tuple[Change, ...]:
    """Compare the cells whose role is `base` with those whose role is `head`.

    Returns:
        One change for each probe, interpreter, backend, storm, aspect and
        expectation that failed on a side, and one without expectation for each
        storm that failed on neither; nothing where there is no base.
    """
    by_cell: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.phase in ("storm", "calm"):
            by_cell[trial.cell].append(trial)
    sides: dict[Key, dict[str, Side]] = defaultdict(dict)
    for result in cells:
        cell = result.cell
        key = (cell.probe, cell.python, cell.backend)
        sides[key][cell.role] = Side(cell.role, result, tuple(by_cell[cell.key]))
    if not any("base" in pair for pair in sides.values()):
        return ()
    changes = [
        change for key, pair in sides.items() for change in _compare_pair(key, pair.get("base"), pair.get("head"))
    ]
    return tuple(sorted(changes, key=lambda change: KINDS.index(change.kind)))


def _compare_pair(key: Key, base: Side | None, head: Side | None) -> list[Change]:
    there = [side for side in (head, base) if side is not None]
    changes: list[Change] = []
    for side in there:
        if side.result.verdict is Verdict.ERROR:
            message = f"{side.name} could not be judged: {side.result.error or 'its baseline is broken'}"
            changes.append(Change("inconclusive", *key, "", "", message=message))
    matters = dict.fromkeys(matter_of(finding) for side in there for finding in standing(side.result))
    changes += [_compare_matter(key, matter, base, head) for matter in matters]
    loud = {matter.storm for matter in matters}
    storms = dict.fromkeys(tally.storm for side in there for tally in side.result.storms)
    for storm in storms:
        kind, message = _both_quiet(storm, base, head) if storm not in loud else ("", "")
        if kind:
            changes.append(Change(kind, *key, storm, "", message=message))
    return changes


def _compare_matter(key: Key, matter: Matter, base: Side | None, head: Side | None) -> Change:
    on_base = base.findings(matter) if base else ()
    on_head = head.findings(matter) if head else ()
    kind, message = _judge(matter, base, head, on_base, on_head)
    tokens = _tokens(matter, base, head, on_base, on_head)
    differs = _difference(base, head, tokens) if kind != "still failing" else ""
    return Change(kind, *key, matter.storm, matter.expectation, *tokens, message, differs, matter.aspect)


def _judge(
    matter: Matter,
    base: Side | None,
    head: Side | None,
    on_base: tuple[Finding, ...],
    on_head: tuple[Finding, ...],
) -> tuple[str, str]:
    if on_base and on_head:
        shares = f"{_share(base, matter, on_base)} on base, {_share(head, matter, on_head)} on head"
        return "still failing", f"{on_head[0].message} ({shares})"
    if on_head:
        message = on_head[0].message
        if base is None:
            return "new", message
        if base.broken_in_calm(matter.expectation):
            return "still failing", f"{message} (on base it fails in calm already)"
        kind, why = base.unsure(matter)
        if kind:
            return "N/A on base" if kind == "N/A" else "inconclusive", f"{message} (on base: {why})"
        return "regressed", message + _untried(base, matter.storm)
    message = on_base[0].message
    if head is None:
        return "inconclusive", f"{message} (head did not run it)"
    if head.broken_in_calm(matter.expectation):
        return "inconclusive", f"{message} (on head it fails in calm already)"
    kind, why = head.unsure(matter)
    if kind:
        return "inconclusive", f"{message} (on head: {why})"
    return "fixed", message + _untried(head, matter.storm)


def _both_quiet(storm: str, base: Side | None, head: Side | None) -> tuple[str, str]:
    """The kind of a storm that has findings on neither side; empty where there is nothing to say."""
    if head is None:
        return "", ""
    mine = _quiet(head, storm)
    if mine in ("N/A", "error"):
        return "", ""
    if mine:
        return "inconclusive", "unresolved or not tried on head"
    if base is None:
        return "new", "passes"
    theirs = _quiet(base, storm)
    if theirs == "unresolved":
        return "inconclusive", "unresolved or not tried on base, passes on head"
    return {"error": ("", ""), "N/A": ("N/A on base", "passes on head")}.get(theirs, ("still passing", ""))


def _quiet(side: Side, storm: str) -> str:
    if side.result.verdict is Verdict.ERROR:
        return "error"
    tally = side.tally(storm)
    if tally is not None and untried(tally):
        return "unresolved"
    if tally is None or tally.verdict is Verdict.NA:
        return "N/A"
    return "unresolved" if tally.unresolved or tally.verdict is Verdict.UNRESOLVED else ""


def _share(side: Side | None, matter: Matter, found: tuple[Finding, ...]) -> str:
    tried = len(side.alike(matter.storm, matter.aspect)) if side else 0
    tally = side.tally(matter.storm) if side else None
    tried = tried or (tally.trials if tally else 0)
    return f"{len(found)} of {tried}" if tried else str(len(found))


def _untried(side: Side, storm: str) -> str:
    tally = side.tally(storm)
    return f" ({tally.not_tried} not tried on {side.name})" if tally and tally.not_tried else ""


def _schedule(token: str) -> str:
    return token.partition("/")[2]


def _tokens(
    matter: Matter,
    base: Side | None,
    head: Side | None,
    on_base: Sequence[Finding],
    on_head: Sequence[Finding],
) -> tuple[str, str]:
    """A trial of base and one of head, under the same schedule where both have one."""
    lead, follow, found = (on_head, base, on_base) if on_head else (on_base, head, on_head)
    others: dict[str, str] = {}
    if follow is not None:
        others = {_schedule(trial.token): trial.token for trial in follow.alike(matter.storm, matter.aspect)}
        others |= {_schedule(finding.token): finding.token for finding in found}
    chosen = next((f.token for f in lead if _schedule(f.token) in others), lead[0].token)
    partner = others.get(_schedule(chosen), next(iter(others.values()), ""))
    return (partner, chosen) if on_head else (chosen, partner)


def _difference(base: Side | None, head: Side | None, tokens: tuple[str, str]) -> str:
    """The first difference between the timelines of two trials, where both were recorded."""
    found = []
    for side, token in zip((base, head), tokens, strict=True):
        trials = side.trials if side else ()
        trial = next((one for one in trials if one.token == token), None)
        if trial is None or trial.observation is None:
            return ""
        found.append(trial.observation.timeline)
    return first_difference(*found)
