"""Whatever a subject leaks and however a process dies: nothing is left running, and what was recorded is readable.

Everything that these tests start carries a mark in its environment or in its command
line, so that what is left is found wherever it has got to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import MARK, PYTHON, Stager, left_after, marked
from revising import pond, write
from stage import await_end
from stormdrain import store
from stormdrain.model import Verdict
from stormdrain.workers import Worker

LEAKS = r"""
import asyncio, os, signal, subprocess, sys, tempfile, threading, time
from stormdrain import probe

WORD = os.environ["STORMDRAIN_SUITE"]
IGNORES = "\n".join([
    "import signal, time",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "print(1, flush=True)",
    "time.sleep(600)",
])
BREEDS = "\n".join([
    "import os, time",
    "print(1, flush=True)",
    "while True:",
    " if os.fork() == 0: time.sleep(0.2); os._exit(0)",
    " time.sleep(0.01); os.waitpid(-1, os.WNOHANG)",
])

def start(program):
    command = [sys.executable, "-S", "-c", program, WORD]  # the word is for those without an environment
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={}, start_new_session=True)

def child():
    process = start(IGNORES)
    process.stdout.readline()
    return process

def breeder():
    process = start(BREEDS)
    process.stdout.readline()
    return process

def stopped():
    process = child()
    process.send_signal(signal.SIGSTOP)
    return process

