"""Trees of a repository in the cache: a commit checked out, or the working tree copied as it is.

Each tree has a small `.git` of its own that borrows the clone's objects, so
that builds which ask git for a version or for the list of files get the answers
that they would get in the user's checkout. Submodules are kept. Hooks and LFS
filters do not run: files kept in LFS stay what the commit has, pointers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from .repository import Repository, remote_url
from .tool import Done, git, refused
from .trees import copy_files

_NO_TAG = ("refs/tags/*:refs/tags/*",)


def check_out(repository: Repository, clone: Path, commit: str, target: Path) -> tuple[str, ...]:
    """Check a commit out, with its submodules.

    Args:
        repository: the user's.
        clone: our clone of it, which has the commit.
        commit: full id.
        target: a directory that is not there yet.

    Returns:
        Notes on what is not as it would be in a checkout of the user's.

    Raises:
        UsageError: git cannot check it out, or a submodule cannot be had.
    """
    _borrow(repository, clone, target)
    done = git("checkout", "--quiet", "--detach", commit, cwd=target)
    if done.code:
        raise refused(
            done,
            f"git cannot check out {commit[:12]}",
            where=str(repository.top),
            todo="look at what git says; a partial clone must be made a whole one first",
        )
    _submodules(target, repository.common, f"{commit[:12]} of {repository.top}")
    attributes = target / ".gitattributes"
    if attributes.is_file() and b"filter=lfs" in attributes.read_bytes():
        return ("files kept in LFS are pointers in this tree",)
    return ()


def copy_working_tree(repository: Repository, clone: Path | None, commit: str, files: list[str], target: Path) -> None:
    """Copy the working tree's `files`; with a `.git` that says what is committed where there is a commit.

    Raises:
        UsageError: a file cannot be read.
    """
    target.mkdir()
    if clone is not None and commit:
        _borrow(repository, clone, target)
        git("update-ref", "--no-deref", "HEAD", commit, cwd=target)
        git("read-tree", "HEAD", cwd=target)
    copy_files(repository.top, files, target)


def working_files(top: Path) -> list[str]:
    """The files of a working tree: tracked and still there, or untracked and not ignored; of submodules too.

    Raises:
        UsageError: git cannot list them.
    """
    return sorted(_working_files(top, ""))


def _working_files(top: Path, prefix: str) -> Iterator[str]:
    done = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", cwd=top)
    if done.code:
        raise refused(done, "git cannot list the working tree", where=str(top), todo="look at what git says")
    for name in done.out.split("\0"):
        path = top / name
        if not name or name.endswith("/"):
            continue  # the end of the list, or somebody's repository within this one
        if path.is_symlink() or path.is_file():
            yield prefix + name
        elif (path / ".git").exists():
            yield from _working_files(path, f"{prefix}{name}/")


def _borrow(repository: Repository, clone: Path, target: Path) -> None:
    """An empty repository at `target` that has the clone's objects and tags without copying them."""
    done = git("init", "--quiet", "--template=", target, cwd=clone)
    if done.code:
        raise refused(done, "git cannot make a tree in the cache", where=str(target), todo="look at what git says")
    objects = target / ".git" / "objects" / "info"
    objects.mkdir(parents=True, exist_ok=True)
    (objects / "alternates").write_text(f"{clone / 'objects'}\n")
    if (clone / "shallow").exists():
        shutil.copyfile(clone / "shallow", target / ".git" / "shallow")
    git("fetch", "--quiet", "--no-write-fetch-head", "--update-shallow", clone, *_NO_TAG, cwd=target)
    if url := remote_url(repository):
        git("remote", "add", "origin", url, cwd=target)


def _submodules(tree: Path, source: Path, where: str) -> None:
    """Fill the submodules of a checked-out tree, from the user's clones of them where those have it.

    `source` is the git directory that the tree's submodules lie in as `modules/NAME`.
    """
    if not (tree / ".gitmodules").is_file():
        return
    done = git("config", "-z", "--file", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", cwd=tree)
    for item in done.out.split("\0"):
        key, _, path = item.partition("\n")
        if not path or not git("ls-files", "--stage", "--", path, cwd=tree).out.startswith("160000"):
            continue
        name = key.removeprefix("submodule.").removesuffix(".path")
        git("submodule", "--quiet", "init", "--", path, cwd=tree)
        local = source / "modules" / name
        if not local.is_dir() or _fill(tree, name, path, str(local)).code:
            _fill_from_remote(tree, path, where)
        _submodules(tree / path, local, where)


def _fill(tree: Path, name: str, path: str, url: str) -> Done:
    """Fill one submodule from a local clone; nothing is left behind where that fails."""
    real = git("config", "--get", f"submodule.{name}.url", cwd=tree).out.strip()
    git("config", f"submodule.{name}.url", url, cwd=tree)
    done = git("submodule", "--quiet", "update", "--", path, cwd=tree)
    git("config", f"submodule.{name}.url", real, cwd=tree)
    if done.code:
        git("submodule", "--quiet", "deinit", "--force", "--", path, cwd=tree)
        shutil.rmtree(tree / ".git" / "modules" / name, ignore_errors=True)
        git("submodule", "--quiet", "init", "--", path, cwd=tree)
    return done


def _fill_from_remote(tree: Path, path: str, where: str) -> None:
    done = git("submodule", "--quiet", "update", "--", path, cwd=tree)
    if done.code:
        raise refused(
            done,
            f"the submodule {path} cannot be fetched",
            where=where,
            todo="run `git submodule update --init --recursive` in your checkout, then this again",
        )
