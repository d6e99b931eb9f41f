"""`stormdrain replay TOKEN`: one trial again, with its timeline."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import click

from .. import store, stored
from ..model import Run, Trial, Verdict, merge
from .options import out_option, project_root
from .session import Listen, record, start_of
from .show import quietly

_CODES = {Verdict.FAIL: 1, Verdict.UNRESOLVED: 3, Verdict.ERROR: 4}


@click.command("replay", short_help="One trial again by its token, with its timeline.")
@click.argument("token", metavar="TOKEN")
@click.option(
    "--run",
    "run_",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="The run that the token is from (default: the newest under reports/ that has its cell).",
)
@click.option("--time", "clock", type=click.Choice(["virtual", "real"]), help="Default: as it was found.")
@out_option
def command(token: str, run_: Path | None, clock: str | None, out: Path | None) -> int:
    """Run the trial of TOKEN again and print its timeline.

    A token is what a report prints with a finding; quote it. It holds for one
    version of the probe, its target and stormdrain, and is refused otherwise.
    """
    from ..lab import replay

    token = token.strip()
    source, folder = stored.find_token(token, Path(store.REPORTS), [run_] if run_ else [])
    result = next(one for one in source.cells if token.startswith(one.cell.key))
    start = dataclasses.replace(start_of(head=result.cell.revision, seed=source.seed), notes=(f"from {folder}",))
    found: list[Trial] = []

    def work(listen: Listen) -> Run:
        trial = replay(token, source, listen, project=project_root(), clock=clock or "")
        found.append(trial)
        cell = dataclasses.replace(result, verdict=trial.verdict, findings=trial.findings, trials=1, storms=())
        verdict = merge([trial.verdict])
        return dataclasses.replace(
            start, cells=(cell,), trials=(trial,), verdict=verdict, exit_code=_CODES.get(verdict, 0)
        )

    def show(run: Run, folder: Path) -> None:
        from ..reporting.replayed import print_trial

        for trial in found:
            quietly(lambda trial=trial: print_trial(trial, sys.stdout))  # type: ignore[misc] # a default binds it

    return record("replay", out, start, work, show)
