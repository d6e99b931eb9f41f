"""An operation on asyncio, step by step.

A step is one callback that the loop runs, of whatever kind; a point is the gap
after it. On the stock loop every handle passes `_ready.popleft()` before it runs
(timers, I/O and signals too, which a hook in `call_soon` would miss), so a deque
that reports is all it takes: no task is wrapped, and what the target sees of its
own tasks is unchanged.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import inspect
import os
import selectors
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol

from ...model import Fault, Left, Outcome, Point, Site, suspended_at
from .. import anchors, chains, outcomes
from ..clock import INFINITY, clock
from ..trial import Trial
from . import around, factories
from .phases import Phases

_SPIN_AGAIN = 200
_LULL = 100
"""Turns in a row without an event after which there are no more points until the next event: those of a spin are all alike."""


EAGER = "the operation's task is begun eagerly: what it does before it first waits has no point"


class Own:
    """A callback of the harness: not a step of the target."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


class Ready(collections.deque):  # type: ignore[type-arg]
    """The loop's queue of handles, which says when one is about to run."""

    loop: Loop

    def popleft(self) -> Any:
        handle = super().popleft()
        if self.loop.armed:
            self.loop.before(handle)
        return handle


class Selector(selectors.DefaultSelector):
    """A selector whose waiting goes through the trial's clock."""

    idle = 0

    def select(self, timeout: float | None = None) -> Any:
        events = clock.wait(super().select, timeout)
        self.idle = 0 if events or timeout is None or timeout > 0 else self.idle + 1
        return events


class Idle(Protocol):
    """What counts the turns without an event."""

    idle: int


