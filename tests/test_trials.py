"""What one trial is worth: its clock, its holds, its honesty about what was and was not reached."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator

import pytest

from conftest import Played, Stager
from stormdrain.model import Observation, Trial, Verdict

ONCE = "cancel-storm(once)/f:cancel+0.02s"
EVERY = "cancel-storm/f:cancel~0.02s"
START = "cancel-before-start/f:cancel@start"
TIMEOUT = "timeout/w:wait_for=0.05"

PRELUDE = """
import asyncio, os, signal, sys, threading, time
from stormdrain import probe

class Closing:
    def __init__(self, process):
        self.process = process
"""


def seen(trial: Trial) -> Observation:
    assert trial.observation is not None, trial.error
    return trial.observation


def how(trial: Trial) -> tuple[object, ...]:
    """What must not depend on the clock: how it ended, the fate of processes, what did not hold."""
    found = seen(trial)
    error = found.outcome.error
    return (
        trial.verdict,
        found.outcome.kind,
        error.type if error else "",
        [(process.state, process.returncode) for process in found.processes],
        sorted(finding.expectation for finding in trial.findings),
        found.counts,
    )


def by_token(played: Played) -> dict[str, Trial]:
    return {trial.token: trial for trial in played.trials if trial.phase == "storm"}


# -- both clocks -----------------------------------------------------------------

CLOSING = (
    PRELUDE
    + """
PATIENCE = float(os.environ.get("PATIENCE", "0.15"))

class Plain(Closing):
    async def close(self):
        if self.process.returncode is None:
            self.process.stdin.close()
            await self.escalate()

    async def escalate(self):
        for step in (self.process.terminate, self.process.kill):
            try:
                return await asyncio.wait_for(self.process.wait(), PATIENCE)
            except asyncio.TimeoutError:
                step()
        await self.process.wait()

