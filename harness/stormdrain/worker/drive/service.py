"""A trial of a service: started, ready, its client at work, disturbed, and looked at when it has gone.

In calm nothing disturbs it: it is killed once the client has done its work. In a storm
the operation begins with the first fault and ends with the service's own process. What
is below it (daemons, other sessions, whatever became of them) is found because the
trial is their subreaper, and ended afterwards. All of it is in real time.
"""

from __future__ import annotations

import collections
import contextlib
import inspect
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ...model import Event, Exc, FaultRecord, Left, Outcome, Site
from .. import outcomes, procfs, reaper
from ..clock import clock, real_monotonic
from ..service import Command, Ready, Terms
from ..trial import RECORDED, SETTLE, Trial
from . import service_hang
from .service_faults import LATE, Landed, Plan, deliver
from .service_inject import Injector, clean_path, why_deaf
from .service_process import Running, Service, name_of

START_BOUND = 20.0
"""Seconds within which a service must be ready."""
CLIENT_BOUND = 30.0
"""Seconds within which its client must have done its work, and looked up again once the service has gone."""
TICK = 0.02
"""Seconds between looks where nothing happens."""
FINE = 0.001
"""Seconds between looks where a child is expected to appear."""
SECOND = 2.0
"""Seconds that a second signal gets to end a service that hangs."""
_SHOWN = 2000
_ALL = 1e6


class Over(Exception):
    """The service has ended, by itself or because its time was up."""


class Broken(Exception):
    """The service did not come so far that it could be disturbed."""


