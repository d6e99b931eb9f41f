"""From the records of a run to its verdict and its exit code.

Every command ends here, so that one figure cannot mean two things: only head's
findings decide, base's excuse what it had already, what was accepted is taken
out, and what could not be decided is never a pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..compare import NEW_FAILURES, Matter, change_key, compare, finding_key, standing
from ..model import CellResult, Change, Finding, MutantRecord, Run, Verdict, merge
from ..model.suites import OwnTest
from .policy import Policy, fate

_SEVERITY = (70, 2, 4)
"""Exit codes of cells that are ERROR, the one that wins first."""


def judged(run: Run) -> tuple[CellResult, ...]:
    """The cells whose findings decide: head's where there is a base, else all."""
    return tuple(result for result in run.cells if result.cell.role != "base")


def counting(run: Run, policy: Policy) -> tuple[Finding, ...]:
    """The findings that count: on head, covered by the policy, not accepted, and new if the base rule is."""
    accepted = {entry.id for entry in policy.accepted}
    excused = _excused(run.comparison) if policy.base_rule == "new" else frozenset()
    return tuple(
        finding
        for result in judged(run)
        for finding in standing(result)
        if policy.covers(finding.expectation)
        and finding.id not in accepted
        and finding_key(result, finding) not in excused
    )


def _excused(changes: Iterable[Change]) -> frozenset[tuple[str, str, str, Matter]]:
    return frozenset(change_key(change) for change in changes if change.expectation and change.kind not in NEW_FAILURES)


def unresolved(run: Run) -> int:
    """Trials and storms of head that could not be decided."""
    return sum(
        max(tally.unresolved, 1)
        for result in judged(run)
        for tally in result.storms
        if tally.unresolved or tally.verdict is Verdict.UNRESOLVED
    ) or sum(result.verdict is Verdict.UNRESOLVED for result in judged(run))


def survivors(run: Run, policy: Policy, watched: tuple[str, ...] | None = None) -> tuple[MutantRecord, ...]:
    """Mutants that no test catches and that are not accepted."""
    accepted = {entry.id for entry in policy.accepted}
    lost = {"survivor"} | ({"caught only unwatched"} if policy.unwatched == "fail" else set())
    return tuple(
        mutant
        for mutant in run.mutants
        if fate(mutant, watched) in lost and mutant.id not in accepted and mutant.name not in accepted
    )


def undecided(run: Run, policy: Policy) -> tuple[MutantRecord, ...]:
    """Mutants of which it is not known whether a test catches them."""
    accepted = {entry.id for entry in policy.accepted}
    return tuple(
        mutant
        for mutant in run.mutants
        if fate(mutant) == "undecided" and mutant.id not in accepted and mutant.name not in accepted
    )


def broken_tests(run: Run) -> tuple[OwnTest, ...]:
    """The project's own tests that head broke, or that are red without a base to hold them against."""
    return tuple(one for one in run.own if one.kind in ("broken by head", "new and red", "red"))


def error_code(run: Run) -> int:
    """The exit code of cells that are ERROR, 0 where none is."""
    codes = {result.exit_code or 4 for result in run.cells if result.verdict is Verdict.ERROR}
    return next((code for code in _SEVERITY if code in codes), max(codes, default=0))


def conclude(run: Run, policy: Policy | None = None, watched: tuple[str, ...] | None = None) -> Run:
    """The run with comparison, freeze, verdict and exit code filled in.

    Args:
        run: the records; what it holds of those four is replaced.
        policy: the gate's rules; by default every finding counts, with a base every new one.
        watched: interpreters that CI runs, None where it is not known.
    """
    policy = policy or Policy()
    run = dataclasses.replace(
        run,
        comparison=compare(run.cells, run.trials),
        environment={
            **run.environment,
            **{f"{one.cell.revision} {one.cell.python}": one.cell.freeze for one in run.cells},
        },
    )
    verdict, code = _conclusion(run, policy, watched)
    return dataclasses.replace(run, verdict=verdict, exit_code=code)


def _conclusion(run: Run, policy: Policy, watched: tuple[str, ...] | None) -> tuple[Verdict, int]:
    kinds = {one.kind for one in run.redgreen} if policy.redgreen == "fail" else set()
    broken = error_code(run) or (4 if "broken" in kinds else 0)
    if broken:
        return Verdict.ERROR, broken
    lost = survivors(run, policy, watched)
    if (
        counting(run, policy)
        or len(lost) > policy.max_survivors
        or kinds & {"decorative", "wrong reason"}
        or broken_tests(run)
    ):
        return Verdict.FAIL, 1
    if (unresolved(run) and "UNRESOLVED" in policy.fail_on) or undecided(run, policy) or "unstable" in kinds:
        return Verdict.UNRESOLVED, 3
    if not (run.cells or run.mutants or run.baselines or run.redgreen or run.slack):
        return Verdict.NA, 3
    passed = (
        [Verdict.PASS] if run.mutants or run.baselines or kinds or any(_shown(result) for result in judged(run)) else []
    )
    return merge(passed), 0


def _shown(result: CellResult) -> bool:
    return result.verdict not in (Verdict.NA, Verdict.ERROR)
