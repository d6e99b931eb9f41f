"""agronholm/anyio#669: in a scope that is already cancelled a process's aclose() leaves the child alive."""

import anyio

from stormdrain import probe


@probe(operation="aclose", storms=["scope"])
async def process(case):
    """The child leaves 5 s after the end of its input, so that it has to be ended. Bad: 4.2.0. Good: 4.3.0.

    Only a scope cancels here: asyncio's own cancel goes through the shield of an anyio scope in every release,
    and while 4.3.0 closes the streams it leaves the child alive too.
    """
    child = case.child(on_eof="delay:5")
    subject = await anyio.open_process([child.path])
    await child.ready()
    yield subject
