"""An operation on trio, step by step.

The operation runs in a task of its own, in a nursery that is opened inside of
whatever the probe has opened, as it would be in a program. Only scopes cancel
here, so a cancel is a scope around the operation that is cancelled between two
steps; a timeout is trio's own. Nothing of the target is wrapped.

On trio a cancelled scope stays cancelled, and cancelling it again does nothing.
What is told apart is whether the cancellation was thrown into the operation at
all: one that meets only shields is not, and then there is nothing to be lost.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.lowlevel

from ...model import Fault, Left, Outcome, Site, suspended_at
from .. import chains, outcomes
from ..trial import Trial
from ..watch import watch
from . import trio_internals as internals
from .phases import Phases
from .trio_steps import Clock, Steps, tasks


class Driver(Phases):
    """The phases of a trial on trio."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.steps = Steps(trial)
        self.result = Outcome("never-entered")
        self.ended = trio.Event()
        trial.describe_tasks = self._describe
        trial.task_items = self._tasks
        trial.suspended = lambda: suspended_at(self.steps.where())
        trial.case._on_event = self._on_event
        watch.waiting = self._waiting

    def run(self) -> None:
        """All phases, to the end of the loop. What was seen is in the trial's record."""
        trial, steps = self.trial, self.steps
        internals.make_repeatable(trial.order.seed)
        internals.watch_waits(steps.wait)
        internals.watch_cancels(steps.cancelled)
        try:
            trio.run(self._main, clock=Clock(), instruments=[steps])
        except trio.TrioInternalError as error:  # a system task of the target has crashed
            if steps.broken is None:
                seen = [one for one in outcomes.flatten(error) if not one.cancelled]
                groups = ("Group", "MultiError")
                inner = next((one for one in seen[1:] if not one.type.endswith(groups)), seen[0])
                watch.report("loop", f"{error}: {inner.type}: {inner.message}", inner.site)
                trial.exit = outcomes.raised(error)
        if steps.broken is not None:
            raise steps.broken
        steps.op = steps.scope = steps.root = None
        steps.own.clear()
        gc.collect()
        if trial.exit.kind == "not-run":
            trial.exit = Outcome("returned")

    async def _main(self) -> None:
        trial = self.trial
        self.steps.root = trio.lowlevel.current_root_task()
        self.steps.own.update(tasks())  # trio's own, and this one
        trial.census.start()  # trio's descriptors are open now
        trial.unbuilt = trial.take()
        subject = await self.build()
        if trial.built.kind == "returned":
            # A call that is made to raise shields itself until then, as a cleanup does.
            trial.prepare(subject, self.sleep)
            await self._operate(subject)
            await self.hand_back()
            await self.settle()
            await self.follow_up(subject)
            del subject
            await self.dispose()
        trial.run_bounded("closing the loop")

    async def sleep(self, seconds: float) -> None:
        """Sleep, although a nursery of the probe may be cancelled around the harness."""
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)

    # -- the operation -------------------------------------------------------

    async def _operate(self, subject: Any) -> None:
        trial = self.trial
        await self.sleep(0)
        others: dict[int, Outcome] = {}
        try:
            async with trio.open_nursery() as callers:
                await self._first(subject, callers)
                for n in range(2, self.actors + 1):
                    scope = trio.CancelScope()
                    self.steps.scopes.append(scope)
                    callers.start_soon(self._actor, subject, n, scope, others, name=f"actor {n}")
                with trio.CancelScope(shield=True):
                    await self.ended.wait()
                trial.finish(self.result)
                if self.actors > 1:
                    trial.run_bounded("waiting for the other callers")
        except BaseException as error:
            if not outcomes.only_cancelled(error):  # else it is a nursery of the probe that is cancelled
                raise
        trial.others = tuple(others[n] for n in sorted(others))

    async def _first(self, subject: Any, callers: trio.Nursery) -> None:
        """Start the operation's task and count from its first step on; set the timers of faults."""
        trial, steps = self.trial, self.steps
        trial.begin()
        callers.start_soon(self._operation, subject, name="operation")
        (op,) = callers.child_tasks
        steps.arm(op)
        for fault in trial.due("start"):
            if fault.kind != "scope":  # that one is cancelled by what is put around the operation
                steps.fire(fault)
        timed = [*trial.due("after"), *trial.due("every")]
        steps.own.update(trio.lowlevel.spawn_system_task(self._timer, fault) for fault in timed)

    async def _timer(self, fault: Fault) -> None:
        """Deliver a fault in some seconds, or every few: a task of its own, so that nothing waits for it."""
        while not self.ended.is_set():
            with trio.move_on_after(fault.when.n):
                await self.ended.wait()
            self.steps.fire_timed(fault)
            if fault.when.kind == "after":
                break

    async def _operation(self, subject: Any) -> None:
        trial = self.trial
        try:
            value = await self._wrapped(subject)
            self.result = outcomes.returned(value)
        except BaseException as error:
            self.result = outcomes.raised(error, trial.injected)
        self.steps.armed = False
        self.ended.set()

    async def _actor(self, subject: Any, n: int, scope: trio.CancelScope, others: dict[int, Outcome]) -> None:
        """Another caller; the first one has the first step."""
        await trio.lowlevel.cancel_shielded_checkpoint()
        with scope:
            try:
                others[n] = outcomes.returned(await self.another(subject))
            except BaseException as error:
                others[n] = outcomes.raised(error, self.trial.injected)

    async def _wrapped(self, subject: Any) -> Any:
        wrap = self.trial.order.schedule.wrap
        if wrap is None:
            return await self.operation(subject)
        return await _WRAPS[wrap.kind](self, subject, wrap.seconds or 0.0)

    def _on_event(self, name: str) -> None:
        for fault in self.trial.due("event"):
            if fault.when.name == name:
                self.steps.fire_timed(fault)

    # -- what is there ---------------------------------------------------------

    def _describe(self) -> tuple[str, ...]:
        op = self.steps.op
        found = sorted((task for task in tasks() if self.steps.counts(task)), key=lambda task: task is not op)
        return tuple(_awaited_by(task) for task in found)

    def _tasks(self) -> list[Left]:
        items = []
        for task in tasks():
            if task is self.steps.op or not self.steps.counts(task):
                continue
            name = getattr(task.coro, "__qualname__", type(task.coro).__name__)
            site = suspended_at(chains.chain(task.coro))
            items.append(Left("task", f"{task.name} ({name})", f"task {name}", site))
        return items

    def _waiting(self) -> Site | None:
        """The line that waits for a thread; asked from that thread."""
        for task in tasks(self.steps.root):
            where = chains.chain(task.coro)
            if any(site.function.startswith("to_thread_run_sync") for site in where):
                return suspended_at(where)
        return None


def _awaited_by(task: trio.lowlevel.Task) -> str:
    where = " > ".join(str(site) for site in chains.chain(task.coro)) or "not started"
    return f"{task.name}: {where}"


# -- what is put around the operation -------------------------------------


async def _fail_after(driver: Driver, subject: Any, seconds: float) -> Any:
    with trio.fail_after(seconds) as scope:
        driver.steps.surround(scope)
        return await driver.operation(subject)


async def _move_on_after(driver: Driver, subject: Any, seconds: float) -> Any:
    with trio.move_on_after(seconds) as scope:
        driver.steps.surround(scope)
        return await driver.operation(subject)


async def _scope(driver: Driver, subject: Any, seconds: float) -> Any:
    with trio.CancelScope() as scope:
        driver.steps.surround(scope)
        for fault in driver.trial.due("start"):
            driver.steps.fire(fault)
        return await driver.operation(subject)


_WRAPS: dict[str, Callable[[Driver, Any, float], Awaitable[Any]]] = {
    "fail_after": _fail_after,
    "move_on_after": _move_on_after,
    "scope": _scope,
}
