"""`stormdrain redgreen`: head's new tests on base's source; each must fail there, and for the right reason."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ..model import Run
from .options import ManyCommand, anything, cell_options, out_option, revision_options
from .session import Listen, record, start_of
from .suite_options import suite_request, tests_options


@click.command(
    "redgreen",
    cls=ManyCommand,
    many={"--python": anything, "--tests": anything, "--plan": anything},
    short_help="Run head's new tests on base's source.",
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
    """Run the tests that head has and base has not on base's source.

    Red for the right reason (an assertion) is what a new test should be; green
    is decorative, and red since something is not there yet says nothing.
    """
    from ..mutation.redgreen import run as run_all
    from ..revisions import Cache

    request = suite_request(base, head, tests, plans, pythons, with_, jobs, seed)
    start = start_of(base=request.base, head=request.head, seed=seed)

    def work(listen: Listen) -> Run:
        from ..gate.decide import conclude

        found = run_all(dataclasses.replace(request, cache=Cache(progress=listen)), listen)
        return no_new_tests(start) if not found else conclude(dataclasses.replace(start, redgreen=found))

    from .show import on_terminal

    return record("redgreen", out, start, work, on_terminal)


def no_new_tests(start: Run) -> Run:
    """The run where head has no test that base does not have: N/A, which decides nothing."""
    return dataclasses.replace(start, exit_code=0, notes=("head has no test that base does not have",))
