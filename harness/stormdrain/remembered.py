"""Schedules that failed, from one search to the next, and from head to base.

A search is worth little if what it found must be found again. What failed is kept by
probe, not by revision: it is thrown first next time, at whatever is there then. And
where head is compared with base, base is asked about the very schedules that head
fails in, since what base never met it cannot be said to pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from .model import Cell, Schedule

REMEMBERED = 50
"""So many schedules of a probe are kept for the next time."""
_LOOK = 0.5
"""Real seconds between two looks at whether the run was stopped."""


class Memory:
    """Schedules that failed, kept in a folder for the next time; a file for each probe and backend.

    Not being able to read or write it is no reason to fail.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, cell: Cell) -> Path:
        key = hashlib.sha256("|".join((cell.script, cell.probe, cell.backend)).encode()).hexdigest()[:16]
        return self._folder / f"{key}.json"

    def read(self, cell: Cell) -> tuple[str, ...]:
        """The schedules of a cell's probe, the last found first."""
        try:
            kept = json.loads(self._file(cell).read_text())["schedules"]
            return tuple(text for text in kept if isinstance(text, str))
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def add(self, cell: Cell, schedules: Sequence[Schedule]) -> None:
        """Keep schedules, in front of those that are there."""
        if not schedules:
            return
        file = self._file(cell)
        kept = [*map(str, schedules), *self.read(cell)]
        texts = list(dict.fromkeys(kept))[:REMEMBERED]
        body = {"script": cell.script, "probe": cell.probe, "backend": cell.backend, "schedules": texts}
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}.{threading.get_ident()}")
            fresh.write_text(json.dumps(body, indent=1))
            fresh.replace(file)


class Exchange:
    """What head tells base, while both are searched: base waits for head's answer."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._found: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._over: set[tuple[str, ...]] = set()

    def tell(self, cell: Cell, schedules: Sequence[Schedule]) -> None:
        """Head's search of a cell is over, and these fail."""
        with self._lock:
            self._found[_of(cell)] = tuple(map(str, schedules))
            self._lock.notify_all()

    def end(self, script: str, python: str) -> None:
        """Head's worker for a script is gone, with or without having searched all that it should."""
        with self._lock:
            self._over.add((script, python))
            self._lock.notify_all()

    def ask(self, cell: Cell, stopped: Callable[[], bool]) -> tuple[str, ...]:
        """What head fails in; waits until that is known, or head is gone, or the run is stopped."""
        with self._lock:
            while _of(cell) not in self._found and _of(cell)[:2] not in self._over and not stopped():
                self._lock.wait(_LOOK)
            return self._found.get(_of(cell), ())


def _of(cell: Cell) -> tuple[str, ...]:
    return cell.script, cell.python, cell.probe, cell.backend
