"""Points, turns and faults of an operation on trio, seen through an instrument.

On trio a step is one step of a task, and nothing of the target runs between two
of them. So there is a point after each step, and one more before the first step
of a turn where the wait for events has woken a task: there a task is due to go on
and has not yet, which is the race "the wait is over, the waiter has not resumed".
Anywhere else the gap before a step is the gap after the one before it.

An exception in an instrument would only be logged by trio, and the instrument
switched off; here it is kept, and the trial is given up.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import trio
import trio.abc
import trio.lowlevel

from ...model import Fault, Point, Site, suspended_at
from .. import chains, outcomes
from ..clock import INFINITY, clock
from ..trial import Trial
from . import trio_internals as internals

SPIN = 1000
"""Turns in a row without an event or a timer: more is a spin."""
_SPIN_AGAIN = 200
_OFFSET = float(1 << 17)
"""Trio's time is not `time.monotonic()`; code that mixes the two must notice here as well."""

F = TypeVar("F", bound=Callable[..., None])


class Clock(trio.abc.Clock):
    """The trial's clock, as trio asks for it."""

    def start_clock(self) -> None:
        """Nothing is to be done: it runs."""

    def current_time(self) -> float:
        """Seconds of the trial's clock."""
        return clock.now() + _OFFSET

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Seconds to a moment of `current_time`."""
        return deadline - self.current_time()


def _kept(callback: F) -> F:
    """Keep what a callback raises, and do nothing more once one has."""

    @functools.wraps(callback)
    def guarded(self: Steps, *args: Any) -> None:
        if self.broken is None:
            try:
                callback(self, *args)
            except BaseException as error:
                self.broken = error

    return guarded  # type: ignore[return-value]  # the same signature


class Steps(trio.abc.Instrument):
    """Sees every step and every turn, and delivers faults between them."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.root: trio.lowlevel.Task | None = None
        self.armed = False
        self.started = False
        self.op: trio.lowlevel.Task | None = None
        self.scope: trio.CancelScope | None = None
        """What the schedule put around the operation: a scope, or a timeout's."""
        self.scopes: list[trio.CancelScope] = []
        """Those around the operation's other callers."""
        self.own: set[trio.lowlevel.Task] = set()
        """Tasks of the harness and of trio itself: not steps of the target."""
        self.ready: set[trio.lowlevel.Task] = set()
        self.n = 0
        self.idle = 0
        self.spun = False
        self.broken: BaseException | None = None
        self._firing = False
        self._fresh = False
        self._woken = False
        self._turn_faults: list[list[Any]] = []

    # -- what trio calls ---------------------------------------------------

    @_kept
    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        """A task is due to go on."""
        self.ready.add(task)
        self._woken = self._woken or (self._fresh and self.counts(task))

    @_kept
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        counts = self.armed and self.counts(task)
        if counts and self.started and self._fresh and self._woken:
            self.point()
        self.ready.discard(task)
        if counts and task is self.op:
            self.started = True
        if not counts or not self.started:
            return
        self._fresh = False
        self.trial.steps += 1
        if task is self.op:
            self._look_for_cancelled(task)

    @_kept
    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run until it waits, or ends."""
        if self.armed and self.started and self.counts(task):
            self.point()

    def wait(self, poll: internals.Poll, timeout: float) -> Any:
        """Trio has nothing to run, or looks for events between two turns."""
        if self.broken is not None:
            raise self.broken
        self._turn()
        if self.ready:
            timeout = 0.0  # a fault of this turn has woken somebody
        left: float | None = timeout
        if timeout >= internals.LONGEST and internals.to_next_deadline() == INFINITY:
            left = None
        events = clock.wait(lambda seconds: poll(internals.LONGEST if seconds is None else seconds), left)
        self.idle = 0 if events or left is None or left > 0 else self.idle + 1
        return events

    # -- points and turns --------------------------------------------------

    def arm(self, op: trio.lowlevel.Task) -> None:
        """Count from the first step of `op` on."""
        self.op, self.started, self.n, self.idle = op, False, 0, 0
        self._turn_faults = [[fault, int(fault.when.n)] for fault in self.trial.due("turns")]
        self.trial.thrown = 0 if internals.SEES_THROWN else None
        self.armed = True

    def counts(self, task: trio.lowlevel.Task) -> bool:
        """Whether a task is the target's, not the harness's or trio's own."""
        return task not in self.own and not task.name.endswith("._waitid_system_task")

    def _turn(self) -> None:
        stalls = len(clock.stalls)
        clock.turn()
        if len(clock.stalls) > stalls and self.op is not None:
            self.trial.stall_sites[stalls] = suspended_at(self.where())
        self._fresh, self._woken = True, False
        if not self.armed or not self.started:
            return
        self.trial.turns += 1
        for entry in self._turn_faults:
            fault, left = entry
            if left > 0:
                entry[1] -= 1
                self.idle = 0
                self.fire(fault)
        if self.idle > SPIN:
            self._spinning(self.idle)

    def _spinning(self, idle: int) -> None:
        """Nothing happens but turns: record it and go on to the next deadline; it costs no seconds."""
        trial = self.trial
        trial.spin = max(trial.spin, idle)
        if not self.spun:
            self.spun = True
            trial.spin_site = suspended_at(self.where())
            trial.event("spin", f"{idle} turns in a row without an event, at {trial.spin_site}")
        if not clock.virtual:
            if idle % 256 == 0 and clock.now() >= clock.bound_at:
                clock.on_hang("spinning")
        elif (idle - SPIN) % _SPIN_AGAIN == 1:
            clock.leap(clock.now() + internals.to_next_deadline())

    def point(self) -> None:
        """The gap between two steps."""
        self.n += 1
        trial = self.trial
        trial.met = self.n
        if trial.order.record_points:
            where = self.where()
            trial.points.append(Point(self.n, where, self._key(where), trial.at()))
        for fault in trial.at_point(self.n):
            self.fire(fault)

    def where(self) -> tuple[Site, ...]:
        """The await chain of the operation."""
        return chains.chain(self.op.coro) if self.op is not None else ()

    def _key(self, where: tuple[Site, ...]) -> str:
        """Equal where await chains and what is due to run are."""
        others = sorted(
            ("|".join(f"{site.file}:{site.line}" for site in chains.chain(task.coro)), task in self.ready)
            for task in tasks()
            if task is not self.op and self.counts(task)
        )
        state = ([f"{site.file}:{site.line}" for site in where], self.op in self.ready, others)
        return f"{hash(repr(state)) & 0xFFFFFFFF:08x}"

    # -- faults --------------------------------------------------------------

    def fire(self, fault: Fault) -> None:
        """Deliver a fault now, between two steps."""
        where = self.where() if self.started else ()
        self._firing = True
        try:
            accepted = self._deliver(fault)
        finally:
            self._firing = False
        self.trial.landed(fault.kind, accepted, where, self.n)

    def _deliver(self, fault: Fault) -> bool | None:
        """What was answered: for a scope, whether this cancelled it; None where the kind has no answer."""
        scope = self.scope
        if fault.kind in ("scope", "actors") and scope is not None:
            fresh = not scope.cancel_called
            for one in (scope, *(self.scopes if fault.kind == "actors" else ())):  # all callers in one turn
                internals.cancel(one, f"{outcomes.TOKEN}:{self.trial.delivered + 1}")
            return True if fresh else None
        if fault.kind in ("kill", "stop", "term"):
            return self.trial.signal_children(fault.kind)
        if fault.kind == "signal":  # for real: to this very process
            os.kill(os.getpid(), getattr(signal, fault.arg))
            return None
        if fault.kind == "gc":
            gc.collect()
            return None
        return False

    def fire_timed(self, fault: Fault) -> None:
        """Deliver a fault whose moment is a time or an event, if the operation still runs."""
        if self.armed:
            self.idle = 0
            self.fire(fault)

    def surround(self, scope: trio.CancelScope) -> None:
        """The operation is about to run inside this scope."""
        self.scope = scope
        if scope.cancel_called:  # a timeout of zero
            self.trial.landed("timeout", None, (), self.n)

    def cancelled(self, scope: trio.CancelScope, by_deadline: bool) -> None:
        """A scope is about to be cancelled, not by the harness; a deadline of the target's own is no news."""
        if not self.armed or self._firing:
            return
        if scope is self.scope:
            self.trial.landed("timeout", None, self.where(), self.n)
        elif not by_deadline:
            self.trial.called_cancel(chains.caller(2), True, self.where())

    def _look_for_cancelled(self, op: trio.lowlevel.Task) -> None:
        trial = self.trial
        if self.scope is not None and trial.thrown is not None and internals.thrown(op, self.scope):
            trial.thrown += 1
            where = self.where()
            trial.event("cancelled", f"thrown into the operation at {suspended_at(where)}")
            if trial.faults and not trial.faults[-1].chain:  # cancelled before the first step, felt here
                trial.faults[-1] = replace(trial.faults[-1], chain=where)


def tasks(root: trio.lowlevel.Task | None = None) -> list[trio.lowlevel.Task]:
    """All tasks of the running loop (`root`: of that one), in an order that does not depend on addresses."""
    root = root or trio.lowlevel.current_root_task()
    found = [] if root is None else [root]
    for task in found:
        for nursery in task.child_nurseries:
            found += nursery.child_tasks
    return sorted(found, key=lambda task: (task.name, str(chains.chain(task.coro))))
