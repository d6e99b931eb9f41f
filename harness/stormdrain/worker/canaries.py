"""One built-in subject for each expectation, which breaks it: driven first, in every cell.

A check that cannot fail is worth nothing. If one of these is not flagged, on this
interpreter and with this environment, then the run is ERROR and says which.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from ..model import Failure, Fault, Schedule, When, Wrap
from .script import Probe
from .trial import Order


class Subject:
    """What every canary is built on: it does whatever its canary says."""

    def __init__(self, case: Any) -> None:
        self.case = case
        self.kept: list[Any] = []

    async def cleanup(self) -> None:
        """A cleanup that can be made to fail."""

    async def impl(self) -> None:
        """A method whose entries can be counted."""


async def _hang(subject: Subject, case: Any) -> None:
    await asyncio.get_running_loop().create_future()


async def _leave_child(subject: Subject, case: Any) -> None:
    child = case.child("canary", on_eof="stay", sigterm="ignore")
    subject.kept.append(await asyncio.create_subprocess_exec(child.path, stdin=asyncio.subprocess.PIPE))
    await child.ready()


async def _leave_orphan(subject: Subject, case: Any) -> None:
    child = case.child("canary", on_eof="exit", grandchild="daemon")
    process = await asyncio.create_subprocess_exec(child.path, stdin=asyncio.subprocess.PIPE)
    await child.ready()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


async def _leave_task(subject: Subject, case: Any) -> None:
    subject.kept.append(asyncio.ensure_future(asyncio.sleep(3600)))
    await asyncio.sleep(0)


async def _leave_thread(subject: Subject, case: Any) -> None:
    threading.Thread(target=threading.Event().wait, daemon=True).start()


async def _leave_descriptor(subject: Subject, case: Any) -> None:
    subject.kept.append(os.pipe())


async def _swallow(subject: Subject, case: Any) -> None:
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.1)


async def _lose_error(subject: Subject, case: Any) -> None:
    try:
        await subject.cleanup()
    except RuntimeError:
        pass


async def _cancel_twice(subject: Subject, case: Any) -> None:
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise


async def _report(subject: Subject, case: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(RuntimeError("nobody looks at this"))


async def _spin(subject: Subject, case: Any) -> None:
    for _ in range(1500):
        await asyncio.sleep(0)


async def _block(subject: Subject, case: Any) -> None:
    time.sleep(0.4)  # noqa: ASYNC251 - blocking the loop is what this canary does
    await asyncio.sleep(0)


async def _enter_twice(subject: Subject, case: Any) -> None:
    await subject.impl()
    await subject.impl()


async def _late(subject: Subject, case: Any) -> None:
    await asyncio.sleep(2)


async def _fine(subject: Subject, case: Any) -> None:
    await asyncio.sleep(0)


async def _stay(subject: Subject, case: Any) -> None:
    threading.Thread(target=threading.Event().wait).start()


@dataclass(frozen=True)
class Canary:
    """An expectation, and an order under which its subject breaks it.

    needs_counts: whether `Task.cancelling` (3.11) is needed.
    """

    expectation: str
    order: Order
    needs_counts: bool = False


def _canary(
    expectation: str,
    operation: Callable[..., Any],
    schedule: Schedule | None = None,
    needs_counts: bool = False,
    exit_bound: float = 5.0,
    **options: Any,
) -> Canary:
    async def subject(case: Any) -> AsyncIterator[Subject]:
        yield Subject(case)

    probe = Probe(function=subject, operation=operation, name=f"canary of {expectation}", file=__file__, **options)
    order = Order(
        probe,
        schedule or Schedule("calm"),
        calm=schedule is None,
        phase="canary",
        follow_up=options.get("follow_up") is not None,
        exit_bound=exit_bound,
    )
    return Canary(expectation, order, needs_counts)


_CANCEL = Fault("cancel", When("after", 0.02))


def canaries() -> list[Canary]:
    """All of them, for asyncio."""
    once = Schedule("cancel-storm", None, (_CANCEL,), variant="once")
    return [
        _canary("returns", _hang),
        _canary("child-reaped", _leave_child),
        _canary("no-orphans", _leave_orphan),
        _canary("no-leaked-tasks", _leave_task),
        _canary("no-leaked-threads", _leave_thread),
        _canary("no-leaked-descriptors", _leave_descriptor),
        _canary("cancellation-delivered", _swallow, once),
        _canary("timeout-converts", _swallow, Schedule("timeout", Wrap("wait_for", 0.05))),
        _canary("cleanup-error-kept", _lose_error, Schedule("fail", None, (), (Failure("cleanup", "RuntimeError"),), "alone")),
        _canary("cancel-count-balanced", _cancel_twice, once, needs_counts=True),
        _canary("no-loop-reports", _report),
        _canary("no-hot-spin", _spin),
        _canary("no-blocked-loop", _block),
        _canary("entered-once", _enter_twice, count=("impl",)),
        _canary("within-deadline", _late, deadline=1.0),
        _canary("follow-up-works", _fine, follow_up=_hang),
        _canary("exits-cleanly", _stay, exit_bound=0.3),
    ]
