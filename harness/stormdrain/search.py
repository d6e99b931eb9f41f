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
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .errors import UsageError
from .model import Failure, Fault, Field, Schedule, Thrown, Verdict, When, Wrap, parse_schedule
from .storms import SEARCH

Throw = Callable[[Sequence[str]], Sequence[Thrown]]
"""Runs schedules, given as text; one answer for each, in the same order."""

BATCH = 48
"""Schedules that are drawn, and thrown side by side, before anything is made of them."""
FAULTS = 5
"""A schedule has so many faults at most."""
STALE = 4
"""After so many batches without a new schedule, all have been tried."""
KINDS = 8
"""So many kinds of findings are shrunk in one search."""
REMEMBERED = 50
"""So many schedules of a probe are kept for the next time."""

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
    many were thrown. drawn: all that were drawn, in order. exhausted: whether there
    was nothing left to draw.
    """

    schedules: tuple[Schedule, ...]
    tried: int
    drawn: tuple[Schedule, ...]
    exhausted: bool = False

    def told(self, seed: int) -> str:
        """A sentence for the report."""
        all_of_them = "all that there are" if self.exhausted else "the budget was spent"
        kinds = f"{len(self.schedules)} kinds of findings" if len(self.schedules) != 1 else "1 kind of finding"
        return f"{self.tried} schedules of up to {FAULTS} faults with seed {seed} ({all_of_them}): {kinds}"


class _Enough(BaseException):
    """The budget is spent; not an Exception, so that nobody takes it for a failing example."""


def available() -> None:
    """See that Hypothesis is there.

    Raises:
        UsageError: it is not.
    """
    try:
        import hypothesis  # noqa: F401 - only looked for
    except ImportError:
        raise UsageError(
            "a search needs Hypothesis, which is not installed", todo="pip install 'stormdrain[search]'"
        ) from None


def strategy(field: Field) -> Any:
    """The schedules of a field, as a Hypothesis strategy: simpler ones first."""
    from hypothesis import strategies as st

    fault = st.tuples(st.sampled_from(field.points), st.sampled_from(field.kinds))
    faults = st.lists(fault, min_size=1, max_size=FAULTS, unique_by=lambda one: one[0])
    return st.builds(_schedule, st.sampled_from(field.wraps), st.sampled_from(field.failures), faults)


def _schedule(wrap: str, failure: str, faults: list[tuple[int, str]]) -> Schedule:
    kind, _, seconds = wrap.partition("=")
    return Schedule(
        SEARCH,
        Wrap(kind, float(seconds) if seconds else None) if wrap else None,
        tuple(Fault(what, When("point", n)) for n, what in sorted(faults)),
        (Failure(*failure.split(":")),) if failure else (),
    )


def draw(field: Field, seed: int, count: int = BATCH) -> list[Schedule]:
    """The first schedules that a seed draws, each once."""
    drawn: dict[Schedule, None] = {}

    def note(schedule: Schedule) -> bool:
        drawn[schedule] = None
        return False

    _find(field, note, seed, count)
    return list(drawn)


def _find(field: Field, fails: Callable[[Schedule], bool], seed: int, count: int) -> Schedule | None:
    """The simplest schedule that fails, looked for from the first of `count` that a seed draws."""
    import hypothesis
    from hypothesis.errors import NoSuchExample

    settings = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with _undistracted():
        try:
            found: Schedule = hypothesis.find(
                strategy(field), fails, settings=settings, random=random.Random(seed)
            )
        except NoSuchExample:
            return None
    return found


@contextlib.contextmanager
def _undistracted() -> Iterator[None]:
    """Hypothesis also draws numbers that stand in whatever modules are loaded; those are no part of the seed."""
    from hypothesis.internal.conjecture import providers

    provider, name = getattr(providers, "HypothesisProvider", None), "_maybe_draw_constant"
    before = getattr(provider, name, None)
    if provider is None or before is None:  # a version that does not
        yield
        return
    setattr(provider, name, lambda self, *args, **options: None)
    try:
        yield
    finally:
        setattr(provider, name, before)


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
        self._until = time.monotonic() + limits.seconds
        self._results: dict[Schedule, Thrown] = {}
        self._met: dict[Schedule, int] = {}
        self._known = set(field.known)
        self._kept: dict[Schedule, None] = {}
        self.tried = 0

    def run(self, remembered: Sequence[str] = ()) -> Found:
        """Throw what is remembered, then draw until the budget is spent or there is nothing new."""
        drawn: dict[Schedule, None] = {}
        exhausted = False
        with _one_at_a_time:
            self._until = time.monotonic() + self._limits.seconds
            with contextlib.suppress(_Enough):
                self._again(remembered)
                stale = batch = 0
                while stale < STALE:
                    schedules = draw(self.field, self._batch_seed(batch))
                    fresh = [schedule for schedule in schedules if schedule not in drawn]
                    drawn.update(dict.fromkeys(fresh))
                    stale = 0 if fresh else stale + 1
                    self._try(fresh)
                    self._shrink_news(schedules, batch)
                    batch += 1
                exhausted = True
        return Found(tuple(self._kept), self.tried, tuple(drawn), exhausted)

    def _batch_seed(self, batch: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{self._seed}|{batch}".encode()).digest()[:8], "big")

    # -- throwing --------------------------------------------------------

    def _again(self, remembered: Sequence[str]) -> None:
        """What failed before comes first."""
        schedules = []
        for text in remembered:
            with contextlib.suppress(ValueError):
                schedules.append(replace(parse_schedule(text), storm=SEARCH))
        self._try(schedules)
        for schedule in schedules:
            if news := self._news(schedule):
                self._known.update(news)
                self._kept[schedule] = None

    def _try(self, schedules: Sequence[Schedule]) -> None:
        """Throw those whose result is not known; as many as the budget allows."""
        todo = [schedule for schedule in dict.fromkeys(schedules) if self._result(schedule) is None]
        while todo:
            room = BATCH if self._limits.trials is None else self._limits.trials - self.tried
            if time.monotonic() >= self._until or room <= 0:
                raise _Enough
            now, todo = todo[: min(BATCH, room)], todo[min(BATCH, room) :]
            for schedule, thrown in zip(now, self._throw([str(one) for one in now]), strict=True):
                self.tried += 1
                self._results[schedule] = thrown
                if thrown.met is not None:
                    reached = tuple(fault for fault in schedule.faults if fault.when.n <= thrown.met)
                    self._met[replace(schedule, faults=reached)] = thrown.met
            self._say(f"search: {self.tried} schedules thrown, {len(self._kept)} kinds of findings")

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

    def _shrink_news(self, schedules: Sequence[Schedule], batch: int) -> None:
        """The simplest schedule for each kind of finding that is new in a batch."""
        for schedule in schedules:
            for news in sorted(self._news(schedule)):
                if news not in self._known and len(self._kept) < KINDS:
                    self._shrink(news.partition(" at ")[0], batch)
                self._known.add(news)

    def _shrink(self, expectation: str, batch: int) -> None:
        """From the batch that showed it: the same seed draws the same schedules, whose results are there."""
        best: list[Schedule] = []

        def fails(schedule: Schedule) -> bool:
            self._try([schedule])
            new = any(news.partition(" at ")[0] == expectation for news in self._news(schedule))
            if new:
                best.append(schedule)
            return new

        try:
            _find(self.field, fails, self._batch_seed(batch), BATCH)
        finally:  # the best so far, where the budget was spent meanwhile
            if best:
                simplest = min(best, key=_size)
                self._kept[simplest] = None
                self._known |= self._news(simplest)


def _size(schedule: Schedule) -> tuple[Any, ...]:
    """Simpler schedules are smaller: nothing around it, no failing calls, fewer faults, earlier points."""
    around = (schedule.wrap is not None and schedule.wrap.kind != "scope", len(schedule.failures))
    return (*around, len(schedule.faults), tuple(fault.when.n for fault in schedule.faults), str(schedule))


class Memory:
    """Schedules that failed, kept in a folder for the next time; a file for each probe and backend.

    Not being able to read or write it is no reason to fail.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, script: str, probe: str, backend: str) -> Path:
        key = hashlib.sha256("|".join((script, probe, backend)).encode()).hexdigest()[:16]
        return self._folder / f"{key}.json"

    def read(self, script: str, probe: str, backend: str) -> tuple[str, ...]:
        """The schedules of a probe, the last found first."""
        try:
            kept = json.loads(self._file(script, probe, backend).read_text())["schedules"]
        except (OSError, ValueError, KeyError, TypeError):
            return ()
        return tuple(text for text in kept if isinstance(text, str))

    def add(self, script: str, probe: str, backend: str, schedules: Sequence[Schedule]) -> None:
        """Keep schedules, in front of those that are there."""
        if not schedules:
            return
        file = self._file(script, probe, backend)
        kept = [*map(str, schedules), *self.read(script, probe, backend)]
        texts = list(dict.fromkeys(kept))[:REMEMBERED]
        body = {"script": script, "probe": probe, "backend": backend, "schedules": texts}
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}.{threading.get_ident()}")
            fresh.write_text(json.dumps(body, indent=1))
            fresh.replace(file)
