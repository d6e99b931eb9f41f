"""SubprocessCLITransport.close(): it must leave no CLI behind, whatever disturbs it, and lose no cancellation."""

from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from stormdrain import probe

CLI = {
    "stays": {"sigterm": "default"},
    "ignores": {"sigterm": "ignore"},
}


@probe(
    operation="close",
    backends=["asyncio", "trio"],
    count=["_close_impl"],
    fail=["_close_impl:RuntimeError", "_process.terminate:PermissionError"],
    parametrize=CLI,
    requires=[
        "anyio==4.15.0",
        "trio==0.34.0",
        "sniffio==1.3.1",
        "mcp<=2.3.0",
        "jsonschema==4.26.0",
        "pydantic==2.14.4",
    ],
    env={"CLAUDE_AGENT_SDK_SKIP_VERSION_CHECK": "1"},
)
async def transport(case):
    """The CLI stays after its input has ended; it leaves on SIGTERM, or ignores it."""
    cli = case.child("cli", on_eof="stay", **case.param)
    subject = SubprocessCLITransport(prompt="hi", options=ClaudeAgentOptions(cli_path=cli.path))
    await subject.connect()
    await cli.ready()
    yield subject
