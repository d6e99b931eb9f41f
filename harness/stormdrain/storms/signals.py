"""Storms of signals: on services, and on signal handlers in the trial's own process.

What a service is sent is what its probe gives exit codes for. Moments are named after
what calm showed (`!idle`: its client has done its work and it is at rest; `!child-2`:
its second child appears; `!quiet`: it is at rest again), never a time after which
something is hoped to have happened.
"""

from __future__ import annotations

import random

from ..model import Fault, Schedule, When
from .families import Ground, NotHere, _at_points, _family, distinct

EVERY = 0.02
MANY = 19
"""Signals that follow the first one in a row."""
APART = (0.005, 0.1)
"""Seconds between two signals."""
START_PARTS = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
"""Parts of the time that it takes to get ready, at which a signal comes."""
DELAYS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Seconds after a first signal at which a second one comes, where no steps are seen."""
MOST = 60
"""Steps at which a sweep sends a signal, for each of its parts."""
PAIRS = 20
"""Pairs of steps that a sweep tries."""
OWN = ("started", "stdin", "ready", "idle", "quiet")
"""Moments of the harness; all others but children are the client's."""

SERVICE = ("service",)
BOTH = ("async", "service")


def _at(moment: str) -> When:
    return When("event", name=moment)


def _send(name: str, when: When, to: str = "") -> Fault:
    return Fault("signal", when, f"{name}.{to}" if to else name)


def _signals(ground: Ground) -> list[str]:
    names = [name for name in ground.spec.exits if name != "EOF"]
    if not names:
        raise NotHere("the probe gives no exit code for a signal (exits=...)")
    return names


def _children(ground: Ground) -> list[str]:
    return [name for name in ground.moments if name.startswith("child-")]


def _idle_signal(storm: str, name: str, *more: Fault, variant: str = "") -> Schedule:
    return Schedule(storm, None, (_send(name, _at("idle")), *more), variant=variant)


@_family(
    "signal",
    "one signal to an idle service: to its process, as a supervisor does, to its group, as a terminal does",
    kinds=SERVICE,
)
def _signal(ground: Ground) -> list[Schedule]:
    names = _signals(ground)
    found = [_idle_signal("signal", name) for name in names]
    found += [Schedule("signal", None, (_send(name, _at("idle"), "group"),), variant="group") for name in names]
    found += [Schedule("signal", None, (_send(name, _at("ready")),), variant="ready") for name in names]
    return found


@_family("signal-child", "one signal to the service's child alone: it must be able to end it", kinds=SERVICE)
def _child(ground: Ground) -> list[Schedule]:
    if not _children(ground):
        raise NotHere("the service has no child when it is idle")
    return [Schedule("signal-child", None, (_send(name, _at("idle"), "child"),)) for name in _signals(ground)[:1]]


@_family("signal-while", "one signal while a request that the client names is in flight", kinds=SERVICE)
def _while(ground: Ground) -> list[Schedule]:
    moments = [name for name in dict.fromkeys(ground.moments) if name not in OWN and not name.startswith("child-")]
    if not moments:
        raise NotHere("the client names no request in flight (service.in_flight)")
    return [
        Schedule("signal-while", None, (_send(name, _at(moment)),)) for moment in moments for name in _signals(ground)
    ]


@_family(
    "signal-repeat",
    "more signals after the first: two, many, SIGINT and then SIGTERM; in process at every step",
    kinds=BOTH,
)
def _repeat(ground: Ground) -> list[Schedule]:
    if ground.spec.kind != "service":
        return _repeat_in_process(ground)
    found = []
    for name in _signals(ground):
        apart = [_send(name, _at("quiet")), *(_send(name, When("after", seconds)) for seconds in APART)]
        found += [_idle_signal("signal-repeat", name, second, variant="two") for second in apart]
        found.append(_idle_signal("signal-repeat", name, _send(name, When("turns", MANY)), variant="many"))
    if {"SIGINT", "SIGTERM"} <= set(ground.spec.exits):
        found += [
            _idle_signal("signal-repeat", "SIGINT", _send("SIGTERM", when), variant="mixed")
            for when in (_at("quiet"), When("after", APART[0]))
        ]
    return found


def _repeat_in_process(ground: Ground) -> list[Schedule]:
    if not ground.spec.signals:
        raise NotHere("the operation delivers no signal to its own process (operation=deliver(...))")
    name = ground.spec.signals[0]
    many = Schedule("signal-repeat", None, (Fault("signal", When("every", EVERY), name),), variant="many")
    return [many, *(_with(one, name) for one in _at_points("signal-repeat", "signal", ground))]


def _with(schedule: Schedule, arg: str) -> Schedule:
    faults = tuple(Fault(fault.kind, fault.when, arg) for fault in schedule.faults)
    return Schedule(schedule.storm, schedule.wrap, faults, schedule.failures, schedule.variant)