class Stepped(asyncio.AbstractEventLoop):
    """What a loop with points has, wherever its steps are seen: how it arms, what a point is, how faults are delivered."""

    closely = False
    selector: Idle
    own_factory: Any = None
    """The task factory that the target has set."""

    def begin_with(self, trial: Trial) -> None:
        """The state of a loop that has not yet run anything."""
        self.trial = trial
        self.closely = trial.order.closely
        self.armed = False
        self.op: asyncio.Task[Any] | None = None
        self.main: asyncio.Task[Any] | None = None
        self.first: Any = None
        self.started = False
        self.dirty = False
        self.n = 0
        self.turn_faults: list[list[Any]] = []
        self.spun = False
        self.firing = False
        self.scope: Any = None
        self.sibling: Any = None
        self.actors: list[asyncio.Task[Any]] = []
        self.seeks = any(fault.when.name == "unanchored" for fault in trial.due("event"))
        self.victim: asyncio.Task[Any] | None = None
        """The task that gets the faults, where the probe names another than the operation's."""

    # -- what is the loop's own --------------------------------------------

    def expect(self) -> None:
        """The operation's task is about to be made."""

    def queued(self) -> list[str]:
        """What is ready to run, by name."""
        raise NotImplementedError

    def timers(self) -> list[float]:
        """The moments of all timers that are set."""
        raise NotImplementedError

    # -- points ----------------------------------------------------------

    def arm(self, op: asyncio.Task[Any]) -> None:
        """Count from the first step of `op` on; an eager task has had that already."""
        self.op, self.started, self.dirty, self.n = op, _begun(op), False, 0
        if self.started:
            self.trial.notes.append(EAGER)
        self.armed = True
        self.selector.idle = 0

    def begin_turn(self) -> None:
        """A turn begins: see what the last one took, and count it."""
        stalls = len(clock.stalls)
        clock.turn()
        if len(clock.stalls) > stalls and self.op is not None:
            self.trial.stall_sites[stalls] = suspended_at(chains.task_chain(self.op))
        if self.armed and self.started:
            self._turn()

    def _turn(self) -> None:
        self.trial.turns += 1
        if self.dirty:  # turns that ran nothing are no points, or points would drift
            self.dirty = False
            self.point()
        for entry in self.turn_faults:
            fault, left = entry
            if left > 0:
                entry[1] -= 1
                self.selector.idle = 0
                self.fire(fault)
        idle = self.selector.idle
        if idle > self.trial.order.spin:
            self._spinning(idle)

    def _spinning(self, idle: int) -> None:
        """Turns go by and nothing happens: record it, and go on to the next timer, so that it costs turns, not seconds."""
        trial = self.trial
        if idle > trial.spin:
            trial.spin = idle
        if not self.spun:
            self.spun = True
            trial.spin_site = suspended_at(chains.task_chain(self.op)) if self.op else None
            trial.event("spin", f"{idle} turns in a row without an event, at {trial.spin_site}")
        if not clock.virtual:
            if idle % 256 == 0 and clock.now() >= clock.bound_at:
                clock.on_hang("spinning")
        elif (idle - self.trial.order.spin) % _SPIN_AGAIN == 1:
            clock.leap(min(self.timers(), default=INFINITY))

    def point(self) -> None:
        """The gap after a step."""
        op = self.target
        if op is None or self.selector.idle > _LULL:
            return
        self.n += 1
        trial = self.trial
        trial.met = self.n
        if trial.order.record_points:
            trial.points.append(Point(self.n, *self._where(op), trial.at()))
        for fault in trial.at_point(self.n):
            self.fire(fault)
        if self.seeks:
            self._seek_unanchored()

    @property
    def target(self) -> asyncio.Task[Any] | None:
        """The task that a fault would hit now: the operation's, or the probe's victim, which may outlive it; None if done."""
        name = self.trial.order.probe.victim
        if name and self.victim is None and self.armed:
            self.victim = next((task for task in asyncio.all_tasks(self) if name in _names(task)), None)
        task = self.victim if name else self.op
        return None if task is None or task.done() else task

    def _where(self, op: asyncio.Task[Any]) -> tuple[tuple[Site, ...], str]:
        where = chains.task_chain(op)
        waiter = getattr(op, "_fut_waiter", None)
        ready = self.queued()
        others = sorted(
            "|".join(f"{site.file}:{site.line}" for site in chains.task_chain(task))
            for task in asyncio.all_tasks(self)
            if task is not op and task is not self.main
        )
        state = (
            [f"{site.file}:{site.line}" for site in where],
            None if waiter is None else (type(waiter).__name__, waiter.done()),
            ready,
            others,
        )
        return where, f"{hash(repr(state)) & 0xFFFFFFFF:08x}"

    # -- faults ----------------------------------------------------------

    def fire(self, fault: Fault) -> None:
        """Deliver a fault now, between two steps."""
        op = self.target or (self.victim if self.trial.order.probe.victim else self.op)
        if op is None:
            self.trial.landed(fault.kind, False, (), self.n)
            return
        where = chains.task_chain(op) if self.started or op is not self.op else ()
        self.firing = True
        try:
            with clock.aside():
                if fault.kind == "cancel":
                    accepted: bool | None = op.cancel(msg=f"{outcomes.TOKEN}:{len(self.trial.faults) + 1}")
                else:
                    accepted = self._deliver(fault, op)
        finally:
            self.firing = False
        self.trial.landed(fault.kind, accepted, where, self.n)

    def _deliver(self, fault: Fault, op: asyncio.Task[Any]) -> bool | None:
        """A fault that is no plain cancel; what was answered, None where its kind has no answer."""
        if fault.kind == "scope" and self.scope is not None:
            self.scope.cancel()
            return True
        if fault.kind == "actors":  # all callers in one turn
            answers = [task.cancel(msg=f"{outcomes.TOKEN}:all") for task in self.actors]
            return answers[0]
        if fault.kind == "shutdown":  # what `asyncio.run` does to every task at its end
            tasks = [task for task in asyncio.all_tasks(self) if task not in (op, self.main)]
            answers = [task.cancel(msg=f"{outcomes.TOKEN}:shutdown") for task in (op, *tasks)]
            return answers[0]
        if fault.kind == "sibling" and self.sibling is not None:
            self.sibling.set()
            return None
        if fault.kind in ("kill", "stop", "term"):
            return self.trial.signal_children(fault.kind)
        if fault.kind == "signal":  # for real: to this very process
            os.kill(os.getpid(), getattr(signal, fault.arg))
            return None
        if fault.kind == "gc":
            if fault.when.name != "unanchored":  # which was found by that account
                self._account()
            gc.collect()
            return None
        return False

    def _account(self) -> bool:
        """See which tasks a collection would destroy now. Returns whether there are any."""
        trial = self.trial
        lost = anchors.unanchored(task for task in asyncio.all_tasks(self) if task not in (self.main, self.op))
        for item in lost:
            trial.event("unanchored", item.what)
        if lost and not trial.extra.get("unanchored"):
            trial.extra["unanchored"] = lost
        return bool(lost)

    def _seek_unanchored(self) -> None:
        """Collect at the first point where that destroys a task; see `storms.signals`."""
        for fault in self.trial.due("event"):
            if fault.when.name == "unanchored" and not self.trial.delivered and self._account():
                self.fire(fault)

    def schedule_timed(self) -> None:
        """Set the harness's timers for faults that come after some seconds or every few."""
        for fault in self.trial.due("after"):
            self.call_later(fault.when.n, Own(lambda fault=fault: self._fire_timed(fault)))
        for fault in self.trial.due("every"):
            self._repeat(fault)
        self.turn_faults = [[fault, int(fault.when.n)] for fault in self.trial.due("turns")]

    def _repeat(self, fault: Fault) -> None:
        def again() -> None:
            if self.target is not None:
                self._fire_timed(fault)
                self.call_later(fault.when.n, Own(again))

        self.call_later(fault.when.n, Own(again))

    def _fire_timed(self, fault: Fault) -> None:
        self.selector.idle = 0
        if self.armed and self.target is not None:
            self.fire(fault)

    def get_debug(self) -> bool:
        """Futures and tasks ask this when they are made, and then remember by whom."""
        return self.closely or super().get_debug()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = str(context.get("message", ""))
        if isinstance(error, BaseException):
            text += f": {type(error).__name__}: {error}"
        from ..watch import watch

        made = chains.summarised(context.get("source_traceback") or ())
        watch.report("loop", text, made or _future_site(context), made is not None)
        super().call_exception_handler(context)

    def set_task_factory(self, factory: Any) -> None:
        """The target's own factory makes the tasks from now on; who cancels them is still seen."""
        self.own_factory = factory
        super().set_task_factory(factories.watching(factory, WatchedTask))

    def get_task_factory(self) -> Any:
        """What the target has set."""
        return self.own_factory


