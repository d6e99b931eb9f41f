"""Exceptions as plain data: the whole chain of causes, contexts and groups, flattened."""

from __future__ import annotations

import asyncio
import concurrent.futures
import traceback
from collections.abc import Iterable
from typing import Any

from ..model import Exc, Outcome, Site
from .chains import is_harness, roots

TOKEN = "stormdrain"
"""Marks messages of injected cancels and errors."""
_LONGEST = 32


def cancelled_types() -> tuple[type[BaseException], ...]:
    """Exceptions that mean cancellation: asyncio's, and trio's where trio is loaded."""
    import sys

    trio = sys.modules.get("trio")
    return (asyncio.CancelledError, trio.Cancelled) if trio is not None else (asyncio.CancelledError,)


def _timeout_types() -> tuple[type[BaseException], ...]:
    import sys

    found: list[type[BaseException]] = [TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError]
    if (trio := sys.modules.get("trio")) is not None:
        found.append(trio.TooSlowError)
    return tuple(found)


def flatten(error: BaseException, injected: Iterable[BaseException] = ()) -> tuple[Exc, ...]:
    """An exception and all that hangs on it, each once, outermost first."""
    known = {id(one) for one in injected}
    cancelled, timeout = cancelled_types(), _timeout_types()
    found: list[Exc] = []
    seen: set[int] = set()
    todo: list[tuple[BaseException, str]] = [(error, "")]
    while todo and len(found) < _LONGEST:
        one, link = todo.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        found.append(
            Exc(
                type=type(one).__name__,
                message=_text(one),
                link=link,
                injected=id(one) in known or any(isinstance(arg, str) and arg.startswith(TOKEN) for arg in one.args),
                cancelled=isinstance(one, cancelled),
                timeout=isinstance(one, timeout),
                site=_raised_at(one),
            )
        )
        for member in getattr(one, "exceptions", ()):
            if isinstance(member, BaseException):
                todo.append((member, "group"))
        if one.__cause__ is not None:
            todo.append((one.__cause__, "cause"))
        if one.__context__ is not None:  # also where a cause or `from None` hides it: nothing may be lost silently
            todo.append((one.__context__, "context" if not one.__suppress_context__ else "suppressed"))
    return tuple(found)


def _text(error: BaseException) -> str:
    try:
        return str(error)[:300]
    except Exception as broken:
        return f"<its str() raised {type(broken).__name__}>"


def _raised_at(error: BaseException) -> Site | None:
    """The innermost line of the traceback that is code of the target, else the innermost one."""
    innermost: Site | None = None
    target: Site | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_harness(frame.f_code.co_filename):
            continue
        innermost = roots.site(frame.f_code, line)
        if innermost.target:
            target = innermost
    return target or innermost


def raised(error: BaseException, injected: Iterable[BaseException] = ()) -> Outcome:
    """The outcome of something that raised."""
    return Outcome("raised", flatten(error, injected))


def returned(value: Any) -> Outcome:
    """The outcome of something that returned."""
    return Outcome("returned", value="" if value is None else type(value).__name__)
