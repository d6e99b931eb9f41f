"""agronholm/anyio#1111: before 4.15 a scope in which a task has ended makes the loop spin once it is cancelled."""

import asyncio

import anyio

from stormdrain import probe


async def enter(scope):
    """What a context manager does that is entered in one task and left in another."""
    scope.__enter__()


async def cancel_late(scope, case):
    """The scope is cancelled after its task has ended; then nothing is to do for a second."""
    await asyncio.create_task(enter(scope))
    scope.cancel()
    await asyncio.sleep(1)


@probe(operation=cancel_late)
async def scope_of_a_task_that_ended(case):
    """Bad: 4.13.0. Good: 4.16.0."""
    return anyio.CancelScope()
