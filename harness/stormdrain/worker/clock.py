"""The trial's clock: real, or virtual with holds.

Virtual time stands still while code runs and jumps when nothing can happen
before the next timer, so a `close()` that escalates for ten seconds costs
milliseconds, and its duration is exact. Before a jump the clock looks at all
that could still happen: what it cannot account for (an executor job, a child
that is neither scripted nor inert, a socket that leads out of the trial) *holds*
it, which is to say that time is real meanwhile. What is merely on its way (a
scripted child that is waking up, a zombie about to be reaped) is waited for with
the clock standing still, in a bound.

`time.monotonic` and `time.perf_counter` are replaced once, in the worker, before
any code of the target is imported: names bound by `from time import monotonic`
then move too. `time.time` stays real.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Protocol

from . import procfs

real_monotonic = time.monotonic
real_perf_counter = time.perf_counter
_real_sleep = time.sleep

_STALL = 0.25
"""Real seconds within one turn after which a standing clock counts them: code that blocks must take time."""
_LONG = 0.005
"""Real seconds of a turn after which it is asked anew how long this thread has waited for a CPU."""
_ON_ITS_WAY = 1.0
"""Real seconds for which the clock stands still for something that is on its way."""
_ZOMBIE = 0.5
"""Real seconds for which an unreaped child holds the clock."""
_STEP = 0.001
_STRANGE = 1.0
"""Real seconds after which a child that has not said hello is none of the scripted ones on its way up."""
INFINITY = float("inf")


class Timers(Protocol):
    """What the clock asks of the scripted children (`props.hub.Hub`)."""

    pids: dict[int, Any]

    def drain(self) -> bool: ...
    def next_timer(self) -> float | None: ...
    def fire(self, now: float) -> int: ...
    def busy(self) -> bool: ...


class NoTimers:
    """A trial without scripted children."""

    pids: dict[int, Any] = {}  # noqa: RUF012 - never written

    def drain(self) -> bool:
        return False

    def next_timer(self) -> float | None:
        return None

    def fire(self, now: float) -> int:
        return 0

    def busy(self) -> bool:
        return False


class Clock:
    """One per process. `virtual` is False until a trial switches it on."""

    def __init__(self) -> None:
        self.virtual = False
        self._base = 0.0
        self._mark = 0.0
        self.hub: Timers = NoTimers()
        self.inert: set[int] = set()
        """Children that the probe declared inert."""
        self.all_inert = False
        self.external: Callable[[], str] = lambda: ""
        """Says whether a socket leads out of the trial."""
        self.bound_at = INFINITY
        """The moment at which what is under way counts as hung."""
        self.on_hang: Callable[[str], None] = lambda why: None
        self.watchdog: Callable[[float], None] = lambda rest: None
        """Told every second or so that the loop turns, and how many seconds it may now rest in a wait."""
        self._fed = 0.0
        self.holds: dict[str, float] = {}
        self.jumps = 0
        self.stalls: list[float] = []
        """Real seconds of turns in which the loop could not run, less what the machine kept this thread waiting."""
        self.stall_marks: list[float] = []
        """When each of those turns began, in real seconds."""
        self.own_threads: dict[int, int] = {}
        """Threads of the harness, which nothing waits for: identifiers in Python and in the kernel."""
        self._delay = 0
        self._last: object = None
        self._me = os.getpid()
        self._zombies: dict[int, float] = {}
        self._strangers: dict[int, float] = {}

    # -- reading ---------------------------------------------------------

    def now(self) -> float:
        """Seconds of the trial's clock."""
        if not self.virtual:
            return real_monotonic()
        since = real_monotonic() - self._mark
        return self._base + (since if since > _STALL else 0.0)

    @property
    def mark(self) -> float:
        """When the turn that is under way began, in real seconds."""
        return self._mark

    def start_virtual(self) -> None:
        """From here on time stands still until something moves it."""
        self._me = os.getpid()
        self._base = self._mark = real_monotonic()
        self._delay = _run_delay()
        self.virtual = True

    def turn(self) -> None:
        """A new turn of the loop begins: settle what the last one took."""
        real = real_monotonic()
        since = real - self._mark
        if since > _STALL:
            self._base += since
            self._stalled(since)
        elif since > _LONG:
            self._delay = _run_delay()  # what this turn waited for a CPU is no excuse for a later one
        self._mark = real
        self._feed(real)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What the harness does meanwhile in the loop's thread takes no time, and is nobody's stall."""
        began = real_monotonic()
        try:
            yield
        finally:
            self._mark += real_monotonic() - began

    def _feed(self, real: float, rest: float = 0.0) -> None:
        """The loop turns: what blocks for longer than it may is ended by the watchdog."""
        if rest > 1.0 or real - self._fed > 1.0:
            self._fed = real
            self.watchdog(rest)

    def _stalled(self, seconds: float) -> None:
        """Somebody blocked the loop, or the machine did: time spent waiting for a CPU is not the target's."""
        before, self._delay = self._delay, _run_delay()
        net = seconds - (self._delay - before) / 1e9
        if net > _STALL and len(self.stalls) < 20:
            self.stalls.append(net)
            self.stall_marks.append(self._mark)

    # -- waiting ---------------------------------------------------------

    def wait(self, poll: Callable[[float | None], Any], timeout: float | None) -> Any:
        """Wait for events as a selector would: `poll(seconds)` until it has some or `timeout` is over on this clock."""
        if timeout is not None and timeout <= 0:
            return poll(0)
        if not self.virtual:
            return self._wait_real(poll, timeout)
        self.turn()
        if events := poll(0):
            return events
        until = INFINITY if timeout is None else self._base + timeout
        began = real_monotonic()
        while True:
            drained = self.hub.drain()
            on_its_way, why = self._survey()
            if (on_its_way or drained) and real_monotonic() - began < _ON_ITS_WAY:
                if events := self._pass(poll, _STEP, "on its way", moves=False):
                    return events
                continue
            if why:
                left = min(until, self.bound_at) - self._base
                if events := self._pass(poll, min(0.004, max(left, 0.0)), why, moves=True):
                    return events
                self._fire_children()
                if self._base >= self.bound_at:
                    self.on_hang("not back within the bound")
                if self._base >= until:
                    return poll(0)
                began = real_monotonic()
                continue
            if events := poll(0):
                return events
            if self._jump(until):
                return poll(0)
            began = real_monotonic()

    def _wait_real(self, poll: Callable[[float | None], Any], timeout: float | None) -> Any:
        self.hub.drain()
        left = self.bound_at - real_monotonic()
        self.turn()
        self._feed(self._mark, min(left, INFINITY if timeout is None else timeout))
        self._delay = _run_delay()
        if left == INFINITY or (timeout is not None and timeout <= left):
            events = poll(timeout)
            self._mark = real_monotonic()
            return events
        events = poll(max(left, 0.0))
        self._mark = real_monotonic()
        if not events and real_monotonic() >= self.bound_at:
            self.on_hang("not back within the bound")
        return events

    def _pass(self, poll: Callable[[float | None], Any], seconds: float, why: str, *, moves: bool) -> Any:
        """Let real time pass; the clock goes with it only where `moves`."""
        before = real_monotonic()
        events = poll(seconds)
        passed = real_monotonic() - before
        self.holds[why] = self.holds.get(why, 0.0) + passed
        if moves:
            self._base += passed
        self._mark = real_monotonic()
        self._feed(self._mark)
        return events

    def _jump(self, until: float) -> bool:
        """Move to the next thing that can happen. True where that is the waiter's own moment."""
        child = self.hub.next_timer()
        target = min(until, INFINITY if child is None else child)
        if target == INFINITY:
            self.on_hang("deadlock")
            target = self.bound_at if self.bound_at < INFINITY else self._base
        elif target > self.bound_at:
            self._base = max(self._base, self.bound_at)
            self.on_hang("not back within the bound")
        self.jumps += 1
        self._base = max(self._base, target)
        self._mark = real_monotonic()
        fired = self._fire_children()
        return target >= until or not fired

    def _fire_children(self) -> int:
        child = self.hub.next_timer()
        return self.hub.fire(self._base) if child is not None and child <= self._base else 0

    def leap(self, when: float) -> bool:
        """Move to `when` although the loop is not idle (a spin), if nothing else is going on."""
        if not self.virtual:
            return False
        on_its_way, why = self._survey()
        if on_its_way or why:
            return False
        child = self.hub.next_timer()
        target = min(when, self.bound_at, INFINITY if child is None else child)
        if target == INFINITY:
            self.on_hang("spin without a timer")
            return False
        if target >= self.bound_at:
            self._base = max(self._base, self.bound_at)
            self.on_hang("not back within the bound")
        self._base = max(self._base, target)
        self._mark = real_monotonic()
        self._fire_children()
        return True

    # -- what could still happen ----------------------------------------

    def _survey(self) -> tuple[bool, str]:
        """One look at all that could still happen: is something on its way, and why may the clock not jump?

        Something is on its way while a descendant or a thread of this process
        runs, has run since the last look, or an order is unanswered.
        """
        if self.hub.busy():
            self._last = None
            return True, ""
        real = real_monotonic()
        look: list[tuple[str, str]] = []
        running = strange = False
        why = ""
        known = self.hub.pids
        for pid in procfs.descendants():
            stat = procfs.stat(pid)
            if stat is None:
                look.append((str(pid), "gone"))
                continue
            running = running or stat.state in "RD"
            look.append((f"{pid}{stat.state}", procfs.schedstat(f"/proc/{pid}")))
            if stat.state in "ZX":
                if stat.ppid == self._me and real - self._zombies.setdefault(pid, real) < _ZOMBIE:
                    why = why or "a child that has ended is not yet reaped"
            elif pid not in known and not self.all_inert and pid not in self.inert:
                why = why or "a child that is neither scripted nor inert is alive"
                strange = strange or real - self._strangers.setdefault(pid, real) > _STRANGE
        if len(sys._current_frames()) > 1 + len(self.own_threads):
            for tid in procfs.threads():
                if tid != self._me and tid not in self.own_threads.values():
                    path = f"self/task/{tid}"
                    stat = procfs.stat(path)
                    running = running or (stat is not None and stat.state in "RD")
                    look.append((f"{tid}{stat.state if stat else ''}", procfs.schedstat("/proc/" + path)))
            if not why and (busy := busy_threads()):
                why = f"a thread is at work ({busy[0]})"
        same = not running and look == self._last
        self._last = None if running else look
        # A child of the target's own that is always busy would else make each wait stand still first.
        return not same and not strange, why or self.external()


