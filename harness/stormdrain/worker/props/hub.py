"""The trial's side of its scripted processes: what they said, which delays they wait for, and orders to them.

There is one hub in a trial. Processes report on one FIFO in its folder, which it
reads whenever the clock looks; in virtual time it holds their delays, so that the
clock can jump to them, and tells a process when its moment has come. Nothing here
runs by itself: no thread, no loop, no signal.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping
from typing import Any

from .child import Child, child_script
from .frames import Frame, FrameReader
from .kernel import end, enlarge, look, real_now, send, signal_name
from .peer import Peer, peer_script
from .program import write_executable, write_program
from .prop import Process, Prop, Timer
from .script import checked_keywords, wrong

LIFETIME = 600
"""Seconds of real time after which the kernel ends a scripted process that nobody has ended."""
ORDERS_FROM = 1_000_000
"""Numbers of orders begin here, so that none is a timer's."""
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class Hub:
    """One trial's scripted processes.

    Args:
        folder: the trial's own temporary folder; a folder `props` is made in it.
        virtual: whether delays are held here (`next_timer`, `fire`) or slept by the processes.
        now: the trial's clock, in seconds.
        record: puts an event on the timeline: `record("child cli", "got SIGTERM")`. What is
            recorded names no process id, so that two trials alike have timelines alike.

    Attributes:
        pids: every process that has said hello, gone or not, with its name.
        own: processes that the hub itself has started: the peers. They are no business of the target's.
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
        self._serial = ORDERS_FROM
        self.own: set[int] = set()
        os.makedirs(self.folder, 0o700)
        os.mkfifo(self._events_path, 0o600)
        # For both directions, so that it never reads as ended, however many writers come and go.
        self._events = os.open(self._events_path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        enlarge(self._events)

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
            script: the keywords of :func:`stormdrain.worker.props.child.child_script`.

        Raises:
            UsageError: the name or a value of the script is wrong.
        """
        where = f"case.child({name!r})"
        checked_keywords(script, child_script.__kwdefaults__ or (), where)
        checked = child_script(where, **script)
        name, path = self._place(name, where)
        child = Child(self, name, path, stops_itself=bool(script.get("stops_itself", False)))
        self._write(child, checked, "actor", "output", "child")
        return child

    def peer(self, name: str = "peer", **script: Any) -> Peer:
        """Start a scripted peer; it listens when this returns.

        Args:
            name: as for a child.
            script: the keywords of :func:`stormdrain.worker.props.peer.peer_script`.

        Raises:
            UsageError: the name or a value of the script is wrong, or it did not come up within 10 s.
        """
        where = f"case.peer({name!r})"
        checked_keywords(script, peer_script.__kwdefaults__ or (), where)
        checked = peer_script(where, **script)
        name, path = self._place(name, where)
        peer = Peer(self, name, path)
        self._write(peer, checked, "actor", "output", "requests", "peer")
        peer.start()
        self.own.add(peer.pid)
        peer.wait(lambda: any(process.ready for process in peer.processes), "it listens")
        return peer

    def ports(self) -> frozenset[int]:
        """The ports of the peers: a socket that leads to one does not lead out of the trial."""
        return frozenset(prop.port for prop in self._props.values() if isinstance(prop, Peer))

    def _write(self, prop: Prop, checked: Mapping[str, object], *modules: str) -> None:
        """Write the executable of a prop and remember it."""
        written = {
            "folder": self.folder,
            "id": prop.name,
            "virtual": self.virtual,
            "lifetime": LIFETIME,
            **checked,
        }
        write_executable(prop.path, write_program(self.folder, *modules), written)
        self._props[prop.name] = prop

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
        what = process.label
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
        self.record(process.label, "started")

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
            (timer.due, index, serial, process)
            for index, process in enumerate(self._processes.values())
            for serial, timer in process.timers.items()
            if self.virtual and timer.due <= now + 1e-9
        )
        fired = 0
        for _, _, serial, process in due:
            why = process.timers.pop(serial).why
            if process.alive() and send(self._orders_path(process.pid), f"fire {serial}\n"):
                process.unanswered.add(serial)
                self.record(process.label, f"goes on ({_explain(why)})")
                fired += 1
        return fired

    def order(self, process: Process, word: str) -> int | None:
        """Tell a process to do something at once; it is busy until it has answered.

        Returns:
            The number that is in `process.unanswered` until then; None where it cannot be told.
        """
        self._serial += 1
        if not process.alive() or not send(self._orders_path(process.pid), f"{word} {self._serial}\n"):
            return None
        process.unanswered.add(self._serial)
        self.record(process.label, f"is told: {word}")
        return self._serial

    def _orders_path(self, pid: int) -> str:
        return os.path.join(self.folder, f"orders.{pid}")

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
        """End the peers, let go of the children (those that are left end by themselves), remove the FIFOs."""
        if self._events < 0:
            return
        for pid in self.own:
            end(pid)
        self.drain()
        os.close(self._events)
        self._events = -1
        for name in os.listdir(self.folder):
            if name == "events" or name.startswith("orders."):
                os.unlink(os.path.join(self.folder, name))


def _explain(why: str) -> str:
    word, _, number = why.partition(" ")
    return signal_name(number) if word == "signal" else why
