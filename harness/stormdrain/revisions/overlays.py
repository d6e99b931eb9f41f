"""Overlays: changes laid over a revision's layer, and over its tree so that its tests are the changed ones.

An overlay is how a version is tried that no commit has: history rebuilt from a
description, a proposed fix, somebody's patch. A table of edits speaks of modules;
a patch speaks of a repository's paths, of which the layer has those of the
package, without the folders above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import tomllib

from ..errors import UsageError
from ..splice import Edit, edit_path, edited, read_edits
from .patches import FilePatch, Misfit, read_patch
from .spec import Overlay

_NOT_CODE = {
    "tests",
    "test",
    "docs",
    "doc",
    "examples",
    "example",
    "benchmarks",
    "scripts",
    "tools",
    ".github",
}
_ROOTS = ("src", "lib", "python", "")
"""Where a tree may keep its import root."""


@dataclass(frozen=True)
class Laid:
    """What an overlay did to a layer: the files that it wrote; notes on parts that have no place there."""

    changed: tuple[str, ...]
    notes: tuple[str, ...] = ()


def overlay_site(overlay: Overlay, site: Path, spec: str) -> Laid:
    """Lay an overlay over an installed layer.

    Args:
        overlay: what to lay.
        site: the layer's directory; its directories can be written, its files are written anew.
        spec: the revision as written, for messages.

    Raises:
        UsageError: it does not fit.
    """
    if not overlay.is_patch:
        files = _by_file(overlay, lambda name: (site / name).is_file())
        for path, edits in files.items():
            if not (site / path).is_file():
                raise UsageError(
                    f"the overlay {overlay.path.name} changes {path}, which the revision does not have",
                    where=f"{overlay.path} on {spec}",
                    todo="give the module's name, or its path relative to the import root",
                )
            _rewrite(site / path, edited((site / path).read_bytes(), edits, path))
        return Laid(tuple(files))
    changed, elsewhere = [], []
    for patch in read_patch(overlay.body, str(overlay.path)):
        place = place_in(patch, site)
        if place is None:
            elsewhere.append(patch.path)
        else:
            _apply(patch, site, *place, overlay, spec)
            changed.append(place[1])
    notes = (f"{overlay.path.name}: not in the layer: {', '.join(elsewhere)}",) if elsewhere else ()
    return Laid(tuple(changed), notes)


def overlay_tree(overlay: Overlay, project: Path, checkout: Path, spec: str) -> list[str]:
    """Lay an overlay over a source tree; what the tree does not have is passed over.

    Args:
        overlay: what to lay.
        project: the project's directory in the tree.
        checkout: the whole tree.
        spec: the revision as written, for messages.

    Returns:
        Notes on parts that were passed over.

    Raises:
        UsageError: code or tests that are there do not fit.
    """
    if not overlay.is_patch:
        roots = [project / root for root in _ROOTS]
        for path, edits in _by_file(overlay, lambda name: _first(roots, name) is not None).items():
            if file := _first(roots, path):
                _rewrite(file, edited(file.read_bytes(), edits, path))
        return []
    notes = []
    for patch in read_patch(overlay.body, str(overlay.path)):
        where = _in_tree(patch, project, checkout)
        if where is None:
            notes.append(f"{overlay.path.name}: not in the tree: {patch.path}")
            continue
        try:
            _apply(patch, *where, overlay, spec)
        except UsageError:
            # A changelog of a release never fits a patch; code and tests must.
            if patch.path.endswith(".py"):
                raise
            notes.append(f"{overlay.path.name}: does not fit, passed over: {patch.path}")
    return notes


def _first(roots: Iterable[Path], name: str) -> Path | None:
    return next((root / name for root in roots if (root / name).is_file()), None)


def _by_file(overlay: Overlay, exists: Callable[[str], bool]) -> dict[str, list[Edit]]:
    where = str(overlay.path)
    try:
        tables = tomllib.loads(overlay.body.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the overlay cannot be read: {error}", where=where, todo="correct it") from error
    edits = tables.get("edit")
    if not isinstance(edits, list) or not edits:
        raise UsageError("the overlay has no [[edit]] table", where=where, todo="write one for each change")
    files: dict[str, list[Edit]] = {}
    for edit in read_edits(edits, where):
        files.setdefault(edit_path(edit, exists), []).append(edit)
    return files


def place_in(patch: FilePatch, root: Path) -> tuple[str, str] | None:
    """Where under an import root the file of a patch was and will be, or None where it has no place there.

    Folders above the package (`src/`, a monorepo's) are stripped, as few as
    possible; tests, documents and the like only count where their whole path is there.
    """
    parts = patch.source.split("/")
    for strip in range(len(parts)):
        if strip and _NOT_CODE & set(parts[:strip]):
            return None
        rest = parts[strip:]
        if patch.is_new:
            there = len(rest) > 1 and _is_code(root / rest[0])
        else:
            # A lone file's name is found anywhere; that says little about where it belongs.
            there = (root / "/".join(rest)).is_file() and (len(rest) > 1 or "/".join(parts[:-1]) in _ROOTS)
        if there:
            return "/".join(rest), "/".join(patch.path.split("/")[strip:])
    return None


def _is_code(folder: Path) -> bool:
    return folder.is_dir() and not folder.name.endswith((".dist-info", ".data")) and folder.name != "bin"


def _in_tree(patch: FilePatch, project: Path, checkout: Path) -> tuple[Path, str, str] | None:
    for root in (checkout, project):
        if patch.is_new:
            folder = patch.path.rpartition("/")[0].partition("/")[0]
            if not folder or (root / folder).is_dir():
                return root, patch.source, patch.path
        elif (root / patch.source).is_file():
            return root, patch.source, patch.path
    for root in (project / name for name in _ROOTS):
        if found := place_in(patch, root):
            return root, *found
    return None


def _apply(patch: FilePatch, root: Path, source: str, target: str, overlay: Overlay, spec: str) -> None:
    old, new = root / source, root / target
    try:
        content = patch.apply(b"" if patch.is_new and not old.exists() else old.read_bytes())
    except Misfit as error:
        raise UsageError(
            f"the patch {overlay.path.name} does not apply to {source}: {error}",
            where=f"{overlay.path} on {spec}",
            todo="make it against this revision (git diff REVISION)",
        ) from None
    if patch.is_removed:
        old.unlink()
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    _rewrite(new, content)
    if new != old:
        old.unlink()


def _rewrite(file: Path, content: bytes) -> None:
    """Write anew instead of over: the file may be one name of several for the same content."""
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
    file.unlink(missing_ok=True)
    file.write_bytes(content)
    file.chmod(mode | 0o200)
