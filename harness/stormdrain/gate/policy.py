"""What a run is held against, as plain data: which failures count, what is accepted, what CI runs."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from ..model import MutantRecord, OnePlatform

BASE_RULES = ("new", "all")
UNWATCHED_RULES = ("warn", "fail")
REDGREEN_RULES = ("warn", "fail", "off")
WARN_DAYS = 14
"""Days before the end of an accepted entry from which on it is warned of."""

CAUGHT = frozenset({"caught", "timed out"})
MISSED = frozenset({"missed", "uncovered"})
UNDECIDED = frozenset({"unstable", "not executed"})
NO_MUTANTS = frozenset({"neutral", "forced"})
"""Sources of changes that no test is expected to catch, or every test is."""


@dataclass(frozen=True)
class Accepted:
    """A finding or a survivor that is known and accepted until a day.

    id: a finding's id, a mutant's id or a mutant's name.
    until: the last day on which it is accepted.
    """

    id: str
    reason: str
    until: datetime.date
    line: int = 0

    def days_left(self, today: datetime.date) -> int:
        """Days from today to the last day, below zero once it is over."""
        return (self.until - today).days


@dataclass(frozen=True)
class CoveragePolicy:
    """How many of the touched lines must run, in percent; None where no minimum is set.

    union: in some cell; per_cell: in each cell. only: code that runs on one platform only.
    """

    union: int | None = None
    per_cell: int | None = None
    only: tuple[OnePlatform, ...] = ()


@dataclass(frozen=True)
class Policy:
    """The gate's rules.

    fail_on: names of verdicts (FAIL, UNRESOLVED) and of expectations; with FAIL
        every finding counts, else those of the named expectations.
    base_rule: `new`, only failures that base does not have; `all`.
    unwatched: whether a mutant that only an interpreter outside CI catches is a
        survivor (`fail`) or a warning (`warn`).
    redgreen: whether a new test that is green without the change, or red for another reason than an
        assertion, counts (`fail`) or is a warning (`warn`); with `off` a gate does not run them on base.
    """

    fail_on: tuple[str, ...] = ("FAIL", "UNRESOLVED")
    base_rule: str = "new"
    max_survivors: int = 0
    unwatched: str = "warn"
    accepted: tuple[Accepted, ...] = ()
    coverage: CoveragePolicy = CoveragePolicy()
    redgreen: str = "fail"

    def covers(self, expectation: str) -> bool:
        """Whether a finding of this expectation counts at all."""
        return "FAIL" in self.fail_on or expectation in self.fail_on


def minor(python: str) -> str:
    """`3.11` of `3.11.7`."""
    return ".".join(python.split(".")[:2])


def distinct(pythons: Iterable[str]) -> tuple[str, ...]:
    """Interpreters once each, the oldest first; a bare `3.11` is left out where `3.11.7` is there."""
    names = set(pythons)
    full = {minor(name) for name in names if name != minor(name)}
    return tuple(
        sorted(
            names - full, key=lambda name: [int(part) for part in name.split(".") if part.isdecimal() and len(part) < 9]
        )
    )


def caught_on(mutant: MutantRecord) -> tuple[str, ...]:
    """Interpreters on which some test noticed the mutant."""
    return tuple(python for python, outcome in mutant.outcome.items() if outcome in CAUGHT)


def fate(mutant: MutantRecord, watched: tuple[str, ...] | None = None) -> str:
    """What a mutant came to over all interpreters.

    Args:
        mutant: its record.
        watched: interpreters that CI runs (minor versions), None where it is not known.

    Returns:
        `caught`, `caught only unwatched`, `survivor`, `undecided`, or `none`
        (not viable anywhere, or not a mutant in this sense).
    """
    if mutant.source in NO_MUTANTS:
        return "none"
    caught = caught_on(mutant)
    if caught:
        if watched is not None and any(minor(python) in watched for python in mutant.outcome):
            return "caught" if any(minor(one) in watched for one in caught) else "caught only unwatched"
        return "caught"
    outcomes = set(mutant.outcome.values())
    if outcomes & MISSED:
        return "survivor"
    if outcomes & UNDECIDED or (mutant.error and not outcomes):
        return "undecided"
    return "none"
