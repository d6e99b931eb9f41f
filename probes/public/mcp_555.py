"""modelcontextprotocol/python-sdk PR 555: leaving stdio_client hangs where the server ignores both EOF and SIGTERM."""

from mcp.client.stdio import StdioServerParameters, stdio_client

from stormdrain import probe


async def enter_and_leave(server, case):
    async with stdio_client(StdioServerParameters(command=server.path)):
        await server.ready()


@probe(operation=enter_and_leave, storms=["calm"], requires=["anyio<4.11", "pydantic<2.12"])
async def stdio(case):
    """Nobody disturbs it (under a cancel of asyncio's own 1.12.4 leaves the server, too). Bad: 1.9.4. Good: 1.12.4."""
    return case.child("server", on_eof="stay", sigterm="ignore")
