"""Slack: what was left on a test's timeouts, and how much delay it bears."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormdrain.mutation.slack import MOST, Slack, measure
from suites import Bench

SOURCE = """
import asyncio
import sys


async def rest(seconds):
    await asyncio.sleep(seconds)


async def ask():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "pass")
    await child.wait()
"""

TESTS = """
import asyncio

from pond.pipe import ask, rest


def test_tight():
    asyncio.run(asyncio.wait_for(rest(3), 4))


def test_loose():
    asyncio.run(asyncio.wait_for(rest(3), 4000))


def test_child():
    async def main():
        async with asyncio.timeout(30):
            await ask()
    asyncio.run(main())


def test_without_a_loop():
    assert True
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Slack]:
    folder: Path = tmp_path_factory.mktemp("slack")
    said: list[object] = []
    measured = measure(Bench(folder, SOURCE, TESTS).spec(), "3.11", said.append)
    return {one.test.rpartition("::")[2]: one for one in measured}


def test_the_margin_is_what_was_left_on_the_tightest_timeout(found: dict[str, Slack]) -> None:
    tight = found["test_tight"]
    assert tight.of == pytest.approx(4, abs=0.001)
    assert tight.margin is not None
    assert 0.5 < tight.margin <= 1
    assert 2.5 < tight.waits <= 3
    assert found["test_without_a_loop"].margin is None


def test_what_a_test_bears_is_found_by_trying(found: dict[str, Slack]) -> None:
    tight, child = found["test_tight"], found["test_child"]
    assert tight.turn is not None
    assert 0.05 < tight.turn < 1
    assert tight.child_start is None
    assert child.child_start is not None
    assert 20 < child.child_start < 30.1
    assert found["test_loose"].turn == MOST