@_family(
    "gc",
    "garbage collected at every point, and at the first one where it loses a task that only the loop's weak set holds",
)
def _gc(ground: Ground) -> list[Schedule]:
    if ground.backend != "asyncio":
        raise NotHere("trio holds its tasks itself")
    account = Schedule("gc", None, (Fault("gc", _at("unanchored")),), variant="unanchored")
    return [account, *_at_points("gc", "gc", ground)]


@_family(
    "signal-startup", "a signal before it is ready: at once, when a child appears, at parts of the way", kinds=SERVICE
)
def _startup(ground: Ground) -> list[Schedule]:
    ready = ground.moments.index("ready") if "ready" in ground.moments else 0
    before = ground.moments[:ready]
    found = []
    for name in _signals(ground):
        found += [
            Schedule("signal-startup", None, (_send(name, _at(moment)),), variant="child")
            for moment in before
            if moment.startswith("child-")
        ][:8]
        found += [
            Schedule("signal-startup", None, (_send(name, When("after", round(ground.ready_after * part, 4))),))
            for part in START_PARTS
        ]
        found.append(Schedule("signal-startup", None, (_send(name, _at("started")),)))
    return found


@_family("signal-stdin", "the end of its stdin: alone, and before, with and after a signal", kinds=SERVICE)
def _stdin(ground: Ground) -> list[Schedule]:
    if "stdin" not in ground.moments:
        raise NotHere("its stdin is not open")
    end = Fault("close-stdin", _at("idle"))
    found = []
    if "EOF" in ground.spec.exits:
        found.append(Schedule("signal-stdin", None, (end,), variant="alone"))
    for name in _signals(ground) if set(ground.spec.exits) != {"EOF"} else []:
        found += [
            _idle_signal("signal-stdin", name, Fault("close-stdin", _at("quiet")), variant="after"),
            _idle_signal("signal-stdin", name, Fault("close-stdin", When("with")), variant="with"),
            Schedule("signal-stdin", None, (end, _send(name, When("with"))), variant="before"),
        ]
    return found


@_family("signal-child-dead", "a signal when the service's child has just died", kinds=SERVICE)
def _child_dead(ground: Ground) -> list[Schedule]:
    if not _children(ground):
        raise NotHere("the service has no child when it is idle")
    kill = Fault("kill", _at("idle"), "child")
    names = _signals(ground)
    found = [Schedule("signal-child-dead", None, (kill, _send(name, When("with")))) for name in names]
    return found + [Schedule("signal-child-dead", None, (kill, _send(name, _at("quiet")))) for name in names[:1]]


@_family("signal-child-ignores", "a signal to a service whose scripted child ignores SIGTERM", kinds=SERVICE)
def _child_ignores(ground: Ground) -> list[Schedule]:
    if not ground.children:
        raise NotHere("the service starts no scripted child (case.child)")
    ignores = Fault("child-ignores", When("start"))
    return [Schedule("signal-child-ignores", None, (ignores, _send(name, _at("idle")))) for name in _signals(ground)]


@_family(
    "signal-sweep",
    "a signal at every step of a request, and a second one at every step after the first",
    kinds=SERVICE,
)
def _sweep(ground: Ground) -> list[Schedule]:
    names = _signals(ground)
    if not ground.stepping:
        return _blind_sweep(ground, names)
    if ground.stepping not in ("asyncio", "trio", "asyncio and trio"):
        # One trial, so that the reason is told as what it is: not decided.
        return [_idle_signal("signal-sweep", names[0], _send(names[0], When("point", 1)), variant="second")]
    name = names[0]
    first = [point.n for point in distinct(ground.points)]
    second = [point.n for point in distinct(ground.after)]
    found = [Schedule("signal-sweep", None, (_send(name, When("point", n)),)) for n in first[:MOST]]
    found += [
        _idle_signal("signal-sweep", name, _send(name, When("point", n)), variant="second") for n in second[:MOST]
    ]
    pairs = [(a, b) for a in first for b in range(1, min(len(ground.after), 12) + 1)]
    random.Random(ground.seed).shuffle(pairs)
    return found + [
        Schedule(
            "signal-sweep",
            None,
            (_send(name, When("point", a)), _send(name, When("point", b))),
            variant="pairs",
        )
        for a, b in pairs[:PAIRS]
    ]


def _blind_sweep(ground: Ground, names: list[str]) -> list[Schedule]:
    """For a program whose steps nobody sees: by its process tree, and by delays after a first signal."""
    found = [
        Schedule("signal-sweep", None, (_send(names[0], _at(child)),), variant="tree")
        for child in dict.fromkeys(_children(ground))
    ][:20]
    for name in names:
        found += [
            _idle_signal("signal-sweep", name, _send(name, When("after", delay)), variant="delay") for delay in DELAYS
        ]
    return found
