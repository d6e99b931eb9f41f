"""The case of mcp_555.py as a program of its own: it leaves when its stdin ends, whatever its server does."""

import sys

from stormdrain import ready_line, service

PROGRAM = """
import sys, anyio
from mcp.client.stdio import StdioServerParameters, stdio_client
async def main():
    async with stdio_client(StdioServerParameters(command=sys.argv[1])):
        print("up", flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)
anyio.run(main)
"""


@service(exits={"EOF": 0}, storms=["signal-stdin"], requires=["anyio<4.11", "pydantic<2.12"])
def client(case):
    """Bad: 1.9.4. Good: 1.12.4."""
    server = case.child("server", on_eof="stay", sigterm="ignore")
    return case.spawn([sys.executable, "-c", PROGRAM, server.path], ready=ready_line("up"))
