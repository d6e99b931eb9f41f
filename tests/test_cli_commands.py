"""The small commands: explain, doctor, init, merge; and that a gate refuses what it cannot run."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from building import failing_cell, failing_trial, passing_cell, run
from stormdrain import store
from stormdrain.cli import checkup
from stormdrain.cli.advice import USUALLY
from stormdrain.cli.doctor import examine
from stormdrain.cli.explain import known
from stormdrain.cli.init import read_target
from stormdrain.cli.merge import merge_runs
from stormdrain.cli.mutate import read_shard
from stormdrain.compare import KINDS
from stormdrain.errors import UsageError
from stormdrain.expectations import CHECKS
from stormdrain.gate import rules as gate_rules
from stormdrain.gate.config import load_config
from stormdrain.model import MutantRecord, TestResult, Verdict
from stormdrain.mutation.operators import OPERATORS
from stormdrain.revisions import find_interpreters
from test_cli import keep, stormdrain


def test_every_name_that_a_report_prints_is_explained() -> None:
    from stormdrain import expectations, storms

    names = known()
    for name in (*expectations.names(), *storms.names(), *KINDS, *(verdict.value for verdict in Verdict)):
        assert names[name][1], name


def test_every_operator_rule_and_source_of_mutants_is_explained() -> None:
    names = known()
    assert {name for name, (kind, _) in names.items() if kind == "operator"} == set(OPERATORS)
    rules = {
        node.args[0].value
        for path in Path(gate_rules.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "RuleResult"
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(rules) >= 8
    assert {name for name in rules if names[name][0] != "rule of the gate"} == set()
    assert set(USUALLY) == set(CHECKS)


def test_explain_says_what_to_do_next(tmp_path: Path) -> None:
    told = " ".join(stormdrain("explain", "child-reaped", cwd=tmp_path).stdout.split())
    assert "Usually:" in told
    assert 'expect={"child-reaped": na("why")}' in told
    assert "stormdrain probe --storm gc" in stormdrain("explain", "gc", cwd=tmp_path).stdout
    shown = stormdrain("explain", "drop-shield", cwd=tmp_path).stdout
    assert "  - await asyncio.shield(task)\n  + await task\n" in shown
    both = stormdrain("explain", "Unresolved", cwd=tmp_path).stdout
    assert "UNRESOLVED (verdict)" in both
    assert "unresolved (rule of the gate)" in both


def test_explain_takes_names_of_several_words_in_any_case(tmp_path: Path) -> None:
    done = stormdrain("explain", "still", "Failing", cwd=tmp_path)
    assert done.stdout.startswith("still failing (base against head)\n")
    unknown = stormdrain("explain", "child-repaed", cwd=tmp_path, code=2)
    assert "did you mean 'child-reaped'?" in unknown.stderr
    listing = stormdrain("explain", cwd=tmp_path, code=0).stdout
    assert "cancel-sweep" in listing
    assert max(map(len, listing.splitlines())) <= 80


def test_doctor_runs_the_canaries_on_an_interpreter_and_writes_down_what_it_saw(tmp_path: Path) -> None:
    done = stormdrain("doctor", "--python", sys.executable, "--out", "here", cwd=tmp_path, code=None)
    rows = json.loads((tmp_path / "here" / "doctor.json").read_text())
    assert {row["state"] for row in rows} <= {"ok", "limit", "bad"}
    assert done.returncode == (2 if any(row["state"] == "bad" for row in rows) else 0)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    told = [row["text"] for row in rows if row["what"] == f"canaries {version}" and row["state"] == "ok"]
    (on_asyncio,) = [text for text in told if text.startswith("asyncio: ")]
    (of_services,) = [text for text in told if text.startswith("service: ")]
    checks = CHECKS.values()
    # One more: cancellation-delivered has another canary for what the probe itself cancels.
    asked = 1 + sum(check.of("async") is not None for check in checks) - (sys.version_info < (3, 11))
    assert on_asyncio.startswith(f"asyncio: {asked} of {asked} flagged")
    of = sum(check.of("service") is not None for check in checks)
    assert of_services.startswith(f"service: {of} of {of} flagged")


def test_doctor_tells_a_canary_that_was_not_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    (python,) = find_interpreters([sys.executable])
    seen = checkup.Seen(python, "asyncio", 3, 18, "the check no-orphans did not flag its canary here")
    monkeypatch.setattr(checkup, "check_up", lambda interpreters: [seen])
    (row,) = [row for row in examine((sys.executable,)) if row.what.startswith("canaries") and row.state != "limit"]
    assert row.state == "bad"
    assert "no-orphans did not flag" in row.text


def test_doctor_says_what_keeps_it_from_running_here(tmp_path: Path) -> None:
    done = stormdrain("doctor", "--no-canaries", cwd=tmp_path, code=2, GITHUB_EVENT_NAME="pull_request_target")
    assert "stormdrain runs no code here" in " ".join(done.stdout.split())
    assert "canaries" not in done.stdout
    there = stormdrain("doctor", "--no-canaries", cwd=tmp_path, code=None)
    assert "python 3." in there.stdout
    assert "`stormdrain init package.module:Class.close`" in " ".join(there.stdout.split())
    nowhere = stormdrain("doctor", "--python", "3.99", cwd=tmp_path, code=2)
    assert "3.99" in nowhere.stdout


LINK = """
import asyncio
from .base import Base

