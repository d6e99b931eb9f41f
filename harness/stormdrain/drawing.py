"""Schedules out of a field: drawn by a seed with Hypothesis, compared by how simple they are. Nothing is run here."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .errors import UsageError
from .model import Failure, Fault, Field, Schedule, When, Wrap
from .storms import SEARCH

FAULTS = 5
"""A schedule has so many faults at most."""
OFTEN = 3
"""How many times as often the simplest kind of fault is drawn as any other group of disturbances."""


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
    """The schedules of a field, as a Hypothesis strategy: simpler ones first.

    All that disturbs is one list, what is put around the operation and what is made
    to raise too: so the fewest faults are few of all kinds.
    """
    from hypothesis import strategies as st

    first, *rest = field.kinds
    often = [st.sampled_from(field.points).map(lambda n: (n, first)) for _ in range(OFTEN)]
    groups: list[list[tuple[int | str, str]]] = [
        [(n, kind) for kind in rest for n in field.points],
        [("wrap", wrap) for wrap in field.wraps[1:]],
        [("failure", failure) for failure in field.failures[1:]],
    ]
    some = [st.sampled_from(group) for group in groups if group]
    one = st.one_of(*often, *some)
    many = st.lists(one, min_size=1, max_size=FAULTS, unique_by=lambda each: each[0])
    always = field.wraps[0] if field.wraps else ""
    return many.map(lambda those: _schedule(always, those))


def _schedule(always: str, disturbances: list[tuple[int | str, str]]) -> Schedule:
    faults = sorted((where, what) for where, what in disturbances if isinstance(where, int))
    named = dict(one for one in disturbances if isinstance(one[0], str))
    wrap, failure = named.get("wrap", always), named.get("failure", "")
    kind, _, seconds = wrap.partition("=")
    return Schedule(
        SEARCH,
        Wrap(kind, float(seconds) if seconds else None) if wrap else None,
        tuple(Fault(what, When("point", n)) for n, what in faults),
        (Failure(*failure.split(":")),) if failure else (),
    )


def draw(field: Field, seed: int, count: int) -> list[Schedule]:
    """The first schedules that a seed draws, each once."""
    drawn: dict[Schedule, None] = {}

    def note(schedule: Schedule) -> bool:
        drawn[schedule] = None
        return False

    find(field, note, seed, count)
    return list(drawn)


def find(field: Field, fails: Callable[[Schedule], bool], seed: int, count: int) -> Schedule | None:
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
            found: Schedule = hypothesis.find(strategy(field), fails, settings=settings, random=random.Random(seed))
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


def exchanged(schedule: Schedule, field: Field) -> Iterator[Schedule]:
    """The schedule with a plain fault, at whatever point, in the place of one of its disturbances."""
    bare = field.wraps[0].partition("=")[0]
    faults = schedule.faults
    less = [replace(schedule, faults=faults[:n] + faults[n + 1 :]) for n in range(len(faults))]
    if schedule.failures:
        less.append(replace(schedule, failures=()))
    if schedule.wrap is not None and schedule.wrap.kind != bare:
        less.append(replace(schedule, wrap=Wrap(bare) if bare else None))
    for rest in less:
        there = {fault.when.n for fault in rest.faults}
        for n in field.points:
            if n not in there:
                fault = Fault(field.kinds[0], When("point", n))
                yield replace(rest, faults=tuple(sorted((*rest.faults, fault), key=lambda one: one.when.n)))


def size(schedule: Schedule) -> tuple[Any, ...]:
    """Simpler schedules are smaller: fewer of all that disturbs, more of it plain faults, earlier points."""
    around = len(schedule.failures) + (schedule.wrap is not None and schedule.wrap.kind != "scope")
    points = tuple(fault.when.n for fault in schedule.faults)
    return (len(schedule.faults) + around, around, points, str(schedule))
