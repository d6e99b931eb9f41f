"""How a trial of a service ends: what is said of its end, what it left, and that nothing is left of it.

Also how one ends that did not come so far that it could be disturbed.
"""

from __future__ import annotations

import collections
import contextlib
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...model import Fault, Left, Outcome
from .. import outcomes, procfs, reaper
from ..clock import real_monotonic
from ..service import Terms
from ..trial import SETTLE, Trial
from . import service_hang
from .service_client import Service
from .service_faults import LATE, Plan
from .service_inject import Injector
from .service_process import Running, name_of

TICK = 0.02
"""Seconds between looks where nothing happens."""
SECOND = 2.0
"""Seconds that a second signal gets to end a service that hangs."""
ZOMBIE = 2.0
"""Seconds that a service gets to reap a child that has ended."""
_SHOWN = 2000
"""Characters of the end of its output that are shown."""


class Ending:
    """What the driver has when the service has ended, and what becomes of it."""

    trial: Trial
    terms: Terms
    faults: Sequence[Fault]
    injector: Injector | None
    running: Running
    plan: Plan
    service: Service
    generator: Any
    moments: list[str]
    operating: bool
    client: threading.Thread | None
    client_over: threading.Event
    first: float
    """When the first fault landed."""
    waited: float
    """Seconds for which the service had been kept from running by then."""
    target: int
    """The child to which the signal went alone."""
    outside: int
    """Signals that were sent from outside."""
    deaf: str
    """Why nothing could be put into it."""
    artefacts: Outcome
    zombie_since: float
    calm_quiet: tuple[float, tuple[str, ...]]

    def resting(self) -> bool:
        """Whether no thread of all its processes has run since the last look, at least 10 ms ago."""
        now = real_monotonic()
        then, before = self.calm_quiet
        if now - then < 0.01:
            return False
        seen = self.running.rest()
        self.calm_quiet = (now, seen)
        return bool(seen) and seen == before and not any(" R " in one for one in seen)

    def child_gone(self) -> bool:
        """Whether a signal to the child alone has done what it should: then the service need not end.

        A child that has ended and is not reaped counts, too, once that has lasted for a while.
        """
        if not self.target or self.plan.next is not None:
            return False
        found = procfs.stat(self.target)
        if found is not None and found.state in "ZX":
            self.zombie_since = self.zombie_since or real_monotonic()
            return real_monotonic() - self.zombie_since >= ZOMBIE
        return found is None

    def learn_commands(self) -> None:
        """A process that has just been forked still has its parent's command line: look again."""
        seen = self.trial.census.seen
        for pid in [*self.running.children]:
            if pid in seen and (command := procfs.command(pid)):
                seen[pid] = (seen[pid][0], command)

    # -- after -----------------------------------------------------------------

    def after(self) -> None:
        trial, running = self.trial, self.running
        if trial.built.kind != "returned" and self.operating:
            trial.built = Outcome("returned")  # it was disturbed before it was ready
        if trial.order.calm or not self.operating:
            self._calm()
            return
        if self.child_gone():
            self._come_to_rest()
        ended = running.status is not None
        trial.ended = trial.ended_real = running.ended_at if ended else real_monotonic()
        if ended:
            trial.ended = max(trial.ended - (running.waited - self.waited), self.first)
            trial.outcome = Outcome("returned", value=how(running.status or 0))
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
        while self.running.status is None and real_monotonic() < until and not self.resting():
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
        self.learn_commands()
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
        wrong = said if isinstance(said, str) else "its files are not complete" if said is False else ""
        self.artefacts = Outcome("raised" if wrong else "returned", value=wrong)

    def _second_signal(self) -> None:
        """Whether a second one would have ended it: for the report, since it hides such a hang."""
        signals = [fault for fault in self.faults if fault.kind == "signal"]
        if len(signals) != 1 or self.trial.hang is None:
            return
        name = signals[0].arg.partition(".")[0]
        self.running.send(int(getattr(signal, name)), "")
        until = real_monotonic() + SECOND
        while self.running.status is None and real_monotonic() < until:
            self.running.pump(TICK)
        status = self.running.status
        said = (
            f"a second {name} ends it, with {how(status)}"
            if status is not None
            else f"a second {name} does not end it either"
        )
        self.trial.notes.append(said)
        self.trial.hang = replace(self.trial.hang, why=f"{self.trial.hang.why}; {said}")

    def _wait_for_client(self) -> None:
        if self.client is not None and self.running.status is not None:
            self.client_over.wait(1.0)
            if (error := self.trial.body.error) is not None:
                self.trial.notes.append(f"the client saw {error.type}: {error.message}")

    # -- when it did not come so far -------------------------------------------

    def broken(self, what: str) -> None:
        """It ended, or stood still, before it could be disturbed."""
        trial, running = self.trial, self.running
        running.pump(0)
        left = [item.what for item in self._processes()] if running.status is not None else []
        if left:
            what += f", and left {left[0]} behind (a daemon? let it run in the foreground)"
        said = running.text()[-_SHOWN:].strip()
        shown = f"; it printed: {said}" if said else "; it printed nothing"
        if not said and running.status is None:
            shown += (
                " (a Python program keeps back what it prints to a pipe: flush it, or set PYTHONUNBUFFERED=1 in env=)"
            )
        trial.fix_facts()
        if trial.built.kind == "returned" and not trial.order.calm:
            trial.extra["undecided"] = what + shown
            return
        self.trial.built = Outcome("hung", value=what + shown)

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

    def end(self) -> None:
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
        if self.running.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)
        reaper.sweep(keep=self.trial.hub.own)


def how(status: int) -> str:
    """`exit code 3`, `killed by SIGTERM`."""
    return f"exit code {status}" if status >= 0 else f"killed by {name_of(-status)}"