class Link(Base):
    def __init__(self, host, *, port=25, retries=3):
        self.host, self.port = host, port

    async def connect(self, timeout):
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def aclose(self):
        self.writer.close()
        await self.writer.wait_closed()
"""
SERVER = """
import asyncio

class LSPServer:
    def __init__(self, settings): ...
    async def start_io(self, cmd, *args):
        self.process = await asyncio.create_subprocess_exec(cmd, stdin=-1)
    def close(self): ...
    async def stop(self):
        self.process.kill()
        await self.process.wait()

async def fetch(url, *, retries): ...
"""


def package(folder: Path) -> None:
    inside = folder / "src" / "pkg" / "inner"
    inside.mkdir(parents=True)
    (folder / "src" / "pkg" / "__init__.py").write_text("raise SystemExit\nfrom .inner import *\n")
    (inside / "__init__.py").write_text("from ._link import Link as Link\nfrom .server import LSPServer, fetch\n")
    (inside / "_link.py").write_text(LINK)
    (inside / "server.py").write_text(SERVER)


def test_init_reads_how_a_target_is_built_opened_and_closed_and_runs_nothing_of_it(tmp_path: Path) -> None:
    package(tmp_path)
    stormdrain("init", "pkg:Link", cwd=tmp_path)
    link = (tmp_path / "probes" / "link.py").read_text()
    assert '@probe(operation="aclose")' in link
    assert "    peer = case.peer()\n" in link
    assert "    subject = Link(host=peer.host, port=peer.port)\n    await subject.connect(timeout=1.0)\n" in link
    done = stormdrain("init", "pkg:LSPServer", cwd=tmp_path)
    server = (tmp_path / "probes" / "lsp_server.py").read_text()
    assert '@probe(operation="stop")' in server
    assert 'child = case.child(on_eof="stay")' in server
    assert "    await subject.start_io(cmd=child.path)\n    await child.ready()\n" in server
    assert "fill in: settings" in done.stdout
    done = stormdrain("init", "pkg:fetch", cwd=tmp_path)
    assert "fill in: retries" in done.stdout
    fetch = (tmp_path / "probes" / "fetch.py").read_text()
    assert 'return await fetch(url=f"tcp://{subject.address}", retries=None)' in fetch
    for text in (link, server, fetch):
        compile(text, "probe", "exec")


def test_init_names_the_nearest_method_unless_a_base_class_may_have_it(tmp_path: Path) -> None:
    package(tmp_path)
    wrong = stormdrain("init", "pkg:LSPServer.stopp", cwd=tmp_path, code=2)
    assert "did you mean LSPServer.stop?" in wrong.stderr
    assert not (tmp_path / "probes").exists()
    stormdrain("init", "pkg:Link.leave", cwd=tmp_path)
    assert 'operation="leave"' in (tmp_path / "probes" / "link.py").read_text()


def test_init_of_an_installed_package_names_its_release(tmp_path: Path) -> None:
    done = stormdrain("init", "anyio:Event.wait", cwd=tmp_path)
    assert f"stormdrain probe probes/event.py --head pypi:anyio=={importlib.metadata.version('anyio')}" in done.stdout


def test_init_writes_a_probe_that_is_python_and_a_gate_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"  # kept\n')
    done = stormdrain("init", "pkg.mod:TidyPool.aclose", cwd=tmp_path)
    script = tmp_path / "probes" / "tidy_pool.py"
    assert "probes/tidy_pool.py" in done.stdout
    text = script.read_text()
    compile(text, str(script), "exec")
    assert 'operation="aclose"' in text
    assert "from pkg.mod import TidyPool" in text
    config = load_config(tmp_path / "pyproject.toml")
    assert config.plan.probes == ("probes",)
    assert (tmp_path / "pyproject.toml").read_text().startswith('[project]\nname = "x"  # kept\n')


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    stormdrain("init", "pkg:serve", cwd=tmp_path)
    before = (tmp_path / "probes" / "serve.py").read_text()
    compile(before, "serve.py", "exec")
    again = stormdrain("init", "pkg:serve", cwd=tmp_path, code=2)
    assert "already" in again.stderr
    assert (tmp_path / "probes" / "serve.py").read_text() == before


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ("a.b:C", ("a.b", "C", "close")),
        ("a:C.stop", ("a", "C", "stop")),
        ("a:run", ("a", "run", "")),
    ],
)
def test_targets_are_read(target: str, read: tuple[str, str, str]) -> None:
    assert read_target(target) == read


@pytest.mark.parametrize("target", ["a.b.C", "a:", ":C", "a:C.d.e", "a-b:C", "a:1"])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="names no class"):
        read_target(target)


def mutant(python: str, outcome: str) -> MutantRecord:
    matrix = {python: {"test_a": TestResult("failed", "boom")}} if outcome == "caught" else {}
    return MutantRecord(
        "m1", "no-scope", "plan", "edit", "a.py", "A.close", "", outcome={python: outcome}, matrix=matrix
    )


def test_shards_become_one_run_with_one_verdict(tmp_path: Path) -> None:
    keep(
        tmp_path / "a",
        run(passing_cell("aaaaaaaa", "base"), passing_cell("bbbbbbbb", "head"), base="pypi:x==1"),
    )
    other = run(
        passing_cell("cccccccc", "base", python="3.12.1"),
        failing_cell("dddddddd", "head", python="3.12.1"),
        trials=(failing_trial("dddddddd"),),
        base="pypi:x==1",
    )
    keep(tmp_path / "b", other)
    done = stormdrain("merge", "a", "b", "--out", "whole", cwd=tmp_path, code=1)
    assert "regressed" in done.stdout
    whole = store.load_run(tmp_path / "whole")
    assert len(whole.cells) == 4
    assert whole.base == "pypi:x==1"
    assert whole.trials == other.trials
    assert whole.exit_code == 1


def test_a_mutant_of_two_shards_has_the_outcomes_of_both() -> None:
    one, two = run(mutants=(mutant("3.11", "missed"),)), run(mutants=(mutant("3.12", "caught"),))
    (merged,) = merge_runs([(Path("a"), one), (Path("b"), two)]).mutants
    assert merged.outcome == {"3.11": "missed", "3.12": "caught"}
    assert list(merged.matrix) == ["3.12"]


def test_runs_that_contradict_each_other_are_not_merged() -> None:
    with pytest.raises(UsageError, match="different revisions"):
        merge_runs([(Path("a"), run(head="pypi:x==1")), (Path("b"), run(head="pypi:x==2"))])
    with pytest.raises(UsageError, match="in one run and PASS in another"):
        merge_runs([(Path("a"), run(failing_cell())), (Path("b"), run(passing_cell()))])
    with pytest.raises(UsageError, match="missed in one run and caught"):
        merge_runs(
            [
                (Path("a"), run(mutants=(mutant("3.11", "missed"),))),
                (Path("b"), run(mutants=(mutant("3.11", "caught"),))),
            ]
        )


def test_a_gate_without_configuration_says_what_to_add(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    done = stormdrain("gate", cwd=tmp_path, code=2)
    assert "no [tool.stormdrain]" in done.stderr
    assert "--config" in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.stormdrain]\nbase = 'pypi:x==1'\n")
    empty = stormdrain("gate", cwd=tmp_path, code=2)
    assert "nothing to run" in empty.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.stormdrain.gate]\nprobes = ['nowhere']\n")
    gone = stormdrain("gate", cwd=tmp_path, code=2)
    assert "nowhere" in gone.stderr


def test_an_interpreter_that_is_not_optional_must_be_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.stormdrain.gate]\nprobes = ['p']\npythons = ['3.99']\n")
    done = stormdrain("gate", cwd=tmp_path, code=2)
    assert "3.99" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_an_unknown_storm_gets_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "probes").mkdir()
    done = stormdrain("probe", "--storm", "cancel-sweap", cwd=tmp_path, code=2)
    assert "did you mean 'cancel-sweep'?" in done.stderr


def test_an_unknown_kind_of_mutant_gets_the_nearest_one(tmp_path: Path) -> None:
    done = stormdrain("mutate", "--kind", "plan", "revret", "--tests", "t", cwd=tmp_path, code=2)
    assert "did you mean 'revert'?" in done.stderr


def test_a_shard_is_a_part_of_a_whole() -> None:
    assert read_shard(None) == (1, 1)
    assert read_shard("2/4") == (2, 4)
    for wrong in ("0/4", "5/4", "1", "a/b", "-1/2"):
        with pytest.raises(UsageError, match="no shard"):
            read_shard(wrong)


def test_a_probe_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = stormdrain("probe", cwd=tmp_path, code=2)
    assert "where: probes" in done.stderr
    assert "stormdrain init" in done.stderr


def test_init_of_a_name_that_a_module_does_not_have_writes_nothing(tmp_path: Path) -> None:
    package(tmp_path)
    wrong = stormdrain("init", "pkg.inner.server:LSPServr", cwd=tmp_path, code=2)
    assert "pkg.inner.server has no 'LSPServr'" in wrong.stderr
    assert "did you mean pkg.inner.server:LSPServer?" in wrong.stderr
    assert not (tmp_path / "probes").exists()


def test_init_beside_a_pyproject_that_is_not_toml_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x\n')
    wrong = stormdrain("init", "pkg:Link", cwd=tmp_path, code=2)
    assert "not TOML" in wrong.stderr
    assert not (tmp_path / "probes").exists()


def test_init_into_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    wrong = stormdrain("init", "pkg:Link", "--out", "file/probes", cwd=tmp_path, code=2)
    assert "the folder cannot be made" in wrong.stderr
