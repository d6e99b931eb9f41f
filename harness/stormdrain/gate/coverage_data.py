"""Coverage data of other jobs (`.coverage` files): read, and their paths found again in the repository.

A job on another machine has the same files under another prefix, as `C:\\a\\pond\\src\\pond\\pipe.py`
or as `/venv/lib/python3.12/site-packages/pond/pipe.py`. A measured file is the project's
file whose path (in the repository, or as it is installed) its own ends with; the longest
such end wins, and the `paths` of the project's coverage settings are gone through first.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..model import JobCoverage, Touched, numbers, ranges
from ..mutation.touched import Settings, statements_that_ran

_INSTALLED = ("site-packages", "dist-packages")


def split_name(text: str) -> tuple[str, Path]:
    """`windows=ci/.coverage` as the job's name and the file; the name is the file's where none is given."""
    name, equals, file = text.partition("=")
    if equals and name and not Path(text).exists():
        return name, Path(file)
    path = Path(text)
    return path.name.removeprefix(".coverage.") or path.name, path


def read_data(
    text: str,
    touched: Sequence[Touched],
    places: Mapping[str, str],
    source_of: Callable[[Touched], bytes | None],
    settings: Settings | None = None,
) -> JobCoverage:
    """Read coverage data and keep of them what touched lines ran.

    Args:
        text: `FILE` or `NAME=FILE`.
        touched: files and statements that are asked about.
        places: every file of the project, as it is installed -> as it lies in the repository.
        source_of: gives head's text of a file, None where it is not at hand.
        settings: of the project; its paths are used.

    Raises:
        UsageError: the file is not there, no coverage data, of another version of the code, or of other code.
    """
    name, file = split_name(text)
    measured = _measured(file)
    found: dict[str, set[int]] = {}
    # The shallowest first: where a module is a file of its own, `tests/pipe.py` beside it is not that file.
    for path in sorted(measured, key=lambda one: len(_parts(one))):
        mine = _found_again(_remapped(path, settings.paths if settings else ()), places)
        if mine is not None and ("/" in places[mine] or mine not in found):
            found.setdefault(mine, set()).update(measured[path])
    if not found:
        some = ", ".join(sorted(measured)[:3]) or "no file at all"
        raise UsageError(
            "the coverage data are of no file of this project",
            where=f"{file} (it has {some})",
            todo="give the data of a job that ran this project, or name its folders in [tool.coverage.paths]",
        )
    kept: dict[str, str] = {}
    for one in touched:
        source, lines, wanted = source_of(one), found.get(one.path, set()), numbers(one.lines)
        if source is None:
            kept[one.path] = ranges(lines & wanted)
            continue
        last = source.count(b"\n") + 1
        if lines and max(lines) > last:
            raise UsageError(
                f"the coverage data are of another version of {one.place or one.path}",
                where=f"{file} has line {max(lines)} of {last}",
                todo="give data that were made on head",
            )
        kept[one.path] = ranges(statements_that_ran(source, lines, wanted))
    return JobCoverage(name, str(file), kept)


def _measured(file: Path) -> dict[str, list[int]]:
    """Path as it was measured -> lines that ran. The file itself is not opened for writing."""
    from coverage import CoverageData
    from coverage.exceptions import CoverageException

    todo = "give a file that `coverage run` or `pytest --cov` wrote (.coverage)"
    with tempfile.TemporaryDirectory(prefix="stormdrain-coverage-") as folder:
        copy = Path(folder) / "data"
        try:
            shutil.copyfile(file, copy)
        except OSError as error:
            raise UsageError(
                f"the coverage data cannot be read: {error.strerror or error}", where=str(file), todo=todo
            ) from error
        data = CoverageData(basename=str(copy))
        try:
            data.read()
            return {path: list(data.lines(path) or ()) for path in data.measured_files()}
        except (CoverageException, sqlite3.Error, ValueError) as error:
            said = str(error).replace(str(copy), file.name).partition("\n")[0]
            raise UsageError(f"these are no coverage data: {said}", where=str(file), todo=todo) from error
        finally:
            data.close(force=True)


def _remapped(path: str, paths: Sequence[Sequence[str]]) -> str:
    """The path by the project's own `paths`: the first of each is where the others lie in the repository."""
    if not paths:
        return path
    from coverage.files import PathAliases

    aliases = PathAliases()
    for first, *others in paths:
        for pattern in others:
            aliases.add(pattern, first)
    return aliases.map(path, exists=lambda found: True)


def _parts(path: str) -> tuple[str, ...]:
    return PurePosixPath(path.replace("\\", "/")).parts


def _found_again(path: str, places: Mapping[str, str]) -> str | None:
    """The project's file that a measured path is, None where it is none."""
    parts = _parts(path)
    best: tuple[int, str] | None = None
    for installed, place in places.items():
        for own in {place, installed}:
            end = PurePosixPath(own).parts
            if parts[-len(end) :] != end:
                continue
            before = parts[-len(end) - 1] if len(parts) > len(end) else ""
            if len(end) == 1 and own != place and before not in ("", *_INSTALLED):
                continue  # `pipe.py` somewhere is not the module of that name
            if best is None or len(end) > best[0]:
                best = len(end), installed
    return best[1] if best else None
