"""Timeouts that a test sets and does not need: how close each came to firing.

A test with a margin of milliseconds is green on a quiet machine and red on a busy
one. Whoever sets a timeout makes a timer of the loop and cancels it when all went
well; what was left on it then is the margin.
"""

from __future__ import annotations

import asyncio
from typing import Any

TIMEOUTS = {"_on_timeout", "_release_waiter", "_timeout", "_timed_out", "on_timeout"}
"""Callbacks of timers that are somebody's timeout: asyncio's, anyio's, async-timeout's."""


class TimerWatch:
    """Records the timeouts of the test that runs. One per process, in a fork that is thrown away."""

    def __init__(self) -> None:
        self.margins: list[tuple[float, float]] = []
        """For each timeout that was cancelled: what was left, and what it was set to; seconds."""

    def start(self) -> None:
        """Look at timers from here on."""
        handle: Any = asyncio.TimerHandle
        init, cancel, margins = handle.__init__, handle.cancel, self.margins

        def __init__(self: Any, when: float, callback: Any, args: Any, loop: Any, context: Any = None) -> None:
            init(self, when, callback, args, loop, context)
            if getattr(callback, "__name__", "") in TIMEOUTS:
                _SET[id(self)] = when - loop.time()

        def cancel_(self: Any) -> None:
            if not self._cancelled and (whole := _SET.pop(id(self), None)) is not None:
                margins.append((self._when - self._loop.time(), whole))
            cancel(self)

        handle.__init__, handle.cancel = __init__, cancel_

    def tightest(self) -> tuple[float, float] | None:
        """The timeout of which least was left, and forget all."""
        found = min(self.margins, default=None)
        self.margins.clear()
        return found


_SET: dict[int, float] = {}