class Shielded(Plain):
    task = None

    async def close(self):
        if self.process.returncode is None and self.task is None:
            self.process.stdin.close()
            self.task = asyncio.ensure_future(self.escalate())
        cancelled = None
        while self.task and not self.task.done():
            try:
                await asyncio.wait([self.task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled

class Swallowing(Shielded):
    async def close(self):
        try:
            await super().close()
        except asyncio.CancelledError:
            pass

KINDS = {f"{kind.__name__}-{sigterm}": (kind, sigterm)
         for kind in (Plain, Shielded, Swallowing) for sigterm in ("default", "ignore")}

@probe(operation="close", count=["escalate"], parametrize=KINDS)
async def closing(case):
    kind, sigterm = case.param
    tool = case.child("tool", sigterm=sigterm)
    process = await asyncio.create_subprocess_exec(tool.path, stdin=asyncio.subprocess.PIPE)
    await tool.ready()
    yield kind(process)
"""
)
BOTH = (ONCE, EVERY, TIMEOUT, "cancel-sweep/f:cancel@1", "cancel-sweep/f:cancel@3")


@pytest.mark.parametrize("kind", ["Plain", "Shielded", "Swallowing"])
@pytest.mark.parametrize("sigterm", ["default", "ignore"])
def test_virtual_and_real_time_give_the_same_verdicts(campaign: Stager, kind: str, sigterm: str) -> None:
    name = f"closing[{kind}-{sigterm}]"
    virtual = by_token(campaign(CLOSING, name, schedules=BOTH, jobs=3))
    real = by_token(campaign(CLOSING, name, schedules=BOTH, clock="real", jobs=6))
    assert {token: how(trial) for token, trial in virtual.items()} == {
        token: how(trial) for token, trial in real.items()
    }
    assert {seen(trial).clock for trial in virtual.values()} == {"virtual"}
    assert {seen(trial).clock for trial in real.values()} == {"real"}
    assert any(trial.verdict is Verdict.FAIL for trial in virtual.values()) == (kind != "Shielded")


@pytest.fixture(scope="module")
def patient(campaign: Stager) -> dict[str, Trial]:
    """A close() that gives its child 5 s twice, against one that ignores SIGTERM, in virtual time."""
    source = CLOSING.replace('"0.15"', '"5"')
    played = campaign(source, "closing[Shielded-ignore]", schedules=(*BOTH, START, "calm"))
    return {trial.token.partition("/")[2]: trial for trial in played.trials if trial.phase == "storm"}


@pytest.mark.parametrize("schedule", ["calm", ONCE, EVERY, TIMEOUT, "cancel-sweep/f:cancel@1"])
def test_durations_in_virtual_time_are_exact(patient: dict[str, Trial], schedule: str) -> None:
    found = seen(patient[schedule])
    assert found.elapsed == 10.0
    assert [(process.state, process.returncode) for process in found.processes] == [("gone", -9)]


def test_the_moments_on_a_timeline_are_exact(patient: dict[str, Trial]) -> None:
    found = seen(patient[ONCE])
    moments = {event.what: event.at for event in found.timeline}
    assert moments["fault cancel"] == 0.02
    assert moments["operation ends"] == 10.0
    assert [round(event.at, 2) for event in found.timeline if event.what == "process reaped"] == [10.0]


def test_an_operation_that_is_cancelled_before_its_first_step_never_ran(patient: dict[str, Trial]) -> None:
    trial = patient[START]
    assert seen(trial).outcome.kind == "never-entered"
    assert trial.findings == ()
    assert {"child-reaped", "returns", "cancellation-delivered"} <= {note.expectation for note in trial.na}


def test_a_schedule_that_is_replayed_has_the_same_timeline(campaign: Stager) -> None:
    source = CLOSING.replace('"0.15"', '"5"')
    schedules = ["cancel-sweep/f:cancel@4"] * 3
    played = campaign(source, "closing[Shielded-ignore]", schedules=schedules, jobs=1)
    lines = [
        [(event.at, event.what, re.sub(r"\d+", "N", event.detail)) for event in seen(trial).timeline]
        for trial in played.trials
        if trial.phase == "storm"
    ]
    assert len(lines) == 3
    assert lines[0] == lines[1] == lines[2]


# -- what holds the clock --------------------------------------------------------


def held(trial: Trial) -> str:
    """The reasons for which the clock was held."""
    return "; ".join(why for why in seen(trial).holds if why != "on its way")


SLOW_CHILD = (
    PRELUDE
    + """
PROGRAM = '''
import signal, sys, time
def slowly(number, frame):
    time.sleep(0.3)
    sys.exit(7)
signal.signal(signal.SIGTERM, slowly)
print("ready", flush=True)
while True:
    signal.pause()
'''

class Slow(Closing):
    async def close(self):
        task = asyncio.ensure_future(self.end())
        cancelled = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled:
            raise cancelled

    async def end(self):
        if self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), 5)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()

@probe(operation="close", parametrize={
    "python": [sys.executable, "-c", PROGRAM],
    "sh": ["sh", "-c", "trap 'sleep 0.3; exit 7' TERM; echo ready; while :; do sleep 0.05; done"],
})
async def slow(case):
    process = await asyncio.create_subprocess_exec(*case.param, stdout=asyncio.subprocess.PIPE)
    await process.stdout.readline()
    yield Slow(process)
"""
)


@pytest.mark.parametrize("child", ["python", "sh"])
def test_a_child_that_needs_a_while_after_sigterm_holds_the_clock(campaign: Stager, child: str) -> None:
    played = campaign(SLOW_CHILD, f"slow[{child}]", schedules=[ONCE, EVERY, "calm"])
    assert played.flagged == set(), played.told()
    for trial in played.trials:
        assert seen(trial).processes[0].returncode == 7, played.told()
        assert 0.1 < seen(trial).elapsed < 5
        assert "neither scripted nor inert" in held(trial)


THREAD = (
    PRELUDE
    + """
class Threaded:
    async def close(self):
        job = asyncio.ensure_future(asyncio.to_thread(self.work))
        cancelled = None
        while not job.done():
            try:
                await asyncio.wait_for(asyncio.shield(job), 5)
            except asyncio.CancelledError as error:
                cancelled = error
        assert job.result() == "flushed"
        if cancelled:
            raise cancelled

    def work(self):
        time.sleep(0.3)
        return "flushed"

