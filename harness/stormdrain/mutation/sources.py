"""The files that mutants change, as a revision's layer holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..symbols import Symbols
from .mutant import paths_of
from .plan import PlannedMutant
from .targets import place_symbols


@dataclass(frozen=True)
class Sources:
    """Files under test by path relative to the layer, their definitions, and every file that exists there."""

    files: dict[str, bytes]
    symbols: dict[str, Symbols]
    existing: frozenset[str]


def python_files(layer: Path) -> Iterator[str]:
    """Every Python file of a layer, relative to it."""
    for path in sorted(layer.rglob("*.py")):
        yield path.relative_to(layer).as_posix()


def read_sources(
    layer: Path, planned: Sequence[PlannedMutant], base: Mapping[str, bytes], named: Sequence[str] = ()
) -> tuple[Sources, dict[str, list[str]]]:
    """Read the files that a plan's mutants change, those that the diff does, and those of named symbols.

    Returns:
        The files, and where the named symbols are (see :func:`place_symbols`).
    """
    existing = frozenset(python_files(layer))
    wanted = dict.fromkeys(path for one in planned for path in paths_of(one.edits, existing))
    wanted.update(dict.fromkeys(base))
    placed = place_symbols(named, existing, wanted)
    wanted.update(dict.fromkeys(placed))
    files = {path: (layer / path).read_bytes() for path in wanted}
    symbols = {path: Symbols(source, where=path) for path, source in files.items()}
    return Sources(files, symbols, existing), placed


def changed_files(base: Path, head: Path) -> dict[str, bytes]:
    """Base's text of every Python file that both layers have and that differs."""
    found = {}
    here = set(python_files(head))
    for path in python_files(base):
        if path in here and (text := (base / path).read_bytes()) != (head / path).read_bytes():
            found[path] = text
    return found
