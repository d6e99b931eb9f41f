"""A trial of a service: started, ready, its client at work, disturbed, and looked at when it has gone.

In calm nothing disturbs it: it is killed once the client has done its work. In a storm
the operation begins with the first fault and ends with the service's own process. What
is below it (daemons, other sessions, whatever became of them) is found because the
trial is their subreaper, and ended afterwards. All of it is in real time.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable
from typing import Any

from ...errors import UsageError
from ...model import Event, Exc, FaultRecord, Outcome, Site
from .. import outcomes
from ..clock import clock, real_monotonic
from ..service import Command, Ready, Terms
from ..trial import RECORDED, Trial
from .service_client import Service
from .service_end import TICK, Ending, how
from .service_faults import LATE, Landed, Plan, deliver
from .service_inject import Injector, clean_path, why_deaf
from .service_process import Running, run_delay
from .service_ready import question, see_that_it_is_free

START_BOUND = 20.0
"""Seconds within which a service must be ready."""
CLIENT_BOUND = 30.0
"""Seconds within which its client must have done its work, and looked up again once the service has gone."""
FINE = 0.001
"""Seconds between looks where a child is expected to appear."""
_ALL = 1e6


class Over(Exception):
    """The service has ended, by itself or because its time was up."""


class Broken(Exception):
    """The service did not come so far that it could be disturbed."""


class Driver(Ending):
    """The phases of a trial of a service."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.probe = trial.order.probe
        self.terms = self.probe.terms or Terms()
        self.faults = trial.order.schedule.faults
        for fault in self.faults:
            if fault.kind == "child-ignores":
                trial.case.overrides["sigterm"] = "ignore"
        self.injector = Injector(trial.folder, self.faults, trial.order.record_points) if self.terms.inject else None
        self.running: Running
        self.plan: Plan
        self.service: Service
        self.generator: Any = None
        self.moments: list[str] = []
        self.until = 0.0
        """The moment at which what is under way takes too long."""
        self.operating = False
        self.calm_quiet: tuple[float, tuple[str, ...]] = (0.0, ())
        self.client: threading.Thread | None = None
        self.client_over = threading.Event()
        self.first = 0.0
        self.waited = 0.0
        self.target = 0
        self.outside = 0
        self.deaf = ""
        self.zombie_since = 0.0
        self.artefacts = Outcome("not-run")

    def run(self) -> None:
        """All phases. What was seen is in the trial's record."""
        command = self._build()
        if command is None:
            return
        clock.watchdog(_ALL)  # this thread is never the target's: it watches, it cannot be blocked
        try:
            self._start(command)
        except UsageError as error:
            told = (Exc("UsageError", error.todo),)
            self.trial.built = Outcome("not-run", told, f"{error.what} ({error.where})")
            return
        try:
            try:
                self._live()
            except Over:
                pass
            except Broken as error:
                self.broken(str(error))
                return
            self.after()
        finally:
            self.end()

    # -- before ------------------------------------------------------------

    def _build(self) -> Command | None:
        trial = self.trial
        try:
            made = self.probe.function(trial.case)
            if inspect.isgenerator(made):
                self.generator, made = made, next(made, None)
            if not isinstance(made, Command):
                raise UsageError(
                    f"a service probe gives what case.spawn(...) returns, and this gave {type(made).__name__}",
                    todo="return or yield case.spawn([...], ready=...)",
                )
        except BaseException as error:
            trial.built = outcomes.raised(error)
            return None
        return made

    def _start(self, command: Command) -> None:
        for ready in command.ready:
            see_that_it_is_free(ready)
        trial = self.trial
        env = {**os.environ, **command.env}
        if (path := clean_path(env)) is None:
            env.pop("PYTHONPATH", None)
        else:
            env["PYTHONPATH"] = path
        if self.injector is not None:
            env = self.injector.environment(env)
        trial.census.start()
        trial.t0 = trial.real0 = real_monotonic()
        self.running = Running(command, env, command.cwd or trial.case.path, trial.hub.descriptors())
        self.running.scripted = trial.hub.pids
        self.plan = Plan(self.faults, self.running.began)
        self.service = Service(self.running, self._moment)
        trial.t0 = trial.real0 = self.running.began
        self.until = self.running.began + START_BOUND
        self._moment("started")
        if command.stdin == "open":
            self._moment("stdin")

    def _live(self) -> None:
        """From its start to its end."""
        for ready in self.running.command.ready:
            self._await(ready)
        self.trial.built = Outcome("returned")
        self.trial.announce("operating", None)
        clock.watchdog(_ALL)
        self._moment("ready")
        if not self.operating:
            self._serve()
        while True:
            self._step(TICK)

    def _await(self, ready: Ready) -> None:
        look = question(ready, self.running, self.running.command.cwd or self.trial.case.path)
        if ready.kind == "reply" and not ready.port:
            with contextlib.suppress(BrokenPipeError):
                self.service.send(ready.text)
        while not look():
            self._step(0.005 if ready.kind in ("port", "file", "when") or ready.port else TICK)
            if not self.operating and real_monotonic() >= self.until:
                raise Broken(f"the service was not ready within {START_BOUND:g} s: {ready} did not come")

    def _serve(self) -> None:
        """Its client at work."""
        self._rest()
        if self.injector is not None and not self.injector.booted:
            self.deaf = why_deaf([self.running.pid, *self.running.children])
        if self.injector is not None and (self.injector.plan or self.injector.record):
            self.injector.arm()
        self.until = real_monotonic() + CLIENT_BOUND
        work = self.running.command.client
        if work is not None:
            self.client = threading.Thread(target=self._client, args=(work,), name="client", daemon=True)
            self.client.start()
            while not self.client_over.is_set():
                self._step(TICK)
                if not self.operating and real_monotonic() >= self.until:
                    raise Broken(f"the client did not end within {CLIENT_BOUND:g} s")
            failed = self.trial.body
            if failed.kind == "raised" and not self.operating and failed.error is not None:
                raise Broken(f"the client failed: {failed.error.type}: {failed.error.message}")
        if not self.operating:
            self._rest()
            self.learn_commands()
            self._moment("idle")
        if not self.operating:
            if self.plan.next is None:
                raise Over
            self.until = real_monotonic() + LATE  # what is awaited now comes soon, or not this time

    def _client(self, work: Callable[[Service], Any]) -> None:
        try:
            work(self.service)
        except BaseException as error:
            self.trial.body = outcomes.raised(error)
        else:
            self.trial.body = Outcome("returned")
        finally:
            self.client_over.set()
            self.running.wake()

    def _rest(self) -> None:
        """Wait until it has come to rest: an idle service takes no steps."""
        until = real_monotonic() + LATE
        while not self.resting() and real_monotonic() < until and not self.operating:
            self._step(0.005)

    # -- all the time --------------------------------------------------------

    def _step(self, seconds: float) -> None:
        """Wait for a moment; take note of what happened, and deliver what is due.

        Raises:
            Over: it has ended after a fault, or its time is up.
            Broken: it ended before any fault.
        """
        running, plan = self.running, self.plan
        watched = plan.awaited.startswith("child-") or (self.trial.order.calm and "ready" not in plan.moments)
        inside = self.injector is not None and self.injector.waiting
        running.pump(min(FINE if watched else 0.004 if inside else seconds, plan.wait(real_monotonic())))
        self.trial.hub.drain()
        if new := running.look():
            self.trial.census.look()
        for _ in new:
            self._moment(f"child-{sum(1 for name in self.moments if name.startswith('child-')) + 1}")
        if plan.awaited == "quiet" and self.resting():
            self._moment("quiet")
        self._raised_inside()
        self._fire_due()
        now = real_monotonic()
        if running.status is not None:
            if not self.operating:
                raise Broken(f"the service ended before any signal, with {how(running.status)}")
            raise Over
        if self.operating and (now >= self.until or self.child_gone()):
            raise Over
        if not self.operating and "idle" in plan.moments and now >= self.until:
            raise Over  # the moment of the first fault did not come this time

    def _moment(self, name: str) -> None:
        """Something with a name has happened."""
        self.plan.happened(name, real_monotonic())
        self.moments.append(name)
        self.trial.event("moment", name)
        self._fire_due()

    def _fire_due(self) -> None:
        while self.running.status is None and (fault := self.plan.due(real_monotonic())) is not None:
            now = real_monotonic()
            landed = deliver(fault, self.running, self._about_to)
            self.plan.landed(now)
            if landed is None:
                self._record(fault.kind, False, "there was no child")
                continue
            self._landed(landed, now)

    def _landed(self, landed: Landed, now: float) -> None:
        self._operate(now)
        if landed.target != self.running.pid and landed.fault.kind == "signal":
            self.target = landed.target
        self._record(landed.fault.kind, None, landed.note)

    def _record(self, kind: str, accepted: bool | None, note: str, chain: tuple[Site, ...] = (), step: int = 0) -> None:
        trial = self.trial
        trial.delivered += accepted is not False
        if len(trial.faults) < RECORDED:
            trial.faults.append(FaultRecord(kind, step, trial.at(), accepted, chain, note=note))
            trial.event(f"fault {kind}", note)

    def _about_to(self) -> None:
        self.outside += 1
        if self.injector is not None:
            self.injector.outside()

    def _raised_inside(self) -> None:
        if self.injector is None:
            return
        for hit in self.injector.news():
            self._operate(hit.at)
            self.plan.landed(hit.at)
            self._record("signal", None, f"at step {hit.step}, before {hit.upcoming}", hit.chain, hit.step)

    def _operate(self, now: float) -> None:
        """The operation begins with the first fault."""
        if self.operating:
            return
        trial = self.trial
        self.operating = True
        self.first = now
        self.until = now + trial.order.bound
        shift = now - trial.t0
        trial.timeline = [Event(round(event.at - shift, 6), event.what, event.detail) for event in trial.timeline]
        trial.t0 = trial.real0 = now
        self.waited = run_delay(self.running.pid)
