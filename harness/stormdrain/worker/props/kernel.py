"""What the hub asks of the kernel: how a process is, to start or end one, and to use a FIFO.

Processes are started and ended through `posix`, not `os`: a trial watches what the
target does through the doors of `os`, and these are not the target's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posix
import signal
import sys
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


def signal_name(number: str) -> str:
    """`SIGTERM` for `15`; what is no signal's number is given back with the word."""
    try:
        return signal.Signals(int(number)).name
    except ValueError:
        return f"signal {number}"


def spawn(path: str) -> int:
    """Start an executable without arguments, its stdin empty, no signal blocked. Returns the process id."""
    null = (posix.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return posix.posix_spawn(path, [path], os.environ, file_actions=[null], setsigmask=())


def end(pid: int) -> None:
    """Kill and reap a process that `spawn` started."""
    with contextlib.suppress(ProcessLookupError):
        posix.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        posix.waitpid(pid, 0)


def send(fifo: str, text: str) -> bool:
    """Write into a FIFO that another process reads. Returns whether that could be done at once."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(descriptor, text.encode())
    except (BlockingIOError, BrokenPipeError):
        return False
    finally:
        os.close(descriptor)
    return True


def enlarge(fifo: int) -> None:
    """Give a FIFO room for a trial that does not look for a while; it works without."""
    if sys.platform == "linux":
        import fcntl

        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):
                fcntl.fcntl(fifo, fcntl.F_SETPIPE_SZ, 1 << 18)
