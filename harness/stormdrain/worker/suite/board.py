"""What a fork reports, in memory that it shares with the process that made it.

A line on a pipe for each test wakes the reader each time, on the cores that the
tests need; and code under test may close every descriptor that it can find. So a
fork writes its records into a shared page, and its end says that they are there.
"""

from __future__ import annotations

import json
import mmap
import struct
from typing import Any

_HEAD = struct.Struct("qdq")
"""The test that is running (or -1), since when, and how many bytes of records there are."""
SIZE = 8 << 20
"""Bytes, of which the kernel provides what is used. Records beyond are dropped, and their tests run again."""


class Board:
    """A shared page for one fork at a time."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)
        self.clear()

    def clear(self) -> None:
        """Make it ready for a new fork."""
        self._current, self._since, self._length = -1, 0.0, 0
        self._write_head()

    def _write_head(self) -> None:
        _HEAD.pack_into(self._memory, 0, self._current, self._since, self._length)

    def start(self, index: int, now: float) -> None:
        """A test begins."""
        self._current, self._since = index, now
        self._write_head()

    def put(self, *what: object) -> None:
        """Add a record. A result also says that no test is running."""
        data = json.dumps(what).encode() + b"\n"
        begin = _HEAD.size + self._length
        if what[0] == "result":
            self._current = -1
        if begin + len(data) <= SIZE:
            self._memory[begin : begin + len(data)] = data
            self._length += len(data)
        self._write_head()

    def running(self) -> tuple[int, float]:
        """The test that is running (-1 where none is), and since when."""
        current, since, _ = _HEAD.unpack_from(self._memory, 0)
        return int(current), float(since)

    def records(self) -> list[list[Any]]:
        """Everything that was added."""
        _, _, length = _HEAD.unpack_from(self._memory, 0)
        data = bytes(self._memory[_HEAD.size : _HEAD.size + length])
        return [json.loads(line) for line in data.splitlines()]
