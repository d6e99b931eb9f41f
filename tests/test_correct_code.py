"""Correct code that is often accused: what it keeps on purpose is no leak, what it refuses is no fault.

Every subject goes through all default storms; a finding of any kind is a false one.
"""

from __future__ import annotations

import pytest

from conftest import Stager
from stormdrain.model import Verdict
from stormdrain.storms import names

PRELUDE = """
import asyncio, concurrent.futures, contextlib, os, signal, socket, subprocess, sys, tempfile, threading, time
from stormdrain import na, probe, relax

async def finish(coroutine):
    '''Run it to its end, whatever is cancelled meanwhile; then let the cancellation out.'''
    task = asyncio.ensure_future(coroutine)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
"""

# -- what an operation may leave, since the subject keeps it ---------------------

KEEPS = (
    PRELUDE
    + """
class Client:
    '''Keeps its connection for the next request; one that was cut off is dropped.'''

    def __init__(self, peer):
        self.peer, self.idle = peer, []

    async def request(self):
        address = self.peer.host, self.peer.port
        stream = self.idle.pop() if self.idle else await asyncio.open_connection(*address)
        reader, writer = stream
        try:
            writer.write(b"ping\\n")
            assert await reader.readline() == b"pong\\n"
        except BaseException:
            writer.close()
            raise
        self.idle.append(stream)

    async def aclose(self):
        for _, writer in self.idle:
            writer.close()
            await writer.wait_closed()

async def again(subject, case):
    await subject.request()

@probe(operation="request", follow_up=again)
async def keep_alive(case):
    '''The first request opens the connection.'''
    client = Client(case.peer(replies={"ping": ["pong"]}, reply_after=0.05))
    yield client
    await client.aclose()

@probe(operation="request", follow_up=again)
async def keep_alive_warm(case):
    '''There was a request before.'''
    client = Client(case.peer(replies={"ping": ["pong"]}, reply_after=0.05))
    await client.request()
    yield client
    await client.aclose()

class Pool:
    '''Starts its workers with the first job and keeps them.'''

    def __init__(self):
        self.queue, self.workers = asyncio.Queue(), []

    async def work(self):
        while True:
            job, future = await self.queue.get()
            await asyncio.sleep(0.05)
            if not future.done():
                future.set_result(job)

    async def submit(self):
        if not self.workers:
            self.workers = [asyncio.ensure_future(self.work()) for _ in range(2)]
        future = asyncio.get_running_loop().create_future()
        await self.queue.put((1, future))
        assert await future == 1

    async def aclose(self):
        for worker in self.workers:
            worker.cancel()
        await asyncio.gather(*self.workers, return_exceptions=True)

async def submit_again(subject, case):
    await subject.submit()

@probe(operation="submit", follow_up=submit_again)
async def own_tasks(case):
    pool = Pool()
    yield pool
    await pool.aclose()

class Threads:
    '''Starts a worker thread with the first job and keeps it.'''

    def __init__(self):
        self.executor = concurrent.futures.ThreadPoolExecutor(1)

    async def submit(self):
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(self.executor, time.sleep, 0.01) is None

    async def aclose(self):
        await asyncio.to_thread(self.executor.shutdown)

@probe(operation="submit", follow_up=submit_again)
async def own_threads(case):
    threads = Threads()
    yield threads
    await threads.aclose()

class Resolver:
    '''Uses the loop's own threads, which the loop keeps.'''

    async def resolve(self):
        await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        await asyncio.to_thread(sum, [1, 2])

@probe(operation="resolve")
async def loops_own_threads(case):
    yield Resolver()
"""
)

# -- how close() may behave ---------------------------------------------------

