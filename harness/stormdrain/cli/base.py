"""What head is compared with where nobody says: what CI names, else where it parted from the default branch."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError
from ..revisions import Cache, merge_base
from ..revisions.repository import clone_with, commit_of, find_repository
from ..revisions.tool import git

CI_BRANCHES = (
    "GITHUB_BASE_REF",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME",
    "SYSTEM_PULLREQUEST_TARGETBRANCH",
    "BITBUCKET_PR_DESTINATION_BRANCH",
    "BUILDKITE_PULL_REQUEST_BASE_BRANCH",
    "CHANGE_TARGET",
)
"""Variables in which CI systems name the branch that a pull request goes to: GitHub, GitLab, Azure, Bitbucket,
Buildkite, Jenkins. They are empty or not there where the run is of no pull request."""
_REMOTES = ("origin/", "upstream/", "")
_DEFAULTS = ("main", "master")


def default_base(head: str, project: Path, cache: Cache) -> tuple[str, str]:
    """The commit that head is compared with, and what is to be said of it; both empty where there is none.

    Args:
        head: a revision.
        project: the project's directory.
        cache: where the clone is kept.

    Raises:
        UsageError: CI names a branch that is not here, or the repository is too shallow to tell.
    """
    first = head.partition("+")[0]
    if first.startswith(("pypi:", "path:")) or first == "stdlib":
        return "", ""
    variable = next((name for name in CI_BRANCHES if os.environ.get(name)), "")
    try:
        top = find_repository(project).top
    except UsageError:
        return "", ""
    if variable:
        branch = os.environ[variable].removeprefix("refs/heads/")
        ref = _first_there(top, [f"{remote}{branch}" for remote in _REMOTES])
        if not ref:
            raise UsageError(
                f"CI says that this goes to {branch}, which is not in this clone",
                where=f"{variable} in {top}",
                todo=f"git fetch origin {branch}:refs/remotes/origin/{branch} (GitHub checkout: fetch-depth: 0), "
                "or give --base REV",
            )
        found = merge_base(project, ref, first, cache=cache)
        return found, _told(found, f"{ref} ({variable})", conflicts(ref, head, project, cache))
    ref = _default_branch(top)
    if not ref:
        return "", ""
    found = merge_base(project, ref, first, cache=cache)
    if found == _commit(top, "HEAD") and first == "worktree" and not _dirty(top):
        return "", ""  # this is the default branch itself, as it is
    return found, _told(found, ref, conflicts(ref, head, project, cache))


def _told(commit: str, ref: str, files: tuple[str, ...]) -> str:
    text = f"base is {commit[:10]}, the merge base with {ref}"
    if files:
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        text += f"; the two conflict in {', '.join(files[:3])}{more}, and head is held against where they parted"
    return text


def conflicts(base: str, head: str, project: Path, cache: Cache) -> tuple[str, ...]:
    """Files in which a branch and head cannot be merged; none where head is no commit, or git is too old to tell.

    Args:
        base: the branch, or any other commit.
        head: a revision; of a working tree, what is committed counts.
        project: the project's directory.
        cache: where the clone is kept.
    """
    first = head.partition("+")[0]
    if first.startswith(("pypi:", "path:", "pr/")) or first == "stdlib":
        return ()
    try:
        repository = find_repository(project)
        ours = commit_of(repository, base, base)
        theirs = commit_of(repository, "HEAD" if first == "worktree" else first, head)
    except UsageError:
        return ()
    with clone_with(repository, ours, cache):
        pass
    with clone_with(repository, theirs, cache) as clone:
        done = git("merge-tree", "--write-tree", "--name-only", "--no-messages", ours, theirs, cwd=clone)
    return tuple(done.out.split("\n")[1:-1]) if done.code == 1 else ()


def _default_branch(top: Path) -> str:
    named = git("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD", cwd=top).out.strip()
    others = [f"{remote}{branch}" for remote in _REMOTES for branch in _DEFAULTS]
    return _first_there(top, [*filter(None, [named]), *others])


def _first_there(top: Path, refs: list[str]) -> str:
    return next((ref for ref in refs if _commit(top, ref)), "")


def _commit(top: Path, ref: str) -> str:
    return git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", cwd=top).out.strip()


def _dirty(top: Path) -> bool:
    return bool(git("status", "--porcelain", cwd=top).out.strip())
