"""Records of coverage: the statements that a diff touches, which of them ran where, and those that did not.

Statements are kept as ranges of line numbers, `3-5,9`, each by its first line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OnePlatform:
    """Code that runs on one platform only, as the configuration says.

    condition: the test of an `if`, as it is written; what it guards is meant.
    symbol: `pkg.mod:Class.method`; exactly one of the two is given.
    """

    reason: str
    condition: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Touched:
    """The statements of one file of head that the diff touches.

    path: as it is installed; place: as it lies in the repository.
    lines: those that can run. excluded: those that the project's coverage settings leave out.
    only: lines -> why they run on one platform only, as the configuration says.
    """

    path: str
    place: str = ""
    lines: str = ""
    excluded: str = ""
    only: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobCoverage:
    """What another job's coverage data says of touched files.

    name: what the job is called; file: where its data were read.
    lines: file as it is installed -> touched statements that ran there.
    """

    name: str
    file: str = ""
    lines: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gap:
    """Touched statements that follow each other and that some cells, or all, do not run.

    kind: `uncovered` (no cell runs them), `one platform` (no cell here runs them, and the configuration
        says why), `in some cells`.
    cells: those that run them. reason: of the configuration, empty where it has none.
    """

    path: str
    place: str
    first: int
    last: int
    kind: str
    cells: tuple[str, ...] = ()
    reason: str = ""


def ranges(lines: Iterable[int]) -> str:
    """Line numbers as `3-5,9`."""
    out: list[list[int]] = []
    for line in sorted(set(lines)):
        if out and line == out[-1][1] + 1:
            out[-1][1] = line
        else:
            out.append([line, line])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in out)


def numbers(text: str) -> set[int]:
    """The line numbers of `3-5,9`.

    Raises:
        ValueError: it is not of that form.
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
