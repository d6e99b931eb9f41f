"""The scripted peer as a probe sees it: its keywords, checked, and its account of connections and requests.

What the process itself does is in `inside/peer.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

from . import script as check
from .frames import Frame
from .kernel import look, spawn
from .prop import Process, Prop
from .script import Replies, Said, Step, Table

if TYPE_CHECKING:
    from .hub import Hub

_FATES = {
    "closed": "closed",
    "reset": "reset",
    "closed-by-client": "closed by the client",
    "reset-by-client": "reset by the client",
}


@dataclass
class Connection:
    """A connection that the peer accepted.

    Attributes:
        number: counted from 1, in the order of accepting.
        requests: what came, in order (the first 300 bytes of each).
        replies: how many were sent in full.
        fate: `open`, `closed by the client`, `reset by the client`, or by the peer: `closed`, `reset`.
    """

    number: int
    requests: list[str] = field(default_factory=list)
    replies: int = 0
    fate: str = "open"


class Peer(Prop):
    """A scripted TCP peer; it listens when the probe gets it.

    Attributes:
        host: `127.0.0.1`.
        port: chosen by the kernel.
        pid: its process.
    """

    kind = "scripted peer"

    def __init__(self, hub: Hub, name: str, path: str) -> None:
        super().__init__(hub, name, path)
        self.host = "127.0.0.1"
        self.port = 0
        self.pid = 0
        self._connections: dict[int, Connection] = {}

    def start(self) -> None:
        """Start the process.

        Raises:
            UsageError: it cannot be started at all.
        """
        try:
            self.pid = spawn(self.path)
        except OSError as error:
            raise self._failure(f"the {self.kind} {self.name!r} does not start: {error.strerror}") from error

    def hopeless(self) -> bool:
        """Whether its process has ended."""
        found = look(self.pid)
        return found is None or found[0] in "ZXx"

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`."""
        return f"{self.host}:{self.port}"

    def connections(self) -> list[Connection]:
        """The account of every connection so far, in the order of accepting."""
        self._hub.drain()
        return [dataclasses.replace(found, requests=list(found.requests)) for found in self._connections.values()]

    def open(self) -> int:
        """How many connections are open."""
        return sum(connection.fate == "open" for connection in self.connections())

    def requests(self) -> list[str]:
        """Every request so far, by connection."""
        return [request for connection in self.connections() for request in connection.requests]

    def replies(self) -> int:
        """How many replies were sent in full."""
        return sum(connection.replies for connection in self.connections())

    def reset(self) -> None:
        """Reset every open connection; done when it returns.

        Raises:
            UsageError: the peer does not answer.
        """
        self._order("reset")

    def drop(self) -> None:
        """Close every open connection from the peer's side; done when it returns.

        Raises:
            UsageError: the peer does not answer.
        """
        self._order("drop")

    def deaf(self) -> None:
        """Listen no more: new connections are refused, those that are open stay; done when it returns.

        Raises:
            UsageError: the peer does not answer.
        """
        self._order("deaf")

    def _order(self, word: str) -> None:
        told = [(process, self._hub.order(process, word)) for process in self.processes]

        def done() -> bool:
            return all(number is not None and number not in process.unanswered for process, number in told)

        self.wait(done, f"it has done {word!r}")

    def heard(self, process: Process, frame: Frame) -> None:
        """Take a message of a peer: its port, a connection, a request, a reply, an end."""
        number, _, rest = frame.text.partition(" ")
        if not number.isdecimal():
            return
        if frame.kind == "listening":
            self.port = int(number)
        elif frame.kind == "connected":
            self._connections[int(number)] = Connection(int(number))
            self._tell(process, number, "opens")
        elif (connection := self._connections.get(int(number))) is None:
            return
        elif frame.kind == "request":
            connection.requests.append(rest)
            self._tell(process, number, f"asks {rest[:200]}")
        elif frame.kind == "reply":
            connection.replies += 1
            self._tell(process, number, "is answered")
        elif frame.kind == "over" and rest in _FATES:
            connection.fate = _FATES[rest]
            self._tell(process, number, connection.fate)

    def _tell(self, process: Process, number: str, what: str) -> None:
        self._hub.record(process.label, f"connection {number} {what}")


