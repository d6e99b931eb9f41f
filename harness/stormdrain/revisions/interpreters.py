"""The interpreters of this machine: found, asked once who they are, never downloaded.

A cell needs a real CPython of a given minor version. What STORMDRAIN_PYTHONS
names comes first; of the others the newest of each minor version is taken. A
preview, a free-threaded build or another implementation runs only where it is
asked for by its version or its path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .cache import digest
from .discovery import Identity, candidates, identify, too_old


@dataclass(frozen=True)
class Interpreter:
    """One interpreter of this machine.

    path: its executable, outside any virtual environment.
    version: `3.11` (`3.13t` where it is free-threaded).
    full: `3.11.7`.
    """

    path: str
    version: str
    full: str
    implementation: str = "cpython"

    @property
    def key(self) -> str:
        """What tells its environments from another's."""
        return digest(self.path, self.full, self.implementation)

    def __str__(self) -> str:
        return f"{self.full} ({self.path})"


def markers(interpreter: Interpreter) -> dict[str, str]:
    """The interpreter's values for environment markers (`python_version`, `sys_platform`, ...)."""
    identity = identify(interpreter.path)
    if identity is None:
        raise _does_not_run(interpreter.path)
    return identity.markers


def available_interpreters() -> tuple[Interpreter, ...]:
    """The newest released CPython of each minor version that is found here, oldest minor first.

    What STORMDRAIN_PYTHONS names wins over a newer one found elsewhere.

    Raises:
        UsageError: STORMDRAIN_PYTHONS names something that is no usable interpreter.
    """
    chosen: dict[str, tuple[bool, Interpreter]] = {}
    for interpreter, named in _found():
        if not _is_plain(interpreter):
            continue
        held = chosen.get(interpreter.version)
        if held is None or (named, _order(interpreter)) > (held[0], _order(held[1])):
            chosen[interpreter.version] = (named, interpreter)
    return tuple(sorted((interpreter for _, interpreter in chosen.values()), key=_order))


def find_interpreters(wanted: Sequence[str] = ()) -> tuple[Interpreter, ...]:
    """The interpreters that are asked for, in that order, each once.

    Args:
        wanted: `3.12`, `3.12.1`, `3.13t`, or the path of an executable; empty: all that are available.

    Raises:
        UsageError: one of them is not here (what was found is listed), or none is found at all.
    """
    if not wanted:
        if found := available_interpreters():
            return found
        raise _missing("no interpreter of Python 3.10 or newer was found", ())
    chosen: dict[Interpreter, None] = {}
    for text in wanted:
        chosen[_find(text.strip())] = None
    return tuple(chosen)


def _find(text: str) -> Interpreter:
    if os.sep in text or text.startswith("~"):
        return _at(text, "--python")
    release = text.removeprefix("python")
    if not re.fullmatch(r"3\.\d+(\.\d+\w*)?t?", release):
        raise UsageError(
            f"{text!r} names no interpreter",
            where="--python",
            todo="give a version such as 3.12 or 3.12.1, or the path of an executable",
        )
    for interpreter in available_interpreters():
        if interpreter.version == release:
            return interpreter
    everything = [interpreter for interpreter, _ in _found()]
    matching = [one for one in everything if release in (one.version, one.full)]
    if not matching:
        raise _missing(f"Python {text} was not found on this machine", everything)
    return max(matching, key=lambda one: (one.implementation == "cpython", _order(one)))


def _missing(what: str, found: Sequence[Interpreter]) -> UsageError:
    listed = ", ".join(str(one) for one in sorted(set(found), key=_order)) or "none"
    return UsageError(
        f"{what}; found: {listed}",
        where="STORMDRAIN_PYTHONS, PATH, pyenv's versions and uv's interpreters",
        todo=f"install it, or name its executable in STORMDRAIN_PYTHONS (paths joined by {os.pathsep!r})",
    )


def _order(interpreter: Interpreter) -> tuple[tuple[int, ...], bool, str]:
    numbers = tuple(int(number) for number in re.findall(r"\d+", interpreter.full)[:3])
    return numbers, not _is_preview(interpreter), interpreter.full


def _is_plain(interpreter: Interpreter) -> bool:
    """Whether it is one that is used without being asked for: a released CPython with its lock."""
    cpython = interpreter.implementation == "cpython"
    return cpython and not _is_preview(interpreter) and not interpreter.version.endswith("t")


def _is_preview(interpreter: Interpreter) -> bool:
    return re.search(r"(a|b|rc)\d", interpreter.full) is not None


def _at(text: str, where: str) -> Interpreter:
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isfile(path):
        raise UsageError(f"there is no interpreter at {path}", where=where, todo="give the path of a Python executable")
    identity = identify(path)
    if identity is None:
        raise _does_not_run(path)
    if too_old(identity.full):
        raise UsageError(
            f"{path} is Python {identity.full}; 3.10 is the oldest that the worker runs on",
            where=where,
            todo="name a newer one",
        )
    return _interpreter(identity)


def _does_not_run(path: str) -> UsageError:
    return UsageError(
        f"{path} does not run as a Python interpreter",
        where=path,
        todo="name one that answers to `-c 'print(1)'` within 20 s",
    )


def _interpreter(identity: Identity) -> Interpreter:
    return Interpreter(identity.path, identity.version, identity.full, identity.implementation)


def _named() -> tuple[Interpreter, ...]:
    entries = os.environ.get("STORMDRAIN_PYTHONS", "").split(os.pathsep)
    return tuple(_at(entry, "STORMDRAIN_PYTHONS") for entry in entries if entry.strip())


def _found() -> Iterator[tuple[Interpreter, bool]]:
    """Every usable interpreter, each once; whether STORMDRAIN_PYTHONS names it."""
    seen: set[str] = set()
    for interpreter in _named():
        if interpreter.path not in seen:
            seen.add(interpreter.path)
            yield interpreter, True
    for path in candidates():
        identity = identify(path)
        if identity is None or too_old(identity.full) or identity.path in seen:
            continue
        seen.add(identity.path)
        yield _interpreter(identity), False
