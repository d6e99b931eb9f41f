"""One trial: the record that is kept while an operation runs under a schedule, and the observation made of it.

A backend's driver runs the phases (build, operate, settle, follow up, dispose);
everything that is the same for all backends is here. A trial never judges.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..model import Blocked, Event, Fault, FaultRecord, Hang, Left, Observation, Outcome, Point, Schedule, Site
from . import chains, outcomes, procfs
from .case import Case
from .census import Census, beyond
from .clock import INFINITY, clock
from .props.hub import Hub
from .sampler import Sampler
from .script import Probe
from .sockets import leads_out
from .watch import watch

if TYPE_CHECKING:
    pass

SPIN = 1000
"""Turns in a row without an event or a timer: more is a spin (correct shielded code takes under 20)."""
BUILD_BOUND = 20.0
"""Seconds within which a subject must be built."""
AFTER_BOUND = 15.0
"""Seconds within which follow-up, dispose and the loop's end must each be over."""
SETTLE = (0.0, 0.005, 0.015, 0.03, 0.05, 0.1, 0.2, 0.4, 0.6, 0.6)
"""Pauses between looks while settling: 2 s in all."""
MISSING = "has no operation"
FAIL_DELAY = 0.05
"""Seconds for which an asynchronous call that is made to raise is suspended first."""
RECORDED = 40
"""So many faults and foreign cancels are recorded one by one; the rest is counted."""
_OVERRIDES: dict[str, dict[str, Any]] = {
    "child-grandchild": {"grandchild": "keeps-pipe"},
    "child-floods": {"floods": 1 << 20},
}
"""What a storm changes of the scripted children."""
_TIMELINE = 1000


@dataclass
class Order:
    """What a trial is to do."""

    probe: Probe
    schedule: Schedule
    backend: str = "asyncio"
    virtual: bool = True
    bound: float = 15.0
    record_points: bool = False
    baseline: tuple[Left, ...] = ()
    """What was there after calm; empty in calm itself."""
    final: tuple[Left, ...] = ()
    """What calm had left after dispose."""
    calm: bool = False
    follow_up: bool = True
    phase: str = "storm"
    seed: int = 0
    closely: bool = False
    """Whether the lines are looked for that block the loop, and that make futures and tasks: it costs time."""
    spin: int = SPIN
    """Turns in a row without an event that count as a spin."""
    exit_bound: float = 5.0
    """Real seconds within which the interpreter must leave once the loop is closed."""