def _run_delay() -> int:
    """Nanoseconds for which this thread was ready to run and had no CPU."""
    words = procfs.schedstat("/proc/self").split()
    return int(words[1]) if len(words) > 1 else 0


_IDLE = {
    ("thread.py", "_worker"),  # concurrent.futures
    ("_thread_cache.py", "_work"),  # trio
    ("_asyncio.py", "run"),  # anyio's worker threads
    ("unix_events.py", "_do_waitpid"),  # waits for a child, which is accounted for by itself
}
_WAITING = {"threading.py", "queue.py", "watch.py"}


def busy_threads() -> list[str]:
    """Python threads that could still do something by themselves; pool workers without a job do not count."""
    import threading

    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, top in sys._current_frames().items():
        if ident != main and ident not in clock.own_threads and not _is_idle(top):
            found.append(names.get(ident, "a thread"))
    return found


def _is_idle(frame: FrameType | None) -> bool:
    """Whether a thread waits for work. Only waiting frames may lie above the worker's own."""
    while frame is not None:
        code = frame.f_code
        name = os.path.basename(code.co_filename)
        if (name, code.co_name) in _IDLE:
            return True
        if name not in _WAITING:
            return False
        if name == "threading.py" and code.co_name == "_bootstrap":
            return True
        frame = frame.f_back
    return True


clock = Clock()
_skew = real_perf_counter() - real_monotonic()


def install() -> None:
    """Put the clock in place of `time.monotonic` and `time.perf_counter` (and their nanosecond forms)."""
    time.monotonic = clock.now
    time.perf_counter = lambda: clock.now() + _skew if clock.virtual else real_perf_counter()
    time.monotonic_ns = lambda: int(clock.now() * 1e9)
    time.perf_counter_ns = lambda: int(time.perf_counter() * 1e9)
