"""The gate in a maintainer's repository: a base, and pull requests of every kind that it must be right on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from revising import commit, git, pond, write
from stormdrain import store
from stormdrain.model import RuleResult, Run, Verdict
from test_cli import stormdrain

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
CLASS = """
import asyncio


class {name}:
    async def start(self):
        self.task = asyncio.create_task(asyncio.sleep(3600))

    async def close(self):
        try:
            await asyncio.sleep(0.1)
        finally:
            {cleanup}
"""
TIDY = "self.task.cancel()"
LEAKY = "await asyncio.sleep(0.1)\n            self.task.cancel()"
TEST = """
import asyncio

from pond.{module} import {name}


def test_close_ends_the_task():
    async def main():
        subject = {name}()
        await subject.start()
        await subject.close()
        await asyncio.sleep(0)
        return subject.task.cancelled()

    assert asyncio.run(main())
"""
SHARP = """
import asyncio

from pond.{module} import {name}


def test_close_ends_the_task_when_it_is_cancelled_twice():
    async def main():
        subject = {name}()
        await subject.start()
        closing = asyncio.create_task(subject.close())
        for _ in range(2):
            await asyncio.sleep(0.01)
            closing.cancel()
        await asyncio.wait([closing])
        await asyncio.sleep(0)
        return subject.task.cancelled()

    assert asyncio.run(main())
"""
PROBE = """
from stormdrain import probe
from pond.{module} import {name}


@probe(operation="close", storms=["cancel-storm"])
async def {module}(case):
    subject = {name}()
    await subject.start()
    yield subject
"""
RULES = f"""
[tool.stormdrain]
watched = ["{VERSION}"]

[tool.stormdrain.environment]
requires = ["pytest"]

[tool.stormdrain.gate]
probes = ["probes"]
tests = ["tests"]
mutants = ["revert"]
pythons = ["{VERSION}"]
budget = "5s"

[tool.stormdrain.gate.coverage]
union = "all"
"""


def source(name: str, cleanup: str) -> str:
    return CLASS.format(name=name, cleanup=cleanup)


def of(text: str, module: str) -> str:
    return text.format(module=module, name=module.capitalize())


def base_files(rules: str = RULES) -> dict[str, str]:
    return {
        "src/pond/pump.py": source("Pump", TIDY),
        "src/pond/drain.py": source("Drain", LEAKY),
        "tests/test_pump.py": of(TEST, "pump"),
        "tests/test_drain.py": of(TEST, "drain"),
        "probes/pump.py": of(PROBE, "pump"),
        "probes/drain.py": of(PROBE, "drain"),
    }


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all: the environment is made once."""
    return tmp_path_factory.mktemp("gates") / "cache"


@dataclass(frozen=True)
class Gated:
    """A gate that was run."""

    done: subprocess.CompletedProcess[str]
    run: Run

    def rule(self, name: str) -> RuleResult:
        (found,) = [one for one in self.run.rules if one.rule == name]
        return found

    @property
    def broken(self) -> set[str]:
        return {one.rule for one in self.run.rules if not one.held}


