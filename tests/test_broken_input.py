"""What a user can get wrong, through the command line: one clear message, where it is, what to do, the right exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from conftest import MARK, left_after
from revising import pond, write
from stormdrain import store
from stormdrain.model import Verdict
from test_cli import stormdrain

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
PUMP = """
import asyncio

class Pump:
    async def close(self):
        await asyncio.sleep(0.1)

    def now(self):
        return None
"""
PROBE = """
import asyncio, os, threading
from stormdrain import probe
from pond.pump import Pump

@probe(operation="close", storms=["cancel-storm"])
async def pump(case):
    yield Pump()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    pond(folder / "pond", files={"src/pond/pump.py": PUMP})
    return write(folder, {"probes/pump.py": PROBE})


def tell(project: Path, *words: str, code: int, head: str = "path:pond", python: str = VERSION) -> str:
    """All that a run of `stormdrain probe` says, which ends with this code and without a traceback."""
    words = ("probe", *words, "--head", head, "--python", python, "--no-confirm")
    done = stormdrain(*words, cwd=project, code=code)
    assert "Traceback" not in done.stdout
    return " ".join((done.stderr + done.stdout).split())


# -- the probe script ------------------------------------------------------------

NOT_LOADED = {
    "does not import": ("import pnod", "No module named 'pnod'", ":1"),
    "raises": ("from stormdrain import probe\nraise RuntimeError('boom')", "RuntimeError: boom", ":2"),
    "leaves": ("import sys\nfrom stormdrain import probe\nsys.exit(3)", "SystemExit: 3", ":3"),
    "is no Python": ("from stormdrain import probe\ndef pump(:", "is not Python", ":2"),
    "holds no probe": ("import stormdrain", "holds no probe", ""),
    "is not asynchronous": (
        PROBE.replace("async def", "def"),
        "A probe builds its subject on a loop.",
        "",
    ),
    "asks for what there is not": (
        "from stormdrain import probe\nprobe(operation='close', actor=2)",
        "unexpected keyword argument 'actor'",
        ":2",
    ),
}


@pytest.mark.parametrize("what", NOT_LOADED)
def test_a_probe_script_that_cannot_be_loaded(project: Path, what: str) -> None:
    text, message, line = NOT_LOADED[what]
    path = project / f"script_{what.replace(' ', '_')}.py"
    path.write_text(text)
    said = tell(project, path.name, code=2)
    assert said.startswith("error: ")
    assert message in said
    assert f"where: {path}{line}" in said
    assert "to do: " in said


def built(body: str, operation: str = "close", head: str = "async def pump(case):") -> str:
    lines = "\n".join("    " + text for text in body.splitlines())
    return PROBE.partition("@probe")[0] + f'@probe(operation="{operation}")\n{head}\n{lines}\n'


NOT_BUILT = {
    "raises": (built("raise ValueError('no such pump')\nyield"), 4, "ValueError: no such pump at", ":8 in pump"),
    "can never go on": (
        built("await asyncio.Event().wait()\nyield Pump()"),
        4,
        "hangs while it builds its subject (deadlock",
        ":8 in pump",
    ),
    "takes for ever": (
        built("while True:\n    await asyncio.sleep(3)\nyield Pump()"),
        4,
        "hangs while it builds its subject (not back within the bound",
        ":9 in pump",
    ),
    "dies": (built("os._exit(4)\nyield"), 4, "the process died while the probe built its subject", "status 4"),
    "yields nothing": (built("return\nyield"), 2, "The probe yields nothing.", ""),
    "lacks the operation": (built("yield Pump()", "aclose"), 2, "The subject (Pump) has no operation aclose", ""),
    "has an operation that is not asynchronous": (
        built("yield Pump()", "now"),
        2,
        "The operation now is not asynchronous: it gave NoneType",
        "",
    ),
    "misspells": (
        built("case.child('tool', sigtrem='ignore')\nyield Pump()"),
        2,
        "a script has no 'sigtrem' (case.child('tool'))",
        "did you mean 'sigterm'?",
    ),
    "does not end dispose": (
        built("yield Pump()\nawait asyncio.Event().wait()"),
        4,
        "dispose does not end in calm",
        ":9 in pump",
    ),
    "raises in dispose": (
        built("yield Pump()\nraise KeyError('pump')"),
        4,
        "dispose raises in calm: KeyError: 'pump'",
        "",
    ),
}


