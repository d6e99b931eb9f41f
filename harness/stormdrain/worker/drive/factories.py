"""Task factories: the target's own, and the one that sees who cancels a task.

A target may set a factory of its own (the eager one, since 3.12, more often than
any other). What it makes must be what it would be without the harness, apart from
`cancel()`, which says who called it: a subclass where the harness chooses the
class, and an attribute of the task where the target does.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

Factory = Callable[..., Any]


def watching(factory: Factory | None, watched: type[asyncio.Task[Any]]) -> Factory:
    """A factory that makes what `factory` would, with `cancel()` watched.

    Args:
        factory: the target's own; None where it has none.
        watched: the class of tasks that are watched.
    """
    if factory is None:
        return lambda loop, coro, **options: watched(coro, loop=loop, **options)
    if factory is getattr(asyncio, "eager_task_factory", None):
        made: Factory = asyncio.create_eager_task_factory(watched)  # type: ignore[attr-defined,unused-ignore]  # 3.12
        return made
    own = factory

    def chained(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        task = own(loop, coro, **options)
        if isinstance(task, asyncio.Task) and not isinstance(task, watched):
            _watch(task)
        return task

    return chained


def _watch(task: asyncio.Task[Any]) -> None:
    """Put a watched `cancel` in front of the task's own, without holding the task."""
    from . import aio

    found = weakref.ref(task)
    method = type(task).cancel

    def cancel(msg: Any = None) -> bool:
        task = found()
        assert task is not None  # whoever calls this holds it
        return aio.watch_cancel(task, lambda *args: method(task, *args), msg)

    with contextlib.suppress(AttributeError):  # a class with no room for it: who cancels those is not seen
        setattr(task, "cancel", cancel)  # noqa: B010 - a method, as far as type checkers know
