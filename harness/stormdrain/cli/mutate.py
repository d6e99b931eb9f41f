"""`stormdrain mutate`: the changed lines reverted and broken one at a time; which tests notice, and where."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..model import Run
from .options import (
    ManyCommand,
    anything,
    cell_options,
    jobs_or_default,
    listed,
    out_option,
    project_root,
    revision_options,
)
from .session import Listen, record, start_of

if TYPE_CHECKING:
    from ..mutation.runner import MutationRequest
    from ..mutation.together import Together
    from ..revisions import EnvironmentConfig


@click.command(
    "mutate",
    cls=ManyCommand,
    many=dict.fromkeys(("--python", "--tests", "--plan", "--symbol", "--kind"), anything),
    short_help="Break the changed lines one at a time; which tests notice?",
)
@revision_options
@click.option("--tests", multiple=True, metavar="PATH", help="In head's tree, else in the current directory.")
@click.option("--plan", "plans", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Named mutants.")
@click.option("--symbol", "symbols", multiple=True, metavar="NAME", help="What to mutate beyond the diff.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="NAME", help="plan, revert, operator, general, neutral (default: all)."
)
@click.option("--tests-too", is_flag=True, help="Mutate the assertions of new tests, too.")
@click.option("--shard", metavar="K/N", help="Only the K-th of N parts; `merge` puts them together.")
@click.option("--reuse", is_flag=True, help="Take earlier results where nothing that they depend on has changed.")
@click.option("--first", is_flag=True, help="Stop at the first test that notices; no full kill matrix.")
@click.option(
    "--confirm",
    "confirm_seconds",
    type=click.FloatRange(0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Real time for confirming, for each interpreter.",
)
@cell_options
@out_option
def command(
    base: str | None,
    head: str | None,
    tests: tuple[str, ...],
    plans: tuple[Path, ...],
    symbols: tuple[str, ...],
    kinds: tuple[str, ...],
    tests_too: bool,
    shard: str | None,
    reuse: bool,
    first: bool,
    confirm_seconds: float,
    pythons: tuple[str, ...],
    with_: tuple[str, ...],
    jobs: int | None,
    seed: int,
    out: Path | None,
) -> int:
    """Mutate what head changed since base, and what plans name, and run TESTS against each mutant.

    A plan names head, base, tests and requirements where the command line does not.
    """
    from ..gate.config import load_config
    from ..gate.watched import watched
    from ..mutation.runner import MutationRequest, completed
    from .accepting import conclude_here
    from .gate import tree_of

    project = project_root()
    config = load_config(project / "pyproject.toml", must_exist=False)
    request, read = completed(
        MutationRequest(
            head=head or "",
            base=base or "",
            tests=tuple(tests),
            plans=tuple(plans),
            symbols=tuple(symbols),
            sources=known_kinds(listed(kinds), "--kind"),
            tests_too=tests_too,
            shard=read_shard(shard),
            reuse=reuse,
            pythons=listed(pythons),
            environment=config.environment,
            requires=tuple(with_),
            jobs=jobs_or_default(jobs),
            first=first,
            seed=seed,
            confirm_seconds=confirm_seconds,
            project=project,
        )
    )
    planned = next((plan for plan in read if plan.watched is not None), None)
    said = config.watched if planned is None else planned.watched
    where = config.file.name if planned is None else planned.file.name
    seen = watched(tree_of(request.head, project), said, where)
    start = start_of(base=request.base, head=request.head, seed=seed)
    if seen.pythons:
        start = dataclasses.replace(start, unwatched={"watched": ", ".join(seen.pythons)})

    def work(listen: Listen) -> Run:
        run = run_mutants(start, request, listen)
        return conclude_here(run, config, seen)

    from .show import on_terminal

    return record("mutate", out, start, work, on_terminal)


def read_shard(text: str | None) -> tuple[int, int]:
    """`2/4` as (2, 4); all of it where nothing is said.

    Raises:
        UsageError: it is no part of a whole.
    """
    if text is None:
        return 1, 1
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip())
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UsageError(f"{text!r} is no shard", where="--shard", todo="give the part and how many there are: 1/4")
    return int(match[1]), int(match[2])


def known_kinds(kinds: Sequence[str], where: str) -> tuple[str, ...]:
    """Kinds of mutants, checked; all of them where none is named.

    Raises:
        UsageError: one is not known; the nearest is suggested.
    """
    from ..gate.nearest import check
    from ..mutation.runner import SOURCES

    check("kind of mutant", kinds, SOURCES, where=where)
    return tuple(kinds) or SOURCES


def run_mutants(run: Run, request: MutationRequest, listen: Listen, within: Together | None = None) -> Run:
    """The run with mutants and baselines.

    Args:
        run: what is known already.
        request: which.
        listen: gets each record as it comes.
        within: ends the run when it is stopped itself.
    """
    from ..mutation.runner import run as run_all
    from ..revisions import Cache

    mutants, baselines = run_all(dataclasses.replace(request, cache=Cache(progress=listen)), listen, within)
    if not mutants:
        change = f"the diff from {request.base} to {request.head}" if request.base else "what was asked for"
        why = f"no mutant: {change} changes no Python statement of a file that both have (--symbol names more)"
        run = dataclasses.replace(run, notes=(*run.notes, why))
    taken = sum(bool(one.taken) for one in mutants)
    note = f"{taken} mutants: results taken from earlier runs, nothing that they depend on has changed"
    return dataclasses.replace(
        run,
        notes=(*run.notes, note) if taken else run.notes,
        mutants=mutants,
        baselines=baselines,
        environment={
            **run.environment,
            **{f"{request.head} {one.python} (tests)": one.freeze for one in reversed(baselines)},
        },
    )


def plan_request(
    plans: Sequence[Path],
    tests: Sequence[str],
    *,
    base: str | None,
    head: str | None,
    pythons: Sequence[str],
    jobs: int,
    seed: int,
    environment: EnvironmentConfig,
    project: Path,
    kinds: Sequence[str] = (),
    reuse: bool = True,
) -> MutationRequest:
    """The request of a gate: what its configuration names wins over the plans.

    With `reuse`, results of before are taken where nothing that they depend on has changed.

    Raises:
        UsageError: there is no such kind of mutant.
    """
    from ..mutation.runner import MutationRequest, completed

    request, _ = completed(
        MutationRequest(
            head=head or "",
            base=base or "",
            tests=tuple(tests),
            plans=tuple(plans),
            sources=known_kinds(kinds, "mutants in [tool.stormdrain.gate]"),
            pythons=tuple(pythons),
            environment=environment,
            jobs=jobs,
            seed=seed,
            project=project,
            reuse=reuse,
            own=True,
        )
    )
    return request