@probe(operation="close")
async def threaded(case):
    yield Threaded()
"""
)


def test_a_job_in_a_worker_thread_holds_the_clock(campaign: Stager) -> None:
    played = campaign(THREAD, schedules=[ONCE, EVERY, "calm"])
    assert played.flagged == set(), played.told()
    for trial in played.trials:
        assert 0.1 < seen(trial).elapsed < 5, played.told()
        assert "a thread is at work" in held(trial)


@pytest.fixture(scope="module")
def slow_server() -> Iterator[int]:
    """A server of the test process that answers each line after 0.3 s; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream:
            for line in stream:
                stop.wait(0.3)
                stream.write(b"goodbye, " + line)
                stream.flush()

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    stop.set()
    thread.join(10)


CLIENT = (
    PRELUDE
    + """
class Client:
    async def close(self):
        if self.writer.is_closing():
            return
        try:
            self.writer.write(b"quit\\n")
            answer = await asyncio.wait_for(self.reader.readline(), 5)
            assert answer == b"goodbye, quit\\n"
        finally:
            self.writer.close()

@probe(operation="close")
async def client(case):
    made = Client()
    made.reader, made.writer = await asyncio.open_connection("127.0.0.1", {port})
    yield made
    await made.writer.wait_closed()
"""
)


def test_a_socket_that_leads_out_of_the_trial_holds_the_clock(campaign: Stager, slow_server: int) -> None:
    played = campaign(CLIENT.replace("{port}", str(slow_server)), schedules=[ONCE, "calm"])
    assert played.flagged == set(), played.told()
    for trial in played.trials:
        if trial.storm == "calm":
            assert 0.1 < seen(trial).elapsed < 5, played.told()
            assert "a socket leads out of the trial (to 127.0.0.1 port" in held(trial)


INERT = (
    PRELUDE
    + """
class Idle(Closing):
    async def close(self):
        try:
            await asyncio.wait_for(self.process.wait(), 50)
        except asyncio.TimeoutError:
            self.process.kill()
            await self.process.wait()

@probe(operation="close")
async def idle(case):
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    case.inert(process.pid)
    yield Idle(process)
"""
)


def test_a_child_that_the_probe_declares_inert_does_not_hold_the_clock(campaign: Stager) -> None:
    played = campaign(INERT, schedules=["calm"])
    assert seen(played.calm).elapsed == 50.0
    assert "inert" not in held(played.calm)


BUSY = (
    PRELUDE
    + """
class Waiting(Closing):
    async def close(self):
        for _ in range(80):  # of these waits none may cost a second of standing still
            await asyncio.sleep(0.005)
        self.process.kill()
        await self.process.wait()

@probe(operation="close")
async def beside_a_busy_child(case):
    yield Waiting(await asyncio.create_subprocess_exec("sh", "-c", "while :; do sleep 0.001; done"))
"""
)


def test_beside_a_child_that_is_always_busy_the_clock_goes_on(campaign: Stager) -> None:
    played = campaign(BUSY, schedules=["calm"], jobs=1)
    assert played.flagged == set(), played.told()
    assert seen(played.calm).outcome.kind == "returned", played.told()
    assert "neither scripted nor inert" in held(played.calm)


# -- which clock -------------------------------------------------------------------

DIFFERS = (
    PRELUDE
    + """
class Impatient:
    async def close(self):
        began = time.time()
        await asyncio.sleep(0.2)
        if time.time() - began < 0.1:
            raise RuntimeError("time flies")

@probe(operation="close")
async def impatient(case):
    yield Impatient()
"""
)


def test_where_calm_differs_between_the_clocks_real_time_is_used_and_why_is_said(campaign: Stager) -> None:
    played = campaign(DIFFERS, storms=["cancel-storm"])
    assert played.cell.cell.clock == "real"
    assert "calm differs between virtual and real time" in played.cell.cell.clock_why
    assert "raised RuntimeError and returned" in played.cell.cell.clock_why
    assert {seen(trial).clock for trial in played.trials} == {"real"}
    assert played.cell.verdict is Verdict.PASS, played.told()


