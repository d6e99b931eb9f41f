"""Cold starts: mutants that cannot be swapped in, each in a process that imports everything anew.

The zygote is forked before the target is imported, with pytest (and what else the
suite imports from elsewhere) already in it, so that a cold start pays for the
target's import and the collection, and no more. It never runs anything itself: each
request forks, and in that fork :meth:`Zygote.begin` returns.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .. import linux, procfs, reaper
from .child import Job, Needs
from .pool import UNKNOWN_SECONDS, Slot

Record = dict[str, Any]


@dataclass(frozen=True)
class ColdStart:
    """What a fork of the zygote has to do: the job, the names of its tests, their needs, where to report."""

    request: Record
    pipe: int


class Zygote:
    """A zygote, seen from the process that asks it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid, self._channel = pid, channel

    @classmethod
    def begin(cls) -> Zygote | ColdStart:
        """Fork the zygote. Returns once here, and once in each fork of it that is asked for."""
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid:
            its.close()
            return cls(pid, mine)
        mine.close()
        linux.die_with_parent(parent)
        linux.become_subreaper()
        return _serve(its)

    def preload(self, names: Sequence[str], forbidden: Sequence[str], folder: Path) -> bool:
        """Have it import modules. False if that brought in a `forbidden` file: it must not be used then."""
        path = folder / "preload.json"
        path.write_text(json.dumps({"names": list(names), "forbidden": list(forbidden)}))
        self._channel.send(b"preload " + os.fsencode(path))
        return self._channel.recv(64) == b"clean"

    def start(self, job: Job, items: list[int], names: list[str], needs: dict[int, Needs], temporary: Path) -> Slot:
        """Begin a cold start; its process is not a child of this one."""
        read, write = os.pipe()
        request = {
            "job": {**asdict(replace(job, swaps=[])), "items": items},
            "names": names,
            "needs": {index: asdict(needs[index]) for index in items if index in needs},
            "temporary": str(temporary),
        }
        path = Path(f"{temporary}.json")
        path.write_text(json.dumps(request))
        socket.send_fds(self._channel, [b"start " + os.fsencode(path)], [write])
        os.close(write)
        pid = int(self._channel.recv(64))
        return Slot(job, items, pid, read, bound=UNKNOWN_SECONDS)

    def close(self) -> None:
        """Let it go: it ends at the end of its channel."""
        self._channel.close()


def _serve(channel: socket.socket) -> ColdStart:
    live: set[int] = set()
    while True:
        ready, _, _ = select.select([channel], [], [], 0.05 if live else None)
        live = {pid for pid in live if procfs.alive(pid)}
        if not ready:
            reaper.sweep(keep=live)
            continue
        message, descriptors, _, _ = socket.recv_fds(channel, 4096, 1)
        word, _, rest = message.partition(b" ")
        if not message:
            reaper.sweep()
            os._exit(0)
        if word == b"preload":
            channel.send(_preload(**json.loads(Path(os.fsdecode(rest)).read_bytes())))
            continue
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            channel.close()
            linux.die_with_parent(parent)
            os.setsid()
            return ColdStart(json.loads(Path(os.fsdecode(rest)).read_bytes()), descriptors[0])
        live.add(pid)
        os.close(descriptors[0])
        channel.send(str(pid).encode())


def _preload(names: Sequence[str], forbidden: Sequence[str]) -> bytes:
    for name in names:
        with contextlib.suppress(BaseException):  # what fails here will fail, or not, where it is needed
            importlib.import_module(name)
    unwanted = set(forbidden)
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    dirty = any(isinstance(file, str) and os.path.realpath(file) in unwanted for file in files)
    return b"dirty" if dirty else b"clean"
