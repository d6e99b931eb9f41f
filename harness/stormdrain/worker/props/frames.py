"""Messages of scripted processes, read back from the FIFO.

Every process writes whole frames of at most PIPE_BUF bytes, so frames never mix.
But the FIFO has a path, and whatever runs in the trial could write to it; what is
no frame is counted and skipped, and never costs a frame that follows it on a line
of its own or starts anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 4096
"""No frame is longer (PIPE_BUF on Linux; it is smaller elsewhere)."""
_FRAME = re.compile(rb"(\d{1,9}) ([a-z-]{1,32}) (.*)", re.DOTALL)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Frame:
    """One message: the process, what kind, and its payload."""

    pid: int
    kind: str
    payload: bytes

    @property
    def text(self) -> str:
        """The payload as text; bytes that are no UTF-8 show as escapes."""
        return self.payload.decode("utf-8", "backslashreplace")


def unescape(payload: bytes) -> bytes:
    """The inverse of `actor.escape`."""
    return _ESCAPED.sub(lambda match: {b"n": b"\n", b"2": b"\2"}.get(match[1], match[1]), payload)


class FrameReader:
    """Takes bytes in any pieces, gives frames. `garbage` counts the stretches that were none."""

    def __init__(self) -> None:
        self.garbage = 0
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST:
            self.garbage += 1
            self._rest = self._rest[-LONGEST:]
        return [frame for line in lines if (frame := self._read(line)) is not None]

    def _read(self, line: bytes) -> Frame | None:
        before, mark, body = line.rpartition(b"\2")
        match = _FRAME.fullmatch(body) if mark and len(body) < LONGEST else None
        if before or match is None:
            self.garbage += 1
        return Frame(int(match[1]), match[2].decode(), unescape(match[3])) if match else None
