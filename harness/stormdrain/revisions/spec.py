"""How a revision is written: `worktree`, a git ref, `pr/N`, `pypi:name==version`, `path:DIR`, `stdlib`, and overlays.

A revision is named on command lines, in plans and in configuration, often with
changes on top that no commit has. This module reads the text; it looks at
nothing but the overlay files, whose content is part of a revision's identity.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ..errors import UsageError

_OVERLAY = re.compile(r".+\.(toml|patch|diff)")

FORMS = "worktree, a git ref, pr/N, pypi:name==version, path:DIR or stdlib, each with +overlay.toml or +file.patch"


@dataclass(frozen=True)
class Overlay:
    """A change on top of a revision.

    name: the file's name without its suffix, for labels.
    path: the file.
    body: what it holds; read once, so that a run is about one content.
    """

    name: str
    path: Path
    body: bytes

    @property
    def is_patch(self) -> bool:
        """Whether it is a unified diff (else it is a table of edits)."""
        return self.path.suffix != ".toml"

    @property
    def digest(self) -> str:
        """Hash of the content and of how it is read."""
        return hashlib.sha256(self.path.suffix.encode() + b"\0" + self.body).hexdigest()


@dataclass(frozen=True)
class Spec:
    """A revision as it was written.

    kind: `worktree`, `git`, `pr`, `release`, `path` or `stdlib`.
    name: the ref, the pull request's number, the package's name, the directory.
    version: of a release.
    """

    text: str
    kind: str
    name: str
    version: str
    overlays: tuple[Overlay, ...]


def parse_spec(text: str, *, project: Path) -> Spec:
    """Read a revision.

    Args:
        text: what was written.
        project: where overlays and directories are looked for after the current directory.

    Raises:
        UsageError: it has none of the forms, or an overlay is not there.
    """
    base, files = _split(text.strip())
    overlays = tuple(_overlay(file, text, project) for file in files)
    if not base:
        raise UsageError(f"{text!r} names no revision", where="revision", todo=f"give {FORMS}")
    if base == "worktree":
        return Spec(text, "worktree", "", "", overlays)
    if base == "stdlib":
        if overlays:
            raise UsageError("overlays of the standard library cannot be laid", where=text, todo="leave them out")
        return Spec(text, "stdlib", "", "", ())
    if base.startswith("pypi:"):
        name, version = _release(base.removeprefix("pypi:"), text)
        return Spec(text, "release", name, version, overlays)
    if base.startswith("path:"):
        return Spec(text, "path", str(_directory(base.removeprefix("path:"), text, project)), "", overlays)
    if match := re.fullmatch(r"pr/(\d+)", base):
        return Spec(text, "pr", match[1], "", overlays)
    if base.startswith("-") or re.search(r"[\s\x00-\x1f]", base):
        raise UsageError(f"{base!r} is no git ref", where=text, todo=f"give {FORMS}")
    return Spec(text, "git", base, "", overlays)


def _split(text: str) -> tuple[str, list[str]]:
    """The revision and its overlays: the last parts that look like overlay files.

    A `+` before anything else belongs to the revision (`==1.0+local`).
    """
    base, *rest = text.split("+")
    cut = len(rest)
    while cut and _OVERLAY.fullmatch(rest[cut - 1]):
        cut -= 1
    return "+".join([base, *rest[:cut]]), rest[cut:]


def _overlay(file: str, text: str, project: Path) -> Overlay:
    wanted = Path(file).expanduser()
    places = [Path.cwd() / wanted, project / wanted]
    for place in places:
        if place.is_file():
            path = place.resolve()
            return Overlay(path.stem, path, path.read_bytes())
    raise UsageError(
        f"the overlay {file} is not there",
        where=f"{text} (looked for {' and '.join(dict.fromkeys(str(place) for place in places))})",
        todo="give its path relative to the current directory or to the project",
    )


def _release(text: str, whole: str) -> tuple[str, str]:
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise UsageError(
            f"{text!r} is no release: {str(error).splitlines()[0]}",
            where=whole,
            todo="write pypi:name==version",
        ) from error
    pins = list(requirement.specifier)
    exact = len(pins) == 1 and pins[0].operator in ("==", "===") and not pins[0].version.endswith(".*")
    if not exact or requirement.url or requirement.marker or requirement.extras:
        raise UsageError(
            f"{text!r} is not one release of a package",
            where=whole,
            todo="write pypi:name==version; extras go into [tool.stormdrain.environment]",
        )
    return canonicalize_name(requirement.name), pins[0].version


def _directory(text: str, whole: str, project: Path) -> Path:
    wanted = Path(text).expanduser()
    for place in (Path.cwd() / wanted, project / wanted):
        if place.is_dir():
            return place.resolve()
    raise UsageError(f"there is no directory {text}", where=whole, todo="give the directory of a Python project")
