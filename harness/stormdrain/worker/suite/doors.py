"""Where the suite's clock and the watch over hangs are let into asyncio and trio.

Both libraries wait in one place and turn in one place. Those are replaced for
the whole process, before the target is imported; outside a running test they do
what they always did.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import selectors
import sys
import threading
from typing import Any

from .clock import FOREVER, clock
from .hangs import hangs


def open_asyncio() -> None:
    """Let the clock into asyncio's selectors and the watch into its turns."""
    base: Any = asyncio.base_events.BaseEventLoop
    run_once = base._run_once

    def _run_once(self: Any) -> Any:
        if hangs.armed:
            hangs.turn(lambda: _next_timer(self), unwind=True)
            if clock.turn_delay and self._ready:
                clock.offset += clock.turn_delay
        return run_once(self)

    base._run_once = _run_once
    for name in ("EpollSelector", "PollSelector", "SelectSelector"):
        if (kind := getattr(selectors, name, None)) is not None:
            _open_selector(kind)


def _open_selector(kind: Any) -> None:
    original = kind.select

    def select(self: Any, timeout: float | None = None) -> Any:
        if not hangs.armed or (timeout is not None and timeout <= 0) or not _is_main():
            return original(self, timeout)
        if _running_loop_selector() is not self:  # `subprocess.communicate` and others wait in selectors too
            return original(self, timeout)
        return clock.wait(lambda seconds: original(self, seconds), timeout, len(self.get_map()) > 1)

    kind.select = select


def _running_loop_selector() -> Any:
    return getattr(asyncio._get_running_loop(), "_selector", None)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _next_timer(loop: Any) -> float:
    scheduled = loop._scheduled
    return max(0.0, float(scheduled[0].when() - loop.time())) if scheduled else 0.0


_trio_is_open = False
_TRIO_DAY = 86_400.0
"""What trio waits for where it has no deadline, or one that is farther away."""


def _no_deadline(run: Any) -> bool:
    """Whether trio has no deadline at all. A guest's worker thread cannot ask; a day counts as none there."""
    runner: Any = getattr(getattr(run, "GLOBAL_RUN_CONTEXT", None), "runner", None)
    deadlines = getattr(runner, "deadlines", None)
    return deadlines is None or bool(deadlines.next_deadline() == float("inf"))


def open_trio() -> None:
    """Let both into trio, if it is imported or anyio is there that may import it later."""
    global _trio_is_open
    if _trio_is_open or not ("trio" in sys.modules or ("anyio" in sys.modules and _has_trio())):
        return
    _trio_is_open = True
    try:
        import trio._core._io_epoll as epoll  # type: ignore[import-not-found,unused-ignore]
        import trio._core._run as run  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return
    manager: Any = epoll.EpollIOManager
    original = manager.get_events

    def get_events(self: Any, timeout: float) -> Any:
        if not hangs.armed:
            return original(self, timeout)
        # anyio's test runner has trio as a guest: this is a worker thread then, the main one waits.
        hangs.turn(lambda: 0.0, unwind=False)
        clock.offset += clock.turn_delay
        if timeout <= 0:
            return original(self, timeout)

        def poll(seconds: float | None) -> Any:
            return original(self, FOREVER if seconds is None else seconds)

        endless = timeout >= _TRIO_DAY and _no_deadline(run)
        return clock.wait(poll, None if endless else timeout, len(self._registered) > 1)

    manager.get_events = get_events
    if hasattr(run, "perf_counter"):
        import time

        run.perf_counter = time.perf_counter


@functools.cache
def _has_trio() -> bool:
    return importlib.util.find_spec("trio") is not None


def on_dead_wait(why: str) -> None:
    """A wait that nothing can end: unwind it on asyncio; trio has no stack to unwind, so leave."""
    hangs.call(why, unwind=asyncio._get_running_loop() is not None)


clock.on_dead_wait = on_dead_wait