class Loop(Stepped, asyncio.SelectorEventLoop):
    """The stock loop with points."""

    def __init__(self, trial: Trial) -> None:
        self.selector = Selector()
        super().__init__(self.selector)
        self.begin_with(trial)
        ready = Ready(self._ready)  # type: ignore[has-type]
        ready.loop = self
        self._ready = ready

    def arm(self, op: asyncio.Task[Any]) -> None:
        """Count from the first step of `op` on."""
        super().arm(op)
        self.first = self._ready[-1] if self._ready else None

    def queued(self) -> list[str]:
        """What is ready to run, by name."""
        return [named(handle._callback) for handle in self._ready]

    def timers(self) -> list[float]:
        """The moments of all timers that are set."""
        return [handle._when for handle in self._scheduled if not handle._cancelled]  # type: ignore[attr-defined]

    def before(self, handle: Any) -> None:
        """A handle is about to run; the gap before it is a point."""
        if handle._cancelled:
            return
        callback = handle._callback
        if type(callback) is Own or getattr(callback, "__self__", None) is self.main:
            return
        if getattr(callback, "__name__", "") == "_read_from_self":
            return
        if not self.started:
            self.started = handle is self.first
        else:
            self.point()
        self.trial.steps += 1
        self.dirty = True

    def _run_once(self) -> None:
        self.begin_turn()
        super()._run_once()  # type: ignore[misc]


class WatchedTask(asyncio.Task):  # type: ignore[type-arg]
    """The C task, which says who cancelled it."""

    def cancel(self, msg: Any = None) -> bool:
        return watch_cancel(self, super().cancel, msg)


def watch_cancel(task: asyncio.Task[Any], cancel: Callable[..., bool], msg: Any) -> bool:
    """Cancel, and record who asked for it."""
    loop = task.get_loop()
    watching = loop if isinstance(loop, Stepped) and loop.armed and not loop.firing else None
    where = chains.task_chain(task) if watching else ()
    accepted = cancel(msg) if msg is not None else cancel()
    if watching is not None:
        watching.trial.called_cancel(chains.caller(3), accepted, where)
        # Asked for by the probe itself, not through something that it uses (a scope, a timeout).
        asked = sys._getframe(2).f_code.co_filename == chains.roots.probe
        watching.trial.own_cancels += accepted and asked and task is watching.op
    return accepted


def _begun(task: asyncio.Task[Any]) -> bool:
    """Whether a task has had its first step (an eager one has, once it is made)."""
    coro: Any = task.get_coro()
    return coro is None or inspect.getcoroutinestate(coro) != inspect.CORO_CREATED


def _names(task: asyncio.Task[Any]) -> tuple[str, str]:
    """By what a probe may call a task: its name, and the function that it runs."""
    return task.get_name(), getattr(task.get_coro(), "__qualname__", "")


