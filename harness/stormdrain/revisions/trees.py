"""Copies of source trees in the cache: what belongs to one, what it hashes to, how it is copied.

A revision is built from a copy, never in place: builds write into the tree that
they build, and a working tree changes while a run lasts. The identity of a tree
is a hash over its files' names, modes and content.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .cache import Cache, digest

_YOUNG_NS = 2_000_000_000

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


@dataclass(frozen=True)
class Known:
    """The record of a tree's digest, kept by what `stat` says of its files."""

    digest: str


def known_digest(root: Path, files: Sequence[str], cache: Cache) -> str:
    """:func:`tree_digest`, read anew only where a file's size, times or inode changed since.

    Args:
        root: the tree.
        files: its files, relative to it.
        cache: where digests are kept.

    Raises:
        UsageError: a file cannot be read.
    """
    facts = []
    latest = 0
    for name in files:
        with contextlib.suppress(OSError):
            fact = os.lstat(root / name)
            facts.append((name, fact.st_mode, fact.st_size, fact.st_mtime_ns, fact.st_ctime_ns, fact.st_ino))
            latest = max(latest, fact.st_mtime_ns, fact.st_ctime_ns)
    if time.time_ns() - latest < _YOUNG_NS:
        # It may change again within one tick of the file system's clock.
        return tree_digest(root, files)
    key = digest("known", root, *facts)
    return cache.make("digests", key, Known, lambda scratch: Known(tree_digest(root, files))).digest


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
    for path, copy in _pairs(source, target):
        shutil.copyfile(path, copy, follow_symlinks=False)
        if not copy.is_symlink():
            copy.chmod(stat.S_IMODE(path.stat().st_mode) | 0o200)


def _pairs(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Each file and link below `source` and where it goes; the directories there are made on the way."""
    for folder, folders, files in os.walk(source):
        copy = target / os.path.relpath(folder, source)
        copy.mkdir(parents=True, exist_ok=True)
        for name in (*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))):
            yield Path(folder, name), copy / name


def link_tree(source: Path, target: Path) -> None:
    """Make a second tree with the same files by another name; what changes one must write it anew."""
    for path, copy in _pairs(source, target):
        try:
            os.link(path, copy, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.EXDEV):
                raise
            shutil.copy2(path, copy, follow_symlinks=False)


def make_files_read_only(root: Path) -> None:
    """Take the write bits off a tree's files, not its `.git`; tests may still write beside themselves."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
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
