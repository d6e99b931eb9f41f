"""The phases of a trial that are alike on every backend: build, operate, settle, follow up, dispose.

A backend's driver adds how to sleep, how to start the operation with its faults,
and how the loop begins and ends.
"""

from __future__ import annotations

import collections
import gc
import inspect
from typing import Any

from ...errors import UsageError
from ...model import Exc, Left, Outcome
from .. import outcomes
from ..census import beyond
from ..trial import SETTLE, Trial


class Phases:
    """What every driver does in between; the record is the trial's."""

    trial: Trial
    generator: Any = None

    async def sleep(self, seconds: float) -> None:
        """Sleep as the backend does, whatever is cancelled around the harness."""
        raise NotImplementedError

    async def build(self) -> Any:
        """The subject; how building it ended is in `trial.built`."""
        trial = self.trial
        made = trial.order.probe.function(trial.case)
        try:
            subject = await self._made(made)
            trial.check(subject)
        except UsageError as error:
            site = outcomes.flatten(error)[0].site
            told = " ".join(
                part for part in (error.what, f"({error.where})", f"at {site}" if site else "") if part != "()"
            )
            trial.built = Outcome("raised", (Exc("UsageError", error.todo),), told)
            return None
        except BaseException as error:
            trial.built = outcomes.raised(error)
            return None
        trial.built = Outcome("returned")
        return subject

    async def _made(self, made: Any) -> Any:
        """The subject of what the probe's function gave."""
        if inspect.isasyncgen(made):
            self.generator = made
            try:
                return await made.__anext__()
            except StopAsyncIteration:
                raise UsageError("The probe yields nothing.", todo="yield the subject, once") from None
        if not inspect.isawaitable(made):
            raise UsageError("The probe is no asynchronous function.", todo="write `async def`, and yield the subject")
        return await made

    async def operation(self, subject: Any) -> Any:
        """The operation itself, inside what the schedule puts around it."""
        trial = self.trial
        trial.entered = True
        try:
            value = await trial.call(subject)
        except BaseException as error:
            trial.inner = outcomes.raised(error, trial.injected)
            raise
        trial.inner = outcomes.returned(value)
        trial.case.results.append(value)  # what is put around it may lose that: the caller here does not
        return value

    @property
    def actors(self) -> int:
        """How many call the operation at once."""
        return max(self.trial.order.probe.actors, 2 if self.trial.order.schedule.storm == "concurrent" else 1)

    async def another(self, subject: Any) -> Any:
        """One more caller of the operation."""
        value = await self.trial.call(subject)
        self.trial.case.results.append(value)
        return value

    async def hand_back(self) -> None:
        """Give back what the operation returned to each of its callers, as the probe says."""
        case = self.trial.case
        if case.take_back is None:
            return
        self.trial.run_bounded("handing back")
        try:
            for result in case.results:
                answer = case.take_back(result)
                if inspect.isawaitable(answer):
                    await answer
        except BaseException as error:
            trial = self.trial
            trial.follow = outcomes.raised(error, trial.injected)
            trial.event("follow-up", f"handing back raised {type(error).__name__}: {error}")

    async def settle(self) -> None:
        """Look until nothing is left beyond what may be, for 2 s at most."""
        trial = self.trial
        trial.phase = "settling"
        first: tuple[Left, ...] | None = None
        left: tuple[Left, ...] = ()
        for pause in SETTLE:
            await self.sleep(pause)
            left = trial.beyond(trial.take())
            if first is None:
                first = left
            if not left:
                break
            gc.collect()  # what only garbage holds is not left; a thread may have let go of it since the last look
        trial.left = left
        keys = collections.Counter(item.key for item in left)
        trial.late = tuple(item for item in first or () if keys[item.key] == 0)
        trial.fix_facts()

    async def follow_up(self, subject: Any) -> None:
        """What must still work afterwards, where the order asks for it."""
        trial = self.trial
        probe = trial.order.probe
        if not trial.order.follow_up or not (probe.follow_up or probe.closes) or trial.follow.kind != "not-run":
            return
        trial.run_bounded("following up")
        try:
            if probe.follow_up is not None:
                await probe.follow_up(subject, trial.case)
            else:
                await trial.call(subject)
        except BaseException as error:
            trial.follow = outcomes.raised(error, trial.injected)
        else:
            trial.follow = Outcome("returned")
        trial.event("follow-up", trial.follow.kind)

    async def dispose(self) -> None:
        """What follows the probe's yield, and the last census."""
        trial = self.trial
        trial.run_bounded("disposing")
        try:
            if self.generator is not None:
                await self.generator.__anext__()
        except StopAsyncIteration:
            trial.disposed = Outcome("returned")
        except BaseException as error:
            trial.disposed = outcomes.raised(error, trial.injected)
        else:
            trial.disposed = Outcome("returned")
        self.generator = None
        allowed = trial.unbuilt if trial.order.calm else trial.order.final
        for pause in SETTLE:
            await self.sleep(pause)
            trial.final = trial.take()
            if not beyond(trial.final, allowed):
                break
            if not pause:
                gc.collect()
