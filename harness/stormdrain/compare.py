"""Base against head: which findings are gone, which are new, and what could not be compared.

Pure functions over the records of a run. Findings are matched by probe,
interpreter, backend, storm and expectation; lines are not part of the match,
since they move from revision to revision. A side that could not be decided is
never counted as a side that passed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .model import CellResult, Change, Event, Finding, StormTally, Trial, Verdict, parse_token

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


def doubtful(finding: Finding) -> bool:
    """Whether it was seen in virtual time and in none of its runs in real time: unresolved, no failure."""
    return finding.runs > 0 and finding.failed == 0


def standing(result: CellResult) -> tuple[Finding, ...]:
    """The findings of a cell that were not put in doubt."""
    return tuple(finding for finding in result.findings if not doubtful(finding))


@dataclass(frozen=True)
class Side:
    """One revision's view of one probe, interpreter and backend."""

    result: CellResult
    trials: dict[str, Trial]
    not_applicable: frozenset[tuple[str, str]]
    """(storm, expectation) that did not apply in any of its trials."""

    def findings(self, storm: str, expectation: str) -> tuple[Finding, ...]:
        """The findings of one storm and expectation, those that were confirmed themselves first."""
        found = [f for f in standing(self.result) if f.storm == storm and f.expectation == expectation]
        return tuple(sorted(found, key=lambda finding: (not finding.runs, finding.token)))

    def tally(self, storm: str) -> StormTally | None:
        """What the storm came to here, None where it was not run."""
        return next((tally for tally in self.result.storms if tally.storm == storm), None)

    def broken_in_calm(self, expectation: str) -> bool:
        """Whether the expectation fails here without any storm."""
        return bool(self.findings("calm", expectation))


def compare(cells: Iterable[CellResult], trials: Iterable[Trial]) -> tuple[Change, ...]:
    """Compare the cells whose role is `base` with those whose role is `head`.

    Returns:
        One change for each probe, interpreter, backend, storm and expectation
        that failed on a side, and one without expectation for each storm that
        failed on neither; nothing where there is no base.
    """
    by_cell: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.phase in ("storm", "calm"):
            by_cell[trial.cell].append(trial)
    sides: dict[tuple[str, str, str], dict[str, Side]] = defaultdict(dict)
    for result in cells:
        cell = result.cell
        key = (cell.probe, cell.python, cell.backend)
        sides[key][cell.role] = _side(result, by_cell[cell.key])
    if not any("base" in pair for pair in sides.values()):
        return ()
    changes = [
        change
        for key, pair in sides.items()
        for change in _compare_pair(key, pair.get("base"), pair.get("head"))
    ]
    return tuple(sorted(changes, key=lambda change: KINDS.index(change.kind)))


def _side(result: CellResult, trials: Sequence[Trial]) -> Side:
    seen: dict[tuple[str, str], int] = defaultdict(int)
    reached: dict[str, int] = defaultdict(int)
    for trial in trials:
        if trial.reached:
            reached[trial.storm] += 1
            for note in trial.na:
                seen[trial.storm, note.expectation] += 1
    nowhere = frozenset(key for key, count in seen.items() if count >= reached[key[0]])
    return Side(result, {trial.token: trial for trial in trials}, nowhere)


def _compare_pair(key: tuple[str, str, str], base: Side | None, head: Side | None) -> list[Change]:
    storms: dict[str, None] = {}
    for side in (head, base):
        if side is not None:
            storms.update(dict.fromkeys(tally.storm for tally in side.result.storms))
            storms.update(dict.fromkeys(finding.storm for finding in standing(side.result)))
    changes: list[Change] = []
    for side, other in ((head, "head"), (base, "base")):
        if side is not None and side.result.verdict is Verdict.ERROR:
            message = f"{other} could not be judged: {side.result.error or 'its baseline is broken'}"
            changes.append(Change("inconclusive", *key, "", "", message=message))
    for storm in storms:
        changes += _compare_storm(key, storm, base, head)
    return changes


def _compare_storm(
    key: tuple[str, str, str], storm: str, base: Side | None, head: Side | None
) -> list[Change]:
    expectations: dict[str, None] = {}
    for side in (head, base):
        if side is not None:
            found = (finding.expectation for finding in standing(side.result) if finding.storm == storm)
            expectations.update(dict.fromkeys(found))
    if not expectations:
        kind, message = _both_quiet(storm, base, head)
        return [Change(kind, *key, storm, "", message=message)] if kind else []
    changes = []
    for expectation in expectations:
        on_base = base.findings(storm, expectation) if base else ()
        on_head = head.findings(storm, expectation) if head else ()
        kind, message = _judge(storm, expectation, base, head, on_base, on_head)
        base_token, head_token = _tokens(storm, base, head, on_base, on_head)
        differs = _difference(base, head, base_token, head_token)
        changes.append(Change(kind, *key, storm, expectation, base_token, head_token, message, differs))
    return changes


