"""The scripted child: a real process that behaves as badly as its script says.

It runs inside the process that the code under test starts (see `actor` for what
that forbids). Signals keep their real meaning: `default` is SIG_DFL, so that the
return code is the negative signal number, and `ignore` is SIG_IGN, so that /proc
shows it. Only the other dispositions install a handler.

What it does by itself is a list of steps, worked off in order; a step that
cannot be done yet (nobody reads its stdout) blocks the ones behind it, but never
the signals, stdin or the timers.
"""

import _signal  # type: ignore[import-not-found]
import posix
import select
import sys

from stormdrain.worker.props.actor import BROKEN, LIFETIME, ORPHANED, Actor, expand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINE_MAX = 1 << 20
"""Bytes of one line that are kept; the rest of a longer one is dropped."""
FLOOD = (b"x" * 79 + b"\n") * 51


class ScriptedChild(Actor):
    """One run of a script.

    Steps: `("write", bytes)`, `("pause", seconds)`, `("flood", bytes)`, `("close",)`,
    `("ready",)`, `("stop",)`, `("grandchild", kind)`, `("leave", code)`,
    `("leave-after", seconds, code)`.
    """

    def __init__(self, script: "dict[str, Any]") -> None:
        super().__init__(script)
        self.steps: list[tuple[Any, ...]] = list(script["steps"])
        self.pausing = False
        self.writing = False
        self.stdout = True
        self.input = b""
        self.skipping = False
        self.signals: list[int] = []
        self.chunk = min(self.limit, 4096)
        self.handlers: dict[int, tuple[Any, ...]] = {}
        self.wake = -1
        self.announce("hello", script["id"].encode())
        self.install()
        if script["reads"]:
            self.poller.register(0, select.POLLIN)

    # Signals

    def install(self) -> None:
        """Give each signal of the script its disposition."""
        for number, how, *argument in self.script["signals"]:
            if how == "default":
                _signal.signal(number, _signal.SIG_DFL)
            elif how == "ignore":
                _signal.signal(number, _signal.SIG_IGN)
            else:
                self.handlers[number] = (how, *argument)
        if self.handlers:
            self.wake, write = posix.pipe()
            posix.set_blocking(self.wake, False)
            posix.set_blocking(write, False)
            _signal.set_wakeup_fd(write, warn_on_full_buffer=False)
            self.poller.register(self.wake, select.POLLIN)
        for number in self.handlers:
            _signal.signal(number, self.caught)

    def caught(self, number: int, _frame: object) -> None:
        """The handler only notes the signal; the loop, woken by the pipe, acts on it."""
        self.signals.append(number)

    def act(self) -> None:
        """Answer the signals that came, then go on with the steps."""
        while self.signals:
            number = self.signals.pop(0)
            self.report("signal", b"%d" % number)
            how, *argument = self.handlers[number]
            if how == "exit":
                self.leave(argument[0])
            elif how == "delay":
                self.handlers[number] = ("record",)
                self.after(argument[0], f"signal {number}", self.leave, self.script["exit_code"])
        self.advance()

    # Steps

    def advance(self) -> None:
        """Work off the steps up to one that has to wait; ask for writability only where it is needed."""
        while self.steps and not self.pausing:
            if self.steps[0][0] not in ("write", "flood"):
                kind, *argument = self.steps.pop(0)
                self.do(kind, argument)
            elif self.stdout:
                break
            else:
                self.steps.pop(0)
        wanted = bool(self.steps) and not self.pausing
        if wanted != self.writing:
            self.writing = wanted
            if wanted:
                self.poller.register(1, select.POLLOUT)
            else:
                self.poller.unregister(1)

    def do(self, kind: str, argument: "list[Any]") -> None:
        """One step that is not output."""
        if kind == "ready":
            self.announce("ready")
        elif kind == "pause":
            self.pausing = True
            self.after(argument[0], "pause", self.resume)
        elif kind == "close":
            self.close_stdout()
            self.announce("closed")
        elif kind == "stop":
            posix.kill(self.pid, _signal.SIGSTOP)
            self.announce("continued")
        elif kind == "grandchild":
            self.grandchild(argument[0])
        elif kind == "leave":
            self.leave(argument[0])
        elif kind == "leave-after":
            self.after(argument[0], "exits_after", self.leave, argument[1])
        elif kind == "flooded":
            self.announce("flooded", b"%d" % argument[0])

    def resume(self, _argument: object) -> None:
        """A pause is over."""
        self.pausing = False

    def write(self) -> None:
        """Write as much of the first step as a writable pipe is sure to take at once."""
        kind, argument, *rest = self.steps.pop(0)
        data = argument[: self.chunk] if kind == "write" else FLOOD[: min(argument, self.chunk)]
        try:
            written = posix.write(1, data)
        except BlockingIOError:
            written = 0
        except OSError:
            self.close_stdout()
            self.announce("broken-pipe")
            return
        left = argument[written:] if kind == "write" else argument - written
        if left:
            self.steps.insert(0, (kind, left, *rest))
        elif kind == "flood":
            self.steps.insert(0, ("flooded", rest[0]))

    def close_stdout(self) -> None:
        """Close it for good; what was still to be written is dropped as its turn comes."""
        if self.writing:
            self.writing = False
            self.poller.unregister(1)
        if self.stdout:
            self.stdout = False
            posix.close(1)

    def flush_and_leave(self, code: int) -> None:
        """Leave as a program does that has written its last lines: what the pipe takes now goes out first."""
        out = select.poll()
        out.register(1, select.POLLOUT)
        while self.stdout and self.steps and self.steps[0][0] == "write" and not self.pausing and out.poll(0):
            self.write()
        self.leave(code)

    # Input

    def on(self, fd: int, flags: int) -> None:
        """Something to read, room to write, or a signal."""
        if fd == self.wake:
            posix.read(fd, 512)
        elif fd == 1:
            if self.writing and self.steps:
                self.write()
        elif flags & (select.POLLIN | select.POLLHUP):
            self.read()
        else:
            self.ended()

    def read(self) -> None:
        """Take what is on stdin and answer each complete line."""
        try:
            data = posix.read(0, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.ended()
            return
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            if self.skipping:
                self.skipping = False
            else:
                self.line(line)
        if len(self.input) > LINE_MAX:
            if not self.skipping:
                self.line(self.input[:LINE_MAX])
            self.skipping = True
            self.input = b""

    def line(self, line: bytes) -> None:
        """Report a line, queue the first reply that fits, and leave where the script says so."""
        line = line.rstrip(b"\r")
        self.report("line", line)
        for pattern, steps in self.script["replies"]:
            if pattern in line:
                for kind, argument in steps:
                    self.steps.append((kind, expand(argument, line) if kind == "write" else argument))
                break
        last = self.script["exits_on"]
        if last is not None and last in line:
            self.advance()
            self.flush_and_leave(self.script["exit_code"])

    def ended(self) -> None:
        """Stdin is at its end: do what the script says."""
        self.poller.unregister(0)
        if self.input and not self.skipping:
            self.line(self.input)
        self.input = b""
        self.announce("eof")
        how, *argument = self.script["on_eof"]
        if how == "exit":
            self.advance()
            self.flush_and_leave(self.script["exit_code"])
        elif how == "delay":
            self.after(argument[0], "EOF", self.flush_and_leave, self.script["exit_code"])

    # Grandchildren

    def grandchild(self, kind: str) -> None:
        """Fork one, and go on once it has said hello."""
        read, write = posix.pipe()
        pid = posix.fork()
        if pid == 0:
            posix.close(read)
            self.become_grandchild(kind, write)
        posix.close(write)
        posix.read(read, 1)
        posix.close(read)
        if kind == "daemon":
            posix.waitpid(pid, 0)

    def become_grandchild(self, kind: str, said_hello: int) -> None:
        """In the fork: keep the pipes, or leave them and the session; then wait until the trial is over."""
        try:
            _signal.set_wakeup_fd(-1)
            for number in (_signal.SIGTERM, _signal.SIGINT):
                _signal.signal(number, _signal.SIG_DFL)
            if kind == "daemon":
                posix.setsid()
                if posix.fork():
                    posix._exit(0)
                null = posix.open("/dev/null", posix.O_RDWR)
                for fd in (0, 1, 2):
                    posix.dup2(null, fd)
                posix.close(null)
            for fd in (self.orders, self.wake):
                if fd >= 0:
                    posix.close(fd)
            _signal.alarm(LIFETIME)
            self.pid = posix.getpid()
            self.announce("hello", f"{self.script['id']} {kind}".encode())
            posix.close(said_hello)
            end = select.poll()
            end.register(self.events, 0)
            end.poll()
        finally:
            posix._exit(ORPHANED)


def main(script: "dict[str, Any]") -> None:
    """Follow the script. Does not return."""
    answers = script["argv"]
    if len(sys.argv) > 1 and sys.argv[1] in answers:
        posix.write(1, answers[sys.argv[1]])
        posix._exit(0)
    actor = None
    try:
        actor = ScriptedChild(script)
        actor.run()
    except BaseException as error:
        if actor is not None:
            actor.announce("broken", f"{type(error).__name__}: {error}".encode())
        posix.write(2, f"scripted child: {type(error).__name__}: {error}\n".encode())
        posix._exit(BROKEN)
