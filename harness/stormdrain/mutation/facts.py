"""What a campaign learns: of the suite in its baseline, and of each mutant."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Record = dict[str, Any]
"""One test's raw record, as the worker sends it."""
Results = dict[int, Record]
"""By number of the test."""


@dataclass
class Facts:
    """What the baseline taught about a suite: by number of a test."""

    kept: list[int] = field(default_factory=list)
    real: set[int] = field(default_factory=set)
    """Tests that run in real time, because in virtual time they come out otherwise."""
    seconds: dict[int, float] = field(default_factory=dict)
    real_seconds: dict[int, float] = field(default_factory=dict)
    lines: dict[int, dict[str, set[int]]] = field(default_factory=dict)
    spawners: set[int] = field(default_factory=set)
    left_out: dict[str, str] = field(default_factory=dict)
    left: int = 0
    """Processes that the unmutated suite leaves behind."""


@dataclass
class Ran:
    """What became of one mutant."""

    results: Results = field(default_factory=dict)
    chosen: list[int] = field(default_factory=list)
    how: str = ""
    """Empty where code objects were swapped, else why it was a cold start."""
    left: list[str] = field(default_factory=list)
    broken: str = ""
    unviable: str = ""
    same_as: str = ""
    seconds: float = 0.0
    confirmed: str = ""
    left_behind: int = 0
    """Processes that it left behind, beyond what the unmutated suite does."""
    known: bool = False
    """Whether this is an earlier run's result."""
