"""Schedules of several faults: drawn, thrown, shrunk to the fewest faults at the earliest points, remembered.

The storms try every point with one fault and most pairs; three faults have too many
places to try them all. Hypothesis draws them from the points that calm observed and,
once a trial fails, looks for the simplest schedule that fails in the same
expectation. Drawing and shrinking know nothing of trials: they are given a function
that throws schedules and says what came of each, so a batch of drawn schedules runs
side by side, and shrinking, which must wait for every answer, starts from results
that are there.

A trial is a function of its schedule, so each is thrown once. With the same seed the
same schedules are drawn, whatever came of the ones before.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .drawing import FAULTS, draw, exchanged, find, size
from .model import Field, Schedule, Thrown, Verdict, parse_schedule
from .storms import SEARCH

Throw = Callable[[Sequence[str], bool], Sequence[Thrown]]
"""Runs schedules, given as text; one answer for each, in the same order. True: they failed before."""

BATCH = 48
"""Schedules that are drawn, and thrown side by side, before anything is made of them."""
DRAWING = 0.75
"""Share of the budget that may be spent on drawing."""
STALE = 4
"""After so many batches without a new schedule, all have been tried."""
KINDS = 8
"""So many kinds of findings are shrunk in one search."""
_one_at_a_time = threading.Lock()
"""Hypothesis keeps state of its own for the whole process."""


@dataclass(frozen=True)
class Limits:
    """When a search has enough: after some real seconds, or some trials, whichever comes first."""

    seconds: float
    trials: int | None = None


@dataclass(frozen=True)
class Found:
    """What a search came to.

    schedules: the simplest ones that fail, one for each kind of finding. tried: how
    many were thrown. drawn: all that were drawn, in order. again: those that failed
    before and were thrown again, whatever came of them now. exhausted: whether there
    was nothing left to draw.
    """

    schedules: tuple[Schedule, ...]
    tried: int
    drawn: tuple[Schedule, ...] = ()
    again: tuple[Schedule, ...] = ()
    exhausted: bool = False

    def told(self, seed: int) -> str:
        """A sentence for the report."""
        kinds = f"{len(self.schedules)} kinds of findings" if len(self.schedules) != 1 else "1 kind of finding"
        if not self.drawn:
            return f"{self.tried} schedules that failed before, or fail on head: {kinds}"
        all_of_them = "all that there are" if self.exhausted else "the budget was spent"
        return f"{self.tried} schedules of up to {FAULTS} faults with seed {seed} ({all_of_them}): {kinds}"


class _Enough(BaseException):
    """The budget is spent; not an Exception, so that nobody takes it for a failing example."""


class Search:
    """One search in one cell.

    Args:
        field: what may be drawn.
        throw: runs schedules.
        seed: with the same one the same schedules are drawn.
        limits: when it has enough.
        say: gets a line of progress now and then.
    """

    def __init__(
        self,
        field: Field,
        throw: Throw,
        *,
        seed: int,
        limits: Limits,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.field = field
        self._throw = throw
        self._seed = seed
        self._limits = limits
        self._say = say
        self._began = time.monotonic()
        self._shrinking = False
        self._results: dict[Schedule, Thrown] = {}
        self._met: dict[Schedule, int] = {}
        self._known = set(field.known)
        self._kept: dict[Schedule, None] = {}
        self._remembered: list[Schedule] = []
        self.tried = 0

    def run(self, remembered: Sequence[str] = (), *, drawing: bool = True) -> Found:
        """Throw what is remembered, then draw until the budget is spent or there is nothing new.

        Args:
            remembered: schedules, as text, that failed before.
            drawing: whether others are drawn then.
        """
        drawn: dict[Schedule, None] = {}
        exhausted = False
        with _one_at_a_time:
            self._began = time.monotonic()
            with contextlib.suppress(_Enough):
                self._again(remembered)
                exhausted = drawing and self._draw(drawn)
            self._keep_unshrunk()
        again = tuple(schedule for schedule in self._remembered if schedule in self._results)
        return Found(tuple(self._kept), self.tried, tuple(drawn), again, exhausted)

    def _draw(self, drawn: dict[Schedule, None]) -> bool:
        """Batch after batch, until there is nothing new: then True."""
        stale = batch = 0
        while stale < STALE:
            schedules = draw(self.field, self._batch_seed(batch), BATCH)
            fresh = [schedule for schedule in schedules if schedule not in drawn]
            drawn.update(dict.fromkeys(fresh))
            stale = 0 if fresh else stale + 1
            self._try(fresh)
            self._shrink_news(schedules, batch)
            batch += 1
        return True

    def _batch_seed(self, batch: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}|{batch}".encode()).digest()[:8], "big")

    # -- throwing --------------------------------------------------------

    def _again(self, remembered: Sequence[str]) -> None:
        """What failed before comes first."""
        for text in remembered:
            with contextlib.suppress(ValueError):
                self._remembered.append(replace(parse_schedule(text), storm=SEARCH))
        self._try(self._remembered, again=True)
        for schedule in self._remembered:
            if news := self._news(schedule):
                self._known.update(news)
                self._kept[schedule] = None

    def _try(self, schedules: Sequence[Schedule], again: bool = False) -> None:
        """Throw those whose result is not known; as many as the budget allows."""
        todo = [schedule for schedule in dict.fromkeys(schedules) if self._result(schedule) is None]
        while todo:
            room = self._room()
            if room <= 0:
                raise _Enough
            now, todo = todo[: min(BATCH, room)], todo[min(BATCH, room) :]
            for schedule, thrown in zip(now, self._throw([str(one) for one in now], again), strict=True):
                self.tried += 1
                self._results[schedule] = thrown
                if thrown.met is not None:
                    reached = tuple(fault for fault in schedule.faults if fault.when.n <= thrown.met)
                    self._met[replace(schedule, faults=reached)] = thrown.met
            self._say(f"search: {self.tried} schedules thrown, {len(self._kept)} kinds of findings")

    def _room(self) -> int:
        """How many may be thrown now; while drawing, a part of the budget is left for shrinking."""
        share = 1.0 if self._shrinking else DRAWING
        if time.monotonic() >= self._began + share * self._limits.seconds:
            return 0
        return BATCH if self._limits.trials is None else int(share * self._limits.trials) - self.tried

    def _result(self, schedule: Schedule) -> Thrown | None:
        """What came of a schedule, or must come of it: a fault past the last point that is met does not land."""
        known = self._results.get(schedule)
        if known is not None:
            return known
        for n, fault in enumerate(schedule.faults):
            met = self._met.get(replace(schedule, faults=schedule.faults[:n]))
            if met is not None and fault.when.n > met:
                return Thrown(str(schedule), Verdict.NA, met)
        return None

    def _news(self, schedule: Schedule) -> set[str]:
        thrown = self._result(schedule)
        return set(thrown.found) - self._known if thrown and thrown.verdict is Verdict.FAIL else set()

    # -- shrinking -------------------------------------------------------

    def _keep_unshrunk(self) -> None:
        """What failed and could not be shrunk any more: the simplest of each kind, as it was drawn."""
        for schedule in sorted(self._results, key=size):
            if (news := self._news(schedule)) and len(self._kept) < KINDS:
                self._kept[schedule] = None
                self._known |= news

    def _shrink_news(self, schedules: Sequence[Schedule], batch: int) -> None:
        """The simplest schedule for each kind of finding that is new in a batch."""
        for schedule in schedules:
            for news in sorted(self._news(schedule)):
                if news not in self._known and len(self._kept) < KINDS:
                    self._shrink(news.partition(" at ")[0], batch)
                self._known.add(news)

    def _shrink(self, expectation: str, batch: int) -> None:
        """From the batch that showed it: the same seed draws the same schedules, whose results are there."""
        failing: list[Schedule] = []

        def fails(schedule: Schedule) -> bool:
            self._try([schedule])
            new = any(news.partition(" at ")[0] == expectation for news in self._news(schedule))
            if new:
                failing.append(schedule)
            return new

        self._shrinking = True
        try:
            find(self.field, fails, self._batch_seed(batch), BATCH)
            self._plain(failing, fails)
        finally:  # the best so far, where the budget was spent meanwhile
            self._shrinking = False
            if failing:
                simplest = min(failing, key=size)
                self._kept[simplest] = None
                self._known |= self._news(simplest)

    def _plain(self, failing: list[Schedule], fails: Callable[[Schedule], bool]) -> None:
        """Try what takes two changes at a time, which shrinking does not: a plain fault in another one's place."""
        while failing:
            simplest = min(failing, key=size)
            simpler = [one for one in exchanged(simplest, self.field) if size(one) < size(simplest)]
            self._try(simpler)  # side by side
            if sum(fails(one) for one in simpler) == 0:
                return
