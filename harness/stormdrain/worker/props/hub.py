"""The trial's side of its scripted processes: what they said, which delays they wait for, and orders to them.

There is one hub in a trial. Processes report on one FIFO in its folder, which it
reads whenever the clock looks; in virtual time it holds their delays, so that the
clock can jump to them, and tells a process when its moment has come. Nothing here
runs by itself: no thread, no loop, no signal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError
from .frames import Frame, FrameReader
from .kernel import look, real_now
from .program import write_executable, write_program
from .script import checked_keywords, child_script, wrong

READY_TIMEOUT = 10.0
"""Seconds of real time that a process gets to become ready."""
KEPT = 10_000
"""Entries that are kept of what one child received."""
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass
class Timer:
    """A delay that a process waits for: its moment on the trial's clock, and what it is for."""

    due: float
    why: str


@dataclass
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

    def state(self) -> str:
        """The kernel's state letter, empty where it is gone."""
        found = look(self.pid)
        return found[0] if found is not None and found[1] == self.started else ""

    def replaced(self) -> bool:
        """Whether its number belongs to another process now."""
        found = look(self.pid)
        return found is not None and found[1] != self.started

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

    def wait(self, happened: Callable[[], bool], what: str, timeout: float = READY_TIMEOUT) -> None:
        """Block until something has been heard.

        Args:
            happened: looked at after every message.
            what: what is waited for, for the error: "it is ready".
            timeout: seconds of real time.

        Raises:
            UsageError: it did not come; says how far the process got.
        """
        self._hub.wait(lambda: bool(self.broken) or happened() or self.hopeless(), timeout)
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


class Child(Prop):
    """A scripted child: `path` is an executable for the code under test to start, as often as it likes."""

    kind = "scripted child"

    def __init__(self, hub: Hub, name: str, path: str, stops_itself: bool) -> None:
        super().__init__(hub, name, path)
        self._stops_itself = stops_itself
        self._received: list[str] = []
        self._signals: list[str] = []
        self._lines: list[str] = []
        self._eofs = 0
        self._closed = 0

    async def ready(self, count: int = 1) -> None:
        """Wait until so many of its processes have installed their handlers and written their lines.

        Blocks the loop: nothing that the trial would measure happens meanwhile.

        Raises:
            UsageError: not within 10 s of real time; says whether one was ever started.
        """
        self.wait(lambda: self._ready(count), "it is ready")

    def _ready(self, count: int) -> bool:
        ready = [process for process in self.processes if process.ready]
        if self._stops_itself:
            ready = [process for process in ready if process.state() != "" and not process.running()]
        return len(ready) >= count

    def received(self) -> list[str]:
        """What it has reported, in order: `SIGTERM`, each line that it read (cut at 1000 bytes), `EOF`."""
        self._hub.drain()
        return list(self._received)

    def signals(self) -> list[str]:
        """The names of the signals that it recorded, in order."""
        self._hub.drain()
        return list(self._signals)

    def lines(self) -> list[str]:
        """The lines that it read, in order."""
        self._hub.drain()
        return list(self._lines)

    def saw_eof(self) -> bool:
        """Whether one of its processes has seen the end of its stdin."""
        self._hub.drain()
        return self._eofs > 0

    def heard(self, process: Process, frame: Frame) -> None:
        """Take a message of a child: a signal, a line, EOF."""
        record = self._hub.record
        what = f"child {process.name}"
        if frame.kind == "signal":
            name = _signal_name(frame.text)
            self._keep(self._signals, name)
            record(what, f"got {name}")
        elif frame.kind == "line":
            self._keep(self._lines, frame.text)
            record(what, f"read {frame.text[:200]}")
        elif frame.kind == "eof":
            self._eofs += 1
            self._keep(None, "EOF")
            record(what, "saw the end of its stdin")
        elif frame.kind in _SAYINGS:
            record(what, _SAYINGS[frame.kind].format(frame.text))

    def _keep(self, also: list[str] | None, entry: str) -> None:
        if len(self._received) < KEPT:
            self._received.append(entry)
            if also is not None:
                also.append(entry)


_SAYINGS = {
    "closed": "closed its stdout",
    "broken-pipe": "found its stdout broken",
    "flooded": "wrote a flood of {} bytes",
    "continued": "was continued",
    "more": "reports no further {}s",
}


