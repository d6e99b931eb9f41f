"""`stormdrain gate`: everything that `[tool.stormdrain]` names, held against its policy, as one exit code."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import Run
from .options import (
    ManyCommand,
    budget,
    coverage_option,
    is_python,
    jobs_or_default,
    listed,
    out_option,
    project_root,
    repository_root,
)
from .session import Listen, record, start_of

if TYPE_CHECKING:
    from ..gate.config import Config
    from ..mutation.request import MutationRequest
    from ..revisions import Cache

CONFIRM_AT_LEAST = 15.0
"""Real seconds for confirming findings, for each probe and cell; a larger budget gets half as much again."""


@click.command(
    "gate",
    cls=ManyCommand,
    many={"--python": is_python},
    short_help="All of it, by [tool.stormdrain]; one exit code.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Default: pyproject.toml of the project under test.",
)
@click.option("--base", default=None, metavar="REV", help="What head is compared with (wins over the file).")
@click.option("--head", default=None, metavar="REV", help="What is judged (wins over the file).")
@click.option("--python", "pythons", multiple=True, metavar="3.12|PATH", help="Wins over the file.")
@click.option(
    "--config-from",
    type=click.Choice(["base", "head"]),
    default="base",
    show_default=True,
    help="Whose rules and probes decide where base is a git revision; head is the maintainer's act.",
)
@click.option("--fresh", is_flag=True, help="Run what an earlier run with the same content has found, too.")
@coverage_option
@click.option("--jobs", type=click.IntRange(1), default=None, metavar="N", help="Trials at a time.")
@out_option
def command(
    config_file: Path | None,
    base: str | None,
    head: str | None,
    pythons: tuple[str, ...],
    config_from: str,
    fresh: bool,
    coverage_data: tuple[str, ...],
    jobs: int | None,
    out: Path | None,
) -> int:
    """Run the probes and mutants that the configuration names and hold them against its rules.

    One line says for each rule whether it held, the figure, and where to look.
    """
    from ..gate.config import load_config
    from ..gate.rules import Setting, apply_gate, told_watched
    from ..gate.watched import supported, watched
    from ..revisions import Cache
    from .authority import ruling
    from .base import default_base
    from .checked import blamed, check_files, check_names
    from .probe import probe_paths

    file = config_file or project_root() / "pyproject.toml"
    project = project_root(file.parent if file.name == "pyproject.toml" else None)
    config = load_config(file)
    if not config.found:
        raise UsageError(
            "there is no [tool.stormdrain] here",
            where=str(file),
            todo="add [tool.stormdrain.gate] with probes = [...], or name another file with --config",
        )
    check_names(config, project)
    cache = Cache()
    base = base or config.base
    head = head or config.head or "worktree"
    notes: tuple[str, ...] = ()
    if not base:
        base, how = default_base(head, project, cache)
        notes = (how,) if base else ()
    ruled = ruling(config, base, head, project, cache, trust_head=config_from == "head")
    config, probes = ruled.config, ruled.probes
    wanted, missing = choose_pythons(config, listed(pythons))
    if not probes and not config.plan.plans and not config.plan.tests:
        raise UsageError(
            "the gate has nothing to run",
            where=str(file),
            todo="name probes = [...], tests = [...] or plans = [...] in [tool.stormdrain.gate]",
        )
    with blamed(config, "probes"):
        probe_paths(probes) if probes else ()
    check_files(config, head, project)
    notes += remarks(base, head, project, cache)
    start = start_of(base=base, head=head, seed=config.plan.seed)
    tree = tree_of(head, project)
    seen = watched(tree, config.watched, config.file.name)
    if seen.pythons is None and tree is not None:  # one of several packages: CI's files are at the top
        seen = watched(repository_root(tree))
    setting = Setting(config.policy, seen, supported(tree), missing)
    start = dataclasses.replace(start, notes=(*notes, *ruled.notes), unwatched=told_watched(setting))
    asked = Asked(
        config,
        project,
        base,
        head,
        wanted,
        jobs_or_default(jobs),
        reuse=not fresh,
        coverage_data=coverage_data,
    )

    def work(listen: Listen) -> Run:
        from .suites import covered, suites_request

        suites = suites_request(asked)
        run = covered(start, asked, suites, listen)
        return apply_gate(
            both(run, asked, suites, probes, listen) if suites else with_probes(run, asked, probes, listen), setting
        )

    from .show import on_terminal

    return record("gate", out, start, work, on_terminal)


def remarks(base: str | None, head: str, project: Path, cache: Cache) -> tuple[str, ...]:
    """What the trees of base and head are not as in a checkout of the user's, files kept in LFS for one."""
    from ..revisions import resolve

    sides = {"base": base, "head": head}
    return tuple(
        f"{side}: {note}"
        for side, spec in sides.items()
        if spec
        for note in resolve(spec, project=project, cache=cache).notes
    )


