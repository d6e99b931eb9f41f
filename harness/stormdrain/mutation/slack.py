"""`stormdrain slack`: how much delay each test bears before it fails.

A test's margin is what was left on its tightest timeout. What it bears is found by
trying: every start of a process, or every turn of the loop, is made to take longer
on the virtual clock, which costs no real time, until the test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..model import Baseline
from ..model.suites import Slack
from ..revisions import Environment, find_interpreters, prepare, resolve
from .campaign import Campaign
from .runner import MutationRequest, completed, find_tests
from .suite import SuiteProcess, SuiteSpec

LEAST, MOST = 0.001, 60.0
"""Seconds of delay that are tried: less is noise, more is said to be borne."""
STEPS = 5
"""Steps of the search between a delay that is borne and one that is not."""


def run(request: MutationRequest, listen: Callable[[object], None]) -> tuple[Slack, ...]:
    """Measure the slack of the tests on head.

    Args:
        request: head, tests, interpreters and environment are used.
        listen: gets progress lines and each :class:`Slack`.

    Raises:
        UsageError: something in the request does not fit.
        BaselineError: the suite cannot be collected.
    """
    request, _ = completed(request)
    revision = resolve(request.head, project=request.project, cache=request.cache, sdist=request.environment.sdist)
    tests, cwd = find_tests(request, revision)
    found: list[Slack] = []
    for interpreter in find_interpreters(request.pythons):
        environment = prepare(
            revision, interpreter, requires=request.requires, config=request.environment, cache=request.cache
        )
        spec = suite_spec(request, environment, tests, cwd)
        for one in measure(spec, interpreter.version, listen):
            found.append(one)
            listen(one)
    return tuple(found)


def suite_spec(request: MutationRequest, environment: Environment, tests: Sequence[str], cwd: str) -> SuiteSpec:
    """The suite of a revision, with nothing in it to be mutated."""
    return SuiteSpec(
        python=environment.python,
        layers=environment.path,
        files=(),
        tests=tuple(tests),
        cwd=cwd,
        arguments=request.arguments,
        jobs=request.jobs,
        seed=request.seed,
        label=f"{environment.revision.label} on {environment.interpreter.version}",
    )


def measure(spec: SuiteSpec, python: str, listen: Callable[[object], None]) -> list[Slack]:
    """Measure the tests of a suite, those that are green unmutated."""
    with SuiteProcess(spec) as suite:
        campaign = Campaign(suite, {}, {}, listen, label=spec.label)
        baseline: Baseline = campaign.baseline()
        kept = campaign.facts.kept
        if not baseline.tests:
            return []
        ran = campaign.run([{"id": "timers", "items": kept, "timers": True}])["timers"]
        listen(f"{spec.label}: slack of {len(kept)} tests")
        virtual = [index for index in kept if index not in campaign.facts.real]
        starting = [index for index in virtual if index in campaign.facts.spawners]
        child = _search(campaign, starting, "child_delay")
        turn = _search(campaign, virtual, "turn_delay")
        return [
            _slack(suite.tests[index], python, ran.results[index], child.get(index), turn.get(index))
            for index in kept
            if index in ran.results
        ]


def _slack(test: str, python: str, record: dict[str, Any], child: float | None, turn: float | None) -> Slack:
    margin = record.get("margin") or (None, None)
    return Slack(
        test=test,
        python=python,
        waits=round(float(record.get("waits", 0.0)), 4),
        work=round(float(record.get("seconds", 0.0)), 4),
        margin=None if margin[0] is None else round(margin[0], 4),
        of=None if margin[1] is None else round(margin[1], 4),
        limit=record.get("limit"),
        child_start=child,
        turn=turn,
    )


def _search(campaign: Campaign, tests: Sequence[int], kind: str) -> dict[int, float]:
    """The largest delay that each test was seen to bear: doubled until it fails, then halved in between."""
    borne = dict.fromkeys(tests, 0.0)
    failed = dict.fromkeys(tests, float("inf"))
    delay = LEAST
    while delay < MOST and (left := [index for index in tests if failed[index] == float("inf")]):
        delay = min(delay * 4, MOST)
        _try(campaign, dict.fromkeys(left, delay), kind, borne, failed)
    for _ in range(STEPS):
        open_tests = [index for index in tests if failed[index] < float("inf")]
        middle = {index: (borne[index] + failed[index]) / 2 for index in open_tests}
        _try(campaign, middle, kind, borne, failed)
    return {index: round(value, 4) for index, value in borne.items()}


def _try(
    campaign: Campaign,
    delays: dict[int, float],
    kind: str,
    borne: dict[int, float],
    failed: dict[int, float],
) -> None:
    """Run each test with its delay and note which side of the limit that is on."""
    jobs = [{"id": str(index), "items": [index], kind: delay} for index, delay in delays.items()]
    for key, ran in campaign.run(jobs).items():
        index = int(key)
        passed = ran.results.get(index, {}).get("out") == "passed"
        if passed:
            borne[index] = max(borne[index], delays[index])
        else:
            failed[index] = min(failed[index], delays[index])
