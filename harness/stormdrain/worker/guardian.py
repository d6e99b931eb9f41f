"""The process that outlives nobody: it ends everything below it when the host is gone.

Chain: host -> guardian -> worker -> trial. A death signal alone leaves processes
behind when the host is killed in the wrong instant (39 of 50 tries), so the
guardian leads a session of its own, is a subreaper, and holds the read end of a
pipe whose write end only the host has: end of file means that the host is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable

from . import linux, reaper


def guard(life: int, work: Callable[[], int]) -> int:
    """Run `work` in a child and stand guard over it.

    Args:
        life: read end of a pipe of the host; end of file: the host is gone.
        work: the worker's main function; its result is its exit status.

    Returns:
        In the guardian: the worker's exit status, after everything below has
        been ended. In the worker (and whatever it forks) it returns work's
        result, so that the interpreter leaves in the ordinary way there.
    """
    with contextlib.suppress(PermissionError):  # already a leader
        os.setsid()
    linux.become_subreaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    me = os.getpid()
    worker = os.fork()
    if worker == 0:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.close(life)
        linux.die_with_parent(me)
        return work()
    status = _watch(life, worker)
    reaper.sweep()
    return status


def _watch(life: int, worker: int) -> int:
    """Wait until the host or the worker has gone; reap strays on the way."""
    poller = select.poll()
    poller.register(life, select.POLLIN)
    pidfd = os.pidfd_open(worker) if hasattr(os, "pidfd_open") else None
    if pidfd is not None:
        poller.register(pidfd, select.POLLIN)
    while True:
        ready = dict(poller.poll(100))
        if life in ready and not os.read(life, 4096):
            return 1
        status = _reap(worker)
        if status is not None:
            return status


def _reap(worker: int) -> int | None:
    """Reap what has ended; the worker's exit status if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid == 0:
            return None
        if pid == worker:
            return os.waitstatus_to_exitcode(status)
