"""An operation on uvloop, step by step.

Its queue of handles is C and has no door, but every task, C or not, calls the
loop's `call_soon`, and the queue is first in, first out: a probe queued before a
callback and one queued after it see the gaps around it. The waiting is C too; a
callback of the harness in every turn keeps the loop from it, and once nothing
else runs waits in its place, on the loop's own epoll descriptor and through the
trial's clock. Timers are kept here, so time is virtual as it is on asyncio.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import heapq
import math
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvloop

from ...model import Site
from .. import chains, procfs
from ..clock import clock
from ..trial import Trial
from ..watch import watch
from . import aio

_SETTLED = 3
"""Turns in which nothing was queued after which nothing is under way: I/O callbacks in C take two to queue what follows."""
_SLACK = 1e-9
"""Seconds by which a timer may be early: sums of moments are rounded."""


class Turns:
    """Counts the turns without an event."""

    idle = 0


class Loop(aio.Stepped, uvloop.Loop):  # type: ignore[misc]  # the stubs of both differ in how they spell arguments
    """uvloop's loop with points."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.selector = Turns()
        self.begin_with(trial)
        self.pending: collections.deque[str] = collections.deque()
        """Names of the callbacks that are queued between probes."""
        self.heap: list[asyncio.TimerHandle] = []
        self.activity = 0
        self.seen = 0
        self.quiet = 0
        self.fresh = False
        """Whether the last point is still the gap before what runs next."""
        self.resolving = 0
        self.starting: list[tuple[set[int], Site | None]] = []
        self.processes: dict[int, Any] = {}
        """Transports of children that live (the loop holds those, too)."""
        self.poller = select.poll()
        self.poller.register(self._get_backend_id(), select.POLLIN)  # type: ignore[attr-defined]  # the stubs lack it
        external = clock.external
        clock.external = lambda: "the loop looks up a name or connects" if self.resolving else external()
        super().call_soon(self._tick)
        self.run_until_complete(self._open_a_stream())

    async def _open_a_stream(self) -> None:
        """The first stream makes libuv open a descriptor in reserve: it is the loop's, not the target's."""
        end, other = socket.socketpair()
        transport, _ = await self.connect_accepted_socket(asyncio.Protocol, end)
        transport.close()  # type: ignore[attr-defined]  # the stubs say protocol
        other.close()
        for _turn in range(_SETTLED):
            await asyncio.sleep(0)

    # -- turns ---------------------------------------------------------------

    def _tick(self) -> None:
        """Once in every turn: what happens between turns, and the waiting where nothing else is to be done."""
        try:
            self._between()
        finally:
            super().call_soon(self._tick)

    def _between(self) -> None:
        self._look_at_children()
        busy = self.activity != self.seen
        self.seen = self.activity
        if self._poll(0):
            self.quiet, self.fresh = 0, False
            self.selector.idle = -1  # the turn that is counted now has an event
        elif busy:
            self.quiet = 0
        else:
            self.quiet += 1
        if busy:
            self.selector.idle += 1
            self.begin_turn()
        else:
            clock.turn()
        if not self._expire() and self.quiet >= _SETTLED:
            self._rest()

    def _rest(self) -> None:
        """Wait as the loop would."""
        while self.heap and self.heap[0].cancelled():
            heapq.heappop(self.heap)
        timeout = max(0.0, self.heap[0].when() - clock.now()) if self.heap else None
        clock.wait(self._poll, timeout)
        self.quiet, self.fresh = 0, False
        self.selector.idle = 0
        self._expire()

    def _poll(self, seconds: float | None) -> bool:
        """Whether the loop would find events now, or within some time."""
        return bool(self.poller.poll(None if seconds is None else math.ceil(seconds * 1000)))

    def _expire(self) -> bool:
        """Queue what timers are due. Returns whether any was."""
        found = False
        now = clock.now() + _SLACK
        while self.heap and (self.heap[0].cancelled() or self.heap[0].when() <= now):
            handle = heapq.heappop(self.heap)
            if not handle.cancelled():
                found = True
                callback = handle._callback  # type: ignore[attr-defined]  # the stubs lack it
                self._queue(_Due(handle), callback, (), None)
        if found:
            self.fresh = False
        return found

    # -- what is queued --------------------------------------------------------

    def call_soon(  # type: ignore[override]  # what is passed on is not looked at
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        """Queue a callback, between probes where there are points."""
        return self._queue(callback, callback, args, context)

    def _queue(self, call: Any, names: Any, args: tuple[Any, ...], context: Any) -> Any:
        """Queue `call`, which counts as what `names` is."""
        self.activity += 1
        put = super().call_soon
        if not self.armed or type(names) is aio.Own or getattr(names, "__self__", None) is self.main:
            return put(call, *args, context=context)
        self.pending.append(aio.named(names))
        put(self._before)
        handle = put(call, *args, context=context)
        put(self._after, handle, call)
        if self.first is None:
            self.first = handle
        return handle

    def _before(self) -> None:
        """A callback is about to run; what ran since the last point was called from C."""
        self._look_at_children()
        if self.started and not self.fresh:
            self._point()

    def _after(self, handle: Any, call: Any) -> None:
        if self.pending:
            self.pending.popleft()
        self._look_at_children()
        if handle.cancelled() or (type(call) is _Due and not call.ran):
            return
        self.started = self.started or handle is self.first
        self.trial.steps += 1
        if self.started:
            self._point()

    def _point(self) -> None:
        if self.armed:
            self.fresh = True
            self.point()

    def expect(self) -> None:
        """The operation's task is about to be made: its first step is queued with probes."""
        self.first = None
        self.pending.clear()
        self.armed = True

    def queued(self) -> list[str]:
        """What is ready to run, by name."""
        return list(self.pending)

    def timers(self) -> list[float]:
        """The moments of all timers that are set."""
        return [handle.when() for handle in self.heap if not handle.cancelled()]

    # -- time ------------------------------------------------------------------

    def time(self) -> float:
        """Seconds of the trial's clock."""
        return clock.now()

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call at a moment of the trial's clock."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self.heap, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Handles say so when they are cancelled; those in the heap are dropped when they come up."""

    # -- what C does -------------------------------------------------------------

    @contextlib.contextmanager
    def _looks_up(self) -> Iterator[None]:
        """Names are looked up in threads that Python does not know: time must not jump meanwhile."""
        self.resolving += 1
        try:
            yield
        finally:
            self.resolving -= 1

    async def getaddrinfo(self, *args: Any, **options: Any) -> Any:
        """Look up a name."""
        with self._looks_up():
            return await super().getaddrinfo(*args, **options)

    async def getnameinfo(self, *args: Any, **options: Any) -> Any:
        """Look up an address."""
        with self._looks_up():
            return await super().getnameinfo(*args, **options)

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect; the lookup is one part of it that does not show."""
        with self._looks_up():
            return await super().create_connection(*args, **options)

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """Listen, likewise."""
        with self._looks_up():
            return await super().create_server(*args, **options)

    async def create_datagram_endpoint(self, *args: Any, **options: Any) -> Any:
        """Open a datagram socket, likewise."""
        with self._looks_up():
            return await super().create_datagram_endpoint(*args, **options)

    async def sock_connect(self, *args: Any, **options: Any) -> Any:
        """Connect a socket, likewise."""
        with self._looks_up():
            return await super().sock_connect(*args, **options)

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        """Start a child, which C does without passing any door of the interpreter."""
        self.starting.append((set(procfs.children()), chains.caller(1)))
        return self._started(await super().subprocess_exec(*args, **options))

    async def subprocess_shell(self, *args: Any, **options: Any) -> Any:
        """The same through a shell."""
        self.starting.append((set(procfs.children()), chains.caller(1)))
        return self._started(await super().subprocess_shell(*args, **options))

    def _started(self, made: Any) -> Any:
        self._look_at_children()
        transport = made[0]
        self.processes[transport.get_pid()] = transport
        return made

    def _look_at_children(self) -> None:
        """Record who was started since, and who has ended."""
        while self.starting:
            before, site = self.starting.pop()
            for pid in procfs.children():
                if pid not in before and pid not in watch.spawned:
                    watch.born(pid, procfs.command(pid), site)
        for pid, transport in list(self.processes.items()):
            with contextlib.suppress(Exception):  # a transport that is closed raises, in some versions
                code = transport.get_returncode()
                if code is None:
                    continue
                watch.exited(pid, code)
            del self.processes[pid]


class _Due:
    """A timer that is due; it may still be cancelled before its turn comes."""

    __slots__ = ("handle", "ran")

    def __init__(self, handle: asyncio.TimerHandle) -> None:
        self.handle = handle
        self.ran = False

    def __call__(self) -> None:
        if not self.handle.cancelled():
            self.ran = True
            run: Callable[[], None] = self.handle._run
            run()


class Driver(aio.Driver):
    """The phases of a trial on uvloop: those of asyncio, on another loop."""

    def make_loop(self, trial: Trial) -> aio.Stepped:
        """The loop that the trial runs on."""
        return Loop(trial)


def missing() -> str:
    """What the loop lacks without which it cannot be driven; empty if nothing."""
    return "" if hasattr(uvloop.Loop, "_get_backend_id") else "Loop._get_backend_id"


UNSEEN = (
    "callbacks that uvloop calls from C (data that arrives, connections, the end of a child) are no steps: "
    "the gap after one is a point only where it queued a callback",
    "uvloop starts children in C: they are found in /proc right after, and those that `subprocess_exec` and "
    "`subprocess_shell` of the loop started count as the target's",
    "uvloop looks names up in threads of its own: while a connection or a server is being made, time is real",
)
