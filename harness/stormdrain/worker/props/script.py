"""Scripts for the child: keywords of `case.child(...)` in, checked, and plain literals for the process out.

A wrong value is the probe's mistake and must be told where the probe makes it,
before anything is started; inside the child it could only show as a hang.
"""

from __future__ import annotations

import contextlib
import difflib
import signal
from collections.abc import Iterable, Mapping
from typing import TypedDict

from ...errors import UsageError

Said = str | bytes | int | float
"""A line (str), raw bytes, or a pause in seconds."""
Replies = Mapping[str, object] | Iterable[tuple[str | bytes, object]]
"""Pattern -> what is said to a line that contains it."""

LONGEST = 1e6
"""Seconds; a delay beyond it is taken for a mistake."""


class ChildScript(TypedDict):
    """What is written into the child's file."""

    steps: list[tuple[object, ...]]
    replies: list[tuple[bytes, list[tuple[object, ...]]]]
    signals: list[tuple[object, ...]]
    on_eof: tuple[object, ...]
    exits_on: bytes | None
    exit_code: int
    reads: bool
    argv: dict[str, bytes]


def wrong(what: str, where: str, todo: str) -> UsageError:
    """The error for a value that a script cannot have."""
    return UsageError(what, where=where, todo=todo)


def seconds(value: object, where: str) -> float:
    """A delay, checked.

    Raises:
        UsageError: it is no number, negative, or not finite.
    """
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LONGEST:
        raise wrong(f"{value!r} is no delay", where, "give a number of seconds, zero or more")
    return float(value)


def exit_code(value: object, where: str) -> int:
    """An exit status, checked.

    Raises:
        UsageError: it is no whole number from 0 to 255.
    """
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
        raise wrong(f"{value!r} is no exit code", where, "give a whole number from 0 to 255")
    return value


def flag(value: object, where: str) -> bool:
    """A switch, checked.

    Raises:
        UsageError: it is neither True nor False.
    """
    if not isinstance(value, bool):
        raise wrong(f"{value!r} is neither True nor False", where, "give True or False")
    return value


def choice(value: object, where: str, forms: Mapping[str, str]) -> tuple[object, ...]:
    """One of several words, some of which take an argument after a colon.

    Args:
        forms: word -> `""`, `seconds` or `code`.

    Raises:
        UsageError: it is none of them.
    """
    if isinstance(value, str):
        word, colon, argument = value.partition(":")
        kind = forms.get(word)
        if kind == "" and not colon:
            return (word,)
        if kind == "seconds" and colon:
            return (word, seconds(argument, where))
        if kind == "code" and colon:
            return (word, exit_code(argument, where))
    listed = ", ".join(word + (f":{kind.upper()}" if kind else "") for word, kind in forms.items())
    raise wrong(f"{value!r} is none of: {listed}", where, f"choose one of: {listed}")


