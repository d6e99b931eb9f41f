"""Values of a script: checked where the probe gives them, and brought into plain literals.

A wrong value is the probe's mistake and must be told where the probe makes it,
before anything is started; inside the child it could only show as a hang.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping

from ...errors import UsageError

Said = str | bytes | int | float
"""A line (str), raw bytes, or a pause in seconds."""
Replies = Mapping[str, object] | Iterable[tuple[str | bytes, object]]
"""Pattern -> what is said to a line that contains it."""

Step = tuple[object, ...]
"""One thing that the process does, as it is written into its file: a word and its arguments."""
Table = list[tuple[bytes, list[Step]]]
"""Replies: what to look for in a request, and what is done then."""

LONGEST = 1e6
"""Seconds; a delay beyond it is taken for a mistake."""


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


def choice(value: object, where: str, forms: Mapping[str, str]) -> Step:
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


def as_line(line: str) -> Step:
    """A line of text: the newline is added."""
    return "write", line.encode() + b"\n"


def lines(value: object, where: str, said: Callable[[str], Step] = as_line) -> list[Step]:
    """What is said, as steps.

    A str is a line, bytes are written as they are, a number is a pause.

    Args:
        said: how a str is said.

    Raises:
        UsageError: it is something else.
    """
    if isinstance(value, (str, bytes)):
        value = [value]
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise wrong(f"{value!r} is no list of lines", where, "give a list of lines; a number is a pause")
    steps: list[Step] = []
    for index, item in enumerate(value):
        if isinstance(item, str):
            steps.append(said(item))
        elif isinstance(item, bytes):
            if item:
                steps.append(("write", item))
        else:
            steps.append(("pause", seconds(item, f"{where}[{index}]")))
    return steps


def replies(value: object, where: str, said: Callable[[str], Step] = as_line) -> Table:
    """Patterns, and what is said to a request that contains one.

    Raises:
        UsageError: it is neither a mapping nor a list of pairs.
    """
    if isinstance(value, Mapping):
        value = value.items()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise wrong(f"{value!r} is no table of replies", where, "give {pattern: lines} or pairs of them")
    table: Table = []
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise wrong(f"{pair!r} is no pair", where, "give {pattern: lines} or pairs of them")
        table.append((text(pair[0], where), lines(pair[1], f"{where}[{pair[0]!r}]", said)))
    return table


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
