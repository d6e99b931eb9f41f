"""Where a line of the target is in the project's tree, for formats that point at files.

A run knows files as they are installed (`package/module.py`); a code host wants
them as they lie in the repository (`src/package/module.py`).
"""

from __future__ import annotations

import functools
from pathlib import Path

from ..model import Site


@functools.lru_cache(maxsize=4096)
def in_tree(file: str, root: Path | None) -> str:
    """The path of an installed file relative to the tree's root, the file itself where it is not there.

    Args:
        file: relative to the import root.
        root: the project's tree, None where there is none.
    """
    if root is None or Path(file).is_absolute() or ".." in Path(file).parts:
        return file
    folders = [root, root / "src", root / "lib", *_folders(root)]
    for folder in folders:
        if (folder / file).is_file():
            return (folder / file).relative_to(root).as_posix()
    return file


@functools.lru_cache(maxsize=64)
def _folders(root: Path) -> tuple[Path, ...]:
    try:
        return tuple(sorted(one for one in root.iterdir() if one.is_dir() and not one.name.startswith(".")))
    except OSError:
        return ()


def place(site: Site | None, root: Path | None) -> tuple[str, int] | None:
    """File and line of a site in the tree, None where there is no site."""
    if site is None or not site.file:
        return None
    return in_tree(site.file, root), max(site.line, 1)
