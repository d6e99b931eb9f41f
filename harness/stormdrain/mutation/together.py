"""Suites side by side: a campaign mostly waits for real time, so several go on at once.

A baseline and the confirmation of survivors run in real time, where a `close()` of ten
seconds takes ten seconds and no processor; with one suite after the other that wait is
most of a run.
"""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .suite import SuiteProcess

Listen = Callable[[object], None]
Result = TypeVar("Result")


class Together:
    """Runs parts of a run in threads. Use as a context manager: an error or an interrupt ends all suites.

    Args:
        jobs: how many tests run at a time in each suite; one part more than that goes on at once.
        listen: gets what any part says, one at a time.
        within: another that this one is a part of, and is stopped with.
    """

    def __init__(self, jobs: int, listen: Listen, within: Together | None = None) -> None:
        self._listen = listen
        self._parts: list[Together] = []
        self._lock = threading.Lock()
        self._suites: set[SuiteProcess] = set()
        self._stopped = False
        self._executor = concurrent.futures.ThreadPoolExecutor(jobs + 1)
        if within is not None:
            within.take(self)

    def listen(self, item: object) -> None:
        """Hand on what a part says."""
        with self._lock:
            self._listen(item)

    def begin(self, part: Callable[[], Result]) -> concurrent.futures.Future[Result]:
        """Run a part when there is room for it."""
        return self._executor.submit(part)

    @contextmanager
    def held(self, suite: SuiteProcess) -> Iterator[SuiteProcess]:
        """A suite that is ended when the run is stopped.

        Raises:
            KeyboardInterrupt: the run was stopped meanwhile.
        """
        with self._lock:
            self._suites.add(suite)
            stopped = self._stopped
        try:
            if stopped:
                raise KeyboardInterrupt
            yield suite
        finally:
            with self._lock:
                self._suites.discard(suite)

    def __enter__(self) -> Together:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.stop()
        self._executor.shutdown(wait=True, cancel_futures=kind is not None)

    def take(self, part: Together) -> None:
        """Stop another along with this one, at once if this one is stopped already."""
        with self._lock:
            self._parts.append(part)
            stopped = self._stopped
        if stopped:
            part.stop()

    def stop(self) -> None:
        """End all suites now; parts that have not begun never do."""
        with self._lock:
            self._stopped = True
            suites, parts = list(self._suites), list(self._parts)
        for suite in suites:
            suite.end()
        for part in parts:
            part.stop()
