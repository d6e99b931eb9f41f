"""Where the commands get coverage from: what the diff touches, and other jobs' data of that."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..model import OnePlatform, Run, Touched

if TYPE_CHECKING:
    from ..revisions import Cache, Environment, EnvironmentConfig, Revision


@dataclasses.dataclass(frozen=True)
class Sides:
    """Base and head, to be compared line by line: on the first interpreter, with requirements as the suite has them."""

    base: str
    head: str
    pythons: tuple[str, ...]
    requires: tuple[str, ...]
    environment: EnvironmentConfig
    project: Path
    cache: Cache

    def prepared(self, spec: str) -> Environment:
        """A revision's environment; what is there already is taken from the cache."""
        from ..revisions import find_interpreters, prepare, resolve

        revision = resolve(spec, project=self.project, cache=self.cache, sdist=self.environment.sdist)
        interpreter = find_interpreters(self.pythons)[0]
        return prepare(revision, interpreter, requires=self.requires, config=self.environment, cache=self.cache)


def with_coverage(run: Run, sides: Sides, only: Sequence[OnePlatform], data: Sequence[str]) -> Run:
    """The run with what the diff touches, and what other jobs' data say of it.

    Raises:
        UsageError: data cannot be read, or are of other code.
    """
    from ..gate.coverage_data import read_data
    from ..mutation.sources import python_files
    from ..mutation.touched import settings_of, touched_files

    if not sides.base:
        if data:
            raise UsageError(
                "without a base no line is touched, so there is nothing to cover",
                where="--coverage-data",
                todo="give --base REV",
            )
        return run
    head, base = sides.prepared(sides.head), sides.prepared(sides.base)
    # Base's alone: head could leave its own lines out.
    settings = settings_of(base.revision.source or head.revision.source)
    places = {path: place_in(head.revision, path) for path in python_files(head.layer)}
    touched, unread = touched_files(base.layer, head.layer, settings, only, places.__getitem__)
    jobs = tuple(
        read_data(text, touched, places, lambda one: (head.layer / one.path).read_bytes(), settings) for text in data
    )
    notes = tuple(f"coverage: {path} cannot be parsed by this interpreter, so it is not counted" for path in unread)
    return dataclasses.replace(run, touched=touched, coverage=jobs, notes=(*run.notes, *notes))


def with_data(run: Run, data: Sequence[str], top: Path) -> Run:
    """The run, of another job, with what coverage data say of the lines that its diff touches.

    Args:
        run: whose touched lines are asked about.
        data: `FILE` or `NAME=FILE` each.
        top: the repository, from which paths are counted.

    Raises:
        UsageError: no run has touched lines, or data cannot be read.
    """
    from ..gate.coverage_data import read_data
    from ..mutation.touched import settings_of

    if not run.touched:
        raise UsageError(
            "none of the runs says what the diff touches",
            where="--coverage-data",
            todo="merge the run of `stormdrain gate --base REV` with them",
        )
    places = {one.path: one.place or one.path for one in run.touched}
    places |= {place: place for place in _python_files(top) if place not in places.values()}

    def source_of(one: Touched) -> bytes | None:
        file = top / (one.place or one.path)
        return file.read_bytes() if file.is_file() else None

    jobs = tuple(read_data(text, run.touched, places, source_of, settings_of(top)) for text in data)
    return dataclasses.replace(run, coverage=(*run.coverage, *jobs))


def _python_files(top: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in ("node_modules", "venv")]
        for name in names:
            if name.endswith(".py"):
                yield Path(folder, name).relative_to(top).as_posix()


def place_in(revision: Revision, path: str) -> str:
    """Where a file of a layer lies in the repository, from its top; as it is installed where it is not found."""
    from ..reporting.places import in_tree

    tree = revision.source
    if tree is None:
        return path
    place = in_tree(path, tree)
    top = revision.checkout
    if top is None or not (tree / place).is_file() or not tree.is_relative_to(top):
        return place
    return (tree.relative_to(top) / place).as_posix()
