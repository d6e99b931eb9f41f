"""The families of schedules, each with a sentence on what it is for and a function that generates.

A family sees only what calm observed (its `Ground`) and either gives schedules,
the most telling first, or says why it does not apply here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

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
    children: whether there was a scripted child.
    """

    spec: ProbeSpec
    backend: str = "asyncio"
    python: tuple[int, int] = (3, 11)
    points: tuple[Point, ...] = ()
    elapsed: float = 0.0
    modules: frozenset[str] = frozenset()
    children: bool = False
    seed: int = 0
    moments: tuple[str, ...] = ()
    """Of a service: what happened in calm, in order."""
    after: tuple[Point, ...] = ()
    """Of a service: the steps that its loop takes after a signal."""
    stepping: str = ""
    """Of a service: whose steps are seen, or why none are."""
    ready_after: float = 0.0
    """Of a service: seconds from its start until it was ready."""


class NotHere(Exception):
    """A family does not apply; the text says why."""


@dataclass(frozen=True)
class Family:
    """A storm: its name, what it is for, how it makes schedules."""

    name: str
    sentence: str
    generate: Callable[[Ground], list[Schedule]] = field(compare=False)
    default: bool = True
    kinds: tuple[str, ...] = ("async",)
    """What kinds of probes it is for: `async`, `service`."""


FAMILIES: dict[str, Family] = {}


def _family(
    name: str, sentence: str, default: bool = True, kinds: tuple[str, ...] = ("async",)
) -> Callable[[Callable[[Ground], list[Schedule]]], None]:
    def put(generate: Callable[[Ground], list[Schedule]]) -> None:
        FAMILIES[name] = Family(name, sentence, generate, default, kinds)

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


def _own_task(ground: Ground) -> None:
    """Some storms put something around the operation, so they must be about its own task."""
    if ground.spec.victim:
        raise NotHere(f"the faults are for another task than the operation's ({ground.spec.victim})")


def _need_anyio(ground: Ground) -> None:
    _own_task(ground)
    if ground.backend == "asyncio" and "anyio" not in ground.modules:
        raise NotHere("the target does not use anyio")


@_family("cancel-before-start", "cancelled before its first step: it never runs, and nothing may be lost over that")
def _before_start(ground: Ground) -> list[Schedule]:
    if ground.backend != "asyncio":
        raise NotHere("a trio task always runs to its first checkpoint; scope(cancelled) is that case")
    return [Schedule("cancel-before-start", None, (Fault("cancel", When("start")),))]


@_family("cancel-storm", "cancelled every 20 ms until it returns, and in 200 turns in a row")
def _storm(ground: Ground) -> list[Schedule]:
    kind = _fault_kind(ground)
    every = Fault(kind, When("every", EVERY))
    named = When("event", name=ground.spec.trigger) if ground.spec.trigger else None
    triggered = [Schedule("cancel-storm", _wrap(ground), (Fault(kind, named),), variant="trigger")] if named else []
    once = Schedule("cancel-storm", _wrap(ground), (Fault(kind, When("after", EVERY)),), variant="once")
    if ground.backend != "asyncio":
        return [*triggered, once]  # a trio scope is cancelled once and for all: cancelling it again does nothing
    return [
        *triggered,
        Schedule("cancel-storm", None, (every,)),
        Schedule("cancel-storm", None, (Fault(kind, When("turns", TURNS)), every), variant="turns"),
        once,
    ]


@_family("timeout", "a timeout around it: short, at each timer boundary, zero")
def _timeout(ground: Ground) -> list[Schedule]:
    _own_task(ground)
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
    if ground.backend != "asyncio":
        return found  # cancelled at every point: that is the cancel-sweep
    found += [Schedule("scope", Wrap("scope"), (Fault("scope", When("point", p.n)),)) for p in distinct(ground.points)]
    return found


@_family("cancel-sweep", "one cancel at every point: between any two steps, same-turn races included")
def _sweep(ground: Ground) -> list[Schedule]:
    kind, wrap = _fault_kind(ground), _wrap(ground)
    return [Schedule("cancel-sweep", wrap, (Fault(kind, When("point", p.n)),)) for p in distinct(ground.points)]


@_family("fail", "named calls raise: alone, under a cancel, under a timeout, in the same turn as a cancel")
def _fail(ground: Ground) -> list[Schedule]:
    _own_task(ground)
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
        else:
            found.append(Schedule("fail", Wrap("fail_after", EVERY), (), failure, "timeout"))
        for n in range(1, min(len(ground.points), 40) + 1):
            found.append(Schedule("fail", wrap, (Fault(kind, When("point", n)),), failure, "sweep"))
    return found


