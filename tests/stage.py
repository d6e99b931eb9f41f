"""A stage for scripted processes: a hub whose clock is a variable, and what a test looks at from outside."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import stormdrain
from stormdrain.worker.props.child import Child
from stormdrain.worker.props.hub import Hub
from stormdrain.worker.props.kernel import look

PATIENCE = 10.0
"""Seconds of real time after which an event that should come is given up."""


class Stage:
    """A hub whose clock is a variable, and the processes that a test starts in place of a target."""

    def __init__(self, folder: Path, *, virtual: bool = True) -> None:
        self.now = 100.0
        self.events: list[tuple[str, str]] = []
        self.hub = Hub(
            str(folder),
            virtual=virtual,
            now=lambda: self.now,
            record=lambda what, detail: self.events.append((what, detail)),
        )
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, child: Child, *arguments: str) -> subprocess.Popen[bytes]:
        """Start it as a target would: three pipes, descriptors closed."""
        process = subprocess.Popen(
            [child.path, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            close_fds=True,
        )
        self.started.append(process)
        return process

    def ready(self, child: Child, *arguments: str) -> subprocess.Popen[bytes]:
        process = self.start(child, *arguments)
        asyncio.run(child.ready(len(self.started)))
        return process

    def until(self, happened: Callable[[], bool]) -> None:
        assert self.hub.wait(happened, PATIENCE), self.events

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait(PATIENCE)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self.hub.close()


def disposition(pid: int, number: int) -> str:
    """What the kernel says of a signal: `ignored`, `caught` or `default`."""
    status = Path(f"/proc/{pid}/status").read_text()
    bit = 1 << (number - 1)
    for field, word in (("SigIgn", "ignored"), ("SigCgt", "caught")):
        if int(status.split(f"{field}:")[1].split()[0], 16) & bit:
            return word
    return "default"


def state(pid: int) -> str:
    found = look(pid)
    return found[0] if found else ""


def falls_asleep(pid: int) -> bool:
    """Whether a process comes to rest: sleeps, and uses no CPU time between two looks."""
    for _ in range(200):
        before = Path(f"/proc/{pid}/schedstat").read_text()
        select.select([], [], [], 0.02)  # long enough for a busy loop to show
        if state(pid) == "S" and Path(f"/proc/{pid}/schedstat").read_text() == before:
            return True
    return False


def descriptors() -> set[int]:
    """The descriptors that are open in this process."""
    return {fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")}


def await_end(pid: int) -> None:
    """Wait until a process that is no child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert poller.poll(PATIENCE * 1000), f"process {pid} is still there"
    finally:
        os.close(descriptor)


def read_to_end(descriptor: int) -> bytes:
    """All that a pipe has, without waiting for more; the caller knows that everything was written."""
    os.set_blocking(descriptor, False)
    out = b""
    while True:
        try:
            data = os.read(descriptor, 65536)
        except BlockingIOError:
            return out
        if not data:
            return out
        out += data


def run_python(python: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that imports stormdrain on some interpreter, without its site-packages."""
    harness = str(Path(stormdrain.__file__).parents[1])
    return subprocess.run(
        [python, "-S", "-c", textwrap.dedent(program), *arguments],
        env={**os.environ, "PYTHONPATH": harness, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
