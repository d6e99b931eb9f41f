"""What is there: tasks, threads, processes, descriptors, files, before an operation and after it.

Every item carries a key that is equal from trial to trial for the same kind of
thing, so that "beyond calm" is a difference of multisets.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import threading
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any

from ..model import Left, ProcessFact
from . import procfs
from .clock import _is_idle
from .sockets import told
from .watch import watch


class Census:
    """Counts what is there now against what the harness itself holds."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._descriptors: dict[int, str] = {}
        self._threads = {thread.ident for thread in threading.enumerate()}
        self._blocked = procfs.signal_mask(os.getpid())
        self.seen: dict[int, tuple[int, str]] = {}
        """pid -> start time and command line of every descendant that was ever seen."""
        self.own: frozenset[int] = frozenset()
        """Descriptors of the hub."""
        self.helpers: set[int] = set()
        """Processes of the hub: scripted peers, which the target did not start."""

    def start(self) -> None:
        """What is open now is the harness's own (the loop's descriptors among it)."""
        self._descriptors = procfs.descriptors()

    def take(self, tasks: Iterable[Left], names: Mapping[int, Any]) -> tuple[Left, ...]:
        """Everything that is there now. `names`: scripted children by pid."""
        self.reap_adopted()
        return (*tasks, *self._thread_items(), *self._process_items(names), *self._descriptor_items(), *self._files())

    # -- processes -------------------------------------------------------

    def reap_adopted(self) -> None:
        """Reap orphans that came to this process and ended; children that the target started stay the target's."""
        for pid in procfs.children():
            found = procfs.stat(pid)
            if found is not None and found.state == "Z" and pid not in watch.spawned and pid in self.seen:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def look(self) -> list[int]:
        """All descendants now; each is remembered."""
        found = [pid for pid in procfs.descendants() if pid not in self.helpers]
        for pid in found:
            if pid not in self.seen and (stat := procfs.stat(pid)) is not None:
                self.seen[pid] = (stat.start, procfs.command(pid))
        return found

    def _process_items(self, names: Mapping[int, Any]) -> list[Left]:
        items = []
        for pid in self.look():
            stat = procfs.stat(pid)
            if stat is None:
                continue
            command, site = watch.spawned.get(pid, (self.seen.get(pid, (0, ""))[1], None))
            state = "zombie" if stat.state in "ZX" else "alive"
            name = _name(names.get(pid))
            now = "" if state == "zombie" else procfs.command(pid)  # a zombie has no command line any more
            what = f"{state}, pid {pid} (state {stat.state}): {now or command or procfs.command(pid)}"
            items.append(Left("process", what, f"process {state} {name or _program(command)}", site))
        return items

    def facts(self, names: Mapping[int, Any]) -> tuple[ProcessFact, ...]:
        """The fate of every process that was ever there."""
        self.look()
        facts = []
        for pid in dict.fromkeys([*watch.spawned, *self.seen]):
            if pid in self.helpers:
                continue
            started, command = self.seen.get(pid, (0, ""))
            command, site = watch.spawned.get(pid, (command, None))
            stat = procfs.stat(pid)
            if stat is not None and started and stat.start != started:
                stat = None  # the number was given to another process
            blocked: tuple[int, ...] = ()
            if stat is None:
                state = "gone"
            elif stat.state in "ZX":
                state = "zombie"
            else:
                adopted = stat.ppid == os.getpid() and pid not in watch.spawned
                state = "orphaned" if adopted else "alive"
                blocked = tuple(sorted(procfs.signal_mask(pid) - self._blocked - {signal.SIGKILL, signal.SIGSTOP}))
            facts.append(
                ProcessFact(
                    pid=pid,
                    command=command[:300],
                    state=state,
                    returncode=watch.ended.get(pid),
                    site=site,
                    name=_name(names.get(pid)),
                    blocked=blocked,
                    status=stat.state if stat else "",
                )
            )
        return tuple(facts)

    # -- the rest --------------------------------------------------------

    def _thread_items(self) -> list[Left]:
        import sys

        items = []
        stacks = sys._current_frames()
        for thread in threading.enumerate():
            if thread.ident in self._threads or thread.name.startswith(("asyncio-waitpid-", "waitpid-")):
                continue  # the latter waits for a child, which is an item by itself
            frame = stacks.get(thread.ident or 0)
            idle = frame is not None and _is_idle(frame)
            if idle and _of_the_runtime(frame, thread.name):
                continue
            name = re.sub(r"\d+", "N", thread.name)
            items.append(
                Left(
                    "thread",
                    f"{thread.name} ({'idle' if idle else 'at work'}, {'daemon' if thread.daemon else 'not daemon'})",
                    f"thread {'idle' if idle else 'busy'} {name}",
                    watch.threads.get(id(thread)),
                )
            )
        return items

    def _descriptor_items(self) -> list[Left]:
        items = []
        for number, leads in procfs.descriptors().items():
            if self._descriptors.get(number) == leads or leads.startswith("/proc/") or number in self.own:
                continue
            if leads == "anon_inode:[pidfd]" and procfs.watches(number):
                continue  # it watches a process, which is an item by itself
            kind = {"socket": "socket", "pipe": "pipe"}.get(leads.partition(":")[0], "descriptor")
            plain = re.sub(r"\[\d+\]", "", leads)
            if plain.startswith(self._folder):
                plain = "file"
            where = told(number, leads) if kind == "socket" else leads
            items.append(Left(kind, f"{number} -> {where}", f"{kind} {plain}"))
        return items

    def _files(self) -> list[Left]:
        folder = os.path.join(self._folder, "tmp")
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        return [Left("file", os.path.join("tmp", name), "file " + re.sub(r"[0-9a-z_]{8}", "X", name)) for name in names]


def _of_the_runtime(frame: FrameType | None, name: str) -> bool:
    """Whether an idle thread is a worker that the loop, anyio or trio keeps for later and ends with the loop."""
    while frame is not None:
        where = (os.path.basename(frame.f_code.co_filename), frame.f_code.co_name)
        if where in (("_thread_cache.py", "_work"), ("_asyncio.py", "run")):
            return True
        if where == ("thread.py", "_worker"):
            return name.startswith(("asyncio_", "uvloop_"))  # other pools are somebody's, who has to end them
        frame = frame.f_back
    return False


def _program(command: str) -> str:
    """What a command line runs, without numbers and folders that differ from trial to trial."""
    words = [os.path.basename(word) for word in command.split()[:3]]
    return re.sub(r"\d+", "N", " ".join(words))[:80]


def _name(child: Any) -> str:
    return child if isinstance(child, str) else getattr(child, "name", "") if child is not None else ""


def beyond(now: Iterable[Left], baseline: Iterable[Left]) -> tuple[Left, ...]:
    """What is there now and was not in the baseline (a difference of multisets by key)."""
    allowed = collections.Counter(item.key for item in baseline)
    found = []
    for item in now:
        if allowed[item.key] > 0:
            allowed[item.key] -= 1
        else:
            found.append(item)
    return tuple(found)
