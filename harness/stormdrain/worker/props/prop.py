"""What child and peer have in common for the probe: their processes, and waiting for what these report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...errors import UsageError
from .frames import Frame
from .kernel import look

if TYPE_CHECKING:
    from .hub import Hub

PATIENCE = 10.0
"""Seconds of real time that a process gets to become ready."""


@dataclass
class Timer:
    """A delay that a process waits for: its moment on the trial's clock, and what it is for."""

    due: float
    why: str


@dataclass(eq=False)
class Process:
    """A process that has said hello.

    role: empty for the child itself, `keeps-pipe` or `daemon` for a grandchild.
    """

    pid: int
    prop: Prop
    name: str
    role: str
    started: int
    ready: bool = False
    leaving: bool = False
    timers: dict[int, Timer] = field(default_factory=dict)
    unanswered: set[int] = field(default_factory=set)

    @property
    def label(self) -> str:
        """What it is called on the timeline: `child cli`."""
        return f"{self.prop.kind.rpartition(' ')[2]} {self.name}"

    def state(self) -> str:
        """The kernel's state letter, empty where it is gone."""
        found = look(self.pid)
        return found[0] if found is not None and found[1] == self.started else ""

    def alive(self) -> bool:
        """Whether it can still act: neither gone nor a zombie."""
        return self.state() not in ("", "Z", "X", "x")

    def running(self) -> bool:
        """Whether it will answer without being helped: alive and not stopped."""
        return self.state() not in ("", "Z", "X", "x", "T", "t")


class Prop:
    """What a probe gets for something scripted; made by the hub.

    Attributes:
        name: as given, with a number where a name came twice.
        path: the executable file.
        pids: every process that said hello for it, in order; grandchildren too.
    """

    kind = "prop"

    def __init__(self, hub: Hub, name: str, path: str) -> None:
        self._hub = hub
        self.name = name
        self.path = path
        self.pids: list[int] = []
        self.processes: list[Process] = []
        self.broken = ""
        """What a process of it reported as a fault of its own."""

    def heard(self, process: Process, frame: Frame) -> None:
        """Take a message that is of this kind of prop only."""

    def wait(self, happened: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """Block until something has been heard.

        Args:
            happened: looked at after every message.
            what: what is waited for, for the error: "it is ready".
            timeout: seconds of real time.

        Raises:
            UsageError: it did not come; says how far the process got.
        """
        self._hub.wait(lambda: bool(self.broken) or happened() or self.hopeless(), timeout)
        self._hub.drain()  # what it said before it ended
        if self.broken:
            raise self._failure(f"the {self.kind} {self.name!r} broke down: {self.broken}")
        if not happened():
            why = "it ended before" if self.hopeless() else f"waited {timeout:g} s in vain until"
            raise self._failure(f"the {self.kind} {self.name!r}: {why} {what}")

    def hopeless(self) -> bool:
        """Whether all of its processes that were started have ended."""
        return bool(self.processes) and not any(process.alive() for process in self.processes)

    def _failure(self, what: str) -> UsageError:
        states = [
            f"process {process.pid} of it: "
            + ("ready" if process.ready else "started, not ready")
            + {"": ", gone", "Z": ", a zombie", "T": ", stopped"}.get(process.state(), "")
            for process in self.processes
        ]
        seen = "; ".join(states) if states else "no process of it was ever started"
        return UsageError(f"{what} ({seen})", where=self.path, todo=self._advice(bool(states)))

    def _advice(self, started: bool) -> str:
        return "see what its script waits for" if started else "see that the subject runs its path"