class Maintainer:
    """A repository with `main`, and what its maintainer does."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache

    def branch(self, files: Mapping[str, str], name: str = "pull", at: str = "main") -> None:
        git(self.folder, "checkout", "--quiet", "-b", name, at)
        write(self.folder, dict(files))
        commit(self.folder, name)

    def gate(self, *args: str, code: int | None, cwd: str = ".", **env: str) -> Gated:
        out = self.cache.parent / "out"
        done = stormdrain(
            "gate", "--out", str(out), *args, cwd=self.folder / cwd, code=code, STORMDRAIN_CACHE=str(self.cache), **env
        )
        return Gated(done, store.load_run(out))


@pytest.fixture
def here(tmp_path: Path, cache: Path) -> Maintainer:
    folder = pond(tmp_path / "repo", more=RULES, files=base_files())
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, "base")
    return Maintainer(folder, cache)


@pytest.mark.long
def test_a_pull_request_that_fixes_passes(here: Maintainer) -> None:
    here.branch({"src/pond/drain.py": source("Drain", TIDY), "tests/test_more.py": of(SHARP, "drain")})
    gated = here.gate(code=0)
    assert gated.run.verdict is Verdict.PASS
    assert gated.broken == set()
    assert "2 fixed" in gated.rule("findings").figure
    assert gated.rule("survivors").figure.startswith("0 of ")
    assert gated.rule("redgreen").figure == "new tests on base: 1 red"
    assert gated.rule("coverage").held
    assert any("merge base with main" in note for note in gated.run.notes)


@pytest.mark.long
def test_a_pull_request_that_regresses_fails_and_the_rule_says_where(here: Maintainer) -> None:
    here.branch({"src/pond/pump.py": source("Pump", LEAKY)})
    gated = here.gate(code=1)
    assert "findings" in gated.broken
    assert "2 regressed, 2 still failing" in gated.rule("findings").figure
    assert gated.rule("findings").look.startswith("stormdrain replay '")
    assert gated.rule("tests").held
    assert "tests" not in gated.broken


@pytest.mark.long
def test_a_pull_request_that_changes_tests_only_is_not_asked_for_what_it_cannot_have(here: Maintainer) -> None:
    here.branch({"tests/test_pump.py": of(TEST, "pump") + "\n\ndef test_more():\n    assert Pump\n"})
    gated = here.gate(code=0)
    assert gated.rule("tests").figure == "4 of the project's own are green"
    assert gated.rule("coverage").figure == "the diff touches no line that can run"
    assert gated.run.redgreen == ()
    assert gated.run.mutants == ()


@pytest.mark.long
def test_a_pull_request_that_loosens_the_gate_is_judged_by_the_rules_of_base(here: Maintainer) -> None:
    wishes = """
