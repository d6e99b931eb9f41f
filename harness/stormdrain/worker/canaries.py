"""One built-in subject for each expectation, which breaks it: driven first, in every cell.

A check that cannot fail is worth nothing. If one of these is not flagged, on this
interpreter and with this environment, then the run is ERROR and says which.
"""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from ..model import Failure, Fault, Schedule, When, Wrap
from .chains import roots
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


async def leave_thread(subject: Subject, case: Any) -> None:
    """Start a thread and forget it."""
    threading.Thread(target=threading.Event().wait, daemon=True).start()


async def leave_descriptor(subject: Subject, case: Any) -> None:
    """Open a pipe and keep it."""
    subject.kept.append(os.pipe())


async def _swallow(subject: Subject, case: Any) -> None:
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.1)


async def lose_error(subject: Subject, case: Any) -> None:
    """Swallow what a failing cleanup raises."""
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


async def _cancel_itself(subject: Subject, case: Any) -> None:
    """Be cancelled by a line of the probe's own, not by a storm, and swallow that."""
    roots.probe = __file__  # a canary's trial is a process of its own, and this is its probe
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(lambda: task.cancel())
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.1)


async def _report(subject: Subject, case: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_exception(RuntimeError("nobody looks at this"))


async def _spin(subject: Subject, case: Any) -> None:
    for _ in range(1500):
        await asyncio.sleep(0)


def block() -> None:
    """Keep the loop from running."""
    time.sleep(0.4)


async def _block(subject: Subject, case: Any) -> None:
    block()
    await asyncio.sleep(0)


async def enter_twice(subject: Subject, case: Any) -> None:
    """Enter a counted method twice."""
    await subject.impl()
    await subject.impl()


async def _share(subject: Subject, case: Any) -> None:
    if not subject.kept:
        subject.kept.append(asyncio.ensure_future(asyncio.sleep(1)))
    await subject.kept[0]


async def _late(subject: Subject, case: Any) -> None:
    await asyncio.sleep(2)


async def _fine(subject: Subject, case: Any) -> None:
    await asyncio.sleep(0)


async def stay(subject: Subject, case: Any) -> None:
    """Start a thread that keeps the interpreter from leaving."""
    threading.Thread(target=threading.Event().wait).start()


@dataclass(frozen=True)
class Canary:
    """An expectation, and an order under which its subject breaks it.

    na: why there can be no such subject here; its order is then not run.
    about: what it is about, where the expectation has another canary besides.
    """

    expectation: str
    order: Order
    na: str = ""
    about: str = ""

    @property
    def name(self) -> str:
        """What it is called in the result."""
        return f"{self.expectation} ({self.about})" if self.about else self.expectation


OWN_CANCELS = "the target's own cancel"


def canary(
    expectation: str,
    operation: Callable[..., Any],
    schedule: Schedule | None = None,
    na: str = "",
    exit_bound: float = 5.0,
    backend: str = "asyncio",
    about: str = "",
    **options: Any,
) -> Canary:
    async def subject(case: Any) -> AsyncIterator[Subject]:
        yield Subject(case)

    probe = Probe(function=subject, operation=operation, name=f"canary of {expectation}", file=__file__, **options)
    order = Order(
        probe,
        schedule or Schedule("calm"),
        backend,
        calm=schedule is None,
        phase="canary",
        follow_up=options.get("follow_up") is not None,
        exit_bound=exit_bound,
    )
    return Canary(expectation, order, na, about)


_CANCEL = Fault("cancel", When("after", 0.02))


def canaries(backend: str) -> list[Canary]:
    """One for each expectation, or why there is none on this backend and interpreter."""
    if backend == "service":
        from . import service_canaries

        return service_canaries.canaries()
    if backend == "trio":
        from . import trio_canaries

        return trio_canaries.canaries()
    once = Schedule("cancel-storm", None, (_CANCEL,), variant="once")
    uncounted = "" if sys.version_info >= (3, 11) else "Task.cancelling came with 3.11"
    of = functools.partial(canary, backend=backend)
    return [
        of("returns", _hang),
        of("child-reaped", _leave_child),
        of("no-orphans", _leave_orphan),
        of("no-leaked-tasks", _leave_task),
        of("no-leaked-threads", leave_thread),
        of("no-leaked-descriptors", leave_descriptor),
        of("cancellation-delivered", _swallow, once),
        of("cancellation-delivered", _cancel_itself, about=OWN_CANCELS),
        of("timeout-converts", _swallow, Schedule("timeout", Wrap("wait_for", 0.05))),
        canary(
            "cleanup-error-kept", lose_error, Schedule("fail", None, (), (Failure("cleanup", "RuntimeError"),), "alone")
        ),
        of("bystander-unharmed", _share, Schedule("concurrent", None, (_CANCEL,))),
        of("cancel-count-balanced", _cancel_twice, once, na=uncounted),
        of("no-loop-reports", _report),
        of("no-hot-spin", _spin),
        of("no-blocked-loop", _block),
        of("entered-once", enter_twice, count=("impl",)),
        of("within-deadline", _late, deadline=1.0),
        of("follow-up-works", _fine, follow_up=_hang),
        of("exits-cleanly", stay, exit_bound=0.3),
    ]
