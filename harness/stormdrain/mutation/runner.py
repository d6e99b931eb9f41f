"""`stormdrain mutate`: from a request to the records of mutants and baselines.

For each revision that mutants start from, and each interpreter, one suite is
collected and put through the phases of a campaign. The results of a mutant over all
interpreters make one record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..errors import UsageError
from ..model import Baseline, MutantRecord
from ..revisions import (
    Cache,
    Environment,
    EnvironmentConfig,
    Interpreter,
    Revision,
    find_interpreters,
    prepare,
    resolve,
)
from ..symbols import Symbols
from . import outcomes
from .assertions import assertions, changed_in, files_of_tests
from .campaign import Campaign, Ran
from .confirm import confirm
from .general import general
from .mutant import Mutant, numbered, planned
from .neutral import neutral
from .operators import apply_operators
from .plan import Plan, PlannedMutant, read_plan
from .revert import reverts
from .sources import Sources, changed_files, read_sources
from .suite import SuiteProcess, SuiteSpec
from .targets import changed_lines, symbol_lines

Listen = Callable[[object], None]
SOURCES = ("plan", "revert", "operator", "general", "neutral")
"""The kinds of mutants that are made where nothing else is said."""


@dataclass(frozen=True)
class MutationRequest:
    """What is asked of `stormdrain mutate`.

    head, base: revisions; what a plan's `[target]` says is taken where they are empty.
    tests: looked up in head's tree, then in the current directory.
    plans: plan files; symbols: qualified names that general sources act on.
    pythons: interpreters, as `find_interpreters` takes them.
    sources: which kinds of mutants are made.
    tests_too: whether the assertions of tests that are new since base are mutated, too.
    first: stop at the first test that catches a mutant.
    confirm_seconds: budget of real time for confirming survivors, for each interpreter.
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
    jobs: int = 2
    first: bool = False
    seed: int = 0
    confirm_seconds: float = 60.0
    arguments: tuple[str, ...] = ()
    project: Path = field(default_factory=Path.cwd)
    cache: Cache = field(default_factory=Cache)


@dataclass(frozen=True)
class Side:
    """One revision that mutants start from: its mutants, and its environment on each interpreter."""

    revision: Revision
    environments: tuple[Environment, ...]
    sources: Sources
    mutants: tuple[Mutant, ...]
    test_files: Mapping[str, str] = field(default_factory=dict)


def run(request: MutationRequest, listen: Listen) -> tuple[tuple[MutantRecord, ...], tuple[Baseline, ...]]:
    """Run mutants.

    Args:
        request: what is asked.
        listen: gets progress lines (`str`), each `Baseline` and each `MutantRecord` as it comes.

    Returns:
        The records of all mutants, and a baseline for each revision and interpreter.

    Raises:
        UsageError: something in the request does not fit.
        BaselineError: a suite cannot be collected, or nothing of it is usable on any interpreter.
    """
    request, plans = completed(request)
    interpreters = find_interpreters(request.pythons)
    records: list[MutantRecord] = []
    baselines: list[Baseline] = []
    for side in sides(request, plans, interpreters, listen):
        found, ground = _run_side(request, side, listen)
        records += found
        baselines += ground
    return tuple(records), tuple(baselines)


def completed(request: MutationRequest) -> tuple[MutationRequest, tuple[Plan, ...]]:
    """Take from the plans what the request leaves open; the first plan wins over later ones."""
    plans = tuple(read_plan(file) for file in request.plans)
    head = request.head or next((plan.head for plan in plans if plan.head), "worktree")
    base = request.base or next((plan.base for plan in plans if plan.base), "")
    tests = request.tests or next((plan.tests for plan in plans if plan.tests), ())
    if not tests:
        raise UsageError(
            "no tests are named", where="--tests", todo="give --tests PATH, or `tests` in the plan"
        )
    requires = request.requires + tuple(line for plan in plans for line in plan.requires)
    return replace(request, head=head, base=base, tests=tests, requires=requires), plans


