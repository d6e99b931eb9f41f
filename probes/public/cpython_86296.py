"""python/cpython#86296: wait_for loses a cancel that lands just after the end of what it waits for."""

import asyncio

from stormdrain import probe


async def wait(answer, case):
    """The answer comes after 10 ms; a cancel one step later is as good as any other."""
    asyncio.get_running_loop().call_later(0.01, lambda: answer.done() or answer.set_result("answer"))
    return await asyncio.wait_for(answer, 1)


@probe(operation=wait)
async def wait_for_an_answer(case):
    """Revision: stdlib. Bad: 3.11. Good: 3.12."""
    return asyncio.get_running_loop().create_future()
