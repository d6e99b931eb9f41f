"""Copies of source trees in the cache: what belongs to one, what it hashes to, how it is copied.

A revision is built from a copy, never in place: builds write into the tree that
they build, and a working tree changes while a run lasts. The identity of a tree
is a hash over its files' names, modes and content.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import UsageError

CLUTTER = {
    ".git",
    ".hg",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "node_modules",
}
"""Directories that are no part of a tree that no version control describes."""


def walk(root: Path) -> Iterator[str]:
    """The files under a directory, relative to it, sorted, without caches and environments."""
    for folder, folders, files in os.walk(root):
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(
            name
            for name in folders
            if name not in CLUTTER
            and name not in linked
            and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        )
        for name in sorted([*files, *linked]):
            if not name.endswith((".pyc", ".pyo")):
                yield os.path.relpath(os.path.join(folder, name), root)


def tree_digest(root: Path, files: Iterable[str]) -> str:
    """Hash over the names, modes and content of `files` (relative to `root`).

    Raises:
        UsageError: a file cannot be read.
    """
    total = hashlib.sha256()
    for name in files:
        path = root / name
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                kind, content = b"link", os.fsencode(os.readlink(path))
            elif stat.S_ISREG(mode):
                kind, content = b"exec" if mode & 0o100 else b"file", path.read_bytes()
            else:
                continue
        except OSError as error:
            raise unreadable(path, error) from error
        total.update(os.fsencode(name) + b"\0" + kind + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()[:32]


def copy_files(root: Path, files: Iterable[str], target: Path) -> None:
    """Copy `files` (relative to `root`) to `target`: content, execute bit and links; the copy can be written.

    Raises:
        UsageError: a file cannot be read.
    """
    for name in files:
        source, copy = root / name, target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        try:
            mode = source.lstat().st_mode
            if stat.S_ISLNK(mode):
                copy.symlink_to(os.readlink(source))
            elif stat.S_ISREG(mode):
                shutil.copyfile(source, copy)
                copy.chmod(0o755 if mode & 0o100 else 0o644)
        except OSError as error:
            if error.filename and Path(error.filename) == source:
                raise unreadable(source, error) from error
            raise


def copy_tree(source: Path, target: Path) -> None:
    """Copy a whole directory of the cache, `.git` too, so that the copy can be written."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, _, names in os.walk(target):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | 0o200)


def link_tree(source: Path, target: Path) -> None:
    """Make a second tree with the same files by another name; what changes one must write it anew."""
    shutil.copytree(source, target, symlinks=True, copy_function=os.link)


def make_files_read_only(root: Path) -> None:
    """Take the write bits off a tree's files; directories stay writable, since tests write beside themselves."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)


def unreadable(path: Path, error: OSError) -> UsageError:
    """The error for a file of the user's that cannot be read."""
    return UsageError(
        f"a file of the revision cannot be read: {error.strerror}",
        where=str(path),
        todo="make it readable, or have version control ignore it",
    )
