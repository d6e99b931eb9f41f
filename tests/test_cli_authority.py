"""A change cannot relax the gate that judges it: base's rules and probes decide, head's wishes are said."""

from __future__ import annotations

from pathlib import Path

import pytest

from revising import git, write
from stormdrain.cli.authority import FIRST_RUN, Ruling, ruling
from stormdrain.gate.config import load_config
from stormdrain.revisions import Cache
from test_cli import stormdrain

RULES = "[tool.stormdrain.gate]\nprobes = ['probes']\nmax_survivors = 0\n"
WISH = "[[tool.stormdrain.accepted]]\nid = 'x'\nreason = 'trust me'\nuntil = 2099-01-01\n"
SCRIPT = "from stormdrain import probe  # old\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, {"pyproject.toml": RULES, "probes/a.py": SCRIPT, "probes/help.py": "x = 1\n"})
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "base")
    return folder


def decide(project: Path, base: str | None = "main", *, trust_head: bool = False) -> Ruling:
    config = load_config(project / "pyproject.toml")
    cache = Cache(project.parent / "cache")
    return ruling(config, base, "worktree", project, cache, trust_head=trust_head)


def test_base_s_rules_hold_and_head_s_wishes_are_said(project: Path) -> None:
    write(project, {"pyproject.toml": RULES.replace("= 0", "= 99") + WISH, "probes/a.py": "# emptied\n"})
    found = decide(project)
    assert found.config.policy.max_survivors == 0
    assert found.config.policy.accepted == ()
    assert any("proposed by head" in note and "trust me" in note for note in found.notes)
    assert any("base's rules were used" in note for note in found.notes)
    (probes,) = found.probes
    assert (probes / "a.py").read_text() == SCRIPT


def test_head_s_new_probes_are_added_and_nothing_else_of_it(project: Path) -> None:
    write(project, {"probes/b.py": SCRIPT, "probes/more_help.py": "y = 2\n", "probes/_c.py": SCRIPT})
    found = decide(project)
    assert found.probes[1:] == (project / "probes" / "b.py",)
    assert found.notes == ("head's new probe b.py was added",)


def test_where_base_has_no_rules_head_s_are_used_and_it_is_said(project: Path) -> None:
    git(project, "rm", "-q", "pyproject.toml")
    git(project, "commit", "-q", "-m", "without")
    write(project, {"pyproject.toml": RULES + WISH})
    found = decide(project)
    assert found.notes == (FIRST_RUN,)
    assert len(found.config.policy.accepted) == 1


def test_the_maintainer_may_trust_head(project: Path) -> None:
    write(project, {"pyproject.toml": RULES.replace("= 0", "= 99")})
    found = decide(project, trust_head=True)
    assert found.config.policy.max_survivors == 99
    assert found.notes == ()


def test_a_base_that_is_no_revision_of_the_project_decides_nothing(project: Path) -> None:
    assert decide(project, None).notes == ()
    assert decide(project, "path:.").config.policy.max_survivors == 0


@pytest.mark.parametrize("command", [("gate",), ("probe", "probes")])
def test_pull_request_target_is_refused(project: Path, command: tuple[str, ...]) -> None:
    done = stormdrain(*command, cwd=project, code=2, GITHUB_EVENT_NAME="pull_request_target")
    assert "pull_request_target" in done.stderr
    assert not (project / "reports").exists()
