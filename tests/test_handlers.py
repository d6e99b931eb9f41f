"""Signal handlers in the trial's own process: repeated signals, unanchored tasks, a cancelled shutdown."""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest

from conftest import PYTHON, Stager
from stormdrain import closure, deliver
from stormdrain.errors import UsageError

GATEWAY = """
import asyncio, signal, weakref
from stormdrain import closure, deliver, probe

class Runner:
    def __init__(self):
        self.down, self.task = asyncio.Event(), None

    async def stop(self):
        await asyncio.sleep(0.1)
        self.down.set()

    async def wait_for_shutdown(self):
        await self.down.wait()

def start(runner, loop):
    def bare(received):
        asyncio.create_task(runner.stop())
    def kept(received):
        if runner.task is None:
            runner.task = asyncio.create_task(runner.stop())
    loop.add_signal_handler(signal.SIGTERM, bare, signal.SIGTERM)

def handle(runner, name):
    handler = closure(start, f"start.<locals>.{name}", runner=runner)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, handler, signal.SIGTERM)

@probe(operation=deliver("SIGTERM"), count=["stop"], parametrize={"bare": "bare", "kept": "kept"})
async def gateway(case):
    runner = Runner()
    handle(runner, case.param)
    yield runner

@probe(operation=deliver("SIGTERM"), parametrize={"bare": "bare", "kept": "kept"})
async def lonely(case):
    # What stop() waits for is held by nobody else: as long as garbage is not collected, it is answered.
    runner = Runner()

    async def stop():
        answer = asyncio.get_running_loop().create_future()
        def reply(held=weakref.ref(answer)):
            if held() is not None:
                held().set_result(None)
        asyncio.get_running_loop().call_later(0.1, reply)
        await answer
        runner.down.set()

    runner.stop = stop
    handle(runner, case.param)
    yield runner

@probe(operation=deliver("SIGTERM"), victim="Runner.stop")
async def cancelled(case):
    runner = Runner()
    handle(runner, "kept")
    yield runner
"""
"""`start` would install `bare`; nothing runs it, the handlers are built from its code."""


def test_a_second_signal_at_every_step_begins_a_second_stop_unless_there_is_a_guard(campaign: Stager) -> None:
    bare = campaign(GATEWAY, "gateway[bare]", storms=["signal-repeat"])
    assert bare.calm.verdict.value == "PASS", bare.told()
    assert bare.flagged == {"entered-once"}, bare.told()
    many = next(trial for trial in bare.of("signal-repeat") if "(many)" in trial.token)
    assert many.observation is not None
    calls = many.observation.counts["stop"]
    assert calls in (5, 6), "one of the operation, and one each 20 ms of 0.1 s"
    kept = campaign(GATEWAY, "gateway[kept]", storms=["signal-repeat"])
    assert kept.flagged == set(), kept.told()
    steps = [trial for trial in kept.of("signal-repeat") if "@" in trial.token]
    assert len(steps) >= 4


def test_a_task_that_nobody_holds_is_found_and_lost_at_the_first_step_where_it_can_be(campaign: Stager) -> None:
    unanchored = "gc(unanchored)/f:gc!unanchored"
    bare = campaign(GATEWAY, "lonely[bare]", storms=["gc"])
    assert bare.calm.verdict.value == "PASS", "while nobody collects, all is well"
    assert bare.flagged >= {"returns", "no-loop-reports"}
    trial = next(trial for trial in bare.trials if trial.token.endswith(unanchored))
    assert trial.observation is not None
    (lost,) = trial.observation.unanchored
    assert "lonely.<locals>.stop" in lost.what
    assert any("Task was destroyed but it is pending" in report.message for report in trial.observation.reports)


def test_where_no_collection_can_lose_a_task_it_is_called_not_reachable_and_no_bug(campaign: Stager) -> None:
    kept = campaign(GATEWAY, "lonely[kept]", storms=["gc"])
    assert kept.flagged == set(), kept.told()
    trial = next(trial for trial in kept.trials if "unanchored" in trial.token)
    assert (trial.verdict.value, trial.reached) == ("N/A", False)
    assert any("not reachable in this version" in note.message for note in kept.cell.notes)


def test_the_shutdown_itself_is_cancelled_at_every_step_by_the_name_of_its_function(campaign: Stager) -> None:
    played = campaign(GATEWAY, "cancelled", storms=["cancel-sweep"])
    hung = [trial for trial in played.of("cancel-sweep") if "returns" in {one.expectation for one in trial.findings}]
    assert hung, played.told()
    assert hung[0].observation is not None
    assert hung[0].observation.outcome.kind == "deadlock", "nobody sets the event any more"
    assert any(site.function.endswith("stop") for site in hung[-1].observation.faults[0].chain)  # type: ignore[union-attr]


