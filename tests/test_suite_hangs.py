"""Mutants that hang, crash and leak: each gets its own name, the other tests go on, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stormdrain
from suites import Bench, Outcome

SOURCE = """
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time


async def drain(items):
    found = []
    for item in items:
        await asyncio.sleep(0)
        found.append(item)
    return found


def total(items):
    return sum(items)


async def closed(event):
    event.set()
    await event.wait()
"""

TESTS = """
import asyncio
import os

import pytest

from pond.pipe import closed, drain, total


def test_before():
    assert total([1, 2]) == 3


def test_drain():
    assert asyncio.run(drain([1, 2, 3])) == [1, 2, 3]


def test_closed():
    async def main():
        await asyncio.wait_for(closed(asyncio.Event()), 30)
    asyncio.run(main())


def test_closed_without_a_timeout():
    async def main():
        await closed(asyncio.Event())
    asyncio.run(main())


def test_after():
    assert total([]) == 0


def test_of_something_else():
    assert os.sep == "/"
"""

BODY = "    return sum(items)\n"
DRAIN = "        found.append(item)\n"

MUTANTS = {
    "wrong": (BODY, "    return sum(items) + 1\n"),
    "loops": (BODY, "    while items is not None:\n        pass\n"),
    "spins": (DRAIN, "        found.append(item)\n        while True:\n            await asyncio.sleep(0)\n"),
    "waits": ("    event.set()\n", "    pass\n"),
    "exits": (BODY, "    os._exit(0)\n"),
    "raises-exit": (BODY, "    sys.exit(0)\n"),
    "kills-itself": (BODY, "    os.kill(os.getpid(), signal.SIGKILL)\n"),
    "takes-memory": (
        BODY,
        "    held = []\n    while items is not None:\n        held += [bytearray(1 << 24)]\n",
    ),
    "closes-everything": (BODY, "    os.closerange(0, 4096)\n    return sum(items)\n"),
    "forks": (BODY, "    os.fork()\n    return sum(items)\n"),
    "blocks": (
        BODY,
        "    lock = threading.Lock()\n    lock.acquire()\n    threading.Thread(target=lock.acquire, daemon=True).start()\n"
        "    lock.acquire()\n",
    ),
    "blocks-a-thread": (
        DRAIN,
        "        found.append(item)\n"
        "        await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)\n",
    ),
    "closes-stdout": (BODY, "    sys.stdout.close()\n    os.closerange(1, 2)\n    return sum(items)\n"),
    "leaks": (
        BODY,
        '    subprocess.Popen(["sleep", "600"], start_new_session=True)\n    return sum(items)\n',
    ),
    "daemon": (
        BODY,
        "    if os.fork() == 0:\n        os.setsid()\n        if os.fork():\n            os._exit(0)\n"
        "        signal.signal(signal.SIGTERM, signal.SIG_IGN)\n        time.sleep(600)\n"
        "    return sum(items)\n",
    ),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    bench = Bench(tmp_path_factory.mktemp("hangs"), SOURCE, TESTS)
    before = bench.digest()
    outcome = bench.run(MUTANTS)
    assert bench.digest() == before, "the source tree or the suite was written to"
    return outcome


TOTAL = ("test_before", "test_after")


@pytest.mark.parametrize(
    ("name", "came_to", "cells"),
    [
        ("wrong", "caught", dict.fromkeys(TOTAL, "failed")),
        ("loops", "timed out", dict.fromkeys(TOTAL, "spun")),
        ("spins", "timed out", {"test_drain": "spun"}),
        ("exits", "caught", dict.fromkeys(TOTAL, "crashed")),
        ("raises-exit", "caught", dict.fromkeys(TOTAL, "failed")),
        ("kills-itself", "caught", dict.fromkeys(TOTAL, "crashed")),
        ("takes-memory", "timed out", dict.fromkeys(TOTAL, "memory")),
        ("closes-everything", "missed", {}),
        ("closes-stdout", "missed", {}),
        ("blocks", "timed out", dict.fromkeys(TOTAL, "deadlock")),
        ("blocks-a-thread", "timed out", {"test_drain": "deadlock"}),
        ("forks", "missed", {}),
        ("leaks", "missed", {}),
        ("daemon", "missed", {}),
        (
            "waits",
            "caught",
            {"test_closed": "failed", "test_closed_without_a_timeout": "deadlock"},
        ),
    ],
)
def test_each_kind_of_mutant_is_told_apart_and_the_other_tests_go_on(
    outcome: Outcome, name: str, came_to: str, cells: dict[str, str]
) -> None:
    assert outcome.cells(name) == cells
    assert outcome.of(name) == came_to
    assert len(outcome.ran[name].results) == len(outcome.ran[name].chosen)


def test_a_deadlock_names_the_task_and_the_line(outcome: Outcome) -> None:
    text = outcome.text("waits", "test_closed_without_a_timeout")
    assert "test_pipe.py" in text
    assert "Task-" in text


def test_a_loop_names_the_line(outcome: Outcome) -> None:
    assert "pipe.py:" in outcome.text("loops", "test_before")


def test_what_a_mutant_leaves_behind_is_counted(outcome: Outcome) -> None:
    assert outcome.records["leaks"].left == {"here": 2}
    assert outcome.records["daemon"].left["here"] >= 2, "an intermediate process may not have left yet"
    assert outcome.records["wrong"].left == {}


def test_only_tests_that_run_the_line_are_run(outcome: Outcome) -> None:
    tests = outcome.campaign.suite.tests
    chosen = {tests[index].rpartition("::")[2] for index in outcome.ran["spins"].chosen}
    assert chosen == {"test_drain"}


def test_the_unmutated_suite_is_green_three_times(outcome: Outcome) -> None:
    assert len(outcome.baseline.tests) == 6
    assert outcome.baseline.left_out == {}
    assert outcome.forced == "seen"


def test_a_suite_on_one_slot_comes_to_the_same(tmp_path: Path) -> None:
    outcome = Bench(tmp_path, SOURCE, TESTS, jobs=1).run({"exits": MUTANTS["exits"], "wrong": MUTANTS["wrong"]})
    assert outcome.cells("exits") == dict.fromkeys(TOTAL, "crashed")
    assert outcome.cells("wrong") == dict.fromkeys(TOTAL, "failed")


LEAVES_MEANWHILE = """
import os, signal
from stormdrain.worker import linux, procfs

linux.become_subreaper()
ours, theirs = os.pipe()
parent = os.fork()
if parent == 0:
    child = os.fork()
    if child == 0:
        signal.pause()
    os.write(theirs, child.to_bytes(4, "little"))
    signal.pause()
child = int.from_bytes(os.read(ours, 4), "little")
ask = procfs.children

def leaves_first(pid="self"):
    if pid == parent and procfs.alive(parent):  # we were asked before, and did not have its child yet
        os.kill(parent, signal.SIGKILL)
        os.waitid(os.P_PID, parent, os.WEXITED | os.WNOWAIT)
    return ask(pid)

procfs.children = leaves_first
found = procfs.descendants()
os.kill(child, signal.SIGKILL)
print(child in found)
"""


def test_a_process_whose_parent_leaves_while_the_tree_is_gone_through_is_not_missed() -> None:
    package = str(Path(stormdrain.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_MEANWHILE],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "True", done.stderr
