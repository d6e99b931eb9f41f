"""The canaries of trio: what each of them does wrong there.

Apart from the others, so that a cell on asyncio does not import trio.
"""

from __future__ import annotations

import subprocess
from typing import Any

import trio
import trio.lowlevel

from ..model import Failure, Fault, Schedule, When, Wrap
from . import canaries as common
from .canaries import Canary, Subject, canary
from .drive import trio_internals as internals


async def _hang(subject: Subject, case: Any) -> None:
    await trio.sleep_forever()


async def _leave_child(subject: Subject, case: Any) -> None:
    child = case.child("canary", on_eof="stay", sigterm="ignore")
    subject.kept.append(await trio.lowlevel.open_process([child.path], stdin=subprocess.PIPE))
    await child.ready()


async def _leave_orphan(subject: Subject, case: Any) -> None:
    child = case.child("canary", on_eof="exit", grandchild="daemon")
    process = await trio.lowlevel.open_process([child.path], stdin=subprocess.PIPE)
    await child.ready()
    assert process.stdin is not None
    await process.stdin.aclose()
    await process.wait()


async def _leave_task(subject: Subject, case: Any) -> None:
    # The only kind that outlives the nursery of who starts it.
    trio.lowlevel.spawn_system_task(trio.sleep_forever)
    await trio.lowlevel.checkpoint()


async def _swallow(subject: Subject, case: Any) -> None:
    try:
        await trio.sleep(1)
    except trio.Cancelled:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.1)


async def _share(subject: Subject, case: Any) -> None:
    if subject.kept:
        await subject.kept[0].wait()
        return
    subject.kept.append(trio.Event())
    await trio.sleep(1)
    subject.kept[0].set()


class _Loud:
    def __del__(self) -> None:
        raise RuntimeError("nobody looks at this")


async def _report(subject: Subject, case: Any) -> None:
    _Loud()
    await trio.lowlevel.checkpoint()


async def _spin(subject: Subject, case: Any) -> None:
    for _ in range(1500):
        await trio.lowlevel.checkpoint()


async def _block(subject: Subject, case: Any) -> None:
    common.block()
    await trio.lowlevel.checkpoint()


async def _late(subject: Subject, case: Any) -> None:
    await trio.sleep(2)


async def _fine(subject: Subject, case: Any) -> None:
    await trio.lowlevel.checkpoint()


def canaries() -> list[Canary]:
    """One for each expectation, or why there can be none on trio."""

    def of(expectation: str, operation: Any, schedule: Schedule | None = None, **options: Any) -> Canary:
        return canary(expectation, operation, schedule, backend="trio", **options)

    once = Schedule("cancel-storm", Wrap("scope"), (Fault("scope", When("after", 0.02)),), variant="once")
    unseen = "" if internals.SEES_THROWN else "this trio does not show what a scope throws into a task"
    failing = Schedule("fail", None, (), (Failure("cleanup", "RuntimeError"),), "alone")
    return [
        of("returns", _hang),
        of("child-reaped", _leave_child),
        of("no-orphans", _leave_orphan),
        of("no-leaked-tasks", _leave_task),
        of("no-leaked-threads", common.leave_thread),
        of("no-leaked-descriptors", common.leave_descriptor),
        of("cancellation-delivered", _swallow, once, na=unseen),
        of("cancellation-delivered", _fine, na="trio cancels scopes, whoever asks for it", about=common.OWN_CANCELS),
        of("timeout-converts", _swallow, Schedule("timeout", Wrap("fail_after", 0.05)), na=unseen),
        of("cleanup-error-kept", common.lose_error, failing),
        of("bystander-unharmed", _share, Schedule("concurrent", Wrap("scope"), once.faults)),
        of("cancel-count-balanced", _fine, na="trio counts no cancels: a scope is cancelled or it is not"),
        of("no-loop-reports", _report),
        of("no-hot-spin", _spin),
        of("no-blocked-loop", _block),
        of("entered-once", common.enter_twice, count=("impl",)),
        of("within-deadline", _late, deadline=1.0),
        of("follow-up-works", _fine, follow_up=_hang),
        of("exits-cleanly", common.stay, exit_bound=0.3),
    ]
