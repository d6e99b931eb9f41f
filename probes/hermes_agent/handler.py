"""hermes-agent's gateway: the handler of SIGTERM must begin one shutdown, which nothing may end before it is through."""

import asyncio
import os
import signal
import tempfile
import weakref

os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="hermes-")

import gateway.shutdown_forensics
from gateway.config import GatewayConfig
from gateway.run import GatewayRunner, start_gateway

from stormdrain import closure, deliver, probe

# The handler also starts a `ps` in a session of its own, for the log: beside the point here.
gateway.shutdown_forensics.spawn_async_diagnostic = lambda *args, **options: None


def runner_with_handler():
    """A runner whose SIGTERM is handled as the gateway's start path has it."""
    runner = GatewayRunner(GatewayConfig())
    path = "start_gateway.<locals>.shutdown_signal_handler"
    handler = closure(start_gateway, path, defaults=(None,), runner=runner, _signal_initiated_shutdown=False)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, handler, signal.SIGTERM)
    return runner


@probe(operation=deliver("SIGTERM", until="wait_for_shutdown"), count=["stop"])
async def blocked(case):
    """stop() waits for somebody who is held by nobody else, as a peer in another library may be."""
    runner = runner_with_handler()

    async def stop():
        peer = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.4, answer, weakref.ref(peer))
        await peer
        runner._shutdown_event.set()

    def answer(peer):
        if peer() is not None and not peer().done():
            peer().set_result(None)

    runner.stop = stop
    yield runner


def watch_the_end(runner):
    """Make `runner.through()` wait for the end of stop(), as everybody does who calls stop() meanwhile."""

    async def through():
        await runner.wait_for_shutdown()
        await asyncio.wait([runner._stop_task])
        if runner._stop_task.cancelled():
            raise RuntimeError("the sweep over background tasks has cancelled the shutdown itself")

    runner.through = through


@probe(operation=deliver("SIGTERM", until="through"), count=["stop"])
async def real(case):
    """The real stop(), whose drain takes 0.4 s; it must come to its end."""
    runner = runner_with_handler()
    drain = runner._drain_active_agents

    async def slowly(timeout):
        await asyncio.sleep(0.4)
        return await drain(timeout)

    runner._drain_active_agents = slowly
    watch_the_end(runner)
    yield runner


async def swept(runner, case):
    """The shutdown's own task is among the background tasks that the real stop() sweeps away."""
    runner._shutdown_task = asyncio.create_task(runner.stop())
    runner._background_tasks.add(runner._shutdown_task)
    await runner.through()


@probe(operation=swept, storms=["gc"])
async def sweep(case):
    """It must spare the task that keeps the shutdown, wherever else that is kept."""
    runner = GatewayRunner(GatewayConfig())
    watch_the_end(runner)
    yield runner


@probe(
    operation=deliver("SIGTERM", until="wait_for_shutdown"),
    victim="GatewayRunner.stop",
    storms=["cancel-sweep"],
)
async def cancelled(case):
    """The real stop(), cancelled at every step of it: what becomes of the shutdown?"""
    yield runner_with_handler()
