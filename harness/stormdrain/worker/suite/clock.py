"""The suite's clock: virtual where nothing but the clock can wake the loop.

A suite's children are arbitrary real processes, so the rule is their quietness:
the clock jumps to the loop's next timer when no event is there and two looks a
few milliseconds apart found every descendant process and every other thread
asleep, without a nanosecond of CPU time between them. That is right for children
that wait and wrong for children that sleep for a while and then act; which is why
a test runs in virtual time only if it came out alike in both clocks unmutated,
and why what is caught while there was company is run again in real time.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .. import procfs
from ..clock import busy_threads

real_monotonic = time.monotonic
real_perf_counter = time.perf_counter

FOREVER = 1e6
"""A timeout of more seconds than this is none."""
_LOOK = 0.001
_QUIET_FOR_DEADLOCK = 0.2
"""Real seconds of quiet, in company, after which a wait without a timer is one that nothing will end."""

Look = tuple[tuple[str, str, str], ...]


def look() -> Look | None:
    """State and CPU time of every descendant and every other thread; None when one of them runs."""
    me = threading.get_native_id()
    mine = os.getpid()
    paths = [f"{mine}/task/{task}" for task in procfs.threads() if task != me]
    paths += map(str, procfs.descendants())
    found = []
    for path in paths:
        stat = procfs.stat(path)
        if stat is None:  # a process that has just vanished is a change
            found.append((path, "gone", str(real_monotonic())))
        elif stat.state in "RD":
            return None
        else:
            found.append((path, stat.state, procfs.schedstat(f"/proc/{path}")))
    return tuple(found)


def in_company() -> bool:
    """Whether a child process lives, or a thread that is neither the main one nor an idle pool worker."""
    if any(procfs.alive(pid) for pid in procfs.descendants()):
        return True
    return len(sys._current_frames()) > 1 and bool(busy_threads())


class SuiteClock:
    """One per process. `offset`: how far it has jumped ahead; `company`: something lived at a jump."""

    def __init__(self) -> None:
        self.offset = 0.0
        self.virtual = False
        self.company = False
        self.jumps = 0
        self.turn_delay = 0.0
        """Seconds by which the clock moves with each turn of a loop: work that is slower than it was."""
        self.on_dead_wait: Callable[[str], None] = lambda why: None
        self._settled: Look | None = None

    def wait(self, poll: Callable[[float | None], Any], timeout: float | None, outside: bool) -> Any:
        """Wait as a selector would, for events or `timeout` seconds.

        Args:
            poll: `poll(seconds)` gives the events that are there.
            timeout: seconds; None or more than :data:`FOREVER` where no timer is set.
            outside: whether a descriptor of the test's own is registered.
        """
        endless = timeout is None or timeout >= FOREVER
        if not self.virtual and not endless:
            return poll(timeout)
        if events := poll(0):
            return events
        last = look()
        if not last and last is not None and not outside:
            return self._nothing_left(endless, timeout or 0.0, last)
        if not self.virtual:
            return poll(timeout)
        if not endless and last is not None and last == self._settled:
            return self._nothing_left(False, timeout or 0.0, last)  # nobody has moved since the last jump
        return self._watch(poll, FOREVER if timeout is None else timeout, endless, last)

    def _watch(self, poll: Callable[[float | None], Any], timeout: float, endless: bool, last: Look | None) -> Any:
        """Poll until everything is quiet, an event comes or real time has reached the timer."""
        until = real_monotonic() + timeout
        since = real_monotonic()
        while (left := until - real_monotonic()) > 0:
            if events := poll(min(_LOOK, left)):
                return events
            now = look()
            if now is None or now != last:
                last, since = now, real_monotonic()
                continue
            if not endless or not now or real_monotonic() - since > _QUIET_FOR_DEADLOCK:
                return self._nothing_left(endless, until - real_monotonic(), now)
        return []

    def _nothing_left(self, endless: bool, left: float, now: Look) -> Any:
        """Nothing but the clock can end this wait: jump, or say that nothing ever will."""
        self.company = self.company or (bool(now) and in_company())
        if endless:
            self.on_dead_wait("deadlock")
        else:
            self.offset += max(0.0, left)
            self.jumps += 1
            self._settled = now
        return []


clock = SuiteClock()


def install() -> None:
    """Put the clock in place of the time module's, before any code of the target is imported."""

    def monotonic() -> float:
        return real_monotonic() + clock.offset

    def perf_counter() -> float:
        return real_perf_counter() + clock.offset

    def monotonic_ns() -> int:
        return int((real_monotonic() + clock.offset) * 1e9)

    def perf_counter_ns() -> int:
        return int((real_perf_counter() + clock.offset) * 1e9)

    for function in (monotonic, perf_counter, monotonic_ns, perf_counter_ns):
        function.__module__, function.__qualname__ = (
            "time",
            function.__name__,
        )  # plugins look timers up by name
        setattr(time, function.__name__, function)
