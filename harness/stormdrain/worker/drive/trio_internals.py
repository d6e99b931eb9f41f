"""What is used of trio that trio does not promise, in one place, with the versions on which it was tried.

A trial on trio needs three things that have no public door: the wait for events
(for virtual time), the scheduler's random order and the switch that makes it
depend on nothing else. Where one is missing, nothing is driven, and the cell says
which. Two more are looked at if they are there, and missed by name if not.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from importlib import metadata
from types import FrameType
from typing import Any

import trio
import trio.lowlevel

_run: Any = importlib.import_module("trio._core._run")
TRIED = tuple(f"0.{minor}" for minor in range(22, 36))
"""Versions on which every canary was flagged and sweeps came out alike, on interpreters of 3.10 to 3.14."""
NEEDED = {
    "trio._core._run.TheIOManager.get_events": "the wait for events",
    "trio._core._run._r.seed": "the random order of tasks",
    "trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING": "a repeatable order",
    "trio.lowlevel.current_root_task": "all tasks",
    "trio.lowlevel.current_statistics": "the next deadline",
}
LONGEST = 24 * 60 * 60.0
"""Seconds that trio waits at most at a time: then it has no deadline, or a far one."""

Poll = Callable[[float], Any]


def version() -> str:
    """The version of trio that is installed."""
    return metadata.version("trio")


def missing() -> str:
    """The first internal that is needed and that this trio lacks; empty where all are there."""
    for name, what in NEEDED.items():
        found: Any = trio
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        if found is None:
            return f"{name} ({what})"
    return ""


def unseen() -> list[str]:
    """What cannot be seen on this trio, a sentence each."""
    found = []
    if not _sees_thrown():
        found.append(
            "whether a cancelled scope was thrown into the operation is not seen "
            "(Task._next_send, Task._cancel_status or CancelStatus._scope is missing)"
        )
    if not _sees_cancels():
        found.append("who cancels a scope is not seen (CancelScope.cancel cannot be watched)")
    return found


def untried() -> str:
    """A sentence where this version lies outside of those that were tried, else nothing."""
    if ".".join(version().split(".")[:2]) in TRIED:
        return ""
    return f"trio {version()} was not tried ({span()} were); all internals that are used are there"


def span() -> str:
    """The versions that were tried, in words."""
    return f"{TRIED[0]} to {TRIED[-1]}"


# -- putting things in place (in the trial's own process, which ends with it) ----


def make_repeatable(seed: int) -> None:
    """Give trio's scheduler an order that depends on the seed only."""
    _run._r.seed(seed)
    _run._ALLOW_DETERMINISTIC_SCHEDULING = True


def watch_waits(wait: Callable[[Poll, float], Any]) -> None:
    """Have every wait for events go through `wait(poll, timeout)`."""
    manager: Any = _run.TheIOManager
    real = manager.get_events

    def get_events(self: Any, timeout: float) -> Any:
        return wait(lambda seconds: real(self, seconds), timeout)

    manager.get_events = get_events


def watch_cancels(seen: Callable[[trio.CancelScope, bool], None]) -> None:
    """Call `seen(scope, by_deadline)` whenever a scope that is not cancelled yet is about to be."""
    kind: Any = trio.CancelScope
    # From 0.31 on `cancel` and deadlines meet in `_cancel`.
    name = "_cancel" if hasattr(kind, "_cancel") else "cancel"
    real = getattr(kind, name, None)
    if real is None:
        return

    def cancel(self: trio.CancelScope, *args: Any, **options: Any) -> None:
        if not getattr(self, "_cancel_called", False):
            seen(self, _by_deadline(sys._getframe(1)))
        real(self, *args, **options)

    setattr(kind, name, cancel)


def _by_deadline(frame: FrameType | None) -> bool:
    """Whether it is trio that cancels, since a deadline has passed."""
    own = _run.__file__
    while frame is not None and frame.f_code.co_filename == own and frame.f_code.co_name == "cancel":
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename != own:
        return False
    return frame.f_code.co_name in ("expire", "__enter__", "cancel_called")


def _sees_cancels() -> bool:
    return hasattr(trio.CancelScope, "cancel") and hasattr(trio.CancelScope, "_cancel_called")


_REASONS = "reason" in inspect.signature(trio.CancelScope.cancel).parameters


def cancel(scope: trio.CancelScope, token: str) -> None:
    """Cancel a scope; from 0.31 on `Cancelled` carries the token as its reason."""
    call: Callable[..., None] = scope.cancel
    if _REASONS:
        call(reason=token)
    else:
        call()


# -- looking -----------------------------------------------------------------------


def _sees_thrown() -> bool:
    task: Any = trio.lowlevel.Task
    status = getattr(_run, "CancelStatus", None)
    return all(hasattr(task, name) for name in ("_next_send", "_cancel_status")) and hasattr(status, "_scope")


SEES_THROWN = _sees_thrown()


def thrown(task: trio.lowlevel.Task, scope: trio.CancelScope) -> bool:
    """Whether the next step of a task begins with a Cancelled that comes from this scope.

    An inner scope never absorbs one that comes from further out, so where the
    task then ends without it, code has swallowed it.
    """
    send = task._next_send
    if not isinstance(getattr(send, "error", send), trio.Cancelled):
        return False
    if not getattr(scope, "_cancel_called", False):
        return False
    status: Any = task._cancel_status
    while status is not None:
        if status._scope is scope:
            return True
        if status._scope.shield:
            return False
        status = getattr(status, "_parent", None)
    return False


def to_next_deadline() -> float:
    """Seconds to the next deadline; infinite where there is none."""
    return float(trio.lowlevel.current_statistics().seconds_to_next_deadline)
