"""The project's own tests that are not green on head: what became of each on base.

Head's suite is run as the baseline of its mutants anyway. Only where a test of it is
red is base's suite run too, and only the files of such tests: a test that is red on
both sides is pre-existing, and nobody's fault here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..errors import BaselineError, UsageError
from ..model import Baseline
from ..model.suites import OwnTest
from ..revisions import find_interpreters, prepare, resolve
from .campaign import Campaign
from .request import MutationRequest, find_tests
from .suite import SuiteProcess, SuiteSpec

Left = Mapping[str, str]
"""Test -> why it was left out of a baseline."""


def troubles(left_out: Left) -> dict[str, str]:
    """The tests of a baseline that are red or unstable; those that are skipped are no trouble."""
    return {test: why for test, why in left_out.items() if not why.startswith("skipped: ")}


def judge(request: MutationRequest, baselines: Iterable[Baseline], listen: Callable[[object], None]) -> list[OwnTest]:
    """Hold head's red and unstable tests against base.

    Args:
        request: head, base, tests and environment are used.
        baselines: of head.
        listen: gets progress lines and each :class:`OwnTest`.

    Raises:
        UsageError: base cannot be resolved or built.
    """
    found: list[OwnTest] = []
    for baseline in baselines:
        red = troubles(baseline.left_out)
        if not red:
            continue
        before = _on_base(request, baseline.python, red, listen) if request.base else None
        for test, why in red.items():
            found.append(_judge(test, baseline.python, why, before))
            listen(found[-1])
    return found


def _judge(test: str, python: str, why: str, before: Mapping[str, str] | None) -> OwnTest:
    unstable = why.startswith("unstable")
    then = None if before is None else before.get(test)
    if then is None:
        kind = "unstable" if unstable else "red" if before is None else "new and red"
    elif then == "":
        kind = "unstable" if unstable else "broken by head"
    else:
        kind = "pre-existing"
    return OwnTest(test, python, kind, _short(why), _short(then or ""))


def _short(why: str) -> str:
    lines = [line.strip() for line in why.strip().splitlines() if line.strip()]
    return (lines[0] if why.startswith(("red", "unstable")) else lines[-1])[:400] if lines else ""


def _on_base(
    request: MutationRequest, python: str, red: Iterable[str], listen: Callable[[object], None]
) -> dict[str, str]:
    """What base's tests of the same files came to: test -> why it was left out, empty where it is green."""
    revision = resolve(request.base, project=request.project, cache=request.cache, sdist=request.environment.sdist)
    # An interpreter is asked for as head's baseline names it; one given by its path has the same version.
    interpreter = next(one for one in find_interpreters(request.pythons) if one.version == python)
    environment = prepare(
        revision, interpreter, requires=request.requires, config=request.environment, cache=request.cache
    )
    try:
        _, cwd = find_tests(request, revision)
    except UsageError:
        return {}  # base does not have these tests
    files = dict.fromkeys(test.partition("::")[0] for test in red)
    there = tuple(file for file in files if (Path(cwd) / file).exists())
    if not there:
        return {}
    label = f"base on {python}"
    listen(f"{label}: {len(there)} files with red tests")
    spec = SuiteSpec(
        python=environment.python,
        layers=environment.path,
        files=(),
        tests=there,
        cwd=cwd,
        arguments=request.arguments,
        jobs=request.jobs,
        seed=request.seed,
        label=label,
    )
    with contextlib.suppress(BaselineError), SuiteProcess(spec) as suite:
        baseline = Campaign(suite, {}, {}, listen, label=label).baseline()
        return {**dict.fromkeys(baseline.tests, ""), **baseline.left_out}
    return dict.fromkeys(red, "red: base's suite cannot be collected")
