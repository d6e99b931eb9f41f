"""The scripted peer as a real process behind real sockets, and its account of what came."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage import PATIENCE, Stage, await_end, run_python, state
from stormdrain.errors import UsageError
from stormdrain.revisions.interpreters import available_interpreters
from stormdrain.worker.props.inside.requests import TAKE, Request, response
from stormdrain.worker.props.peer import Connection, Peer

law = settings(deadline=None, max_examples=100)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()


class Client:
    """A plain client of a peer."""

    def __init__(self, peer: Peer) -> None:
        self.socket = socket.create_connection((peer.host, peer.port), PATIENCE)

    def send(self, data: bytes) -> Client:
        self.socket.sendall(data)
        return self

    def take(self, length: int) -> bytes:
        """Exactly so many bytes, fewer only where the peer closed."""
        data = b""
        while len(data) < length and (more := self.socket.recv(length - len(data))):
            data += more
        return data

    def take_all(self) -> bytes:
        """All until the peer closes."""
        data = b""
        while more := self.socket.recv(65536):
            data += more
        return data

    def has_nothing(self) -> bool:
        self.socket.setblocking(False)
        try:
            self.socket.recv(1)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)
        return False

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    clients: list[Client] = []
    yield clients
    for client in clients:
        client.close()


class TestTalking:
    def test_it_greets_and_answers_line_by_line(self, stage: Stage) -> None:
        peer = stage.hub.peer(says=["welcome"], replies={"ping": ["pong", b"raw"], "": "heard <<line>>"})
        client = Client(peer)
        assert client.take(8) == b"welcome\n"
        assert client.send(b"pi").send(b"ng 1\r\nother\n").take(20) == b"pong\nrawheard other\n"
        client.close()
        stage.until(lambda: peer.open() == 0)
        assert peer.connections() == [Connection(1, ["ping 1", "other"], 2, "closed by the client")]

    def test_what_fits_no_reply_is_taken_and_not_answered(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"a": "b"})
        client = Client(peer).send(b"x\na\n")
        assert client.take(2) == b"b\n"
        stage.until(lambda: peer.replies() == 1)
        assert peer.requests() == ["x", "a"]
        client.close()

    def test_a_silent_one_takes_every_request_and_says_nothing(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="redis", silent=True)
        client = Client(peer).send(b"PING\r\n")
        stage.until(lambda: peer.requests() == ["PING"])
        assert client.has_nothing()
        assert stage.hub.inert()
        assert (peer.open(), peer.replies()) == (1, 0)
        client.close()

    def test_a_half_closed_client_still_gets_its_answer(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"bye": "bye"})
        client = Client(peer).send(b"bye\n")
        client.socket.shutdown(socket.SHUT_WR)
        assert client.take_all() == b"bye\n"
        client.close()

    def test_it_can_stay_when_the_client_has_closed_its_side(self, stage: Stage) -> None:
        peer = stage.hub.peer(on_eof="stay")
        client = Client(peer)
        client.socket.shutdown(socket.SHUT_WR)
        stage.until(lambda: [one.fate for one in peer.connections()] == ["closed by the client"])
        assert client.has_nothing()
        client.close()

    def test_one_that_does_not_read_fills_the_buffers(self, stage: Stage) -> None:
        peer = stage.hub.peer(reads=False, says=["hi"])
        client = Client(peer)
        assert client.take(3) == b"hi\n"
        client.socket.setblocking(False)
        written = 0
        with contextlib.suppress(BlockingIOError):
            while written < 100_000_000:
                written += client.socket.send(b"x" * 65536)
        assert written < 100_000_000
        assert peer.requests() == []
        client.reset()

    def test_a_thousand_requests_are_all_accounted_for(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"": "."})
        client = Client(peer)
        for first in range(0, 1000, 100):
            client.send(b"".join(b"request %d\n" % number for number in range(first, first + 100)))
            assert client.take(200) == b".\n" * 100
        stage.until(lambda: peer.replies() == 1000)
        assert peer.requests() == [f"request {number}" for number in range(1000)]
        client.close()

    def test_a_long_reply_arrives_in_full(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"more": [b"y" * 3_000_000]})
        client = Client(peer).send(b"more\n")
        assert len(client.take(3_000_000)) == 3_000_000
        client.close()


class TestLanguages:
    def test_redis_commands_come_in_pieces_and_in_batches(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="redis", replies={"get": "<<bulk 1>>", "INCR n": ":7"})
        client = Client(peer)
        client.send(b"*2\r\n$3\r\nGET\r\n$5\r\nk").send(b"\r\ney\r\n*1\r\n$4\r\nPING\r\nincr n\r\n")
        assert client.take(22) == b"$5\r\nk\r\ney\r\n+PONG\r\n:7\r\n"
        assert peer.requests() == ["GET k\r\ney", "PING", "incr n"]
        client.close()

    def test_a_redis_client_comes_up_without_a_script(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="redis")
        client = Client(peer)
        client.send(b"HELLO 3\r\nCLIENT SETINFO LIB-NAME x\r\nSELECT 1\r\nGET a\r\nSET a b\r\nECHO e\r\n")
        expected = b"-ERR unknown command\r\n+OK\r\n+OK\r\n$-1\r\n+OK\r\n$1\r\ne\r\n"
        assert client.take(len(expected)) == expected
        client.close()

    def test_resp_answers_nothing_but_its_script(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="resp", replies={"QUIT": "+OK"})
        client = Client(peer).send(b"PING\r\nQUIT\r\n")
        assert client.take(5) == b"+OK\r\n"
        client.close()

    def test_http_requests_are_answered_with_whole_responses(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="http", replies={"POST /echo": "<<method>> <<path>>: <<body>>", "GET /": "hello"})
        base = f"http://{peer.address}"
        with urllib.request.urlopen(f"{base}/there", timeout=PATIENCE) as response:
            assert response.read() == b"hello"
        with urllib.request.urlopen(f"{base}/echo", data="bødy".encode(), timeout=PATIENCE) as response:
            assert response.read() == "POST /echo: bødy".encode()
        stage.until(lambda: peer.open() == 0)
        assert peer.requests() == ["GET /there HTTP/1.1", "POST /echo HTTP/1.1"]

    def test_an_http_connection_is_kept_and_chunked_bodies_end(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="http", replies={"": "<<path>>"})
        client = Client(peer)
        client.send(b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
        client.send(b"GET /b HTTP/1.1\r\n\r\n")
        expected = response(b"/a") + response(b"/b")
        assert client.take(len(expected)) == expected
        client.close()


class TestDelays:
    def test_a_reply_comes_exactly_so_long_after_its_request(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"": "late"}, reply_after=2.5)
        client = Client(peer)
        stage.now = 40.0
        client.send(b"x\n")
        stage.until(lambda: stage.hub.next_timer() == 42.5)
        assert not stage.hub.inert()
        assert client.has_nothing()
        assert stage.hub.fire(42.4) == 0
        assert stage.hub.fire(42.5) == 1
        assert client.take(5) == b"late\n"
        stage.until(lambda: not stage.hub.busy())
        assert stage.hub.inert()
        client.close()

    def test_connections_wait_each_for_itself(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"slow": [5, "slow"], "fast": [1, "fast"]})
        slow, fast = Client(peer), Client(peer)
        slow.send(b"slow\n")
        fast.send(b"fast\n")
        stage.until(lambda: peer.requests() == ["slow", "fast"] and stage.hub.next_timer() == 101.0)
        assert stage.hub.fire(101.0) == 1
        assert fast.take(5) == b"fast\n"
        stage.until(lambda: not stage.hub.busy() and stage.hub.next_timer() == 105.0)
        assert slow.has_nothing()
        assert stage.hub.fire(105.0) == 1
        assert slow.take(5) == b"slow\n"
        slow.close()
        fast.close()

    def test_a_reset_connection_forgets_the_delay_that_it_was_in(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"": "never"}, reply_after=60)
        client = Client(peer).send(b"x\n")
        stage.until(lambda: stage.hub.next_timer() == 160.0)
        client.reset()
        stage.until(lambda: stage.hub.next_timer() is None)
        assert peer.connections() == [Connection(1, ["x"], 0, "reset by the client")]
        assert stage.hub.inert()

    def test_in_real_time_the_peer_sleeps_by_itself(self, tmp_path: Path) -> None:
        stage = Stage(tmp_path, virtual=False)
        peer = stage.hub.peer(replies={"": "late"}, reply_after=0.05)
        client = Client(peer).send(b"x\n")
        assert client.take(5) == b"late\n"
        assert stage.hub.next_timer() is None
        client.close()
        peer.reset()
        stage.close()


class TestEndings:
    @pytest.mark.parametrize("moment", ["accept", "request", "mid-reply", "reply"])
    def test_it_closes_at_the_moment_that_the_script_names(self, stage: Stage, moment: str) -> None:
        peer = stage.hub.peer(replies={"": "12345"}, closes=moment)
        client = Client(peer)
        if moment != "accept":
            client.send(b"x\n")
        expected = {"accept": b"", "request": b"", "mid-reply": b"123", "reply": b"12345\n"}[moment]
        assert client.take_all() == expected
        client.close()
        (connection,) = peer.connections()
        assert connection.fate == "closed"
        assert connection.replies == (moment == "reply")

    @pytest.mark.parametrize("moment", ["accept", "request", "mid-reply", "reply"])
    def test_it_resets_at_the_moment_that_the_script_names(self, stage: Stage, moment: str) -> None:
        peer = stage.hub.peer(replies={"": "12345"}, resets=moment)

        def talk() -> None:
            client = Client(peer)
            try:
                client.send(b"" if moment == "accept" else b"x\n").take_all()
            finally:
                client.close()

        with pytest.raises(ConnectionResetError):
            talk()
        assert [one.fate for one in peer.connections()] == ["reset"]

    def test_the_probe_resets_what_is_open_and_only_that(self, stage: Stage) -> None:
        peer = stage.hub.peer("db", replies={"": "ok"})
        clients = [Client(peer) for _ in range(3)]
        stage.until(lambda: peer.open() == 3)
        clients[0].close()
        stage.until(lambda: peer.open() == 2)
        peer.reset()
        assert [one.fate for one in peer.connections()] == ["closed by the client", "reset", "reset"]
        for client in clients[1:]:
            with pytest.raises(ConnectionResetError):
                client.take(1)
            client.close()
        late = Client(peer).send(b"x\n")
        assert late.take(3) == b"ok\n"
        late.close()
        assert ("peer db", "is told: reset") in stage.events

    def test_the_probe_drops_connections_and_deafens_the_peer(self, stage: Stage) -> None:
        peer = stage.hub.peer(replies={"": "ok"})
        client = Client(peer)
        stage.until(lambda: peer.open() == 1)
        peer.deaf()
        assert client.send(b"x\n").take(3) == b"ok\n"
        peer.drop()
        assert client.take(1) == b""
        with pytest.raises(ConnectionRefusedError):
            Client(peer)
        peer.deaf()
        client.close()

    def test_an_order_to_a_peer_that_was_killed_is_an_error_that_says_so(self, stage: Stage) -> None:
        peer = stage.hub.peer("db")
        (pid,) = peer.pids
        os.kill(pid, signal.SIGKILL)
        await_end(pid)
        with pytest.raises(UsageError, match=r"'db': it ended before .* a zombie"):
            peer.reset()


class TestProcess:
    def test_it_is_started_through_no_door_that_a_trial_watches(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_args: object, **_options: object) -> int:
            raise AssertionError("the target's door was used")

        for door in ("fork", "posix_spawn", "posix_spawnp", "waitpid"):
            monkeypatch.setattr(os, door, refuse)
        monkeypatch.setattr(subprocess, "Popen", refuse)
        peer = stage.hub.peer("db")
        assert stage.hub.own == set(peer.pids)
        assert stage.hub.pids == dict.fromkeys(peer.pids, "db")
        assert stage.hub.ports() == {peer.port}
        stage.hub.close()
        assert [state(pid) for pid in peer.pids] == [""]

    def test_it_leads_a_session_of_its_own_and_holds_none_of_our_descriptors(self, stage: Stage) -> None:
        read, write = os.pipe()
        os.set_inheritable(write, True)
        (pid,) = stage.hub.peer().pids
        os.close(write)
        os.set_blocking(read, False)
        assert os.read(read, 1) == b"", "the peer keeps a pipe of ours open"
        os.close(read)
        assert os.getsid(pid) == pid

    def test_it_ends_by_itself_when_the_trial_dies(self, tmp_path: Path) -> None:
        program = """
            import os, signal, sys
            from stormdrain.worker.props.hub import Hub
            hub = Hub(sys.argv[1], virtual=True, now=float, record=lambda what, detail: None)
            print(*hub.peer().pids, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        trial = run_python(sys.executable, program, str(tmp_path))
        assert trial.returncode == -signal.SIGKILL, trial.stderr
        await_end(int(trial.stdout))

    @pytest.mark.parametrize(
        ("interpreter", "said"),
        [
            ("/no/such/python", "does not start"),
            ("/bin/false", "it ended before it listens .*was ever started"),
        ],
    )
    def test_one_that_cannot_come_up_is_told_in_words(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch, interpreter: str, said: str
    ) -> None:
        monkeypatch.setattr(sys, "_base_executable", interpreter)
        with pytest.raises(UsageError, match=said):
            stage.hub.peer()

    def test_an_asyncio_client_in_the_same_thread_is_served_while_it_waits(self, stage: Stage) -> None:
        peer = stage.hub.peer(speaks="redis")

        async def talk() -> bytes:
            reader, writer = await asyncio.open_connection(peer.host, peer.port)
            writer.write(b"PING\r\n")
            line = await asyncio.wait_for(reader.readline(), PATIENCE)
            writer.close()
            await writer.wait_closed()
            return line

        assert asyncio.run(talk()) == b"+PONG\r\n"
        stage.until(lambda: peer.open() == 0)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"speaks": "smtp"}, "'smtp' is none of: lines, resp, redis, http"),
        ({"closes": "never"}, "none of: accept, request, mid-reply, reply"),
        ({"resets": True}, "True is none of"),
        ({"closes": "reply", "resets": "reply"}, "either closed or reset"),
        ({"reply_after": -1}, "no delay"),
        ({"silent": "yes"}, "neither True nor False"),
        ({"on_eof": "exit"}, "none of: close, stay"),
        ({"replies": [1]}, "no pair"),
        ({"reply_afer": 1}, "a script has no 'reply_afer'"),
        ({"sigterm": "ignore"}, "a script has no 'sigterm'"),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_before_anything_is_started(stage: Stage, script: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        stage.hub.peer("db", **script)
    assert "case.peer('db')" in caught.value.where
    assert stage.hub.own == set()


def all_requests(speaks: str, pieces: list[bytes]) -> tuple[list[bytes], bytes]:
    """What the peer makes of a stream that comes in pieces: requests, and what is left."""
    unread, out = b"", []
    for piece in pieces:
        unread += piece
        while True:
            request, used = TAKE[speaks](unread)
            assert 0 <= used <= len(unread)
            unread = unread[used:]
            if request is None:
                break
            assert used > 0
            assert isinstance(request, Request)
            out.append(request.whole)
    return out, unread


words = st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=4)
RESP_TOKENS = [b"*2\r\n", b"$3\r\n", b"GET\r\n", b"*-1\r\n", b"$", b"\r\n", b"\n", b"*99", b"x"]
HTTP_TOKENS = [
    *(b"POST / HTTP/1.1\r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"0\r\n\r\n", b"\0\xff", b"GET a b\r\n\r\n"),
]
tokens = st.sampled_from(RESP_TOKENS + HTTP_TOKENS)


class TestCuttingRequests:
    @law
    @given(st.sampled_from(["lines", "resp", "http"]), st.lists(tokens, max_size=12), st.data())
    def test_it_does_not_matter_how_a_stream_is_cut(
        self, speaks: str, stream: list[bytes], data: st.DataObject
    ) -> None:
        whole = b"".join(stream)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
        pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        at_once, left = all_requests(speaks, [whole])
        in_pieces, left_of_pieces = all_requests(speaks, pieces)
        assert in_pieces == at_once
        assert left_of_pieces.lstrip(b"\r\n") == left.lstrip(b"\r\n")

    @law
    @given(st.lists(words, max_size=4))
    def test_every_encoded_command_comes_out_as_its_words(self, commands: list[list[bytes]]) -> None:
        stream = b"".join(
            b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in command)
            for command in commands
        )
        found, left = all_requests("resp", [stream])
        assert found == [b" ".join(command) for command in commands]
        assert left == b""

    @law
    @given(st.sampled_from(["lines", "resp", "http"]), st.lists(st.binary(max_size=80), max_size=5))
    def test_no_bytes_break_it(self, speaks: str, pieces: list[bytes]) -> None:
        all_requests(speaks, pieces)


