"""`stormdrain merge`: the runs of shards and of other jobs as one run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import click

from .. import store
from ..errors import UsageError
from ..model import Baseline, CellResult, MutantRecord, Run, Trial
from .options import out_option
from .session import Listen, record, start_of


@click.command("merge", short_help="Shards and other jobs' runs into one.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE", help="Apply its gate.")
@out_option
def command(runs: tuple[Path, ...], config_file: Path | None, out: Path | None) -> int:
    """Merge RUNs (folders or run.json files) and decide over all of them.

    A cell or mutant that is in several runs must have come to the same there.
    """
    loaded = [(path, store.load_run(path)) for path in runs]
    start = start_of()

    def work(listen: Listen) -> Run:
        merged = merge_runs(loaded)
        merged = dataclasses.replace(merged, command=start.command, started=start.started)
        return _decide(merged, config_file)

    from .show import on_terminal

    return record("merge", out, start, work, on_terminal)


def _decide(run: Run, config_file: Path | None) -> Run:
    if config_file is None:
        from ..gate.decide import conclude

        watched = tuple(one.strip() for one in run.unwatched.get("watched", "").split(",") if one.strip())
        return conclude(run, watched=watched or None)
    from ..gate.config import load_config
    from ..gate.rules import Setting, apply_gate
    from ..gate.watched import supported
    from ..gate.watched import watched as read_watched
    from .gate import tree_of
    from .options import project_root

    config = load_config(config_file)
    tree = tree_of(run.head, project_root())
    seen = read_watched(tree, config.watched, config.file.name)
    return apply_gate(run, Setting(config.policy, seen, supported(tree)))


def merge_runs(loaded: Sequence[tuple[Path, Run]]) -> Run:
    """One run of several.

    Raises:
        UsageError: they are of different revisions, or a cell or mutant came to different things.
    """
    first_path, first = loaded[0]
    for path, run in loaded:
        for what in ("base", "head"):
            ours, theirs = getattr(first, what), getattr(run, what)
            if ours != theirs and ours and theirs:
                raise UsageError(
                    f"the runs are of different revisions: {what} is {ours!r} and {theirs!r}",
                    where=f"{first_path} and {path}",
                    todo="merge runs of one base and one head",
                )
    cells: dict[str, CellResult] = {}
    trials: dict[tuple[str, str], Trial] = {}
    mutants: dict[str, MutantRecord] = {}
    baselines: list[Baseline] = []
    for path, run in loaded:
        for cell in run.cells:
            cells[cell.cell.key] = _cell(cells.get(cell.cell.key), cell, path)
        trials |= {(trial.token, trial.phase): trial for trial in run.trials}
        for mutant in run.mutants:
            mutants[mutant.id] = _mutant(mutants.get(mutant.id), mutant, path)
        baselines += [one for one in run.baselines if one not in baselines]
    runs = [run for _, run in loaded]
    return dataclasses.replace(
        first,
        base=next((run.base for run in runs if run.base), ""),
        head=next((run.head for run in runs if run.head), ""),
        seconds=sum(run.seconds for run in runs),
        interrupted=any(run.interrupted for run in runs),
        environment={key: freeze for run in runs for key, freeze in run.environment.items()},
        cells=tuple(cells.values()),
        trials=tuple(trials.values()),
        mutants=tuple(mutants.values()),
        baselines=tuple(baselines),
        redgreen=tuple(dict.fromkeys(one for run in runs for one in run.redgreen)),
        slack=tuple(dict.fromkeys(one for run in runs for one in run.slack)),
        rules=(),
        unwatched={key: text for run in runs for key, text in run.unwatched.items()},
        errors=tuple(error for run in runs for error in run.errors),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def _cell(held: CellResult | None, new: CellResult, path: Path) -> CellResult:
    if held is not None and held.verdict != new.verdict:
        raise UsageError(
            f"the cell {new.cell.key} ({new.cell.probe}, {new.cell.python}) is {held.verdict.value} in one "
            f"run and {new.verdict.value} in another",
            where=str(path),
            todo="merge one of them",
        )
    return new


def _mutant(held: MutantRecord | None, new: MutantRecord, path: Path) -> MutantRecord:
    if held is None:
        return new
    for python in held.outcome.keys() & new.outcome.keys():
        if held.outcome[python] != new.outcome[python]:
            raise UsageError(
                f"the mutant {new.name} is {held.outcome[python]} in one run and {new.outcome[python]} in "
                f"another, on {python}",
                where=str(path),
                todo="merge one of them, or look into the suite's stability",
            )
    return dataclasses.replace(
        held,
        outcome={**held.outcome, **new.outcome},
        matrix={**held.matrix, **new.matrix},
        ran={**held.ran, **new.ran},
        error=held.error or new.error,
    )