def sides(
    request: MutationRequest, plans: Sequence[Plan], interpreters: Sequence[Interpreter], listen: Listen
) -> Iterator[Side]:
    """The revisions that mutants start from, head first, with their mutants."""
    wanted: dict[str, list[PlannedMutant]] = {request.head: []}
    if "plan" in request.sources:
        for plan in plans:
            for one in plan.mutants:
                wanted.setdefault(one.head or request.head, []).append(one)
    for spec, entries in wanted.items():
        environments = _environments(request, spec, interpreters, listen)
        layer = environments[0].layer
        base: Mapping[str, bytes] = {}
        if spec == request.head and request.base:
            base = changed_files(
                _environments(request, request.base, interpreters[:1], listen)[0].layer, layer
            )
        named = request.symbols if spec == request.head else ()
        sources, placed = read_sources(layer, entries, base, named)
        made = [planned(one, sources.files, sources.symbols, sources.existing) for one in entries]
        if base and "revert" in request.sources:
            made += reverts(base, sources.files, sources.symbols)
        lines = changed_lines(base, sources.files)
        for path, more in symbol_lines(placed, sources.symbols).items():
            lines.setdefault(path, set()).update(more)
        made += _by_operators(request, sources, lines, made)
        files: dict[str, str] = {}
        if request.tests_too and spec == request.head:
            files = _add_assertions(request, environments[0].revision, sources, made)
        if made:
            mutants = numbered(made, sources.files)
            yield Side(environments[0].revision, environments, sources, mutants, files)


def _add_assertions(
    request: MutationRequest, revision: Revision, sources: Sources, made: list[Mutant]
) -> dict[str, str]:
    """Add the mutants of assertions and their files. Returns the files."""
    tests, cwd = find_tests(request, revision)
    base = None
    if request.base:
        base = resolve(request.base, project=request.project, cache=request.cache).source
    found = files_of_tests(tests, Path(cwd))
    for name, real in found.items():
        sources.files[name] = Path(real).read_bytes()
        sources.symbols[name] = Symbols(sources.files[name], where=name)
        lines = changed_in(base / name if base else None, Path(real))
        made += assertions(name, sources.symbols[name], lines)
    return found


def _by_operators(
    request: MutationRequest, sources: Sources, lines: Mapping[str, Collection[int]], made: Sequence[Mutant]
) -> list[Mutant]:
    """The mutants of operators on some lines, and a neutral one for each file that any mutant changes."""
    found: list[Mutant] = []
    for path, numbers in lines.items():
        if "operator" in request.sources:
            found += apply_operators(path, sources.symbols[path], numbers)
        if "general" in request.sources:
            found += general(path, sources.symbols[path], numbers)
    if "neutral" in request.sources:
        functions = {name for one in (*made, *found) for name in one.functions}
        for path in dict.fromkeys(one.path for one in (*made, *found)):
            if (one := neutral(path, sources.symbols[path], functions)) is not None:
                found.append(one)
    return found


def _environments(
    request: MutationRequest, spec: str, interpreters: Sequence[Interpreter], listen: Listen
) -> tuple[Environment, ...]:
    config = request.environment
    revision = resolve(spec, project=request.project, cache=request.cache, sdist=config.sdist)
    return tuple(
        prepare(revision, one, requires=request.requires, config=config, cache=request.cache)
        for one in interpreters
    )


def _run_side(
    request: MutationRequest, side: Side, listen: Listen
) -> tuple[list[MutantRecord], list[Baseline]]:
    parts: dict[str, list[tuple[str, Campaign, Ran]]] = {one.id: [] for one in side.mutants}
    baselines: list[Baseline] = []
    for environment in side.environments:
        python = environment.interpreter.version
        with campaign(request, side, environment, listen) as phases:
            baseline = replace(phases.baseline(), python=python, freeze=environment.freeze)
            functions = [name for one in side.mutants if one.source != "assertion" for name in one.functions]
            baseline = replace(baseline, forced=phases.force(functions))
            baselines.append(baseline)
            listen(baseline)
            found = phases.mutate(side.mutants)
            confirm(phases, side.mutants, found)
            for key, ran in found.items():
                parts[key].append((python, phases, ran))
    names = {one.id: one.name for one in side.mutants}
    records = []
    for one in side.mutants:
        records.append(outcomes.record(one, side.sources.files, parts[one.id], names))
        listen(records[-1])
    return records, baselines


@contextmanager
def campaign(
    request: MutationRequest, side: Side, environment: Environment, listen: Listen
) -> Iterator[Campaign]:
    """A collected suite of a revision on one interpreter."""
    tests, cwd = find_tests(request, side.revision)
    label = f"{side.revision.label} on {environment.interpreter.version}"
    spec = SuiteSpec(
        python=environment.python,
        layers=environment.path,
        files=tuple(path for path in side.sources.files if path not in side.test_files),
        test_files=side.test_files,
        tests=tests,
        cwd=cwd,
        arguments=request.arguments,
        jobs=request.jobs,
        seed=request.seed,
        label=label,
    )
    listen(f"{label}: collecting")
    with SuiteProcess(spec) as suite:
        yield Campaign(
            suite,
            side.sources.files,
            side.sources.symbols,
            listen,
            label=label,
            confirm_seconds=request.confirm_seconds,
            first=request.first,
        )


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