def _judge(
    storm: str,
    expectation: str,
    base: Side | None,
    head: Side | None,
    on_base: tuple[Finding, ...],
    on_head: tuple[Finding, ...],
) -> tuple[str, str]:
    if on_base and on_head:
        return "still failing", f"{on_head[0].message} ({_share(base, storm, on_base)} on base, " + (
            f"{_share(head, storm, on_head)} on head)"
        )
    if on_head:
        message = on_head[0].message
        if base is None:
            return "new", message
        if base.broken_in_calm(expectation):
            return "still failing", f"{message} (on base it fails in calm already)"
        unsure = _unsure(base, storm, expectation)
        if unsure == "error":
            return "inconclusive", f"{message} (base could not be judged)"
        if unsure == "unresolved":
            return "inconclusive", f"{message} (unresolved on base)"
        if unsure:
            return "N/A on base", f"{message} (on base: {unsure})"
        return "regressed", message + _untried(base, storm, "base")
    message = on_base[0].message
    if head is None:
        return "inconclusive", f"{message} (head did not run it)"
    if head.broken_in_calm(expectation):
        return "inconclusive", f"{message} (on head it fails in calm already)"
    unsure = _unsure(head, storm, expectation)
    if unsure:
        return "inconclusive", f"{message} (on head: {unsure})"
    return "fixed", message + _untried(head, storm, "head")


def _unsure(side: Side, storm: str, expectation: str) -> str:
    """Why a side without a finding may not be called passing; empty where it may."""
    if side.result.verdict is Verdict.ERROR:
        return "error"
    tally = side.tally(storm)
    if tally is None:
        return "the storm did not run"
    if tally.verdict is Verdict.NA:
        return tally.why or "the storm does not apply"
    if (storm, expectation) in side.not_applicable:
        return f"{expectation} does not apply"
    return "unresolved" if tally.unresolved or tally.verdict is Verdict.UNRESOLVED else ""


def _both_quiet(storm: str, base: Side | None, head: Side | None) -> tuple[str, str]:
    if head is None:
        return "", ""
    mine = _unsure(head, storm, "")
    if mine in ("unresolved", "error"):
        return ("inconclusive", "unresolved on head") if mine == "unresolved" else ("", "")
    if mine:
        return "", ""
    if base is None:
        return "new", "passes"
    theirs = _unsure(base, storm, "")
    if theirs == "error":
        return "", ""
    if theirs == "unresolved":
        return "inconclusive", "unresolved on base, passes on head"
    return ("N/A on base", f"passes (on base: {theirs})") if theirs else ("still passing", "")


def _share(side: Side | None, storm: str, found: tuple[Finding, ...]) -> str:
    tally = side.tally(storm) if side else None
    return f"{len(found)} of {tally.trials}" if tally and tally.trials else str(len(found))


def _untried(side: Side, storm: str, name: str) -> str:
    tally = side.tally(storm)
    return f" ({tally.not_tried} not tried on {name})" if tally and tally.not_tried else ""


def _schedule(token: str) -> str:
    return token.partition("/")[2]


def _tokens(
    storm: str,
    base: Side | None,
    head: Side | None,
    on_base: tuple[Finding, ...],
    on_head: tuple[Finding, ...],
) -> tuple[str, str]:
    """A trial of each side, under the same schedule where both have one."""
    lead, follow = (on_head, base) if on_head else (on_base, head)
    follow_found = on_base if on_head else on_head
    if follow is None:
        chosen, partner = lead[0].token, ""
    else:
        others = {_schedule(token): token for token, trial in follow.trials.items() if trial.storm == storm}
        others.update({_schedule(finding.token): finding.token for finding in follow_found})
        chosen = next((f.token for f in lead if _schedule(f.token) in others), lead[0].token)
        partner = others.get(_schedule(chosen), next(iter(others.values()), ""))
    return (partner, chosen) if on_head else (chosen, partner)


def _difference(base: Side | None, head: Side | None, base_token: str, head_token: str) -> str:
    before = base.trials.get(base_token) if base else None
    after = head.trials.get(head_token) if head else None
    if before is None or after is None or before.observation is None or after.observation is None:
        return ""
    return first_difference(before.observation.timeline, after.observation.timeline)


_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|(?<=:)\d+|\d{3,}|/\S*/(?=[^/\s]*$)")


def _shape(event: Event) -> str:
    return _VOLATILE.sub("~", f"{event.what} {event.detail}".strip())


def first_difference(base: Sequence[Event], head: Sequence[Event]) -> str:
    """The first event that two timelines do not share, in words; empty where they agree.

    Addresses, process ids, line numbers and folders are not looked at.
    """
    for index in range(max(len(base), len(head))):
        left = base[index] if index < len(base) else None
        right = head[index] if index < len(head) else None
        if left is None or right is None or _shape(left) != _shape(right):
            return f"event {index + 1}: base: {_told(left)}; head: {_told(right)}"
    return ""


def _told(event: Event | None) -> str:
    if event is None:
        return "nothing more"
    return f"{event.what} {event.detail}".strip() + f" at {event.at:.2f} s"


def schedule_of(token: str) -> str:
    """The schedule's text of a token, or the token itself where it is none."""
    try:
        return str(parse_token(token).schedule)
    except ValueError:
        return token