def daemon():
    '''A grandchild that has left its session, its parent and its name behind.'''
    ready, tell = os.pipe()
    if (pid := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(tell, b"x")
            time.sleep(600)
        os._exit(0)
    os.waitpid(pid, 0)
    os.read(ready, 1)
    os.close(ready), os.close(tell)

def task():
    return asyncio.ensure_future(asyncio.sleep(600))

def thread():
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    return thread

def stubborn():
    thread = threading.Thread(target=threading.Event().wait)
    thread.start()
    return thread

def file():
    return tempfile.mkstemp()

def killed():
    daemon()
    child()
    os.kill(os.getpid(), signal.SIGKILL)

def nothing():
    pass

EXTRAS = {"child": child, "breeder": breeder, "stopped": stopped, "daemon": daemon, "task": task,
          "thread": thread, "stubborn": stubborn, "file": file, "killed": killed, "nothing": nothing}

class Subject:
    async def run(self):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            self.kept = self.leak()
            raise

@probe(operation="run", parametrize=EXTRAS)
async def leaks(case):
    subject = Subject()
    subject.leak = case.param
    yield subject
"""
KINDS = (
    "child",
    "breeder",
    "stopped",
    "daemon",
    "task",
    "thread",
    "stubborn",
    "file",
    "killed",
    "nothing",
)
FLAGGED = {
    "child": {"child-reaped", "no-leaked-descriptors"},
    "breeder": {"child-reaped", "no-leaked-descriptors"},
    "stopped": {"child-reaped", "no-leaked-descriptors"},
    "daemon": {"no-orphans"},
    "task": {"no-leaked-tasks"},
    "thread": {"no-leaked-threads"},
    "stubborn": {"no-leaked-threads", "exits-cleanly"},
    "file": {"no-leaked-descriptors"},
    "killed": {"returns"},
    "nothing": set(),
}


@dataclass(frozen=True)
class Place:
    """A worker of its own: its mark, and the folder in which it and its trials put their files."""

    worker: Worker
    mark: str
    folder: Path

    def strays(self) -> dict[int, str]:
        """What runs beyond guardian and worker."""
        return {pid: words for pid, words in self.all().items() if "stormdrain.worker" not in words}

    def all(self) -> dict[int, str]:
        return marked(self.mark) | named(self.mark)


def named(word: str) -> dict[int, str]:
    """Living processes that have a word in their command line."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and word.encode() in (words := (entry / "cmdline").read_bytes()):
                found[int(entry.name)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


@contextlib.contextmanager
def place(folder: Path) -> Iterator[Place]:
    mark = uuid.uuid4().hex
    (folder / "tmp").mkdir(parents=True)
    with Worker(PYTHON, env={MARK: mark, "TMPDIR": str(folder / "tmp")}) as worker:
        yield Place(worker, mark, folder / "tmp")


def leak(campaign: Stager, where: Place, kind: str, times: int, clock: str = "virtual") -> None:
    """So many trials of one kind of leak; after them nothing runs but the worker."""
    once = "cancel-storm(once)/f:cancel+0.005s"
    played = campaign(LEAKS, f"leaks[{kind}]", schedules=[once] * times, worker=where.worker, clock=clock, jobs=6)
    trials = [trial for trial in played.trials if trial.phase == "storm"]
    assert len(trials) == times
    for trial in trials:
        flagged = {finding.expectation for finding in trial.findings}
        assert flagged - {"no-blocked-loop"} == FLAGGED[kind], played.told()  # starting children may block
    assert where.strays() == {}
    assert list(where.folder.glob("stormdrain-*/t0*")) == []


def test_what_is_left_would_be_found(tmp_path: Path) -> None:
    """The look itself: a process that has left its session and its parent is seen by its mark."""
    mark = uuid.uuid4().hex
    program = """
        import os, time
        if os.fork():
            os._exit(0)
        os.setsid()
        print(os.getpid(), flush=True)
        os.close(1)
        time.sleep(600)
    """
    done = subprocess.run(
        [sys.executable, "-S", "-c", textwrap.dedent(program)],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    pid = int(done.stdout)
    try:
        assert set(marked(mark)) == {pid}
        assert set(left_after(mark, 0.01)) == {pid}
    finally:
        os.kill(pid, signal.SIGKILL)
    await_end(pid)
    assert left_after(mark, 10) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_trial_that_leaks(campaign: Stager, tmp_path: Path, kind: str) -> None:
    with place(tmp_path) as where:
        leak(campaign, where, kind, 5)
        assert {words.split(" -m ")[-1].split()[0] for words in where.all().values()} == {"stormdrain.worker"}
    assert left_after(where.mark, 10) == {}
    assert named(where.mark) == {}
    assert list(where.folder.glob("stormdrain-*")) == []


@pytest.mark.long
def test_nothing_is_left_of_a_thousand_trials_that_leak(campaign: Stager, tmp_path: Path) -> None:
    with place(tmp_path) as where:
        for clock in ("virtual", "real") * 2:
            for kind in KINDS:
                leak(campaign, where, kind, 25, clock)
    assert left_after(where.mark, 10) == {}
    assert named(where.mark) == {}
    assert list(where.folder.glob("stormdrain-*")) == []


# -- the host is killed -----------------------------------------------------------

COMMAND = [sys.executable, "-c", "from stormdrain.cli import main; main()"]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose environment is built already, and a probe that leaks everything there is."""
    folder = tmp_path_factory.mktemp("project")
    pond(folder / "pond")
    write(folder, {"leaks.py": LEAKS})
    host = run(folder, folder / "first", uuid.uuid4().hex, "-k", "nothing", "--no-confirm")
    _, said = host.communicate(timeout=120)
    assert host.returncode == 0, said
    return folder


def run(project: Path, out: Path, mark: str, *more: str) -> subprocess.Popen[str]:
    (out / "tmp").mkdir(parents=True)
    words = ["probe", "leaks.py", "--head", "path:pond", "--python", VERSION, "--out", str(out), "--jobs", "2"]
    return subprocess.Popen(
        [*COMMAND, *words, *more],
        cwd=project,
        env={**os.environ, MARK: mark, "TMPDIR": str(out / "tmp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def lines(journal: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return journal.read_bytes().count(b"\n")
    return 0


def kill_the_host(project: Path, out: Path, moment: int, kind: str) -> None:
    """Kill the host when so many lines are recorded (0: as soon as the worker is there)."""
    mark = uuid.uuid4().hex
    host = run(project, out, mark, "-k", f"[{kind}]")
    journal = out / store.JOURNAL

    def reached() -> bool:
        if moment:
            return lines(journal) >= moment
        return any("stormdrain.worker" in words for words in marked(mark).values())

    while host.poll() is None and not reached():
        time.sleep(0.002)
    recorded = lines(journal)
    host.kill()
    assert left_after(mark, 2) == {}
    assert named(mark) == {}
    host.communicate(timeout=60)
    assert host.returncode == -signal.SIGKILL, "the moment came before the end"
    assert list((out / "tmp").glob("stormdrain-*/t0*")) == []
    run_there = store.load_run(out)
    assert run_there.interrupted
    assert len(run_there.trials) + len(run_there.cells) >= recorded - 1
    assert run_there.verdict not in (Verdict.PASS, Verdict.NA)


@pytest.mark.parametrize(("moment", "kind"), [(0, "nothing"), (1, "child"), (6, "daemon"), (9, "killed")])
def test_a_host_that_is_killed_leaves_nothing_but_its_record(
    project: Path, tmp_path: Path, moment: int, kind: str
) -> None:
    kill_the_host(project, tmp_path / "out", moment, kind)


@pytest.mark.long
def test_a_host_that_is_killed_at_fifty_moments_leaves_nothing_but_its_records(project: Path, tmp_path: Path) -> None:
    for moment in range(50):
        kill_the_host(project, tmp_path / f"out{moment}", moment // 2, KINDS[moment % len(KINDS)])
