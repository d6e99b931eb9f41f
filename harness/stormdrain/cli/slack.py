"""`stormdrain slack`: how much delay each test bears before it fails."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ..model import Run, Verdict
from .options import ManyCommand, anything, cell_options, out_option, revision_options
from .session import Listen, record, start_of
from .suite_options import suite_request, tests_options


@click.command(
    "slack",
    cls=ManyCommand,
    many={"--python": anything, "--tests": anything, "--plan": anything},
    short_help="How much delay each test bears before it fails.",
)
@revision_options
@tests_options
@cell_options
@out_option
def command(
    base: str | None,
    head: str | None,
    tests: tuple[str, ...],
    plans: tuple[Path, ...],
    pythons: tuple[str, ...],
    with_: tuple[str, ...],
    jobs: int | None,
    seed: int,
    out: Path | None,
) -> int:
    """Measure what each test of head waits for and bears; the tightest come first.

    A test that bears little fails on a loaded machine. It is a measurement: the
    exit code is 0 whatever it says.
    """
    from ..mutation.slack import run as run_all
    from ..revisions import Cache

    request = suite_request(base, head, tests, plans, pythons, with_, jobs, seed)
    start = start_of(head=request.head, seed=seed)

    def work(listen: Listen) -> Run:
        found = run_all(dataclasses.replace(request, cache=Cache(progress=listen)), listen)
        verdict = Verdict.PASS if found else Verdict.NA
        return dataclasses.replace(start, slack=found, verdict=verdict, exit_code=0)

    from .show import on_terminal

    return record("slack", out, start, work, on_terminal)
