"""The keywords of scripted children and peers, for type checkers.

What they mean is said, and checked, where they are brought into form
(:func:`~stormdrain.worker.props.child.child_script`, `peer_script`). A test holds the
two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from .script import Replies, Said


class ChildKeywords(TypedDict, total=False):
    """What `case.child` takes beside the name."""

    on_eof: str
    sigterm: str
    sigint: str
    says: Iterable[Said]
    replies: Replies
    exits_after: float | None
    exits_on: str | bytes | None
    exit_code: int
    exit_mid_handshake: bool
    reads: bool
    floods: int
    closes_stdout: bool
    grandchild: str | None
    stops_itself: bool
    argv: Mapping[str, str] | None


class PeerKeywords(TypedDict, total=False):
    """What `case.peer` takes beside the name."""

    speaks: str
    says: Iterable[Said]
    replies: Replies
    reply_after: float
    silent: bool
    closes: str | None
    resets: str | None
    on_eof: str
    reads: bool
