"""The trial's side of what is put into a Python service: steps, signals between them, and where it hangs.

See `boot/`. Nothing here is needed for a service that is no Python program, or whose
interpreter ignores PYTHONPATH (-E, -I): then no step is seen, which is said by name
and never taken for a clean bill.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import marshal
import mmap
import os
import platform
import re
import signal
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...model import Fault, Point, Site
from .. import procfs
from ..boot import _stormdrain_boot as inside
from ..chains import roots
from ..clock import real_monotonic

_FOLDER = os.path.dirname(os.path.abspath(inside.__file__))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))
TELL = signal.SIGRTMAX - 2
"""The signal that asks a service where it is: caught by nobody, sent only where it is caught."""
_PATIENCE = 2.0
"""Seconds within which a service must have told where it is."""
Place = tuple[str, int, str]


@dataclass(frozen=True)
class Hit:
    """A signal that was raised inside: at which step, when (seconds of the kernel's clock), and where tasks were."""

    step: int
    at: float
    upcoming: str
    chain: tuple[Site, ...]


@dataclass
class Told:
    """What a process of the service told of itself."""

    pid: int
    threads: list[tuple[str, int, list[Place]]] = field(default_factory=list)
    tasks: list[tuple[str, str, bool, list[Place]]] = field(default_factory=list)


class Injector:
    """What is put into the service of one trial.

    Args:
        folder: the trial's own; a folder `boot` is made in it.
        faults: those whose moment is a step are raised inside.
        record: whether every point is written down.
    """

    def __init__(self, folder: str, faults: Iterable[Fault], record: bool) -> None:
        self.folder = os.path.join(folder, "boot")
        os.makedirs(self.folder, 0o700)
        self.plan = _plan(faults)
        self.record = record
        self._page_path = os.path.join(self.folder, "page")
        with open(self._page_path, "wb") as file:
            file.truncate(inside.PAGE)
        with open(self._page_path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), inside.PAGE)
        self._hits = 0

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The service's environment: the trial's without our own folder, with the door into it in front."""
        path = clean_path(env)
        found = {name: value for name, value in env.items() if name != "PYTHONPATH"}
        asked = {
            "page": self._page_path,
            "folder": self.folder,
            "path": path,
            "signal": int(TELL),
            "steps": bool(self.plan) or self.record,
            "plan": self.plan,
            "record": self.record,
        }
        file = os.path.join(self.folder, "asked")
        with open(file, "wb") as out:
            marshal.dump(asked, out, 2)
        found["PYTHONPATH"] = _FOLDER if path is None else os.pathsep.join((_FOLDER, path))
        found["STORMDRAIN_BOOT"] = file
        return found

    # -- steps -------------------------------------------------------------

    def arm(self) -> None:
        """From here on steps count."""
        self._page[inside.ARMED] = 1

    def outside(self) -> None:
        """A signal is about to be sent from outside: steps count from there."""
        self._page[inside.OUTSIDE] += 1

    @property
    def booted(self) -> int:
        """The process that carries what was put in; 0 where none does."""
        return int(struct.unpack_from("<q", self._page, inside.PID)[0])

    @property
    def stepping(self) -> str:
        """Whose steps are seen."""
        loops = self._page[inside.LOOPS]
        return {0: "", inside.ASYNCIO: "asyncio", inside.TRIO: "trio"}.get(loops, "asyncio and trio")

    @property
    def waiting(self) -> bool:
        """Whether a signal is still to be raised inside."""
        return self._hits < len(self.plan)

    def news(self) -> list[Hit]:
        """Signals that were raised inside since the last look."""
        fired = int(struct.unpack_from("<q", self._page, inside.FIRED)[0])
        if fired <= self._hits:
            return []
        hits = [
            Hit(step, at, upcoming, _sites(last) or _sites(main))
            for step, _, at, upcoming, last, main in self._read("hits")
        ]
        news = hits[self._hits : fired]
        self._hits = fired
        return news

    def points(self, outside: int) -> tuple[Point, ...]:
        """Points after so many signals from outside, counted from the last of them."""
        found = []
        began: float | None = None
        for step, signals, at, upcoming, last, main in self._read("points"):
            if signals != outside:
                continue
            began = at if began is None else began
            chain = _sites(last) or _sites(main)
            # Numbers in names (Task-12, threads) differ from trial to trial.
            state = (re.sub(r"\d+", "N", upcoming), [str(site) for site in chain], [str(site) for site in _sites(main)])
            key = hashlib.sha256(repr(state).encode()).hexdigest()[:8]
            found.append(Point(step, chain, key, round(at - began, 6)))
        return tuple(found)

    def _read(self, name: str) -> list[Any]:
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return [ast.literal_eval(line) for line in file if line.endswith("\n")]
        except OSError:
            return []

    # -- where it hangs ----------------------------------------------------

    def ask(self, pids: Iterable[int]) -> list[Told]:
        """Ask the processes that would answer where they are."""
        asked = [pid for pid in pids if TELL in procfs.signal_mask(pid, "SigCgt")]
        for pid in asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, TELL)
        return [told for pid in asked if (told := self._answer(pid)) is not None]

    def _answer(self, pid: int) -> Told | None:
        import select

        path = os.path.join(self.folder, f"where.{pid}")
        until = real_monotonic() + _PATIENCE
        while not os.path.exists(path):
            if real_monotonic() >= until or not procfs.alive(pid):
                return None
            select.select([], [], [], 0.005)
        with open(path, encoding="utf-8", errors="replace") as file:
            said = ast.literal_eval(file.read())
        os.unlink(path)
        return Told(pid, said["threads"], said["tasks"])


def clean_path(env: Mapping[str, str]) -> str | None:
    """PYTHONPATH without the folder through which the worker finds this package."""
    given = env.get("PYTHONPATH")
    if given is None:
        return None
    entries = [entry for entry in given.split(os.pathsep) if not _is_ours(entry)]
    return os.pathsep.join(entries) if entries else None


def _is_ours(entry: str) -> bool:
    link = os.path.join(entry, "stormdrain")
    return (
        bool(entry)
        and os.path.islink(link)
        and os.path.realpath(link) == os.path.realpath(os.path.join(_PACKAGE, "stormdrain"))
    )


def _plan(faults: Iterable[Fault]) -> list[tuple[int, int, str]]:
    plan = []
    before = ""
    for fault in faults:
        if fault.when.kind == "point":
            base = {"": "armed", "inside": "previous"}.get(before, "outside")
            plan.append((int(getattr(signal, fault.arg.partition(".")[0])), int(fault.when.n), base))
            before = "inside"
        else:
            before = "outside"
    return plan


def _sites(chain: Iterable[Place]) -> tuple[Site, ...]:
    return tuple(site(place) for place in chain)


def site(place: Place) -> Site:
    """A place of the service's as a site of the report."""
    file, line, function = place
    return Site(roots.short(file), line, function, roots.is_target(file))


