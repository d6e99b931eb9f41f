"""What head is compared with where nobody says: found from CI's variables or the default branch, or told as missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from revising import commit, git, repository, write
from stormdrain.cli.authority import ruling
from stormdrain.cli.base import CI_BRANCHES, conflicts, default_base
from stormdrain.cli.options import project_root, repository_root
from stormdrain.errors import UsageError
from stormdrain.gate.config import load_config
from stormdrain.revisions import Cache


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CI_BRANCHES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with two commits on `main`, on the second of which nobody has built."""
    folder = repository(tmp_path / "origin")
    write(folder, {"more.txt": "1"})
    commit(folder, "second")
    return folder


@pytest.fixture
def clone(tmp_path: Path, origin: Path) -> Path:
    """A clone on a branch that parted from `main` at its first commit."""
    git(tmp_path, "clone", "--quiet", str(origin), "clone")
    folder = tmp_path / "clone"
    git(folder, "checkout", "--quiet", "-b", "pull", "HEAD~1")
    write(folder, {"src/pond/pipe.py": "def drain():\n    return 'fast'\n"})
    commit(folder, "pull")
    return folder


def parted(clone: Path) -> str:
    return git(clone, "rev-parse", "origin/main~1")


def test_the_base_is_where_head_parted_from_the_default_branch(clone: Path, cache: Cache) -> None:
    found, told = default_base("worktree", clone, cache)
    assert found == parted(clone)
    assert told == f"base is {found[:10]}, the merge base with origin/main"
    assert default_base("pull", clone, cache)[0] == found


@pytest.mark.parametrize("variable", CI_BRANCHES)
def test_the_base_is_where_head_parted_from_the_branch_that_ci_names(
    clone: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    git(clone, "push", "--quiet", "origin", "HEAD~1:refs/heads/release", "HEAD:refs/heads/next")
    git(clone, "fetch", "--quiet", "origin")
    monkeypatch.setenv(variable, "refs/heads/next" if "SYSTEM" in variable else "next")
    found, told = default_base("worktree", clone, cache)
    assert found == git(clone, "rev-parse", "HEAD")
    assert told.endswith(f"the merge base with origin/next ({variable})")


def test_an_empty_variable_names_no_branch(clone: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_BASE_REF", "")  # a push
    assert default_base("worktree", clone, cache)[0] == parted(clone)


def test_a_branch_that_ci_did_not_fetch_is_told_with_the_command(
    clone: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_BASE_REF", "elsewhere")
    with pytest.raises(UsageError, match="not in this clone") as caught:
        default_base("worktree", clone, cache)
    assert "git fetch origin elsewhere" in caught.value.todo
    assert "fetch-depth: 0" in caught.value.todo
    assert caught.value.exit_code == 2


def test_a_clone_too_shallow_to_tell_names_the_depth(
    origin: Path, tmp_path: Path, cache: Cache, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(clone, "push", "--quiet", "origin", "pull")
    git(tmp_path, "clone", "--quiet", "--depth=1", "--no-single-branch", "--branch=pull", f"file://{origin}", "shallow")
    monkeypatch.setenv("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main")
    with pytest.raises(UsageError, match="shallow") as caught:
        default_base("worktree", tmp_path / "shallow", cache)
    assert "fetch-depth: 0" in caught.value.todo


def test_the_default_branch_itself_has_no_base_until_it_is_dirty(origin: Path, cache: Cache) -> None:
    assert default_base("worktree", origin, cache) == ("", "")
    write(origin, {"new.txt": "not even added"})
    assert default_base("worktree", origin, cache)[0] == git(origin, "rev-parse", "HEAD")


@pytest.mark.parametrize("head", ["pypi:x==1", "path:.", "stdlib", "stdlib+a.toml"])
def test_what_is_no_commit_has_no_base(clone: Path, cache: Cache, head: str) -> None:
    assert default_base(head, clone, cache) == ("", "")


def test_outside_of_a_repository_there_is_no_base(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "plain").mkdir()
    assert default_base("worktree", tmp_path / "plain", cache) == ("", "")


def test_files_in_which_the_two_conflict_are_named(origin: Path, clone: Path, cache: Cache) -> None:
    assert conflicts("origin/main", "worktree", clone, cache) == ()
    write(origin, {"src/pond/pipe.py": "def drain():\n    return 'other'\n"})
    commit(origin, "third")
    git(clone, "fetch", "--quiet", "origin")
    assert conflicts("origin/main", "worktree", clone, cache) == ("src/pond/pipe.py",)
    assert "conflict in src/pond/pipe.py" in default_base("worktree", clone, cache)[1]


def test_a_pull_request_s_own_probes_and_wishes_are_read_from_its_commit(
    origin: Path, clone: Path, cache: Cache
) -> None:
    rules = "[tool.stormdrain.gate]\nprobes = ['probes']\nmax_survivors = {}\n"
    probe = "from stormdrain import probe\n"
    write(origin, {"gate.toml": rules.format(0), "probes/a.py": probe})
    commit(origin, "rules")
    git(clone, "fetch", "--quiet", "origin")
    git(clone, "rebase", "--quiet", "origin/main")
    write(clone, {"gate.toml": rules.format(9), "probes/b.py": probe})
    commit(clone, "loosens")
    git(clone, "push", "--quiet", "origin", "HEAD:refs/pull/7/head")
    git(clone, "checkout", "--quiet", "origin/main")
    config = load_config(clone / "gate.toml")
    base, _ = default_base("pr/7", clone, cache)
    assert base == git(clone, "rev-parse", "origin/main")
    found = ruling(config, base, "pr/7", clone, cache, trust_head=False)
    assert found.config.policy.max_survivors == 0
    assert [path.name for path in found.probes] == ["probes", "b.py"]
    assert any("base's rules were used" in note for note in found.notes)
    assert ruling(config, base, "pr/7", clone, cache, trust_head=True).config.policy.max_survivors == 9


def test_the_project_is_the_nearest_folder_that_is_one(origin: Path) -> None:
    package = write(origin / "packages" / "lake", {"pyproject.toml": "", "src/lake/a.py": ""})
    assert project_root(package / "src" / "lake") == package
    assert project_root(origin / "packages") == origin
    assert repository_root(package) == origin
    alone = write(origin.parent / "alone", {"a.py": ""})
    assert project_root(alone) == alone
