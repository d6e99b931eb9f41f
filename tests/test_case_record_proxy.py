"""A real system: a recording proxy that must end on a signal, three designs of it and one weak line, cell by cell.

Everything is in real time, with real processes; what is asserted does not depend on
how loaded the machine is: exit codes, fates, files, and where a hang waits. Each cell is
played three times.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from stormdrain.lab import read_script
from stormdrain.model import Cell, Observation, Trial, from_json, to_json
from stormdrain.revisions import Cache, available_interpreters, find_interpreters, prepare, resolve
from stormdrain.workers import Worker

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "probes" / "mcp_cassette"
RELEASE = "pypi:mcp-cassette==0.3.3"
PYTHONS = os.environ.get("STORMDRAIN_TEST_PYTHONS", "3.12").split()
TIMES = 3

SIGTERM = "signal/f:signal=SIGTERM!idle"
SIGINT = "signal/f:signal=SIGINT!idle"
THEN_EOF = "signal-stdin(after)/f:signal=SIGTERM!idle/f:close-stdin!quiet"
MANY = "signal-repeat(many)/f:signal=SIGTERM!idle/f:signal=SIGTERM*19"


@functools.cache
def played(python: str, design: str, server: str, schedules: tuple[str, ...], times: int) -> tuple[Trial, ...]:
    """The trials of these schedules, each as often as it says."""
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    if python in ("3.10", "3.11"):
        pytest.skip("the package needs 3.12")
    script = read_script(FOLDER / "record.py")
    cache = Cache()
    spec = RELEASE if design == "release" else f"{RELEASE}+{FOLDER / design}.toml"
    revision = resolve(spec, project=ROOT, cache=cache)
    environment = prepare(revision, find_interpreters([python])[0], requires=script.requires, cache=cache)
    trials: list[Trial] = []
    with Worker(environment.python, environment.path) as worker:
        request = {
            "do": "campaign",
            "file": str(script.path),
            "probe": f"record[{server}]",
            "roots": list(environment.path),
            "cell": to_json(Cell("00000000", f"record[{server}]", design, python, "service")),
            "schedules": schedules * times,
            "canaries": False,
        }
        for kind, body in worker.ask(request):
            if kind == "trial":
                trials.append(from_json(Trial, body))
            else:
                assert not body.get("error"), body["error"]
    return tuple(trial for trial in trials if trial.phase == "storm")


def of(trials: tuple[Trial, ...], schedule: str) -> list[Trial]:
    found = [trial for trial in trials if trial.token.partition("/")[2] == schedule]
    assert found
    return found


@dataclass(frozen=True)
class Row:
    """How the proxy ends (None: it hangs), what becomes of the server, whether the cassette is whole."""

    exit: int | None
    server: str
    cassette: bool = True
    signalled: bool | None = None
    """Whether the server was told to go; None where it cannot tell."""

    def check(self, observation: Observation) -> None:
        got = Row(
            observation.exit_status,
            fate(observation),
            observation.artefacts.kind == "returned",
            None if self.signalled is None else any("got SIGTERM" in event.detail for event in observation.timeline),
        )
        assert got == self, [f"{event.at} {event.what} {event.detail}" for event in observation.timeline]


def fate(observation: Observation) -> str:
    """`gone` where nothing of the server is left when the proxy has gone, and `alive` where it is."""
    (server,) = (fact for fact in observation.processes if fact.name == "server")
    return "gone" if server.state in ("gone", "zombie") else "alive"


HANGS = Row(None, "alive", cassette=False)
LEFT = Row(130, "alive")
GONE = Row(130, "gone")
KILLED = Row(-15, "alive", cassette=False)
TABLE: dict[tuple[str, str], dict[str, Row]] = {
    (SIGTERM, "leaves"): {"h1": HANGS, "h2": HANGS, "m1": GONE, "release": GONE},
    (SIGTERM, "stays"): {"h1": HANGS, "h2": HANGS, "m1": LEFT, "release": GONE},
    (SIGTERM, "ignores"): {"h1": HANGS, "h2": HANGS, "m1": LEFT, "release": LEFT},
    (SIGTERM, "records"): {
        "h1": Row(None, "alive", cassette=False, signalled=False),
        "h2": Row(None, "alive", cassette=False, signalled=False),
        "m1": Row(130, "gone", signalled=False),
        "release": Row(130, "gone", signalled=True),
    },
    (SIGINT, "stays"): {"h1": HANGS, "h2": HANGS, "m1": LEFT, "release": GONE},
    (THEN_EOF, "leaves"): {"h1": Row(0, "gone"), "h2": GONE, "m1": GONE, "release": GONE},
    (THEN_EOF, "stays"): {"h1": Row(None, "alive", cassette=False), "h2": GONE, "m1": LEFT, "release": GONE},
    (MANY, "stays"): {"h1": KILLED, "h2": KILLED, "m1": LEFT, "release": GONE},
}
DESIGNS = ("h1", "h2", "m1", "release")
CELLS = [(schedule, server, design) for (schedule, server), row in TABLE.items() for design in row]
NAMES = {SIGTERM: "SIGTERM", SIGINT: "SIGINT", THEN_EOF: "SIGTERM then EOF", MANY: "20 SIGTERMs"}

pytestmark = [pytest.mark.parametrize("python", PYTHONS), pytest.mark.xdist_group("record-proxy")]


def cell(python: str, schedule: str, server: str, design: str) -> list[Observation]:
    """What was seen in a cell of the table, three times."""
    mine = tuple(one for one, other in TABLE if other == server)
    trials = of(played(python, design, server, mine, TIMES), schedule)
    seen = [trial.observation for trial in trials if trial.observation is not None]
    assert len(seen) == TIMES, [trial.error for trial in trials]
    return seen


@pytest.mark.parametrize("design", DESIGNS)
def test_the_wrong_exit_code_shows_once_stdin_is_closed(python: str, design: str) -> None:
    """One row of the table, since it is quick: nothing hangs in it."""
    row = TABLE[THEN_EOF, "leaves"][design]
    for trial in played(python, design, "leaves", (THEN_EOF,), 1):
        assert trial.observation is not None, trial.error
        row.check(trial.observation)
        expected = {"exit-code"} if design == "h1" else set()
        assert {finding.expectation for finding in trial.findings} == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("schedule", "server", "design"),
    CELLS,
    ids=[f"{NAMES[schedule]}-{server}-{design}" for schedule, server, design in CELLS],
)
def test_a_signal_comes_out_as_measured_three_times_of_three(
    python: str, schedule: str, server: str, design: str
) -> None:
    for observation in cell(python, schedule, server, design):
        TABLE[schedule, server][design].check(observation)


@pytest.mark.long
@pytest.mark.parametrize("design", ["h1", "h2"])
def test_the_hang_says_that_the_task_group_waits_for_a_thread_that_reads_stdin(python: str, design: str) -> None:
    mine = tuple(schedule for schedule, server in TABLE if server == "stays")
    for trial in of(played(python, design, "stays", mine, TIMES), SIGTERM):
        finding = next(finding for finding in trial.findings if finding.expectation == "returns")
        assert "its task group waits at mcp_cassette/record/proxy.py:" in finding.message
        assert "in StdioRecordingProxy._arun for StdioRecordingProxy._client_to_server at" in finding.message
        assert "which waits for a worker thread" in finding.message
        assert "AnyIO worker thread is in read(0, its stdin)" in finding.message
        assert "a second SIGTERM ends it, with killed by SIGTERM" in finding.message
        assert finding.site is not None
        assert finding.site.function == "StdioRecordingProxy._arun"
        assert finding.site.target


@pytest.mark.long
def test_a_server_that_ignores_sigterm_is_left_alive_by_the_release(python: str) -> None:
    for trial in of(played(python, "release", "ignores", (SIGTERM,), TIMES), SIGTERM):
        assert [finding.expectation for finding in trial.findings] == ["nothing-left"]
        assert "server.exe" in trial.findings[0].message
