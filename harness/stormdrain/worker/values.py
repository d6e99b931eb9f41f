"""Whether what a probe says of itself can be meant.

A storm that is misspelt would never run, and an expectation that is misspelt would
never be relaxed, without anybody being told: what a probe says is looked at when its
script is imported, and a mistake is answered with what could have been meant.
"""

from __future__ import annotations

import builtins
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ..errors import UsageError
from ..expectations import names as expectations
from ..model import Stance
from ..storms import names as storms
from . import drive

_LISTS = ("backends", "count", "fail", "requires", "storms")
_EVENT = re.compile(r"[\w.-]+")
"""What can stand in a token."""


def check(where: str, given: Mapping[str, Any]) -> None:
    """Look at the values that a probe gives.

    Args:
        where: which probe, for errors.
        given: the arguments of :func:`stormdrain.probe` by name.

    Raises:
        UsageError: one of them cannot be meant.
    """

    def wrong(what: str, argument: str, todo: str) -> UsageError:
        return UsageError(what, where=f"{where}, {argument}=", todo=todo)

    for name in _LISTS:
        value = given[name]
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise wrong(f"{value!r} is no list of names.", name, f"write {name}=[...]")
    if not given["backends"]:
        raise wrong("The probe runs nowhere.", "backends", 'name one, backends=["asyncio"]')
    known(given["backends"], [one for one in drive.BACKENDS if one != "service"], "backend", f"{where}, backends=")
    known(given["storms"], storms(), "storm", f"{where}, storms=")
    known(given["expect"] or (), expectations(), "expectation", f"{where}, expect=")
    for name, stance in (given["expect"] or {}).items():
        if not isinstance(stance, Stance):
            raise wrong(f"{name} is given {stance!r}.", "expect", 'use na("why"), relax("why") or tighten("why")')
    for name in ("actors", "deadline"):
        value = given[name]
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
            raise wrong(f"{value!r} is no number above 0.", name, "give a positive number")
    for name in ("follow_up", "body"):
        if given[name] is not None and not callable(given[name]):
            raise wrong(f"{given[name]!r} is no function.", name, "give an async function of subject and case")
    operation = given["operation"]
    if not callable(operation) and not (isinstance(operation, str) and operation):
        raise wrong(f"{operation!r} is no operation.", "operation", "give a method's name or an async function")
    if given["body"] is not None and operation != "__aexit__":
        raise wrong("Only an async context manager has a body.", "body", 'write operation="__aexit__"')
    if given["trigger"] is not None and not _EVENT.fullmatch(str(given["trigger"])):
        raise wrong(
            f"{given['trigger']!r} cannot be the name of an event.", "trigger", "use letters, digits, _, . and -"
        )
    for entry in given["fail"]:
        _failure(entry, f"{where}, fail=")


def _failure(entry: str, where: str) -> None:
    call, colon, error = entry.partition(":")
    kind = getattr(builtins, error, None) if colon else RuntimeError
    if not call or not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise UsageError(
            f"{entry!r} is no call with a built-in exception.", where=where, todo='write "process.kill:PermissionError"'
        )


def known(given: Collection[str], names: Sequence[str], kind: str, where: str) -> None:
    """Refuse a name that there is not.

    Raises:
        UsageError: with the nearest one, or with all.
    """
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1, 0.5)
            todo = f"did you mean {near[0]!r}?" if near else f"choose from: {', '.join(names)}"
            raise UsageError(f"There is no {kind} {name!r}.", where=where, todo=todo)


def is_async(function: Callable[..., Any], where: str) -> None:
    """Refuse a probe that is no coroutine function and no async generator function.

    Raises:
        UsageError: it is neither.
    """
    if not (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
        raise UsageError(
            "A probe builds its subject on a loop.",
            where=where,
            todo="write `async def` (and `yield subject` where something is to be disposed of)",
        )


def reason(text: object, where: str) -> str:
    """A reason that says something: it is printed wherever the stance is taken.

    Raises:
        UsageError: it is empty or no text.
    """
    if not isinstance(text, str) or not text.strip():
        raise UsageError(
            "A stance needs its reason: it is printed in every report.", where=where, todo='write it: na("...")'
        )
    return text
