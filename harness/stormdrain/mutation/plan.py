"""Mutant plans: files that name mutants, the code that they start from, and who is expected to catch them.

A general operator knows nothing of what a change was for. A plan says it: each
mutant carries a sentence on what its survival would mean, and, where it is known,
the tests that are expected to fail, so that a run of it is a test of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from ..errors import UsageError
from ..splice import Edit, read_edits

EVERYWHERE = "*"


@dataclass(frozen=True)
class PlannedMutant:
    """One `[[mutant]]` of a plan.

    caught_by: interpreter (or `*`) -> tests; None where nothing is said.
    head: the revision that it starts from, where that is not the plan's.
    """

    name: str
    edits: tuple[Edit, ...]
    why: str = ""
    caught_by: Mapping[str, tuple[str, ...]] | None = None
    head: str = ""


@dataclass(frozen=True)
class Plan:
    """A plan file. What its `[target]` leaves out is empty, `watched` None."""

    file: Path
    mutants: tuple[PlannedMutant, ...]
    head: str = ""
    base: str = ""
    tests: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    watched: tuple[str, ...] | None = None


_TARGET = {"head": str, "base": str, "tests": list, "requires": list, "watched": list}
_MUTANT = {"name": str, "why": str, "caught_by": (list, dict), "head": str, "edit": list}


def read_plan(file: Path) -> Plan:
    """Read a mutant plan. Revisions in it look their overlays up beside the file.

    Raises:
        UsageError: it is not there, or is not a plan.
    """
    try:
        data = tomllib.loads(file.read_text())
    except OSError as error:
        raise UsageError(f"the plan cannot be read: {error.strerror}", where=str(file), todo="check --plan") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the plan is not TOML: {error}", where=str(file), todo="mend that line") from error
    _check(data, {"target": dict, "mutant": list}, str(file))
    target = data.get("target", {})
    _check(target, _TARGET, f"{file}, [target]")
    mutants = tuple(_mutant(entry, file, number) for number, entry in enumerate(data.get("mutant", ()), 1))
    for index, mutant in enumerate(mutants):
        if any(mutant.name == other.name for other in mutants[:index]):
            raise UsageError(f"two mutants are called {mutant.name!r}", where=str(file), todo="rename one")
    return Plan(
        file=file,
        mutants=mutants,
        head=anchored(target.get("head", ""), file.parent),
        base=anchored(target.get("base", ""), file.parent),
        tests=_strings(target, "tests", f"{file}, [target]"),
        requires=_strings(target, "requires", f"{file}, [target]"),
        watched=_strings(target, "watched", f"{file}, [target]") if "watched" in target else None,
    )


def _mutant(entry: object, file: Path, number: int) -> PlannedMutant:
    where = f"{file}, mutant {number}"
    if not isinstance(entry, dict):
        raise UsageError("a mutant must be a table", where=where, todo="write it as [[mutant]]")
    _check(entry, _MUTANT, where)
    name = entry.get("name", "")
    if not re.fullmatch(r"[\w.:-]+", name):
        raise UsageError(f"{name!r} is no name for a mutant", where=where, todo='write name = "no-scope"')
    return PlannedMutant(
        name=name,
        edits=read_edits(entry.get("edit", ()), f"{file}, mutant {name}"),
        why=entry.get("why", "").strip(),
        caught_by=_catchers(entry, f"{file}, mutant {name}"),
        head=anchored(entry.get("head", ""), file.parent),
    )


def _catchers(entry: Mapping[str, Any], where: str) -> dict[str, tuple[str, ...]] | None:
    said = entry.get("caught_by")
    if said is None:
        return None
    if isinstance(said, list):
        return {EVERYWHERE: _strings(entry, "caught_by", where)}
    return {python: _strings(said, python, f"{where}, caught_by") for python in said}


def _check(table: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"there is no key {key!r} here", where=where, todo=f"known: {', '.join(known)}")
        if not isinstance(value, known[key]):
            raise UsageError(f"{key!r} has the wrong type", where=where, todo=f"it is {value!r}")


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    values = table.get(key, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise UsageError(f"{key!r} must be a list of strings", where=where, todo=f"it is {values!r}")
    return tuple(values)


_OVERLAY = re.compile(r"\+(?=[^+]*\.(?:toml|patch|diff)(?:\+|$))")


def anchored(spec: str, folder: Path) -> str:
    """A revision whose overlays and directory are looked up beside the plan that names it."""
    first, *overlays = _OVERLAY.split(spec)
    if first.startswith("path:"):
        first = "path:" + _beside(first.removeprefix("path:"), folder)
    return "+".join((first, *(_beside(name, folder) for name in overlays)))


def _beside(name: str, folder: Path) -> str:
    path = folder / name
    return str(path.resolve()) if path.exists() else name


def expected(caught_by: Mapping[str, tuple[str, ...]] | None) -> tuple[str, ...]:
    """The expectation as a record keeps it: `test`, or `3.14 test` where it is said for one interpreter.

    An expectation that nothing catches it is kept as `nothing`, or `3.14 nothing`.
    """
    found: list[str] = []
    for python, tests in (caught_by or {}).items():
        prefix = "" if python == EVERYWHERE else f"{python} "
        found += [prefix + test for test in tests] or [prefix + "nothing"]
    return tuple(found)


def expected_on(record: tuple[str, ...], python: str) -> tuple[str, ...] | None:
    """Who is expected to catch a mutant on an interpreter, from a record's `expected`.

    Args:
        record: `MutantRecord.expected`.
        python: `3.14` or `3.14.1`.

    Returns:
        Test names, empty for "nothing"; None where nothing was said.
    """
    minor = ".".join(python.split(".")[:2])
    split = [_split(entry) for entry in record]
    here = [test for version, test in split if version == minor]
    if not here:
        here = [test for version, test in split if version == EVERYWHERE]
    if not here:
        return None
    return tuple(test for test in here if test != "nothing")


def _split(entry: str) -> tuple[str, str]:
    match = re.match(r"(3\.\d+) (.*)", entry)
    return (match[1], match[2]) if match else (EVERYWHERE, entry)


def names_match(wanted: str, test: str) -> bool:
    """Whether a plan means this test: by node id, from its function on, or without parameters."""
    function = test.rpartition("::")[2]
    return wanted in (test, function, function.partition("[")[0])
