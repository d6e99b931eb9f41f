"""Schedules that failed, from one search to the next.

A search is worth little if what it found must be found again. What failed is kept by
probe, not by revision: it is thrown first next time, at whatever is there then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path

from .model import Cell, Schedule

REMEMBERED = 50
"""So many schedules of a probe are kept for the next time."""


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
