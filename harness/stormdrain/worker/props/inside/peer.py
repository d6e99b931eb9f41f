"""The scripted peer: a TCP server on loopback that answers, keeps silent, closes or resets to order.

It is a process of its own so that it goes on while the trial's loop stands still,
and so that a reset is a real one. It reports every connection, request and reply,
and takes its delays from the trial's clock like a scripted child.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import select

from stormdrain.worker.props.inside.actor import BROKEN, ORPHANED, Actor, expand
from stormdrain.worker.props.inside.output import Output
from stormdrain.worker.props.inside.requests import TAKE, Request, response

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNREAD_MAX = 1 << 24
"""Bytes of a request that has no end, after which the connection is closed."""
SHOWN = 300
"""Bytes of a request that are reported."""
LINGER_RESETS = b"\1\0\0\0\0\0\0\0"
"""`struct linger` on, zero seconds: close sends a reset (the bytes are the same wherever int has 32 bits)."""


class Connection(Output):
    """One accepted connection; its steps are what is to be sent, and `("replied",)`, `("end", how)`."""

    def __init__(self, peer: "ScriptedPeer", number: int, socket: _socket.socket) -> None:
        super().__init__(peer, socket.fileno(), peer.script["says"])
        self.peer = peer
        self.number = number
        self.socket = socket
        self.unread = b""
        self.over = False

    def tell(self, kind: str, payload: bytes = b"") -> None:
        """Report something of this connection."""
        self.peer.report(kind, b"%d %s" % (self.number, payload[:SHOWN]))

    def do(self, kind: str, argument: "list[Any]") -> None:
        """One step that is not output."""
        if kind == "replied":
            self.tell("reply")
        elif kind == "end":
            self.end(argument[0])

    def end(self, how: str) -> None:
        """Close (`closed`) or reset (`reset`) it from this side, or because the other side has."""
        if not self.open:
            return
        self.say_over(how)
        if how == "reset":
            self.socket.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, LINGER_RESETS)
        self.close()

    def say_over(self, how: str) -> None:
        """Report, once, how it ended."""
        if not self.over:
            self.over = True
            self.peer.announce("over", b"%d %s" % (self.number, how.encode()))

    def close(self) -> None:
        """Let go of the socket and of a pause that is running."""
        self.open = False
        self.steps.clear()
        if self.pause:
            self.peer.cancel(self.pause)
        self.peer.unwatch(self.fd)
        del self.peer.connections[self.fd]
        self.socket.close()

    def broken(self) -> None:
        """A write failed: the other side is gone."""
        self.end("reset-by-client")

    def read(self) -> None:
        """Take what has come and answer each complete request."""
        try:
            data = posix.read(self.fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            self.end("reset-by-client")
            return
        if not data:
            self.ended()
            return
        self.unread += data
        while self.open:
            request, used = TAKE[self.peer.script["speaks"]](self.unread)
            self.unread = self.unread[used:]
            if request is None:
                break
            self.answer(request)
        if len(self.unread) > UNREAD_MAX:
            self.end("closed")

    def ended(self) -> None:
        """The other side sends no more; what is still to be said is tried, for it may only be half closed."""
        self.peer.watch(self.fd, select.POLLIN, False)
        self.say_over("closed-by-client")
        if self.peer.script["on_eof"] == "close":
            self.steps.append(("end", "closed-by-client"))
            self.advance()

    def answer(self, request: Request) -> None:
        """Queue what the script says to a request."""
        self.tell("request", request.shown)
        script = self.peer.script
        moment, how = script["ends"] or ("", "")
        if moment == "request":
            self.end(how)
            return
        steps = self.reply_to(request)
        if steps is None:
            return
        if moment == "mid-reply":
            whole = b"".join(step[1] for step in steps if step[0] == "write")
            steps = [("write", whole[: len(whole) // 2])] if len(whole) > 1 else []
        else:
            steps.append(("replied",))
        if script["reply_after"]:
            steps.insert(0, ("pause", script["reply_after"]))
        if moment in ("mid-reply", "reply"):
            steps.append(("end", how))
        self.steps += steps
        self.advance()

    def reply_to(self, request: Request) -> "list[tuple[Any, ...]] | None":
        """The steps of the first reply that fits; None: nothing is said."""
        if self.peer.script["silent"]:
            return None
        for pattern, steps in self.peer.script["replies"]:
            if request.fits(pattern):
                return [self.filled_in(kind, argument, request) for kind, argument in steps]
        return None

    def filled_in(self, kind: str, argument: "Any", request: Request) -> "tuple[Any, ...]":
        """A step with its references to the request replaced."""
        if kind == "write":
            return kind, expand(argument, request.shown, request.known)
        if kind == "respond":
            return "write", response(expand(argument, request.shown, request.known))
        return kind, argument


def close_inherited() -> None:
    """Close every descriptor beyond the standard ones: the trial's are not to be kept open by its peer."""
    for name in posix.listdir("/dev/fd"):
        if int(name) > 2:
            try:
                posix.close(int(name))
            except OSError:  # the one that the listing itself used
                continue


class ScriptedPeer(Actor):
    """A listening socket and its connections."""

    budget = 400_000

    def __init__(self, script: "dict[str, Any]") -> None:
        close_inherited()
        super().__init__(script)
        posix.setsid()
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        self.connections: dict[int, Connection] = {}
        self.accepted = 0
        self.open_orders()
        self.announce("hello", script["id"].encode())
        self.listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.listening = self.listener.fileno()
        self.watch(self.listening, select.POLLIN, True)
        self.announce("listening", b"%d" % self.listener.getsockname()[1])
        self.announce("ready")

    def on(self, fd: int, flags: int) -> None:
        """A client connects, sends, takes, or goes."""
        if fd == self.listening:
            self.accept()
            return
        connection = self.connections.get(fd)
        if connection is None:
            return
        if flags & (select.POLLIN | select.POLLERR | select.POLLHUP):
            if self.watched.get(fd, 0) & select.POLLIN:
                connection.read()
            elif flags & select.POLLERR:
                connection.broken()
        if connection.open and flags & select.POLLOUT:
            connection.write()
            connection.advance()

    def accept(self) -> None:
        """Take one connection and begin with what is said at the start."""
        try:
            fd, _ = self.listener._accept()  # type: ignore[attr-defined]  # what `socket.accept` calls
        except OSError:
            return
        socket = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM, 0, fd)
        socket.setblocking(False)
        socket.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        self.accepted += 1
        connection = self.connections[fd] = Connection(self, self.accepted, socket)
        connection.tell("connected")
        moment, how = self.script["ends"] or ("", "")
        if moment == "accept":
            connection.end(how)
            return
        self.watch(fd, select.POLLIN, self.script["reads"])
        connection.advance()

    def ordered(self, word: bytes) -> None:
        """What the trial does to it: `reset` or `drop` every connection, `deaf`: listen no more."""
        if word == b"deaf" and self.listening >= 0:
            self.unwatch(self.listening)
            self.listener.close()
            self.listening = -1
        elif word in (b"reset", b"drop"):
            for connection in list(self.connections.values()):
                connection.end("reset" if word == b"reset" else "closed")


def main(script: "dict[str, Any]") -> None:
    """Follow the script. Does not return."""
    peer = None
    try:
        peer = ScriptedPeer(script)
        peer.run()
    except BaseException as error:
        if peer is not None:
            peer.announce("broken", f"{type(error).__name__}: {error}".encode())
        posix.write(2, f"scripted peer: {type(error).__name__}: {error}\n".encode())
        posix._exit(BROKEN)
    posix._exit(ORPHANED)