ON_TRIO = """
import signal, trio
from stormdrain import deliver, probe

class Server:
    def __init__(self, once):
        self.once, self.down, self.begun = once, trio.Event(), False

    async def stop(self):
        await trio.sleep(0.1)
        self.down.set()

    async def wait_for_shutdown(self):
        await self.down.wait()

    async def handle(self, nursery, *, task_status):
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                if not (self.once and self.begun):
                    self.begun = True
                    nursery.start_soon(self.stop)

@probe(operation=deliver("SIGTERM"), backends=["trio"], count=["stop"], parametrize={"each": False, "once": True})
async def server(case):
    subject = Server(case.param)
    async with trio.open_nursery() as nursery:
        await nursery.start(subject.handle, nursery)
        yield subject
        nursery.cancel_scope.cancel()
"""


def test_on_trio_a_signal_at_every_step_begins_a_second_stop_unless_there_is_a_guard(campaign: Stager) -> None:
    pytest.importorskip("trio")
    if sys.executable != PYTHON:
        pytest.skip("the interpreter that was named for workers need not have trio")
    each = campaign(ON_TRIO, "server[each]", storms=["signal-repeat"])
    assert not each.cell.error, each.cell.error
    assert "entered-once" in each.flagged, each.told()
    once = campaign(ON_TRIO, "server[once]", storms=["signal-repeat"])
    assert "entered-once" not in once.flagged, once.told()
    assert len(once.of("signal-repeat")) > 4


ANCHORS = """
import asyncio, socket, subprocess, sys, time
from stormdrain import probe

async def private(): await asyncio.get_running_loop().create_future()
async def waits(event): await event.wait()
async def nested(): await asyncio.create_task(private(), name="LOST inner")
async def pump(queue): await queue.get()
async def reads(reader): await reader.read(1)

async def operation(kept, case):
    def start(coro, name): asyncio.create_task(coro, name=name)
    start(private(), "LOST private")
    start(waits(asyncio.Event()), "LOST event")
    start(pump(asyncio.Queue()), "LOST queue")
    start(nested(), "LOST outer")
    kept.task = asyncio.create_task(private(), name="held")
    kept.event = asyncio.Event()
    start(waits(kept.event), "held event")
    start(asyncio.sleep(60), "timer")
    start(asyncio.to_thread(time.sleep, 0.05), "thread")
    left, kept.right = socket.socketpair()
    reader, kept.writer = await asyncio.open_connection(sock=left)
    start(reads(reader), "socket")
    del reader, left
    await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)

class Kept: pass

@probe(operation=operation)
async def tasks(case):
    yield Kept()
"""


def test_the_account_of_unanchored_tasks_names_those_that_a_collection_would_destroy(campaign: Stager) -> None:
    calm = campaign(ANCHORS, storms=["calm"]).calm.observation
    assert calm is not None
    # At which points the thread's end falls is another matter each time, so at all of them.
    played = campaign(ANCHORS, schedules=[f"gc/f:gc@{point.n}" for point in calm.points])
    seen = [trial.observation for trial in played.of("gc") if trial.observation]
    named = {item.what.partition(" (")[0] for one in seen for item in one.unanchored}
    assert named == {"LOST private", "LOST event", "LOST queue", "LOST outer", "LOST inner"}


# -- the handler that nobody can reach --------------------------------------------


def start(runner: list[Any], *, times: int = 2) -> None:
    """Defines handlers, and would run for ever."""
    count = 0

    def handler(number: int = 15, *, note: str = "") -> str:
        nonlocal count
        count += times
        runner.append(number)

        def inner() -> str:
            return f"{number} {note}"

        return f"{count} {inner()}"

    raise AssertionError("nobody runs this")


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


class Server:
    @decorated
    async def serve(self) -> None:
        def stop() -> Any:
            return self

        await asyncio.sleep(1)
        stop()


def test_a_closure_inside_a_function_is_built_without_running_that() -> None:
    seen: list[int] = []
    made = closure(
        start, "start.<locals>.handler", defaults=(15,), kwdefaults={"note": "!"}, runner=seen, times=3, count=1
    )
    assert made() == "4 15 !"
    assert made(2, note="?") == "7 2 ?"
    assert seen == [15, 2]
    assert made.__qualname__ == "start.<locals>.handler"


def test_a_closure_in_a_decorated_method_is_found_too() -> None:
    server = Server()
    assert closure(Server.serve, "Server.serve.<locals>.stop", self=server)() is server
    assert closure(server.serve, "serve.<locals>.stop", self=server)() is server


@pytest.mark.parametrize(
    ("path", "free", "words"),
    [
        ("start.<locals>.handle", {}, "it defines: start.<locals>.handler, start.<locals>.handler.<locals>.inner"),
        ("handler", {}, "it defines: start.<locals>.handler"),
        ("start.<locals>.handler", {"runner": []}, "needs the variable 'count'"),
        ("start.<locals>.handler", {"runner": [], "times": 1, "count": 0, "loop": 1}, "does not use 'loop'"),
    ],
)
def test_what_is_missing_or_too_much_for_a_closure_is_named(path: str, free: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        closure(start, path, **free)
    assert words in str(caught.value)


def test_a_builtin_defines_no_handler() -> None:
    with pytest.raises(UsageError, match="is no function of Python"):
        closure(len, "len.<locals>.handler")


def test_only_signals_can_be_delivered() -> None:
    with pytest.raises(UsageError, match="'SIGTREM' is no signal"):
        deliver("SIGTREM")
