"""Which pending tasks a garbage collection would destroy: the account of unanchored tasks.

A loop holds its tasks weakly, and a task that waits for something that nobody else holds
is one cycle of garbage. Whether it is, only the collector knows. So it is asked, in a
fork: what it destroys there is still alive here.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import posix
import weakref
from collections.abc import Iterable
from typing import Any

from ..model import Left, suspended_at
from . import chains


def unanchored(tasks: Iterable[asyncio.Task[Any]]) -> tuple[Left, ...]:
    """The tasks among these that a collection now would destroy. The arguments are not kept alive."""
    known = [(weakref.ref(task), _item(task)) for task in tasks if not task.done()]
    del tasks
    lost = _ask([one for one, _ in known]) if known else []
    return tuple(known[index][1] for index in lost)


def _item(task: asyncio.Task[Any]) -> Left:
    coro: Any = task.get_coro()
    name = getattr(coro, "__qualname__", type(coro).__name__)
    site = suspended_at(chains.task_chain(task))
    return Left("task", f"{task.get_name()} ({name}) at {site}", f"task {name}", site)


def _ask(known: list[weakref.ref[asyncio.Task[Any]]]) -> list[int]:
    """Collect garbage in a fork; the places of what has gone there."""
    ours, theirs = os.pipe()
    pid = posix.fork()  # not os.fork: the doors are for what the target does
    if pid == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            for number in (1, 2):
                os.dup2(null, number)
            gc.collect()
            gone = [index for index, one in enumerate(known) if (task := one()) is None or task.done()]
            posix.write(theirs, json.dumps(gone).encode() + b"\n")
        finally:
            posix._exit(0)
    os.close(theirs)
    said = b""
    while not said.endswith(b"\n") and (piece := os.read(ours, 1 << 16)):
        said += piece
    os.close(ours)
    posix.waitpid(pid, 0)
    found: list[int] = json.loads(said or b"[]")
    return found