class Hub:
    """One trial's scripted processes.

    Args:
        folder: the trial's own temporary folder; a folder `props` is made in it.
        virtual: whether delays are held here (`next_timer`, `fire`) or slept by the processes.
        now: the trial's clock, in seconds.
        record: puts an event on the timeline: `record("child cli", "got SIGTERM")`. What is
            recorded names no process id, so that two trials alike have timelines alike.

    Attributes:
        pids: every process that has said hello, gone or not, with its name; without those whose
            number was given to another process since.
        garbage: stretches of bytes on the FIFO that were no message.
    """

    def __init__(
        self,
        folder: str,
        *,
        virtual: bool,
        now: Callable[[], float],
        record: Callable[[str, str], None],
    ) -> None:
        self.folder = os.path.join(os.path.abspath(folder), "props")
        self.virtual = virtual
        self.record = record
        self.pids: dict[int, str] = {}
        self._now = now
        self._props: dict[str, Prop] = {}
        self._processes: dict[int, Process] = {}
        self._reader = FrameReader()
        os.makedirs(self.folder, 0o700)
        os.mkfifo(self._events_path, 0o600)
        # For both directions, so that it never reads as ended, however many writers come and go.
        self._events = os.open(self._events_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        _enlarge(self._events)

    @property
    def _events_path(self) -> str:
        return os.path.join(self.folder, "events")

    @property
    def garbage(self) -> int:
        """Stretches of bytes on the FIFO that were no message."""
        return self._reader.garbage

    def descriptors(self) -> frozenset[int]:
        """Descriptors of this process that belong to the hub, for a census to leave out."""
        return frozenset() if self._events < 0 else frozenset({self._events})

    def child(self, name: str = "child", **script: Any) -> Child:
        """Write the executable of a scripted child; nothing is started.

        Args:
            name: letters, digits, `_` and `-`; a number is added where it comes twice.
            script: the keywords of :func:`stormdrain.worker.props.script.child_script`.

        Raises:
            UsageError: the name or a value of the script is wrong.
        """
        where = f"case.child({name!r})"
        checked_keywords(script, child_script.__kwdefaults__ or (), where)
        checked = child_script(where, **script)
        name, path = self._place(name, where)
        stops = bool(script.get("stops_itself", False))
        written = {"folder": self.folder, "id": name, "virtual": self.virtual, **checked}
        write_executable(path, write_program(self.folder, "actor", "child"), written)
        child = Child(self, name, path, stops)
        self._props[name] = child
        return child

    def _place(self, name: object, where: str) -> tuple[str, str]:
        """A name that is not taken, and its file."""
        if not isinstance(name, str) or not name or not set(name) <= _NAME_CHARS or len(name) > 60:
            raise wrong(f"{name!r} is no name", where, "use up to 60 letters, digits, `_` and `-`")
        free, number = name, 1
        while free in self._props:
            number += 1
            free = f"{name}-{number}"
        return free, os.path.join(self.folder, f"{free}.exe")

    # Messages

    def drain(self) -> bool:
        """Read all pending messages without blocking.

        To conclude that nothing will happen, look at the processes first and drain then: a
        process that speaks and falls asleep between the two is still heard.

        Returns:
            Whether any bytes came.
        """
        came = False
        for _ in range(64):
            if self._events < 0:
                break
            try:
                data = os.read(self._events, 65536)
            except BlockingIOError:
                break
            came = True
            for frame in self._reader.feed(data):
                self._hear(frame)
        for pid in [pid for pid in self.pids if self._processes[pid].replaced()]:
            del self.pids[pid]
        return came

    def wait(self, happened: Callable[[], bool], timeout: float) -> bool:
        """Block until something has been heard, for so many seconds of real time. Returns whether it was."""
        self.drain()
        poller = select.poll()
        poller.register(self._events, select.POLLIN)
        end = real_now() + timeout
        while not happened():
            left = end - real_now()
            if left <= 0:
                return False
            # Not every condition comes with a message (a process that stops), hence the upper bound.
            poller.poll(min(left, 0.02) * 1000)
            self.drain()
        return True

    def _hear(self, frame: Frame) -> None:
        if frame.kind == "hello":
            self._hello(frame)
            return
        process = self._processes.get(frame.pid)
        if process is None:
            self._reader.garbage += 1
            return
        what = f"{_noun(process.prop)} {process.name}"
        if frame.kind == "ready":
            process.ready = True
            self.record(what, "ready")
        elif frame.kind == "timer":
            self._timer(process, frame, what)
        elif frame.kind == "fired":
            if frame.text.isdecimal():
                process.timers.pop(int(frame.text), None)
                process.unanswered.discard(int(frame.text))
        elif frame.kind == "leaving":
            process.leaving = True
            self._forget(process)
            self.record(what, f"leaves with {frame.text}")
        elif frame.kind == "broken":
            process.prop.broken = frame.text
            self.record(what, f"broke down: {frame.text}")
        else:
            process.prop.heard(process, frame)

    def _hello(self, frame: Frame) -> None:
        name, _, role = frame.text.partition(" ")
        prop = self._props.get(name)
        if prop is None:
            self._reader.garbage += 1
            return
        same = sum(process.role == role for process in prop.processes)
        label = name + (f"/{role}" if role else "") + (f"#{same + 1}" if same else "")
        found = look(frame.pid)
        process = Process(frame.pid, prop, label, role, found[1] if found else -1)
        self._processes[frame.pid] = process
        self.pids[frame.pid] = label
        prop.processes.append(process)
        prop.pids.append(frame.pid)
        self.record(f"{_noun(prop)} {label}", "started")

    def _timer(self, process: Process, frame: Frame, what: str) -> None:
        serial, _, rest = frame.text.partition(" ")
        seconds, _, why = rest.partition(" ")
        try:
            process.timers[int(serial)] = Timer(self._now() + float(seconds), why)
        except ValueError:
            self._reader.garbage += 1
            return
        self.record(what, f"waits {float(seconds):g} s ({_explain(why)})")

    def _forget(self, process: Process) -> None:
        process.timers.clear()
        process.unanswered.clear()

    # Time

    def next_timer(self) -> float | None:
        """The moment of the earliest delay of a living process on the trial's clock; None in real time."""
        if not self.virtual:
            return None
        moments = [
            min(timer.due for timer in process.timers.values())
            for process in self._processes.values()
            if process.timers and process.alive()
        ]
        return min(moments, default=None)

    def fire(self, now: float) -> int:
        """Tell every process whose delay is over at that moment to go on, in the order of the delays.

        Returns:
            How many delays ended.
        """
        due = sorted(
            (timer.due, process.pid, serial)
            for process in self._processes.values()
            for serial, timer in process.timers.items()
            if timer.due <= now + 1e-9
        )
        fired = 0
        for _, pid, serial in due if self.virtual else ():
            process = self._processes[pid]
            why = process.timers.pop(serial).why
            if process.alive() and self._order(pid, f"fire {serial}"):
                process.unanswered.add(serial)
                self.record(f"{_noun(process.prop)} {process.name}", f"goes on ({_explain(why)})")
                fired += 1
        return fired

    def _order(self, pid: int, order: str) -> bool:
        try:
            descriptor = os.open(os.path.join(self.folder, f"orders.{pid}"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return False
            raise
        try:
            os.write(descriptor, f"{order}\n".encode())
        except (BlockingIOError, BrokenPipeError):
            return False
        finally:
            os.close(descriptor)
        return True

    def busy(self) -> bool:
        """Whether a process is still at what it was told to go on with, or on its way out.

        A process that somebody stopped is not busy: it goes on when it is continued.
        """
        processes = self._processes.values()
        return any((process.unanswered or process.leaving) and process.running() for process in processes)

    def inert(self) -> bool:
        """Whether no scripted process will ever act by itself: no delay, nothing busy, none on its way up."""
        return not any(
            (process.timers or process.unanswered or process.leaving or not (process.ready or process.role))
            and process.alive()
            for process in self._processes.values()
        )

    def close(self) -> None:
        """Let go of every process (those that are left end by themselves) and remove the FIFOs."""
        if self._events < 0:
            return
        self.drain()
        os.close(self._events)
        self._events = -1
        for name in os.listdir(self.folder):
            if name == "events" or name.startswith("orders."):
                os.unlink(os.path.join(self.folder, name))


def _noun(prop: Prop) -> str:
    return prop.kind.rpartition(" ")[2]


def _signal_name(number: str) -> str:
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}"


def _explain(why: str) -> str:
    word, _, number = why.partition(" ")
    return _signal_name(number) if word == "signal" else why


def _enlarge(fifo: int) -> None:
    """Give the FIFO room for a trial that does not look for a while; it works without."""
    if sys.platform == "linux":
        import fcntl

        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(fifo, fcntl.F_SETPIPE_SZ, 1 << 18)