class Driver:
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
            trial.built = Outcome("not-run", told, f"{error.what} ({error.where})")
            return
        try:
            try:
                self._live()
            except Over:
                pass
            except Broken as error:
                self._broken(str(error))
                return
            self._after()
        finally:
            self._end()

    # -- before ------------------------------------------------------------

    def _build(self) -> Command | None:
        trial = self.trial
        try:
            made = self.probe.function(trial.case)
            if inspect.isgenerator(made):
                self.generator, made = made, next(made, None)
            if not isinstance(made, Command):
                raise UsageError(f"a service probe gives what case.spawn(...) returns, and this gave {type(made).__name__}")
        except BaseException as error:
            trial.built = outcomes.raised(error)
            return None
        return made

    def _start(self, command: Command) -> None:
        for ready in command.ready:
            if ready.kind == "port":
                _free(ready)
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
        look = self._looks(ready)
        if ready.kind == "reply" and not ready.port:
            with contextlib.suppress(BrokenPipeError):
                self.service.send(ready.text)
        while not look():
            self._step(0.005 if ready.kind in ("port", "file", "when") or ready.port else TICK)
            if not self.operating and real_monotonic() >= self.until:
                raise Broken(f"the service was not ready within {START_BOUND:g} s: {ready} did not come")

    def _looks(self, ready: Ready) -> Callable[[], bool]:
        running = self.running
        if ready.kind in ("line", "reply") and not ready.port:
            text = ready.text if ready.kind == "line" else ready.reply
            stream = ready.stream if ready.kind == "line" else "stdout"
            return lambda: any(text in line and stream in ("", name) for name, line in running.lines)
        if ready.kind in ("port", "reply"):
            return lambda: _answers(ready)
        if ready.kind == "file":
            path = os.path.join(running.command.cwd or self.trial.case.path, ready.text)
            return lambda: os.path.exists(path)
        condition = ready.condition or (lambda: True)
        return lambda: bool(condition())

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
            self._learn_commands()
            self._moment("idle")
        if not self.operating:
            if self.plan.next is None:
                raise Over
            self.until = real_monotonic() + LATE  # what is awaited now comes soon, or not this time

    def _learn_commands(self) -> None:
        """A process that has just been forked still has its parent's command line: look again."""
        seen = self.trial.census.seen
        for pid in [*self.running.children]:
            if pid in seen and (command := procfs.command(pid)):
                seen[pid] = (seen[pid][0], command)

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
        while not self._resting() and real_monotonic() < until and not self.operating:
            self._step(0.005)

    def _resting(self) -> bool:
        """Whether no thread of it has run since the last look, at least 10 ms ago."""
        now = real_monotonic()
        then, before = self.calm_quiet
        if now - then < 0.01:
            return False
        seen = self.running.rest()
        self.calm_quiet = (now, seen)
        return bool(seen) and seen == before and not any(" R " in one for one in seen)

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
        if plan.awaited == "quiet" and self._resting():
            self._moment("quiet")
        self._raised_inside()
        self._fire_due()
        now = real_monotonic()
        if running.status is not None:
            if not self.operating:
                raise Broken(f"the service ended before any signal, with {_how(running.status)}")
            raise Over
        if self.operating and (now >= self.until or self._child_gone()):
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
        from .service_process import run_delay

        self.waited = run_delay(self.running.pid)

    def _child_gone(self) -> bool:
        """Whether a signal to the child alone has done what it should: then the service need not end."""
        return bool(self.target) and procfs.stat(self.target) is None and self.plan.next is None

    # -- after -----------------------------------------------------------------

    def _after(self) -> None:
        trial, running = self.trial, self.running
        if trial.built.kind != "returned" and self.operating:
            trial.built = Outcome("returned")  # it was disturbed before it was ready
        if trial.order.calm or not self.operating:
            self._calm()
            return
        if self._child_gone():
            self._come_to_rest()
        ended = running.status is not None
        trial.ended = trial.ended_real = running.ended_at if ended else real_monotonic()
        if ended:
            trial.ended = max(trial.ended - (running.waited - self.waited), self.first)
            trial.outcome = Outcome("returned", value=_how(running.status or 0))
        elif self.target:
            trial.outcome = Outcome("returned", value="goes on")
        else:
            self._hung()
        trial.event("operation ends", f"{trial.outcome.kind} {trial.outcome.value}".strip())
        self._settle(ended)
        self._look_at_artefacts()
        if trial.outcome.kind == "hung":
            self._second_signal()
        self._wait_for_client()

    def _come_to_rest(self) -> None:
        """What the service makes of a child that has gone: it goes on, or ends."""
        until = real_monotonic() + LATE
        while self.running.status is None and real_monotonic() < until and not self._resting():
            self.running.pump(0.005)
            self.trial.hub.drain()

    def _calm(self) -> None:
        """Nothing was thrown: say what is there, and kill it."""
        trial = self.trial
        trial.outcome = Outcome("returned") if trial.order.calm else Outcome("not-run")
        trial.ended = trial.ended_real = real_monotonic()
        trial.left = self._processes()
        trial.fix_facts()
        # What comes and goes may have been seen or not: two calm trials must be alike.
        trial._facts = tuple(fact for fact in trial.facts if fact.state in ("alive", "orphaned"))
        points = self.injector.points(0) if self.injector is not None else ()
        trial.points, trial.met = list(points), len(points)

    def _hung(self) -> None:
        trial, running = self.trial, self.running
        told = self.injector.ask([running.pid, *running.look(), *running.children]) if self.injector is not None else []
        names = [record.note for record in trial.faults[:1]]
        why = f"{trial.order.bound:g} s after {names[0] if names else 'the first fault'}"
        trial.hang = service_hang.describe(why, running.pid, told)
        trial.hang = replace(trial.hang, site=service_hang.waits_at(told))
        trial.outcome = Outcome("hung", value=service_hang.in_words(told))

    def _settle(self, ended: bool) -> None:
        """Look at what is left until nothing is, for 2 s at most."""
        trial = self.trial
        pauses = SETTLE if ended and trial.order.phase != "canary" else SETTLE[:4] if ended else (0.0,)
        first: tuple[Left, ...] | None = None
        left: tuple[Left, ...] = ()
        for pause in pauses:
            self.running.pump(pause)
            trial.hub.drain()
            trial.census.reap_adopted()
            left = self._processes()
            first = left if first is None else first
            if not left:
                break
        trial.left = () if trial.outcome.value == "goes on" else left
        keys = collections.Counter(item.key for item in left)
        trial.late = tuple(item for item in first or () if keys[item.key] == 0)
        trial.fix_facts()

    def _processes(self) -> tuple[Left, ...]:
        trial = self.trial
        return tuple(item for item in trial.take() if item.kind == "process")

    def _look_at_artefacts(self) -> None:
        check = self.terms.artefacts
        if check is None:
            return
        try:
            said = check(self.trial.case)
        except BaseException as error:
            self.artefacts = outcomes.raised(error)
            return
        wrong = said if isinstance(said, str) else "they are not complete" if said is False else ""
        self.artefacts = Outcome("raised" if wrong else "returned", value=wrong)

    artefacts = Outcome("not-run")

    def _second_signal(self) -> None:
        """Whether a second one would have ended it: for the report, since it hides such a hang."""
        signals = [fault for fault in self.faults if fault.kind == "signal"]
        if len(signals) != 1 or self.trial.hang is None:
            return
        name = signals[0].arg.partition(".")[0]
        import signal

        self.running.send(int(getattr(signal, name)), "")
        until = real_monotonic() + SECOND
        while self.running.status is None and real_monotonic() < until:
            self.running.pump(TICK)
        status = self.running.status
        said = f"a second {name} ends it, with {_how(status)}" if status is not None else f"a second {name} does not end it either"
        self.trial.notes.append(said)
        self.trial.hang = replace(self.trial.hang, why=f"{self.trial.hang.why}; {said}")

    def _wait_for_client(self) -> None:
        if self.client is not None and self.running.status is not None:
            self.client_over.wait(1.0)
            if (error := self.trial.body.error) is not None:
                self.trial.notes.append(f"the client saw {error.type}: {error.message}")

    # -- when it did not come so far -------------------------------------------

    def _broken(self, what: str) -> None:
        """It ended, or stood still, before it could be disturbed."""
        trial, running = self.trial, self.running
        running.pump(0)
        said = running.text()[-_SHOWN:].strip()
        shown = f"; it printed: {said}" if said else "; it printed nothing"
        if not said and running.status is None:
            shown += " (a Python program keeps back what it prints to a pipe: flush it, or set PYTHONUNBUFFERED=1 in env=)"
        trial.fix_facts()
        if trial.built.kind == "returned" and not trial.order.calm:
            trial.extra["undecided"] = what + shown
            return
        self._unbuilt(what + shown)

    def _unbuilt(self, why: str) -> None:
        self.trial.built = Outcome("hung", value=why)

    def _undecided(self) -> str:
        """Why nothing may be concluded: the steps at which a signal was to land were never seen."""
        injector = self.injector
        wants = any(fault.when.kind == "point" for fault in self.faults)
        if not wants or self.trial.built.kind != "returned":
            return ""
        if injector is None:
            return "the probe forbids that anything is put into the service (inject=False)"
        if not injector.booted:
            return self.deaf or "the service is no Python program"
        if not injector.stepping:
            return "no loop of asyncio or trio was seen in the service's main thread (uvloop is not seen)"
        return ""

    deaf = ""

    def _end(self) -> None:
        """Say what was seen, run what follows the probe's yield, and leave nothing."""
        trial, running = self.trial, self.running
        running.pump(0)
        forbidden = [line for _, line in running.lines if any(text in line for text in self.terms.forbids)]
        injector = self.injector
        stepping = (injector.stepping or self.deaf) if injector is not None else ""
        trial.extra = {
            "undecided": self._undecided(),
            "moments": tuple(self.moments),
            "exit_status": running.status if trial.outcome.kind == "returned" and not trial.order.calm else None,
            "artefacts": self.artefacts,
            "printed": tuple(forbidden[:20]),
            "output": running.text()[-_SHOWN:],
            "stepping": stepping,
            "target": self.target,
            **trial.extra,
        }
        if injector is not None and injector.record and self.operating:
            trial.points = list(injector.points(self.outside))
        self._reap()
        self.service.close()
        if self.generator is not None:
            try:
                next(self.generator, None)
                trial.disposed = Outcome("returned")
            except BaseException as error:
                trial.disposed = outcomes.raised(error)
        running.close()

    def _reap(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.running.pid, 9)
        reaper.sweep(keep=self.trial.hub.own)


def _free(ready: Ready) -> None:
    """See that nobody listens where the service will.

    Raises:
        UsageError: somebody does.
    """
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((ready.host, ready.port))
        except OSError as error:
            raise UsageError(
                f"Port {ready.port} is taken: {error.strerror}.",
                where=str(ready),
                todo="let case.port() choose one",
            ) from error


def _answers(ready: Ready) -> bool:
    """Whether the port accepts a connection, and answers the request if there is one."""
    try:
        with socket.create_connection((ready.host, ready.port), timeout=0.25) as one:
            if ready.kind == "port":
                return True
            one.settimeout(1.0)
            one.sendall(ready.text.encode())
            got = b""
            while ready.reply.encode() not in got:
                data = one.recv(1 << 16)
                if not data:
                    return False
                got += data
            return True
    except OSError:
        return False


def _how(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"killed by {name_of(-status)}"

