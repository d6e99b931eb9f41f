"""A gate that runs again takes what it found before, where nothing that it depends on has changed."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from building import failing_cell, failing_trial, passing_cell
from revising import write
from stormdrain import store
from stormdrain.known import Known, folder_digest, key_of
from stormdrain.model import Verdict
from stormdrain.revisions import Cache
from test_cli import stormdrain
from test_cli_end_to_end import GATE, PROBE, TIDY, VERSION, project

__all__ = ["project"]

TESTS = """
import asyncio
from pond.pump import Pump

def test_close_ends_the_task():
    async def body():
        subject = Pump()
        await subject.start()
        await subject.close()
        await asyncio.sleep(0)
        assert subject.task.cancelled()
    asyncio.run(body())
"""
WITH_TESTS = (
    GATE.replace("PYTHON", VERSION).replace('optional_pythons = ["3.99"]\n', "")
    + 'tests = ["tests"]\nmutants = ["revert"]\nmax_survivors = 9\n\n'
    + '[tool.stormdrain.environment]\nrequires = ["pytest"]\n'
)


@pytest.fixture
def gated(project: Path) -> Path:
    return write(project, {"gate.toml": WITH_TESTS, "tidy/tests/test_pump.py": TESTS})


def gate(project: Path, *more: str, out: str) -> tuple[store.Run, str]:
    done = stormdrain("gate", "--config", "gate.toml", "--out", out, *more, cwd=project)
    return store.load_run(project / out), done.stdout


def taken(run: store.Run) -> int:
    return sum(any(note.expectation == "known" for note in result.notes) for result in run.cells)


@pytest.mark.long
def test_a_second_gate_takes_what_the_first_found_and_says_so(gated: Path) -> None:
    first, told = gate(gated, out="one")
    assert first.mutants
    assert taken(first) == 0
    assert "taken from" not in told
    second, told = gate(gated, out="two")
    assert taken(second) == len(second.cells) == 2
    assert all(one.taken == (VERSION,) for one in second.mutants)
    assert "known: taken from a run of" in told
    assert f"{len(second.mutants)} mutants: results taken from earlier runs" in told
    assert [(one.cell, one.verdict, one.findings) for one in second.cells] == [
        (one.cell, one.verdict, one.findings) for one in first.cells
    ]
    assert {one.token for one in second.trials} == {one.token for one in first.trials}
    fresh, _ = gate(gated, "--fresh", out="three")
    assert taken(fresh) == 0
    assert not any(one.taken for one in fresh.mutants)


@pytest.mark.long
def test_a_changed_head_is_run_again_and_base_with_it(gated: Path) -> None:
    gate(gated, out="one")
    write(gated, {"tidy/src/pond/pump.py": TIDY + "\n# another head\n"})
    second, _ = gate(gated, out="two")
    assert taken(second) == 0


@pytest.mark.long
def test_an_interrupted_gate_ends_probes_and_suites_and_keeps_what_was_found(gated: Path) -> None:
    command = [sys.executable, "-c", "from stormdrain.cli import main; main()"]
    process = subprocess.Popen(
        [*command, "gate", "--config", "gate.toml", "--fresh", "--out", "out"],
        cwd=gated,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = gated / "out" / store.JOURNAL
    family: dict[int, psutil.Process] = {}
    while process.poll() is None and not (journal.exists() and b'["trial"' in journal.read_bytes()):
        family.update((one.pid, one) for one in psutil.Process(process.pid).children(recursive=True))
    family.update((one.pid, one) for one in psutil.Process(process.pid).children(recursive=True))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert store.load_run(gated / "out").interrupted
    assert not [one for one in family.values() if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


def test_the_key_of_a_cell_changes_with_all_that_it_depends_on(tmp_path: Path) -> None:
    script = write(tmp_path, {"probes/pump.py": PROBE, "probes/helper.py": "x = 1\n"}) / "probes" / "pump.py"
    asked = {"storms": [], "budget_seconds": 5.0, "seed": 0}
    keys = [key_of(asked, script, ["base", "head"])]
    keys.append(key_of({**asked, "seed": 1}, script, ["base", "head"]))
    keys.append(key_of(asked, script, ["base", "another"]))
    write(tmp_path, {"probes/helper.py": "x = 2\n"})
    keys.append(key_of(asked, script, ["base", "head"]))
    assert len(set(keys)) == 4
    assert keys[3] == key_of(asked, script, ["base", "head"])


def test_what_is_compiled_or_hidden_does_not_count_as_content(tmp_path: Path) -> None:
    write(tmp_path, {"one.py": "1"})
    before = folder_digest(tmp_path)
    write(tmp_path, {"__pycache__/one.pyc": "x", ".hidden/file": "y"})
    assert folder_digest(tmp_path) == before
    write(tmp_path, {"two.py": "1"})
    assert folder_digest(tmp_path) != before


def test_what_a_cell_came_to_last_takes_the_place_of_what_was_kept_before(tmp_path: Path) -> None:
    known = Known(Cache(tmp_path), "2030-01-02")
    known.put("key", passing_cell(), [])
    known.put("key", failing_cell(), [failing_trial()])
    kept = known.get("key")
    assert kept is not None
    assert kept.result.verdict is Verdict.FAIL
    assert len(kept.trials) == 1
    known.put("other", replace(failing_cell(), error="it broke"), [])
    assert known.get("other") is None


@pytest.mark.long
def test_mutate_says_why_there_is_nothing_to_do(project: Path) -> None:
    write(project, {"tidy/tests/test_pump.py": TESTS})
    same = ("mutate", "--base", "path:tidy", "--head", "path:tidy", "--python", VERSION)
    done = stormdrain(*same, "--tests", "tests", cwd=project, code=3)
    assert "no mutant: the diff from path:tidy to path:tidy changes no Python statement" in " ".join(
        done.stdout.split()
    )
    wrong = stormdrain(*same, "--tests", "nowhere", cwd=project, code=2)
    assert "these tests are not there: nowhere" in wrong.stderr
    other = ("mutate", "--base", "path:leaky", "--head", "path:tidy", "--python", VERSION, "--tests", "tests")
    bare = stormdrain(*other, cwd=project, code=4)
    assert "pytest is not in the environment of the code under test" in bare.stderr
    assert "--with pytest" in bare.stderr
    assert "Traceback" not in bare.stderr
