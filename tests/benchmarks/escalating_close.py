"""The work to measure: a close() that escalates for 10 s against a child that ignores SIGTERM."""

import asyncio

from stormdrain import probe


class Transport:
    """Waits 5 s for its child, terminates it, waits 5 s more, kills it; whoever cancels waits for that."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def open(self) -> None:
        self.process = await asyncio.create_subprocess_exec(self.path, stdin=-1, stdout=-1)

    async def close(self) -> None:
        task = asyncio.ensure_future(self._escalate())
        cancelled = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        task.result()

    async def _escalate(self) -> None:
        for end in (self.process.terminate, self.process.kill):
            try:
                await asyncio.wait_for(self.process.wait(), 5)
                return
            except asyncio.TimeoutError:
                end()
        await self.process.wait()


@probe(operation="close")
async def transport(case):
    child = case.child(on_eof="stay", sigterm="ignore")
    subject = Transport(child.path)
    await subject.open()
    await child.ready()
    yield subject
