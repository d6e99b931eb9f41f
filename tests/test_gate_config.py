"""A configuration is read strictly: what is misspelt is an error with its line and the nearest name."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from stormdrain.cli.checked import check_files, check_names
from stormdrain.errors import UsageError
from stormdrain.gate.config import load_config
from stormdrain.gate.located import anchored, line_of
from test_cli import stormdrain


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


WHOLE = """\
[project]
name = "x"

[tool.stormdrain]
base = "pypi:claude-agent-sdk==0.2.143"
head = "pypi:claude-agent-sdk==0.2.143+h760.toml"
watched = ["3.10", "3.11"]

[tool.stormdrain.environment]
requires = ["anyio==4.15.0"]
sdist = true
dependencies = "listed"

[tool.stormdrain.gate]
probes = ["probes/claude_agent_sdk"]
plans = ["mutants/claude_agent_sdk.toml"]
pythons = ["3.11", "3.14"]
optional_pythons = ["3.14"]
storms = ["calm", "cancel-sweep"]
fail_on = ["FAIL", "no-hot-spin"]
base_rule = "all"
max_survivors = 2
budget = "30s"

[[tool.stormdrain.accepted]]
id = "a"
reason = "known upstream"
until = 2026-12-31

[[tool.stormdrain.accepted]]
id = "b"
reason = "by design"
until = "2027-01-31"
"""


def test_every_key_arrives_where_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "h760.toml").write_text("")
    config = load_config(write(tmp_path, WHOLE))
    assert config.found
    assert config.base == "pypi:claude-agent-sdk==0.2.143"
    assert config.head == f"pypi:claude-agent-sdk==0.2.143+{tmp_path.resolve() / 'h760.toml'}"
    assert config.watched == ("3.10", "3.11")
    assert config.environment.requires == ("anyio==4.15.0",)
    assert config.environment.sdist
    assert config.environment.dependencies == "listed"
    assert config.plan.probes == ("probes/claude_agent_sdk",)
    assert config.plan.optional_pythons == ("3.14",)
    assert config.plan.budget == "30s"
    assert config.policy.fail_on == ("FAIL", "no-hot-spin")
    assert config.policy.base_rule == "all"
    assert config.policy.max_survivors == 2
    first, second = config.policy.accepted
    assert (first.id, first.until, first.line) == ("a", datetime.date(2026, 12, 31), 26)
    assert (second.id, second.until, second.line) == ("b", datetime.date(2027, 1, 31), 31)


def test_a_project_without_a_table_of_ours_has_the_defaults(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "[project]\nname = 'x'\n"))
    assert not config.found
    assert config.policy.base_rule == "new"
    assert load_config(tmp_path / "nowhere.toml", must_exist=False).environment.dependencies == "metadata"


@pytest.mark.parametrize(
    ("text", "line", "what", "todo"),
    [
        ("[tool.stormdrain]\nbsae = 'x'", 2, "no key 'bsae'", "did you mean 'base'?"),
        (
            "[tool.stormdrain.gate]\n\nmax_survivor = 1",
            3,
            "no key 'max_survivor'",
            "did you mean 'max_survivors'?",
        ),
        ("[tool.stormdrain.gate]\nmax_survivors = '1'", 2, "must be a whole number", ""),
        ("[tool.stormdrain.gate]\nmax_survivors = true", 2, "must be a whole number", ""),
        ("[tool.stormdrain.gate]\nmax_survivors = -1", 2, "below zero", ""),
        ("[tool.stormdrain.gate]\nprobes = 'a'", 2, "a list of strings", ""),
        ("[tool.stormdrain.gate]\nbase_rule = 'old'", 2, "cannot be 'old'", "new, all"),
        ("[tool.stormdrain.gate]\nfail_on = ['no-hot-spn']", 2, "no-hot-spn", "did you mean 'no-hot-spin'?"),
        ("[tool.stormdrain.gtae]\nx = 1", 1, "no key 'gtae'", "did you mean 'gate'?"),
        ("[tool.stormdrain.environment]\nextra = ['x']", 2, "no key 'extra'", "did you mean 'extras'?"),
        ("[tool.stormdrain.environment]\ndependencies = 'all'", 2, "cannot be 'all'", "metadata, listed"),
        ("[tool]\nstormdrain = 1", 2, "not a table", ""),
        ("[stormdrain]\nbase = 'x'", 1, "called [tool.stormdrain]", "tool."),
        (
            "[[tool.stormdrain.accepted]]\nid='a'\nreason='r'\nuntil=2026-01-01\n[[tool.stormdrain.accepted]]\nid='b'",
            5,
            "accepted entry 2 has no reason",
            "until = 2026-12-31",
        ),
        ("[[tool.stormdrain.accepted]]\nid='a'\nreason='r'\nuntil='soon'", 4, "a date", ""),
        ("[[tool.stormdrain.accepted]]\nid='a'\nreason='r'\nuntil='2026-02-31'", 4, "a date", ""),
        (
            "[[tool.stormdrain.accepted]]\nid='a'\nreason='r'\nuntill=2026-01-01",
            4,
            "no key 'untill'",
            "'until'",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, what: str, todo: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_config(file)
    assert caught.value.where == f"{file}:{line}"
    assert what in caught.value.what
    assert todo in caught.value.todo


@pytest.mark.parametrize(
    ("text", "line", "key", "what", "todo"),
    [
        ("budget = 'fast'", 2, "budget", "neither trials nor a time", "30s"),
        ("storms = ['calm',\n 'cancel-swep']", 2, "storms", "no storm 'cancel-swep'", "did you mean 'cancel-sweep'?"),
        ("\nbackends = ['asyncoi']", 3, "backends", "no backend 'asyncoi'", "did you mean 'asyncio'?"),
        ("mutants = ['revret']", 2, "mutants", "no kind of mutant 'revret'", "did you mean 'revert'?"),
        ("pythons = ['abc']", 2, "pythons", "names no interpreter", "3.12"),
        ("pythons = ['3.99']", 2, "pythons", "3.99 was not found", "STORMDRAIN_PYTHONS"),
        ("plans = ['gone.toml']", 2, "plans", "no plan gone.toml", "plan file"),
        ("tests = ['gone']", 2, "tests", "no tests gone", "file or folder"),
        ("[tool.stormdrain]\nbase = 'pypi:x'", 3, "base", "not one release", "pypi:name==version"),
        ("[tool.stormdrain]\nhead = 'path:gone'", 3, "head", "no directory gone", "directory"),
    ],
)
def test_what_a_value_names_is_looked_at_before_anything_runs(
    tmp_path: Path, text: str, line: int, key: str, what: str, todo: str
) -> None:
    config = load_config(write(tmp_path, f"[tool.stormdrain.gate]\n{text}\n"))

    def look() -> None:
        check_names(config, tmp_path)
        check_files(config, "worktree", tmp_path)

    with pytest.raises(UsageError) as caught:
        look()
    assert caught.value.where.startswith(f"{config.file}:{line} ({key} in [tool.stormdrain")
    assert what in caught.value.what
    assert todo in caught.value.todo
    assert "--" not in caught.value.where


def test_a_mistake_comes_out_of_the_command_with_file_and_key(tmp_path: Path) -> None:
    write(tmp_path, "[tool.stormdrain.gate]\nprobes = ['gone']\n")
    done = stormdrain("gate", cwd=tmp_path, code=2)
    assert "pyproject.toml:2 (probes in [tool.stormdrain.gate])" in done.stderr
    assert not (tmp_path / "reports").exists()


def test_files_that_cannot_be_read_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "nowhere.toml")
    with pytest.raises(UsageError, match="not TOML"):
        load_config(write(tmp_path, "[tool"))
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="UTF-8"):
        load_config(bad)


def test_revisions_are_looked_up_beside_the_file_that_names_them(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("")
    (tmp_path / "tree").mkdir()
    there = str((tmp_path / "a.toml").resolve())
    assert anchored("worktree", tmp_path) == "worktree"
    assert anchored("pypi:x==1.0+local", tmp_path) == "pypi:x==1.0+local"
    assert anchored("pypi:x==1.0+local+a.toml+b.patch", tmp_path) == f"pypi:x==1.0+local+{there}+b.patch"
    assert anchored("path:tree+a.toml", tmp_path) == f"path:{(tmp_path / 'tree').resolve()}+{there}"


def test_the_line_of_a_key_is_found_in_its_own_table() -> None:
    text = "[a]\nx = 1\n[b]\nx = 2\n[[c]]\ny = 1\n[[c]]\ny = 2\n[d.e]\nz=1\n"
    assert line_of(text, "a", "x") == 2
    assert line_of(text, "b", "x") == 4
    assert line_of(text, "c", "y", 1) == 8
    assert line_of(text, "d", "e") == 9
    assert line_of(text, "b", "nothing") == 3


def test_a_key_in_the_wrong_table_is_sent_to_the_right_one(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    for table, key, right in (
        ("tool.stormdrain", "pythons", "tool.stormdrain.gate"),
        ("tool.stormdrain.gate", "base", "tool.stormdrain"),
        ("tool.stormdrain.gate", "requires", "tool.stormdrain.environment"),
    ):
        file.write_text(f"[{table}]\n{key} = 1\n")
        with pytest.raises(UsageError) as caught:
            load_config(file)
        assert caught.value.todo == f"{key} belongs in [{right}]"
