"""The few system calls that Python has no name for: subreaper, death signal, address layout.

Each returns whether it took effect, so that what a machine cannot do is said
instead of assumed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ADDR_NO_RANDOMIZE = 0x0040000

_libc: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def become_subreaper() -> bool:
    """Orphans below this process come to it instead of to PID 1 (prctl(2); not inherited over fork)."""
    return _libc is not None and _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def die_with_parent(parent: int) -> bool:
    """SIGKILL when the parent ends. Leaves at once if it ended before this was armed."""
    armed = _libc is not None and _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    if os.getppid() != parent:
        os._exit(1)
    return armed


def fix_addresses() -> bool:
    """Switch address randomisation off for what this process executes next (personality(2)).

    Sets of tasks order by address, so schedules replay only where addresses do.
    Returns True if it was newly switched off: then this process must execute itself again.
    """
    if _libc is None:
        return False
    now = _libc.personality(0xFFFFFFFF)
    if now < 0 or now & _ADDR_NO_RANDOMIZE:
        return False
    return bool(_libc.personality(now | _ADDR_NO_RANDOMIZE) >= 0)
