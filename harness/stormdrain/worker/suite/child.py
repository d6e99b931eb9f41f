"""The forked process in which tests run: one mutant (or none), some tests, and a line for each result.

Everything that a fork shares with its siblings and must not is replaced here:
captured output, the temporary folder, the session that signals go to. After its
last report the process pauses until it is killed, for a process that leaves
gives its own children the chance to get away.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from .. import linux, procfs
from . import doors, finder, mirror
from .board import Board
from .clock import clock, real_monotonic, real_perf_counter
from .hangs import Hang, hangs, is_clean, watch_jumps
from .monitor import LineWatch
from .swap import Index, Swap
from .timers import TimerWatch

Json = dict[str, Any]


@dataclass
class Needs:
    """What a test needed unmutated: its bounds under a mutant are taken from it."""

    turns: int = 0
    jumps: int = 0
    seconds: float = 1.0
    cpu: float = 1.0
    real: bool = False
    """It runs in real time: in virtual time it came out otherwise."""


@dataclass
class Job:
    """What one fork (and those that go on after a hang) has to do."""

    id: str
    items: list[int]
    texts: dict[str, str] = field(default_factory=dict)
    """Real path -> mutated text."""
    swaps: list[Swap] = field(default_factory=list)
    cover: bool = False
    clock: str = "auto"
    """`auto`: each test in the clock that fits it; `real`; `virtual`."""
    timers: bool = False
    """Whether the margins of timeouts are recorded."""
    turn_delay: float = 0.0
    child_delay: float = 0.0
    """Seconds that each turn of a loop, and each start of a process, takes longer, on the virtual clock."""
    first: bool = False
    """Stop at the first test that does not pass."""
    mirror: bool = False
    """Whether child processes of the tests need the mutant too, through PYTHONPATH and what stands for it with -I."""
    marker: str = ""
    """A file that grows whenever the code of a forced failure runs."""
    on_disk: bool = False
    """Whether the mutant is to be found on disk, too: in a copy of the layer that is imported instead."""
    cold: bool = False
    """It cannot be swapped in: it needs an import of its own."""


@dataclass
class Suite:
    """A collected suite, as the process that collected it holds it."""

    config: pytest.Config
    items: list[pytest.Item]
    reports: Reports
    index: Index
    memory: int
    """Bytes that a fork may take beyond what it starts with."""
    layers: list[str]
    targets: dict[str, str] = field(default_factory=dict)
    """How code objects spell the files under test (the tests' own files left out) -> real path."""
    codes: list[CodeType] = field(default_factory=list)
    """The code of the functions under test."""
    needs: dict[int, Needs] = field(default_factory=dict)


class Reports:
    """The pytest plugin that turns reports into one small record a test."""

    def __init__(self) -> None:
        self.active = False
        self.now: Json = {}
        self.shared: dict[Any, set[tuple[str, int]]] = defaultdict(set)
        """Lines that ran while a fixture of a broader scope was set up: they count for each of its users."""
        self.lines: LineWatch | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """A failure's report without its traceback: formatting one costs more than most tests."""
        if not self.active or call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return None
        return pytest.TestReport(
            item.nodeid,
            item.location,
            dict.fromkeys(item.keywords, 1),
            "failed",
            describe(call.excinfo),
            call.when,  # type: ignore[arg-type] # it is never "collect" here
            duration=call.duration,
            start=call.start,
            stop=call.stop,
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self.active or self.now.get("out") == "failed":
            return
        if report.failed:
            self.now.update(out="failed", when=report.when, text=str(report.longrepr or "")[:2000])
        elif report.skipped and self.now.get("out") == "passed":
            expected = hasattr(report, "wasxfail")
            text = report.wasxfail if expected else report.longrepr
            self.now.update(out="skipped", text=str(text[2] if isinstance(text, tuple) else text)[:300])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        before = set(self.lines.lines) if self.lines else set()
        yield
        if self.lines and fixturedef.scope != "function":
            self.shared[fixturedef] |= self.lines.lines - before


def describe(excinfo: pytest.ExceptionInfo[BaseException]) -> str:
    """Type, message and innermost line of a failure, and what it came from."""
    error: BaseException | None = excinfo.value
    parts: list[str] = []
    while error is not None and len(parts) < 4:
        parts.append(f"{type(error).__name__}: {error}"[:600].rstrip(": "))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    crash = excinfo.traceback[-1]
    place = f"{os.path.basename(str(crash.path))}:{crash.lineno + 1}"
    return f"{place}: " + "\n  from ".join(parts)


class Child:
    """Runs a job's tests in the process that it is made in."""

    def __init__(self, suite: Suite, pipe: int) -> None:
        self._suite, self._pipe = suite, pipe
        self.config, self.items, self.reports = suite.config, suite.items, suite.reports
        self.index, self.needs = suite.index, suite.needs
        self._current = -1
        self._child_delay = 0.0
        self.timers: TimerWatch | None = None

    def run(self, job: Job, items: list[int], board: Board, temporary: Path) -> None:
        """Run the tests, put their records on the board, and leave; with children left, wait to be killed."""
        me = os.getpid()

        def put(*what: object) -> None:
            if os.getpid() != me:  # a fork that the code under test made and lost
                os._exit(1)
            board.put(*what)

        hangs.report = lambda kind, where: put("result", self._current, self._closed(kind, where))
        self._prepare(job, temporary)
        for position, index in enumerate(items):
            following = self.items[items[position + 1]] if position + 1 < len(items) else None
            board.start(index, real_monotonic())
            self._one(job, index, following)
            put("result", index, self.reports.now)
            if job.first and self.reports.now["out"] == "failed":
                break
            if self.reports.now.get("verdict") and not is_clean():
                break
        left = [procfs.command(pid) for pid in procfs.descendants() if procfs.alive(pid)]
        put("end", left)
        if not left:
            os._exit(0)
        os.write(self._pipe, b'["end", []]\n')
        while True:
            signal.pause()

    def _prepare(self, job: Job, temporary: Path) -> None:
        os.setsid()
        linux.become_subreaper()
        _limit_memory(self._suite.memory)
        _own_capture(self.config)
        temporary.mkdir()
        self.config._tmp_path_factory._basetemp = temporary  # type: ignore[attr-defined]
        for function, code in job.swaps:
            function.__code__ = code
        finder.serve(job.texts, self.index.names)
        if job.mirror and job.texts:
            roots = mirror.mirror(job.texts, self._suite.layers, temporary.with_suffix(".path"))
            for name in ("PYTHONPATH", "STORMDRAIN_LAYERS"):  # the second for children that ignore the first
                os.environ[name] = os.pathsep.join(filter(None, [*roots, os.environ.get(name, "")]))
        if job.cover:
            self.reports.lines = LineWatch(self._suite.targets)
            self.reports.lines.start(self._suite.codes)
            sys.addaudithook(self._audit)
        else:
            watch_jumps([code for _, code in job.swaps])
        clock.turn_delay = job.turn_delay
        if job.child_delay:
            sys.addaudithook(self._slow_start)
            self._child_delay = job.child_delay
        if job.timers:
            self.timers = TimerWatch()
            self.timers.start()
        self.reports.active = True

    def _one(self, job: Job, index: int, following: pytest.Item | None) -> None:
        needs, item, reports = self.needs.get(index), self.items[index], self.reports
        self._current = index
        reports.now = {"out": "passed"}
        clock.virtual = job.clock == "virtual" or (job.clock == "auto" and not (needs and needs.real))
        clock.company = False
        doors.open_trio()
        if reports.lines:
            reports.lines.restart()
        size = os.path.getsize(job.marker) if job.marker else 0
        began, cpu, offset = real_perf_counter(), time.process_time(), clock.offset
        hangs.start(needs.turns if needs else 0, needs.jumps if needs else 0, needs.cpu if needs else 0.0)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except Hang as error:  # raised outside of what pytest guards
            reports.now.update(out="failed", text=str(error))
        except (KeyboardInterrupt, SystemExit, pytest.exit.Exception) as error:
            reports.now.update(out="failed", text=f"{type(error).__name__}: {error}", verdict="crashed")
        hangs.stop()
        reports.now.update(seconds=real_perf_counter() - began, cpu=time.process_time() - cpu)
        reports.now.update(turns=hangs.turns, jumps=hangs.most_jumps, **self._facts())
        if self.timers is not None:
            reports.now.update(waits=clock.offset - offset, margin=self.timers.tightest(), limit=_limit(item))
        if hangs.verdict:
            reports.now.update(verdict=hangs.verdict, where=hangs.where, out="failed")
        if job.marker and os.path.getsize(job.marker) > size:
            reports.now["seen"] = True
        if reports.lines:
            reports.now["lines"] = self._lines(item)

    def _facts(self) -> Json:
        return {"company": True} if clock.company else {}

    def _closed(self, kind: str, where: list[str]) -> Json:
        """The record of a test that could not be unwound."""
        return {
            "out": "failed",
            "verdict": kind,
            "where": where,
            "text": f"{kind}: {'; '.join(where)}",
            **self._facts(),
        }

    def _lines(self, item: pytest.Item) -> dict[str, list[int]]:
        assert self.reports.lines is not None
        found = set(self.reports.lines.lines)
        for definitions in getattr(item, "_fixtureinfo", None).name2fixturedefs.values():  # type: ignore[union-attr]
            for definition in definitions:
                found |= self.reports.shared.get(definition, set())
        by_file: dict[str, list[int]] = defaultdict(list)
        for path, line in sorted(found):
            by_file[path].append(line)
        return by_file

    def _slow_start(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS and hangs.armed:
            clock.offset += self._child_delay

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS:
            self.reports.now["spawned"] = True


_STARTS = frozenset(("subprocess.Popen", "os.posix_spawn", "os.fork", "os.system", "os.exec"))
"""Audit events of a process that is started."""


def _limit(item: pytest.Item) -> float | None:
    """What pytest-timeout gives the whole test, in seconds."""
    marker = item.get_closest_marker("timeout")
    value = (marker.args[0] if marker.args else marker.kwargs.get("timeout")) if marker else None
    return float(value) if isinstance(value, (int, float)) else None


def _limit_memory(extra: int) -> None:
    """Bound the private writable memory, so that what is merely reserved does not count."""
    try:
        with open("/proc/self/statm") as file:
            data = int(file.read().split()[5]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = data + extra
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
    except (OSError, ValueError):
        return


def _own_capture(config: pytest.Config) -> None:
    """Captured output goes to files whose offsets all forks share; open new ones, over a null device."""
    null = os.open(os.devnull, os.O_RDWR)
    manager: Any = config.pluginmanager.getplugin("capturemanager")
    capturing = getattr(manager, "_method", "no") != "no" and getattr(manager, "_global_capturing", None)
    if capturing:
        manager.suspend_global_capture(in_=True)
        manager._global_capturing = None
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    if capturing:
        manager.start_global_capturing()


def fork(suite: Suite, job: Job, items: list[int], board: Board, temporary: Path) -> tuple[int, int]:
    """Start a child of this process for a job. Returns its pid and the pipe that it may call on."""
    read, write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        linux.die_with_parent(parent)
        Child(suite, write).run(job, items, board, temporary)
    except BaseException as error:  # the fork must never come back into the parent's code
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        board.put("broken", text[-2000:])
    finally:
        os._exit(70)
