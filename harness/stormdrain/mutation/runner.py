"""`stormdrain mutate`: from a request to the records of mutants and baselines.

For each revision that mutants start from, and each interpreter, one suite is
collected and put through the phases of a campaign. The results of a mutant over all
interpreters make one record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..errors import UsageError
from ..model import Baseline, MutantRecord
from ..revisions import (
    Environment,
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
from .plan import Plan, PlannedMutant
from .request import SOURCES, MutationRequest, completed, find_tests
from .results import Results
from .revert import reverts
from .sources import Sources, changed_files, read_sources
from .suite import SuiteProcess, SuiteSpec
from .targets import changed_lines, symbol_lines
from .together import Together
from .touched import covered

__all__ = ["SOURCES", "MutationRequest", "completed", "find_tests", "run"]

Listen = Callable[[object], None]


@dataclass(frozen=True)
class Side:
    """One revision that mutants start from: its mutants, and its environment on each interpreter."""

    revision: Revision
    environments: tuple[Environment, ...]
    sources: Sources
    mutants: tuple[Mutant, ...]
    test_files: Mapping[str, str] = field(default_factory=dict)

    def mine(self, request: MutationRequest) -> dict[str, Mutant]:
        """The mutants of the shard that is asked for, by id; what is the same as what is seen over all of them."""
        number, of = request.shard
        return {one.id: one for one in self.mutants if int(one.id, 16) % of == number - 1}


def run(
    request: MutationRequest, listen: Listen, within: Together | None = None
) -> tuple[tuple[MutantRecord, ...], tuple[Baseline, ...]]:
    """Run mutants.

    Args:
        request: what is asked.
        listen: gets progress lines (`str`), each `Baseline` and each `MutantRecord` as it comes.
        within: ends this run when it is stopped itself.

    Returns:
        The records of all mutants, and a baseline for each revision and interpreter.

    Raises:
        UsageError: something in the request does not fit.
        BaselineError: a suite cannot be collected, or nothing of it is usable on any interpreter.
    """
    request, plans = completed(request)
    number, of = request.shard
    if not 1 <= number <= of:
        raise UsageError(f"there is no shard {number} of {of}", where="--shard", todo="give K/N with K from 1 to N")
    interpreters = find_interpreters(request.pythons)
    records: list[MutantRecord] = []
    baselines: list[Baseline] = []
    with Together(request.jobs, listen, within) as together:
        begun = [
            (side, [together.begin(partial(_run_part, request, side, one, together)) for one in side.environments])
            for side in sides(request, plans, interpreters, together.listen)
        ]
        if not begun:
            find_tests(request, resolve(request.head, project=request.project, cache=request.cache))
        for side, futures in begun:
            parts = [future.result() for future in futures]
            baselines += [part.baseline for part in parts]
            records += _records(request, side, parts, together.listen)
    return tuple(records), tuple(baselines)


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
            base = changed_files(_environments(request, request.base, interpreters[:1], listen)[0].layer, layer)
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
        mutants = numbered(made, sources.files)
        if spec == request.head:
            for file in request.touched:  # files that are new have no mutants, and lines that run
                sources.files.setdefault(file.path, (layer / file.path).read_bytes())
        side = Side(environments[0].revision, environments, sources, mutants, files)
        if side.mine(request) or (request.own and spec == request.head):
            yield side


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
        prepare(revision, one, requires=request.requires, config=config, cache=request.cache) for one in interpreters
    )


@dataclass(frozen=True)
class Part:
    """What a suite on one interpreter came to."""

    phases: Campaign
    baseline: Baseline
    found: Mapping[str, Ran]


def _run_part(request: MutationRequest, side: Side, environment: Environment, together: Together) -> Part:
    """A side's suite on one interpreter: baseline, forced failures, mutants."""
    listen = together.listen
    python = environment.interpreter.version
    with campaign(request, side, environment, listen) as phases, together.held(phases.suite):
        baseline = replace(
            phases.baseline(),
            python=python,
            freeze=environment.freeze,
            revision=side.revision.label,
            lines=covered(phases, request.touched if side.revision.spec == request.head else ()),
            spawns=len(phases.facts.spawners),
        )
        mine = side.mine(request).values()
        functions = [name for one in mine if one.source != "assertion" for name in one.functions]
        baseline = replace(baseline, forced=phases.force(functions))
        listen(baseline)
        return Part(phases, baseline, _mutate(request, side, environment, phases))


def _records(request: MutationRequest, side: Side, parts: Sequence[Part], listen: Listen) -> list[MutantRecord]:
    """The records of a side's mutants over all interpreters."""
    names = {one.id: one.name for one in side.mutants}
    records = []
    for one in side.mine(request).values():
        found = [(part.baseline.python, part.phases, part.found[one.id]) for part in parts if one.id in part.found]
        records.append(replace(outcomes.record(one, side.sources.files, found, names), head=side.revision.label))
        listen(records[-1])
    return records


def _mutate(request: MutationRequest, side: Side, environment: Environment, phases: Campaign) -> dict[str, Ran]:
    """Run and confirm the mutants; with `reuse`, only those of which nothing is known."""
    wanted = side.mine(request)
    if not request.reuse:
        found = phases.mutate(side.mutants, wanted=wanted)
        confirm(phases, side.mutants, found)
        return found
    names = phases.suite.tests
    tests, cwd = find_tests(request, side.revision)
    results = Results(request.cache, environment, tests, cwd, request.arguments)
    keys: dict[str, str] = {}
    old: set[str] = set()

    def known(one: Mutant, chosen: list[int]) -> Ran | None:
        keys[one.id] = results.key(phases.decoded(one), [names[index] for index in chosen])
        ran = results.get(keys[one.id], names)
        if ran is not None:
            old.add(one.id)
        return ran

    found = phases.mutate(side.mutants, known, wanted)
    phases.listen(f"{phases.label}: {len(old)} mutants known from before")
    confirm(phases, side.mutants, {key: ran for key, ran in found.items() if key not in old})
    for key, ran in found.items():
        if key in keys and key not in old:
            results.put(keys[key], ran, names)
    return found


@contextmanager
def campaign(request: MutationRequest, side: Side, environment: Environment, listen: Listen) -> Iterator[Campaign]:
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
