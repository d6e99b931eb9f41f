"""Records of tests: whether a new one fails without its change, and how much delay one bears."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RedGreen:
    """A test of the head that base does not have, on one interpreter.

    kind: `red` (fails on base for the right reason), `wrong reason`, `decorative` (green
    on base), `broken` (not green on head), `unstable`.
    reason: what failed it on base: `an assertion`, or the exception's name.
    """

    test: str
    python: str
    kind: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Slack:
    """A test's margin on one interpreter. Times are seconds.

    waits, work: what it took, split into waits for timers and everything else.
    margin, of: what was left on its tightest timeout, and what that was set to; None where it sets none.
    limit: what pytest-timeout gives the whole test.
    child_start: the delay of each process start that it bears, as much as was tried where it bears
        all of that; None where it starts none, or runs in real time only.
    turn: the same for each turn of the loop.
    """

    test: str
    python: str
    waits: float
    work: float
    margin: float | None = None
    of: float | None = None
    limit: float | None = None
    child_start: float | None = None
    turn: float | None = None


@dataclass(frozen=True)
class OwnTest:
    """A test of the project that is not green on head, on one interpreter.

    kind: `broken by head` (green on base), `new and red` (base does not have it), `red` (there is no base),
        `pre-existing` (not green on base either), `unstable` (on head, not on base).
    message: how it fails on head; base: how it fails on base.
    """

    test: str
    python: str
    kind: str
    message: str = ""
    base: str = ""
