"""Exceptions as plain data: the whole chain of causes, contexts and groups, flattened."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import traceback
from collections.abc import Collection, Iterable
from typing import Any

from ..model import Exc, Outcome, Site
from .chains import is_harness, roots

TOKEN = "stormdrain"
"""Marks messages of injected cancels and errors."""
_LONGEST = 32
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
"""Differs from trial to trial (trio names the task that cancelled)."""
Kinds = tuple[type[BaseException], ...]


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
                injected=_marked(one, known, cancelled),
                cancelled=_all_of(one, cancelled),
                timeout=isinstance(one, timeout),
                site=_raised_at(one),
            )
        )
        todo += [(member, "group") for member in _members(one)]
        if one.__cause__ is not None:
            todo.append((one.__cause__, "cause"))
        if one.__context__ is not None:  # also where a cause or `from None` hides it: nothing may be lost silently
            todo.append((one.__context__, "context" if not one.__suppress_context__ else "suppressed"))
    return tuple(found)


def let_go(error: BaseException) -> None:
    """Forget the frames of an exception and of all that hangs on it.

    The harness (its task, at least) keeps an exception for longer than a caller
    would: what its frames hold must not look as if the target had kept it.
    """
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            todo += [*_members(one), one.__cause__, one.__context__]


def _marked(error: BaseException, known: Collection[int], cancelled: Kinds) -> bool:
    """Whether the harness made it, or an error in a group; trio's Cancelled has the mark as its reason."""
    said = (*error.args, getattr(error, "reason", None))
    if id(error) in known or any(isinstance(text, str) and text.startswith(TOKEN) for text in said):
        return True
    return any(_marked(one, known, cancelled) and not _all_of(one, cancelled) for one in _members(error))


def _all_of(error: BaseException, kinds: Kinds) -> bool:
    """Whether it is of these kinds, or a group of nothing else."""
    members = _members(error)
    return isinstance(error, kinds) or (bool(members) and all(_all_of(one, kinds) for one in members))


def only_cancelled(error: BaseException) -> bool:
    """Whether it is a cancellation, or a group of nothing else."""
    return _all_of(error, cancelled_types())


def _members(error: BaseException) -> list[BaseException]:
    """The members of a group, of whatever library."""
    members = getattr(error, "exceptions", ())
    return [one for one in members if isinstance(one, BaseException)] if isinstance(members, (list, tuple)) else []


def _text(error: BaseException) -> str:
    try:
        return _ADDRESS.sub("0x...", str(error))[:300]
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
