"""mcp-cassette's recording proxy: a signal must end it, and its server, and leave a whole cassette."""

import json
import os
import sys

from stormdrain import ready_reply, service

REPLY = '{"jsonrpc": "2.0", "id": <<id>>, "result": {}}'
SERVERS = {
    "leaves": {"on_eof": "exit"},
    "stays": {"on_eof": "stay"},
    "ignores": {"on_eof": "stay", "sigterm": "ignore"},
    "records": {"on_eof": "exit", "sigterm": "record"},
}
REQUIRES = ["anyio==4.15.0", "pydantic==2.14.4"]


def call(number, method):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method})


def is_whole(case):
    """What was answered is in the cassette, and nothing half written lies beside it."""
    with open(os.path.join(case.path, "session.json"), encoding="utf-8") as file:
        messages = json.load(file)["messages"]
    assert len(messages) >= 2, f"the cassette has {len(messages)} messages"
    assert os.listdir(case.path) == ["session.json"], os.listdir(case.path)


def proxy(case, server, client=None):
    words = ["-m", "mcp_cassette", "record", "--cassette", "session.json", "--", server.path]
    return case.spawn([sys.executable, *words], ready=ready_reply(call(1, "initialize"), '"id": 1'), client=client)


@service(
    exits={"SIGTERM": 130, "SIGINT": 130},
    artefacts=is_whole,
    prompt=5,
    parametrize=SERVERS,
    requires=REQUIRES,
)
def record(case):
    """The client has had its first answer and is idle."""
    yield proxy(case, case.child("server", replies={"initialize": [REPLY]}, **case.param))


@service(exits={"SIGTERM": 130, "SIGINT": 130}, artefacts=is_whole, prompt=5, requires=REQUIRES)
def busy(case):
    """The client's second request is with the server, which takes its time."""
    server = case.child("server", replies={"initialize": [REPLY], "tools/call": [0.05, REPLY]})

    def client(service):
        service.send(call(2, "tools/call"))
        service.until(lambda: any("tools/call" in line for line in server.lines()))
        service.in_flight("tools-call")
        service.line('"id": 2')

    yield proxy(case, server, client)
