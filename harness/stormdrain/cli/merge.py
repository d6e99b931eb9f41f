"""`stormdrain merge`: the runs of shards and of other jobs as one run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from .. import store
from ..gate.coverage import gaps_of
from ..gate.merging import merge_runs, whole
from ..model import Run
from .options import coverage_option, out_option
from .session import Listen, record, start_of


@click.command("merge", short_help="Shards and other jobs' runs into one.")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("--config", "config_file", type=click.Path(path_type=Path), metavar="FILE", help="Apply its gate.")
@coverage_option
@out_option
def command(runs: tuple[Path, ...], config_file: Path | None, coverage_data: tuple[str, ...], out: Path | None) -> int:
    """Merge RUNs (folders or run.json files) and decide over all of them.

    A cell or mutant that is in several runs must have come to the same there.
    """
    loaded = [(path, store.load_run(path)) for path in runs]
    start = start_of()

    def work(listen: Listen) -> Run:
        merged = merge_runs(loaded)
        if coverage_data:
            from .covered import with_data
            from .options import repository_root

            merged = with_data(merged, coverage_data, repository_root())
        merged = dataclasses.replace(merged, command=start.command, started=start.started)
        return whole(_decide(merged, config_file), [run for _, run in loaded])

    from .show import on_terminal

    return record("merge", out, start, work, on_terminal)


def _decide(run: Run, config_file: Path | None) -> Run:
    if config_file is None:
        from ..gate.decide import conclude

        watched = tuple(one.strip() for one in run.unwatched.get("watched", "").split(",") if one.strip())
        return conclude(dataclasses.replace(run, gaps=gaps_of(run)), watched=watched or None)
    from ..gate.config import load_config
    from ..gate.rules import Setting, apply_gate
    from ..gate.watched import supported
    from ..gate.watched import watched as read_watched
    from .gate import tree_of
    from .options import project_root

    config = load_config(config_file)
    tree = tree_of(
        run.head, project_root(config_file.resolve().parent if config_file.name == "pyproject.toml" else None)
    )
    seen = read_watched(tree, config.watched, config.file.name)
    return apply_gate(run, Setting(config.policy, seen, supported(tree)))
