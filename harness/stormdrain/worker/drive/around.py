"""What is put around an operation on asyncio: timeouts, scopes, a task group, a body that raises."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aio import Driver


async def _wait_for(driver: Driver, subject: Any, seconds: float) -> Any:
    return await asyncio.wait_for(driver.operation(subject), seconds)


async def _timeout(driver: Driver, subject: Any, seconds: float) -> Any:
    if sys.version_info < (3, 11):
        raise RuntimeError("asyncio.timeout came with 3.11")
    async with asyncio.timeout(seconds):
        return await driver.operation(subject)


async def _fail_after(driver: Driver, subject: Any, seconds: float) -> Any:
    import anyio

    with anyio.fail_after(seconds):
        return await driver.operation(subject)


async def _move_on_after(driver: Driver, subject: Any, seconds: float) -> Any:
    import anyio

    with anyio.move_on_after(seconds):
        return await driver.operation(subject)


async def _scope(driver: Driver, subject: Any, seconds: float) -> Any:
    import anyio

    with anyio.CancelScope() as scope:
        driver.loop.scope = scope
        for fault in driver.trial.due("start"):
            if fault.kind == "scope":
                driver.loop.fire(fault)
        return await driver.operation(subject)


async def _group(driver: Driver, subject: Any, seconds: float) -> Any:
    """A sibling in the same group fails when its moment comes; the group cancels the operation."""
    if sys.version_info < (3, 11):
        raise RuntimeError("asyncio.TaskGroup came with 3.11")
    driver.loop.sibling = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        sibling = group.create_task(_fails(driver), name="sibling")
        value = await driver.operation(subject)
        sibling.cancel()  # the operation ended first: nothing is left to abort
    return value


async def _fails(driver: Driver) -> None:
    await driver.loop.sibling.wait()
    raise driver.trial.make_error("sibling", RuntimeError)


async def _body(driver: Driver, subject: Any, seconds: float) -> Any:
    """The operation is the cleanup of a body that raises."""
    if driver.trial.order.probe.operation == "__aexit__":
        return await driver.operation(subject)  # which has a body of its own
    try:
        raise driver.trial.make_error(BODY, RuntimeError)
    finally:
        await driver.operation(subject)


BODY = "body"
WRAPS: dict[str, Callable[[Driver, Any, float], Awaitable[Any]]] = {
    "wait_for": _wait_for,
    "timeout": _timeout,
    "fail_after": _fail_after,
    "move_on_after": _move_on_after,
    "scope": _scope,
    "group": _group,
    "body": _body,
}
