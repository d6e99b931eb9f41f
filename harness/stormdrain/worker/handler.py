"""For probes of signal handlers that run in the trial's own process.

A handler is often a closure inside a start function, which nobody can reach without
starting the whole program. It is built here from the start function's own code, with
the free variables that the probe gives: nobody reads source text, and what runs is what
would run.
"""

from __future__ import annotations

import inspect
import os
import signal as signals
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from ..errors import UsageError


def closure(
    function: Callable[..., Any],
    path: str,
    /,
    *,
    defaults: Sequence[Any] = (),
    kwdefaults: Mapping[str, Any] | None = None,
    **free: Any,
) -> Callable[..., Any]:
    """A function that is defined inside another one, without running that.

    Args:
        function: the outer function (decorated ones are unwrapped), or a method.
        path: the inner one's qualified name, as a traceback shows it: `start.<locals>.handler`.
        defaults: values of its trailing positional parameters: they are computed where it is
            defined, so its code does not have them.
        kwdefaults: the same for keyword-only parameters.
        **free: its free variables, every one.

    Raises:
        UsageError: there is no such function in it, or a free variable is missing or unknown.
    """
    outer = inspect.unwrap(function)
    outer = getattr(outer, "__func__", outer)
    where = getattr(outer, "__qualname__", repr(outer))
    if not isinstance(outer, FunctionType):
        raise UsageError(
            f"{where} is no function of Python.", where="closure", todo="give the function that defines it"
        )
    code = _find(outer.__code__, path.split(".<locals>."))
    if code is None:
        found = ", ".join(sorted(_names(outer.__code__, where))[:20]) or "none"
        raise UsageError(f"{where} defines no {path}.", where="closure", todo=f"it defines: {found}")
    missing = [name for name in code.co_freevars if name not in free]
    if missing:
        raise UsageError(
            f"{path} needs the variable {missing[0]!r} of the function around it.",
            where="closure",
            todo=f"give all of: {', '.join(f'{name}=...' for name in code.co_freevars)}",
        )
    if unknown := sorted(set(free) - set(code.co_freevars)):
        raise UsageError(
            f"{path} does not use {unknown[0]!r}.",
            where="closure",
            todo=f"it uses: {', '.join(code.co_freevars) or 'nothing'}",
        )
    cells = tuple(CellType(free[name]) for name in code.co_freevars)
    made = FunctionType(code, outer.__globals__, code.co_name, tuple(defaults), cells)
    made.__kwdefaults__ = dict(kwdefaults) if kwdefaults else None
    made.__qualname__ = path
    return made


def _find(code: CodeType, way: Sequence[str]) -> CodeType | None:
    """The code at the end of a path whose first part is the outer function itself."""
    outer = way[0].rpartition(".")[2]
    if outer != code.co_name:
        return None
    for name in way[1:]:
        inner = next((one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name), None)
        if inner is None:
            return None
        code = inner
    return code


def _names(code: CodeType, where: str) -> Iterator[str]:
    for one in code.co_consts:
        if isinstance(one, CodeType) and not one.co_name.startswith("<"):
            name = f"{where}.<locals>.{one.co_name}"
            yield name
            yield from _names(one, name)


def deliver(signal: str = "SIGTERM", until: str = "wait_for_shutdown") -> Callable[[Any, Any], Awaitable[Any]]:
    """An operation for `@probe`: deliver a signal to this very process, for real, and wait for the shutdown.

    Args:
        signal: its name.
        until: a method of the subject whose end is the end of the shutdown (a dotted path).

    Raises:
        UsageError: there is no such signal.
    """
    number = getattr(signals, signal, None)
    if number is None:
        raise UsageError(
            f"{signal!r} is no signal.", where="deliver", todo="use SIGTERM, SIGINT or another that `signal` has"
        )

    async def shut_down(subject: Any, case: Any) -> Any:
        wait = subject
        for name in until.split("."):
            wait = getattr(wait, name)
        os.kill(os.getpid(), number)
        return await wait()

    shut_down.signals = (signal,)  # type: ignore[attr-defined]  # read by @probe
    return shut_down
