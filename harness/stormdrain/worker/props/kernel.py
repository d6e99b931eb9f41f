"""The few questions about a process that the hub asks the kernel."""

from __future__ import annotations

import os
import time


def real_now() -> float:
    """Seconds of real time; not `time.monotonic`, which the virtual clock replaces."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def look(pid: int) -> tuple[str, int] | None:
    """The state letter and start time (in clock ticks) of a process, None where there is none.

    Where there is no /proc, a process that exists is `S` with start time 0.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19])
    except OSError:
        if os.path.exists("/proc/self/stat"):
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "S", 0
