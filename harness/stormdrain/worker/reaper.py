"""Ending processes to a fixed point, so that nothing gets away.

A process may fork while it is being killed. So all are stopped first, then
killed, then reaped, and it is over only when two looks in a row found nobody.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

from . import procfs

_ROUNDS = 2000
"""More rounds than any real tree needs; a bound, so that the reaper itself cannot hang."""


def sweep(roots: Collection[int] | None = None, *, keep: Collection[int] = ()) -> int:
    """SIGKILL and reap every descendant of this process, but `keep` and what is below those.

    Args:
        roots: only these children and what is below them; None for all.
        keep: children that stay.

    Returns:
        How many processes were killed.
    """
    killed: set[int] = set()
    quiet = 0
    for _ in range(_ROUNDS):
        mine = [pid for pid in procfs.children() if pid not in keep and (roots is None or pid in roots)]
        found = [pid for top in mine for pid in (top, *procfs.descendants(top))]
        living = [pid for pid in found if procfs.alive(pid)]
        for pid in living:
            _send(pid, signal.SIGSTOP)
        # The second look finds what was forked before the stop arrived.
        again = [pid for top in mine for pid in (top, *procfs.descendants(top)) if procfs.alive(pid)]
        for pid in dict.fromkeys(living + again):
            killed.add(pid)
            _send(pid, signal.SIGKILL)
        for pid in mine:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        quiet = 0 if mine else quiet + 1
        if quiet == 2:
            break
        if mine:
            time.sleep(0.0005)
    return len(killed)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