def _at_points(
    storm: str, kind: str, ground: Ground, wrap: Wrap | None = None, most: int = 60, **more: Any
) -> list[Schedule]:
    """One fault of a kind at each point, distinct ones first."""
    points = list(distinct(ground.points))[:most]
    return [Schedule(storm, wrap, (Fault(kind, When("point", p.n)),), **more) for p in points]


def _need_asyncio(ground: Ground, why: str) -> None:
    if ground.backend != "asyncio":
        raise NotHere(why)


@_family(
    "body-error",
    "the body that it cleans up after has raised, and the cleanup is cancelled: that error must not be lost",
)
def _body_error(ground: Ground) -> list[Schedule]:
    _need_asyncio(ground, "a trio cancellation never replaces an error without keeping it as context")
    _own_task(ground)
    if not ground.spec.closes:
        raise NotHere("the operation cleans up after nothing")
    return [
        Schedule("body-error", Wrap("body"), variant="alone"),
        *_at_points("body-error", "cancel", ground, Wrap("body")),
    ]


@_family("group-abort", "a sibling in the same task group fails at every point")
def _group_abort(ground: Ground) -> list[Schedule]:
    _need_asyncio(ground, "a nursery cancels its own scope: that is the cancel-sweep")
    _own_task(ground)
    if ground.python < (3, 11):
        raise NotHere("asyncio.TaskGroup came with 3.11")
    return _at_points("group-abort", "sibling", ground, Wrap("group"))


@_family("loop-shutdown", "every task is cancelled at once, as asyncio.run does when it ends or is interrupted")
def _loop_shutdown(ground: Ground) -> list[Schedule]:
    _need_asyncio(ground, "trio ends with its nurseries: that is the cancel-sweep")
    after = Schedule("loop-shutdown", None, (Fault("shutdown", When("after", EVERY)),))
    return [after, *_at_points("loop-shutdown", "shutdown", ground)]


@_family("concurrent", "two callers at once, one of them cancelled at every point: the other is nobody's victim")
def _concurrent(ground: Ground) -> list[Schedule]:
    _own_task(ground)
    if ground.spec.actors > 1:
        raise NotHere("the probe has several callers already (actors)")
    if not ground.spec.closes:
        raise NotHere("only for operations that close: others need not bear two callers")
    return [
        Schedule("concurrent", variant="undisturbed"),
        *_at_points("concurrent", _fault_kind(ground), ground, _wrap(ground)),
    ]


@_family("actors", "all of the probe's callers cancelled in one turn")
def _actors(ground: Ground) -> list[Schedule]:
    _own_task(ground)
    if ground.spec.actors < 2:
        raise NotHere("the probe has one caller (actors=N)")
    return _at_points("actors", "actors", ground, _wrap(ground))


@_family("child-dies", "the child is dead before the operation starts, or dies at every point")
def _child_dies(ground: Ground) -> list[Schedule]:
    _need_child(ground)
    start = Schedule("child-dies", None, (Fault("kill", When("start")),))
    return [start, *_at_points("child-dies", "kill", ground, most=30)]


@_family("child-stopped", "the child is stopped (SIGSTOP), so that SIGTERM waits: before it starts, and at every point")
def _child_stopped(ground: Ground) -> list[Schedule]:
    _need_child(ground)
    start = Schedule("child-stopped", None, (Fault("stop", When("start")),))
    return [start, *_at_points("child-stopped", "stop", ground, most=30)]


@_family("child-grandchild", "a grandchild inherits the child's pipes and stays: end of file never comes")
def _child_grandchild(ground: Ground) -> list[Schedule]:
    _need_child(ground)
    return [
        Schedule("child-grandchild"),
        Schedule("child-grandchild", _wrap(ground), (Fault(_fault_kind(ground), When("after", EVERY)),)),
    ]


@_family("child-floods", "the child writes a megabyte that nobody reads")
def _child_floods(ground: Ground) -> list[Schedule]:
    _need_child(ground)
    return [
        Schedule("child-floods"),
        Schedule("child-floods", _wrap(ground), (Fault(_fault_kind(ground), When("after", EVERY)),)),
    ]


def _need_child(ground: Ground) -> None:
    if not ground.children:
        raise NotHere("the probe starts no scripted child (case.child)")


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
