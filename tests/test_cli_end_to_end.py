"""The whole way on a small project: probe, replay and gate, base against head, and Ctrl-C in the middle."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from revising import pond, write
from stormdrain import store
from stormdrain.model import Verdict
from test_cli import stormdrain

pytestmark = pytest.mark.long

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

PUMP = """
import asyncio

class Pump:
    async def start(self):
        self.task = asyncio.create_task(asyncio.sleep(3600))

    async def close(self):
        try:
            await asyncio.sleep(0.1)
        finally:
            CLEANUP
"""
PROBE = """
from stormdrain import probe
from pond.pump import Pump

@probe(operation="close", storms=["cancel-storm"])
async def pump(case):
    subject = Pump()
    await subject.start()
    yield subject
"""
TIDY = PUMP.replace("CLEANUP", "self.task.cancel()")
LEAKY = PUMP.replace("CLEANUP", "pass\n        self.task.cancel()")
GATE = """
[tool.stormdrain]
base = "path:leaky"
head = "path:tidy"
watched = ["3.11"]

[tool.stormdrain.gate]
probes = ["probes"]
pythons = ["PYTHON"]
optional_pythons = ["3.99"]
budget = "5s"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pond(tmp_path / "leaky", files={"src/pond/pump.py": LEAKY})
    pond(tmp_path / "tidy", files={"src/pond/pump.py": TIDY})
    return write(tmp_path, {"probes/pump.py": PROBE, "gate.toml": GATE.replace("PYTHON", VERSION)})


def probe(project: Path, *args: str, code: int) -> subprocess.CompletedProcess[str]:
    fixed = ("--python", VERSION, "--budget", "5s", "--out", "out")
    return stormdrain("probe", *fixed, *args, cwd=project, code=code)


def test_a_leak_is_found_told_and_replayed(project: Path) -> None:
    done = probe(project, "--head", "path:leaky", code=1)
    assert "FAIL no-leaked-tasks under cancel-storm" in done.stdout
    assert "pond/pump.py:" in done.stdout
    assert len(done.stderr.splitlines()) == 1
    (command,) = [line for line in done.stdout.splitlines() if line.startswith("  stormdrain replay ")]
    (token,) = shlex.split(command)[2:]
    again = stormdrain("replay", token, "--run", "out", cwd=project, code=1)
    assert again.stdout.startswith("FAIL cancel-storm\n")
    assert "operation starts" in again.stdout
    write(project, {"probes/pump.py": PROBE + "\n# changed\n"})
    stale = stormdrain("replay", token, "--run", "out", cwd=project, code=2)
    assert "another version" in stale.stderr


def test_base_against_head_tells_what_was_fixed_and_what_broke(project: Path) -> None:
    fixed = probe(project, "--base", "path:leaky", "--head", "path:tidy", code=0)
    assert "fixed no-leaked-tasks" in fixed.stdout
    broken = probe(project, "--base", "path:tidy", "--head", "path:leaky", code=1)
    assert "regressed" in broken.stdout
    kinds = {change.kind for change in store.load_run(project / "out").comparison if change.expectation}
    assert kinds == {"regressed"}


def test_a_gate_runs_by_its_file_alone(project: Path) -> None:
    done = stormdrain("gate", "--config", "gate.toml", "--out", "out", cwd=project)
    assert "all rules held" in done.stdout
    assert "3.99 not found" in done.stdout
    run = store.load_run(project / "out")
    assert run.verdict is Verdict.PASS
    assert run.base.endswith("leaky")
    assert all(rule.held for rule in run.rules)


def test_an_interrupt_in_the_middle_leaves_a_record_and_no_process(project: Path) -> None:
    command = [sys.executable, "-c", "from stormdrain.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "probe", "--head", "path:leaky", "--python", VERSION, "--out", "out"],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = project / "out" / store.JOURNAL
    while process.poll() is None and not (journal.exists() and b'["trial"' in journal.read_bytes()):
        os.sched_yield()
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert store.load_run(project / "out").interrupted
    assert not [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_what_init_writes_runs_as_it_is(tmp_path: Path) -> None:
    pond(tmp_path, files={"src/pond/pump.py": LEAKY})
    write(tmp_path, {"src/pond/__init__.py": "from .pump import Pump\n"})
    said = stormdrain("init", "pond:Pump", cwd=tmp_path).stdout
    words = shlex.split(said.split("`")[1])
    assert words == ["stormdrain", "probe", "probes/pump.py", "--head", "path:."]
    done = stormdrain(*words[1:], "--python", VERSION, "--budget", "5s", cwd=tmp_path, code=1)
    assert "FAIL no-leaked-tasks" in done.stdout
    assert "caution" not in done.stdout
