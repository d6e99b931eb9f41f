"""Inside a Python service: counts the steps of its loop, raises signals between two of them, says where it hangs.

The trial and the service share a page of memory. The trial writes when counting
begins and how many signals it sent; the service writes how many steps there were.
No thread, no descriptor and no import of asyncio or trio is added: a service must be
the one that it is without us. Where it hangs is told by a handler of a signal that
nobody uses, which writes a file when the trial asks for it.

Only the main thread's loop has steps. A point is the gap before a step, or after the
last one of a turn. What is told of it is where the task that ran last, and the main
one, are suspended.
"""

from __future__ import annotations

import collections
import mmap
import os
import signal
import struct
import sys
import threading
import time
from types import FrameType, ModuleType
from typing import Any

# The page: how it is laid out is known to `drive/service_inject.py` too.
ARMED, OUTSIDE, LOOPS, PID, STEPS, FIRED, FIRST, LAST = 0, 1, 2, 8, 16, 24, 32, 40
PAGE = 4096
ASYNCIO, TRIO = 1, 2
_DEPTH = 64


class State:
    """What the trial asked for and how far it got."""

    page: Any
    folder = ""
    plan: list[tuple[int, int, str]] = []  # noqa: RUF012 - replaced as a whole
    """(signal, step, counted from what: `armed`, `outside`, `previous`), in order."""
    record = False
    thread = 0
    steps = 0
    outside = 0
    fired = 0
    last: Any = None
    main: Any = None
    dirty = False


state = State()


def install(asked: dict[str, Any]) -> None:
    """Do what was asked; called once, before the service's own code."""
    descriptor = os.open(asked["page"], os.O_RDWR)
    state.page = mmap.mmap(descriptor, PAGE)
    os.close(descriptor)
    state.folder = asked["folder"]
    state.thread = threading.get_ident()
    struct.pack_into("<q", state.page, PID, os.getpid())
    signal.signal(asked["signal"], _tell)
    if asked["steps"]:
        state.plan = list(asked["plan"])
        state.record = asked["record"]
        os.register_at_fork(after_in_child=_forked)
        for name, patch in (("asyncio.base_events", _patch_asyncio), ("trio._core._run", _patch_trio)):
            if name in sys.modules:
                patch(sys.modules[name])
            else:
                sys.meta_path.insert(0, Finder(name, patch))


def _forked() -> None:
    """In a child: steps that were counted are the parent's; a child of a parent without a loop takes over."""
    if state.page[LOOPS]:
        state.plan, state.record, state.thread = [], False, -1
    else:
        struct.pack_into("<q", state.page, PID, os.getpid())
        state.thread = threading.get_ident()


class Finder:
    """Patches one module when the service imports it, and never before."""

    def __init__(self, name: str, patch: Any) -> None:
        self.name, self.patch = name, patch

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None and spec.loader is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.patch(module)

        loader.exec_module = exec_module


# -- points --------------------------------------------------------------------


def _point(upcoming: str) -> None:
    """The gap between two steps."""
    page = state.page
    outside = page[OUTSIDE]
    if outside != state.outside:  # the trial has sent a signal: steps are counted from there
        state.outside, state.steps = outside, 0
    state.steps += 1
    struct.pack_into("<q", page, STEPS, state.steps)
    if state.record:
        _write("points", (state.steps, outside, time.monotonic(), upcoming, *_where()))
    if not state.plan:
        return
    number, step, base = state.plan[0]
    if state.steps != step or (base == "outside" and not outside):
        return
    state.plan.pop(0)
    state.steps = 0
    _write("hits", (step, outside, time.monotonic(), upcoming, *_where()))
    state.fired += 1
    struct.pack_into("<d", page, LAST, time.monotonic())
    if state.fired == 1:
        struct.pack_into("<d", page, FIRST, time.monotonic())
    struct.pack_into("<q", page, FIRED, state.fired)
    signal.raise_signal(number)


