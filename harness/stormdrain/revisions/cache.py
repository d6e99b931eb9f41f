"""The cache that everything fetched or built lives in: atomic, shared, content-addressed.

Environments take seconds to build and are needed by every run, by several
processes at once, some of which get killed. So each entry is built in a
temporary directory under a lock of its own and renamed into place when it is
whole: what can be seen is complete, and a second run only reads records. A
temporary directory whose owner is gone is swept by the next process that builds
something.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..errors import UsageError
from ..model import from_json, to_json

Record = TypeVar("Record")

LOCK_SECONDS = 1800.0
"""How long one process waits for another that builds the same entry."""

_NO_ACCESS = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_IN_THE_WAY = {errno.ENOTDIR, errno.EEXIST, errno.ELOOP}


def digest(*parts: object) -> str:
    """A key of 32 hexadecimal digits over the parts' text, in order."""
    return hashlib.sha256(json.dumps([str(part) for part in parts]).encode()).hexdigest()[:32]


def full_disk(where: str) -> UsageError:
    """The error for a disk without room."""
    return UsageError(
        "the disk is full",
        where=where,
        todo="make room there, or point STORMDRAIN_CACHE at a larger disk",
    )


@contextlib.contextmanager
def told(root: Path) -> Iterator[None]:
    """Tell in words what the operating system refused the cache at `root`; any other OSError passes.

    Raises:
        UsageError: no write access, the disk is full, or something else is in the cache's place.
    """
    try:
        yield
    except OSError as error:
        place = str(error.filename or root)
        if error.errno in _FULL:
            raise full_disk(place) from error
        if not (Path(place) == root or root in Path(place).parents or Path(place) in root.parents):
            raise
        if error.errno in _NO_ACCESS:
            raise UsageError(
                f"no write access to the cache: {error.strerror}",
                where=place,
                todo="make it writable, or point STORMDRAIN_CACHE at a directory that is",
            ) from error
        if error.errno in _IN_THE_WAY:
            raise UsageError(
                f"the cache's directory cannot be made: {error.strerror}",
                where=place,
                todo="move away what is there, or point STORMDRAIN_CACHE at another directory",
            ) from error
        raise


def remove_tree(path: Path) -> None:
    """Remove a directory with everything in it, read-only parts too; nothing happens where there is none."""
    if not path.is_dir() or path.is_symlink():
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def make_read_only(path: Path) -> None:
    """Take the write bits off everything under `path`, and off `path`."""
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            file = os.path.join(folder, name)
            if not os.path.islink(file):
                os.chmod(file, stat.S_IMODE(os.stat(file).st_mode) & ~0o222)
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) & ~0o222)


def default_root() -> Path:
    """$STORMDRAIN_CACHE, else $XDG_CACHE_HOME/stormdrain, else ~/.cache/stormdrain."""
    if own := os.environ.get("STORMDRAIN_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "stormdrain"


@dataclass(frozen=True)
class Cache:
    """A cache directory.

    root: the directory (made when something is first written).
    progress: gets a line before each piece of slow work.
    """

    root: Path = field(default_factory=default_root)
    progress: Callable[[str], None] = field(default=lambda line: None, compare=False)

    def entry(self, kind: str, key: str) -> Path:
        """Where the entry is, or would be."""
        return self.root / kind / key

    def read(self, kind: str, key: str, form: type[Record]) -> Record | None:
        """The record of an entry, or None where there is no whole entry."""
        try:
            text = (self.entry(kind, key) / "record.json").read_bytes()
            return from_json(form, json.loads(text))
        except (OSError, ValueError):
            return None

    def make(self, kind: str, key: str, form: type[Record], build: Callable[[Path], Record], say: str = "") -> Record:
        """The record of an entry, which is built first where there is none.

        Args:
            kind: the sort of entry, a directory of the cache.
            key: its name: a digest of all that it depends on.
            form: the dataclass of its record.
            build: fills the empty directory that it is given and returns the record.
            say: a line of progress for when it has to be built.

        Raises:
            UsageError: the cache cannot be written, or what `build` raises.
        """
        if (record := self.read(kind, key, form)) is not None:
            return record
        with self.locked(f"{kind}-{key}"):
            if (record := self.read(kind, key, form)) is not None:
                return record
            if say:
                self.progress(say)
            with self.scratch() as scratch:
                record = build(scratch)
                (scratch / "record.json").write_text(json.dumps(to_json(record), indent=1))
                place = self.entry(kind, key)
                remove_tree(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.rename(scratch, place)
        return record

    def drop(self, kind: str, key: str) -> None:
        """Remove an entry that turned out to be unusable."""
        with self.locked(f"{kind}-{key}"):
            remove_tree(self.entry(kind, key))

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Hold the lock of that name; threads and processes alike wait for it.

        Raises:
            UsageError: the cache cannot be written, or another process holds the lock for too long.
        """
        with told(self.root), contextlib.ExitStack() as stack:
            folder = self.root / "locks"
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            stack.callback(os.close, handle)
            self._wait(handle, name)
            yield

    def _wait(self, handle: int, name: str) -> None:
        until = time.monotonic() + LOCK_SECONDS
        said = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise UsageError(
                        f"another process has been building {name} for {LOCK_SECONDS / 60:.0f} minutes",
                        where=str(self.root),
                        todo="end that process, then run this again",
                    ) from None
                if not said:
                    self.progress(f"waiting for another process that builds {name}")
                    said = True
                time.sleep(0.05)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty directory in the cache that is gone afterwards, unless it was renamed away."""
        with told(self.root):
            path, handle = _claim(self.root / "tmp")
            try:
                yield path
            finally:
                os.close(handle)
                remove_tree(path)


def _claim(folder: Path) -> tuple[Path, int]:
    """Make a temporary directory that is locked for as long as the descriptor returned with it is open.

    All of it happens under a lock of the folder, so that nobody can sweep a
    directory that was made and is not locked yet.
    """
    folder.mkdir(parents=True, exist_ok=True)
    gate = _lock(folder)
    try:
        _sweep(folder)
        path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder))
        return path, _lock(path)
    finally:
        os.close(gate)


def _lock(folder: str | Path, how: int = fcntl.LOCK_EX) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, how)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _sweep(folder: Path) -> None:
    """Remove what processes that are gone left in `folder`: what nobody holds the lock of."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                handle = _lock(entry.path, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(Path(entry.path))
                os.close(handle)
