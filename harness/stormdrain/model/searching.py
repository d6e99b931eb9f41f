"""What host and worker tell each other while schedules are searched for."""

from __future__ import annotations

from dataclasses import dataclass

from .verdict import Verdict


@dataclass(frozen=True)
class Field:
    """What schedules may be drawn from; in each tuple the simplest thing comes first.

    points: numbers of points, ascending. kinds: of faults. wraps, failures: text
    forms of what may be put around the operation and of calls that may raise; an
    empty one is none. known: what the storms found with one or two faults, as
    `expectation at place`.
    """

    points: tuple[int, ...]
    kinds: tuple[str, ...] = ("cancel",)
    wraps: tuple[str, ...] = ("",)
    failures: tuple[str, ...] = ("",)
    known: tuple[str, ...] = ()


@dataclass(frozen=True)
class Thrown:
    """What came of one schedule of a search.

    schedule: its text form. met: how many points the operation came to; None where it
    did not end. found: what did not hold, as `expectation at place`.
    """

    schedule: str
    verdict: Verdict
    met: int | None = None
    found: tuple[str, ...] = ()
