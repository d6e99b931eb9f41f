"""Python services seen from inside: signals between two steps of the loop, and what is said of a hang."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from conftest import PYTHON, VERSION, Played, Stager

HEAD = """
import sys
from stormdrain import ready_line, service

def python(case, program, *flags, **options):
    return case.spawn([sys.executable, "-u", *flags, "-c", program], ready=ready_line("ready"), **options)
"""
SERVICE = """
import asyncio, signal, sys
async def main():
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    asyncio.ensure_future(serve(reader, loop, stop))
    print("ready")
    await stop.wait()
    await asyncio.sleep(0.01)
async def serve(reader, loop, stop):
    while line := await reader.readline():
        await asyncio.sleep(0)
        {request}
        print("answer")
asyncio.run(main())
"""
CAREFUL = "await asyncio.sleep(0.01)"
CARELESS = """loop.remove_signal_handler(signal.SIGTERM)
        await asyncio.sleep(0.01)
        loop.add_signal_handler(signal.SIGTERM, stop.set)"""

SWEPT = f"""{HEAD}
@service(exits={{"SIGTERM": 0}}, storms=["signal-sweep"], parametrize={{
    "careful": {SERVICE.format(request=CAREFUL)!r},
    "careless": {SERVICE.format(request=CARELESS)!r},
}})
def server(case):
    return python(case, case.param, client=lambda service: service.request("a request", "answer"))
"""


def swept(played: Played, variant: str = "") -> dict[int, str]:
    """Verdicts of the sweep's trials by the step of their last signal."""
    head = f"signal-sweep({variant})" if variant else "signal-sweep/"
    return {
        int(trial.token.rpartition("@")[2]): trial.verdict.value
        for trial in played.of("signal-sweep")
        if trial.token.partition("/")[2].startswith(head)
    }


def test_a_sweep_sends_a_signal_at_every_step_of_a_request_and_of_the_shutdown(campaign: Stager) -> None:
    played = campaign(SWEPT, "server[careful]")
    assert not played.cell.error, played.cell.error
    first, second, pairs = swept(played), swept(played, "second"), swept(played, "pairs")
    assert len(first) >= 6
    assert len(second) >= 6
    assert pairs
    assert {*first.values(), *second.values(), *pairs.values()} <= {"PASS", "N/A"}, played.told()


def test_the_steps_at_which_a_service_forgets_its_handler_are_found(campaign: Stager) -> None:
    played = campaign(SWEPT, "server[careless]", budget_trials=24)
    verdicts = swept(played)
    bad = [step for step, verdict in verdicts.items() if verdict == "FAIL"]
    assert bad, played.told()
    assert len(bad) < len(verdicts), "before and after it the handler is there"
    wrong = next(trial for trial in played.of("signal-sweep") if trial.verdict.value == "FAIL")
    (finding,) = wrong.findings
    assert finding.message == "the service was killed by signal 15; the probe expects 0 after SIGTERM"
    assert wrong.observation is not None
    assert [site.function.rpartition(".")[2] for site in wrong.observation.faults[0].chain][:1] == ["serve"]


def test_a_service_on_trio_is_swept_too(campaign: Stager) -> None:
    pytest.importorskip("trio")
    if sys.executable != PYTHON:
        pytest.skip("the interpreter that was named for workers need not have trio")
    program = """
import signal, sys, trio
async def main():
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            print("ready")
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break
async def serve():
    async with trio.lowlevel.FdStream(0) as stdin:
        async for data in stdin:
            await trio.sleep(0.01)
            print("answer")
trio.run(main)
"""
    source = f"""{HEAD}
@service(exits={{"SIGTERM": 0}}, storms=["signal-sweep"])
def server(case):
    return python(case, {program!r}, client=lambda service: service.request("a request", "answer"))
"""
    played = campaign(source, budget_trials=12)
    assert not played.cell.error, played.cell.error
    assert len(swept(played)) >= 4
    assert set(swept(played).values()) <= {"PASS", "N/A"}, played.told()
    assert played.calm.observation is not None
    assert played.calm.observation.stepping == "trio"


