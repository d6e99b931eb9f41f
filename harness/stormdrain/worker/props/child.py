"""The scripted child as a probe sees it: its keywords, checked, and what its processes reported.

What the process itself does is in `inside/child.py`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from . import script as check
from .frames import Frame
from .kernel import signal_name
from .prop import Process, Prop
from .script import Replies, Said, Step, Table

if TYPE_CHECKING:
    from .hub import Hub

KEPT = 10_000
"""Entries that are kept of what one child received."""


class Child(Prop):
    """A scripted child: `path` is an executable for the code under test to start, as often as it likes."""

    kind = "scripted child"

    def __init__(self, hub: Hub, name: str, path: str, stops_itself: bool) -> None:
        super().__init__(hub, name, path)
        self._stops_itself = stops_itself
        self._received: list[str] = []
        self._signals: list[str] = []
        self._lines: list[str] = []
        self._eofs = 0
        self._closed = 0

    async def ready(self, count: int = 1) -> None:
        """Wait until so many of its processes have installed their handlers and written their lines.

        Blocks the loop: nothing that the trial would measure happens meanwhile.

        Raises:
            UsageError: not within 10 s of real time; says whether one was ever started.
        """
        self.wait(lambda: self._ready(count), "it is ready")

    def _ready(self, count: int) -> bool:
        ready = [process for process in self.processes if process.ready]
        if self._stops_itself:
            ready = [process for process in ready if process.state() != "" and not process.running()]
        return len(ready) >= count

    def received(self) -> list[str]:
        """What it has reported, in order: `SIGTERM`, each line that it read (cut at 1000 bytes), `EOF`."""
        self._hub.drain()
        return list(self._received)

    def signals(self) -> list[str]:
        """The names of the signals that it recorded, in order."""
        self._hub.drain()
        return list(self._signals)

    def lines(self) -> list[str]:
        """The lines that it read, in order."""
        self._hub.drain()
        return list(self._lines)

    def saw_eof(self) -> bool:
        """Whether one of its processes has seen the end of its stdin."""
        self._hub.drain()
        return self._eofs > 0

    def heard(self, process: Process, frame: Frame) -> None:
        """Take a message of a child: a signal, a line, EOF."""
        record, what = self._hub.record, process.label
        if frame.kind == "signal":
            name = signal_name(frame.text)
            self._keep(self._signals, name)
            record(what, f"got {name}")
        elif frame.kind == "line":
            self._keep(self._lines, frame.text)
            record(what, f"read {frame.text[:200]}")
        elif frame.kind == "eof":
            self._eofs += 1
            self._keep(None, "EOF")
            record(what, "saw the end of its stdin")
        elif frame.kind in _SAYINGS:
            record(what, _SAYINGS[frame.kind].format(frame.text))

    def _keep(self, also: list[str] | None, entry: str) -> None:
        if len(self._received) < KEPT:
            self._received.append(entry)
            if also is not None:
                also.append(entry)


_SAYINGS = {
    "closed": "closed its stdout",
    "broken-pipe": "found its stdout broken",
    "flooded": "wrote a flood of {} bytes",
    "continued": "was continued",
    "more": "reports no further {}s",
}


class ChildScript(TypedDict):
    """What is written into the child's file."""

    steps: list[Step]
    replies: Table
    signals: list[Step]
    on_eof: Step
    exits_on: bytes | None
    exit_code: int
    reads: bool
    argv: dict[str, bytes]


_SIGNAL_FORMS = {"default": "", "ignore": "", "record": "", "delay": "seconds", "exit": "code"}
_EOF_FORMS = {"stay": "", "exit": "", "delay": "seconds"}


