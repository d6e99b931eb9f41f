"""When the faults of a schedule land on a service, and how each is delivered.

The moment of a fault is counted from the one before it, the first one's from the
service's start: `!ready` when that has happened, `+0.02s` so much later, `@same` at
once, `*19` so many times in a row, `~0.02s` again and again, `@3` at the third step of
its loop from there (which is raised inside, see `service_inject.py`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...model import Fault
from .. import procfs
from .service_process import Running, name_of

ROW = 0.02
"""Seconds between the signals of a row (`*19`)."""
LATE = 2.0
"""Seconds for which a service that is never at rest is waited for."""


@dataclass(frozen=True)
class Landed:
    """A fault that was delivered: its text, and the process that it was sent to."""

    fault: Fault
    target: int
    note: str


class Plan:
    """The faults of a schedule, in order."""

    def __init__(self, faults: Iterable[Fault], began: float) -> None:
        self._todo = [fault for fault in faults if fault.when.kind != "start"]
        self._since = began
        """The moment from which the next one is counted."""
        self._row = 0
        self.moments: dict[str, float] = {}
        self.delivered = 0

    @property
    def next(self) -> Fault | None:
        """The fault that lands next."""
        return self._todo[0] if self._todo else None

    @property
    def awaited(self) -> str:
        """The name of the moment that the next fault waits for; empty where it waits for none."""
        fault = self.next
        return fault.when.name if fault is not None and fault.when.kind == "event" else ""

    def happened(self, name: str, now: float) -> None:
        """A named moment has come."""
        self.moments.setdefault(name, now)

    def due(self, now: float) -> Fault | None:
        """The next fault, if its moment has come."""
        fault = self.next
        if fault is None:
            return None
        when = fault.when
        come = {
            "event": when.name in self.moments,
            "with": True,
            "after": now >= self._since + when.n,
            "every": now >= self._since + when.n,
            "turns": now >= self._since + (ROW if self.delivered else 0.0),
        }.get(when.kind, False)
        return fault if come else None

    def wait(self, now: float) -> float:
        """Seconds until the next fault's moment could have come, as far as it is a time."""
        fault = self.next
        if fault is None:
            return 60.0
        gap = {"after": fault.when.n, "every": fault.when.n, "turns": ROW, "with": 0.0}.get(fault.when.kind, 60.0)
        return max(self._since + gap - now, 0.0)

    def landed(self, now: float) -> None:
        """The next fault was delivered."""
        fault = self._todo[0]
        self._since = now
        self.delivered += 1
        self.moments.pop("quiet", None)  # it has to come to rest again
        if fault.when.kind == "every":
            return
        if fault.when.kind == "turns":
            self._row += 1
            if self._row < fault.when.n:
                return
            self._row = 0
        self._todo.pop(0)


def deliver(fault: Fault, running: Running, about_to: Callable[[], None]) -> Landed | None:
    """Deliver a fault to a service now. None where there is nothing to deliver it to.

    Args:
        about_to: called right before a signal goes to the service's own process.
    """
    name, _, to = fault.arg.partition(".")
    if fault.kind == "close-stdin":
        running.close_stdin()
        return Landed(fault, running.pid, "the end of its stdin")
    if fault.kind == "kill":
        target = running.send(signal.SIGKILL, "child")
        return Landed(fault, target, f"SIGKILL to its child ({_called(target, running)})") if target else None
    number = int(getattr(signal, name))
    if to == "child":
        target = running.child(number)
        state = _stance(target, number) if target else ""
        told = f"{name} to its child ({_called(target, running)}){state}"
        return Landed(fault, target, told) if target and running.send(number, to) else None
    about_to()
    target = running.send(number, to)
    return Landed(fault, target, f"{name_of(number)} to its {'group' if to else 'process'}") if target else None


def _called(pid: int, running: Running) -> str:
    return running.scripted.get(pid) or procfs.command(pid)[:80]


def _stance(pid: int, number: int) -> str:
    """What stands between a process and a signal."""
    if number in procfs.signal_mask(pid, "SigIgn"):
        return ", which ignores it"
    if number in procfs.signal_mask(pid):
        return ", in which it is blocked"
    return ""
