"""Where things wait: await chains of coroutines and tasks, stacks of threads.

CPython keeps what a suspended coroutine awaits in `cr_await` and its kin. Two
links are hidden: an async generator behind its `asend` object and a coroutine
behind its `__await__` wrapper; the garbage collector's referents show those.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import traceback
import types
from collections.abc import Iterable
from typing import Any

from ..model import Site
from .clock import clock

_DEPTH = 64


class Roots:
    """Which files are code of the target: those below the revision's layer."""

    def __init__(self) -> None:
        self.target: tuple[str, ...] = ()
        self.probe = ""
        self._short: dict[str, str] = {}
        self._names: dict[types.CodeType, str] = {}
        """Qualified names of code that does not know its own (before 3.11), from the coroutines that ran it."""

    def learn(self, code: types.CodeType, awaitable: Any) -> None:
        """Remember the qualified name of a coroutine's code."""
        if sys.version_info < (3, 11):
            self._names.setdefault(code, getattr(awaitable, "__qualname__", code.co_name))

    def is_target(self, file: str) -> bool:
        return bool(self.target) and file.startswith(self.target)

    def short(self, file: str) -> str:
        """A file's name as a person would look it up: relative to what it was installed in."""
        found = self._short.get(file)
        if found is None:
            found = self._short[file] = self._shorten(file)
        return found

    def _shorten(self, file: str) -> str:
        for root in (*self.target, *sys.path):
            if root and file.startswith(root.rstrip(os.sep) + os.sep):
                return file[len(root.rstrip(os.sep)) + 1 :]
        return os.path.basename(file)

    def site(self, code: types.CodeType, line: int) -> Site:
        function = getattr(code, "co_qualname", None) or self._names.get(code, code.co_name)
        file = code.co_filename
        return Site(self.short(file), line, function, self.is_target(file) or file == self.probe)


roots = Roots()


def frames(awaitable: Any) -> Iterable[types.FrameType]:
    """The frames of a suspended coroutine, outermost first."""
    for _ in range(_DEPTH):
        if awaitable is None:
            return
        frame = None
        following: Any = None
        for prefix in ("cr", "gi", "ag"):
            if hasattr(awaitable, prefix + "_frame"):
                frame = getattr(awaitable, prefix + "_frame")
                following = getattr(awaitable, {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}[prefix])
                break
        else:
            following = _hidden(awaitable)
        if frame is not None:
            roots.learn(frame.f_code, awaitable)
            yield frame
        awaitable = following


def _hidden(awaitable: Any) -> Any:
    """What an `asend` object or a coroutine wrapper stands for."""
    if isinstance(awaitable, asyncio.Future):
        return None
    if type(awaitable).__name__ in ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper"):
        for referent in gc.get_referents(awaitable):
            if isinstance(referent, (types.CoroutineType, types.AsyncGeneratorType, types.GeneratorType)):
                return referent
    return None


def chain(awaitable: Any) -> tuple[Site, ...]:
    """Sites of a suspended coroutine, outermost first; code of the harness left out."""
    return tuple(
        roots.site(frame.f_code, frame.f_lineno)
        for frame in frames(awaitable)
        if not is_harness(frame.f_code.co_filename)
    )


_ASYNCIO = os.path.dirname(os.path.abspath(asyncio.__file__)) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def is_harness(file: str) -> bool:
    """Whether a file is stormdrain's own (canaries excepted: they are subjects)."""
    return file.startswith(_HERE) and not file.endswith("canaries.py")


def task_chain(task: asyncio.Task[Any]) -> tuple[Site, ...]:
    """Where a task is suspended."""
    return chain(task.get_coro())


def caller(depth: int = 1) -> Site | None:
    """The innermost frame of the running stack that is neither the harness nor, if there is another, asyncio."""
    return innermost(sys._getframe(depth))


def innermost(frame: types.FrameType | None) -> Site | None:
    """The innermost line of the target in a stack, else the innermost one that is not the harness's."""
    first: Site | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_harness(file):
            site = roots.site(frame.f_code, frame.f_lineno)
            if site.target:
                return site
            first = first or site
        frame = frame.f_back
    return first


def summarised(stack: Iterable[traceback.FrameSummary]) -> Site | None:
    """The same of a stack that was written down, outermost line first; None where there is nothing but asyncio."""
    first: Site | None = None
    for frame in reversed(list(stack)):
        if is_harness(frame.filename) or frame.lineno is None:
            continue
        target = roots.is_target(frame.filename) or frame.filename == roots.probe
        site = Site(roots.short(frame.filename), frame.lineno, frame.name, target)
        if target:
            return site
        if not frame.filename.startswith(_ASYNCIO):
            first = first or site
    return first


def thread_stacks(limit: int = 12) -> tuple[str, ...]:
    """The stacks of all threads but the running one, innermost line first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    me = threading.get_ident()
    found = []
    for ident, top in sys._current_frames().items():
        if ident == me or ident in clock.own_threads:
            continue
        lines: list[str] = []
        frame: types.FrameType | None = top
        while frame is not None and len(lines) < limit:
            lines.append(f"{roots.short(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}")
            frame = frame.f_back
        found.append(f"{names.get(ident, ident)}: " + " < ".join(lines))
    return tuple(found)


def awaited_by(task: asyncio.Task[Any]) -> str:
    """One line: the task's name and where it waits."""
    where = " > ".join(str(site) for site in task_chain(task)) or "not started"
    return f"{task.get_name()}: {where}"
