"""How a service shows that it is ready, what its client does meanwhile, and what is said where that goes wrong."""

from __future__ import annotations

import socket

import pytest

from conftest import Stager
from stormdrain.errors import UsageError

HEAD = """
import os, socket, sys
from stormdrain import ready_child, ready_file, ready_line, ready_port, ready_reply, ready_when, service

START = '''
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
'''

def python(case, program, *words, **options):
    return case.spawn([sys.executable, "-ISE", "-c", START + program, *words], **options)
"""
ONE = "signal/f:signal=SIGTERM!idle"

READY = {
    "a line on stderr": """
    return python(case, "os.write(1, b'up but'); os.write(2, b'now serving\\\\n'); signal.pause()",
                  ready=ready_line("serving", stream="stderr"))""",
    "a reply to a line": """
    return python(case, "line = sys.stdin.readline(); print('re: ' + line, flush=True); signal.pause()",
                  ready=ready_reply("hello", "re: hello"))""",
    "a port": """
    port = case.port()
    return python(case, f"one = socket.create_server(('127.0.0.1', {port})); signal.pause()", ready=ready_port(port))""",
    "a reply on a port": '''
    port = case.port()
    program = f"""
one = socket.create_server(('127.0.0.1', {port}))
while True:
    peer, _ = one.accept()
    peer.sendall(b'pong ' + peer.recv(100)); peer.close()
"""
    return python(case, program, ready=ready_reply("ping", "pong ping", port=port))''',
    "a file": """
    return python(case, "open('pid', 'w').close(); signal.pause()", ready=ready_file("pid"))""",
    "a scripted child that is up": """
    child = case.child("tool", on_eof="exit")
    program = "import subprocess; one = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE); signal.pause()"
    return python(case, program, child.path, ready=ready_child(child))""",
    "several, one after the other": """
    program = "open('pid', 'w').close(); print('up', flush=True); signal.pause()"
    return python(case, program, ready=[ready_file("pid"), ready_line("up")])""",
}


@pytest.mark.parametrize("kind", READY)
def test_a_service_is_ready_when_it_does_what_its_probe_waits_for(campaign: Stager, kind: str) -> None:
    source = f"{HEAD}\n@service(inject=False)\ndef program(case):{READY[kind]}\n"
    played = campaign(source, schedules=[ONE])
    assert not played.cell.error, played.cell.error
    trial = played.trials[-1]
    assert trial.observation is not None
    assert (trial.observation.exit_status, trial.observation.delivered) == (0, 1)
    assert "ready" in trial.observation.moments


def program(body: str, terms: str = "") -> str:
    return f"{HEAD}\n@service(inject=False{terms})\ndef program(case):\n    {body}\n"