def why_deaf(pids: Iterable[int]) -> str:
    """Why nothing could be put into these processes; empty where they are no Python programs."""
    for pid in pids:
        words = procfs.command(pid).split()
        if not words or not _is_python(pid, words[0]):
            continue
        flags = ""
        for word in words[1:]:
            if not word.startswith("-") or word in ("-m", "-c", "-"):
                break
            flags += word[1:] if not word.startswith("--") else ""
        for flag in "IES":
            if flag in flags:
                return f"the service's interpreter was started with -{flag}: nothing can be put into it"
        return (
            "the service's interpreter did not take what was put in: its environment was cleared, or it executed itself"
        )
    return ""


def _is_python(pid: int, word: str) -> bool:
    try:
        name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        name = os.path.basename(word)
    return re.match(r"(python|pypy)", name) is not None


# -- what a thread is doing in the kernel ------------------------------------------

_X86_64 = "0 read 7 poll 23 select 34 pause 35 nanosleep 45 recvfrom 61 wait4 202 futex 230 clock_nanosleep"
_X86_64 += " 232 epoll_wait 247 waitid 270 pselect6 271 ppoll 281 epoll_pwait 288 accept4"
_AARCH64 = "22 epoll_pwait 63 read 72 pselect6 73 ppoll 95 waitid 98 futex 101 nanosleep 115 clock_nanosleep"
_AARCH64 += " 207 recvfrom 242 accept4 260 wait4"
_CALLS = {
    machine: dict(zip(map(int, words[::2]), words[1::2], strict=True))
    for machine, words in (("x86_64", _X86_64.split()), ("aarch64", _AARCH64.split()))
}
_OF_A_DESCRIPTOR = ("read", "recvfrom", "accept4")


def in_kernel(pid: int, thread: int) -> str:
    """The system call in which a thread waits: `read(0, its stdin)`; empty where it cannot be seen."""
    try:
        with open(f"/proc/{pid}/task/{thread}/syscall") as file:
            words = file.read().split()
        number, first = int(words[0]), int(words[1], 16)
    except (OSError, ValueError, IndexError):
        return ""
    name = _CALLS.get(platform.machine(), {}).get(number, "")
    if not name:
        return ""
    if name not in _OF_A_DESCRIPTOR:
        return f"{name}()"
    leads = {0: "its stdin", 1: "its stdout", 2: "its stderr"}.get(first, "")
    if not leads:
        with contextlib.suppress(OSError):
            leads = re.sub(r"\d+", "", os.readlink(f"/proc/{pid}/fd/{first}")).replace("[]", "").strip(":")
    return f"{name}({first}{', ' + leads if leads else ''})"
