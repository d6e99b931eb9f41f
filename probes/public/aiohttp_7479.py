"""aio-libs/aiohttp#7479: after a client's timeout the task still counts as being cancelled."""

import aiohttp

from stormdrain import probe


async def get(subject, case):
    """Whoever gets the TimeoutError was not cancelled: `cancelling()` is zero again."""
    session, address = subject
    async with session.get(f"http://{address}/", timeout=aiohttp.ClientTimeout(total=0.2)) as response:
        return await response.text()


@probe(operation=get, storms=["cancel-sweep"])
async def request(case):
    """The server takes the request and keeps silent. Bad: 3.10.5. Good: 3.10.10.

    (Pairs of cancels in the timeout's own turn find more in 3.10.10: its timer, entered twice, uncancels twice.)
    """
    server = case.peer(speaks="http", silent=True)
    async with aiohttp.ClientSession() as session:
        yield session, server.address
