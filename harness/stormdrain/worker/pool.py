"""Trials in processes of their own: forked, watched, ended, swept up after.

The worker never runs a loop and has no threads, so a fork of it is a clean
start. The end of a trial is what `waitpid` says, never the end of a pipe, which
a leaked grandchild may hold open. After each trial everything that came to the
worker as an orphan is ended, until two looks in a row find nobody.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import json
import os
import random
import select
import shutil
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..model import Hang, Observation, Outcome, from_json, to_json
from . import linux, procfs, reaper, stacks
from .clock import clock, real_monotonic
from .props.program import program
from .trial import BUILD_BOUND, Order, Trial

_VIRTUAL_LIMIT = 60.0
"""Real seconds that a trial in virtual time may take; more means that it blocks or holds."""
_BLOCK_MARGIN = 2.0
"""Real seconds beyond the hang bound for which one callback may keep the loop from turning."""
_BUILD_LIMIT = BUILD_BOUND + 15.0
"""Real seconds within which the subject must be built, by whichever clock."""
_LARGEST = 32 << 20


@dataclass
class Running:
    """A trial that has been started."""

    order: Order
    pid: int
    pipe: int
    folder: str
    began: float
    limit: float
    pidfd: int = -1
    data: bytearray = field(default_factory=bytearray)
    observation: Observation | None = None
    error: str = ""
    observed_at: float = 0.0
    exit: str = ""
    phase: str = "building"
    outcome: Outcome = Outcome("not-run")
    """How the operation ended, if it did."""


@dataclass(frozen=True)
class Result:
    """What came of a trial: an observation, or an error of the harness itself."""

    order: Order
    observation: Observation | None
    error: str = ""
    strays: int = 0


class Pool:
    """Runs trials, `jobs` at a time.

    Args:
        folder: where trials get their folders.
        jobs: how many at a time.
    """

    def __init__(self, folder: str, jobs: int) -> None:
        self.folder = folder
        self.jobs = jobs
        self.count = 0
        self.killed = 0
        self._live: dict[int, Running] = {}
        linux.become_subreaper()
        # A worker may itself be forked by a program that has children (a test suite): those are not ours.
        self._foreign = frozenset(procfs.children())
        for modules in (("actor", "output", "child"), ("actor", "output", "requests", "peer")):
            program(*modules)  # compiled once, here, not in every trial
        # What was imported lives as long as the worker: no trial need look through it, or copy its pages.
        gc.collect()
        gc.freeze()

    def run(self, orders: Iterable[Order]) -> Iterator[Result]:
        """Run the orders; results come as trials end. `orders` is drawn from only when there is room."""
        todo = iter(orders)
        more = True
        done: deque[Result] = deque()
        try:
            while more or self._live:
                while more and len(self._live) < self.jobs:
                    order = next(todo, None)
                    if order is None:
                        more = False
                    else:
                        self._start(order)
                if self._live:
                    done.extend(self._wait())
                while done:
                    yield done.popleft()
        finally:
            self.close()

    def close(self) -> None:
        """End whatever still runs."""
        for running in list(self._live.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGKILL)
            self._collect(running)

    # -- starting --------------------------------------------------------

    def _start(self, order: Order) -> None:
        self.count += 1
        folder = os.path.join(self.folder, f"t{self.count:05d}")
        os.mkdir(folder, 0o700)
        ours, theirs = os.pipe()
        limit = _VIRTUAL_LIMIT if order.virtual else order.bound * 2 + 90
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._in_trial(order, me, folder, ours, theirs, limit)
        os.close(theirs)
        os.set_blocking(ours, False)
        running = Running(order, pid, ours, folder, real_monotonic(), limit)
        if hasattr(os, "pidfd_open"):
            running.pidfd = os.pidfd_open(pid)
        self._live[pid] = running

    def _in_trial(self, order: Order, parent: int, folder: str, ours: int, theirs: int, limit: float) -> None:
        """In the forked process; never returns."""
        status = 70
        me = os.getpid()
        try:
            os.setsid()
            linux.become_subreaper()
            linux.die_with_parent(parent)
            for running in self._live.values():
                for number in (running.pipe, running.pidfd):
                    with contextlib.suppress(OSError):
                        os.close(number)
            os.close(ours)
            run_trial(order, folder, theirs, limit)
            status = 0
        except BaseException as error:
            if os.getpid() == me:  # a fork of the target may come this way
                _say(theirs, {"error": "".join(traceback.format_exception(error))[-4000:]})
        finally:
            os._exit(status)

    # -- watching --------------------------------------------------------

    def _wait(self) -> list[Result]:
        """Wait until something happens; the trials that are over."""
        now = real_monotonic()
        poller = select.poll()
        until = 1.0
        for running in self._live.values():
            poller.register(running.pipe, select.POLLIN)
            if running.pidfd >= 0:
                poller.register(running.pidfd, select.POLLIN)
            until = min(until, self._deadline(running) - now)
        if any(running.pidfd < 0 for running in self._live.values()):
            until = min(until, 0.005)
        try:
            poller.poll(max(until, 0) * 1000)
        except InterruptedError:
            pass
        over = []
        for running in list(self._live.values()):
            self._read(running)
            pid, status = _wait_for(running.pid)
            if pid:
                over.append(self._collect(running, status))
            elif real_monotonic() >= self._deadline(running):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(running.pid, signal.SIGKILL)
                over.append(self._collect(running, timed_out=True))
        return over

    def _deadline(self, running: Running) -> float:
        if running.observed_at:
            return running.observed_at + running.order.exit_bound + 0.5
        return running.began + (min(running.limit, _BUILD_LIMIT) if running.phase == "building" else running.limit)

    def _read(self, running: Running) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while (piece := os.read(running.pipe, 1 << 20)) and len(running.data) < _LARGEST:
                running.data += piece
        while (end := running.data.find(b"\n")) >= 0:
            line = bytes(running.data[:end])
            del running.data[: end + 1]
            said = json.loads(line)
            if "observation" in said:
                running.observation = from_json(Observation, said["observation"])
                running.observed_at = real_monotonic()
            elif "exit" in said:
                running.exit = said["exit"]
            elif "phase" in said:
                running.phase = said["phase"]
                if said["outcome"] is not None:
                    running.outcome = from_json(Outcome, said["outcome"])
            else:
                running.error = said["error"]

    def _collect(self, running: Running, status: int | None = None, timed_out: bool = False) -> Result:
        """The trial has ended or been killed: reap it, end what it left, and say what came of it."""
        if status is None:
            with contextlib.suppress(ChildProcessError):
                status = os.waitpid(running.pid, 0)[1]
        self._live.pop(running.pid, None)
        strays = reaper.sweep(keep={*self._live, *self._foreign})
        self.killed += strays
        self._read(running)
        os.close(running.pipe)
        if running.pidfd >= 0:
            os.close(running.pidfd)
        result = self._result(running, status or 0, timed_out, strays)
        shutil.rmtree(running.folder, ignore_errors=True)
        return result

    def _result(self, running: Running, status: int, timed_out: bool, strays: int) -> Result:
        seen = running.observation
        if seen is not None:
            if seen.exit.kind == "returned" and running.exit != "left":
                if timed_out:
                    seen = replace(seen, exit=Outcome("hung", value="; ".join(stacks.read(running.folder)[0])))
                else:
                    seen = replace(seen, exit=Outcome("crashed", value=_died(status)))
            return Result(running.order, seen, "", strays)
        if running.error:
            return Result(running.order, None, running.error, strays)
        return Result(running.order, _unsaid(running, status, timed_out), "", strays)


def _unsaid(running: Running, status: int, timed_out: bool) -> Observation:
    """What is known of a trial that could not say it: it blocked, or the process died."""
    phase = running.phase
    threads, site = stacks.read(running.folder)
    if timed_out or threads:  # the watchdog writes the stacks before it ends a process
        seconds = round(real_monotonic() - running.began, 1)
        hang: Hang | None = Hang(f"blocked after {seconds:g} real seconds while {phase}", (), threads, (), site)
        end = Outcome("hung")
        note = f"{hang.why if hang else ''}: {threads[0] if threads else 'the stacks were not seen'}"
    else:
        seconds, hang, note = running.order.bound, None, _died(status)
        end = Outcome("crashed", value=note)
    clock_name = "virtual" if running.order.virtual else "real"
    seen = Observation(clock_name, running.outcome, bound=seconds, hang=hang, notes=(note,), partial=True)
    if phase == "building":
        return replace(seen, built=end)
    if phase == "operating":
        return replace(seen, outcome=end)
    if phase == "following up":
        return replace(seen, follow_up=end)
    return replace(seen, dispose=end) if phase in ("settling", "disposing") else replace(seen, exit=end)


def _wait_for(pid: int) -> tuple[int, int]:
    try:
        return os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return pid, 0


def _died(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        return f"the process died of {name}"
    return f"the process left with status {os.WEXITSTATUS(status)}"


def _say(pipe: int, what: dict[str, Any]) -> None:
    data = (json.dumps(what) + "\n").encode()
    while data:
        data = data[os.write(pipe, data) :]


def run_trial(order: Order, folder: str, pipe: int, limit: float) -> None:
    """Everything that happens in the trial's own process, but its end."""
    _surroundings(order, folder)
    me = os.getpid()
    file = open(os.path.join(folder, "stacks"), "w")
    ends = real_monotonic() + min(limit, _BUILD_LIMIT) - 1.0

    def watchdog(rest: float) -> None:
        seconds = min(order.bound + _BLOCK_MARGIN + rest, ends - real_monotonic())
        faulthandler.dump_traceback_later(max(seconds, 0.1), exit=True, file=file)

    clock.watchdog = watchdog
    watchdog(0.0)
    if order.virtual:
        clock.start_virtual()

    def say(what: dict[str, Any]) -> None:
        if os.getpid() == me:  # a fork of the target is no trial
            _say(pipe, what)

    def announce(phase: str, outcome: Outcome | None) -> None:
        nonlocal ends
        if phase == "operating":
            ends += limit - min(limit, _BUILD_LIMIT)
            watchdog(0.0)
        say({"phase": phase, "outcome": to_json(outcome)})

    trial = Trial(order, folder, lambda seen: say({"observation": to_json(seen)}), announce)
    driver = _driver(trial)
    driver.run()
    del driver
    gc.collect()
    faulthandler.dump_traceback_later(order.exit_bound, file=file)
    trial.report()
    # What the interpreter does when it leaves, as far as the target can notice it.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    say({"exit": "left"})


def _driver(trial: Trial) -> Any:
    if trial.order.backend == "trio":
        from .drive import trio_

        return trio_.Driver(trial)
    if trial.order.backend == "uvloop":
        from .drive import uv

        return uv.Driver(trial)
    if trial.order.backend == "service":
        from .drive import service

        return service.Driver(trial)
    from .drive import aio

    return aio.Driver(trial)


def _surroundings(order: Order, folder: str) -> None:
    """A folder, descriptors, environment and seeds of the trial's own."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(os.path.join(folder, "output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    for number in (null, out):
        if number > 2:
            os.close(number)
    os.makedirs(os.path.join(folder, "tmp"))
    os.environ["TMPDIR"] = os.path.join(folder, "tmp")
    os.environ.update(order.probe.env)
    if (tempfile := sys.modules.get("tempfile")) is not None:
        setattr(tempfile, "tempdir", None)  # noqa: B010 - the module is only known at run time
    os.chdir(folder)
    random.seed(order.seed)
    # An automatic collection at another moment each time would make trials differ; the storms collect on purpose.
    gc.disable()
