"""Progress on stderr: a line that redraws itself on a terminal, at most a line per cell elsewhere."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

from ..compare import standing
from ..model import Baseline, CellResult, MutantRecord, Trial, Verdict
from ..reporting.escape import plain

REDRAW = 0.1
"""Seconds between two drawings."""


class Progress:
    """Counts what comes and says so. Safe to call from several threads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._lock = threading.Lock()
        self._drawn = 0.0
        self._status = ""
        self._trials = self._failed = self._cells = self._mutants = 0

    def __call__(self, item: object) -> None:
        """Take a record or a line of progress."""
        with self._lock:
            if isinstance(item, Trial):
                self._trials += 1
                self._failed += item.phase == "storm" and item.verdict is Verdict.FAIL
            elif isinstance(item, CellResult):
                self._cells += 1
                self._line(cell_line(item))
            elif isinstance(item, MutantRecord):
                self._mutants += 1
            elif isinstance(item, Baseline):
                self._line(f"{item.python}: baseline of {len(item.tests)} tests, {len(item.left_out)} left out")
            else:
                self._status = plain(item, 200)
            self._draw()

    def _draw(self) -> None:
        now = time.monotonic()
        if not self._live or now - self._drawn < REDRAW:
            return
        self._drawn = now
        counts = [
            f"{number} {what}"
            for number, what in (
                (self._trials, "trials"),
                (self._failed, "failed"),
                (self._mutants, "mutants"),
                (self._cells, "cells done"),
            )
            if number
        ]
        text = " · ".join([*counts, self._status] if self._status else counts)
        width = min(80, shutil.get_terminal_size().columns) - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()

    def _line(self, text: str) -> None:
        self._stream.write(("\r\x1b[K" if self._live else "") + text + "\n")
        self._stream.flush()

    def end(self) -> None:
        """Remove the line that redraws itself."""
        with self._lock:
            if self._live:
                self._stream.write("\r\x1b[K")
                self._stream.flush()


def cell_line(result: CellResult) -> str:
    """One line for one cell that is done."""
    cell = result.cell
    where = " ".join(part for part in (cell.role, cell.python, cell.backend) if part)
    return (
        f"{result.verdict.value} {plain(cell.probe, 60)} ({where}): {result.trials} trials, "
        f"{len(standing(result))} findings, {result.seconds:.1f} s"
    )