CLOSES = (
    PRELUDE
    + """
class Helper:
    def __init__(self):
        self.helper = asyncio.ensure_future(asyncio.sleep(3600))
        self.closed = False

    async def cleanup(self):
        await asyncio.sleep(0.1)
        self.helper.cancel()
        await asyncio.gather(self.helper, return_exceptions=True)

class Idempotent(Helper):
    '''May be called again, also while it is under way.'''

    task = None

    async def close(self):
        if self.task is None:
            self.task = asyncio.ensure_future(self.cleanup())
        await finish(self.wait())

    async def wait(self):
        await asyncio.wait([self.task])

class Refusing(Helper):
    '''A second call is an error, as with a generator-based context manager.'''

    async def close(self):
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True
        await finish(self.cleanup())

class Grouped(Helper):
    '''A structured cleanup: everything ends before the cancellation goes on.'''

    async def close(self):
        try:
            await asyncio.sleep(0.05)
        finally:
            self.helper.cancel()
            self.closed = True

class Timed(Helper):
    '''Has a timeout of its own, and a failing step that it handles itself.'''

    async def close(self):
        if self.closed:
            return
        self.closed = True
        try:
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.05)
        except asyncio.TimeoutError:
            pass
        finally:
            self.helper.cancel()

KINDS = {"idempotent": Idempotent, "refusing": Refusing, "grouped": Grouped, "timed": Timed}

@probe(operation="close", parametrize=KINDS)
async def closes(case):
    subject = case.param()
    await asyncio.sleep(0)
    yield subject
"""
)

# -- children ------------------------------------------------------------------

CHILDREN = (
    PRELUDE
    + """
class Owner:
    def __init__(self, process):
        self.process = process

async def started(case, **script):
    tool = case.child("tool", **script)
    process = await asyncio.create_subprocess_exec(tool.path, stdin=-1, stdout=-1, stderr=-1)
    await tool.ready()
    return process

class Killing(Owner):
    '''kill(), then communicate(): reads what is left and reaps.'''

    async def close(self):
        if self.process.returncode is None:
            self.process.kill()
        await finish(self.process.communicate())

@probe(operation="close")
async def kill_then_communicate(case):
    yield Killing(await started(case, sigterm="ignore", says=["hello"]))

class Handing(Owner):
    '''A cancelled close() hands the child to a reaper in the background, which needs a second.'''

    reapers = set()

    async def close(self):
        if self.process.returncode is not None:
            return
        try:
            self.process.stdin.close()
            await asyncio.wait_for(self.process.wait(), 0.1)
        except asyncio.TimeoutError:
            await finish(self.reap())
        except asyncio.CancelledError:
            task = asyncio.ensure_future(self.reap())
            self.reapers.add(task)
            task.add_done_callback(self.reapers.discard)
            raise

    async def reap(self):
        self.process.terminate()
        await asyncio.sleep(0.5)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.communicate()

@probe(operation="close")
async def background_reaper(case):
    yield Handing(await started(case, sigterm="ignore"))

class Leisurely(Owner):
    '''close() only asks; a reaper that lives as long as the loop sees to the rest, in its own time.'''

    async def close(self):
        if self.process.returncode is None:
            self.process.stdin.close()
            self.process.terminate()
        await asyncio.sleep(0.05)

async def reaper(process):
    await process.communicate()

@probe(operation="close", expect={"child-reaped": relax("the reaper of this loop ends it later, by design"),
                                  "no-leaked-tasks": relax("the reaper is one for all"),
                                  "no-leaked-descriptors": relax("the reaper holds its pipes until then")})
async def reaper_of_the_loop(case):
    process = await started(case, sigterm="delay:3")
    task = asyncio.ensure_future(reaper(process))
    await asyncio.sleep(0)
    yield Leisurely(process)
    await task

async def collect(subject, case):
    '''Runs a tool to its end, and ends it if it is cut off.'''
    tool = case.child("tool", on_eof="exit", says=["out"])
    process = await asyncio.create_subprocess_exec(tool.path, stdin=-1, stdout=-1)
    try:
        await process.communicate(b"")
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await finish(process.communicate())
        raise

@probe(operation=collect)
async def runs_a_tool(case):
    yield object()
"""
)

# -- what the standard library does for a living ---------------------------------

