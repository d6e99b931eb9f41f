"""Whether a socket of this process leads out of the trial.

The clock may not jump past what a server outside would still send. A socket
stays inside if its peer is another socket of this process or a scripted peer;
one that listens, or is not connected, leads nowhere.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection

from . import procfs

_known: dict[tuple[int, str], tuple[object, object] | None] = {}


def leads_out(peers: Collection[int]) -> str:
    """Why the clock must hold for a socket, or an empty string.

    Args:
        peers: ports of scripted peers on loopback.
    """
    found = [(number, leads) for number, leads in procfs.descriptors().items() if leads.startswith("socket:")]
    if not found:
        return ""
    ends = [pair for number, leads in found if (pair := _ends(number, leads)) is not None]
    own = {str(local) for local, _ in ends}
    for _, remote in ends:
        if isinstance(remote, tuple) and str(remote) not in own and remote[1] not in peers:
            return f"a socket leads out of the trial (to {remote[0]} port {remote[1]})"
        if isinstance(remote, (str, bytes)) and remote and str(remote) not in own:
            return f"a socket leads out of the trial (to {os.fsdecode(remote)})"
    return ""


def told(number: int, leads: str) -> str:
    """What a socket's descriptor leads to, in words: its ends, where it has some."""
    ends = _ends(number, leads)
    if ends is None or not any(ends):
        return leads
    return f"{_address(ends[0])} to {_address(ends[1])}"


def _address(end: object) -> str:
    if isinstance(end, tuple):
        return f"{end[0]}:{end[1]}"
    return os.fsdecode(end) if isinstance(end, (str, bytes)) and end else "an unnamed socket"


def _ends(number: int, leads: str) -> tuple[object, object] | None:
    """Both addresses of a connected socket; None where it is not connected (or only a pair without names)."""
    key = (number, leads)
    if _known.get(key) is not None:
        return _known[key]
    try:
        copy = os.dup(number)
    except OSError:
        return None
    with socket.socket(fileno=copy) as view:
        if view.family not in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
            return None
        try:
            ends: tuple[object, object] | None = (view.getsockname(), view.getpeername())
        except OSError:
            ends = None
    _known[key] = ends
    return ends