ONLY_VIRTUAL = (
    PRELUDE
    + """
class Hasty:
    async def run(self):
        began = time.time()
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
            if time.time() - began > 0.2:
                raise

class Swallowing:
    async def run(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            pass

@probe(operation="run", parametrize={"hasty": Hasty, "swallowing": Swallowing})
async def runs(case):
    yield case.param()
"""
)


def test_a_finding_that_real_time_does_not_show_is_unresolved(campaign: Stager) -> None:
    played = campaign(ONLY_VIRTUAL, "runs[hasty]", storms=["cancel-storm"], confirm=True)
    assert played.cell.verdict is Verdict.UNRESOLVED, played.told()
    assert {(finding.failed, finding.runs) for finding in played.cell.findings} == {(0, 3)}


def test_a_finding_is_confirmed_in_real_time_and_says_how_often(campaign: Stager) -> None:
    storms = ["cancel-storm", "cancel-before-start"]
    played = campaign(ONLY_VIRTUAL, "runs[swallowing]", storms=storms, confirm=True)
    assert played.cell.verdict is Verdict.FAIL
    assert {(finding.failed, finding.runs) for finding in played.cell.findings} == {(3, 3)}
    heirs = [finding for finding in played.cell.findings if finding.inherits]
    assert heirs
    assert {finding.inherits for finding in heirs} < {finding.token for finding in played.cell.findings}
    assert {seen(trial).clock for trial in played.trials if trial.phase == "confirm"} == {"real"}


# -- honesty -----------------------------------------------------------------------

HONEST = (
    PRELUDE
    + """
class Subject:
    async def short(self):
        await asyncio.sleep(0.01)

    async def waits(self):
        await asyncio.sleep(0.1)
        await asyncio.get_running_loop().create_future()

    async def blocks(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            threading.Event().wait()

    async def dies(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            os._exit(9)

    async def forks(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            pid = os.fork()
            if pid == 0:
                os._exit(3)
            os.waitpid(pid, 0)
            raise

def make(name):
    @probe(operation=name)
    async def subject(case):
        yield Subject()
    subject.__name__ = name
    return subject

probes = {name: make(name) for name in ("short", "waits", "blocks", "dies", "forks")}
globals().update(probes)
"""
)


def test_a_fault_whose_moment_never_came_is_not_reached_and_no_pass(campaign: Stager) -> None:
    sweep = ["cancel-sweep/f:cancel@99", "cancel-sweep/f:cancel@1"]
    played = campaign(HONEST, "short", schedules=[ONCE, EVERY, *sweep])
    reached = {trial.token.partition("/")[2]: (trial.verdict, trial.reached) for trial in played.trials}
    assert reached.pop("calm") == (Verdict.PASS, True)
    assert reached.pop("cancel-sweep/f:cancel@1") == (Verdict.PASS, True)
    assert set(reached.values()) == {(Verdict.NA, False)}
    tally = {storm.storm: storm for storm in played.cell.storms}
    assert tally["cancel-storm"].verdict is Verdict.NA
    assert tally["cancel-storm"].not_reached == 2


def test_an_operation_that_nothing_can_wake_is_a_deadlock_and_said_at_once(campaign: Stager) -> None:
    played = campaign(HONEST, "waits", schedules=["calm"])
    found = seen(played.calm)
    assert found.outcome.kind == "deadlock"
    assert found.elapsed == 0.1
    assert found.hang is not None
    assert "in Subject.waits" in found.hang.tasks[0]
    assert "nothing is left that could wake it" in played.findings[0].message
    assert played.findings[0].site is not None
    assert "create_future()" in line(played.findings[0].site.line)


def test_an_operation_that_blocks_its_thread_is_a_finding_at_the_line_that_blocks(campaign: Stager) -> None:
    played = campaign(HONEST, "blocks", schedules=["cancel-sweep/f:cancel@1", ONCE])
    assert played.flagged == {"returns"}, played.told()
    assert len(played.findings) == 2
    for finding in played.findings:
        assert "blocks its thread" in finding.message
        assert finding.site is not None
        assert finding.site.function == "blocks"
        assert "threading.Event().wait()" in line(finding.site.line)


