"""Every error that a user can cause, each with what was wrong, where, and what to do.

The command line prints these three lines and exits with the error's code; it
never shows a traceback for one of them. Anything else that reaches the top is
stormdrain's own fault and exits with 70.
"""

from __future__ import annotations


class StormdrainError(Exception):
    """A problem that is told in words.

    Args:
        what: what was wrong, one sentence.
        where: the file, revision, interpreter or option that it concerns.
        todo: what the user can do next.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.todo = todo

    def __str__(self) -> str:
        return "\n".join(
            part
            for part in (
                self.what,
                f"  where: {self.where}" if self.where else "",
                f"  to do: {self.todo}" if self.todo else "",
            )
            if part
        )


class UsageError(StormdrainError):
    """The call, the configuration, a probe, a revision or a plan is wrong (exit 2)."""

    exit_code = 2


class BaselineError(StormdrainError):
    """The baseline is broken: calm does not behave alike, or tests are red before any mutant (exit 4)."""

    exit_code = 4


class InternalError(Exception):
    """A bug in stormdrain itself (exit 70)."""

    exit_code = 70
