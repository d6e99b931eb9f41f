"""A service while it runs: its process, its pipes, its process tree.

One thread, the trial's, reads everything that the service prints, whenever anything
happens. The end of the service is what `waitid` says, never the end of a pipe.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping

from ...errors import UsageError
from .. import procfs
from ..clock import real_monotonic
from ..service import Command

_KEPT = 20_000
"""Lines that are kept."""
_LONGEST = 1 << 16


class Running:
    """The service's process, as the trial's own thread sees it.

    Args:
        command: what to run.
        env: its whole environment.
        cwd: where it runs.
        also: further descriptors whose readiness ends a wait.
    """

    def __init__(self, command: Command, env: Mapping[str, str], cwd: str, also: frozenset[int]) -> None:
        self.command = command
        self.lines: list[tuple[str, str]] = []
        """(stream, line) in the order in which they were read."""
        self.status: int | None = None
        self.ended_at = 0.0
        self.waited = 0.0
        """Seconds for which the machine kept its main thread from running, over its whole life."""
        self.heard = threading.Condition()
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """What the client wants done by the trial's own thread."""
        self.children: list[int] = []
        """Every process below it that was seen, in order of appearance."""
        self.scripted: Mapping[int, str] = {}
        """The names of scripted children, by process."""
        self._open: dict[int, str] = {}
        self._part = {"stdout": b"", "stderr": b""}
        self._also = also
        self._wake, self._waker = os.pipe()
        for number in (self._wake, self._waker):
            os.set_blocking(number, False)
        self.began = real_monotonic()
        self.process = _start(command, env, cwd)
        self.pid = self.process.pid
        for name in ("stdout", "stderr"):
            number = getattr(self.process, name).fileno()
            os.set_blocking(number, False)
            self._open[number] = name
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1

    # -- reading -----------------------------------------------------------

    def pump(self, seconds: float) -> None:
        """Wait until something happens, for so many seconds at most, and take note of it."""
        poller = select.poll()
        for number in (*self._open, self._wake, *self._also):
            poller.register(number, select.POLLIN)
        if self.pidfd >= 0 and self.status is None:
            poller.register(self.pidfd, select.POLLIN)
        with contextlib.suppress(InterruptedError):
            poller.poll(max(seconds, 0.0) * 1000)
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        self._look_at_end()
        for number, name in list(self._open.items()):
            self._read(number, name)
        while not self.calls.empty():
            self.calls.get()()

    def _read(self, number: int, name: str) -> None:
        try:
            while data := os.read(number, 1 << 16):
                self._take(name, data)
        except BlockingIOError:
            return
        except OSError:
            pass
        del self._open[number]
        if self._part[name]:
            self._take(name, b"\n")

    def _take(self, name: str, data: bytes) -> None:
        *whole, rest = (self._part[name] + data).split(b"\n")
        if len(rest) > _LONGEST:
            whole, rest = [*whole, rest], b""
        self._part[name] = rest
        if whole:
            with self.heard:
                room = _KEPT - len(self.lines)
                self.lines += [(name, line.decode(errors="replace")) for line in whole[: max(room, 0)]]
                self.heard.notify_all()

    def wake(self) -> None:
        """End a wait of the trial's thread; for the client's."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._waker, b"x")

    def text(self) -> str:
        """All that it printed, unfinished lines too."""
        parts = [part.decode(errors="replace") for part in self._part.values() if part]
        return "\n".join([*(line for _, line in self.lines), *parts])

    # -- processes ---------------------------------------------------------

    def _look_at_end(self) -> None:
        if self.status is not None:
            return
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            return
        self.ended_at = real_monotonic()
        self.waited = run_delay(self.pid)
        with self.heard:
            self.status = self.process.wait()
            self.heard.notify_all()

    def look(self) -> list[int]:
        """New processes below it since the last look."""
        known = set(self.children)
        found = [pid for pid in procfs.descendants(self.pid) if pid not in known]
        self.children += found
        return found

    def child(self, number: int = 0) -> int:
        """The first living process below it: a scripted child if there is one, rather one that minds the signal.

        Returns:
            0 where there is none.
        """
        self.look()
        alive = [pid for pid in self.children if procfs.alive(pid)]
        alive.sort(key=lambda pid: (pid not in self.scripted, number in procfs.signal_mask(pid, "SigIgn")))
        return alive[0] if alive else 0

    def rest(self) -> tuple[str, ...]:
        """What tells whether all of it has come to rest: how each thread stands, and the time that it has used."""
        found = []
        for pid in (self.pid, *procfs.descendants(self.pid)):
            for task in procfs.threads(pid):
                stat = procfs.stat(f"{pid}/task/{task}")
                used = procfs.schedstat(f"/proc/{pid}/task/{task}")
                found.append(f"{task} {stat.state if stat else '?'} {used}")
        return tuple(found)

    def close_stdin(self) -> None:
        """The end of its stdin."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def send(self, number: int, to: str) -> int:
        """Send a signal to the process (`""`), its group (`group`) or its first living child (`child`).

        Returns:
            The process that it was sent to; 0 where there is none.
        """
        with contextlib.suppress(ProcessLookupError):
            if to == "group":
                os.killpg(self.pid, number)
                return self.pid
            target = self.child(number) if to == "child" else self.pid
            if target:
                os.kill(target, number)
                return target
        return 0

    def close(self) -> None:
        """Close what belongs to the trial."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._open.clear()
        for number in (self._wake, self._waker, self.pidfd):
            if number >= 0:
                os.close(number)
        self.pidfd = -1


def run_delay(pid: int) -> float:
    """Seconds for which the main thread of a process could have run and had no CPU."""
    words = procfs.schedstat(f"/proc/{pid}").split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0


def _start(command: Command, env: Mapping[str, str], cwd: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command.argv,
            stdin=subprocess.PIPE if command.stdin == "open" else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if not os.path.isdir(cwd):
            raise UsageError(
                "The service cannot start where it should.", where=cwd, todo="name a folder that exists in cwd="
            ) from error
        missing = "its interpreter (the first line) or it itself" if os.path.exists(command.argv[0]) else "it"
        raise UsageError(
            f"The command {command.argv[0]!r} cannot be started: {missing} does not exist.",
            where=" ".join(command.argv),
            todo="name a program on PATH, or its whole path; add what it comes from to requires=[...]",
        ) from error
    except (PermissionError, OSError) as error:
        raise UsageError(
            f"The command {command.argv[0]!r} cannot be started: {error.strerror}.",
            where=" ".join(command.argv),
            todo="see that it is a program that may be executed",
        ) from error


def name_of(number: int) -> str:
    """`SIGTERM` for 15."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
