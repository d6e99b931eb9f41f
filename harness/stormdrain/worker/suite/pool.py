"""The forks that are at work: started, listened to, bounded in time, and ended without a trace.

A fork that hangs, crashes or is killed loses one test, not the mutant: the tests
that have no result yet go on in a new fork, so that the matrix stays complete.
The end of a fork is the kernel's word (its pidfd), never the end of a pipe, which
a leaked grandchild may hold open.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import procfs, reaper
from . import blocked
from .board import Board
from .child import Job, Needs
from .clock import FOREVER, real_monotonic

Record = dict[str, Any]
UNKNOWN_SECONDS = 120.0
"""The bound of a test of which nothing is known yet."""


@dataclass
class Slot:
    """One fork at work. A cold start has no board: it is a child of the zygote and reports on its pipe."""

    job: Job
    items: list[int]
    pid: int
    pipe: int
    board: Board | None = None
    pidfd: int = -1
    buffer: bytes = b""
    current: int = -1
    since: float = 0.0
    bound: float = UNKNOWN_SECONDS
    results: set[int] = field(default_factory=set)
    left: list[str] = field(default_factory=list)
    ended: bool = False
    late: bool = False
    still: tuple[int, int] = (-1, 0)
    """A test, and how many looks in a row have found nothing but waits for locks under it."""


@dataclass
class Progress:
    """What a job has come to over all its forks."""

    forks: int = 0
    began: float = 0.0
    results: list[tuple[int, Record]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    broken: str = ""
    over: bool = False


REAL = 2
"""Forks in real time for one in virtual time: they mostly wait."""


def _share(job: Job) -> int:
    return 1 if job.clock == "real" else REAL


class Pool:
    """Runs jobs, `width` at a time; in real time, where they mostly wait, more.

    Args:
        width: how many forks at once.
        start: makes the fork for a job and some of its items, with a board if it is to have one.
        emit: gets `("done", job id, facts)`, with all results.
        needs: what each test needed unmutated.
    """

    def __init__(
        self,
        width: int,
        start: Callable[[Job, list[int], Board], Slot],
        emit: Callable[..., None],
        needs: dict[int, Needs],
    ) -> None:
        self.width, self._start, self._emit, self._needs = width, start, emit, needs
        self.waiting: deque[tuple[Job, list[int]]] = deque()
        self.live: list[Slot] = []
        self.keep: set[int] = set()
        """Children of this process that are no forks of this pool."""
        self._boards: list[Board] = []
        self._progress: dict[str, Progress] = {}

    @property
    def busy(self) -> bool:
        """Whether anything is under way or waiting."""
        return bool(self.waiting or self.live)

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._progress[job.id] = Progress()
        self.waiting.append((job, list(job.items)))

    def fill(self) -> None:
        """Start forks while there is room."""
        while self.waiting and self._load() + _share(self.waiting[0][0]) <= self.width * REAL:
            job, items = self.waiting.popleft()
            board = self._boards.pop() if self._boards else Board()
            board.clear()
            slot = self._start(job, items, board)
            if slot.board is None:
                self._boards.append(board)
            progress = self._progress[job.id]
            progress.began = progress.began or real_monotonic()
            progress.forks += 1
            with contextlib.suppress(OSError, AttributeError):
                slot.pidfd = os.pidfd_open(slot.pid)
            slot.since = real_monotonic()
            self.live.append(slot)

    def _load(self) -> int:
        return sum(_share(slot.job) for slot in self.live)

    def step(self, also: int = -1, timeout: float = 60.0) -> bool:
        """Wait for news and take it in. Returns whether `also`, another descriptor, can be read."""
        self.fill()
        poller = select.poll()
        if also >= 0:
            poller.register(also, select.POLLIN)
        now = real_monotonic()
        for slot in self.live:
            poller.register(slot.pipe, select.POLLIN)
            if slot.pidfd >= 0:
                poller.register(slot.pidfd, select.POLLIN)
            timeout = min(timeout, max(0.0, self._deadline(slot) - now), 60.0 if slot.pidfd >= 0 else 0.02)
            if slot.current >= 0:
                timeout = min(timeout, blocked.LOOK_SECONDS)
        ready = {descriptor for descriptor, _ in poller.poll(timeout * 1000 + 1)}
        for slot in list(self.live):
            gone = slot.pidfd in ready or (slot.pidfd < 0 and not procfs.alive(slot.pid))
            if slot.pipe in ready or gone:
                self._read(slot)
            slot.late = not slot.ended and not gone and real_monotonic() > self._deadline(slot)
            if slot.ended or gone or slot.late:
                self._finish(slot)
            else:
                _look(slot)
        return also in ready

    def _deadline(self, slot: Slot) -> float:
        if slot.board is not None:
            slot.current, since = slot.board.running()
            slot.since = since or slot.since
        needs = self._needs.get(slot.current)
        if slot.current < 0 or needs is None:
            return slot.since + slot.bound
        return slot.since + 5 + 10 * (needs.seconds + needs.cpu)

    def _read(self, slot: Slot) -> None:
        """Read what is there; a grandchild may hold the pipe open, so do not wait for its end."""
        os.set_blocking(slot.pipe, False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(slot.pipe, 1 << 20):
                slot.buffer += data
        while b"\n" in slot.buffer:
            line, _, slot.buffer = slot.buffer.partition(b"\n")
            self._take(slot, *json.loads(line))

    def _take(self, slot: Slot, kind: str, *what: Any) -> None:
        if kind == "result":
            self._result(slot, what[0], what[1])
        elif kind == "collected":  # a cold start that bounds its tests itself from here on
            slot.bound = FOREVER
        elif kind == "broken":
            self._progress[slot.job.id].broken = what[0]
            slot.ended = True
        else:
            slot.left = what[0]
            slot.ended = True

    def _result(self, slot: Slot, index: int, record: Record) -> None:
        if index not in slot.results:
            slot.results.add(index)
            progress = self._progress[slot.job.id]
            progress.over = progress.over or (slot.job.first and record["out"] == "failed")
            progress.results.append((index, record))

    def _finish(self, slot: Slot) -> None:
        self.live.remove(slot)
        status = self._end(slot)
        progress = self._progress[slot.job.id]
        if slot.board is not None:
            slot.current, since = slot.board.running()
            slot.since = since or slot.since
            for line in slot.board.records():
                self._take(slot, *line)
            self._boards.append(slot.board)
        progress.left += slot.left
        if slot.current >= 0:
            self._result(slot, slot.current, lost(slot, status))
        elif not slot.ended and not slot.results:  # it never came to a test, and would not the next time
            for index in slot.items:
                self._result(slot, index, lost(slot, status))
        rest = [index for index in slot.items if index not in slot.results]
        if rest and not progress.over and slot.results:
            self.waiting.appendleft((slot.job, rest))
            return
        facts = {
            "results": progress.results,
            "forks": progress.forks,
            "left": progress.left,
            "broken": progress.broken,
            "seconds": real_monotonic() - progress.began,
        }
        del self._progress[slot.job.id]
        self._emit("done", slot.job.id, facts)

    def _end(self, slot: Slot) -> int | None:
        """End the fork and all below it; its exit status if it had ended by itself."""
        status = None
        if slot.board is None:
            kill_tree(slot.pid)
        else:
            with contextlib.suppress(ChildProcessError):
                pid, raw = os.waitpid(slot.pid, os.WNOHANG)
                status = os.waitstatus_to_exitcode(raw) if pid else None
        keep = {other.pid for other in self.live} | self.keep
        if not keep.issuperset(procfs.children()):
            reaper.sweep(keep=keep)
        os.close(slot.pipe)
        if slot.pidfd >= 0:
            os.close(slot.pidfd)
        return status


def _look(slot: Slot) -> None:
    """Give a test its verdict that waits for a lock for ever: two looks, half a second apart, have to agree."""
    if slot.current < 0 or real_monotonic() - slot.since < blocked.LOOK_SECONDS * (slot.still[1] + 1):
        return
    count = slot.still[1] if slot.still[0] == slot.current else 0
    slot.still = slot.current, count + 1 if blocked.for_ever(slot.pid) else 0
    if slot.still[1] >= 2:
        slot.still = slot.current, 0
        with contextlib.suppress(OSError):
            os.kill(slot.pid, blocked.WAKE)


def lost(slot: Slot, status: int | None) -> Record:
    """The record of a test that has none because its process is gone or was ended."""
    if slot.late:
        bound = real_monotonic() - slot.since
        return {"out": "failed", "verdict": "hung", "text": f"no end after {bound:.0f} s of real time"}
    if status is not None and status < 0:
        return {"out": "failed", "verdict": "crashed", "text": f"the process was ended by signal {-status}"}
    said = "" if status is None else f" with exit status {status}"
    return {"out": "failed", "verdict": "crashed", "text": f"the process ended{said}"}


def kill_tree(pid: int) -> None:
    """SIGKILL a process that is not a child of this one, and all below it."""
    for _ in range(5):
        below = [one for one in procfs.descendants(pid) if procfs.alive(one)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in (*below, pid):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(one, number)
        if not below:
            return
