"""Suites on trio: virtual time, deadlocks and spins there, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites import Bench

pytest.importorskip("trio")

SOURCE = """
import trio


async def rest(seconds):
    await trio.sleep(seconds)
    return seconds


async def opened(event):
    event.set()
    await event.wait()


async def rounds(number):
    for _ in range(number):
        await trio.lowlevel.checkpoint()
"""

TESTS = """
import time

import trio

from pond.pipe import opened, rest, rounds


def test_rest():
    async def main():
        began = trio.current_time()
        assert await rest(1) == 1
        assert trio.current_time() - began >= 1
    trio.run(main)


def test_opened():
    async def main():
        await opened(trio.Event())
    trio.run(main)


def test_rounds():
    trio.run(rounds, 3)


def test_timeout():
    async def main():
        with trio.move_on_after(2) as scope:
            await rest(1)
        assert not scope.cancelled_caught
    trio.run(main)
"""


def test_trio_waits_in_virtual_time_and_its_hangs_are_told_apart(tmp_path: Path) -> None:
    outcome = Bench(tmp_path, SOURCE, TESTS).run(
        {
            "longer": ("trio.sleep(seconds)", "trio.sleep(seconds * 3)"),
            "deadlock": ("    event.set()\n", ""),
            "spin": ("range(number)", "iter(int, 1)"),
        }
    )
    facts = outcome.campaign.facts
    assert outcome.baseline.left_out == {}
    assert facts.real == set()
    assert facts.seconds[0] < 1 <= facts.real_seconds[0]
    assert outcome.cells("longer") == {"test_timeout": "failed"}
    assert outcome.cells("deadlock") == {"test_opened": "deadlock"}
    assert outcome.cells("spin") == {"test_rounds": "spun"}
