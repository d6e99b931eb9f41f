"""`stormdrain report`: a stored run in another format, on stdout or into a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .. import store
from .options import project_root
from .show import quietly

FORMATS = ("terminal", "markdown", "json", "junit", "sarif", "github", "stryker")


@click.command("report", short_help="Show a stored run in another format.")
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the report into this folder instead of to stdout.",
)
def command(run: Path | None, format_: str, out: Path | None) -> int:
    """Show RUN (a folder or a run.json; default: the newest under reports/).

    The exit code is 0 whatever the run came to.
    """
    from ..reporting import formats

    folder = run or store.latest(Path(store.REPORTS))
    loaded = store.load_run(folder)
    around = formats.Around(folder if folder.is_dir() else folder.parent, project_root())
    if out is not None:
        out = store.new_folder("report", out, Path(store.REPORTS)) if not out.exists() else out
        path = out / formats.FILES[format_]
        store.write_atomically(path, formats.render(format_, loaded, around))
        print(path)
        return 0
    if format_ == "terminal":
        from ..reporting.terminal import print_report

        quietly(lambda: print_report(loaded, sys.stdout, around.folder))
    else:
        quietly(lambda: print(formats.render(format_, loaded, around), end=""))
    return 0