[[tool.stormdrain.accepted]]
id = "everything"
reason = "trust me"
until = 2099-01-01
"""
    loose = RULES.replace("budget", 'fail_on = ["UNRESOLVED"]\nmax_survivors = 99\nbudget').replace('"all"', "0")
    files = {
        "src/pond/pump.py": source("Pump", LEAKY),
        "pyproject.toml": (here.folder / "pyproject.toml").read_text().replace(RULES, loose) + wishes,
        "probes/pump.py": of(PROBE, "drain"),
        ".coveragerc": "[report]\nexclude_also = .*\n",
    }
    here.branch(files)
    gated = here.gate(code=1)
    assert {"findings", "survivors"} <= gated.broken
    assert any("base's rules were used" in note for note in gated.run.notes)
    assert any("proposed by head, not in force: accept everything" in note for note in gated.run.notes)
    assert gated.rule("coverage").figure.startswith("1 of 1 touched line")
    trusted = here.gate("--config-from", "head", code=1)
    assert trusted.broken == {"accepted"}  # what head wants accepted is not there
    assert "everything matches nothing" in trusted.rule("accepted").look


@pytest.mark.long
def test_a_pull_request_that_adds_a_probe_can_only_add_failures(here: Maintainer) -> None:
    files = {"src/pond/valve.py": source("Valve", LEAKY), "probes/valve.py": of(PROBE, "valve")}
    here.branch({**files, "tests/test_valve.py": of(TEST, "valve")})
    gated = here.gate(code=1)
    assert "findings" in gated.broken
    assert "2 N/A on base" in gated.rule("findings").figure
    assert any("head's new probe valve.py was added" in note for note in gated.run.notes)
    write(here.folder, {"src/pond/valve.py": source("Valve", TIDY)})
    assert here.gate(code=0).broken == set()


@pytest.mark.long
def test_a_pull_request_that_conflicts_is_held_against_where_it_parted(here: Maintainer) -> None:
    here.branch({"src/pond/drain.py": source("Drain", LEAKY.replace("0.1", "0.2"))})
    git(here.folder, "checkout", "--quiet", "main")
    write(here.folder, {"src/pond/drain.py": source("Drain", TIDY)})
    commit(here.folder, "fixed on main")
    git(here.folder, "checkout", "--quiet", "pull")
    gated = here.gate(code=None)
    # The leak was there when it parted: main's fix is not its fault.
    assert gated.rule("findings").held
    assert any("conflict" in note and "drain.py" in note for note in gated.run.notes)
    assert "findings" in here.gate("--base", "main", code=1).broken


# -- tests that are red ----------------------------------------------------------

QUIET = RULES.replace('probes = ["probes"]\n', "")
RED = "\n\ndef test_red():\n    assert Pump is None\n"


@pytest.fixture
def quiet(tmp_path: Path, cache: Path) -> Maintainer:
    """A repository whose gate runs tests only, one of which is red."""
    files = {**base_files(), "tests/test_pump.py": of(TEST, "pump") + RED}
    folder = pond(tmp_path / "repo", more=QUIET, files=files)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, "base")
    return Maintainer(folder, cache)


@pytest.mark.long
def test_a_test_that_is_red_on_both_sides_is_named_and_never_blamed_on_head(quiet: Maintainer) -> None:
    quiet.branch({"README": "hello"})
    gated = quiet.gate(code=0)
    rule = gated.rule("tests")
    assert (rule.held, rule.warning) == (True, True)
    assert rule.figure == "3 of the project's own are green; 1 pre-existing"
    assert "pre-existing: tests/test_pump.py::test_red" in rule.look
    assert "pre-existing" in gated.done.stdout


@pytest.mark.long
def test_a_test_that_head_broke_fails_the_gate_and_so_does_a_new_one_that_is_red(quiet: Maintainer) -> None:
    files = {
        "src/pond/drain.py": source("Drain", "pass"),
        "tests/test_new.py": "def test_new():\n    assert 0\n",
    }
    quiet.branch(files)
    gated = quiet.gate(code=1)
    kinds = {one.test: one.kind for one in gated.run.own}
    assert kinds == {
        "tests/test_pump.py::test_red": "pre-existing",
        "tests/test_drain.py::test_close_ends_the_task": "broken by head",
        "tests/test_new.py::test_new": "new and red",
    }
    assert "tests" in gated.broken
    assert gated.rule("tests").look.startswith("broken by head: tests/test_drain.py")


# -- coverage over jobs ----------------------------------------------------------


@pytest.mark.long
def test_another_job_s_data_close_the_gap_in_the_gate_and_in_a_merge(quiet: Maintainer, tmp_path: Path) -> None:
    text = (quiet.folder / "src/pond/pipe.py").read_text()
    text += "\n\ndef other(system):\n    if system:\n        return 1\n    return 2\n"
    quiet.branch(
        {
            "src/pond/pipe.py": text,
            "tests/test_pipe.py": "from pond.pipe import other\n\n\ndef test_1():\n    assert other('') == 2\n",
        }
    )
    gated = quiet.gate(code=1)
    assert "coverage" in gated.broken
    assert gated.rule("coverage").look == "src/pond/pipe.py:7 (no cell runs it)"
    assert "UNCOVERED     src/pond/pipe.py:7" in gated.done.stdout
    elsewhere = write(tmp_path / "runner", {"src/pond/__init__.py": "", "src/pond/pipe.py": text})
    write(elsewhere, {"go.py": "import sys\nsys.path.insert(0, 'src')\nfrom pond.pipe import other\nother('win')\n"})
    command = [sys.executable, "-m", "coverage", "run", "--rcfile=", "go.py"]
    subprocess.run(command, cwd=elsewhere, check=True, capture_output=True)
    data = f"windows={elsewhere / '.coverage'}"
    assert quiet.gate("--coverage-data", data, code=None).rule("coverage").held
    (tmp_path / "one").mkdir()
    quiet.gate("--out", str(tmp_path / "one"), code=1)
    merged = stormdrain(
        "merge", str(tmp_path / "one"), "--config", "pyproject.toml", "--coverage-data", data, "--out", "whole",
        cwd=quiet.folder, code=None,
    )  # fmt: skip
    whole = store.load_run(quiet.folder / "whole")
    rules = {one.rule: one for one in whole.rules}
    assert rules["coverage"].held
    assert "windows" in rules["cell coverage"].figure
    assert "4 of 4 touched lines" in merged.stdout
    bad = tmp_path / "bad"
    bad.write_text("nonsense")
    refused = stormdrain(
        "gate", "--coverage-data", str(bad), cwd=quiet.folder, code=2, STORMDRAIN_CACHE=str(quiet.cache)
    )
    assert "no coverage data" in refused.stderr
    assert str(bad) in refused.stderr


# -- repositories of every shape -------------------------------------------------

SLOW = "def drain():\n    return 'slow'\n\n\ndef more():\n    return 3\n"


@pytest.mark.long
def test_a_pull_request_is_fetched_by_its_number_and_judged_without_being_checked_out(
    quiet: Maintainer, tmp_path: Path
) -> None:
    quiet.branch({"src/pond/pipe.py": SLOW})
    git(tmp_path, "init", "--quiet", "--bare", "hub.git")
    git(quiet.folder, "push", "--quiet", str(tmp_path / "hub.git"), "main", "pull:refs/pull/3/head")
    git(tmp_path, "clone", "--quiet", "--branch", "main", "hub.git", "mine")
    mine = Maintainer(tmp_path / "mine", quiet.cache)
    gated = mine.gate("--head", "pr/3", code=1)
    assert gated.rule("coverage").look == "src/pond/pipe.py:6 (no cell runs it)"
    assert gated.run.head == "pr/3"
    assert any("merge base with origin/main" in note for note in gated.run.notes)
    assert git(mine.folder, "status", "--porcelain") == ""
    assert git(mine.folder, "for-each-ref", "refs/pull", "refs/stormdrain") == ""


@pytest.mark.long
def test_one_of_several_packages_is_judged_by_itself_wherever_the_command_is_given(tmp_path: Path, cache: Path) -> None:
    top = tmp_path / "repo"
    pond(top / "packages" / "lake", more=QUIET)
    write(top, {"packages/other/pyproject.toml": "[project]\nname = 'other'\n"})
    git(top, "init", "--quiet", "--initial-branch", "main")
    commit(top, "base")
    several = Maintainer(top, cache)
    several.branch({"packages/lake/src/pond/pipe.py": SLOW})
    inside = several.gate(code=1, cwd="packages/lake")
    assert inside.rule("coverage").look == "packages/lake/src/pond/pipe.py:6 (no cell runs it)"
    assert inside.rule("tests").figure == "1 of the project's own are green"
    named = several.gate("--config", "packages/lake/pyproject.toml", code=1)
    assert [rule.figure for rule in named.run.rules] == [rule.figure for rule in inside.run.rules]
    elsewhere = stormdrain("gate", cwd=top / "packages" / "other", code=2, STORMDRAIN_CACHE=str(cache))
    assert "there is no [tool.stormdrain] here" in elsewhere.stderr


@pytest.mark.long
def test_what_is_not_committed_is_judged_too_and_files_in_lfs_are_told(quiet: Maintainer) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    write(quiet.folder, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "big.bin": pointer})
    commit(quiet.folder, "large")
    git(quiet.folder, "config", "filter.lfs.smudge", "false")  # what a machine without git-lfs answers
    git(quiet.folder, "config", "filter.lfs.required", "true")
    write(
        quiet.folder,
        {
            "src/pond/pipe.py": SLOW,
            "tests/test_more.py": "from pond.pipe import more\n\n\ndef test_m():\n    assert more() == 3\n",
        },
    )
    gated = quiet.gate(code=0)
    assert gated.rule("coverage").figure.startswith("2 of 2 touched lines")
    assert "base: files kept in LFS are pointers in this tree" in gated.run.notes