def named(callback: Any) -> str:
    """What a callback is called in the state of a point."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return "step"
    return str(getattr(callback, "__qualname__", type(callback).__name__))


def _future_site(context: dict[str, Any]) -> Site | None:
    """The line that made the future or task of a report, where the report knows it."""
    task = context.get("task") or context.get("future")
    if isinstance(task, asyncio.Task):
        coro: Any = task.get_coro()
        code = getattr(coro, "cr_code", None) or getattr(coro, "gi_code", None)
        if code is not None:
            return chains.roots.site(code, code.co_firstlineno)
    error = context.get("exception")
    return outcomes.flatten(error)[0].site if isinstance(error, BaseException) else None


# -- one trial -------------------------------------------------------------


class Driver(Phases):
    """The phases of a trial on asyncio."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.loop = self.make_loop(trial)
        self.loop.set_task_factory(None)
        trial.describe_tasks = self._describe
        trial.suspended = lambda: suspended_at(chains.task_chain(self.loop.op)) if self.loop.op else None
        trial.task_items = self._tasks
        trial.case._on_event = self._on_event
        trial.census.start()

    def make_loop(self, trial: Trial) -> Stepped:
        """The loop that the trial runs on."""
        return Loop(trial)

    def run(self) -> None:
        """All phases, to the end of the loop. What was seen is in the trial's record."""
        asyncio.set_event_loop(self.loop)
        trial = self.trial
        main = self.loop.create_task(self._main(), name="stormdrain")
        self.loop.main = main
        try:
            self.loop.run_until_complete(main)
        finally:
            self._close()
        if trial.exit.kind == "not-run":
            trial.exit = Outcome("returned")

    async def _main(self) -> None:
        trial = self.trial
        trial.unbuilt = trial.take()
        subject = await self.build()
        if trial.built.kind != "returned":
            return
        trial.prepare(subject, asyncio.sleep)
        await self._operate(subject)
        await self.hand_back()
        await self.settle()
        await self.follow_up(subject)
        del subject
        await self.dispose()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the loop."""
        await asyncio.sleep(seconds)

    async def _operate(self, subject: Any) -> None:
        trial, loop = self.trial, self.loop
        await asyncio.sleep(0)
        ended = loop.create_future()
        trial.begin()
        loop.expect()
        op = loop.create_task(self._wrapped(subject), name="operation")
        loop.arm(op)
        op.add_done_callback(Own(lambda _: ended.set_result(None)))
        before = _cancelling(op)
        loop.schedule_timed()
        for fault in trial.due("start"):
            if fault.kind != "scope":  # that one is cancelled by what is put around the operation
                loop.fire(fault)
        others = [loop.create_task(self.another(subject), name=f"actor {n}") for n in range(2, self.actors + 1)]
        loop.actors = [op, *others]
        await ended
        if loop.victim is not None and trial.accepted:
            await asyncio.wait([loop.victim])
        loop.armed = False
        trial.victim = self._victim()
        after = _cancelling(op)
        trial.cancelling = None if before is None or after is None else (before, after)
        trial.finish(self._outcome(op))
        await self._others(others)

    def _victim(self) -> Outcome:
        task = self.loop.victim
        if task is None:
            return Outcome("not-run")
        return self._outcome(task) if task.done() else Outcome("left")

    async def _others(self, others: list[asyncio.Task[Any]]) -> None:
        """Wait for the operation's other callers, in a bound of their own."""
        if not others:
            return
        trial = self.trial
        trial.run_bounded("waiting for the other callers")
        await asyncio.wait(others)
        trial.others = tuple(self._outcome(task) for task in others)

    def _outcome(self, op: asyncio.Task[Any]) -> Outcome:
        trial = self.trial
        if not trial.entered:
            return Outcome("never-entered")
        try:
            value = op.result()
        except BaseException as error:
            outcome = outcomes.raised(error, trial.injected)
            outcomes.let_go(error)
            return outcome
        return outcomes.returned(value)

    async def _wrapped(self, subject: Any) -> Any:
        wrap = self.trial.order.schedule.wrap
        if wrap is None:
            return await self.operation(subject)
        return await around.WRAPS[wrap.kind](self, subject, wrap.seconds or 0.0)

    def _close(self) -> None:
        """What `asyncio.run` does at its end."""
        trial, loop = self.trial, self.loop
        trial.run_bounded("closing the loop")
        try:
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            del left
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
        # A task that is kept (by the handle of its first step, say) keeps on 3.10 what its cancellation held.
        self.loop.op = self.loop.first = None
        self.loop.actors = []
        self.loop.main = None
        gc.collect()

    def _on_event(self, name: str) -> None:
        for fault in self.trial.due("event"):
            if fault.when.name == name and self.loop.armed:
                self.loop.fire(fault)

    def _describe(self) -> tuple[str, ...]:
        tasks = asyncio.all_tasks(self.loop)
        order = sorted(tasks, key=lambda task: (task is not self.loop.op, task.get_name()))
        ours = self.trial.phase in ("operating", "settling")  # else it is the probe that runs in the main task
        return tuple(chains.awaited_by(task) for task in order if task is not self.loop.main or not ours)

    def _tasks(self) -> list[Left]:
        items = []
        for task in asyncio.all_tasks(self.loop):
            if task is self.loop.main or task is self.loop.op or task.done():
                continue
            coro: Any = task.get_coro()
            name = getattr(coro, "__qualname__", type(coro).__name__)
            where = chains.task_chain(task)
            items.append(Left("task", f"{task.get_name()} ({name})", f"task {name}", suspended_at(where)))
        return items


def _cancelling(task: asyncio.Task[Any]) -> int | None:
    counter = getattr(task, "cancelling", None)
    return counter() if counter is not None else None
