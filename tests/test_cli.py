"""The command line as a user meets it: real processes, exit codes, and nothing that is not theirs to read."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from building import failing_cell, failing_trial, passing_cell, run
from stormdrain import store
from stormdrain.cli.app import COMMANDS
from stormdrain.cli.options import anything, budget, is_name, is_python, listed, spread
from stormdrain.errors import UsageError
from stormdrain.model import MutantRecord, Run

TESTS = Path(__file__).parent


def stormdrain(*args: str, cwd: Path, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", "from stormdrain.cli import main; main()", *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert code is None or done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def keep(folder: Path, whole: Run) -> Path:
    folder.mkdir(parents=True)
    store.Writer(folder, run()).finish(whole)
    return folder


def test_help_names_the_commands_and_fits_80_columns(tmp_path: Path) -> None:
    text = stormdrain("--help", cwd=tmp_path).stdout
    assert "report" in text
    assert max(map(len, text.splitlines())) <= 80


HEAVY = {
    "rich",
    "tomlkit",
    "packaging",
    "psutil",
    "unidiff",
    "coverage",
    "mutmut",
    "hypothesis",
    "pytest",
    "yaml",
    "asyncio",
}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_imports_nothing_heavy(tmp_path: Path, name: str) -> None:
    words = ["-X", "importtime", "-c", "from stormdrain.cli import main; main()", *([name] if name else []), "--help"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "click" in imported
    assert not imported & HEAVY
    if not name:
        assert not {
            one for one in imported if one.startswith(("stormdrain.store", "stormdrain.model", "stormdrain.lab"))
        }


def test_the_examples_of_each_command_are_commands() -> None:
    for name, entry in COMMANDS.items():
        assert entry.examples, name
        command = importlib.import_module(f"stormdrain.cli.{name}").command
        for example, _ in entry.examples:
            words = shlex.split(example)
            assert words[0] == name
            command.make_context(name, words[1:])


def test_each_command_that_is_listed_has_a_help_of_80_columns(tmp_path: Path) -> None:
    listed_there = stormdrain("--help", cwd=tmp_path).stdout
    for name in COMMANDS:
        if f"\n  {name} " in listed_there:
            text = stormdrain(name, "--help", cwd=tmp_path).stdout
            assert "--out DIR" in text
            assert max(map(len, text.splitlines())) <= 80
            for example, _ in COMMANDS[name].examples:
                assert f"stormdrain {example}" in text


def test_without_click_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(\"No module named 'click'\", name='click')")
    done = stormdrain("--help", cwd=tmp_path, code=2, PYTHONPATH=str(tmp_path))
    assert done.stderr == "pip install 'stormdrain[cli]'\n"


def test_an_unknown_command_gets_the_nearest_one(tmp_path: Path) -> None:
    done = stormdrain("reprot", cwd=tmp_path, code=2)
    assert "did you mean 'report'?" in done.stderr
    assert done.stdout == ""


def test_an_unknown_option_gets_the_nearest_one(tmp_path: Path) -> None:
    done = stormdrain("report", "--fromat", "json", cwd=tmp_path, code=2)
    assert "--format" in done.stderr


def test_report_shows_the_latest_run_in_80_columns_and_exits_0(tmp_path: Path) -> None:
    keep(tmp_path / "reports" / "a", run(failing_cell(), trials=(failing_trial(),)))
    done = stormdrain("report", cwd=tmp_path)
    assert "child-reaped" in done.stdout
    assert "stormdrain replay aaaaaaaa/cancel-sweep/f:cancel@3" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stderr == ""
    assert "\x1b" not in done.stdout


def test_report_gives_json_that_strict_parsers_read(tmp_path: Path) -> None:
    folder = keep(tmp_path / "a", run(passing_cell(), notes=("\udc80",), seconds=float("inf")))
    done = stormdrain("report", str(folder), "--format", "json", cwd=tmp_path)

    def refuse(name: str) -> float:
        raise AssertionError(name)

    data = json.loads(done.stdout, parse_constant=refuse)
    assert data["notes"] == ["\\udc80"]
    assert data["seconds"] == sys.float_info.max
    assert data["cells"][0]["cell"]["probe"] == "transport"


def test_several_reports_go_into_one_folder_and_mutants_of_each_interpreter_into_a_file(tmp_path: Path) -> None:
    mutant = MutantRecord("id", "no-kill", "plan", "drop", "pkg/mod.py", "close", "-a\n", outcome={})
    kept = run(mutants=(dataclasses.replace(mutant, outcome={"3.11.7": "missed", "3.12.1": "caught"}),))
    folder = keep(tmp_path / "a", kept)
    names = ("sarif", "stryker", "junit")
    done = stormdrain("report", str(folder), "--format", *names, "--out", "ci", cwd=tmp_path)
    files = ["report.sarif", "mutation.json", "junit.xml", "mutation-3.11.7.json", "mutation-3.12.1.json"]
    assert done.stdout.split() == [f"ci/{name}" for name in files]

    def status(name: str) -> str:
        (sheet,) = json.loads((tmp_path / "ci" / name).read_text())["files"].values()
        return str(sheet["mutants"][0]["status"])

    assert [status(name) for name in files if name.startswith("mutation")] == ["Killed", "Survived", "Killed"]
    one = stormdrain("report", str(folder), "--format", "stryker", "--python", "3.11", cwd=tmp_path).stdout
    assert one == (tmp_path / "ci" / "mutation-3.11.7.json").read_text()
    gone = stormdrain("report", str(folder), "--format", "stryker", "--python", "3.14", cwd=tmp_path, code=2)
    assert "the run has 3.11.7, 3.12.1" in gone.stderr
    many = stormdrain("report", str(folder), "--format", "sarif", "junit", cwd=tmp_path, code=2)
    assert "--format sarif junit --out ci" in many.stderr


def test_report_prints_the_schema_of_what_is_stored(tmp_path: Path) -> None:
    made = json.loads(stormdrain("report", "--schema", cwd=tmp_path).stdout)
    assert made["definitions"]["Run"]["properties"]["schema"] == {"const": 1}


def test_report_into_a_folder_prints_the_path(tmp_path: Path) -> None:
    folder = keep(tmp_path / "a", run(passing_cell()))
    done = stormdrain("report", str(folder), "--format", "markdown", "--out", "deep/er", cwd=tmp_path)
    assert done.stdout == f"{Path('deep/er/report.md')}\n"
    assert "stormdrain: PASS" in (tmp_path / "deep" / "er" / "report.md").read_text()


def test_a_run_that_is_not_there_is_told_in_three_lines(tmp_path: Path) -> None:
    done = stormdrain("report", "nowhere", cwd=tmp_path, code=2)
    assert done.stderr.splitlines()[0] == "error: there is no run here"
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == ["error", "where", "to do"]


def test_a_reader_that_leaves_early_does_not_make_it_fail(tmp_path: Path) -> None:
    keep(tmp_path / "reports" / "a", run(*[failing_cell(f"{n:08x}") for n in range(400)]))
    call = f"{sys.executable} -c 'from stormdrain.cli import main; main()'"
    script = f"{call} report | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


WORK = """
import sys, os, time, signal, subprocess
sys.path.insert(0, {tests!r})
from pathlib import Path
from building import *
from stormdrain.cli.session import record, start_of
from stormdrain.cli.show import on_terminal
from stormdrain.errors import BaselineError
from stormdrain.gate.decide import conclude
import dataclasses
def work(listen):
    listen("getting ready")
    listen(failing_trial())
    {body}
    listen(failing_cell())
    return conclude(dataclasses.replace(start, cells=(failing_cell(),), trials=(failing_trial(),)))
