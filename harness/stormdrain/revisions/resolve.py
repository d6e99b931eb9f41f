"""From a revision as it was written to one whose code is known and lies in the cache.

This is the only step that asks a repository or an index *which* code is meant.
Everything after it depends on nothing but the fields of the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from ..errors import UsageError
from .cache import Cache, digest
from .checkout import check_out, copy_working_tree, working_files
from .overlays import overlay_tree
from .releases import fetch_release
from .repository import Repository, clone_with, commit_of, fetch_pull_request, find_repository, head_of
from .revision import Revision, Tree
from .spec import Overlay, Spec, parse_spec
from .trees import copy_files, known_digest, link_tree, make_files_read_only, tree_digest, walk


def resolve(spec: str, *, project: Path, cache: Cache, sdist: bool = False) -> Revision:
    """Find the code that a revision names and bring its tree into the cache.

    Args:
        spec: `worktree`, a git ref, `pr/N`, `pypi:name==version`, `path:DIR` (with overlays after `+`) or `stdlib`.
        project: the project's directory; the repository is the one that it lies in.
        cache: where trees are kept.
        sdist: refuse a release that has no source distribution.

    Raises:
        UsageError: there is no such revision, overlay, repository or package; it cannot be reached; or an
            overlay does not fit the tree.
    """
    project = project.absolute()
    parsed = parse_spec(spec, project=project)
    if parsed.kind == "release":
        revision = _release(parsed, cache, sdist)
    elif parsed.kind == "path":
        revision = _directory(parsed, cache)
    elif parsed.kind == "stdlib":
        revision = _nothing(parsed, cache)
    else:
        repository = find_repository(project)
        revision = (
            _working_tree(parsed, repository, cache)
            if parsed.kind == "worktree"
            else (_commit(parsed, repository, cache))
        )
    return _overlaid(revision, cache)


def _suffix(overlays: tuple[Overlay, ...]) -> str:
    return "".join(f"+{overlay.name}" for overlay in overlays)


def _release(spec: Spec, cache: Cache, sdist: bool) -> Revision:
    release, tree = fetch_release(spec.name, spec.version, cache)
    if sdist and not release.has_sdist:
        raise UsageError(
            f"{spec.name} {spec.version} has no source distribution",
            where=spec.text,
            todo="leave `sdist` out of [tool.stormdrain.environment], or use path:DIR on an unpacked one",
        )
    return Revision(
        spec=spec.text,
        label=f"{spec.name} {spec.version}{_suffix(spec.overlays)}",
        kind="release",
        source=tree,
        root=tree,
        checkout=tree,
        digest=release.digest,
        overlays=spec.overlays,
        name=spec.name,
        version=spec.version,
        has_sdist=release.has_sdist,
        has_wheel=release.has_wheel,
        sdist=sdist,
        notes=(release.note,) if release.note else (),
    )


def _directory(spec: Spec, cache: Cache) -> Revision:
    folder = Path(spec.name)
    if (folder / ".git").exists():
        return _working_tree(spec, find_repository(folder), cache)
    files = list(walk(folder))
    identity = known_digest(folder, files, cache)

    def build(scratch: Path) -> Tree:
        (scratch / "tree").mkdir()
        copy_files(folder, files, scratch / "tree")
        return _unchanged(scratch / "tree", files, identity, folder)

    label = f"{folder.name}@{identity[:7]}"
    return _in_tree(spec, label, digest("path", identity), "", build, f"copying {folder}", cache)


def _nothing(spec: Spec, cache: Cache) -> Revision:
    """An empty tree: under test is what the interpreter itself brings."""

    def build(scratch: Path) -> Tree:
        (scratch / "tree").mkdir()
        return Tree()

    return _in_tree(spec, "stdlib", digest("stdlib"), "", build, "making an empty tree", cache)


def _unchanged(copy: Path, files: list[str], identity: str, original: Path) -> Tree:
    if tree_digest(copy, files) != identity:
        raise UsageError(
            "files changed while they were copied",
            where=str(original),
            todo="run this again when they are at rest",
        )
    return Tree()


def _working_tree(spec: Spec, repository: Repository, cache: Cache) -> Revision:
    """The working tree as it is now, with what is not committed and what is not tracked."""
    files = working_files(repository.top)
    identity = known_digest(repository.top, files, cache)
    commit = head_of(repository)

    def build(scratch: Path) -> Tree:
        if commit:
            with clone_with(repository, commit, cache) as clone:
                copy_working_tree(repository, clone, commit, files, scratch / "tree")
        else:
            copy_working_tree(repository, None, "", files, scratch / "tree")
        return _unchanged(scratch / "tree", files, identity, repository.top)

    key = digest("worktree", commit, identity)
    say = f"copying the working tree of {repository.top}"
    name = Path(spec.name).name or "worktree"
    revision = _in_tree(spec, f"{name}@{identity[:7]}", key, repository.prefix, build, say, cache)
    return dataclasses.replace(revision, commit=commit)


def _commit(spec: Spec, repository: Repository, cache: Cache) -> Revision:
    """The commit that a ref or a pull request names, checked out."""
    if spec.kind == "pr":
        commit = fetch_pull_request(repository, spec.name, cache)
        name = f"pr/{spec.name}"
    else:
        commit = commit_of(repository, spec.name, spec.text)
        name = spec.name

    def build(scratch: Path) -> Tree:
        with clone_with(repository, commit, cache) as clone:
            return Tree(notes=check_out(repository, clone, commit, scratch / "tree"))

    label = commit[:10] if commit.startswith(name) else f"{name}@{commit[:7]}"
    revision = _in_tree(spec, label, digest("git", commit), repository.prefix, build, f"checking out {label}", cache)
    return dataclasses.replace(revision, commit=commit)


def _in_tree(
    spec: Spec, label: str, key: str, inside: str, build: Callable[[Path], Tree], say: str, cache: Cache
) -> Revision:
    """The revision whose tree is the entry `key`, built where it is not there; `inside` is its project."""

    def build_read_only(scratch: Path) -> Tree:
        tree = build(scratch)
        make_files_read_only(scratch / tree.inside)
        return tree

    tree = cache.make("trees", key, Tree, build_read_only, say)
    checkout = cache.entry("trees", key) / tree.inside
    if not (checkout / inside).is_dir():
        raise UsageError(
            f"{label} has no directory {inside}",
            where=spec.text,
            todo="name a revision that has this project",
        )
    return Revision(
        spec=spec.text,
        label=f"{label}{_suffix(spec.overlays)}",
        kind=spec.kind,
        source=checkout / inside,
        root=checkout / inside,
        checkout=checkout,
        digest=digest(key, inside),
        overlays=spec.overlays,
        notes=tree.notes,
    )


def _overlaid(revision: Revision, cache: Cache) -> Revision:
    """The revision with a tree in which its overlays are applied, where it has a tree and overlays."""
    if not revision.overlays or revision.checkout is None or revision.root is None:
        return revision
    checkout = revision.checkout
    inside = revision.root.relative_to(checkout)
    key = digest("overlaid", revision.digest, *(overlay.digest for overlay in revision.overlays))

    def build(scratch: Path) -> Tree:
        copy = scratch / "tree"
        link_tree(checkout, copy)
        notes: list[str] = []
        for overlay in revision.overlays:
            notes += overlay_tree(overlay, copy / inside, copy, revision.spec)
        make_files_read_only(copy)
        return Tree(notes=tuple(notes))

    tree = cache.make("trees", key, Tree, build)
    return dataclasses.replace(
        revision,
        source=cache.entry("trees", key) / tree.inside / inside,
        notes=revision.notes + tree.notes,
    )