def child_script(
    where: str,
    *,
    on_eof: str = "stay",
    sigterm: str = "default",
    sigint: str = "default",
    says: Iterable[Said] = (),
    replies: Replies = (),
    exits_after: float | None = None,
    exits_on: str | bytes | None = None,
    exit_code: int = 0,
    exit_mid_handshake: bool = False,
    reads: bool = True,
    floods: int = 0,
    closes_stdout: bool = False,
    grandchild: str | None = None,
    stops_itself: bool = False,
    argv: Mapping[str, str] | None = None,
) -> ChildScript:
    """Check a child's script and bring it into the form that the process follows.

    Args:
        where: the child's name, for errors.
        on_eof: when stdin ends: `stay`, `exit`, or `delay:SECONDS` and then exit.
        sigterm: `default` (SIG_DFL), `ignore` (SIG_IGN), `record` (note it, go on),
            `delay:SECONDS` (exit that much after the first one), `exit:CODE` (exit at once).
        sigint: the same for SIGINT.
        says: lines written at the start; a number is a pause in seconds, bytes are written as they are.
        replies: pattern -> lines for a line of stdin that contains the pattern; the first that
            fits counts. `<<line>>` and `<<key>>` (of a JSON line) are filled in.
        exits_after: seconds after being ready at which it exits.
        exits_on: exits when a line of stdin contains this.
        exit_code: the status of every exit above.
        exit_mid_handshake: exits after the first half of its first line, never ready.
        reads: False: it never reads stdin.
        floods: bytes written to stdout once it is ready, in lines of 80.
        closes_stdout: closes stdout after `says`.
        grandchild: `keeps-pipe` (inherits all three pipes and stays) or `daemon` (own session, no pipes).
        stops_itself: SIGSTOPs itself once it is ready.
        argv: first argument -> line that it prints to exit with 0, without following the script.

    Raises:
        UsageError: a value is wrong.
    """
    code = check.exit_code(exit_code, f"{where}, exit_code")
    handshake = check.lines(says, f"{where}, says")
    steps: list[Step] = []
    if grandchild is not None:
        kind = check.choice(grandchild, f"{where}, grandchild", {"keeps-pipe": "", "daemon": ""})[0]
        steps.append(("grandchild", kind))
    if check.flag(exit_mid_handshake, f"{where}, exit_mid_handshake"):
        first = next((step for step in handshake if step[0] == "write"), None)
        if first is None:
            raise check.wrong("no handshake to break off", f"{where}, exit_mid_handshake", "give says=[...]")
        whole = check.text(first[1], where)
        steps += [("write", whole[: max(1, len(whole) // 2)]), ("leave", code)]
    else:
        steps += _from_ready_on(where, handshake, code, exits_after, floods, closes_stdout, stops_itself)
    return {
        "steps": steps,
        "replies": check.replies(replies, f"{where}, replies"),
        "signals": [
            (int(signal.SIGTERM), *check.choice(sigterm, f"{where}, sigterm", _SIGNAL_FORMS)),
            (int(signal.SIGINT), *check.choice(sigint, f"{where}, sigint", _SIGNAL_FORMS)),
        ],
        "on_eof": check.choice(on_eof, f"{where}, on_eof", _EOF_FORMS),
        "exits_on": None if exits_on is None else check.text(exits_on, f"{where}, exits_on"),
        "exit_code": code,
        "reads": check.flag(reads, f"{where}, reads"),
        "argv": _answers(argv, f"{where}, argv"),
    }


def _from_ready_on(
    where: str,
    handshake: list[Step],
    code: int,
    exits_after: object,
    floods: object,
    closes_stdout: object,
    stops_itself: object,
) -> list[Step]:
    """The handshake, "ready" at its first pause or its end, and what follows."""
    if isinstance(floods, bool) or not isinstance(floods, int) or floods < 0:
        raise check.wrong(f"{floods!r} is no number of bytes", f"{where}, floods", "give zero or more")
    pause = next((index for index, step in enumerate(handshake) if step[0] == "pause"), len(handshake))
    ready: list[Step] = [("ready",)]
    if exits_after is not None:
        ready.append(("leave-after", check.seconds(exits_after, f"{where}, exits_after"), code))
    close: list[Step] = [("close",)] if check.flag(closes_stdout, f"{where}, closes_stdout") else []
    if pause == len(handshake):
        steps = [*handshake, *close, *ready]
    else:
        steps = [*handshake[:pause], *ready, *handshake[pause:], *close]
    if check.flag(stops_itself, f"{where}, stops_itself"):
        steps.append(("stop",))
    if floods:
        steps.append(("flood", floods, floods))
    return steps


def _answers(value: object, where: str) -> dict[str, bytes]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise check.wrong(f"{value!r} is no table of answers", where, "give {first argument: line}")
    answers = {}
    for argument, line in value.items():
        if not isinstance(argument, str) or not isinstance(line, str):
            raise check.wrong(f"{argument!r}: {line!r} no answer", where, "give {first argument: line}")
        answers[argument] = line.encode() + b"\n"
    return answers
