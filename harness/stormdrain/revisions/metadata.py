"""What a package says that it needs: its installed metadata, its extras, its dependency groups.

The dependencies are installed apart from the package (its code lives in a layer
of its own), so they are worked out here, for the interpreter they are meant for,
instead of being left to an installer that would bring the package along.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import NormalizedName, canonicalize_name

from ..errors import UsageError


@dataclass(frozen=True)
class Metadata:
    """The fields of METADATA that matter here; all empty where a layer is plain source."""

    name: str = ""
    version: str = ""
    requires_python: str = ""
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


def read_metadata(site: Path) -> Metadata:
    """The metadata of the one distribution that is installed in `site`."""
    import email.parser

    for file in sorted(site.glob("*.dist-info/METADATA")):
        message = email.parser.BytesHeaderParser().parsebytes(file.read_bytes())
        return Metadata(
            canonicalize_name(str(message["Name"])),
            str(message["Version"]),
            str(message.get("Requires-Python", "")),
            tuple(str(line) for line in message.get_all("Requires-Dist", ())),
            tuple(str(line) for line in message.get_all("Provides-Extra", ())),
        )
    return Metadata()


def requires_python(tree: Path) -> str:
    """What a source tree says of the Pythons that it runs on; empty where only a build would tell."""
    import email.parser

    if said := read_pyproject(tree).get("project", {}).get("requires-python"):
        return str(said)
    with contextlib.suppress(OSError):
        message = email.parser.BytesHeaderParser().parsebytes((tree / "PKG-INFO").read_bytes())
        return str(message.get("Requires-Python", ""))
    return ""


def runs_on(requires_python: str, full: str) -> bool:
    """Whether `requires-python` admits an interpreter; what cannot be read admits everything."""
    try:
        return SpecifierSet(requires_python).contains(full.rstrip("t"), prereleases=True)
    except InvalidSpecifier:
        return True


def dependencies(
    metadata: Metadata, extras: Iterable[str], markers: Mapping[str, str], *, base: bool = True
) -> tuple[str, ...]:
    """The requirements of a package for one interpreter, markers resolved.

    Args:
        metadata: the package's.
        extras: the extras asked for.
        markers: the interpreter's values for environment markers.
        base: whether to include what is needed without any extra.

    Raises:
        UsageError: an extra that the package does not have.
    """
    known = {canonicalize_name(extra) for extra in metadata.extras}
    wanted = [canonicalize_name(extra) for extra in extras]
    for extra in wanted:
        if extra not in known:
            raise UsageError(
                f"{metadata.name or 'the revision'} has no extra {extra!r}",
                where="[tool.stormdrain.environment] extras",
                todo=f"it has: {', '.join(sorted(known)) or 'none'}",
            )
    lines: dict[str, None] = {}
    for extra in wanted:
        # An extra may name the package with other extras: those are wanted too.
        for requirement in _needed(metadata, markers, extra):
            if canonicalize_name(requirement.name) == metadata.name:
                wanted += [more for more in map(canonicalize_name, requirement.extras) if more not in wanted]
            elif base or not _needed_without(requirement, metadata, markers):
                lines[_bare(requirement)] = None
    if base:
        for requirement in _needed(metadata, markers, ""):
            if canonicalize_name(requirement.name) != metadata.name:
                lines[_bare(requirement)] = None
    return tuple(lines)


def _needed(metadata: Metadata, markers: Mapping[str, str], extra: str) -> list[Requirement]:
    found = [_requirement(line, metadata) for line in metadata.requires]
    return [one for one in found if one.marker is None or one.marker.evaluate({**markers, "extra": extra})]


def _requirement(line: str, metadata: Metadata) -> Requirement:
    """Read a requirement as old releases write it, too: `click (>=7.*)`, which is no longer allowed, means `>=7`."""
    try:
        return Requirement(line)
    except InvalidRequirement:
        with contextlib.suppress(InvalidRequirement):
            return Requirement(re.sub(r"((?:>=|<=|>|<|~=)\s*[0-9.]*[0-9])\.\*", r"\1", line))
    raise UsageError(
        f"{metadata.name or 'the revision'} requires {line!r}, which cannot be read",
        where="its metadata",
        todo='list what it needs: dependencies = "listed" and requires under [tool.stormdrain.environment]',
    )


def _needed_without(requirement: Requirement, metadata: Metadata, markers: Mapping[str, str]) -> bool:
    return any(str(one) == str(requirement) for one in _needed(metadata, markers, ""))


def _bare(requirement: Requirement) -> str:
    bare = Requirement(str(requirement))
    bare.marker = None
    return str(bare)


def read_pyproject(folder: Path) -> dict[str, Any]:
    """pyproject.toml of a tree; empty where there is none.

    Raises:
        UsageError: it is not TOML.
    """
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"pyproject.toml cannot be read: {error}", where=str(file), todo="correct it") from error


def group(pyproject: Mapping[str, Any], names: Iterable[str], where: str) -> tuple[str, ...]:
    """The requirements of dependency groups, those that they include too.

    Raises:
        UsageError: there is no such group, or it includes itself.
    """
    table = pyproject.get("dependency-groups", {})
    groups = {canonicalize_name(name): items for name, items in table.items()}
    lines: dict[str, None] = {}

    def take(name: NormalizedName, within: tuple[NormalizedName, ...]) -> None:
        if name not in groups or name in within:
            what = "includes itself" if name in within else "is not there"
            raise UsageError(
                f"the dependency group {name!r} {what}",
                where=where,
                todo=f"it has: {', '.join(sorted(groups)) or 'none'}",
            )
        for item in groups[name]:
            if isinstance(item, str):
                lines[item] = None
            else:
                take(canonicalize_name(item["include-group"]), (*within, name))

    for name in names:
        take(canonicalize_name(name), ())
    return tuple(lines)


def check_requirements(lines: Iterable[str], where: str) -> tuple[str, ...]:
    """Requirements of the user's, in one spelling.

    Raises:
        UsageError: one is no requirement.
    """
    checked = []
    for line in lines:
        try:
            checked.append(str(Requirement(line)))
        except InvalidRequirement as error:
            raise UsageError(
                f"{line!r} is no requirement: {str(error).splitlines()[0]}",
                where=where,
                todo="write it as in pyproject.toml, for example pytest==9.2.0",
            ) from error
    return tuple(checked)
