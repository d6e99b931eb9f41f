"""Verdicts and the one function that merges them."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Verdict(str, enum.Enum):
    """What a trial, a storm, a probe or a run comes to."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNRESOLVED = "UNRESOLVED"
    """Reached, but could not be decided."""
    ERROR = "ERROR"
    """The harness or the baseline is broken; nothing may be concluded."""
    NA = "N/A"
    """Does not apply here: counted and printed, never decides."""


_WEIGHT = {Verdict.NA: 0, Verdict.PASS: 1, Verdict.UNRESOLVED: 2, Verdict.FAIL: 3, Verdict.ERROR: 4}


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of several: the weightiest of ERROR > FAIL > UNRESOLVED > PASS > N/A.

    Nothing at all merges to N/A, so that an empty run is never a PASS. The
    function is associative, commutative and idempotent.
    """
    return max(verdicts, key=_WEIGHT.__getitem__, default=Verdict.NA)