@pytest.mark.parametrize("schedule", [ONCE, "cancel-sweep/f:cancel@1", "cancel-sweep/f:cancel@2"])
def test_a_process_that_dies_is_a_finding_at_the_line_of_suspension(campaign: Stager, schedule: str) -> None:
    played = campaign(HONEST, "dies", schedules=[schedule])
    assert [finding.expectation for finding in played.findings] == ["returns"], played.told()
    assert "left with status 9" in played.findings[0].message
    assert played.findings[0].site is not None
    assert "dies" in played.findings[0].site.function


def test_a_fork_of_the_target_is_its_child_and_not_the_trial(campaign: Stager) -> None:
    played = campaign(HONEST, "forks", schedules=[ONCE])
    assert played.cell.verdict is Verdict.PASS, played.told()
    assert seen(played.trials[-1]).outcome.kind == "raised"


ENDS = (
    PRELUDE
    + """
class Subject:
    upset = False

    async def close(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.upset = True
            raise

def make(name, after):
    @probe(operation="close", closes=False)
    async def subject(case):
        made = Subject()
        yield made
        after(made.upset)
    subject.__name__ = name
    return subject

def die(upset):
    if upset:
        os._exit(9)

def block(upset):
    threading.Event().wait()

dies, blocks = make("dies", die), make("blocks", block)
"""
)


def test_a_trial_that_dies_before_it_could_tell_what_was_left_is_unresolved(campaign: Stager) -> None:
    played = campaign(ENDS, "dies", schedules=[ONCE, "cancel-sweep/f:cancel@1"])
    assert [trial.verdict for trial in played.trials[1:]] == [Verdict.UNRESOLVED] * 2, played.told()
    assert "what it left is not known: the process left with status 9" in played.trials[1].error
    assert played.cell.verdict is Verdict.UNRESOLVED


def line(number: int) -> str:
    return HONEST.splitlines()[number - 1]


# -- what is left, and when --------------------------------------------------------

CONNECTS = (
    PRELUDE
    + """
class Client:
    process = None

    async def connect(self):
        process = await asyncio.create_subprocess_exec(self.path, stdin=asyncio.subprocess.PIPE)
        if self.correct:
            self.process = process
        await asyncio.sleep(0.1)
        self.process = process

    async def close(self):
        if self.process is not None:
            self.process.terminate()
            await self.process.wait()

@probe(operation="connect", parametrize={"bad": False, "good": True})
async def connects(case):
    client = Client()
    client.path, client.correct = case.child("tool").path, case.param
    yield client
    await client.close()
"""
)


def test_what_the_subject_keeps_in_calm_is_not_left_and_what_it_lost_is(campaign: Stager) -> None:
    good = campaign(CONNECTS, "connects[good]", schedules=[ONCE])
    assert good.flagged == set(), good.told()
    bad = campaign(CONNECTS, "connects[bad]", schedules=[ONCE])
    assert bad.calm.verdict is Verdict.PASS, bad.told()
    assert bad.flagged == {"child-reaped", "no-leaked-descriptors"}, bad.told()
    lost = next(finding for finding in bad.findings if finding.expectation == "child-reaped")
    assert lost.message.startswith("left a child even after dispose: alive, pid ")
    assert "tool.exe" in lost.message
    assert lost.site is not None
    assert lost.site.function == "Client.connect"


SOCKETS = (
    PRELUDE
    + """
import socket

KEPT = []

class Client:
    async def run(self):
        peer = socket.create_server(("127.0.0.1", 0))
        KEPT.extend([peer, socket.create_connection(peer.getsockname()), peer.accept()[0]])

@probe(operation="run")
async def client(case):
    subject = Client()
    yield subject
"""
)


def test_a_socket_that_is_left_is_told_by_its_ends(campaign: Stager) -> None:
    played = campaign(SOCKETS, schedules=["calm"])
    assert played.flagged == {"no-leaked-descriptors"}, played.told()
    told = played.findings[0].seen
    assert sum(bool(re.search(r"-> 127\.0\.0\.1:\d+ to 127\.0\.0\.1:\d+", text)) for text in told) == 2, told