class PeerScript(TypedDict):
    """What is written into the peer's file."""

    speaks: str
    says: list[Step]
    replies: Table
    reply_after: float
    silent: bool
    ends: Step | None
    on_eof: str
    reads: bool


_REDIS = [
    ("HELLO", "-ERR unknown command"),
    ("PING", "+PONG"),
    ("ECHO", "<<bulk 1>>"),
    ("GET", "$-1"),
    ("", "+OK"),
]
"""What a Redis client needs to come up, after the script's own replies."""
_MOMENTS = {"accept": "", "request": "", "mid-reply": "", "reply": ""}


def peer_script(
    where: str,
    *,
    speaks: str = "lines",
    says: Iterable[Said] = (),
    replies: Replies = (),
    reply_after: float = 0,
    silent: bool = False,
    closes: str | None = None,
    resets: str | None = None,
    on_eof: str = "close",
    reads: bool = True,
) -> PeerScript:
    r"""Check a peer's script and bring it into the form that the process follows.

    Args:
        where: the peer's name, for errors.
        speaks: what a request is, and how a str is said:
            `lines` (a line; `\n` is added),
            `resp` (a command of Redis, looked for at its start, in capitals or not; `\r\n` is added),
            `redis` (the same, and what a client needs to come up is answered too),
            `http` (a request of HTTP/1.1; a str is the body of a 200 response).
        says: sent at the start of every connection; a number is a pause, bytes are sent as they are.
        replies: pattern -> what is sent for a request that contains it; the first that fits counts; what
            fits none is not answered. `<<line>>`, `<<key>>` (of JSON), `<<arg N>>` and `<<bulk N>>`
            (of a command), `<<method>>`, `<<path>>` and `<<body>>` (of HTTP) are filled in.
        reply_after: seconds on the trial's clock before each reply.
        silent: takes requests and never answers.
        closes: closes each connection at `accept`, on its first `request`, at `mid-reply` or after a `reply`.
        resets: the same with a TCP reset.
        on_eof: `close` the connection when the client has, or `stay`.
        reads: False: it never reads.

    Raises:
        UsageError: a value is wrong.
    """
    language = check.choice(speaks, f"{where}, speaks", {"lines": "", "resp": "", "redis": "", "http": ""})[0]
    framing = "resp" if language == "redis" else str(language)
    said = _SAID[framing]
    table = check.replies(replies, f"{where}, replies", said)
    if language == "redis":
        table += check.replies(_REDIS, where, said)
    if closes is not None and resets is not None:
        raise check.wrong("a connection is either closed or reset", f"{where}, closes", "leave one of them out")
    ends: Step | None = None
    for how, moment in (("closed", closes), ("reset", resets)):
        if moment is not None:
            ends = (check.choice(moment, f"{where}, {how}", _MOMENTS)[0], how)
    return {
        "speaks": framing,
        "says": check.lines(says, f"{where}, says", check.as_line if framing == "lines" else _as_command),
        "replies": table,
        "reply_after": check.seconds(reply_after, f"{where}, reply_after"),
        "silent": check.flag(silent, f"{where}, silent"),
        "ends": ends,
        "on_eof": str(check.choice(on_eof, f"{where}, on_eof", {"close": "", "stay": ""})[0]),
        "reads": check.flag(reads, f"{where}, reads"),
    }


def _as_command(line: str) -> Step:
    return "write", line.encode() + b"\r\n"


def _as_body(body: str) -> Step:
    return "respond", body.encode()


_SAID = {"lines": check.as_line, "resp": _as_command, "http": _as_body}
