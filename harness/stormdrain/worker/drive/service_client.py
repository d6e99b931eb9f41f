"""A service as its client sees it: what the function that a probe gives as `client` may do.

It runs in a thread of its own and may block; what the service prints is read by the
trial's thread, and waited for here.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from ..clock import real_monotonic
from .service_process import Running

PATIENCE = 30.0
"""Seconds that a client waits for a line or a condition unless it says otherwise."""


class Ended(EOFError):
    """The service has ended while its client waited for it."""


class Service:
    """A service as its client sees it. The client runs in a thread of its own and may block.

    Attributes:
        pid: its process.
        port: the port of its readiness condition, 0 where it has none.
    """

    def __init__(self, running: Running, moment: Callable[[str], None]) -> None:
        self._running = running
        self._moment = moment
        self._next = {"stdout": 0, "stderr": 0}
        self._sockets: list[socket.socket] = []
        self.pid = running.pid
        self.port = next((ready.port for ready in running.command.ready if ready.port), 0)

    def send(self, text: str) -> None:
        """Write a line to its stdin.

        Raises:
            BrokenPipeError: it reads no more.
        """
        stdin = self._running.process.stdin
        if stdin is None or stdin.closed:
            raise BrokenPipeError("its stdin is closed")
        data = text.encode() if text.endswith("\n") else text.encode() + b"\n"
        while data:
            data = data[os.write(stdin.fileno(), data) :]

    def line(self, containing: str = "", *, stream: str = "stdout", timeout: float = PATIENCE) -> str:
        """The next line of a stream that contains a text; those before it are passed over.

        Raises:
            Ended: the service ended before.
            TimeoutError: it did not come within `timeout` seconds.
        """
        until = real_monotonic() + timeout
        heard = self._running.heard
        with heard:
            while True:
                lines = self._running.lines
                for index in range(self._next[stream], len(lines)):
                    name, text = lines[index]
                    if name == stream and containing in text:
                        self._next[stream] = index + 1
                        return text
                self._next[stream] = len(lines)
                if self._running.status is not None:
                    raise Ended(f"the service ended before it printed {containing!r}")
                left = until - real_monotonic()
                if left <= 0 or not heard.wait(left):
                    raise TimeoutError(f"the service did not print {containing!r} within {timeout:g} s")

    def request(self, text: str, reply: str = "", *, timeout: float = PATIENCE) -> str:
        """Send a line and wait for one on its stdout that contains `reply`; that line."""
        self.send(text)
        return self.line(reply, timeout=timeout)

    def until(self, condition: Callable[[], Any], what: str = "", *, timeout: float = PATIENCE) -> None:
        """Wait until a function says so: `service.until(lambda: "call" in server.lines())`.

        It is called between other things by the trial's own thread, which scripted children need.

        Raises:
            Ended, TimeoutError: as in `line`.
        """
        until = real_monotonic() + timeout
        said: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def look() -> None:
            try:
                said.put((bool(condition()), None))
            except BaseException as error:
                said.put((False, error))

        while True:
            self._running.calls.put(look)
            self._running.wake()
            try:
                met, error = said.get(timeout=max(until - real_monotonic(), 0.001))
            except queue.Empty:
                met, error = False, None
            if error is not None:
                raise error
            if met:
                return
            if self._running.status is not None:
                raise Ended(f"the service ended before {what or 'the condition'}")
            if real_monotonic() >= until:
                raise TimeoutError(f"{what or 'the condition'} was not met within {timeout:g} s")
            time.sleep(0.002)

    def connect(self, port: int = 0, host: str = "127.0.0.1") -> socket.socket:
        """A connection to it, which stays open to the end unless it is closed."""
        made = socket.create_connection((host, port or self.port), timeout=PATIENCE)
        self._sockets.append(made)
        return made

    def in_flight(self, name: str = "request") -> None:
        """Say that a request is in flight: the signals of the storm `signal-while` land now."""
        done = threading.Event()

        def moment() -> None:
            try:
                self._moment(name)
            finally:
                done.set()

        self._running.calls.put(moment)
        self._running.wake()
        done.wait(PATIENCE)

    @property
    def lines(self) -> list[str]:
        """All that it printed so far, stdout and stderr in the order in which they were read."""
        return [line for _, line in self._running.lines]

    @property
    def children(self) -> list[int]:
        """The processes below it, in order of appearance, gone or not."""
        return list(self._running.children)

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._running.status is not None

    def close(self) -> None:
        """Close the connections that are still open."""
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.close()
