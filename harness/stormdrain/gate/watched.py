"""Which interpreters a project's CI runs, and which it supports without running them.

A bug that shows on one interpreter only is found by nobody where no job runs
that interpreter. What is watched is read from the configuration if it says so,
else from the files that declare matrices; where neither says anything it is not
known, and "not known" is never reported as "nothing runs it".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from .matrices import Found, from_hatch, from_nox, from_tox, from_workflows, version_of
from .policy import minor

RELEASED = tuple(f"3.{number}" for number in range(8, 15))
"""Minor versions that `requires-python` is held against."""


@dataclass(frozen=True)
class Watched:
    """What CI runs.

    pythons: minor versions, None where it is not known.
    source: where that was read.
    notes: what could not be read, each a sentence.
    """

    pythons: tuple[str, ...] | None
    source: str = ""
    notes: tuple[str, ...] = ()

    def unwatched(self, supported: Iterable[str]) -> tuple[str, ...]:
        """Supported interpreters that nothing runs; empty where it is not known."""
        if self.pythons is None:
            return ()
        return tuple(python for python in supported if python not in self.pythons)


def order(pythons: Iterable[str]) -> tuple[str, ...]:
    """Minor versions once each, the oldest first."""
    return tuple(sorted(set(pythons), key=lambda one: tuple(int(part) for part in one.split("."))))


def watched(project: Path | None, configured: tuple[str, ...] | None = None, where: str = "") -> Watched:
    """What CI runs.

    Args:
        project: the project's tree, None where there is none to read.
        configured: `watched` of the configuration, which wins.
        where: the name of the configuration, for `source`.
    """
    if configured is not None:
        return Watched(order(minor(one) for one in configured), where or "configuration")
    if project is None:
        return Watched(None)
    found = [read(project) for read in (from_workflows, from_tox, from_nox, from_hatch)]
    return _merged(found)


def _merged(found: list[Found]) -> Watched:
    pythons = order(python for one in found for python in one.pythons)
    notes = tuple(note for one in found for note in one.notes)
    sources = ", ".join(source for one in found for source in one.sources)
    return Watched(pythons or None, sources if pythons else "", notes)


def supported(project: Path | None) -> tuple[str, ...]:
    """Interpreters that a project supports: by `requires-python`, else by classifiers; empty if neither."""
    table = _project_table(project) if project else {}
    requires = table.get("requires-python")
    if isinstance(requires, str):
        from packaging.specifiers import InvalidSpecifier, SpecifierSet

        try:
            specifier = SpecifierSet(requires)
        except InvalidSpecifier:
            return ()
        # `>=3.10.2` means that 3.10 is supported: ask for a late patch release.
        return tuple(one for one in RELEASED if specifier.contains(f"{one}.99") or specifier.contains(one))
    lead = "Programming Language :: Python :: "
    named = [str(line).removeprefix(lead) for line in table.get("classifiers", []) if str(line).startswith(lead)]
    return order(version for version in map(version_of, named) if version)


def _project_table(project: Path) -> dict[str, Any]:
    try:
        tables = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    table = tables.get("project", {})
    return table if isinstance(table, dict) else {}
