"""What a scripted child and a scripted peer have in common: timers, messages to the hub, and orders from it.

This module runs inside the scripted process, never in the trial. The process is
started by the code under test, often hundreds of times in a run, so it may only
import what is compiled into the interpreter or costs next to nothing; `typing`,
`signal` and `os` alone would double its start-up. That is why annotations are
quoted where they need more than builtins.

A scripted process waits in one `poll` for everything at once and never wakes up
by itself. In virtual time it does not sleep its delays either: it announces them
and goes on when the hub says so.
"""

import _signal  # type: ignore[import-not-found]  # the C half of `signal`, which is slow to import
import posix
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ORPHANED = 75
"""Exit status of a scripted process whose trial is over."""
BROKEN = 70
"""Exit status of a scripted process that met a fault of its own."""


def escape(payload: bytes) -> bytes:
    """The payload without a newline or a start-of-frame byte; at most twice as long."""
    return payload.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\2", b"\\2")


def frame(pid: int, kind: str, payload: bytes) -> bytes:
    """One message. It must be at most PIPE_BUF long, so that the kernel writes it in one piece."""
    return b"\2%d %s %s\n" % (pid, kind.encode(), escape(payload))


def fill_standard_descriptors() -> None:
    """Put /dev/null where 0, 1 or 2 is closed, so that no descriptor of ours lands there."""
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)


class Timer:
    """A delay that is running: what it is for, its moment on this process's clock, and what comes then."""

    def __init__(self, due: float, why: str, then: "Any", argument: "Any") -> None:
        self.due = due
        self.why = why
        self.then = then
        self.argument = argument


