"""What claude-agent-sdk's subprocess transport owes to whoever closes it.

Seven tests of `SubprocessCLITransport.close()` against a design that keeps its
cleanup in `_close_impl`. The mutants of `mutants/claude_agent_sdk.toml` are put to
them. They run under anyio's pytest plugin, which also fails a test for whatever
reaches the event loop's exception handler meanwhile.

The children are real processes that stay, or ignore SIGTERM, as a stuck command
line tool does. Each says with its first line that its signal handlers are in place.

On Python 3.10 three of the tests are red whatever close() does: asyncio.TimeoutError
is not the builtin there, a task that is awaited raises a CancelledError of its own
making, which has no cause, and there is no asyncio.timeout.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import Process
from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import _ACTIVE_CHILDREN, SubprocessCLITransport

pytestmark = pytest.mark.anyio
only_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

STAYS = """
import os, signal
signal.alarm(60)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""

LEAVES_LATE = """
import os, signal, time
signal.alarm(60)
os.write(1, b"ready\\n")
while os.read(0, 4096):
    pass
time.sleep(0.2)
"""

IGNORES_SIGTERM = """
import os, signal, sys
signal.alarm(60)
record = os.open(os.path.join(os.path.dirname(sys.argv[0]), "signals"), os.O_CREAT | os.O_WRONLY)
signal.signal(signal.SIGTERM, lambda *_: os.write(record, b"SIGTERM "))
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


class Transport(SubprocessCLITransport):
    """The transport, counting how often its cleanup is entered."""

    rounds = 0

    async def _close_impl(self) -> None:
        self.rounds += 1
        await super()._close_impl()


def options(folder: Path, program: str) -> ClaudeAgentOptions:
    """Options that start `program` in the place of the command line tool."""
    script = folder / "child.py"
    script.write_text(program)
    command = folder / "child"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ISE "{script}"\n')
    command.chmod(0o755)
    return ClaudeAgentOptions(cli_path=command)


@asynccontextmanager
async def connected(folder: Path, program: str) -> AsyncIterator[tuple[Transport, Process]]:
    """A transport whose child has said that it is ready; no child outlives the block."""
    transport = Transport(prompt="", options=options(folder, program))
    await transport.connect()
    process = transport._process
    assert process is not None
    try:
        assert transport._stdout_stream is not None
        assert await transport._stdout_stream.receive() == "ready\n"
        yield transport, process
    finally:
        if process.returncode is None:
            process.kill()
            with anyio.move_on_after(5, shield=True):
                await process.wait()
        _ACTIVE_CHILDREN.discard(process)


@pytest.fixture(autouse=True)
def no_version_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK", "1")


@only_asyncio
async def test_a_timeout_still_reaps_the_child(tmp_path: Path) -> None:
    async with connected(tmp_path, STAYS) as (transport, process):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.close(), 0.05)
        assert process.returncode == -signal.SIGTERM
        assert process not in _ACTIVE_CHILDREN


@only_asyncio
async def test_repeated_cancellation_still_reaps_the_child_in_one_round(tmp_path: Path) -> None:
    async with connected(tmp_path, STAYS) as (transport, process):
        closing = asyncio.create_task(transport.close())
        for _ in range(1000):
            done, _pending = await asyncio.wait({closing}, timeout=0.02)
            if done:
                break
            closing.cancel()
        assert closing.cancelled()
        assert process.returncode == -signal.SIGTERM
        assert process not in _ACTIVE_CHILDREN
        assert transport.rounds == 1


async def test_close_in_a_cancelled_scope_still_reaps_the_child(tmp_path: Path) -> None:
    async with connected(tmp_path, LEAVES_LATE) as (transport, process):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await transport.close()
        assert process.returncode is not None
        assert process not in _ACTIVE_CHILDREN


@only_asyncio
async def test_a_failing_cleanup_does_not_swallow_a_cancellation(tmp_path: Path) -> None:
    failure = RuntimeError("the cleanup failed")
    release = asyncio.Event()

    class Failing(SubprocessCLITransport):
        async def _close_impl(self) -> None:
            await release.wait()
            raise failure

    closing = asyncio.create_task(Failing(prompt="", options=options(tmp_path, STAYS)).close())
    await anyio.wait_all_tasks_blocked()
    closing.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError) as caught:
        await closing
    assert caught.value.__cause__ is failure


@only_asyncio
async def test_a_failing_cleanup_does_not_break_a_timeout(tmp_path: Path) -> None:
    failure = RuntimeError("the cleanup failed")

    class Failing(SubprocessCLITransport):
        async def _close_impl(self) -> None:
            while not deadline.expired():  # noqa: ASYNC110 - a Timeout has no event to wait for
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)  # by now the cancellation has reached close()
            raise failure

    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.05) as deadline:
            await Failing(prompt="", options=options(tmp_path, STAYS)).close()
    cancellation = caught.value.__cause__
    assert isinstance(cancellation, asyncio.CancelledError)
    assert cancellation.__cause__ is failure


async def test_a_failing_cleanup_surfaces_when_nobody_cancels(tmp_path: Path) -> None:
    failure = RuntimeError("the cleanup failed")

    class Failing(SubprocessCLITransport):
        async def _close_impl(self) -> None:
            await anyio.lowlevel.checkpoint()
            raise failure

    with pytest.raises(RuntimeError) as caught:
        await Failing(prompt="", options=options(tmp_path, STAYS)).close()
    assert caught.value is failure


async def test_a_child_is_tracked_until_it_is_reaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after = anyio.fail_after
    monkeypatch.setattr(anyio, "fail_after", lambda delay: fail_after(delay / 5))
    async with connected(tmp_path, IGNORES_SIGTERM) as (transport, process):
        assert process in _ACTIVE_CHILDREN
        await transport.close()
        assert (tmp_path / "signals").read_text() == "SIGTERM "
        assert process.returncode == -signal.SIGKILL
        assert process not in _ACTIVE_CHILDREN
