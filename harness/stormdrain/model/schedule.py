"""Schedules: what is thrown at an operation, and when, as plain data.

A schedule is one storm's choice of a wrapper around the operation (a timeout, a
scope), of named calls that are made to raise, and of faults with their moments.
It has a short text form that can be pasted back (`parse` and `str` are inverse),
and it is the only thing that decides what a trial does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def _number(n: float) -> str:
    """As short as it can be and read back as the same."""
    short = f"{n:g}"
    return short if float(short) == n else repr(float(n))


@dataclass(frozen=True)
class When:
    """The moment of a fault.

    kind:
        `start`: before the operation's first step; `point`: at the n-th point
        (the gap after the n-th step counted from the operation's start);
        `after`: n seconds after the start, on the trial's clock; `every`: each
        n seconds until the operation ends; `turns`: in each of the n first
        turns of the loop; `event`: at the probe's event of that name; `with`:
        in the same step as the previous fault.
    """

    kind: str
    n: float = 0
    name: str = ""

    def __str__(self) -> str:
        return {
            "start": "@start",
            "point": f"@{int(self.n)}",
            "after": f"+{_number(self.n)}s",
            "every": f"~{_number(self.n)}s",
            "turns": f"*{int(self.n)}",
            "event": f"!{self.name}",
            "with": "@same",
        }[self.kind]


@dataclass(frozen=True)
class Fault:
    """One disturbance: its kind (`cancel`, `scope`, `signal`, `gc`, ...), its moment, and an argument of its kind."""

    kind: str
    when: When
    arg: str = ""

    def __str__(self) -> str:
        return f"{self.kind}{'=' + self.arg if self.arg else ''}{self.when}"


@dataclass(frozen=True)
class Wrap:
    """What is put around the operation: `wait_for`, `timeout`, `fail_after`, `move_on_after`, `scope`, `group`, ... with its seconds."""

    kind: str
    seconds: float | None = None

    def __str__(self) -> str:
        return self.kind if self.seconds is None else f"{self.kind}={_number(self.seconds)}"


@dataclass(frozen=True)
class Failure:
    """A named call that is made to raise: attribute path on the subject, and the exception's name."""

    call: str
    error: str

    def __str__(self) -> str:
        return f"{self.call}:{self.error}"


@dataclass(frozen=True)
class Schedule:
    """One storm's choice. `str()` gives its text form, :func:`parse_schedule` reads it."""

    storm: str
    wrap: Wrap | None = None
    faults: tuple[Fault, ...] = ()
    failures: tuple[Failure, ...] = ()
    variant: str = ""

    def __str__(self) -> str:
        parts = [self.storm + (f"({self.variant})" if self.variant else "")]
        if self.wrap is not None:
            parts.append(f"w:{self.wrap}")
        parts += [f"f:{fault}" for fault in self.faults]
        parts += [f"x:{failure}" for failure in self.failures]
        return "/".join(parts)

    @property
    def aspect(self) -> str:
        """What it is about within its storm, without points and seconds."""
        wrap = self.wrap.kind if self.wrap and self.wrap.kind != "scope" else ""
        return " ".join(part for part in (self.variant, wrap, *map(str, self.failures)) if part)


_NUMBER = r"[0-9.]+(?:e[+-]?[0-9]+)?"
_FAULT = re.compile(
    r"(?P<kind>[a-z-]+)(?:=(?P<arg>[A-Za-z0-9_.-]*))?"
    rf"(?P<when>@start|@same|@\d+|\+{_NUMBER}s|~{_NUMBER}s|\*\d+|![\w.-]+)"
)
_STORM = re.compile(r"(?P<storm>[a-z][a-z0-9-]*)(?:\((?P<variant>[A-Za-z0-9_.:=-]*)\))?")


def _when(text: str) -> When:
    if text == "@start":
        return When("start")
    if text == "@same":
        return When("with")
    if text[0] == "@":
        return When("point", int(text[1:]))
    if text[0] == "*":
        return When("turns", int(text[1:]))
    if text[0] == "!":
        return When("event", name=text[1:])
    return When("after" if text[0] == "+" else "every", float(text[1:-1]))


def parse_schedule(text: str) -> Schedule:
    """Read a schedule's text form.

    Raises:
        ValueError: it is not one.
    """
    head, *parts = text.split("/")
    storm = _STORM.fullmatch(head)
    if storm is None:
        raise ValueError(f"{head!r} names no storm")
    wrap: Wrap | None = None
    faults: list[Fault] = []
    failures: list[Failure] = []
    for part in parts:
        tag, _, body = part.partition(":")
        if tag == "w" and wrap is None and re.fullmatch(rf"[a-z_.]+(={_NUMBER})?", body):
            kind, _, seconds = body.partition("=")
            wrap = Wrap(kind, float(seconds) if seconds else None)
        elif tag == "f" and (match := _FAULT.fullmatch(body)):
            faults.append(Fault(match["kind"], _when(match["when"]), match["arg"] or ""))
        elif tag == "x" and re.fullmatch(r"[\w.]+:\w+", body):
            failures.append(Failure(*body.split(":")))
        else:
            raise ValueError(f"{part!r} is no part of a schedule")
    return Schedule(storm["storm"], wrap, tuple(faults), tuple(failures), storm["variant"] or "")


@dataclass(frozen=True)
class Token:
    """A string that replays one trial: the key of its cell and probe, and the schedule.

    The key is a hash over the probe's source, the revision, the interpreter, the
    backend and the clock, so that a token of another version is refused.
    """

    key: str
    schedule: Schedule

    def __str__(self) -> str:
        return f"{self.key}/{self.schedule}"


def parse_token(text: str) -> Token:
    """Read a token.

    Raises:
        ValueError: it is not one.
    """
    key, _, rest = text.strip().partition("/")
    if not re.fullmatch(r"[0-9a-f]{8}", key) or not rest:
        raise ValueError(f"{text!r} is not a token: eight hexadecimal digits, a slash and a schedule were expected")
    return Token(key, parse_schedule(rest))
