"""Two timelines side by side: the first event that they do not share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import Event

_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|(?<=:)\d+|\d{3,}|/\S*/(?=[^/\s]*$)")


def _shape(event: Event) -> str:
    return _VOLATILE.sub("~", f"{event.what} {event.detail}".strip())


def first_difference(base: Sequence[Event], head: Sequence[Event]) -> str:
    """The first event that two timelines do not share, in words; empty where they agree.

    Addresses, process ids, line numbers and folders are not looked at, nor are
    entries of counted methods that only one side has: a renamed helper is no event.
    """
    base, head = _comparable(base, head), _comparable(head, base)
    for index in range(max(len(base), len(head))):
        left = base[index] if index < len(base) else None
        right = head[index] if index < len(head) else None
        if left is None or right is None or _shape(left) != _shape(right):
            return f"event {index + 1}: base: {_told(left)}; head: {_told(right)}"
    return ""


def _comparable(events: Sequence[Event], other: Sequence[Event]) -> list[Event]:
    entries = {_shape(event) for event in other if event.what == "entered"}
    return [event for event in events if event.what != "entered" or _shape(event) in entries]


def _told(event: Event | None) -> str:
    if event is None:
        return "nothing more"
    return f"{event.what} {event.detail}".strip() + f" at {event.at:.2f} s"
