"""Revisions of a repository: which code a ref, a pull request and a working tree are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from revising import commit, git, pond, repository, write
from stormdrain.errors import UsageError
from stormdrain.revisions import Cache, merge_base, resolve


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo")


def state(folder: Path) -> dict[str, bytes]:
    """Every file of a repository, its git directory included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_ref_is_the_commit_and_not_what_lies_in_the_working_tree(repo: Path, cache: Cache) -> None:
    first = git(repo, "rev-parse", "HEAD")
    write(repo, {"src/pond/__init__.py": "DEPTH = 2\n"})
    second = commit(repo)
    write(repo, {"src/pond/__init__.py": "DEPTH = 3\n"})
    revisions = {ref: resolve(ref, project=repo, cache=cache) for ref in ("HEAD~1", "main", second)}
    assert [one.commit for one in revisions.values()] == [first, second, second]
    texts = [(one.source / "src/pond/__init__.py").read_text() for one in revisions.values() if one.source]
    assert texts == ["DEPTH = 1\n", "DEPTH = 2\n", "DEPTH = 2\n"]
    assert revisions["main"].label == f"main@{second[:7]}"
    assert revisions["main"].digest == revisions[second].digest != revisions["HEAD~1"].digest


def test_resolving_leaves_every_byte_of_the_users_repository_as_it_was(repo: Path, cache: Cache) -> None:
    write(repo, {"src/pond/__init__.py": "DEPTH = 4\n", "new.txt": "untracked\n"})
    before = state(repo)
    resolve("main", project=repo, cache=cache)
    resolve("worktree", project=repo, cache=cache)
    merge_base(repo, "main", "worktree", cache=cache)
    assert state(repo) == before


def test_the_working_tree_has_what_is_uncommitted_and_untracked_but_not_what_is_ignored(
    repo: Path, cache: Cache
) -> None:
    write(repo, {".gitignore": "*.log\n", "tests/test_gone.py": ""})
    commit(repo)
    write(repo, {"src/pond/__init__.py": "DEPTH = 5\n", "src/pond/new.py": "", "noise.log": ""})
    (repo / "tests/test_gone.py").unlink()
    (repo / "src/pond/link.py").symlink_to("new.py")
    source = resolve("worktree", project=repo, cache=cache).source
    assert source is not None
    assert (source / "src/pond/__init__.py").read_text() == "DEPTH = 5\n"
    assert (source / "src/pond/new.py").exists()
    assert (source / "src/pond/link.py").is_symlink()
    assert not (source / "tests/test_gone.py").exists()
    assert not (source / "noise.log").exists()


def test_a_working_tree_that_did_not_change_is_one_revision_and_one_that_did_another(repo: Path, cache: Cache) -> None:
    first = resolve("worktree", project=repo, cache=cache)
    again = resolve("worktree", project=repo, cache=cache)
    write(repo, {"src/pond/__init__.py": "DEPTH = 6\n"})
    changed = resolve("worktree", project=repo, cache=cache)
    write(repo, {"src/pond/__init__.py": "DEPTH = 1\n"})
    back = resolve("worktree", project=repo, cache=cache)
    assert first.digest == again.digest == back.digest != changed.digest
    assert changed.commit == first.commit


def test_git_in_a_tree_answers_as_in_the_users_checkout(repo: Path, cache: Cache) -> None:
    git(repo, "tag", "--annotate", "--message", "one", "v1.0")
    write(repo, {"src/pond/__init__.py": "DEPTH = 7\n"})
    commit(repo)
    here = resolve("main", project=repo, cache=cache).source
    write(repo, {"src/pond/__init__.py": "DEPTH = 8\n"})
    dirty = resolve("worktree", project=repo, cache=cache).source
    assert here is not None
    assert dirty is not None
    assert git(here, "describe", "--dirty") == git(repo, "describe")
    assert git(dirty, "describe", "--dirty") == git(repo, "describe", "--dirty")
    assert git(dirty, "describe", "--dirty").endswith("-dirty")


