"""Cold starts: mutants that cannot be swapped in, each in a process that imports everything anew.

The zygote is forked before the target is imported, with pytest already in it, so
that a cold start pays for the target's import and the collection, and no more.
It never runs anything itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .. import linux, procfs, reaper
from .child import Job, Needs
from .pool import Slot

Record = dict[str, Any]


class Zygote:
    """The end that asks.

    Args:
        run: is called in a fork of the zygote, with the request and the descriptor to report on.
    """

    def __init__(self, run: Callable[[Record, int], None]) -> None:
        self._run = run
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                mine.close()
                linux.die_with_parent(parent)
                linux.become_subreaper()
                self._serve(its)
            finally:
                os._exit(0)
        its.close()
        self._socket = mine

    def start(
        self, job: Job, items: list[int], names: list[str], needs: dict[int, Needs], temporary: Path
    ) -> Slot:
        """Begin a cold start; its process is not a child of this one."""
        read, write = os.pipe()
        request = {
            "job": {**asdict(replace(job, swaps=[])), "items": items},
            "names": names,
            "needs": {index: asdict(needs[index]) for index in items if index in needs},
            "temporary": str(temporary),
        }
        path = f"{temporary}.json"
        Path(path).write_text(json.dumps(request))
        socket.send_fds(self._socket, [path.encode()], [write])
        os.close(write)
        pid = int(self._socket.recv(64))
        return Slot(job, items, pid, read, mine=False, bound=120.0)

    def _serve(self, its: socket.socket) -> None:
        live: set[int] = set()
        while True:
            ready, _, _ = select.select([its], [], [], 0.05 if live else None)
            live = {pid for pid in live if procfs.alive(pid)}
            if not ready:
                reaper.sweep(keep=live)
                continue
            message, descriptors, _, _ = socket.recv_fds(its, 4096, 1)
            if not message:
                reaper.sweep()
                return
            pid = self._fork(message.decode(), descriptors[0], its)
            live.add(pid)
            os.close(descriptors[0])
            its.send(str(pid).encode())

    def _fork(self, path: str, pipe: int, its: socket.socket) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            its.close()
            linux.die_with_parent(parent)
            os.setsid()
            request = json.loads(Path(path).read_text())
            self._run(request, pipe)
        except BaseException as error:  # must never come back into the zygote's loop
            with contextlib.suppress(OSError):
                os.write(pipe, (json.dumps(["broken", repr(error)]) + "\n").encode())
        finally:
            os._exit(70)
