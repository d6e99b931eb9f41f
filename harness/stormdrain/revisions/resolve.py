"""From a revision as it was written to one whose code is known and lies in the cache.

This is the only step that asks a repository or an index *which* code is meant.
Everything after it depends on nothing but the fields of the result.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ..errors import UsageError
from .cache import Cache, digest
from .overlays import overlay_tree
from .releases import fetch_release
from .revision import Revision, Tree
from .spec import Overlay, Spec, parse_spec
from .trees import copy_files, link_tree, make_files_read_only, tree_digest, walk


def resolve(spec: str, *, project: Path, cache: Cache, sdist: bool = False) -> Revision:
    """Find the code that a revision names and bring its tree into the cache.

    Args:
        spec: `worktree`, a git ref, `pr/N`, `pypi:name==version` or `path:DIR`, with overlays after `+`.
        project: the project's directory; the repository is the one that it lies in.
        cache: where trees are kept.
        sdist: refuse a release that has no source distribution.

    Raises:
        UsageError: there is no such revision, overlay, repository or package; it cannot be reached; or an
            overlay does not fit the tree.
    """
    project = project.absolute()
    parsed = parse_spec(spec, project=project)
    revision = _release(parsed, cache, sdist) if parsed.kind == "release" else _directory(parsed, cache)
    return _overlaid(revision, cache)


def _suffix(overlays: tuple[Overlay, ...]) -> str:
    return "".join(f"+{overlay.name}" for overlay in overlays)


def _release(spec: Spec, cache: Cache, sdist: bool) -> Revision:
    release, tree = fetch_release(spec.name, spec.version, cache)
    if sdist and tree is None:
        raise UsageError(
            f"{spec.name} {spec.version} has no source distribution that can be had",
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
        has_wheel=release.has_wheel,
        sdist=sdist,
        notes=(release.note,) if release.note else (),
    )


def _directory(spec: Spec, cache: Cache) -> Revision:
    folder = Path(spec.name)
    files = list(walk(folder))
    identity = tree_digest(folder, files)
    key = digest("path", identity)

    def build(scratch: Path) -> Tree:
        (scratch / "tree").mkdir()
        copy_files(folder, files, scratch / "tree")
        make_files_read_only(scratch / "tree")
        return Tree()

    tree = cache.make("trees", key, Tree, build, f"copying {folder}")
    place = cache.entry("trees", key) / tree.inside
    return Revision(
        spec=spec.text,
        label=f"{folder.name}@{identity[:7]}{_suffix(spec.overlays)}",
        kind="path",
        source=place,
        root=place,
        checkout=place,
        digest=key,
        overlays=spec.overlays,
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
