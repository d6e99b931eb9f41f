"""What the target does to the process, seen on the way: children started and reaped, threads started, reports.

Installed once in the worker, before any code of the target is imported (names
bound at import then lead here too); each trial starts with an empty record.
Nothing of the target is wrapped: these are the interpreter's own doors.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ..model import Report, Site


class Watch:
    """The record of one trial."""

    def __init__(self) -> None:
        self.on = False
        self.record: Callable[[str, str], None] = lambda what, detail: None
        self.spawned: dict[int, tuple[str, Site | None]] = {}
        """pid -> command line and the line that started it."""
        self.numbers: dict[int, int] = {}
        """pid -> its number in the timeline, in the order of birth."""
        self.ended: dict[int, int] = {}
        """pid -> return code, for what this process has reaped."""
        self.threads: dict[int, Site | None] = {}
        self.waiting: Callable[[], Site | None] = lambda: None
        """The line that waits for a worker thread, where the driver knows it (trio starts processes in one)."""
        self.reports: list[Report] = []

    def start(self, record: Callable[[str, str], None]) -> None:
        """Begin with an empty record."""
        self.__init__()  # type: ignore[misc]  # a record is reset as a whole
        self.record = record
        self.on = True

    def born(self, pid: int, command: str, site: Site | None = None) -> None:
        """A child was started, on the line that runs now if not on `site`."""
        if self.on and pid > 0:
            from . import chains  # late: it imports asyncio, which must see the doors in place

            site = site or chains.caller(2)
            if (site is None or not site.target) and threading.current_thread() is not threading.main_thread():
                site = self.waiting() or site
            self.spawned[pid] = (command, site)
            self.numbers[pid] = (
                len(self.numbers) + 1
            )  # a timeline names no pid, so that two trials alike have timelines alike
            self.record("process started", f"#{self.numbers[pid]} {command[:120]}")

    def reaped(self, pid: int, status: int) -> None:
        if self.on and pid > 0 and not os.WIFSTOPPED(status) and not os.WIFCONTINUED(status):
            self.exited(pid, os.waitstatus_to_exitcode(status))

    def exited(self, pid: int, code: int) -> None:
        """A child was reaped."""
        if self.on and pid not in self.ended:
            self.ended[pid] = code
            self.record("process reaped", f"#{self.numbers.get(pid, '?')} return code {code}")

    def report(self, channel: str, message: str, site: Site | None = None, exact: bool = False) -> None:
        if self.on and len(self.reports) < 100:
            self.reports.append(Report(channel, message[:500], site, exact))
            self.record(channel, message[:200])


watch = Watch()


def _command(words: Any) -> str:
    try:
        return " ".join(os.fsdecode(word) for word in words)
    except TypeError:
        return str(words)


def _install_births() -> None:
    import _posixsubprocess

    real_exec = _posixsubprocess.fork_exec

    def fork_exec(*args: Any) -> int:
        pid: int = real_exec(*args)
        watch.born(pid, _command(args[0]))
        return pid

    _posixsubprocess.fork_exec = fork_exec
    loaded = sys.modules.get("subprocess")
    if loaded is not None and hasattr(loaded, "_fork_exec"):
        setattr(loaded, "_fork_exec", fork_exec)  # noqa: B010 - a private name that type stubs lack
    real_fork = os.fork

    def fork() -> int:
        pid = real_fork()
        if pid:
            watch.born(pid, f"fork of {os.getpid()}")
        return pid

    os.fork = fork
    for name in ("posix_spawn", "posix_spawnp"):
        if (real := getattr(os, name, None)) is not None:
            setattr(os, name, _spawning(real))


def _spawning(real: Callable[..., int]) -> Callable[..., int]:
    def posix_spawn(path: Any, argv: Any, env: Any, **options: Any) -> int:
        pid = real(path, argv, env, **options)
        watch.born(pid, _command(argv))
        return pid

    return posix_spawn


def _install_deaths() -> None:
    real_waitpid, real_waitid = os.waitpid, getattr(os, "waitid", None)

    def waitpid(pid: int, options: int, /) -> tuple[int, int]:
        found, status = real_waitpid(pid, options)
        watch.reaped(found, status)
        return found, status

    os.waitpid = waitpid
    for name in ("wait3", "wait4"):
        if (real := getattr(os, name, None)) is not None:
            setattr(os, name, _waiting(real))
    if real_waitid is None:
        return

    def waitid(idtype: Any, ident: int, options: int, /) -> Any:
        result = real_waitid(idtype, ident, options)
        if (
            result is not None
            and not options & os.WNOWAIT
            and result.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED)
        ):
            code = result.si_status
            watch.reaped(result.si_pid, code << 8 if result.si_code == os.CLD_EXITED else code)
        return result

    os.waitid = waitid


def _waiting(real: Callable[..., Any]) -> Callable[..., Any]:
    def wait(*args: Any) -> Any:
        result = real(*args)
        watch.reaped(result[0], result[1])
        return result

    return wait


def _install_reports() -> None:
    def unraisable(args: Any) -> None:
        message = args.err_msg or "Exception ignored in"
        what = re.sub(r" at 0x[0-9a-f]+", "", f"{message} {args.object!r}")
        watch.report("unraisable", f"{what}: {type(args.exc_value).__name__}: {args.exc_value}")

    def thread_failed(args: Any) -> None:
        watch.report("thread exception", f"{args.exc_type.__name__}: {args.exc_value}")

    real_show = warnings.showwarning

    def show(message: Any, category: type[Warning], filename: str, lineno: int, *rest: Any, **options: Any) -> None:
        if issubclass(category, RuntimeWarning):
            from . import chains

            watch.report("warning", f"{category.__name__}: {message}", Site(chains.roots.short(filename), lineno))
        real_show(message, category, filename, lineno, *rest, **options)

    sys.unraisablehook = unraisable
    threading.excepthook = thread_failed
    warnings.showwarning = show


def _install_threads() -> None:
    real_start = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if watch.on:
            from . import chains

            watch.threads[id(self)] = chains.caller(2)
        real_start(self)

    threading.Thread.start = start  # type: ignore[method-assign]


def install() -> None:
    """Put the doors in place; call before anything of the target is imported."""
    _install_births()
    _install_deaths()
    _install_threads()
    _install_reports()
