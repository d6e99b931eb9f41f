"""pallets/quart#339: a background task that waits on a future of its own is destroyed by the garbage collector."""

import asyncio

from quart import Quart

from stormdrain import probe


async def job():
    await asyncio.get_running_loop().create_future()  # which nobody else knows


async def serve(app, case):
    app.add_background_task(job)
    await asyncio.sleep(0.1)


@probe(operation=serve, requires=["flask<3.1"])
async def background_task(case):
    """Bad: 0.19.5. Good: 0.20.0."""
    app = Quart("application")
    await app.startup()
    yield app
    await app.shutdown()