def _write(name: str, what: object) -> None:
    """Append a line at once: the process may be about to die."""
    descriptor = os.open(os.path.join(state.folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, (repr(what) + "\n").encode())
    finally:
        os.close(descriptor)


def _where() -> tuple[list[tuple[str, int, str]], list[tuple[str, int, str]]]:
    """Where the task that ran last and the main task are suspended."""
    return _chain(_coroutine(state.last)), _chain(_coroutine(state.main))


def _coroutine(task: Any) -> Any:
    if task is None:
        return None
    return task.get_coro() if hasattr(task, "get_coro") else getattr(task, "coro", None)


def _chain(awaitable: Any) -> list[tuple[str, int, str]]:
    """File, line and function of what a coroutine awaits, outermost first."""
    found = []
    for _ in range(_DEPTH):
        frame, following = None, None
        for prefix, link in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            if hasattr(awaitable, prefix + "_frame"):
                frame, following = getattr(awaitable, prefix + "_frame"), getattr(awaitable, link)
                break
        else:
            following = _hidden(awaitable)
        if frame is not None:
            found.append(_place(frame))
        if following is None:
            break
        awaitable = following
    return found


def _hidden(awaitable: Any) -> Any:
    """What stands behind an `asend` object or the wrapper of a coroutine."""
    if type(awaitable).__name__ not in ("async_generator_asend", "async_generator_athrow", "coroutine_wrapper"):
        return None
    import gc

    for one in gc.get_referents(awaitable):
        if type(one).__name__ in ("coroutine", "async_generator", "generator"):
            return one
    return None


def _place(frame: FrameType) -> tuple[str, int, str]:
    code = frame.f_code
    return code.co_filename, frame.f_lineno or code.co_firstlineno, getattr(code, "co_qualname", code.co_name)


# -- asyncio -------------------------------------------------------------------


class Ready(collections.deque):  # type: ignore[type-arg]
    """The loop's queue of handles, which says when one is about to run."""

    def popleft(self) -> Any:
        if state.page[ARMED] and self and threading.get_ident() == state.thread:
            _before(self[0])
        return super().popleft()


def _before(handle: Any) -> None:
    callback = handle._callback
    name = getattr(callback, "__qualname__", type(callback).__name__)
    if handle._cancelled or name.endswith("_read_from_self"):
        return
    owner = getattr(callback, "__self__", None)
    task = owner if hasattr(owner, "get_coro") else None
    upcoming = f"step of {task.get_name()}" if task is not None else name
    if state.main is None and task is not None:
        state.main = _main_task(task)
    _point(upcoming)
    state.last = task if task is not None else state.last
    state.dirty = True


def _main_task(task: Any) -> Any:
    """The task of `run_until_complete`, else the oldest one that the loop still has."""
    asyncio = sys.modules["asyncio"]
    tasks = [one for one in asyncio.all_tasks(task.get_loop()) if not one.done()]
    return min(tasks, key=_age, default=task)


def _is_main(task: Any) -> bool:
    """Whether `run_until_complete` waits for it."""
    waiting = getattr(task, "_callbacks", None) or ()
    return any(getattr(one[0], "__name__", "") == "_run_until_complete_cb" for one in waiting)


def _age(task: Any) -> tuple[bool, int, str]:
    """Sorts the main task to the front, then by age as far as names tell."""
    name = task.get_name()
    number = name.rpartition("-")[2]
    return (not _is_main(task), int(number) if name.startswith("Task-") and number.isdigit() else 1 << 30, name)


def _patch_asyncio(module: Any) -> None:
    base = module.BaseEventLoop
    init, run_once = base.__init__, base._run_once

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        self._ready = Ready(self._ready)
        state.page[LOOPS] |= ASYNCIO

    def _run_once(self: Any) -> None:
        if state.dirty and state.page[ARMED] and threading.get_ident() == state.thread:
            state.dirty = False
            _point("the end of a turn")
        run_once(self)

    base.__init__, base._run_once = __init__, _run_once


# -- trio ----------------------------------------------------------------------


def _patch_trio(module: Any) -> None:
    unrolled = module.unrolled_run

    def unrolled_run(runner: Any, *args: Any, **options: Any) -> Any:
        runner.instruments.add_instrument(_instrument())
        state.page[LOOPS] |= TRIO
        return unrolled(runner, *args, **options)

    module.unrolled_run = unrolled_run


def _instrument() -> Any:
    from trio.abc import Instrument  # type: ignore[import-not-found,unused-ignore]

    class Steps(Instrument):  # type: ignore[misc,unused-ignore]
        """Says when a step begins and ends."""

        def before_task_step(self, task: Any) -> None:
            if state.page[ARMED] and threading.get_ident() == state.thread:
                state.main = state.main or _trio_main(task)
                _point(f"step of {task.name}")

        def after_task_step(self, task: Any) -> None:
            if state.page[ARMED] and threading.get_ident() == state.thread:
                state.last = task
                _point("the end of a step")

    return Steps()


def _trio_main(task: Any) -> Any:
    runner = sys.modules["trio._core._run"].GLOBAL_RUN_CONTEXT.runner
    return runner.main_task or task


# -- where it hangs --------------------------------------------------------------


def _tell(number: int, frame: FrameType | None) -> None:
    """Write down where every thread and every task is; the handler of the trial's signal."""
    told = {"threads": _threads(frame), "tasks": _tasks()}
    path = os.path.join(state.folder, f"where.{os.getpid()}")
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write(repr(told))
    os.rename(path + ".part", path)


def _threads(interrupted: FrameType | None) -> list[tuple[str, int, list[tuple[str, int, str]]]]:
    """Name, kernel's number and stack of each thread, innermost line first."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    me = threading.get_ident()
    found = []
    for ident, top in sys._current_frames().items():
        frame: FrameType | None = interrupted if ident == me else top
        stack: list[tuple[str, int, str]] = []
        while frame is not None and len(stack) < _DEPTH:
            stack.append(_place(frame))
            frame = frame.f_back
        thread = known.get(ident)
        found.append((thread.name if thread else str(ident), (thread.native_id or 0) if thread else 0, stack))
    return found


def _tasks() -> list[tuple[str, str, bool, list[tuple[str, int, str]]]]:
    """Name, coroutine, whether it is the main one, and await chain of each task."""
    found = []
    asyncio, trio = sys.modules.get("asyncio"), sys.modules.get("trio._core._run")
    if asyncio is not None and (loop := asyncio._get_running_loop()) is not None:
        tasks = sorted((one for one in asyncio.all_tasks(loop) if not one.done()), key=_age)
        for task in tasks:
            coro = task.get_coro()
            name = getattr(coro, "__qualname__", type(coro).__name__)
            found.append((task.get_name(), name, task is tasks[0], _chain(coro)))
    runner = getattr(trio.GLOBAL_RUN_CONTEXT, "runner", None) if trio is not None else None
    if runner is not None:
        for task in sorted(runner.tasks, key=lambda one: (one is not runner.main_task, one.name)):
            found.append((task.name, task.name.rpartition(".")[2], task is runner.main_task, _chain(task.coro)))
    return found
