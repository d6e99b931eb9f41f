"""What a gate asks of the project's own tests: green, sharp against mutants, red without the change, covering it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model import Run
from .covered import Sides, with_coverage
from .gate import Asked
from .mutate import plan_request, run_mutants
from .session import Listen

if TYPE_CHECKING:
    from ..model.suites import RedGreen
    from ..mutation.runner import MutationRequest
    from ..mutation.together import Together


def suites_request(asked: Asked) -> MutationRequest | None:
    """What is asked of the suites that the configuration names, by itself or in plans; None where it names none.

    Raises:
        UsageError: a plan is wrong, or there is no such kind of mutant.
    """
    config = asked.config
    if not (config.plan.tests or config.plan.plans):
        return None
    return plan_request(
        [config.path(name) for name in config.plan.plans],
        config.plan.tests,
        base=asked.base,
        head=asked.head,
        pythons=asked.pythons,
        jobs=asked.jobs,
        seed=config.plan.seed,
        environment=config.environment,
        project=asked.project,
        kinds=config.plan.mutants,
        reuse=asked.reuse,
    )


def covered(run: Run, asked: Asked, suites: MutationRequest | None, listen: Listen) -> Run:
    """The run with what the diff touches and other jobs' data of it, where there are suites or such data.

    Raises:
        UsageError: data cannot be read, or are of other code.
    """
    from ..revisions import Cache

    if suites is None and not asked.coverage_data:
        return run
    sides = Sides(
        suites.base if suites else asked.base or "",
        asked.head,
        asked.pythons,
        suites.requires if suites else (),
        asked.config.environment,
        asked.project,
        Cache(progress=listen),
    )
    return with_coverage(run, sides, asked.config.policy.coverage.only, asked.coverage_data)


def with_suites(run: Run, asked: Asked, request: MutationRequest, listen: Listen, within: Together) -> Run:
    """The run with mutants, baselines, red tests and new tests; they end when `within` is stopped."""
    request = dataclasses.replace(request, touched=run.touched)
    # New tests on base need nothing of what mutants show, and wait for real time as well.
    red = within.begin(lambda: _new_tests_unless_off(request, asked.config.policy.redgreen, listen, within))
    run = _judged(run_mutants(run, request, listen, within), request, listen)
    return dataclasses.replace(run, redgreen=red.result())


def _judged(run: Run, request: MutationRequest, listen: Listen) -> Run:
    """The run with what base says of red tests."""
    from ..mutation.own import judge
    from ..revisions import Cache

    request = dataclasses.replace(request, cache=Cache(progress=listen))
    heads = [one for one in run.baselines if one.revision == run.baselines[0].revision]
    return dataclasses.replace(run, own=tuple(judge(request, heads, listen)))


def _new_tests_unless_off(
    request: MutationRequest, redgreen: str, listen: Listen, within: Together
) -> tuple[RedGreen, ...]:
    """What base says of new tests, where the change is one of more than tests."""
    from ..revisions import Cache

    request = dataclasses.replace(request, cache=Cache(progress=listen))
    if redgreen == "off" or not request.base or not _changes_code(request):
        return ()
    return _new_tests(request, listen, within)


def _changes_code(request: MutationRequest) -> bool:
    """Whether the layers of base and head differ; a change may well delete lines only."""
    sides = Sides(
        request.base,
        request.head,
        request.pythons,
        request.requires,
        request.environment,
        request.project,
        request.cache,
    )
    return sides.prepared(request.base).content != sides.prepared(request.head).content


def _new_tests(request: MutationRequest, listen: Listen, within: Together) -> tuple[RedGreen, ...]:
    """Head's new tests on base's source; only the files that have such tests are run."""
    from ..mutation import redgreen
    from ..mutation.runner import find_tests
    from ..revisions import resolve

    base, head = (
        resolve(spec, project=request.project, cache=request.cache, sdist=request.environment.sdist)
        for spec in (request.base, request.head)
    )
    _, cwd = find_tests(request, head)
    new = redgreen.new_tests(request, base, head)
    if new is None or head.source is None or Path(cwd) != head.source:
        return ()  # tests that lie elsewhere, for a release, are no part of the change
    files = [file for file, names in new.items() if any(name.rpartition(".")[2].startswith("test") for name in names)]
    if not files:
        return ()
    tests = tuple(Path(file).relative_to(Path(cwd).resolve()).as_posix() for file in files)
    try:
        found = redgreen.run(dataclasses.replace(request, tests=tests), listen, within)
    except UsageError as error:
        raise UsageError(
            f"new tests cannot be run on base: {error.what}", where=error.where, todo=error.todo
        ) from error
    # What is red on head too is told by the rule about the project's own tests.
    return tuple(one for one in found if one.kind != "broken")
