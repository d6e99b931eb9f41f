"""The user's repository, seen through a local clone in the cache.

Nothing is written to the user's repository: no worktree, no ref, no object, no
index lock. What a revision needs is fetched from it into a bare clone of ours;
pull requests are fetched there from the remote. All work in a clone happens
under its lock.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
from .cache import Cache, digest
from .spec import Spec, parse_spec
from .tool import Done, git, refused

_DEEPEN = "fetch all of its history (`git fetch --unshallow`; in a GitHub checkout step: fetch-depth: 0)"


@dataclass(frozen=True)
class Repository:
    """The repository that a project lies in.

    top: its working tree. common: its git directory, shared by all its worktrees.
    prefix: the project's directory relative to `top`, empty where they are the same.
    shallow: whether history was cut off when it was cloned.
    """

    top: Path
    common: Path
    prefix: str
    shallow: bool


@dataclass(frozen=True)
class Cloned:
    """The record of a clone: the repository that it is of, and where its history was cut off."""

    of: str
    shallow: str = ""


def find_repository(project: Path) -> Repository:
    """The repository that a directory lies in.

    Raises:
        UsageError: it lies in none, or git refuses to read it.
    """
    done = git(
        "rev-parse", "--show-toplevel", "--git-common-dir", "--is-shallow-repository", "--show-prefix",
        cwd=project,
    )  # fmt: skip
    if done.code:
        if "not a git repository" in done.says:
            raise UsageError(
                "this is not a git repository",
                where=str(project),
                todo="run it in a repository, or name the code as path:DIR or pypi:name==version",
            )
        if "dubious ownership" in done.says:
            raise UsageError(
                "git does not trust this repository, since somebody else owns it",
                where=str(project),
                todo=f"git config --global --add safe.directory {project}",
            )
        raise refused(done, "git cannot read the repository", where=str(project), todo="look at what git says")
    top, common, shallow, *prefix = done.out.splitlines()
    return Repository(
        Path(top), (project / common).resolve(), prefix[0].rstrip("/") if prefix else "", shallow == "true"
    )


def commit_of(repository: Repository, ref: str, text: str) -> str:
    """The full id of the commit that a ref of the user's repository names.

    Raises:
        UsageError: there is no such ref; in a shallow repository the error says how to get the whole of it.
    """
    done = git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", cwd=repository.top)
    if done.code == 0:
        return done.out.strip()
    if ref == "HEAD":
        raise UsageError("the repository has no commit yet", where=str(repository.top), todo="commit something")
    if repository.shallow:
        raise UsageError(
            f"there is no {ref} in this shallow repository",
            where=text,
            todo=_DEEPEN,
        )
    raise UsageError(
        f"there is no branch, tag or commit {ref}",
        where=f"{text} in {repository.top}",
        todo="look at `git branch --all` and `git tag`, or fetch it first",
    )


def head_of(repository: Repository) -> str:
    """The commit that the working tree is based on; empty where there is none yet."""
    return git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", cwd=repository.top).out.strip()


def clone_key(repository: Repository) -> str:
    """The name of a repository's clone in the cache."""
    return digest("clone", repository.common)


@contextlib.contextmanager
def clone_with(repository: Repository, commit: str, cache: Cache) -> Iterator[Path]:
    """The clone, locked, with the commit and all refs that belong to the user's repository now.

    Raises:
        UsageError: git cannot read the user's repository.
    """
    key = clone_key(repository)
    with cache.locked(f"clone-{key}"):
        place = _clone(repository, key, cache)
        if commit and git("cat-file", "-e", f"{commit}^{{commit}}", cwd=place).code:
            cache.progress(f"fetching from {repository.top}")
            done = _fetch(place, str(repository.common), "+refs/*:refs/*", commit, "--prune")
            if done.code:
                raise refused(
                    done,
                    f"git cannot fetch {commit[:12]}",
                    where=str(repository.top),
                    todo="look at what git says",
                )
        yield place


def _clone(repository: Repository, key: str, cache: Cache) -> Path:
    """The clone's directory, made anew where the user's repository has become deeper or shallower since."""
    edge = repository.common / "shallow"
    shallow = digest(edge.read_bytes()) if edge.exists() else ""
    held = cache.read("clones", key, Cloned)
    if held is not None and held.shallow != shallow:
        cache.drop("clones", key)

    def build(scratch: Path) -> Cloned:
        done = git("clone", "--quiet", "--mirror", "--template=", repository.common, scratch / "git", cwd=scratch)
        if done.code:
            raise refused(
                done,
                "git cannot clone the repository",
                where=str(repository.common),
                todo="look at what git says",
            )
        return Cloned(str(repository.common), shallow)

    cache.make("clones", key, Cloned, build, f"cloning {repository.top}")
    return cache.entry("clones", key) / "git"


