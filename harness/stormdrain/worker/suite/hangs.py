"""Telling hangs apart, from within: a deadlock, a spin on the loop, a loop that never awaits.

A mutant that hangs must cost milliseconds, not its test's deadline, and the
report must say which kind it is. A deadlock is a wait that nothing can end. A spin
is a run of turns far beyond the baseline's, while every child is quiet and no
timer is left that would end it. A loop that never awaits gives no turn to count:
its backward jumps are counted where the interpreter can report them (3.12), else
ticks of CPU time without a new turn.

The verdict is raised as an exception, so that the test unwinds and its fixtures
clean up; where that does not end it, the process reports and leaves.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NoReturn

from .. import procfs
from . import blocked
from . import clock as clocks
from .clock import clock
from .monitor import TOOL, monitoring

_LEAPS = 20
_STILL = 20
_SLICE = 50
"""Turns between two looks once the budget is used up."""
_CLEANING = 2000
"""Turns that a test gets to clean up after its verdict."""


_UNWINDINGS = {"looped": 30, "spun": 5}
"""How often a test is unwound, for each of its tasks may loop by itself, before its process leaves."""


class Hang(BaseException):
    """Raised into a test that will not end; no `except Exception` of the target swallows it."""


class Hangs:
    """The watch over the test that is running."""

    def __init__(self) -> None:
        self.armed = False
        self.verdict = ""
        self.where: list[str] = []
        self.report: Callable[[str, list[str]], None] = lambda kind, where: None
        self.turns = self.jumps = self.most_jumps = 0
        self.turn_budget = self.jump_budget = 10**9
        self.cpu_budget = 60.0
        self._leaps = self._still = self._calls = 0
        self._look: clocks.Look | None = ()
        self._tick = (0, 0)

    def start(self, turns: int, jumps: int, cpu: float) -> None:
        """A test begins; its baseline bounds what it gets. 0 turns: nothing is known yet."""
        self.turns = self.jumps = self.most_jumps = self._leaps = self._still = 0
        self.verdict, self.where, self._look, self._tick = "", [], (), (0, 0)
        self._calls = 0
        known = turns > 0
        self.turn_budget = 1000 + 50 * turns if known else 10**6
        self.jump_budget = 1000 + 100 * jumps if known else 10**7
        self.cpu_budget = 0.4 + 20 * cpu if known else 60.0
        self.armed = True
        signal.signal(signal.SIGPROF, self._on_tick)
        if blocked.WAKE:
            signal.signal(blocked.WAKE, self._on_wake)
        signal.setitimer(signal.ITIMER_PROF, 0.1, 0.1)

    def stop(self) -> None:
        """The test is over."""
        self.armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.most_jumps = max(self.most_jumps, self.jumps)

    def call(self, kind: str, *, unwind: bool) -> NoReturn:
        """Give the verdict: unwind the test, or report and leave where there is no way to."""
        self._calls += 1
        if not self.verdict:
            self.verdict, self.where = kind, current_line() if kind == "looped" else waiting_tasks()
        self.turn_budget, self.jump_budget = self.turns + _CLEANING, _CLEANING // 10
        if unwind and self._calls <= _UNWINDINGS.get(kind, 2):
            raise Hang(f"{kind}: {'; '.join(self.where) or 'no task'}")
        self.report(self.verdict, self.where)
        os._exit(3)

    def turn(self, next_timer: Callable[[], float], *, unwind: bool) -> None:
        """A turn of the loop begins. `next_timer`: seconds to the next timer, 0 where there is none."""
        self.turns += 1
        if self.jumps > self.most_jumps:
            self.most_jumps = self.jumps
        self.jumps = 0
        if self.turns > self.turn_budget:
            self._judge_spin(next_timer, unwind)

    def _judge_spin(self, next_timer: Callable[[], float], unwind: bool) -> None:
        """A spin that waits for a busy child may end; one that waits for a timer gets the timer at once."""
        self.turn_budget = self.turns + _SLICE
        now = clocks.look()
        if now is None or now != self._look:
            self._look, self._still = now, 0
        elif now and self._still < _STILL:
            self._still += 1
            clock.company = True
        elif clock.virtual and self._leaps < _LEAPS and (left := next_timer()) > 0:
            clock.offset += left
            self._leaps += 1
            self.turn_budget = self.turns + 2 * _SLICE
        elif clock.virtual or next_timer() <= 0:
            self.call("spun", unwind=unwind)

    def on_jump(self, code: CodeType, source: int, destination: int) -> None:
        """A jump in the code under test (a callback of sys.monitoring)."""
        if destination < source:
            self.jumps += 1
            if self.jumps > self.jump_budget and self.armed:
                self.call("looped", unwind=True)

    def _on_wake(self, number: int, frame: FrameType | None) -> None:
        """The pool has seen that every thread waits for a lock, for ever."""
        if self.armed:
            self.call("deadlock", unwind=True)

    def _on_tick(self, number: int, frame: FrameType | None) -> None:
        count = self._tick[1] + 1 if self._tick[0] == self.turns else 0
        self._tick = self.turns, count
        if self.armed and count * 0.1 > self.cpu_budget:
            self.call("looped", unwind=True)


hangs = Hangs()


def watch_jumps(functions: list[CodeType]) -> None:
    """Count backward jumps of this code, where the interpreter reports them."""
    if monitoring is None:
        return
    monitoring.register_callback(TOOL, monitoring.events.JUMP, hangs.on_jump)
    for code in functions:
        monitoring.set_local_events(TOOL, code, monitoring.events.JUMP)


def waiting_tasks() -> list[str]:
    """Every task of the running loop and its line; where no loop runs, the line that does."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return current_line()
    found = []
    for task in asyncio.all_tasks(loop):
        if stack := task.get_stack():
            code = stack[-1].f_code
            name = getattr(code, "co_qualname", code.co_name)
            found.append(f"{task.get_name()} at {os.path.basename(code.co_filename)}:{stack[-1].f_lineno} in {name}")
    return sorted(found)


def current_line() -> list[str]:
    """The line that runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        frame = frame.f_back
    if frame is None:
        return []
    code = frame.f_code
    name: Any = getattr(code, "co_qualname", code.co_name)
    return [f"{os.path.basename(code.co_filename)}:{frame.f_lineno} in {name}"]


def is_clean() -> bool:
    """Whether a test that was unwound left nothing running, so that others may go on in its process."""
    every: Any = getattr(asyncio.tasks, "_scheduled_tasks", None) or getattr(asyncio.tasks, "_all_tasks", None)
    if every is None or getattr(asyncio.tasks, "_eager_tasks", None):
        return False
    if any(not task.done() for task in list(every)):
        return False
    return len(sys._current_frames()) == 1 and not procfs.children()
