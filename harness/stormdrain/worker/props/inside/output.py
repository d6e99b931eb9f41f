"""What one descriptor is to be sent: a list of steps, worked off in order.

A step that cannot be done yet (nobody reads, or a pause) blocks the ones behind it
and nothing else: output is written only as far as a writable pipe or socket is sure
to take it at once.
"""

import posix
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLOOD = (b"x" * 79 + b"\n") * 51


class Output:
    """Steps: `("write", bytes)`, `("pause", seconds)`, `("flood", left, whole)`; any other goes to `do`.

    Args:
        actor: the process, for its poll and its timers.
        fd: where to write.
        steps: what is to be done first.
    """

    def __init__(self, actor: "Any", fd: int, steps: "list[tuple[Any, ...]]") -> None:
        self.actor = actor
        self.fd = fd
        self.steps = list(steps)
        self.pause = 0
        """Number of the timer of the pause that it is in."""
        self.open = True
        self.chunk = min(actor.limit, 4096)

    def do(self, kind: str, argument: "list[Any]") -> None:
        """One step that is not output."""

    def broken(self) -> None:
        """The other side no longer takes anything."""

    def advance(self) -> None:
        """Work off the steps up to one that has to wait; ask for writability only where it is needed."""
        while self.steps and not self.pause:
            kind, *argument = self.steps[0]
            if kind in ("write", "flood") and self.open:
                break
            self.steps.pop(0)
            if kind == "pause":
                self.pause = self.actor.after(argument[0], "pause", self.resume)
            elif kind not in ("write", "flood"):
                self.do(kind, argument)
        if self.open:
            self.actor.watch(self.fd, select.POLLOUT, bool(self.steps) and not self.pause)

    def resume(self, _argument: object) -> None:
        """A pause is over."""
        self.pause = 0
        self.advance()

    def write(self) -> None:
        """Write as much of the first step as is sure to be taken at once."""
        if not self.steps or self.pause or not self.open:
            return
        kind, argument, *rest = self.steps.pop(0)
        data = argument[: self.chunk] if kind == "write" else FLOOD[: min(argument, self.chunk)]
        try:
            written = posix.write(self.fd, data)
        except BlockingIOError:
            written = 0
        except OSError:
            self.broken()
            return
        left = argument[written:] if kind == "write" else argument - written
        if left:
            self.steps.insert(0, (kind, left, *rest))
        elif kind == "flood":
            self.steps.insert(0, ("flooded", *rest))

    def flush(self) -> None:
        """Write the lines that stand first, as far as they are taken now."""
        out = select.poll()
        out.register(self.fd, select.POLLOUT)
        while self.open and not self.pause and self.steps and self.steps[0][0] == "write" and out.poll(0):
            self.write()

    def close(self) -> None:
        """Close it for good; what was still to be written is dropped as its turn comes."""
        if self.open:
            self.open = False
            self.actor.unwatch(self.fd)
            posix.close(self.fd)
