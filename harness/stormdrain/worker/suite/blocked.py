"""A process in which every thread waits for a lock, for ever: no loop is there to notice it.

The clock sees a deadlock where a loop waits. A main thread that waits for a queue, a
lock or a thread, with nobody left to serve it, is seen from outside only: each
thread is in a wait for a lock that has no timeout, and no process is below. Linux
says so where its numbers of system calls are known; elsewhere nothing is said.
"""

from __future__ import annotations

import platform
import signal

from .. import procfs

WAKE = getattr(signal, "SIGRTMIN", 0) + 5 if hasattr(signal, "SIGRTMIN") else 0
"""The signal that gives the blocked thread its verdict; 0 where there is none."""
LOOK_SECONDS = 0.5
"""Real seconds between two looks at a test that goes on."""
_FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine(), "")


def for_ever(pid: int) -> bool:
    """Whether nothing but a signal can end what a process waits for, and it has no alarm of its own."""
    if not (_FUTEX and WAKE) or signal.SIGALRM in procfs.signal_mask(pid, "SigCgt"):
        return False
    threads = procfs.threads(pid)
    if not threads or not all(_waits(pid, thread) for thread in threads):
        return False
    return not any(procfs.alive(below) for below in procfs.descendants(pid))


def _waits(pid: int, thread: int) -> bool:
    """Whether a thread waits for a lock without a timeout (the fourth argument of the call)."""
    try:
        with open(f"/proc/{pid}/task/{thread}/syscall") as file:
            words = file.read().split()
    except OSError:
        return False
    return len(words) > 4 and words[0] == _FUTEX and int(words[4], 16) == 0
