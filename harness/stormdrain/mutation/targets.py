"""Which lines operators act on: those that the diff touches, and those of symbols that are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import UsageError
from ..splice import line_splices
from ..symbols import Symbols

Lines = dict[str, set[int]]
"""Path -> line numbers, from 1."""


def changed_lines(base: Mapping[str, bytes], head: Mapping[str, bytes]) -> Lines:
    """The lines of head that differ from base."""
    found: Lines = {}
    for path, old in base.items():
        for splice in line_splices(path, head[path], old):
            first = head[path].count(b"\n", 0, splice.start) + 1
            last = head[path].count(b"\n", 0, splice.end)
            found.setdefault(path, set()).update(range(first, last + 1))
    return found


def module_path(name: str, existing: Iterable[str]) -> tuple[str, str] | None:
    """The file of a dotted name, and the rest: `pkg.mod.Class.f` -> (`pkg/mod.py`, `Class.f`)."""
    files = set(existing)
    module, colon, rest = name.partition(":")
    parts = module.split(".")
    for cut in range(len(parts), 0, -1):
        stem = "/".join(parts[:cut])
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if path in files:
                return path, ".".join(parts[cut:]) if not colon else rest
    return None


def place_symbols(wanted: Sequence[str], existing: Iterable[str], known: Iterable[str]) -> dict[str, list[str]]:
    """The files that named symbols are in: path -> qualified names (empty: the whole module).

    Args:
        wanted: `pkg.mod:Class.method`, `pkg.mod.Class.method`, or a qualified name in one of the known files.
        existing: every file of the revision; known: those that a diff or a plan names.

    Raises:
        UsageError: a name is in none of them.
    """
    files = sorted(set(existing))
    found: dict[str, list[str]] = {}
    for name in wanted:
        placed = module_path(name, files)
        paths = [placed[0]] if placed else sorted(set(known))
        if not paths:
            raise UsageError(
                f"it is not known which file {name} is in",
                where="--symbol",
                todo="write pkg.mod:Class.method",
            )
        for path in paths:
            found.setdefault(path, []).append(placed[1] if placed else name)
    return found


def symbol_lines(placed: Mapping[str, Sequence[str]], symbols: Mapping[str, Symbols]) -> Lines:
    """The lines of named symbols.

    Raises:
        UsageError: a name is defined in none of its files.
    """
    found: Lines = {}
    missing: dict[str, UsageError] = {}
    seen: set[str] = set()
    for path, names in placed.items():
        for name in names:
            try:
                lines = range(1, len(symbols[path].source.splitlines()) + 1)
                if name:
                    symbol = symbols[path].find(name)
                    lines = range(symbol.line, symbol.end_line + 1)
            except UsageError as error:
                missing.setdefault(name, error)
                continue
            seen.add(name)
            found.setdefault(path, set()).update(lines)
    for name, fault in missing.items():
        if name not in seen:
            raise UsageError(fault.what, where=f"--symbol ({fault.where})", todo=fault.todo)
    return found