start = start_of(head="worktree")
from stormdrain.cli import app
class Fake: pass
def call(*a, **k): return record("probe", Path("out"), start, work, on_terminal)
app.stormdrain.main = call
sys.exit(app.run([]))
"""


def session(tmp_path: Path, body: str = "pass") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORK.format(tests=str(TESTS), body=body)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_run_with_findings_exits_1_and_is_recorded(tmp_path: Path) -> None:
    process = session(tmp_path)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err == "FAIL transport (3.11.7 asyncio): 14 trials, 1 findings, 0.0 s\n"
    assert out.endswith("run.json: out/run.json\n")
    loaded = store.load_run(tmp_path / "out")
    assert loaded.exit_code == 1
    assert loaded.environment == {
        "pypi:claude-agent-sdk==0.2.143 3.11.7": ("anyio==4.15.0", "claude-agent-sdk==0.2.143")
    }
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["run.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_found_and_ends_its_children(tmp_path: Path, number: int) -> None:
    body = (
        "child = subprocess.Popen(['sleep', '300'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL); "
        "print(child.pid, file=sys.stderr, flush=True); child.wait()"
    )
    process = session(tmp_path, body)
    assert process.stderr is not None
    pid = int(process.stderr.readline())
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after 1 trial" in out
    assert "FOUND child-reaped under cancel-sweep: 1 schedule, not confirmed" in out
    assert "out" in err
    loaded = store.load_run(tmp_path / "out")
    assert loaded.interrupted
    assert loaded.trials == (failing_trial(),)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_our_own_bug_exits_70_with_the_traceback_in_the_folder(tmp_path: Path) -> None:
    process = session(tmp_path, "raise ZeroDivisionError('\\x1b[2J')")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 70
    assert "ZeroDivisionError" in err
    assert "\x1b" not in err
    assert "Traceback" not in err
    assert "Traceback" in (tmp_path / "out" / "traceback.txt").read_text()
    assert store.load_run(tmp_path / "out").exit_code == 70
    assert store.load_run(tmp_path / "out").trials == (failing_trial(),)


def test_an_error_told_in_words_is_recorded_and_gives_its_code(tmp_path: Path) -> None:
    process = session(tmp_path, "raise BaselineError('calm hung', where='transport', todo='look at it')")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert err == "error: calm hung\n  where: transport\n  to do: look at it\n"
    loaded = store.load_run(tmp_path / "out")
    assert loaded.exit_code == 4
    assert "calm hung" in loaded.errors[0]


def test_options_take_several_values_after_one_name() -> None:
    many = {"--python": is_python, "--storm": is_name, "--tests": anything}
    args = ["--python", "3.11", "3.12.1", "/usr/bin/python3", "probes/x.py", "--storm=calm", "scope", "./p"]
    assert spread(args, many) == [
        *("--python", "3.11", "--python", "3.12.1", "--python", "/usr/bin/python3", "probes/x.py"),
        *("--storm=calm", "--storm", "scope", "./p"),
    ]
    assert spread(["--tests", "a", "b", "--base", "x"], many) == [
        "--tests",
        "a",
        "--tests",
        "b",
        "--base",
        "x",
    ]
    assert listed(["3.11,3.12", "3.11", " 3.13 "]) == ("3.11", "3.12", "3.13")


def test_a_budget_is_trials_or_a_time() -> None:
    assert budget("200")[0] == 200
    assert budget("30s") == (None, 30.0)
    assert budget("1.5m") == (None, 90.0)
    for wrong in ("0", "soon", "1.5", "-3", "5d"):
        with pytest.raises(UsageError, match="budget"):
            budget(wrong)