@pytest.mark.parametrize("flag", ["-E", "-I", "-S"])
def test_an_interpreter_that_takes_nothing_in_is_undecided_and_named(campaign: Stager, flag: str) -> None:
    program = "import signal, os; signal.signal(15, lambda *_: os._exit(0)); print('ready'); signal.pause()"
    source = f"""{HEAD}
@service(exits={{"SIGTERM": 0}}, storms=["signal-sweep"])
def server(case):
    return python(case, {program!r}, {flag!r})
"""
    played = campaign(source)
    (trial,) = (trial for trial in played.of("signal-sweep") if trial.phase == "storm")
    assert trial.verdict.value == "UNRESOLVED"
    assert trial.error == f"the service's interpreter was started with {flag}: nothing can be put into it"


def test_what_is_no_python_program_is_swept_by_its_process_tree_and_by_delays(campaign: Stager) -> None:
    source = """
from stormdrain import ready_line, service
@service(exits={"SIGTERM": 0}, storms=["signal-sweep"])
def shell(case):
    return case.spawn(["sh", "-c", "trap 'exit 0' TERM; sleep 60 & echo ready; wait"], ready=ready_line("ready"))
"""
    played = campaign(source)
    assert not played.cell.error, played.cell.error
    variants = {trial.token.partition("/")[2].partition("/")[0] for trial in played.of("signal-sweep")}
    assert {"signal-sweep(tree)", "signal-sweep(delay)"} <= variants
    assert "nothing-left" in played.flagged, "its sleep is left behind"


HANGS = """
import asyncio, signal, sys, threading
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with asyncio.TaskGroup() as group:
        group.create_task(pump())
        print("ready")
        await stop.wait()
async def pump():
    await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


@pytest.mark.skipif(VERSION < (3, 11), reason="asyncio.TaskGroup came with 3.11")
def test_a_hang_says_that_the_group_waits_for_a_task_that_for_a_thread_and_that_for_stdin(campaign: Stager) -> None:
    source = f"""{HEAD}
@service(exits={{"SIGTERM": 0}}, bound=0.6)
def server(case):
    return python(case, {HANGS!r})
"""
    played = campaign(source, storms=["signal"])
    finding = next(finding for finding in played.findings if finding.expectation == "returns")
    assert "its task group waits at" in finding.message
    assert "which waits for a worker thread" in finding.message
    assert "is in read(0, its stdin)" in finding.message
    seen = "\n".join(finding.seen)
    assert "in main" in seen
    assert "asyncio_0: in read(0, its stdin)" in seen


def test_a_service_finds_its_interpreter_as_it_would_be_without_us(campaign: Stager, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.hidden = True\n")
    program = """
import os, signal, sys, threading
signal.signal(15, lambda *_: os._exit(0))
print(sorted(name for name in os.environ if "STORMDRAIN" in name and name not in KNOWN))
print(os.environ.get("PYTHONPATH"))
print([path for path in sys.path if "stormdrain" in path or "boot" in path])
print(hidden, threading.enumerate() == [threading.main_thread()], "asyncio" in sys.modules)
print("ready")
signal.pause()
""".replace("KNOWN", repr(sorted(os.environ)))  # what the suite itself was started with
    source = f"""{HEAD}
@service(exits={{"SIGTERM": 0}})
def server(case):
    return python(case, {program!r}, env={{"PYTHONPATH": {str(tmp_path)!r}}})
"""
    played = campaign(source, schedules=["signal/f:signal=SIGTERM!idle"])
    assert not played.cell.error, played.cell.error
    seen = played.trials[-1].observation
    assert seen is not None
    assert seen.output.splitlines() == ["[]", str(tmp_path), "[]", "True True False", "ready"]
    assert seen.exit_status == 0
