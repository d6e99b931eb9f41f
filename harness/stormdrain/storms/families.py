"""The families of schedules, each with a sentence on what it is for and a function that generates.

A family sees only what calm observed (its `Ground`) and either gives schedules,
the most telling first, or says why it does not apply here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..model import Failure, Fault, Point, ProbeSpec, Schedule, When, Wrap

SHORT = 0.05
"""Seconds: a timeout that is over long before an escalation is."""
EVERY = 0.02
"""Seconds between the cancels of a storm."""
TURNS = 200
"""Turns in a row in which a storm cancels."""
EDGE = 0.01
"""Seconds before and after a timer at which a timeout is put."""


@dataclass(frozen=True)
class Ground:
    """What a family may know.

    points: what calm met, in order. modules: what the target had imported.
    """

    spec: ProbeSpec
    backend: str = "asyncio"
    python: tuple[int, int] = (3, 11)
    points: tuple[Point, ...] = ()
    elapsed: float = 0.0
    modules: frozenset[str] = frozenset()
    seed: int = 0


class NotHere(Exception):
    """A family does not apply; the text says why."""


@dataclass(frozen=True)
class Family:
    """A storm: its name, what it is for, how it makes schedules."""

    name: str
    sentence: str
    generate: Callable[[Ground], list[Schedule]] = field(compare=False)
    default: bool = True


FAMILIES: dict[str, Family] = {}


def _family(name: str, sentence: str, default: bool = True) -> Callable[[Callable[[Ground], list[Schedule]]], None]:
    def put(generate: Callable[[Ground], list[Schedule]]) -> None:
        FAMILIES[name] = Family(name, sentence, generate, default)

    return put


def family(name: str) -> Family:
    """A family by its name.

    Raises:
        KeyError: there is none.
    """
    return FAMILIES[name]


def names() -> tuple[str, ...]:
    """The names of all families, in the order in which they run; `calm` is first."""
    return ("calm", *FAMILIES)


def distinct(points: tuple[Point, ...]) -> Iterator[Point]:
    """All points: first one of each key in order, then the rest."""
    seen: set[str] = set()
    rest = []
    for point in points:
        if point.key and point.key in seen:
            rest.append(point)
        else:
            seen.add(point.key)
            yield point
    yield from rest



def _fault_kind(ground: Ground) -> str:
    """What cancels an operation on this backend: the task itself, or the scope around it."""
    return "cancel" if ground.backend == "asyncio" else "scope"


def _wrap(ground: Ground) -> Wrap | None:
    return None if ground.backend == "asyncio" else Wrap("scope")


def _need_anyio(ground: Ground) -> None:
    if ground.backend == "asyncio" and "anyio" not in ground.modules:
        raise NotHere("the target does not use anyio")


@_family("cancel-before-start", "cancelled before its first step: it never runs, and nothing may be lost over that")
def _before_start(ground: Ground) -> list[Schedule]:
    return [Schedule("cancel-before-start", _wrap(ground), (Fault(_fault_kind(ground), When("start")),))]


@_family("cancel-storm", "cancelled every 20 ms until it returns, and in 200 turns in a row")
def _storm(ground: Ground) -> list[Schedule]:
    kind = _fault_kind(ground)
    every = Fault(kind, When("every", EVERY))
    return [
        Schedule("cancel-storm", _wrap(ground), (every,)),
        Schedule("cancel-storm", _wrap(ground), (Fault(kind, When("turns", TURNS)), every), variant="turns"),
        Schedule("cancel-storm", _wrap(ground), (Fault(kind, When("after", EVERY)),), variant="once"),
    ]


@_family("timeout", "a timeout around it: short, at each timer boundary, zero")
def _timeout(ground: Ground) -> list[Schedule]:
    kinds = []
    if ground.backend == "asyncio":
        kinds.append("wait_for")
        if ground.python >= (3, 11):
            kinds.append("timeout")
        if "anyio" in ground.modules:
            kinds += ["fail_after", "move_on_after"]
    else:
        kinds += ["fail_after", "move_on_after"]
    seconds = [SHORT]
    for at in sorted({round(point.at, 3) for point in ground.points if point.at > SHORT + EDGE})[:6]:
        seconds += [at - EDGE, at, at + EDGE]
    found = [Schedule("timeout", Wrap(kind, SHORT)) for kind in kinds]
    found += [Schedule("timeout", Wrap(kinds[0], round(s, 3)), variant="edge") for s in seconds[1:]]
    found += [Schedule("timeout", Wrap(kind, 0.0), variant="zero") for kind in kinds]
    return found


@_family("scope", "in a cancel scope that is already cancelled, and cancelled at every point")
def _scope(ground: Ground) -> list[Schedule]:
    _need_anyio(ground)
    found = [Schedule("scope", Wrap("scope"), (Fault("scope", When("start")),), variant="cancelled")]
    found += [Schedule("scope", Wrap("scope"), (Fault("scope", When("point", p.n)),)) for p in distinct(ground.points)]
    return found


@_family("cancel-sweep", "one cancel at every point: between any two steps, same-turn races included")
def _sweep(ground: Ground) -> list[Schedule]:
    kind, wrap = _fault_kind(ground), _wrap(ground)
    return [Schedule("cancel-sweep", wrap, (Fault(kind, When("point", p.n)),)) for p in distinct(ground.points)]


@_family("fail", "named calls raise: alone, under a cancel, under a timeout, in the same turn as a cancel")
def _fail(ground: Ground) -> list[Schedule]:
    if not ground.spec.fail:
        raise NotHere("the probe names no calls that can fail (fail=[...])")
    kind, wrap = _fault_kind(ground), _wrap(ground)
    found = []
    for entry in ground.spec.fail:
        call, _, error = entry.partition(":")
        failure = (Failure(call, error or "RuntimeError"),)
        found.append(Schedule("fail", None, (), failure, "alone"))
        found.append(Schedule("fail", wrap, (Fault(kind, When("after", EVERY)),), failure, "cancel"))
        if ground.backend == "asyncio":
            found.append(Schedule("fail", Wrap("wait_for", EVERY), (), failure, "timeout"))
            if ground.python >= (3, 11):
                found.append(Schedule("fail", Wrap("timeout", EVERY), (), failure, "timeout"))
        for n in range(1, min(len(ground.points), 40) + 1):
            found.append(Schedule("fail", wrap, (Fault(kind, When("point", n)),), failure, "sweep"))
    return found


@_family("cancel-pairs", "a second cancel at every later point; sampled above the budget")
def _pairs(ground: Ground) -> list[Schedule]:
    if ground.backend != "asyncio":
        raise NotHere("a trio scope is cancelled once and for all")
    first = list(distinct(ground.points))
    pairs = [(a.n, b) for a in first for b in range(a.n + 1, len(ground.points) + 8)]
    # Near pairs first: a second cancel right after the first is where one-shot shields break.
    near = [pair for pair in pairs if pair[1] - pair[0] <= 3]
    far = [pair for pair in pairs if pair[1] - pair[0] > 3]
    random.Random(ground.seed).shuffle(far)
    return [
        Schedule("cancel-pairs", None, (Fault("cancel", When("point", a)), Fault("cancel", When("point", b))))
        for a, b in [*near, *far]
    ]
