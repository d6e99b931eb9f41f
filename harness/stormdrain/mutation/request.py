"""What is asked of `stormdrain mutate`, completed by what plans say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import UsageError
from ..model import Touched
from ..revisions import Cache, EnvironmentConfig, Revision, available_interpreters
from .plan import Plan, read_plan

SOURCES = ("plan", "revert", "operator", "general", "neutral")
"""The kinds of mutants that are made where nothing else is said."""


@dataclass(frozen=True)
class MutationRequest:
    """What is asked of `stormdrain mutate`.

    head, base: revisions; what a plan's `[target]` says is taken where they are empty.
    tests: looked up in head's tree, then in the current directory.
    plans: plan files; symbols: qualified names that general sources act on.
    pythons: interpreters, as `find_interpreters` takes them; none: the newest one found.
    sources: which kinds of mutants are made.
    tests_too: whether the assertions of tests that are new since base are mutated, too.
    shard: `(k, n)`: only the k-th of n parts of the mutants, by their ids.
    reuse: whether results of before are taken, where nothing that they depend on has changed.
    first: stop at the first test that catches a mutant.
    confirm_seconds: budget of real time for confirming survivors, for each interpreter.
    own: whether head's suite is run even where there is no mutant of it.
    touched: files of which the baselines say which touched statements ran.
    """

    head: str = ""
    base: str = ""
    tests: tuple[str, ...] = ()
    plans: tuple[Path, ...] = ()
    symbols: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    requires: tuple[str, ...] = ()
    sources: tuple[str, ...] = SOURCES
    tests_too: bool = False
    shard: tuple[int, int] = (1, 1)
    reuse: bool = False
    jobs: int = 2
    first: bool = False
    seed: int = 0
    confirm_seconds: float = 60.0
    own: bool = False
    touched: tuple[Touched, ...] = ()
    arguments: tuple[str, ...] = ()
    project: Path = field(default_factory=Path.cwd)
    cache: Cache = field(default_factory=Cache)


def completed(request: MutationRequest) -> tuple[MutationRequest, tuple[Plan, ...]]:
    """Take from the plans what the request leaves open; the first plan wins over later ones."""
    plans = tuple(read_plan(file) for file in request.plans)
    head = request.head or next((plan.head for plan in plans if plan.head), "worktree")
    base = request.base or next((plan.base for plan in plans if plan.base), "")
    tests = request.tests or next((plan.tests for plan in plans if plan.tests), ())
    if not tests:
        raise UsageError("no tests are named", where="--tests", todo="give --tests PATH, or `tests` in the plan")
    requires = request.requires + tuple(line for plan in plans for line in plan.requires)
    found = available_interpreters() if not request.pythons else ()
    pythons = (found[-1].path,) if found else request.pythons
    return replace(request, head=head, base=base, tests=tests, requires=requires, pythons=pythons), plans


def find_tests(request: MutationRequest, revision: Revision) -> tuple[tuple[str, ...], str]:
    """The tests as pytest takes them, and where to run it: in head's tree if they are there, else here.

    Raises:
        UsageError: a test is in neither.
    """
    for folder in filter(None, (revision.source, Path.cwd(), request.project)):
        if all((folder / name.partition("::")[0]).exists() for name in request.tests):
            return request.tests, str(folder)
    raise UsageError(
        f"these tests are not there: {', '.join(request.tests)}",
        where="--tests",
        todo="give paths in head's tree or in the current directory",
    )
