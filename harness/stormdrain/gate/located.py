"""Where things are that a configuration names: the line of a key, the file beside the configuration."""

from __future__ import annotations

import re
from pathlib import Path

_OVERLAY = re.compile(r"\+(?=[^+]*\.(?:toml|patch|diff)(?:\+|$))")


def anchored(spec: str, folder: Path) -> str:
    """A revision whose overlays and folder are looked up beside the file that names it."""
    first, *overlays = _OVERLAY.split(spec)
    if first.startswith("path:"):
        first = "path:" + _beside(first[5:], folder)
    return "+".join((first, *(_beside(name, folder) for name in overlays)))


def _beside(name: str, folder: Path) -> str:
    path = folder / name
    return str(path.resolve()) if path.exists() else name


def line_of(text: str, table: str, key: str, entry: int = 0) -> int:
    """The line (from 1) of a key in a table, of the table where the key is not found, else 1.

    Args:
        text: the TOML source.
        table: dotted name, empty for the top.
        key: the key's name, empty for the table itself.
        entry: which one, for an array of tables.
    """
    header = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
    pattern = re.compile(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""")
    current, seen, at_table = "", -1, 1
    for number, line in enumerate(text.splitlines(), 1):
        match = header.match(line)
        if match:
            current = re.sub(r"""["'\s]""", "", match[1])
            if current == table:
                seen += 1
                if seen == entry:
                    at_table = number
            if key and current == (f"{table}.{key}" if table else key):
                return number
        elif key and current == table and max(seen, 0) == entry and pattern.match(line):
            return number
    return at_table