BAD = {
    "never ready": (
        program(
            """return python(case, "print('listening on nothing', flush=True); signal.pause()", ready=ready_line("never"))"""
        ),
        "a line with 'never' did not come; it printed: listening on nothing",
        4,
    ),
    "no such command": (
        program("""return case.spawn(["no-such-server", "--port", "1"], ready=ready_line("up"))"""),
        "The command 'no-such-server' cannot be started: it does not exist.",
        2,
    ),
    "no such folder": (
        program("""return case.spawn([sys.executable], ready=ready_line("up"), cwd="/no/such/folder")"""),
        "The service cannot start where it should. (/no/such/folder)",
        2,
    ),
    "leaves at once": (
        program("""return python(case, "print('no configuration'); sys.exit(3)", ready=ready_line("up"))"""),
        "the service ended before any signal, with exit code 3; it printed: no configuration",
        4,
    ),
    "leaves before the signal": (
        program("""return python(case, "print('up', flush=True); sys.exit(5)", ready=ready_line("up"))"""),
        "the service ended before any signal, with exit code 5; it printed: up",
        4,
    ),
    "runs as a daemon": (
        program(
            """return python(case, "os.fork() or signal.pause(); print('up', flush=True)", ready=ready_line("no"))"""
        ),
        "let it run in the foreground",
        4,
    ),
    "its client fails": (
        program("""
    def client(service):
        service.line("an answer", timeout=0.2)
    return python(case, "print('up', flush=True); signal.pause()", ready=ready_line("up"), client=client)"""),
        "the client failed: TimeoutError: the service did not print 'an answer' within 0.2 s",
        4,
    ),
    "gives no command": (
        program("return 7"),
        "a service probe gives what case.spawn(...) returns, and this gave int",
        4,
    ),
    "gives a shell line": (
        program("""return case.spawn("sleep 5", ready=ready_line("up"))"""),
        "'sleep 5' is no command.",
        4,
    ),
    "does not say when it is ready": (
        program("""return case.spawn(["sleep", "5"], ready=[])"""),
        "A service needs to say when it is ready.",
        4,
    ),
    "asks a closed stdin": (
        program("""return case.spawn(["cat"], ready=ready_reply("a", "a"), stdin="closed")"""),
        "A request cannot be sent to a closed stdin.",
        4,
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "never ready"])
def test_what_is_wrong_with_a_service_is_told_in_words(campaign: Stager, kind: str) -> None:
    source, words, code = BAD[kind]
    played = campaign(source)
    assert words in played.cell.error
    assert (played.cell.verdict.value, played.cell.exit_code) == ("ERROR", code)
    assert played.cell.error_todo


@pytest.mark.long
def test_what_a_service_printed_is_shown_where_it_is_never_ready(campaign: Stager) -> None:
    source, words, code = BAD["never ready"]
    played = campaign(source)
    assert words in played.cell.error
    assert played.cell.exit_code == code


def test_a_port_that_is_taken_is_told_before_anything_is_started(campaign: Stager) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        played = campaign(program(f"return case.spawn(['cat'], ready=ready_port({port}))"))
    assert f"Port {port} is taken" in played.cell.error
    assert played.cell.exit_code == 2
    assert "case.port()" in played.cell.error_todo


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (', exits={"SIGTREM": 0}', "'SIGTREM' is no signal."),
        (', storms="signal"', "storms is a text."),
        (', storms=["signals"]', "There is no storm 'signals'."),
    ],
    ids=["no such signal", "a text for a list", "no such storm"],
)
def test_a_wrong_term_is_told_when_the_script_is_loaded(campaign: Stager, terms: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        campaign.specs(program("return None", terms))


CLIENTS = f"""{HEAD}
ECHO = '''
import threading
one = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
def serve(peer):
    while data := peer.recv(100):
        print("asked", flush=True)
        if b"slow" in data: threading.Event().wait(0.2)
        peer.sendall(data)
while True:
    threading.Thread(target=serve, args=(one.accept()[0],), daemon=True).start()
'''

@service(exits={{"SIGTERM": 0}}, inject=False)
def echo(case):
    port = case.port()

    def client(service):
        stream, second = service.connect(), service.connect()
        stream.sendall(b"quick")
        assert stream.recv(100) == b"quick"
        service.line("asked")
        second.sendall(b"slow")
        service.line("asked")
        service.in_flight("slow-request")
        assert second.recv(100) == b"slow"

    return python(case, ECHO, str(port), ready=[ready_line("up"), ready_port(port)], client=client)
"""


def test_a_signal_lands_while_the_request_that_the_client_names_is_in_flight(campaign: Stager) -> None:
    played = campaign(CLIENTS, storms=["signal", "signal-while"])
    assert not played.cell.error, played.cell.error
    idle = next(trial for trial in played.trials if trial.token.endswith(ONE)).observation
    (flight,) = (trial.observation for trial in played.of("signal-while") if trial.phase == "storm")
    assert idle is not None
    assert flight is not None
    assert (idle.body.kind, flight.body.kind) == ("returned", "raised"), "only in flight the client loses its answer"
    assert (idle.exit_status, flight.exit_status) == (0, 0)
    assert "idle" not in flight.moments
    assert any("the client saw" in note for note in flight.notes)
