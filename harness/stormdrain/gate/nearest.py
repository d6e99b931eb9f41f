"""What the user probably meant: the nearest name to an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from ..errors import UsageError
from ..reporting.escape import plain


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like `name`, or an empty text."""
    names = list(known)
    close = difflib.get_close_matches(name, names, 1, 0.5)
    if close:
        return close[0]
    inside = [other for other in names if name and (name in other or other in name)]
    return min(inside, key=len, default="")


def unknown(kind: str, name: str, known: Iterable[str], *, where: str = "") -> UsageError:
    """The error for an unknown name, with the nearest one or all of them."""
    names = sorted(known)
    guess = nearest(name, names)
    todo = f"did you mean {guess!r}?" if guess else "known are: " + ", ".join(names)
    return UsageError(f"there is no {kind} {plain(name, 60)!r}", where=where, todo=todo)


def check(kind: str, wanted: Iterable[str], known: Iterable[str], *, where: str = "") -> None:
    """Check names against the known ones.

    Raises:
        UsageError: one is not known; the nearest is suggested.
    """
    names = set(known)
    for name in wanted:
        if name not in names:
            raise unknown(kind, name, names, where=where)
