"""What hermes-agent's gateway owes to whoever sends it SIGTERM: one shutdown, which nothing ends before it is through.

The handler is a closure inside of the gateway's start path; it is built from that code,
and the signals are real ones. The mutants of `mutants/hermes_agent.toml` are put to
these tests.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="hermes-")

import gateway.shutdown_forensics
import pytest
from gateway.config import GatewayConfig
from gateway.run import GatewayRunner, start_gateway

from stormdrain import closure


@pytest.fixture(autouse=True)
def no_diagnostics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler starts a `ps` in a session of its own, for the log."""
    monkeypatch.setattr(gateway.shutdown_forensics, "spawn_async_diagnostic", lambda *args, **options: None)


def in_loop(test: Callable[[GatewayRunner], Coroutine[Any, Any, None]]) -> None:
    """Run a test with a runner whose SIGTERM is handled as the start path has it."""

    async def main() -> None:
        runner = GatewayRunner(GatewayConfig())
        path = "start_gateway.<locals>.shutdown_signal_handler"
        handler = closure(start_gateway, path, defaults=(None,), runner=runner, _signal_initiated_shutdown=False)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, handler, signal.SIGTERM)
        try:
            await asyncio.wait_for(test(runner), 20)
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    asyncio.run(main())


async def send(times: int) -> None:
    """Send real signals, each handled before the next."""
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.02)


def test_three_signals_begin_one_shutdown() -> None:
    async def test(runner: GatewayRunner) -> None:
        calls = []
        over = asyncio.Event()

        async def stop() -> None:
            calls.append("stop")
            await over.wait()

        runner.stop = stop
        await send(3)
        over.set()
        assert calls == ["stop"]

    in_loop(test)


def test_the_shutdown_survives_a_garbage_collection() -> None:
    async def test(runner: GatewayRunner) -> None:
        left: list[weakref.ref[asyncio.Task[Any]]] = []

        async def stop() -> None:
            task = asyncio.current_task()
            assert task is not None
            left.append(weakref.ref(task))
            del task
            await asyncio.get_running_loop().create_future()

        runner.stop = stop
        await send(1)
        gc.collect()
        task = left[0]()
        assert task is not None, "the task is gone"
        assert not task.done()
        task.cancel()

    in_loop(test)


def test_the_sweep_over_background_tasks_spares_the_shutdown() -> None:
    async def test(runner: GatewayRunner) -> None:
        async def shut_down() -> None:
            await runner.stop()

        task = asyncio.ensure_future(shut_down())
        runner._shutdown_task = task
        runner._background_tasks.add(task)
        await asyncio.wait([task])
        assert not task.cancelled(), "the sweep has cancelled the task that keeps the shutdown"

    in_loop(test)


def test_signals_while_the_gateway_drains_do_not_cancel_its_stop() -> None:
    async def test(runner: GatewayRunner) -> None:
        drain = runner._drain_active_agents

        async def slowly(timeout: float) -> Any:
            await asyncio.sleep(0.2)
            return await drain(timeout)

        runner._drain_active_agents = slowly
        await send(5)
        await runner.wait_for_shutdown()
        await asyncio.wait([runner._stop_task])
        assert not runner._stop_task.cancelled(), "the shutdown has cancelled itself"

    in_loop(test)