def test_a_project_below_the_top_of_its_repository_is_found_in_the_tree(tmp_path: Path, cache: Cache) -> None:
    top = tmp_path / "mono"
    pond(top / "packages/pond")
    git(top, "init", "--quiet")
    commit(top)
    for spec in ("main", "worktree"):
        revision = resolve(spec, project=top / "packages/pond", cache=cache)
        assert revision.source is not None
        assert (revision.source / "pyproject.toml").exists()
        assert revision.checkout is not None
        assert revision.source == revision.checkout / "packages/pond"


def test_a_revision_without_the_project_is_refused(tmp_path: Path, cache: Cache) -> None:
    top = write(tmp_path / "mono", {"README": ""})
    git(top, "init", "--quiet")
    commit(top)
    pond(top / "packages/pond")
    commit(top)
    with pytest.raises(UsageError, match="has no directory packages/pond"):
        resolve("HEAD~1", project=top / "packages/pond", cache=cache)


def test_submodules_are_kept_nested_ones_too(tmp_path: Path, repo: Path, cache: Cache) -> None:
    inner = write(tmp_path / "inner", {"inner.txt": "inner\n"})
    git(inner, "init", "--quiet")
    commit(inner)
    outer = write(tmp_path / "outer", {"outer.txt": "outer\n"})
    git(outer, "init", "--quiet")
    git(outer, "submodule", "--quiet", "add", str(inner), "nested")
    commit(outer)
    git(repo, "submodule", "--quiet", "add", str(outer), "vendor/outer")
    git(repo, "submodule", "--quiet", "update", "--init", "--recursive")
    commit(repo)
    # The user's own clones of them are enough.
    shutil.rmtree(inner)
    shutil.rmtree(outer)
    for spec in ("main", "worktree"):
        source = resolve(spec, project=repo, cache=cache).source
        assert source is not None
        assert (source / "vendor/outer/outer.txt").read_text() == "outer\n"
        assert (source / "vendor/outer/nested/inner.txt").read_text() == "inner\n"


def test_a_submodule_that_cannot_be_had_is_named(tmp_path: Path, repo: Path, cache: Cache) -> None:
    outer = write(tmp_path / "outer", {"outer.txt": "outer\n"})
    git(outer, "init", "--quiet")
    commit(outer)
    git(repo, "submodule", "--quiet", "add", str(outer), "vendor/outer")
    commit(repo)
    shutil.rmtree(outer)
    shutil.rmtree(repo / ".git/modules")
    with pytest.raises(UsageError, match="submodule vendor/outer cannot be fetched"):
        resolve("main", project=repo, cache=cache)


def test_an_lfs_filter_is_never_run(tmp_path: Path, repo: Path, cache: Cache) -> None:
    write(repo, {".gitattributes": "*.bin filter=lfs\n", "big.bin": "pointer\n"})
    commit(repo)
    ran = tmp_path / "ran"
    for which in ("smudge", "clean"):
        git(repo, "config", f"filter.lfs.{which}", f"touch {ran}; cat")
    git(repo, "config", "filter.lfs.required", "true")
    home = write(tmp_path / "home", {".gitconfig": f'[filter "lfs"]\n  smudge = touch {ran}; cat\n  required = true\n'})
    before = os.environ.get("HOME")
    os.environ["HOME"] = str(home)
    try:
        revision = resolve("main", project=repo, cache=cache)
        write(repo, {"big.bin": "the real content\n"})
        dirty = resolve("worktree", project=repo, cache=cache)
    finally:
        if before is not None:
            os.environ["HOME"] = before
    assert not ran.exists()
    assert revision.source is not None
    assert (revision.source / "big.bin").read_text() == "pointer\n"
    assert revision.notes == ("files kept in LFS are pointers in this tree",)
    assert dirty.source is not None
    assert (dirty.source / "big.bin").read_text() == "the real content\n"


