"""What mcp-cassette's recording proxy owes to whoever tells it to go: an exit code, a cassette, and no server left.

Three tests of the same promise. The first has the shape of the one that its authors
wrote: it waits for a second and looks at what the proxy did. On a loaded machine that
second is too short: the signal comes before the handler is in place, and the proxy dies
of it. The second test waits for the answer to the first request instead. The third looks
at the server, too. The mutants of `mutants/mcp_cassette.toml` are put to them.

The server is a real process that stays when its stdin ends, as a stuck one does.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = """
import json, os, signal, sys
signal.alarm(60)
print(json.dumps({"jsonrpc": "2.0", "id": json.loads(sys.stdin.readline())["id"], "result": {"pid": os.getpid()}}))
sys.stdout.flush()
while True:
    signal.pause()
"""
REQUEST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}) + "\n"
PATIENCE = 8.0
"""Seconds within which the proxy must have gone; it takes a fraction of one."""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The proxy in front of the server, and nothing left of them afterwards."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    words = ["-m", "mcp_cassette", "record", "--cassette", "session.json", "--", sys.executable, str(script)]
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()


def ask(proxy: subprocess.Popen[str]) -> None:
    assert proxy.stdin is not None
    proxy.stdin.write(REQUEST)
    proxy.stdin.flush()


def messages(folder: Path) -> int:
    return len(json.loads((folder / "session.json").read_text())["messages"])


def test_sigterm_after_a_second_writes_the_cassette(proxy: subprocess.Popen[str], tmp_path: Path) -> None:
    ask(proxy)
    time.sleep(1.0)
    proxy.send_signal(signal.SIGTERM)
    assert proxy.wait(PATIENCE) == 130
    assert messages(tmp_path) == 2


def test_sigterm_after_the_first_answer_writes_the_cassette(proxy: subprocess.Popen[str], tmp_path: Path) -> None:
    ask(proxy)
    assert proxy.stdout is not None
    proxy.stdout.readline()
    proxy.send_signal(signal.SIGTERM)
    assert proxy.wait(PATIENCE) == 130
    assert messages(tmp_path) == 2


def test_sigterm_ends_the_server_too(proxy: subprocess.Popen[str], tmp_path: Path) -> None:
    ask(proxy)
    assert proxy.stdout is not None
    server = json.loads(proxy.stdout.readline())["result"]["pid"]
    watched = os.pidfd_open(server)
    try:
        proxy.send_signal(signal.SIGTERM)
        assert proxy.wait(PATIENCE) == 130
        assert messages(tmp_path) == 2
        gone = bool(select.select([watched], [], [], PATIENCE)[0])
        assert gone, "the server is still there"
    finally:
        os.close(watched)