SCENARIO = """
    import json, socket, sys
    from stormdrain.worker.props.hub import Hub

    events = []
    hub = Hub(sys.argv[1], virtual=True, now=lambda: 5.0, record=lambda *event: events.append(event))
    peer = hub.peer("db", speaks="redis", reply_after=3)
    client = socket.create_connection((peer.host, peer.port), 10)
    client.sendall(b"PING\\r\\n")
    assert hub.wait(lambda: hub.next_timer() is not None, 10)
    timer = hub.next_timer()
    hub.fire(timer)
    reply = client.recv(100).decode()
    assert hub.wait(lambda: not hub.busy(), 10)
    peer.reset()
    try:
        fate = client.recv(1).decode()
    except ConnectionResetError:
        fate = "reset"
    client.close()
    hub.close()
    print(json.dumps([timer, reply, fate, events]))
"""


@pytest.mark.parametrize("python", available_interpreters(), ids=lambda found: found.version)
def test_it_is_the_same_on_every_interpreter(python: object, tmp_path: Path) -> None:
    run = run_python(python.path, SCENARIO, str(tmp_path))  # type: ignore[attr-defined]
    assert run.returncode == 0, run.stderr
    timer, reply, fate, events = json.loads(run.stdout)
    assert (timer, reply, fate) == (8.0, "+PONG\r\n", "reset")
    assert [what for what, _ in events] == ["peer db"] * 9
    assert [detail for _, detail in events] == [
        "started",
        "ready",
        "connection 1 opens",
        "connection 1 asks PING",
        "waits 3 s (pause)",
        "goes on (pause)",
        "connection 1 is answered",
        "is told: reset",
        "connection 1 reset",
    ]