def test_hooks_and_variables_of_a_calling_git_change_nothing(
    tmp_path: Path, repo: Path, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    write(repo, {"src/pond/__init__.py": "DEPTH = 9\n"})
    made = commit(repo)
    assert resolve("main", project=repo, cache=cache).commit == made


@pytest.mark.parametrize("space", ["refs/pull/7/head", "refs/merge-requests/7/head"], ids=["github", "gitlab"])
def test_a_pull_request_is_fetched_from_the_remote_as_it_is_now(tmp_path: Path, cache: Cache, space: str) -> None:
    remote = repository(tmp_path / "remote")
    git(tmp_path, "clone", "--quiet", str(remote), "mine")
    git(remote, "checkout", "--quiet", "--detach")
    for depth in (70, 71):
        write(remote, {"src/pond/__init__.py": f"DEPTH = {depth}\n"})
        made = commit(remote)
        git(remote, "update-ref", space, made)
        revision = resolve("pr/7", project=tmp_path / "mine", cache=cache)
        assert revision.commit == made
        assert revision.label == f"pr/7@{made[:7]}"
        assert revision.source is not None
        assert (revision.source / "src/pond/__init__.py").read_text() == f"DEPTH = {depth}\n"
    assert "pull" not in git(tmp_path / "mine", "for-each-ref")
    main = git(remote, "rev-parse", "main")
    assert merge_base(tmp_path / "mine", "origin/main", "pr/7", cache=cache) == main


def test_in_a_forks_clone_pull_requests_come_from_upstream(tmp_path: Path, cache: Cache) -> None:
    remote = repository(tmp_path / "remote")
    git(remote, "update-ref", "refs/pull/3/head", "HEAD")
    git(tmp_path, "clone", "--quiet", str(remote), "fork")
    git(tmp_path, "clone", "--quiet", str(tmp_path / "fork"), "mine")
    git(tmp_path / "mine", "remote", "add", "upstream", "../remote")
    assert resolve("pr/3", project=tmp_path / "mine", cache=cache).commit == git(remote, "rev-parse", "HEAD")


def test_a_pull_request_that_is_not_there_is_told(tmp_path: Path, repo: Path, cache: Cache) -> None:
    with pytest.raises(UsageError, match="no remote"):
        resolve("pr/1", project=repo, cache=cache)
    git(tmp_path, "clone", "--quiet", str(repo), "mine")
    with pytest.raises(UsageError, match="no pull request 1"):
        resolve("pr/1", project=tmp_path / "mine", cache=cache)


def test_a_remote_that_cannot_be_reached_is_told_without_its_secret(repo: Path, cache: Cache) -> None:
    git(repo, "remote", "add", "origin", "http://me:secret@127.0.0.1:9/pond.git")
    with pytest.raises(UsageError, match="cannot be reached") as caught:
        resolve("pr/1", project=repo, cache=cache)
    assert "secret" not in str(caught.value)


def test_a_ref_that_is_not_there_is_told(repo: Path, cache: Cache) -> None:
    with pytest.raises(UsageError, match="no branch, tag or commit nowhere"):
        resolve("nowhere", project=repo, cache=cache)


@pytest.mark.parametrize("spec", ["main", "worktree", "pr/1"])
def test_outside_of_a_repository_the_error_says_what_else_there_is(tmp_path: Path, cache: Cache, spec: str) -> None:
    with pytest.raises(UsageError, match="not a git repository") as caught:
        resolve(spec, project=pond(tmp_path / "plain"), cache=cache)
    assert "path:DIR" in caught.value.todo


def test_a_working_tree_without_a_commit_is_a_revision(tmp_path: Path, cache: Cache) -> None:
    project = pond(tmp_path / "fresh")
    git(project, "init", "--quiet")
    revision = resolve("worktree", project=project, cache=cache)
    assert revision.commit == ""
    assert revision.source is not None
    assert (revision.source / "src/pond/__init__.py").exists()


@pytest.fixture
def forked(repo: Path) -> tuple[Path, str]:
    """A repository in which `main` and `topic` parted at the commit that is returned with it."""
    base = commit(repo, "base")
    git(repo, "checkout", "--quiet", "-b", "topic")
    commit(repo, "one")
    commit(repo, "two")
    git(repo, "checkout", "--quiet", "main")
    commit(repo, "three")
    git(repo, "checkout", "--quiet", "topic")
    return repo, base


def test_the_merge_base_is_where_two_revisions_parted(forked: tuple[Path, str], cache: Cache) -> None:
    repo, base = forked
    assert merge_base(repo, "main", "worktree", cache=cache) == base
    assert merge_base(repo, "topic", "main", cache=cache) == base
    assert merge_base(repo, "main", "main", cache=cache) == git(repo, "rev-parse", "main")


def test_a_shallow_repository_is_told_to_fetch_everything_and_works_once_it_did(
    tmp_path: Path, forked: tuple[Path, str], cache: Cache
) -> None:
    repo, base = forked
    git(tmp_path, "clone", "--quiet", "--depth", "1", "--no-single-branch", f"file://{repo}", "mine")
    mine = tmp_path / "mine"
    assert resolve("HEAD", project=mine, cache=cache).commit == git(repo, "rev-parse", "topic")
    with pytest.raises(UsageError, match="shallow") as caught:
        merge_base(mine, "origin/main", "HEAD", cache=cache)
    assert "fetch-depth: 0" in caught.value.todo
    with pytest.raises(UsageError, match="shallow") as caught:
        resolve("HEAD~2", project=mine, cache=cache)
    assert "fetch-depth: 0" in caught.value.todo
    git(mine, "fetch", "--quiet", "--unshallow")
    assert merge_base(mine, "origin/main", "HEAD", cache=cache) == base
    assert resolve("HEAD~2", project=mine, cache=cache).commit == base


def test_histories_that_never_met_are_told(repo: Path, cache: Cache) -> None:
    git(repo, "checkout", "--quiet", "--orphan", "other")
    commit(repo, "other root")
    with pytest.raises(UsageError, match="no common history"):
        merge_base(repo, "main", "other", cache=cache)


def test_a_release_has_no_merge_base(repo: Path, cache: Cache) -> None:
    with pytest.raises(UsageError, match="has no history"):
        merge_base(repo, "pypi:pond==1.0", "main", cache=cache)


def test_a_detached_commit_made_after_the_clone_is_found(repo: Path, cache: Cache) -> None:
    resolve("main", project=repo, cache=cache)
    git(repo, "checkout", "--quiet", "--detach")
    made = commit(repo, "on no branch")
    assert resolve(made, project=repo, cache=cache).commit == made


def test_a_directory_that_is_a_repository_is_taken_as_its_working_tree(
    tmp_path: Path, repo: Path, cache: Cache
) -> None:
    write(repo, {".gitignore": "build/\n", "build/lib/old.py": "", "src/pond/new.py": ""})
    revision = resolve("path:repo", project=tmp_path, cache=cache)
    assert revision.label.startswith("repo@")
    assert revision.source is not None
    assert (revision.source / "src/pond/new.py").exists()
    assert not (revision.source / "build").exists()
    assert revision.commit == git(repo, "rev-parse", "HEAD")


def test_caches_and_environments_are_no_part_of_a_plain_directory(tmp_path: Path, cache: Cache) -> None:
    project = pond(tmp_path / "pond", files={"env/pyvenv.cfg": "", "env/lib/x.py": "", "__pycache__/x.pyc": ""})
    revision = resolve("path:pond", project=tmp_path, cache=cache)
    assert revision.source is not None
    assert not (revision.source / "env").exists()
    write(project, {"__pycache__/y.pyc": "", "env/lib/y.py": ""})
    assert resolve("path:pond", project=tmp_path, cache=cache).digest == revision.digest


def test_a_linked_worktree_is_a_project_like_any_other(tmp_path: Path, repo: Path, cache: Cache) -> None:
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    made = commit(tmp_path / "side", "beside")
    assert resolve("HEAD", project=tmp_path / "side", cache=cache).commit == made
    assert resolve("worktree", project=tmp_path / "side", cache=cache).commit == made
