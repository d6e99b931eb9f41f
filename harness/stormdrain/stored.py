"""Finding what was recorded: the newest run, and the run that a token is from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from .errors import UsageError
from .model import Run, parse_token
from .store import JOURNAL, RESULT, load_run


def runs(reports: Path) -> list[Path]:
    """Folders of runs under `reports`, the newest first (by when their record was last written)."""
    found: list[tuple[float, str, Path]] = []
    with contextlib.suppress(OSError):
        for folder in reports.iterdir():
            for name in (RESULT, JOURNAL):
                with contextlib.suppress(OSError):
                    found.append(((folder / name).stat().st_mtime, folder.name, folder))
                    break
    return [folder for _, _, folder in sorted(found, reverse=True)]


def latest(reports: Path) -> Path:
    """The newest run's folder.

    Raises:
        UsageError: there is none.
    """
    folders = runs(reports)
    if not folders:
        raise UsageError(
            "no run is stored here",
            where=str(reports),
            todo="run `stormdrain probe` first, or name the run's folder",
        )
    return folders[0]


def find_token(token: str, reports: Path, also: Iterable[Path] = ()) -> tuple[Run, Path]:
    """The newest stored run that has the cell of a token.

    Args:
        token: as a report prints it.
        reports: the folder with the runs.
        also: runs that are looked at first.

    Returns:
        The run and its folder.

    Raises:
        UsageError: it is not a token, or no stored run has its cell.
    """
    try:
        key = parse_token(token).key
    except ValueError as error:
        raise UsageError(str(error), where="TOKEN", todo="paste it as the report prints it, in quotes") from error
    searched = [*also, *runs(reports)]
    for folder in searched:
        record = folder if folder.is_file() else folder / RESULT
        if not record.exists():
            record = folder / JOURNAL
        with contextlib.suppress(OSError):
            # Runs are large; most do not have the key in them at all.
            if key.encode() not in record.read_bytes():
                continue
        run = load_run(folder)
        if any(cell.cell.key == key for cell in run.cells):
            return run, folder
    raise UsageError(
        f"no stored run has the cell {key} of this token",
        where=f"{len(searched)} runs under {reports}",
        todo="name the run's folder with --run DIR; a token holds for one version of probe and target",
    )