def text(value: object, where: str) -> bytes:
    """A pattern: str (as UTF-8) or bytes.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise wrong(f"{value!r} is neither text nor bytes", where, "give str or bytes")


def lines(value: object, where: str) -> list[tuple[object, ...]]:
    """What a child says, as steps.

    A str is a line (the newline is added), bytes are written as they are, a number is a pause.

    Raises:
        UsageError: it is something else.
    """
    if isinstance(value, (str, bytes)):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise wrong(f"{value!r} is no list of lines", where, "give a list of lines; a number is a pause")
    steps: list[tuple[object, ...]] = []
    for index, item in enumerate(value):
        if isinstance(item, str):
            steps.append(("write", item.encode() + b"\n"))
        elif isinstance(item, bytes):
            if item:
                steps.append(("write", item))
        else:
            steps.append(("pause", seconds(item, f"{where}[{index}]")))
    return steps


def replies(value: object, where: str) -> list[tuple[bytes, list[tuple[object, ...]]]]:
    """Patterns, and what is said to a line that contains one.

    Raises:
        UsageError: it is neither a mapping nor a list of pairs.
    """
    if isinstance(value, Mapping):
        value = value.items()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong(f"{value!r} is no table of replies", where, "give {pattern: lines} or pairs of them")
    table: list[tuple[bytes, list[tuple[object, ...]]]] = []
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise wrong(f"{pair!r} is no pair", where, "give {pattern: lines} or pairs of them")
        pattern = text(pair[0], where)
        table.append((pattern, lines(pair[1], f"{where}[{pair[0]!r}]")))
    return table


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
    code = _exit_code(exit_code, f"{where}, exit_code")
    handshake = lines(says, f"{where}, says")
    steps: list[tuple[object, ...]] = []
    if grandchild is not None:
        kind = choice(grandchild, f"{where}, grandchild", {"keeps-pipe": "", "daemon": ""})[0]
        steps.append(("grandchild", kind))
    if flag(exit_mid_handshake, f"{where}, exit_mid_handshake"):
        first = next((step for step in handshake if step[0] == "write"), None)
        if first is None:
            raise wrong("no handshake to break off", f"{where}, exit_mid_handshake", "give says=[...]")
        whole = text(first[1], where)
        steps += [("write", whole[: max(1, len(whole) // 2)]), ("leave", code)]
    else:
        steps += _from_ready_on(where, handshake, code, exits_after, floods, closes_stdout, stops_itself)
    return {
        "steps": steps,
        "replies": _replies(replies, f"{where}, replies"),
        "signals": [
            (int(signal.SIGTERM), *choice(sigterm, f"{where}, sigterm", _SIGNAL_FORMS)),
            (int(signal.SIGINT), *choice(sigint, f"{where}, sigint", _SIGNAL_FORMS)),
        ],
        "on_eof": choice(on_eof, f"{where}, on_eof", _EOF_FORMS),
        "exits_on": None if exits_on is None else text(exits_on, f"{where}, exits_on"),
        "exit_code": code,
        "reads": flag(reads, f"{where}, reads"),
        "argv": _answers(argv, f"{where}, argv"),
    }


_exit_code = exit_code
_replies = replies


def _from_ready_on(
    where: str,
    handshake: list[tuple[object, ...]],
    code: int,
    exits_after: object,
    floods: object,
    closes_stdout: object,
    stops_itself: object,
) -> list[tuple[object, ...]]:
    """The handshake, "ready" at its first pause or its end, and what follows."""
    if isinstance(floods, bool) or not isinstance(floods, int) or floods < 0:
        raise wrong(f"{floods!r} is no number of bytes", f"{where}, floods", "give zero or more")
    pause = next((index for index, step in enumerate(handshake) if step[0] == "pause"), len(handshake))
    ready: list[tuple[object, ...]] = [("ready",)]
    if exits_after is not None:
        ready.append(("leave-after", seconds(exits_after, f"{where}, exits_after"), code))
    close: list[tuple[object, ...]] = [("close",)] if flag(closes_stdout, f"{where}, closes_stdout") else []
    if pause == len(handshake):
        steps = [*handshake, *close, *ready]
    else:
        steps = [*handshake[:pause], *ready, *handshake[pause:], *close]
    if flag(stops_itself, f"{where}, stops_itself"):
        steps.append(("stop",))
    if floods:
        steps.append(("flood", floods, floods))
    return steps


def _answers(value: object, where: str) -> dict[str, bytes]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(f"{value!r} is no table of answers", where, "give {first argument: line}")
    answers = {}
    for argument, line in value.items():
        if not isinstance(argument, str) or not isinstance(line, str):
            raise wrong(f"{argument!r}: {line!r} no answer", where, "give {first argument: line}, both str")
        answers[argument] = line.encode() + b"\n"
    return answers


def checked_keywords(keywords: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse a keyword that no script has, with the one that was probably meant.

    Raises:
        UsageError: a keyword is unknown.
    """
    names = list(known)
    for keyword in keywords:
        if keyword not in names:
            near = difflib.get_close_matches(keyword, names, n=1)
            todo = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names)}"
            raise wrong(f"a script has no {keyword!r}", where, todo)
