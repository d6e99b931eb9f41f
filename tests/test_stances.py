"""A probe may say of an expectation that it does not apply, allow it so much, or be stricter; the reason is always printed."""

from __future__ import annotations

import pytest

from conftest import Stager
from stormdrain.model import Verdict

SOURCE = """
import asyncio, time
from stormdrain import na, probe, relax, tighten

async def blocks(subject, case):
    time.sleep(0.4)
    await asyncio.sleep(0)

async def takes_a_while(subject, case):
    async def linger():
        await asyncio.sleep(0.1)
    try:
        await asyncio.sleep(0.1)
    finally:
        subject.append(asyncio.ensure_future(linger()))

async def translates(subject, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        raise ConnectionError("closed meanwhile")

def stance(operation, **expect):
    @probe(operation=operation, closes=False, expect={key.replace("_", "-"): value for key, value in expect.items()})
    async def subject(case):
        yield []
    return subject

blocks_plainly = stance(blocks)
blocks_for_a_reason = stance(blocks, no_blocked_loop=relax("the driver has no other way"))
blocks_so_much = stance(blocks, no_blocked_loop=relax("a flush takes a second", 1.0))
blocks_too_much = stance(blocks, no_blocked_loop=relax("a flush takes a moment", 0.3))
blocks_elsewhere = stance(blocks, no_blocked_loop=na("it is another thread", pythons=["2.7"]))
blocks_here = stance(blocks, no_blocked_loop=na("nobody minds", revisions=["her"], pythons=["3"]))
lingers = stance(takes_a_while)
lingers_strictly = stance(takes_a_while, no_leaked_tasks=tighten("nothing may outlive it"))
passes_over = stance(translates)
passes_over_strictly = stance(translates, cancellation_delivered=tighten("callers rely on it"))
for name, value in list(globals().items()):
    if hasattr(value, "__stormdrain_probe__"):
        value.__name__ = name
"""

ONCE = "cancel-storm(once)/f:cancel+0.02s"

STANCES = {
    # probe: what is flagged, and the note that is made of it (if any)
    "blocks_plainly": ("no-blocked-loop", ""),
    "blocks_for_a_reason": ("", "(allowed: the driver has no other way)"),
    "blocks_so_much": ("", "(allowed: a flush takes a second)"),
    "blocks_too_much": ("no-blocked-loop", ""),
    "blocks_elsewhere": ("no-blocked-loop", ""),
    "blocks_here": ("", "nobody minds"),
    "lingers": ("", "gone only while settling: "),
    "lingers_strictly": ("no-leaked-tasks", ""),
    "passes_over": ("", "the cancel was accepted, and ConnectionError of the target's own came out"),
    "passes_over_strictly": ("cancellation-delivered", ""),
}


@pytest.mark.parametrize("probe", STANCES)
def test_a_stance_decides_what_is_a_finding_and_its_reason_is_printed(campaign: Stager, probe: str) -> None:
    flagged, note = STANCES[probe]
    played = campaign(SOURCE, probe, schedules=[ONCE])
    assert played.flagged == ({flagged} if flagged else set()), played.told()
    assert played.cell.verdict is (Verdict.FAIL if flagged else Verdict.PASS)
    said = [one.message for trial in played.trials for one in (*trial.notes, *trial.na)]
    assert any(note in text for text in said), said
