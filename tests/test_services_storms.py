"""Laws of the storms of services: whatever calm showed, each schedule can be pasted back, and none is thrown twice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from stormdrain.model import Point, ProbeSpec, Schedule, parse_schedule
from stormdrain.storms import FAMILIES, Ground, NotHere

SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "EOF")
MOMENTS = ("started", "stdin", "child-1", "child-2", "ready", "tools-call", "child-3", "idle")


@st.composite
def grounds(draw: st.DrawFn) -> Ground:
    exits = dict.fromkeys(draw(st.sets(st.sampled_from(SIGNALS))), (0,))
    points = tuple(Point(n, key=draw(st.sampled_from("abc"))) for n in range(1, draw(st.integers(0, 9))))
    return Ground(
        spec=ProbeSpec("service", "service.py", "exit", "service", ("service",), exits=exits),
        backend="service",
        points=points,
        after=points[: draw(st.integers(0, 9))],
        children=draw(st.booleans()),
        moments=tuple(name for name in MOMENTS if draw(st.booleans())),
        stepping=draw(st.sampled_from(["", "asyncio", "trio", "it was started with -I"])),
        ready_after=draw(st.floats(0, 30)),
    )


def generated(ground: Ground) -> Iterator[tuple[str, list[Schedule]]]:
    """Each family that has schedules for that ground, by name."""
    for family in FAMILIES.values():
        if "service" in family.kinds:
            with contextlib.suppress(NotHere):
                yield family.name, list(family.generate(ground))


@given(grounds())
def test_every_schedule_of_a_service_can_be_pasted_back_and_comes_once(ground: Ground) -> None:
    for name, schedules in generated(ground):
        texts = [str(schedule) for schedule in schedules]
        assert [parse_schedule(text) for text in texts] == schedules
        assert {schedule.storm for schedule in schedules} <= {name}
        if ground.ready_after > 0.01:  # parts of less than that are the same in writing
            assert len(set(texts)) == len(texts)


@given(grounds())
def test_only_signals_that_the_probe_names_are_sent(ground: Ground) -> None:
    for _, schedules in generated(ground):
        sent = {f.arg.partition(".")[0] for one in schedules for f in one.faults if f.kind == "signal"}
        assert sent <= set(ground.spec.exits) - {"EOF"}
