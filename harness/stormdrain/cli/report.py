"""`stormdrain report`: a stored run in other formats, on stdout or into files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from .. import store, stored
from ..errors import UsageError
from .options import ManyCommand, is_name, is_python, listed, repository_root
from .show import quietly

FORMATS = ("terminal", "markdown", "json", "junit", "sarif", "github", "stryker")


@click.command(
    "report",
    cls=ManyCommand,
    many={"--format": is_name, "--python": is_python},
    short_help="Show a stored run in other formats.",
)
@click.argument("run", required=False, type=click.Path(path_type=Path), metavar="[RUN]")
@click.option(
    "--format",
    "formats_",
    type=click.Choice(FORMATS),
    multiple=True,
    metavar="NAME",
    help=f"{', '.join(FORMATS)}; several with --out.  [default: terminal]",
)
@click.option("--python", "pythons", multiple=True, metavar="3.12", help="Mutants as these interpreters see them.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of run.json instead.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the reports into this folder instead of to stdout; stryker's once more for each interpreter.",
)
def command(
    run: Path | None, formats_: tuple[str, ...], pythons: tuple[str, ...], schema: bool, out: Path | None
) -> int:
    """Show RUN (a folder or a run.json; default: the newest under reports/).

    The exit code is 0 whatever the run came to.
    """
    from ..reporting import formats
    from ..reporting.kills import on, pythons_of

    if schema:
        from ..reporting.schema import FILE

        quietly(lambda: print(FILE.read_text(encoding="utf-8"), end=""))
        return 0
    names = tuple(dict.fromkeys(formats_)) or ("terminal",)
    if len(names) > 1 and out is None:
        raise UsageError(
            f"{len(names)} reports do not fit on one stdout",
            where="--format",
            todo=f"add --out DIR: stormdrain report --format {' '.join(names)} --out ci",
        )
    folder = run or stored.latest(Path(store.REPORTS))
    loaded = on(store.load_run(folder), listed(pythons))
    around = formats.Around(folder if folder.is_dir() else folder.parent, repository_root())
    if out is not None:
        out = store.new_folder("report", out, Path(store.REPORTS)) if not out.exists() else out
        files = {formats.FILES[name]: (name, loaded) for name in names}
        if "stryker" in names:
            # Its schema knows one status for a mutant, so what only one interpreter shows needs a file of its own.
            for python in pythons_of(loaded.mutants):
                files[f"mutation-{re.sub(r'[^0-9a-z.]', '-', python)}.json"] = ("stryker", on(loaded, (python,)))
        for file, (name, of) in files.items():
            store.write_atomically(out / file, formats.render(name, of, around))
            print(out / file)
        return 0
    if names == ("terminal",):
        from ..reporting.terminal import print_report

        quietly(lambda: print_report(loaded, sys.stdout, around.folder))
    else:
        quietly(lambda: print(formats.render(names[0], loaded, around), end=""))
    return 0