@dataclasses.dataclass(frozen=True)
class Asked:
    """What all parts of a gate need to know."""

    config: Config
    project: Path
    base: str | None
    head: str
    pythons: tuple[str, ...]
    jobs: int
    reuse: bool = True
    """Whether results of earlier runs are taken where nothing that they depend on has changed."""
    coverage_data: tuple[str, ...] = ()


def choose_pythons(config: Config, asked: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The interpreters to use and the optional ones that are not here.

    Args:
        config: `pythons` must all be found but those in `optional_pythons`.
        asked: from the command line; all of them must be found.

    Raises:
        UsageError: one that is not optional is not found.
    """
    from ..revisions import find_interpreters

    if asked:
        find_interpreters(asked)
        return asked, ()
    optional = config.plan.optional_pythons
    required = tuple(one for one in config.plan.pythons if one not in optional)
    if required:
        find_interpreters(required)
    missing = tuple(one for one in optional if not _found(one))
    everything = tuple(dict.fromkeys((*config.plan.pythons, *optional)))
    return tuple(one for one in everything if one not in missing), missing


def _found(python: str) -> bool:
    from ..revisions import find_interpreters

    try:
        find_interpreters((python,))
    except UsageError:
        return False
    return True


def tree_of(head: str, project: Path) -> Path | None:
    """The folder in which a revision's CI files are, None where it carries none (a release)."""
    first = head.partition("+")[0]
    if first.startswith("pypi:"):
        return None
    return Path(first[5:]) if first.startswith("path:") else project


def both(run: Run, asked: Asked, suites: MutationRequest, probes: Collection[Path], listen: Listen) -> Run:
    """The run with probes and suites, which go on at once: each of them waits for real time most of its own.

    An error of the probes, or an interrupt, ends the suites too; an error of the suites
    is raised when the probes are through, so that what these found is kept.
    """
    from ..mutation.together import Together
    from .session import end_children
    from .suites import with_suites

    with Together(1, listen) as together:
        tested = together.begin(lambda: with_suites(run, asked, suites, together.listen, together))
        try:
            probed = with_probes(run, asked, probes, together.listen) if probes else run
            done = tested.result()
        except BaseException:
            together.stop()
            end_children()
            raise
    return dataclasses.replace(
        done,
        cells=probed.cells,
        trials=probed.trials,
        environment={**probed.environment, **done.environment},
        notes=tuple(dict.fromkeys((*done.notes, *probed.notes))),
    )


def with_probes(run: Run, asked: Asked, probes: Iterable[Path], listen: Listen) -> Run:
    """The run with the cells and trials of the configured probes."""
    from ..lab import ProbeRequest, run_probes
    from ..revisions import Cache
    from .probe import known_storms, probe_paths

    plan = asked.config.plan
    trials, seconds = budget(plan.budget)
    request = ProbeRequest(
        paths=probe_paths(tuple(probes)),
        base=asked.base,
        head=asked.head,
        pythons=asked.pythons,
        backends=plan.backends,
        storms=known_storms(plan.storms),
        budget_trials=trials,
        budget_seconds=seconds,
        confirm_seconds=max(CONFIRM_AT_LEAST, 1.5 * seconds),
        jobs=asked.jobs,
        reuse=asked.reuse,
        seed=plan.seed,
        environment=asked.config.environment,
        project=asked.project,
        cache=Cache(progress=listen),
    )
    cells, found = run_probes(request, listen)
    return dataclasses.replace(run, cells=cells, trials=found)
