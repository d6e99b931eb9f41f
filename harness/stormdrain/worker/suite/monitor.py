"""What ran: functions entered while the suite is imported, and lines under each test.

From Python 3.12 `sys.monitoring` tells it for next to nothing, since an event can
switch itself off where it has been heard; before, the profile and trace hooks do.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from . import codes

monitoring: Any = getattr(sys, "monitoring", None)
TOOL = 4
"""Not one of the numbers that debuggers, coverage and profilers reserve."""


class ImportWatch:
    """Records which functions of the named files are entered and which of their lines run, from `start` to `stop`."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self._wanted = wanted
        self.ran: set[CodeType] = set()
        self.lines: set[tuple[str, int]] = set()
        self._heard: dict[int, CodeType] = {}

    def start(self) -> None:
        if monitoring is not None:
            monitoring.use_tool_id(TOOL, "stormdrain")
            monitoring.register_callback(TOOL, monitoring.events.PY_START, self._started)
            monitoring.register_callback(TOOL, monitoring.events.LINE, self._line)
            monitoring.set_events(TOOL, monitoring.events.PY_START)
        else:
            sys.settrace(self._traced)

    def stop(self) -> None:
        if monitoring is not None:
            monitoring.set_events(TOOL, 0)
            for code in self._heard.values():
                monitoring.set_local_events(TOOL, code, 0)
            monitoring.register_callback(TOOL, monitoring.events.PY_START, None)
            monitoring.register_callback(TOOL, monitoring.events.LINE, None)
        else:
            sys.settrace(None)

    def _started(self, code: CodeType, offset: int) -> Any:
        if self._wanted(code.co_filename):
            self.ran.add(code)
            if id(code) not in self._heard:
                self._heard[id(code)] = code
                monitoring.set_local_events(TOOL, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        self.lines.add((code.co_filename, line))
        return monitoring.DISABLE

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._wanted(frame.f_code.co_filename):
            return None
        self.ran.add(frame.f_code)
        return self._traced_line

    def _traced_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._traced_line


class LineWatch:
    """Records which lines of the named files run. One per process, in a child that is thrown away."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self.lines: set[tuple[str, int]] = set()
        self._watched: dict[int, CodeType] = {}
        """By identity: two functions may have equal code and still be two."""

    def start(self, functions: list[CodeType]) -> None:
        """Begin, with the code of the functions that are already there."""
        if monitoring is None:
            sys.settrace(self._traced)
            threading.settrace(self._traced)
            return
        monitoring.register_callback(TOOL, monitoring.events.LINE, self._line)
        monitoring.register_callback(TOOL, monitoring.events.PY_START, self._entered)
        monitoring.set_events(TOOL, monitoring.events.PY_START)
        for code in functions:
            self._watch(code)

    def restart(self) -> None:
        """A new test: forget the lines, and hear of each again."""
        self.lines.clear()
        if monitoring is not None:
            monitoring.restart_events()

    def _watch(self, code: CodeType) -> None:
        for part in codes.tree(code):
            if id(part) not in self._watched:
                self._watched[id(part)] = part
                monitoring.set_local_events(TOOL, part, monitoring.events.LINE)

    def _entered(self, code: CodeType, offset: int) -> Any:
        """A module that a test imports by itself has code that nobody has seen yet."""
        if code.co_filename in self._names and id(code) not in self._watched:
            self._watch(code)
        return monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> Any:
        self.lines.add((self._names[code.co_filename], line))
        return monitoring.DISABLE

    def _traced(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._traced_line if frame.f_code.co_filename in self._names else None

    def _traced_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add((self._names[frame.f_code.co_filename], frame.f_lineno))
        return self._traced_line
