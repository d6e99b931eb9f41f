"""A target may set a task factory of its own: its tasks are made by it, and what cancels them is still seen."""

from __future__ import annotations

import asyncio
import sys

import pytest

from conftest import Stager

PROBE = """
import asyncio
from stormdrain import probe

class Own(asyncio.Task):
    pass

def own(loop, coro, **options):
    return Own(coro, loop=loop, **options)

class Subject:
    def __init__(self):
        self.made = []

    async def close(self):
        self.made.append(asyncio.current_task())
        child = asyncio.ensure_future(asyncio.sleep(0.2))
        self.made.append(child)
        await asyncio.sleep(0.1)
        child.cancel()
        await asyncio.gather(child, return_exceptions=True)
        await asyncio.sleep(0)

async def check(subject, case):
    loop = asyncio.get_running_loop()
    assert loop.get_task_factory() is case.param
    if case.param is own:
        assert [type(task) for task in subject.made[:2]] == [Own, Own], subject.made

@probe(operation="close", follow_up=check, BACKENDS, parametrize={"none": None, "own": own, **EAGER})
async def factory(case):
    asyncio.get_running_loop().set_task_factory(case.param)
    yield Subject()
"""
EAGER = sys.version_info >= (3, 12)
BACKENDS = ["asyncio", "uvloop"]


def source(backend: str) -> str:
    if backend != "asyncio":
        pytest.importorskip(backend)
    eager = '{"eager": asyncio.eager_task_factory}' if EAGER else "{}"
    return PROBE.replace("**EAGER", f"**{eager}").replace("BACKENDS", f'backends=["{backend}"]')


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("factory", ["none", "own"])
def test_a_factory_of_the_targets_own_makes_its_tasks_and_who_cancels_them_is_seen(
    campaign: Stager, backend: str, factory: str
) -> None:
    played = campaign(source(backend), f"factory[{factory}]", storms=["cancel-sweep"])
    assert not played.flagged, played.told()
    seen = played.calm.observation
    assert seen is not None
    assert seen.follow_up.kind == "returned", seen.follow_up
    assert [str(cancel.caller).endswith("close") for cancel in seen.cancels] == [True], seen.cancels
    assert len(played.of("cancel-sweep")) >= 4


def begins_eagerly_on_uvloop() -> bool:
    """Whether the eager factory makes eager tasks on uvloop itself, without the harness."""
    loop = pytest.importorskip("uvloop").new_event_loop()
    begun = []

    async def step() -> None:
        begun.append(True)

    async def main() -> bool:
        loop.set_task_factory(asyncio.eager_task_factory)
        coro = step()
        try:
            task = loop.create_task(coro)
        except TypeError:
            coro.close()
            return False
        finally:
            loop.set_task_factory(None)
        eager = bool(begun)
        await task
        return eager

    try:
        return bool(loop.run_until_complete(main()))
    finally:
        loop.close()


@pytest.mark.skipif(not EAGER, reason="eager tasks came with 3.12")
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_begun_eagerly_has_points_from_its_first_wait_on_and_a_note_that_says_so(
    campaign: Stager, backend: str
) -> None:
    if backend == "uvloop" and not begins_eagerly_on_uvloop():
        pytest.skip("this uvloop passes eager_start=None, which the eager factory here refuses or takes for a no")
    played = campaign(source(backend), "factory[eager]", storms=["cancel-sweep", "cancel-before-start"])
    assert not played.flagged, played.told()
    seen = played.calm.observation
    assert seen is not None
    assert seen.outcome.kind == "returned"
    assert seen.points
    assert all(point.chain for point in seen.points if point.n < len(seen.points)), seen.points
    assert [cancel.injected for cancel in seen.cancels] == [False]
    assert any("eagerly" in note.message for note in played.cell.notes), played.cell.notes
    assert any(trial.reached and trial.observation.accepted for trial in played.of("cancel-sweep") if trial.observation)