LIBRARY = (
    PRELUDE
    + """
class Served:
    '''A server with a client on it, in one process.'''

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.reader, self.writer = await asyncio.open_connection(*self.server.sockets[0].getsockname())
        self.writer.write(b"hello\\n")
        assert await self.reader.readline() == b"hello\\n"

    async def serve(self, reader, writer):
        try:
            while line := await reader.readline():
                writer.write(line)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def close(self):
        await finish(self.end())

    async def end(self):
        self.server.close()
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
        await self.server.wait_closed()
        await asyncio.sleep(0.01)

@probe(operation="close")
async def server_and_client(case):
    served = Served()
    await served.start()
    yield served

async def writes_a_file(subject, case):
    '''A temporary file that is gone whatever happens.'''
    with tempfile.NamedTemporaryFile() as file:
        await asyncio.sleep(0.01)
        file.write(b"x")
        await asyncio.sleep(0.01)

@probe(operation=writes_a_file)
async def temporary_file(case):
    yield object()

async def bounded(subject, case):
    '''Timeouts of its own, which it turns into an answer.'''
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    except asyncio.TimeoutError:
        return "nothing came"

@probe(operation=bounded)
async def timeouts_of_its_own(case):
    yield object()

async def gathers(subject, case):
    '''Helpers that end with it.'''
    helpers = [asyncio.ensure_future(asyncio.sleep(seconds)) for seconds in (0.01, 0.02, 3600)]
    try:
        await asyncio.wait(helpers, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for helper in helpers:
            helper.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)

@probe(operation=gathers)
async def helpers_of_its_own(case):
    yield object()

class Locked:
    def __init__(self):
        self.lock, self.value = asyncio.Lock(), 0

    async def add(self):
        async with self.lock:
            await asyncio.sleep(0.01)
            self.value += 1

async def adds_again(subject, case):
    await subject.add()

@probe(operation="add", follow_up=adds_again)
async def under_a_lock(case):
    yield Locked()

class Retiring:
    async def retire(self):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            pass

@probe(operation="retire", absorbs_cancel="it is done by then, and says so")
async def absorbs_on_purpose(case):
    yield Retiring()
"""
)

SUBJECTS = {
    "keep_alive": KEEPS,
    "keep_alive_warm": KEEPS,
    "own_tasks": KEEPS,
    "own_threads": KEEPS,
    "loops_own_threads": KEEPS,
    "closes[idempotent]": CLOSES,
    "closes[refusing]": CLOSES,
    "closes[grouped]": CLOSES,
    "closes[timed]": CLOSES,
    "kill_then_communicate": CHILDREN,
    "background_reaper": CHILDREN,
    "reaper_of_the_loop": CHILDREN,
    "runs_a_tool": CHILDREN,
    "server_and_client": LIBRARY,
    "temporary_file": LIBRARY,
    "timeouts_of_its_own": LIBRARY,
    "helpers_of_its_own": LIBRARY,
    "under_a_lock": LIBRARY,
    "absorbs_on_purpose": LIBRARY,
}
BEYOND = {
    # communicate() reads until the last holder of the pipe has gone: a hang, and rightly said to be one.
    "kill_then_communicate": {"child-grandchild"},
    "background_reaper": {"child-grandchild"},
    "runs_a_tool": {"child-grandchild", "child-stopped", "loop-shutdown"},
    # Before 3.12.1 asyncio itself reports the handler of a connection that is cancelled.
    "server_and_client": {"loop-shutdown"},
}
"""Storms that a subject does not bear, and need not."""


def storms_for(name: str) -> list[str]:
    return [storm for storm in names() if storm not in BEYOND.get(name, ())]


@pytest.mark.parametrize("name", SUBJECTS)
def test_correct_code_is_not_accused(campaign: Stager, name: str) -> None:
    played = campaign(SUBJECTS[name], name, storms=storms_for(name), budget_trials=45)
    assert played.flagged == set(), played.told()
    assert played.cell.verdict is Verdict.PASS, played.told()
    assert {trial.verdict for trial in played.trials} <= {Verdict.PASS, Verdict.NA}, played.told()


def test_what_goes_while_settling_is_a_note(campaign: Stager) -> None:
    played = campaign(CHILDREN, "background_reaper", schedules=["cancel-storm(once)/f:cancel+0.02s"])
    assert played.flagged == set(), played.told()
    said = [note.message for note in played.trials[-1].notes if note.expectation == "late"]
    assert any(text.startswith("gone only while settling: alive, pid ") for text in said), said


def test_what_a_probe_allows_is_a_note_with_its_reason(campaign: Stager) -> None:
    played = campaign(CHILDREN, "reaper_of_the_loop", schedules=["calm"])
    said = [note.message for note in played.calm.notes if note.expectation == "child-reaped"]
    assert any(text.endswith("(allowed: the reaper of this loop ends it later, by design)") for text in said)
