"""python/cpython#134471: a timeout that is over at once takes the place of a cancel that was already pending."""

import asyncio

from stormdrain import probe


async def leave(subject, case):
    """The task is cancelled before it comes to the timeout: that must end it, whatever becomes of the timeout."""
    asyncio.current_task().cancel()
    try:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    except TimeoutError:
        return "timed out"


@probe(operation=leave, storms=["calm"])
async def cancelled_before_a_timeout(case):
    """Revision: stdlib. Bad: 3.11 to 3.13."""
    return "nothing is needed"
