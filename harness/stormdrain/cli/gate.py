"""`stormdrain gate`: everything that `[tool.stormdrain]` names, held against its policy, as one exit code."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import Run
from .options import ManyCommand, budget, is_python, jobs_or_default, listed, out_option, project_root
from .session import Listen, record, start_of

if TYPE_CHECKING:
    from ..gate.config import Config
    from ..mutation.together import Together

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
@click.option("--jobs", type=click.IntRange(1), default=None, metavar="N", help="Trials at a time.")
@out_option
def command(
    config_file: Path | None,
    base: str | None,
    head: str | None,
    pythons: tuple[str, ...],
    config_from: str,
    fresh: bool,
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

    project = project_root()
    file = config_file or project / "pyproject.toml"
    config = load_config(file)
    if not config.found:
        raise UsageError(
            "there is no [tool.stormdrain] here",
            where=str(file),
            todo="add [tool.stormdrain.gate] with probes = [...], or name another file with --config",
        )
    base = base or config.base
    head = head or config.head or "worktree"
    ruled = ruling(config, base, head, project, Cache(), trust_head=config_from == "head")
    config, probes = ruled.config, ruled.probes
    wanted, missing = choose_pythons(config, listed(pythons))
    if not probes and not config.plan.plans and not config.plan.tests:
        raise UsageError(
            "the gate has nothing to run",
            where=str(file),
            todo="name probes = [...] or plans = [...] in [tool.stormdrain.gate]",
        )
    start = dataclasses.replace(start_of(base=base, head=head, seed=config.plan.seed), notes=ruled.notes)
    tree = tree_of(head, project)
    setting = Setting(config.policy, watched(tree, config.watched, config.file.name), supported(tree), missing)
    start = dataclasses.replace(start, unwatched=told_watched(setting))
    asked = Asked(config, project, base, head, wanted, jobs_or_default(jobs), reuse=not fresh)

    def work(listen: Listen) -> Run:
        mutants = bool(config.plan.plans or config.plan.tests)
        return apply_gate(
            both(start, asked, probes, listen) if mutants else with_probes(start, asked, probes, listen), setting
        )

    from .show import on_terminal

    return record("gate", out, start, work, on_terminal)


@dataclasses.dataclass(frozen=True)
class Asked:
    """What both halves of a gate need to know."""

    config: Config
    project: Path
    base: str | None
    head: str
    pythons: tuple[str, ...]
    jobs: int
    reuse: bool = True
    """Whether results of earlier runs are taken where nothing that they depend on has changed."""


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


def both(run: Run, asked: Asked, probes: Collection[Path], listen: Listen) -> Run:
    """The run with probes and mutants, which go on at once: each of them waits for real time most of its own.

    An error of the probes, or an interrupt, ends the mutants too; an error of the mutants
    is raised when the probes are through, so that what these found is kept.
    """
    from ..mutation.together import Together
    from .session import end_children

    with Together(0, listen) as together:
        mutated = together.begin(lambda: with_mutants(run, asked, together.listen, together))
        try:
            probed = with_probes(run, asked, probes, together.listen) if probes else run
            done = mutated.result()
        except BaseException:
            together.stop()
            end_children()
            raise
    return dataclasses.replace(
        probed,
        mutants=done.mutants,
        baselines=done.baselines,
        environment={**probed.environment, **done.environment},
        notes=done.notes,
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


def with_mutants(run: Run, asked: Asked, listen: Listen, within: Together | None = None) -> Run:
    """The run with the mutants of the configured plans and of the diff; they end when `within` is stopped."""
    from .mutate import plan_request, run_mutants

    config = asked.config
    request = plan_request(
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
    return run_mutants(run, request, listen, within)
