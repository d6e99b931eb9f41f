"""What base is asked because of what head showed.

What base never met it cannot be said to pass, and a short budget brings base to
other schedules than head. So base is asked for the very schedules in which head
fails, once its own storms are over; and for the same reason it is asked about what
head's search found. Where base has no way to run a probe at all, it is head that
knows which cells base would have had.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from .model import Cell, Trial, Verdict, parse_token
from .storms import SEARCH

T = TypeVar("T")
OF_EACH = 6
"""So many schedules of what head fails in are enough, of each expectation in each aspect of a storm."""
ASKED = 48
"""So many schedules at most, of one probe in one cell."""
_LOOK = 0.5
"""Real seconds between two looks at whether the run was stopped."""

_Matter = tuple[str, str, str]
"""Storm, aspect, expectation."""


def to_ask(head: Sequence[Trial], base: Sequence[Trial]) -> tuple[str, ...]:
    """Schedules in which head fails and which base has not run.

    Nothing is asked about what base fails in as well; the search asks for itself.

    Args:
        head, base: the trials of one cell.

    Returns:
        The schedules as text, at first one of each matter, at most `ASKED`.
    """
    ran = {_schedule(trial) for trial in base}
    fails = set(_by_matter(base))
    wanted: dict[_Matter, list[str]] = {}
    for matter, texts in _by_matter(head).items():
        rest = OF_EACH - len(ran.intersection(texts))
        if matter not in fails and rest > 0:
            wanted[matter] = [text for text in texts if text not in ran][:rest]
    chosen = dict.fromkeys(texts[place] for place in range(OF_EACH) for texts in wanted.values() if place < len(texts))
    return tuple(chosen)[:ASKED]


def _by_matter(trials: Iterable[Trial]) -> dict[_Matter, list[str]]:
    found: dict[_Matter, dict[str, None]] = defaultdict(dict)
    for trial in trials:
        if trial.phase != "storm" or trial.storm == SEARCH or trial.verdict is not Verdict.FAIL:
            continue
        aspect = parse_token(trial.token).schedule.aspect
        for finding in trial.findings:
            found[trial.storm, aspect, finding.expectation][_schedule(trial)] = None
    return {matter: list(texts) for matter, texts in found.items()}


def _schedule(trial: Trial) -> str:
    return trial.token.partition("/")[2]


def place_of(cell: Cell) -> tuple[str, ...]:
    """By which base and head find each other: script and interpreter, then probe and backend."""
    return cell.script, cell.python, cell.probe, cell.backend


class Exchange(Generic[T]):
    """What head tells base while both run: base waits for head's answer."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._told: dict[tuple[str, ...], tuple[T, ...]] = {}
        self._over: set[tuple[str, ...]] = set()

    def tell(self, place: tuple[str, ...], items: Iterable[T]) -> None:
        """This is what head has; what was told before is kept."""
        with self._lock:
            self._told.setdefault(place, tuple(items))
            self._lock.notify_all()

    def end(self, script: str, python: str) -> None:
        """Head's worker for a script is gone, with or without having told all that it should."""
        with self._lock:
            self._over.add((script, python))
            self._lock.notify_all()

    def ask(self, place: tuple[str, ...], stopped: Callable[[], bool]) -> tuple[T, ...]:
        """What head has told; waits until that is known, or head is gone, or the run is stopped."""
        with self._lock:
            while place not in self._told and place[:2] not in self._over and not stopped():
                self._lock.wait(_LOOK)
            return self._told.get(place, ())