class Actor:
    """A process that follows a script: `run` does not return.

    Args:
        script: what the hub wrote: `folder`, `id`, `virtual`, `lifetime` and the keys of the subclass.
    """

    budget = 100_000
    """Bytes of lines and requests that one process reports; the FIFO should not fill up."""

    def __init__(self, script: "dict[str, Any]") -> None:
        self.script = script
        self.pid = posix.getpid()
        self.virtual = bool(script["virtual"])
        self.timers: dict[int, Timer] = {}
        self.serial = 0
        self.fired: list[int] = []
        self.orders = -1
        self.order_bytes = b""
        self.reported = 0
        self.bound_lifetime()
        fill_standard_descriptors()
        try:
            self.events = posix.open(script["folder"] + "/events", posix.O_WRONLY | posix.O_NONBLOCK)
        except OSError:
            posix._exit(ORPHANED)
        posix.set_blocking(self.events, True)
        self.limit = posix.fpathconf(self.events, "PC_PIPE_BUF")
        self.poller = select.poll()
        self.watched: dict[int, int] = {}
        self.poller.register(self.events, 0)

    def bound_lifetime(self) -> None:
        """Have the kernel end this process (SIGALRM) if nobody else does."""
        _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
        _signal.setitimer(_signal.ITIMER_REAL, self.script["lifetime"])

    # Messages

    def announce(self, kind: str, payload: bytes = b"") -> None:
        """Send one message; what does not fit is cut. Ends the process where nobody is there to hear it."""
        room = min(1000, (self.limit - 64) // 2)
        try:
            posix.write(self.events, frame(self.pid, kind, payload[:room]))
        except OSError:
            posix._exit(ORPHANED)

    def report(self, kind: str, payload: bytes) -> None:
        """Send a message of which there may be any number: after a while one `more`, then nothing."""
        if self.reported > self.budget:
            return
        self.reported += min(len(payload), 1000) + 32
        self.announce(kind, payload)
        if self.reported > self.budget:
            self.announce("more", kind.encode())

    def leave(self, code: int) -> None:
        """Say so and end the process."""
        self.announce("leaving", b"%d" % code)
        posix._exit(code)

    # Timers

    def after(self, seconds: float, why: str, then: "Any", argument: "Any" = None) -> int:
        """Call `then(argument)` after so many seconds of the trial's clock. Returns the timer's number."""
        if self.virtual and self.orders < 0:
            self.open_orders()
        self.serial += 1
        self.timers[self.serial] = Timer(time.monotonic() + seconds, why, then, argument)
        self.announce("timer", b"%d %r %s" % (self.serial, seconds, why.encode()))
        return self.serial

    def cancel(self, serial: int) -> None:
        """Forget a timer, here and at the hub."""
        if self.timers.pop(serial, None) is not None:
            self.announce("fired", b"%d" % serial)

    def open_orders(self) -> None:
        """Make the FIFO on which the hub answers; opened both ways, so that it never reads as ended."""
        path = f"{self.script['folder']}/orders.{self.pid}"
        try:
            posix.mkfifo(path, 0o600)
        except FileExistsError:
            posix.unlink(path)
            posix.mkfifo(path, 0o600)
        self.orders = posix.open(path, posix.O_RDWR | posix.O_NONBLOCK)
        self.poller.register(self.orders, select.POLLIN)

    def obey(self) -> None:
        """Read orders, one a line: a word and the number that the answer names."""
        self.order_bytes = (self.order_bytes + posix.read(self.orders, 4096))[-8192:]
        *lines, self.order_bytes = self.order_bytes.split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"fire" and number.isdigit():
                self.fire(int(number))
            elif number.isdigit():
                self.fired.append(int(number))
                self.ordered(word)

    def fire(self, serial: int) -> None:
        """Do what the timer was for; the answer goes out when nothing is left to be done at once."""
        timer = self.timers.pop(serial, None)
        self.fired.append(serial)
        if timer is not None:
            timer.then(timer.argument)

    def fire_due(self) -> None:
        """In real time: every timer whose moment has come, in order."""
        now = time.monotonic()
        for serial, timer in sorted(self.timers.items(), key=lambda item: item[1].due):
            if timer.due <= now:
                self.fire(serial)

    def patience(self) -> "int | None":
        """Milliseconds until the next timer in real time, rounded up; None: for ever."""
        if self.virtual or not self.timers:
            return None
        left = min(timer.due for timer in self.timers.values()) - time.monotonic()
        return int(max(left, 0.0) * 1000) + 1

    # The loop

    def run(self) -> None:
        """Wait for anything that concerns this process and act on it, for ever."""
        while True:
            self.act()
            ready = self.poller.poll(0 if self.fired else self.patience())
            for fd, flags in ready:
                if fd == self.events:
                    posix._exit(ORPHANED)
                elif fd == self.orders:
                    self.obey()
                else:
                    self.on(fd, flags)
            if not ready:
                while self.fired:
                    self.announce("fired", b"%d" % self.fired.pop(0))
            if not self.virtual:
                self.fire_due()

    def act(self) -> None:
        """What is to be done before waiting."""

    def on(self, fd: int, flags: int) -> None:
        """What is to be done about a descriptor that is ready."""

    def ordered(self, word: bytes) -> None:
        """What is to be done about an order that is no timer's."""

    def watch(self, fd: int, flag: int, wanted: bool) -> None:
        """Begin or cease to wait for one kind of readiness of a descriptor."""
        before = self.watched.get(fd, 0)
        after = before | flag if wanted else before & ~flag
        if after == before:
            return
        if after:
            self.poller.register(fd, after)
            self.watched[fd] = after
        else:
            self.unwatch(fd)

    def unwatch(self, fd: int) -> None:
        """Wait no longer for anything of a descriptor, which is then about to be closed."""
        if self.watched.pop(fd, 0):
            self.poller.unregister(fd)


def expand(template: bytes, line: bytes, known: "dict[bytes, bytes] | None" = None) -> bytes:
    """A reply with its references filled in.

    `<<line>>` is the line, `<<key>>` its value of that JSON key, as it is written (a string
    with its quotes) and the first one for that key; `null` where the line has none.

    Args:
        known: further names and what they stand for.
    """
    out = b""
    while True:
        before, mark, rest = template.partition(b"<<")
        name, end, after = rest.partition(b">>")
        if not mark or not end:
            return out + template
        if known and name in known:
            out += before + known[name]
        else:
            out += before + (line if name == b"line" else json_value(line, name))
        template = after


def json_value(line: bytes, key: bytes) -> bytes:
    """The text of the first scalar value of a JSON key, else `null` (`json` is slow to import)."""
    name = b'"' + key + b'"'
    at = line.find(name)
    # A value may hold the key's text between quotation marks, which are escaped there.
    while at >= 0 and (line[at - 1 : at] == b"\\" or line[at + len(name) :].lstrip()[:1] != b":"):
        at = line.find(name, at + 1)
    if at < 0:
        return b"null"
    text = line[at + len(name) :].lstrip()[1:].lstrip()
    if text[:1] == b'"':
        end = 1
        while end < len(text) and text[end] != 34:
            end += 2 if text[end] == 92 else 1
        return text[: end + 1] if end < len(text) else b"null"
    end = 0
    while end < len(text) and text[end] not in b",]} \t\r\n":
        end += 1
    return text[:end] or b"null"
