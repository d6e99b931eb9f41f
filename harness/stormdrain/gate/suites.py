"""The rules about tests: the project's own on head and base, and new ones on base's source."""

from __future__ import annotations

from collections import Counter

from ..model import RuleResult, Run
from ..model.suites import OwnTest, RedGreen
from .decide import broken_tests
from .policy import Policy

SHOWN = 4


def suite_rules(run: Run, policy: Policy) -> list[RuleResult]:
    """The lines of the rules; none where no suite was run."""
    rules = [_own(run)] if run.baselines or run.own else []
    return [*rules, _new(run, policy)] if run.redgreen else rules


def _own(run: Run) -> RuleResult:
    """Tests that head broke count; those that are not green on base either are named and count for nothing."""
    broken = broken_tests(run)
    kinds = Counter(one.kind for one in run.own)
    green = len({test for one in run.baselines for test in one.tests})
    rest = [f"{number} {kind}" for kind, number in kinds.items()]
    look = [_told(one) for one in (*broken, *(one for one in run.own if one not in broken))]
    figure = f"{green} of the project's own are green" + (f"; {', '.join(rest)}" if rest else "")
    return RuleResult("tests", not broken, figure, _shown(look), warning=bool(run.own))


def _told(one: OwnTest) -> str:
    return f"{one.kind}: {one.test} ({one.python}): {one.message}"


def _new(run: Run, policy: Policy) -> RuleResult:
    kinds = Counter(one.kind for one in run.redgreen)
    weak = [one for one in run.redgreen if one.kind != "red"]
    figure = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    held = policy.redgreen != "fail" or not weak
    look = _shown([_weak(one) for one in weak])
    return RuleResult("redgreen", held, f"new tests on base: {figure}", look, warning=bool(weak))


def _weak(one: RedGreen) -> str:
    return f"{one.kind}: {one.test} ({one.python})"


def _shown(rows: list[str]) -> str:
    more = [f"and {len(rows) - SHOWN} more, in run.json"] if len(rows) > SHOWN else []
    return "; ".join([*rows[:SHOWN], *more])