def _fetch(clone: Path, source: str, *what: str, settings: dict[str, str] | None = None) -> Done:
    # Any commit may be asked for, not only tips: a detached HEAD is none.
    serve = "git -c uploadpack.allowAnySHA1InWant=true upload-pack"
    options = ["--upload-pack", serve] if Path(source).is_dir() else []
    flags = [word for word in what if word.startswith("--")]
    refs = [word for word in what if not word.startswith("--")]
    return git(
        "fetch", "--quiet", "--no-tags", "--update-shallow", "--no-write-fetch-head",
        *options, *flags, source, *refs,
        cwd=clone, settings=settings,
    )  # fmt: skip


def fetch_pull_request(repository: Repository, number: str, cache: Cache) -> str:
    """Fetch a pull request's head into the clone; GitLab's merge request of that number where there is none.

    Returns:
        The full id of its commit.

    Raises:
        UsageError: there is no remote, it has no such pull request, or it cannot be reached.
    """
    remote, url = _remote(repository)
    settings = _transport_settings(repository)
    own = f"refs/stormdrain/pr/{number}"
    where = f"pr/{number} of {remote} ({_without_secret(url)})"
    with clone_with(repository, "", cache) as clone:
        cache.progress(f"fetching pull request {number} from {remote}")
        for ref in (f"refs/pull/{number}/head", f"refs/merge-requests/{number}/head"):
            done = _fetch(clone, url, f"+{ref}:{own}", settings=settings)
            if done.code == 0:
                return git("rev-parse", own, cwd=clone).out.strip()
            if "couldn't find remote ref" not in done.says:
                break
        if "couldn't find remote ref" in done.says:
            raise UsageError(
                f"there is no pull request {number}",
                where=where,
                todo="look at its number, and at `git remote -v`",
            )
        held = git("rev-parse", "--verify", "--quiet", own, cwd=clone).out.strip()
    raise refused(
        done,
        f"pull request {number} cannot be fetched",
        where=where,
        todo="look at the remote and at your credentials",
        offline=f"connect, or name the commit that was fetched last: {held}" if held else "connect",
    )


def _remote(repository: Repository) -> tuple[str, str]:
    """The remote that has the pull requests: `upstream` (as in forks), else `origin`, else the only one."""
    names = git("remote", cwd=repository.top).out.split()
    name = next((name for name in ("upstream", "origin") if name in names), names[0] if len(names) == 1 else "")
    if not name:
        raise UsageError(
            "the repository has no remote to fetch pull requests from",
            where=str(repository.top),
            todo="git remote add origin URL",
        )
    url = git("remote", "get-url", name, cwd=repository.top).out.strip()
    local = (repository.top / url).resolve()
    return name, str(local) if "://" not in url and local.is_dir() else url


def _transport_settings(repository: Repository) -> dict[str, str]:
    """How the user's repository reaches its remotes: CI keeps its token in the local configuration."""
    done = git(
        "config", "--local", "--includes", "-z",
        "--get-regexp", r"^(http|https|url|credential|core\.sshcommand)",
        cwd=repository.top,
    )  # fmt: skip
    pairs = (item.partition("\n") for item in done.out.split("\0") if item)
    return {name: value for name, _, value in pairs}


def _without_secret(url: str) -> str:
    return re.sub(r"://[^/@]*@", "://", url)


def remote_url(repository: Repository) -> str:
    """The URL that relative submodule URLs refer to; empty where the repository has no remote."""
    done = git("config", "--get", "remote.origin.url", cwd=repository.top)
    return done.out.strip()


def merge_base(project: Path, base: str, head: str, *, cache: Cache | None = None) -> str:
    """The commit at which two revisions of a repository parted.

    Args:
        project: the project's directory.
        base, head: `worktree` (its HEAD), a git ref or `pr/N`; overlays make no difference.
        cache: where the clone is kept; the default cache if not given.

    Returns:
        The full id of the commit.

    Raises:
        UsageError: one of them is no commit, they have no common history, or the repository is shallow and
            does not reach back to it.
    """
    cache = cache or Cache()
    repository = find_repository(project)
    first, second = (_commit(repository, parse_spec(text, project=project), cache) for text in (base, head))
    with clone_with(repository, first, cache):
        pass
    with clone_with(repository, second, cache) as clone:
        done = git("merge-base", first, second, cwd=clone)
    if done.code == 0:
        return done.out.split()[0]
    where = f"{base} and {head} in {repository.top}"
    if repository.shallow:
        raise UsageError(
            "no common commit is in this shallow repository",
            where=where,
            todo=_DEEPEN,
        )
    raise UsageError("the two have no common history", where=where, todo="name revisions of one project")


def _commit(repository: Repository, spec: Spec, cache: Cache) -> str:
    if spec.kind == "pr":
        return fetch_pull_request(repository, spec.name, cache)
    if spec.kind in ("git", "worktree"):
        return commit_of(repository, spec.name or "HEAD", spec.text)
    raise UsageError(f"{spec.text} has no history", where="merge base", todo="name two revisions of the repository")
