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

from stormdrain.worker.props.inside.actor import BROKEN, ORPHANED, Actor, expand
from stormdrain.worker.props.inside.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LINE_MAX = 1 << 20
"""Bytes of one line that are kept; the rest of a longer one is dropped."""


class Stdout(Output):
    """The child's stdout, whose steps are the script of the whole child."""

    def do(self, kind: str, argument: "list[Any]") -> None:
        """One step that is not output."""
        self.actor.do(kind, argument)

    def broken(self) -> None:
        """Nobody reads it any more: close it and go on."""
        self.close()
        self.actor.announce("broken-pipe")


class ScriptedChild(Actor):
    """One run of a script.

    Its steps are those of :class:`Output` and `("close",)`, `("ready",)`, `("stop",)`,
    `("grandchild", kind)`, `("leave", code)`, `("leave-after", seconds, code)`.
    """

    def __init__(self, script: "dict[str, Any]") -> None:
        super().__init__(script)
        self.out = Stdout(self, 1, script["steps"])
        self.input = b""
        self.skipping = False
        self.signals: list[int] = []
        self.handlers: dict[int, tuple[Any, ...]] = {}
        self.wake = -1
        self.announce("hello", script["id"].encode())
        self.install()
        self.watch(0, select.POLLIN, script["reads"])

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
            self.watch(self.wake, select.POLLIN, True)
        for number in self.handlers:
            _signal.signal(number, self.caught)

    def caught(self, number: int, _frame: object) -> None:
        """The handler only notes the signal; the loop, woken by the pipe, acts on it."""
        self.signals.append(number)

    def act(self) -> None:
        """Answer the signals that came, then go on with the steps."""
        self.answer()
        self.out.advance()

    def answer(self) -> None:
        """Answer the signals that came."""
        while self.signals:
            number = self.signals.pop(0)
            self.report("signal", b"%d" % number)
            how, *argument = self.handlers[number]
            if how == "exit":
                self.leave(argument[0])
            elif how == "delay":
                self.handlers[number] = ("record",)
                self.after(argument[0], f"signal {number}", self.leave, self.script["exit_code"])

    # Steps

    def do(self, kind: str, argument: "list[Any]") -> None:
        """One step that is not output."""
        if kind == "ready":
            self.announce("ready")
        elif kind == "close":
            self.out.close()
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

    def flush_and_leave(self, code: int) -> None:
        """Leave as a program does that has written its last lines: what the pipe takes now goes out first."""
        self.out.flush()
        self.leave(code)

    # Input

    def on(self, fd: int, flags: int) -> None:
        """Something to read, room to write, or a signal."""
        if fd == self.wake:
            posix.read(fd, 512)
        elif fd == 1:
            self.out.write()
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
                    self.out.steps.append((kind, expand(argument, line) if kind == "write" else argument))
                break
        last = self.script["exits_on"]
        if last is not None and last in line:
            self.out.advance()
            self.flush_and_leave(self.script["exit_code"])

    def ended(self) -> None:
        """Stdin is at its end: do what the script says."""
        self.answer()  # a signal that came before must be told before it leaves
        self.unwatch(0)
        if self.input and not self.skipping:
            self.line(self.input)
        self.input = b""
        self.announce("eof")
        how, *argument = self.script["on_eof"]
        if how == "exit":
            self.out.advance()
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
            self.bound_lifetime()
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
