"""`stormdrain probe`: drive probes through storms in every cell, base against head."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import Run
from .options import (
    ManyCommand,
    budget,
    cell_options,
    is_name,
    is_python,
    jobs_or_default,
    listed,
    out_option,
    project_root,
    revision_options,
)
from .session import Listen, record, start_of

if TYPE_CHECKING:
    from ..search import Limits


@click.command(
    "probe",
    cls=ManyCommand,
    many={"--python": is_python, "--backend": is_name, "--storm": is_name},
    short_help="Drive probes through storms; base against head.",
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH...]")
@revision_options
@cell_options
@click.option("--backend", "backends", multiple=True, metavar="NAME", help="asyncio, trio (the probe's own).")
@click.option("--storm", "storms", multiple=True, metavar="NAME", help="Only these storms.")
@click.option("-k", "keyword", default="", metavar="EXPR", help="Only probes whose name has this.")
@click.option("--time", "clock", type=click.Choice(["virtual", "real"]), default="virtual", show_default=True)
@click.option("--budget", "budget_", default="60s", show_default=True, metavar="N|30s", help="Per probe and cell.")
@click.option(
    "--search",
    "search_",
    metavar="N|30s",
    help="Then search for schedules of several faults, so long per probe and cell.",
)
@click.option("--confirm/--no-confirm", default=True, help="Confirm each kind of FAIL in real time.")
@out_option
def command(
    paths: tuple[Path, ...],
    base: str | None,
    head: str | None,
    pythons: tuple[str, ...],
    with_: tuple[str, ...],
    jobs: int | None,
    seed: int,
    backends: tuple[str, ...],
    storms: tuple[str, ...],
    keyword: str,
    clock: str,
    budget_: str,
    search_: str | None,
    confirm: bool,
    out: Path | None,
) -> int:
    """Drive the probes in PATH (a script or a folder; default: probes/) through storms.

    Without --base every finding counts; with it, new ones only.
    """
    from ..gate.config import load_config
    from ..lab import ProbeRequest, run_probes
    from ..revisions import Cache
    from .accepting import conclude_here

    project = project_root()
    config = load_config(project / "pyproject.toml", must_exist=False)
    head = head or "worktree"
    trials, seconds = budget(budget_)
    request = ProbeRequest(
        paths=probe_paths(paths),
        base=base,
        head=head,
        pythons=listed(pythons),
        backends=listed(backends),
        storms=known_storms(listed(storms)),
        keyword=keyword,
        clock=clock,
        budget_trials=trials,
        budget_seconds=seconds,
        jobs=jobs_or_default(jobs),
        with_=tuple(with_),
        seed=seed,
        environment=config.environment,
        project=project,
        confirm=confirm,
        search=limits(search_),
    )
    start = start_of(base=base, head=head, seed=seed)

    def work(listen: Listen) -> Run:
        cells, found = run_probes(dataclasses.replace(request, cache=Cache(progress=listen)), listen)
        return conclude_here(dataclasses.replace(start, cells=cells, trials=found), config)

    from .show import on_terminal

    return record("probe", out, start, work, on_terminal)


def limits(text: str | None) -> Limits | None:
    """When a search has enough, from what `--search` says.

    Raises:
        UsageError: it is no budget, or Hypothesis is not installed.
    """
    if text is None:
        return None
    from ..drawing import available
    from ..search import Limits

    trials, seconds = budget(text, "--search")
    available()
    return Limits(seconds, trials)


def probe_paths(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The scripts and folders that were named, or probes/.

    Raises:
        UsageError: one is not there.
    """
    wanted = paths or (Path("probes"),)
    for path in wanted:
        if not path.exists():
            raise UsageError(
                "there is no probe script here",
                where=str(path),
                todo="name a script or a folder, or write a first one with `stormdrain init TARGET`",
            )
    return tuple(path.resolve() for path in wanted)


def known_storms(names: tuple[str, ...]) -> tuple[str, ...]:
    """Check names of storms.

    Raises:
        UsageError: one is not known; the nearest is suggested.
    """
    from ..gate.names import storm_names
    from ..gate.nearest import check

    check("storm", names, storm_names(), where="--storm")
    return names