@pytest.mark.parametrize("what", NOT_BUILT)
def test_a_probe_that_cannot_build_its_subject(project: Path, what: str) -> None:
    text, code, message, more = NOT_BUILT[what]
    path = project / f"build_{what.replace(' ', '_')}.py"
    path.write_text(text)
    said = tell(project, path.name, "--out", "out", code=code)
    assert message in said
    assert more in said
    assert "to do: " in said
    run = store.load_run(project / "out")
    assert (run.verdict, run.exit_code) == (Verdict.ERROR, code)


@pytest.mark.long
def test_a_probe_that_blocks_its_thread_while_it_builds_its_subject(project: Path) -> None:
    path = project / "build_blocks.py"
    path.write_text(built("threading.Event().wait()\nyield Pump()"))
    said = tell(project, path.name, code=4)
    assert "hangs while it builds its subject (blocked after" in said
    assert "build_blocks.py:8 in pump" in said


# -- what is named on the command line ----------------------------------------------


def test_a_revision_that_there_is_not(project: Path) -> None:
    said = tell(project, "probes", code=2, head="path:pnod")
    assert said.startswith("error: ")
    assert "pnod" in said
    assert "to do: " in said


def test_an_interpreter_that_there_is_not(project: Path) -> None:
    said = tell(project, "probes", code=2, python="3.99")
    assert "3.99" in said
    assert "to do: " in said


def test_a_script_a_storm_a_backend_and_a_probe_that_there_are_not(project: Path) -> None:
    assert "no probe script here" in tell(project, "prboes", code=2)
    assert "did you mean 'cancel-storm'?" in tell(project, "probes", "--storm", "cancel-strom", code=2)
    assert "to do: " in tell(project, "probes", "--backend", "curio", code=2)
    assert "No probe matched" in tell(project, "probes", "-k", "nobody", code=2)


OVERLAYS = {
    "symbol": ('[[edit]]\nmodule = "pond.pump"\nsymbol = "Pump.aclose"\nreplace = "x = 1"', "Pump.aclose"),
    "module": ('[[edit]]\nmodule = "pond.pmup"\nsymbol = "Pump.close"\nreplace = "x = 1"', "changes pond/pmup.py"),
    "text": ('[[edit]]\nmodule = "pond.pump"\nold = "sleep(7)"\nnew = "sleep(1)"', "sleep(7)"),
    "compile": (
        '[[edit]]\nmodule = "pond.pump"\nold = "sleep(0.1)"\nnew = "sleep(0.1"',
        "does not compile: '(' was never closed. where: pond/pump.py:6",
    ),
    "key": ('[[edit]]\nmodule = "pond.pump"\nsymbl = "Pump.close"', "symbl"),
    "toml": ("[[edit]\n", "Expected ']]'"),
}


@pytest.mark.parametrize("what", OVERLAYS)
def test_an_overlay_that_does_not_fit_or_compile(project: Path, what: str) -> None:
    text, message = OVERLAYS[what]
    write(project, {f"{what}.toml": text})
    said = tell(project, "probes", code=2, head=f"path:pond+{what}.toml")
    assert said.startswith("error: ")
    assert message in said
    assert f"{what}.toml" in said


def test_a_configuration_with_a_key_that_there_is_not(tmp_path: Path) -> None:
    pond(tmp_path, more="\n[tool.stormdrain.environment]\nextra = []\n", files={"probes/pump.py": PROBE})
    said = tell(tmp_path, "probes", code=2, head="path:.")
    assert "extra" in said
    assert "did you mean 'extras'?" in said
    assert "pyproject.toml" in said


@pytest.mark.parametrize("out", ["a-file/run", "/proc/run"])
def test_a_folder_that_cannot_be_written(project: Path, out: str) -> None:
    write(project, {"a-file": ""})
    said = tell(project, "probes", "--out", out, code=2)
    assert "the run cannot be written" in said
    assert f"where: {out}" in said
    assert "to do: " in said


# -- Ctrl-C -----------------------------------------------------------------------------


def test_an_interrupt_ends_everything_and_keeps_what_was_found(project: Path, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    words = ["probe", "probes", "--head", "path:pond", "--python", VERSION, "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [sys.executable, "-c", "from stormdrain.cli import main; main()", *words, "--time", "real"],
        cwd=project,
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = tmp_path / "out" / store.JOURNAL
    while process.poll() is None and not (journal.exists() and b'["trial"' in journal.read_bytes()):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted; what was found so far is in" in err
    run = store.load_run(tmp_path / "out")
    assert run.interrupted
    assert run.exit_code == 130
    assert run.trials
    assert run.verdict not in (Verdict.PASS, Verdict.NA)
    assert left_after(mark, 10) == {}
    assert "interrupted" in out
