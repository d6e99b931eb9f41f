"""One built-in service for each expectation of services, which breaks it.

Small programs on the bare interpreter, up in some 15 ms: they import what is compiled
into it and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..model import Fault, Schedule, When
from .canaries import Canary
from .case import Case
from .script import Probe
from .service import Terms, ready_line
from .trial import Order

_START = """\
import _signal as s, posix, select, sys
def say(text): posix.write(1, text + b"\\n")
def wait():
    while True: select.poll().poll()
def term(act): s.signal(15, lambda *_: act())
"""
_LEAVES = _START + 'term(lambda: posix._exit({code})); say(b"ready"); wait()'
_IGNORES = _START + 's.signal(15, s.SIG_IGN); say(b"ready"); wait()'
_IS_LATE = _START + 'import time\ndef late():\n time.sleep(0.2)\n posix._exit(0)\nterm(late); say(b"ready"); wait()'
_FORKS = (
    _START
    + 'if posix.fork() == 0:\n s.signal(15, s.SIG_IGN); say(b"ready"); wait()\nterm(lambda: posix._exit(0)); wait()'
)
_PRINTS = (
    _START
    + 'def loud():\n say(b"Traceback (most recent call last):")\n posix._exit(0)\nterm(loud); say(b"ready"); wait()'
)
_BLOCKS = (
    _START
    + "s.pthread_sigmask(s.SIG_BLOCK, [15])\n"
    + 'if posix.fork() == 0: say(b"ready"); wait()\ns.pthread_sigmask(s.SIG_UNBLOCK, [15]); wait()'
)


def _canary(expectation: str, program: str, to: str = "", bound: float = 5.0, **terms: Any) -> Canary:
    def subject(case: Case) -> Iterator[Any]:
        yield case.spawn([sys.executable, "-ISE", "-c", program], ready=ready_line("ready"))

    function: Callable[..., Any] = subject
    probe = Probe(
        function=function,
        operation="exit",
        backends=("service",),
        kind="service",
        terms=Terms(exits={"SIGTERM": (0,)}, bound=bound, inject=False, **terms),
        name=f"canary of {expectation}",
        file=__file__,
    )
    arg = f"SIGTERM.{to}" if to else "SIGTERM"
    schedule = Schedule("signal", None, (Fault("signal", When("event", name="idle"), arg),))
    order = Order(probe, schedule, "service", virtual=False, bound=bound, phase="canary", follow_up=False)
    return Canary(expectation, order)


def canaries() -> list[Canary]:
    """One for each expectation of services."""
    return [
        _canary("returns", _IGNORES, bound=0.2),
        _canary("exit-code", _LEAVES.format(code=3)),
        _canary("artefacts-complete", _LEAVES.format(code=0), artefacts=lambda case: "its file is not there"),
        _canary("prompt", _IS_LATE, prompt=0.05),
        _canary("nothing-left", _FORKS),
        _canary("quiet-output", _PRINTS),
        _canary("child-reaped", _BLOCKS, to="child", bound=0.2),
    ]
