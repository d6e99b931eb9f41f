"""aio-libs/aiohttp#7479: after a client's timeout the task still counts as being cancelled."""

import aiohttp
from stormdrain import probe


async def get(session, case):
    """Whoever catches the TimeoutError is not cancelled: `cancelling()` is zero again."""
    timeout = aiohttp.ClientTimeout(total=0.2)
    async with session.get(f"http://{case.param_address}/", timeout=timeout) as response:
        return await response.text()


@probe(operation=get)
async def request(case):
    """The server takes the request and keeps silent. Bad: 3.10.5. Good: 3.10.10."""
    case.param_address = case.peer(speaks="http", silent=True).address
    async with aiohttp.ClientSession() as session:
        yield session
