"""Mutants that only an interpreter catches which nobody runs.

A test that notices on 3.14 alone holds nothing where 3.10 to 3.13 are what CI runs:
for its authors the mutant survives.
"""

from __future__ import annotations

from collections.abc import Collection

from ..model import MutantRecord

CAUGHT = ("caught", "timed out")
SURVIVED = ("missed", "uncovered")


def only_caught_on(record: MutantRecord) -> tuple[str, ...]:
    """The interpreters that catch a mutant, where it survives on another; empty where all or none do."""
    caught = tuple(python for python, outcome in record.outcome.items() if outcome in CAUGHT)
    return caught if any(outcome in SURVIVED for outcome in record.outcome.values()) else ()


def only_unwatched(record: MutantRecord, watched: Collection[str] | None) -> str:
    """One clause on a mutant that is caught only where nothing runs: `caught only on 3.14, which nothing runs`.

    Args:
        record: the mutant.
        watched: minor versions that some workflow runs; None where it is not known.

    Returns:
        The clause; `caught only on 3.14 (what runs there is not known)` where that is so; else empty.
    """
    caught = only_caught_on(record)
    if not caught:
        return ""
    names = " and ".join(caught)
    if watched is None:
        return f"caught only on {names} (what runs there is not known)"
    seen = {".".join(version.split(".")[:2]) for version in watched}
    if any(".".join(python.split(".")[:2]) in seen for python in caught):
        return ""
    return f"caught only on {names}, which nothing runs"
