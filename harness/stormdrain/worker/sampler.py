"""Which line keeps the loop from turning: a thread that looks at the main thread while it blocks.

That a callback blocked is known when it is over, and then its stack is gone. So a
trial that blocked runs once more with this thread beside it. It is started below
`threading`, so that neither the target nor the census meets it, and the clock does
not wait for it; trials that do not block never have it.
"""

from __future__ import annotations

import _thread
import collections
import sys
import threading
import time

from ..model import Site
from . import chains
from .clock import clock, real_monotonic

EVERY = 0.02
"""Real seconds between two looks."""
GRACE = 0.1
"""Real seconds for which a turn may take before it is looked at."""

_sleep = time.sleep


class Sampler:
    """Looks at the thread that made it."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._seen: dict[float, collections.Counter[Site]] = {}
        up = _thread.allocate_lock()
        up.acquire()
        _thread.start_new_thread(self._run, (up,))
        up.acquire()

    def _run(self, up: _thread.LockType) -> None:
        clock.own_threads[threading.get_ident()] = threading.get_native_id()
        up.release()
        while True:
            _sleep(EVERY)
            mark = clock.mark
            if real_monotonic() - mark > GRACE:
                self._look(mark)

    def _look(self, mark: float) -> None:
        frame = sys._current_frames().get(self._main)
        site = chains.innermost(frame)
        if site is not None and mark == clock.mark:  # else it was over meanwhile
            self._seen.setdefault(mark, collections.Counter())[site] += 1

    def site(self, mark: float) -> Site | None:
        """The line of the target that ran for most of the turn that began at `mark` (real seconds)."""
        seen = self._seen.get(mark)
        if not seen:
            return None
        own = collections.Counter({site: times for site, times in seen.items() if site.target})
        return (own or seen).most_common(1)[0][0]
