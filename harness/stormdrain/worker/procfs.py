"""What the kernel says of processes, read from /proc without a library.

The worker runs where nothing may be installed, and asks these questions
thousands of times a second, so each reads one small file and never raises for a
process that has gone: a vanished process is an answer.
"""

from __future__ import annotations

import os
from typing import NamedTuple


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that matter here; `start` is in clock ticks since boot."""

    state: str
    ppid: int
    session: int
    start: int


def stat(pid: int | str) -> Stat | None:
    """State, parent, session and start time of a process, or None if there is none.

    The command may hold spaces and parentheses, so fields are counted from the
    last `)` (proc_pid_stat(5)).
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20:
        return None
    return Stat(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))


def schedstat(path: str) -> str:
    """Nanoseconds on a CPU and time slices of a task (`/proc/PID` or `/proc/PID/task/TID`); CPU ticks are too coarse."""
    try:
        with open(path + "/schedstat") as file:
            return file.read()
    except OSError:
        return ""


def children(pid: int | str = "self") -> list[int]:
    """Direct children of a process, over all its threads."""
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


_WALKS = 10
"""So many walks are enough, however busily a tree changes."""


def descendants(pid: int | str = "self") -> list[int]:
    """All processes below `pid`, parents before children.

    A process that leaves while the tree is gone through hands its children to somebody who was
    asked before; so where one has left, it is gone through again, until that shows nothing else.
    """
    found = _walk(pid)
    for _ in range(_WALKS):
        if all(alive(child) for child in found) or (again := _walk(pid)) == found:
            break
        found = again
    return found


def _walk(pid: int | str) -> list[int]:
    found = children(pid)
    for child in found:  # it grows while it is gone through
        found += children(child)
    return found


def threads(pid: int | str = "self") -> list[int]:
    """Native thread ids of a process."""
    try:
        return [int(task) for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def command(pid: int) -> str:
    """The command line, blanks between the words; the short name in brackets where there is none."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0").split(b"\0")
        if words and words[0]:
            return " ".join(word.decode(errors="replace") for word in words)
        with open(f"/proc/{pid}/comm") as file:
            return f"[{file.read().strip()}]"
    except OSError:
        return ""


def signal_mask(pid: int, which: str = "SigBlk") -> frozenset[int]:
    """Signals of a process's mask: `SigBlk` (blocked), `SigIgn` (ignored), `SigCgt` (caught), `ShdPnd` (pending)."""
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith(which + ":"):
                    bits = int(line.split()[1], 16)
                    return frozenset(number + 1 for number in range(64) if bits >> number & 1)
    except OSError:
        pass
    return frozenset()


def alive(pid: int) -> bool:
    """Whether a process exists and has not ended (a zombie is not alive)."""
    found = stat(pid)
    return found is not None and found.state not in "ZX"


def descriptors() -> dict[int, str]:
    """Open descriptors of this process and what they lead to."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of the listing itself
            continue
    return found


def watches(number: int) -> bool:
    """Whether a pidfd of this process leads to a process that is still there, a zombie perhaps."""
    try:
        with open(f"/proc/self/fdinfo/{number}") as file:
            return any(line.startswith("Pid:") and int(line.split()[1]) > 0 for line in file)
    except OSError:
        return False


def tree(pid: int | str = "self", depth: int = 0) -> list[str]:
    """The process tree below `pid`, a line a process, indented."""
    lines: list[str] = []
    for child in children(pid):
        found = stat(child)
        lines.append(f"{'  ' * depth}{child} {found.state if found else 'gone'} {command(child)}")
        if depth < 8:
            lines += tree(child, depth + 1)
    return lines
