"""What a campaign on uvloop must see: all that it sees on asyncio, and what it does not see said by name."""

from __future__ import annotations

import sys

import pytest

from conftest import Stager
from stormdrain.expectations import CHECKS
from stormdrain.model import Verdict

pytest.importorskip("uvloop")

PRELUDE = """
import asyncio, socket
from stormdrain import probe
"""
ESCALATES = (
    PRELUDE
    + """
class Subject:
    def __init__(self, process):
        self.process = process

    async def close(self):
        try:
            await asyncio.wait_for(self.process.wait(), 0.5)
        except asyncio.TimeoutError:
            self.process.terminate()
            try:
                await asyncio.wait_for(self.process.wait(), 0.5)
            except asyncio.TimeoutError:
                self.process.kill()
                await self.process.wait()

@probe(operation="close", backends=["asyncio", "uvloop"])
async def escalation(case):
    child = case.child("tool", on_eof="stay", sigterm="ignore")
    yield Subject(await asyncio.create_subprocess_exec(child.path, stdin=asyncio.subprocess.PIPE))
"""
)
RACE = (
    PRELUDE
    + """
class Subject:
    async def close(self):
        await asyncio.wait_for(asyncio.sleep(0.01, 1), 10)

@probe(operation="close", backends=["asyncio", "uvloop"])
async def race(case):
    yield Subject()
"""
)
TALKS = (
    PRELUDE
    + """
class Subject:
    async def close(self):
        async def answer(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                writer.write(b"hello\\n")
                assert await reader.readline() == b"hello\\n"
                await asyncio.sleep(1)
                await asyncio.get_running_loop().run_in_executor(None, sum, [1, 2])
            finally:
                writer.close()

@probe(operation="close", backends=["uvloop"])
async def conversation(case):
    yield Subject()
"""
)
STORMS = ("cancel-sweep", "timeout")


def test_every_canary_is_flagged_on_uvloop(campaign: Stager) -> None:
    played = campaign(RACE, backend="uvloop", canaries=True, storms=["cancel-before-start"])
    assert played.cell.exit_code == 0, played.cell.error
    of_operations = {name for name, check in CHECKS.items() if check.look is not None}
    verdicts = played.cell.canaries
    assert set(verdicts.values()) == {Verdict.FAIL}
    assert of_operations - set(verdicts) <= ({"cancel-count-balanced"} if sys.version_info < (3, 11) else set())


def test_what_uvloop_does_not_show_is_said_in_the_notes_of_the_cell(campaign: Stager) -> None:
    notes = [note.message for note in campaign(RACE, backend="uvloop", storms=["cancel-before-start"]).cell.notes]
    assert any("no steps" in note for note in notes)
    assert any("/proc" in note for note in notes)


def test_a_cleanup_that_escalates_takes_its_seconds_on_the_clock_and_its_child_is_the_targets(campaign: Stager) -> None:
    played = campaign(ESCALATES, backend="uvloop", storms=["cancel-before-start"])
    seen = played.calm.observation
    assert played.cell.cell.clock == "virtual"
    assert seen is not None
    assert seen.outcome.kind == "returned", played.told()
    assert round(seen.elapsed, 3) == 1.0
    assert [(fact.name, fact.state, fact.returncode) for fact in seen.processes] == [("tool", "gone", -9)]
    site = seen.processes[0].site
    assert site is not None
    assert site.target


def test_a_cancel_during_the_escalation_leaves_the_child_on_uvloop_as_on_asyncio(campaign: Stager) -> None:
    found = {
        backend: {
            (one.expectation, str(one.site)) for one in campaign(ESCALATES, backend=backend, storms=STORMS).findings
        }
        for backend in ("asyncio", "uvloop")
    }
    assert found["uvloop"] == found["asyncio"]
    assert "child-reaped" in {name for name, _ in found["uvloop"]}


@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
def test_the_lost_cancel_of_an_old_wait_for_is_seen_where_it_is_there(campaign: Stager, backend: str) -> None:
    played = campaign(RACE, backend=backend, storms=["cancel-sweep"])
    lost = "cancellation-delivered" in played.flagged
    assert lost == (sys.version_info < (3, 12)), played.told()


def test_sockets_and_threads_of_a_subject_go_on_as_they_are(campaign: Stager) -> None:
    played = campaign(TALKS, storms=["cancel-sweep", "timeout"], budget_trials=25)
    assert played.cell.exit_code == 0, played.cell.error
    seen = played.calm.observation
    assert seen is not None
    assert seen.outcome.kind == "returned", played.told()
    assert round(seen.elapsed, 1) == 1.0
    assert not played.flagged, played.told()


def test_calm_on_uvloop_meets_the_same_points_every_time(campaign: Stager) -> None:
    one, other = (campaign(RACE, backend="uvloop", schedules=["calm"]).calm.observation for _ in range(2))
    assert one is not None
    assert other is not None
    assert [point.chain for point in one.points] == [point.chain for point in other.points]


VICTIM = (
    PRELUDE
    + """
async def work(case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if case.param == "passes it on":
            raise

async def idle(subject, case):
    await asyncio.sleep(0.05)

@probe(operation=idle, victim="worker", backends=["uvloop"], parametrize={"bad": "swallows it", "good": "passes it on"})
async def with_worker(case):
    worker = asyncio.create_task(work(case), name="worker")
    yield worker
    await asyncio.wait([worker])
"""
)


def test_another_task_than_the_operations_gets_the_faults_on_uvloop(campaign: Stager) -> None:
    bad = campaign(VICTIM, "with_worker[bad]", storms=["cancel-sweep"], backend="uvloop")
    assert bad.flagged == {"cancellation-delivered"}, bad.told()
    assert {finding.message for finding in bad.findings} == {
        "the cancel was accepted by 'worker', and it returned as if nothing had happened"
    }
    good = campaign(VICTIM, "with_worker[good]", storms=["cancel-sweep"], backend="uvloop")
    assert good.flagged == set(), good.told()
    assert good.cell.verdict is Verdict.PASS


FORGOTTEN = (
    PRELUDE
    + """
async def fails(subject, case):
    def made():
        return asyncio.get_running_loop().create_future()  # blame
    made().set_exception(RuntimeError("nobody looks at this"))

async def own_future(subject, case):
    asyncio.Future().set_exception(RuntimeError("nor at this"))  # blame

@probe(operation=fails, closes=False, backends=["uvloop"])
async def by_the_loop(case):
    yield []

@probe(operation=own_future, closes=False, backends=["uvloop"])
async def by_itself(case):
    yield []
"""
)


@pytest.mark.parametrize(("name", "place"), [("by_the_loop", 0), ("by_itself", 1)])
def test_the_line_that_made_a_future_that_nobody_retrieved_is_named_on_uvloop(
    campaign: Stager, name: str, place: int
) -> None:
    lines = [n for n, line in enumerate(FORGOTTEN.splitlines(), 1) if "# blame" in line]
    played = campaign(FORGOTTEN, name, storms=["calm"], backend="uvloop")
    (finding,) = played.findings
    assert finding.expectation == "no-loop-reports"
    assert finding.site is not None
    assert finding.site.line == lines[place]
