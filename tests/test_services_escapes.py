"""Services that try to get away: whatever they do, it is reported, and nothing of them is left afterwards."""

from __future__ import annotations

import textwrap
import uuid

import pytest

from conftest import MARK, Stager, left_after
from test_services import START, flagged

ESCAPES = {
    "a daemon of two forks, in a session of its own, without descriptors": (
        """
        if posix.fork() == 0:
            posix.setsid()
            if posix.fork(): leave()
            for fd in range(64):
                try: posix.close(fd)
                except OSError: pass
            s.signal(15, s.SIG_IGN); s.signal(1, s.SIG_IGN)
            wait()
        posix.wait()
        on(leave); say('ready'); wait()
        """,
        {"nothing-left"},
    ),
    "ignores every signal": (
        """
        for number in range(1, 32):
            if number not in (9, 19, 17): s.signal(number, s.SIG_IGN)
        say('ready'); wait()
        """,
        {"returns", "nothing-left"},
    ),
    "forks faster than anybody looks": (
        """
        if posix.fork() == 0:
            while True:
                if posix.fork(): leave()
        posix.wait()
        on(leave); say('ready'); wait()
        """,
        {"nothing-left"},
    ),
    "closes all descriptors": (
        """
        on(leave); say('ready')
        for fd in range(64):
            try: posix.close(fd)
            except OSError: pass
        if posix.fork() == 0: s.signal(15, s.SIG_IGN)
        wait()
        """,
        {"nothing-left"},
    ),
    "children in sessions of their own": (
        """
        for _ in range(5):
            if posix.fork() == 0:
                posix.setsid(); s.signal(15, s.SIG_IGN); wait()
        on(leave); say('ready'); wait()
        """,
        {"nothing-left"},
    ),
    "starts others while it is told to go": (
        """
        def more():
            for _ in range(20):
                if posix.fork() == 0: s.signal(15, s.SIG_IGN); wait()
            leave()
        on(more); say('ready'); wait()
        """,
        {"nothing-left"},
    ),
    "stops itself": (
        """
        on(lambda: posix.kill(posix.getpid(), 19)); say('ready'); wait()
        """,
        {"returns", "nothing-left"},
    ),
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_what_tries_to_get_away_is_reported_and_gone_afterwards(campaign: Stager, kind: str) -> None:
    program, expected = ESCAPES[kind]
    mark = uuid.uuid4().hex
    source = f"""
import sys
from stormdrain import ready_line, service
PROGRAM = {START + textwrap.dedent(program)!r}
@service(exits={{"SIGTERM": 0}}, bound=0.5, inject=False)
def escapes(case):
    return case.spawn([sys.executable, "-ISE", "-c", PROGRAM], ready=ready_line("ready"), env={{{MARK!r}: {mark!r}}})
"""
    played = campaign(source, schedules=["signal/f:signal=SIGTERM!idle"])
    assert flagged(played) == expected, played.told()
    assert left_after(mark, 5) == {}


@pytest.mark.parametrize("kind", ["a daemon of two forks, in a session of its own, without descriptors"])
def test_in_calm_it_is_gone_afterwards_as_well(campaign: Stager, kind: str) -> None:
    mark = uuid.uuid4().hex
    source = f"""
import sys
from stormdrain import ready_line, service
PROGRAM = {START + textwrap.dedent(ESCAPES[kind][0])!r}
@service(exits={{"SIGTERM": 0}}, inject=False, storms=["signal-child"])
def escapes(case):
    return case.spawn([sys.executable, "-ISE", "-c", PROGRAM], ready=ready_line("ready"), env={{{MARK!r}: {mark!r}}})
"""
    campaign(source)
    assert left_after(mark, 5) == {}
