"""An import root with a mutant in it, for the processes that tests start.

Swapped code objects end at the process boundary. A child finds the mutant through
PYTHONPATH: a tree of links to the layer in which only the folders on the way to
the mutated file are real. It costs a few system calls for each name beside that
way, and the layer itself is not touched; compiled files are linked one by one, so
that nothing is compiled into the original's cache.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path


def mirror(texts: Mapping[str, str], layers: Sequence[str], target: Path) -> list[str]:
    """Build the tree.

    Args:
        texts: real path -> mutated text.
        layers: import roots of the revision.
        target: a folder that does not exist yet.

    Returns:
        The import roots to put before the layers.
    """
    roots: dict[str, None] = {}
    for path, text in texts.items():
        for number, layer in enumerate(layers):
            relative = os.path.relpath(path, os.path.realpath(layer))
            if relative.startswith(os.pardir):
                continue
            root = target / str(number)
            roots[str(root)] = None
            _open(Path(layer), root, Path(relative).parent)
            (root / relative).unlink()
            (root / relative).write_text(text)
            cache = root / Path(relative).parent / "__pycache__"
            for compiled in cache.glob(f"{Path(relative).stem}.*.pyc") if cache.is_dir() else ():
                compiled.unlink()
            break
    return list(roots)


def _open(source: Path, target: Path, way: Path) -> None:
    """Make `target` a folder of links to what is in `source`, and so on along `way`."""
    if target.is_symlink():
        target.unlink()
    if not target.is_dir():
        target.mkdir(parents=True)
        for entry in os.scandir(source):
            if entry.name == "__pycache__":
                _open(source / entry.name, target / entry.name, Path())
            else:
                (target / entry.name).symlink_to(entry.path)
    if way.parts:
        _open(source / way.parts[0], target / way.parts[0], Path(*way.parts[1:]))
