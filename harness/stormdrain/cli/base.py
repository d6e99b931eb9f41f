"""What head is compared with where nobody says: what CI names, else where it parted from the default branch."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import UsageError
from ..revisions import Cache, merge_base
from ..revisions.repository import find_repository
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
    """The commit that head is compared with, and how it was found; both empty where there is none.

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
        return merge_base(project, ref, first, cache=cache), f"merge base with {ref} ({variable})"
    ref = _default_branch(top)
    if not ref:
        return "", ""
    found = merge_base(project, ref, first, cache=cache)
    if found == _commit(top, "HEAD") and first == "worktree" and not _dirty(top):
        return "", ""  # this is the default branch itself, as it is
    return found, f"merge base with {ref}"


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
