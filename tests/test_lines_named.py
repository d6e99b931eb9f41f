"""A finding names the line that is to blame, also where that is known only if one looks while it happens."""

from __future__ import annotations

import textwrap

import pytest

from conftest import Stager
from stormdrain.model import Finding

PRELUDE = """
import asyncio, gc, subprocess, sys, threading, time
from stormdrain import probe

def blame(operation):
    @probe(operation=operation, closes=False)
    async def subject(case):
        yield []
    subject.__name__ = operation.__name__
    return subject
"""

BLOCKING = (
    PRELUDE
    + """
@blame
async def sleeps_in_a_helper(subject, case):
    def helper():
        time.sleep(0.5)  # blame
    helper()
    await asyncio.sleep(0)

@blame
async def waits_for_a_program(subject, case):
    await asyncio.sleep(0)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)"])  # blame
    await asyncio.sleep(0)

@blame
async def computes(subject, case):
    until = time.thread_time() + 0.5
    while time.thread_time() < until:  # blame
        pass
    await asyncio.sleep(0)

@blame
async def blocks_when_cancelled(subject, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        threading.Event().wait(0.5)  # blame
        await asyncio.sleep(0)
        raise

@blame
async def blocks_in_a_callback(subject, case):
    asyncio.get_running_loop().call_later(0.05, lambda: time.sleep(0.5))  # blame
    await asyncio.sleep(0.1)

@blame
async def waits_in_a_thread(subject, case):
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.5)
"""
)

FORGETTING = (
    PRELUDE
    + """
@blame
async def drops_a_future(subject, case):
    future = asyncio.get_running_loop().create_future()  # blame
    await asyncio.sleep(0)
    future.set_exception(ConnectionError("the peer has gone"))

@blame
async def drops_a_task(subject, case):
    async def fail():
        raise ConnectionError("the peer has gone")
    task = asyncio.ensure_future(fail())  # blame
    await asyncio.wait([task])

@blame
async def drops_what_a_library_made(subject, case):
    async def fail():
        raise ConnectionError("the peer has gone")
    task = asyncio.gather(fail())  # blame
    await asyncio.sleep(0.01)

@blame
async def lets_a_task_be_collected(subject, case):
    async def wait():
        await asyncio.get_running_loop().create_future()
    asyncio.ensure_future(wait())  # blame
    await asyncio.sleep(0)
    gc.collect()

@blame
async def looks_at_it(subject, case):
    future = asyncio.get_running_loop().create_future()
    future.set_exception(ConnectionError("the peer has gone"))
    future.exception()
    await asyncio.sleep(0)
"""
)


def blamed(source: str, name: str) -> int:
    """The number of the line that is marked in a probe's operation."""
    lines = textwrap.dedent(source).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"async def {name}("))
    return next(n for n, line in enumerate(lines[start:], start + 1) if line.endswith("# blame"))


def lines(findings: list[Finding]) -> set[int]:
    return {finding.site.line for finding in findings if finding.site is not None}


@pytest.mark.parametrize(
    "operation",
    [
        "sleeps_in_a_helper",
        "waits_for_a_program",
        "computes",
        "blocks_when_cancelled",
        "blocks_in_a_callback",
    ],
)
def test_what_blocks_the_loop_is_named_with_its_line(campaign: Stager, operation: str) -> None:
    played = campaign(BLOCKING, operation, schedules=["cancel-storm(once)/f:cancel+0.02s"])
    assert played.flagged == {"no-blocked-loop"}, played.told()
    assert lines(played.findings) == {blamed(BLOCKING, operation)}, played.told()


def test_it_is_named_on_trio_too(campaign: Stager) -> None:
    source = """
    import time, trio
    from stormdrain import probe

    async def blocks(subject, case):
        await trio.lowlevel.checkpoint()
        time.sleep(0.5)  # blame
        await trio.lowlevel.checkpoint()

    @probe(operation=blocks, backends=["trio"], closes=False)
    async def subject(case):
        yield []
    """
    played = campaign(source, storms=["calm"], backend="trio")
    assert played.flagged == {"no-blocked-loop"}, played.told()
    assert lines(played.findings) == {blamed(source, "blocks")}, played.told()


def test_a_thread_that_works_does_not_block_the_loop(campaign: Stager) -> None:
    played = campaign(BLOCKING, "waits_in_a_thread", storms=["calm", "cancel-sweep"])
    assert played.flagged == set(), played.told()


@pytest.mark.parametrize(
    "operation",
    ["drops_a_future", "drops_a_task", "drops_what_a_library_made", "lets_a_task_be_collected"],
)
def test_what_nobody_retrieved_is_named_with_the_line_that_made_it(campaign: Stager, operation: str) -> None:
    played = campaign(FORGETTING, operation, storms=["calm"])
    assert played.flagged == {"no-loop-reports"}, played.told()
    assert lines(played.findings) == {blamed(FORGETTING, operation)}, played.told()


def test_what_was_looked_at_is_no_finding(campaign: Stager) -> None:
    played = campaign(FORGETTING, "looks_at_it", storms=["calm"])
    assert played.flagged == set(), played.told()