@dataclass
class Trial:
    """The record of one trial, while it runs."""

    order: Order
    folder: str
    send: Callable[[Observation], None]
    announce: Callable[[str, Outcome | None], None] = lambda phase, outcome: None
    """Told of each phase that begins, and how the operation ended: what is known should the rest block."""
    phase: str = "building"
    t0: float = 0.0
    real0: float = 0.0
    ended: float = 0.0
    ended_real: float = 0.0
    outcome: Outcome = Outcome("not-run")
    inner: Outcome = Outcome("not-run")
    others: tuple[Outcome, ...] = ()
    victim: Outcome = Outcome("not-run")
    built: Outcome = Outcome("not-run")
    follow: Outcome = Outcome("not-run")
    disposed: Outcome = Outcome("not-run")
    exit: Outcome = Outcome("not-run")
    entered: bool = False
    steps: int = 0
    met: int = 0
    turns: int = 0
    spin: int = 0
    spin_site: Site | None = None
    cancelling: tuple[int, int] | None = None
    delivered: int = 0
    accepted: int = 0
    own_cancels: int = 0
    thrown: int | None = None
    faults: list[FaultRecord] = field(default_factory=list)
    cancels: list[FaultRecord] = field(default_factory=list)
    injected: list[BaseException] = field(default_factory=list)
    counts: dict[str, int | None] = field(default_factory=dict)
    counted: dict[str, int | None] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    timeline: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: tuple[Left, ...] = ()
    unbuilt: tuple[Left, ...] = ()
    left: tuple[Left, ...] = ()
    there: tuple[Left, ...] = ()
    late: tuple[Left, ...] = ()
    final: tuple[Left, ...] = ()
    hang: Hang | None = None
    body: Outcome = Outcome("not-run")
    """How the client of a service ended."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What an observation of one kind of subject has beyond the others."""
    stall_sites: dict[int, Site | None] = field(default_factory=dict)
    sent: bool = False
    describe_tasks: Callable[[], tuple[str, ...]] = tuple
    suspended: Callable[[], Site | None] = lambda: None
    """The line of the target on which the operation waits now."""
    task_items: Callable[[], list[Left]] = list

    def __post_init__(self) -> None:
        for name in ("tmp", "case"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        self.modules = set(sys.modules)
        watch.start(self.event)
        self.sampler = Sampler() if self.order.closely else None
        self.hub = Hub(self.folder, virtual=self.order.virtual, now=clock.now, record=self.event)
        self.case = Case(self.folder, self.order.backend, self.order.probe.param, self.hub)
        self.case.overrides = dict(_OVERRIDES.get(self.order.schedule.storm, {}))
        self.census = Census(self.folder)
        clock.hub = self.hub
        clock.external = lambda: leads_out(self.hub.ports())
        clock.on_hang = self.hung
        clock.bound_at = clock.now() + BUILD_BOUND
        self.t0 = clock.now()
        self._points = {int(f.when.n): [] for f in self.order.schedule.faults if f.when.kind == "point"}  # type: dict[int, list[Fault]]
        last: list[Fault] | None = None
        for fault in self.order.schedule.faults:
            if fault.when.kind == "point":
                last = self._points[int(fault.when.n)]
                last.append(fault)
            elif fault.when.kind == "with" and last is not None:
                last.append(fault)

    # -- recording -------------------------------------------------------

    def at(self) -> float:
        """Seconds since the operation's start, on the trial's clock."""
        return round(clock.now() - self.t0, 6)

    def event(self, what: str, detail: str = "") -> None:
        """Put something on the timeline."""
        if len(self.timeline) < _TIMELINE:
            self.timeline.append(Event(self.at(), what, detail.replace(self.folder, "$DIR")))

    def at_point(self, n: int) -> list[Fault]:
        """The faults that are due at the n-th point."""
        return self._points.get(n, [])

    def due(self, kind: str) -> list[Fault]:
        """The faults with that kind of moment."""
        return [fault for fault in self.order.schedule.faults if fault.when.kind == kind]

    def landed(self, kind: str, accepted: bool | None, chain: tuple[Site, ...], point: int, note: str = "") -> None:
        """A fault was delivered."""
        self.delivered += 1
        if kind in ("cancel", "scope", "actors", "shutdown"):
            self.accepted += accepted is True
        if self.delivered <= RECORDED:
            self.faults.append(FaultRecord(kind, point, self.at(), accepted, chain, note=note))
            where = str(chain[-1]) if chain else "before the first step"
            self.event(
                f"fault {kind}",
                f"at point {point}, {'accepted' if accepted else 'refused' if accepted is False else 'done'}, at {where}",
            )

    def called_cancel(self, who: Site | None, accepted: bool, chain: tuple[Site, ...]) -> None:
        """Somebody else called `cancel()`."""
        if len(self.cancels) < RECORDED:
            self.cancels.append(FaultRecord("cancel", 0, self.at(), accepted, chain, caller=who, injected=False))

    # -- the subject -----------------------------------------------------

    def prepare(self, subject: Any, sleep: Callable[[float], Any]) -> None:
        """Count the methods that the probe names and make calls raise that the schedule names."""
        for failure in self.order.schedule.failures:
            self._break(subject, failure.call, failure.error, sleep)
        for name in self.order.probe.count:
            self.counts[name] = self._count(subject, name)

    def _count(self, subject: Any, name: str) -> int | None:
        owner, last, original = _resolve(subject, name)
        if original is None:
            return None

        def counted(*args: Any, **options: Any) -> Any:
            self.counts[name] = (self.counts[name] or 0) + 1
            self.event("entered", name)
            return original(*args, **options)

        _replace(owner, last, counted)
        return 0

    def _break(self, subject: Any, call: str, error: str, sleep: Callable[[float], Any]) -> None:
        owner, last, original = _resolve(subject, call)
        if original is None:
            self.notes.append(f"this revision has no {call}")
            return
        kind = _exception(error)
        self.failures[call] = 0

        def make() -> BaseException:
            return self.make_error(call, kind)

        async def failing(*args: Any, **options: Any) -> Any:
            await sleep(FAIL_DELAY)
            raise make()

        def failing_at_once(*args: Any, **options: Any) -> Any:
            raise make()

        _replace(owner, last, failing if inspect.iscoroutinefunction(original) else failing_at_once)

    def make_error(self, call: str, kind: type[BaseException]) -> BaseException:
        """An injected error, raised in the name of `call`."""
        self.failures[call] = self.failures.get(call, 0) + 1
        made = kind(f"{outcomes.TOKEN}: injected into {call}")
        self.injected.append(made)
        self.event("raises", f"{call}: {kind.__name__}")
        return made

    def signal_children(self, what: str) -> bool:
        """Kill, stop or terminate the target's scripted children; whether there was one."""
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}[what]
        self.hub.drain()
        found = [pid for pid in self.hub.pids if pid not in self.hub.own and procfs.alive(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(found)

    def call(self, subject: Any) -> Any:
        """The operation's coroutine."""
        operation = self.order.probe.operation
        if operation == "__aexit__":
            return self._inside(subject)
        if isinstance(operation, str):
            made = _resolve(subject, operation)[2]()
        else:
            made = operation(subject, self.case)
        if not inspect.isawaitable(made):
            raise UsageError(
                f"The operation {getattr(operation, '__name__', operation)} is not asynchronous: "
                f"it gave {type(made).__name__}, nothing to wait for.",
                todo="name an async method, or give an async function that calls it",
            )
        return made

    def check(self, subject: Any) -> None:
        """Refuse a subject that does not have the operation.

        Raises:
            UsageError: it has no such method.
        """
        operation = self.order.probe.operation
        if isinstance(operation, str) and _resolve(subject, operation)[2] is None:
            raise UsageError(
                f"The subject ({type(subject).__name__}) {MISSING} {operation}.",
                todo="name a method of what the probe yields, or give an async function",
            )

    async def _inside(self, subject: Any) -> None:
        """Enter the subject, do what its body does, leave it: by an error, where the schedule says so."""
        body, wrap = self.order.probe.body, self.order.schedule.wrap
        raises = self.phase == "operating" and wrap is not None and wrap.kind == "body"
        async with subject:
            if body is not None:
                await body(subject, self.case)
            if raises:
                raise self.make_error("body", RuntimeError)

    # -- phases ----------------------------------------------------------

    def begin(self) -> None:
        """The operation starts now."""
        self.before = self.take()
        self.phase = "operating"
        self.announce(self.phase, None)
        self.t0 = clock.now()
        self.real0 = _real()
        clock.bound_at = self.t0 + self.order.bound
        self.timeline = [Event(-abs(e.at), e.what, e.detail) for e in self.timeline]
        clock.holds.clear()
        clock.stalls.clear()
        clock.stall_marks.clear()
        self.event("operation starts")

    def finish(self, outcome: Outcome) -> None:
        """The operation has ended."""
        self.outcome = outcome
        self.counted = dict(self.counts)  # the follow-up's entries are not the operation's
        self.reached = dict(self.failures)
        self.ended, self.ended_real = clock.now(), _real()
        self.phase = "settling"
        self.announce(self.phase, outcome)
        clock.bound_at = INFINITY
        error = outcome.error
        self.event("operation ends", f"{outcome.kind} {error.type + ': ' + error.message if error else ''}".strip())

    def take(self) -> tuple[Left, ...]:
        """A census now."""
        self.hub.drain()
        self.census.own = self.hub.descriptors()
        self.census.helpers = self.hub.own
        return self.census.take(self.task_items(), self.hub.pids)

    def beyond(self, now: Iterable[Left]) -> tuple[Left, ...]:
        """What is there beyond what may be."""
        order = self.order
        now = tuple(now)
        if not order.calm:
            return beyond(now, order.baseline)
        self.there = now
        if not order.probe.closes:
            return beyond(now, self.before)
        processes = [item for item in now if item.kind == "process"]
        rest = [item for item in now if item.kind != "process"]
        return beyond(processes, self.unbuilt) + beyond(rest, self.before)

    def run_bounded(self, phase: str) -> None:
        """Another phase begins: it has a bound of its own."""
        self.phase = phase
        self.announce(phase, None)
        clock.bound_at = clock.now() + AFTER_BOUND

    # -- hangs -----------------------------------------------------------

    def hung(self, why: str) -> None:
        """Called by the clock when what is under way can no longer end, or has not within its bound. Does not return."""
        kind = "deadlock" if why == "deadlock" else "hung"
        self.hang = Hang(
            f"{why} while {self.phase}",
            self.describe_tasks(),
            chains.thread_stacks(),
            tuple(procfs.tree()),
            self.suspended() if self.phase == "operating" else None,
        )
        self.event("hang", self.hang.why)
        outcome = Outcome(kind)
        if self.phase == "building":
            self.built = outcome
        elif self.phase == "operating":
            self.finish(outcome)
            self.left = self.beyond(self.take())
        elif self.phase in ("settling", "disposing"):
            self.disposed = outcome
        elif self.phase == "following up":
            self.follow = outcome
        elif self.phase != "waiting for the other callers":  # that is what bystander-unharmed looks at
            self.exit = outcome
        self.report()
        os._exit(0)

    # -- the observation -------------------------------------------------

    def report(self) -> None:
        """Send what was seen; once."""
        if self.sent:
            return
        self.sent = True
        schedule = self.order.schedule
        self.send(
            Observation(
                clock="virtual" if self.order.virtual else "real",
                outcome=self.outcome,
                operation=self.inner,
                others=self.others,
                victim=self.victim,
                built=self.built,
                elapsed=round(self.ended - self.t0, 6) if self.ended else 0.0,
                elapsed_real=round(self.ended_real - self.real0, 4) if self.ended_real else 0.0,
                bound=self.order.bound,
                asked=schedule.wrap.seconds if schedule.wrap else None,
                faults=tuple(self.faults),
                delivered=self.delivered,
                accepted=self.accepted,
                own_cancels=self.own_cancels,
                thrown=self.thrown,
                cancels=tuple(self.cancels),
                imported=tuple(sorted(set(sys.modules) - self.modules)) if self.order.calm else (),
                counts=self.counted or self.counts,
                failures=self.reached if self.ended else self.failures,
                steps=self.steps,
                turns=self.turns,
                spin=self.spin,
                spin_site=self.spin_site,
                cancelling=self.cancelling,
                processes=self.facts,
                before=self.before,
                left=self.left,
                there=self.there,
                late=self.late,
                final=self.final,
                follow_up=self.follow,
                dispose=self.disposed,
                exit=self.exit,
                reports=tuple(watch.reports),
                hang=self.hang,
                blocked=self.blocked,
                holds={why: round(seconds, 4) for why, seconds in clock.holds.items()},
                met=self.met,
                points=tuple(self.points),
                timeline=tuple(self.timeline),
                notes=tuple(self.notes),
                body=self.body,
                **self.extra,
            )
        )

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """Callbacks that kept the loop from running; the lines are exact only where somebody looked."""
        found = []
        for n, (seconds, mark) in enumerate(zip(clock.stalls, clock.stall_marks)):
            line = self.sampler.site(mark) if self.sampler is not None else None
            found.append(Blocked(round(seconds, 3), line or self.stall_sites.get(n), line is not None))
        return tuple(found)

    @property
    def facts(self) -> tuple[Any, ...]:
        """Fates of all processes: as they were when the operation had settled, where that was recorded."""
        if self._facts is None:
            self._facts = self.census.facts(self.hub.pids)
        return self._facts

    def fix_facts(self) -> None:
        """Record the fates of processes as they are now."""
        self._facts = self.census.facts(self.hub.pids)

    _facts: tuple[Any, ...] | None = None


def _real() -> float:
    from .clock import real_monotonic

    return real_monotonic()


def _resolve(subject: Any, path: str) -> tuple[Any, str, Any]:
    """The owner, last name and value of a dotted path on the subject; None where it is missing."""
    owner = subject
    *way, last = path.split(".")
    for name in way:
        owner = getattr(owner, name, None)
        if owner is None:
            return None, last, None
    return owner, last, getattr(owner, last, None)


def _replace(owner: Any, name: str, value: Any) -> None:
    """Put a function in a method's place on one object, or on its class where the object has no room."""
    try:
        object.__setattr__(owner, name, value)
    except (AttributeError, TypeError):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(type(owner), name, staticmethod(value))


def _exception(name: str) -> type[BaseException]:
    import builtins

    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise UsageError(f"{name} is no built-in exception.", todo="use one such as RuntimeError or PermissionError")
    return kind
