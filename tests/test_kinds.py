"""Every kind of fault that the storms are for: a subject made to have it is flagged, its correct twin is not.

The subjects are what real libraries get wrong, boiled down to a few lines. The bad one
is driven through the storm that is meant for its kind; the correct twin bears all of them.
"""

from __future__ import annotations

import pytest

from conftest import Stager
from stormdrain.model import Site, Verdict

SOURCE = '''
import asyncio, collections, contextlib, os, time
from stormdrain import probe

def twins(operation, **options):
    """A class as two probes: `[bad]` and `[good]`."""
    def put(make):
        async def subject(case):
            made = make(case, case.param)
            await made.start()
            yield made
        subject.__name__ = make.__name__
        return probe(operation=operation, parametrize={"bad": False, "good": True}, **options)(subject)
    return put

async def finish(coroutine):
    """Run it to its end, whatever is cancelled meanwhile; then let the cancellation out."""
    task = asyncio.ensure_future(coroutine)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled() and task.exception() is not None:
        raise cancelled from task.exception()
    raise cancelled

# -- close() ---------------------------------------------------------------

class Service:
    """Something with a helper task that close() brings to its end."""

    def __init__(self, case, correct):
        self.case, self.correct = case, correct

    async def start(self):
        self.helper = asyncio.ensure_future(asyncio.sleep(3600))
        await asyncio.sleep(0)

    async def cleanup(self):
        await asyncio.sleep(0.1)

    async def end(self):
        await self.cleanup()
        self.helper.cancel()

    async def end_anyhow(self):
        try:
            await finish(self.cleanup())
        finally:
            self.helper.cancel()

@twins("close")
class third_cancel_leaks(Service):
    """It goes on waiting after the first cancel and the second, and gives up at the third."""

    async def close(self):
        if self.correct:
            return await self.end_anyhow()
        task, cancels = asyncio.ensure_future(self.end()), []
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError as error:
                cancels.append(error)
                if len(cancels) == 3:
                    task.cancel()
        if cancels:
            raise cancels[0]

@twins("close")
class one_shot_shield(Service):
    """The shield holds for one cancel."""

    async def close(self):
        if self.correct:
            return await self.end_anyhow()
        task = asyncio.ensure_future(self.end())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await task
            raise

@twins("close")
class swallows(Service):
    """A cancel from outside is taken for the end of the helper."""

    async def close(self):
        self.helper.cancel()
        try:
            if self.correct:
                await asyncio.wait([self.helper])
            else:
                await self.helper
        except asyncio.CancelledError:
            if self.correct:
                raise

@twins("close", fail=["cleanup"])
class masks(Service):
    """What the cleanup raised is cut off."""

    async def close(self):
        try:
            await self.end_anyhow()
        except Exception as error:
            raise OSError("cannot be closed") from (error if self.correct else None)

@twins("close")
class leaves_a_task(Service):
    """The helper is forgotten where close() is cancelled."""

    async def close(self):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            if self.correct:
                self.helper.cancel()
            raise
        self.helper.cancel()

@twins("close")
class spins(Service):
    """Once it is cancelled, it polls without a pause."""

    async def close(self):
        if self.correct:
            return await self.end_anyhow()
        task = asyncio.ensure_future(self.end())
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            while not task.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0)
            raise

@twins("close")
class blocks(Service):
    """It waits with time.sleep()."""

    async def close(self):
        if self.correct:
            return await self.end_anyhow()
        self.flush()
        self.helper.cancel()

    def flush(self):
        for _ in range(4):
            time.sleep(0.1)  # blocks here

@twins("__aexit__")
class loses_the_error_of_its_body(Service):
    """A cleanup that is cancelled says so, and not what the body had raised."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *about):
        try:
            await self.end_anyhow()
        except asyncio.CancelledError:
            if self.correct:
                raise
            raise asyncio.CancelledError("while leaving") from None

@twins("close")
class drains_for_ever(Service):
    """It reads a child's output to the end, and that of a grandchild with it."""

    async def start(self):
        child = self.case.child("tool", sigterm="default")
        self.process = await asyncio.create_subprocess_exec(
            child.path, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await child.ready()

    async def close(self):
        try:
            await finish(self.drain())
        finally:
            self.process._transport.close()

    async def drain(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        if not self.correct:
            await self.process.communicate()
            return
        try:
            await asyncio.wait_for(self.process.communicate(), 1)
        except asyncio.TimeoutError:
            self.process._transport.close()
            await self.process.wait()

# -- hand-overs --------------------------------------------------------------

class Handover:
    """What it has goes to who waits first; the other side acts 0.1 s from now."""

    def __init__(self, case, correct):
        self.correct, self.waiters = correct, collections.deque()

    async def start(self):
        asyncio.get_running_loop().call_later(0.1, self.give, "the thing")

    def give(self, thing):
        while self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                return waiter.set_result(thing)
        self.keep(thing)

    async def wait(self):
        waiter = asyncio.get_running_loop().create_future()
        self.waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if self.correct and waiter.done() and not waiter.cancelled():
                self.give(waiter.result())
            raise

async def take(subject, case):
    case.hand_back(subject.give)
    return await subject.take()

async def is_there(subject, case):
    await asyncio.wait_for(subject.take(), 1)

@twins(take, follow_up=is_there)
class loses_a_lock(Handover):
    """The lock goes to one that is cancelled in the same turn, and to nobody after it."""

    held = True

    def keep(self, thing):
        self.held = False

    async def take(self):
        if self.held:
            return await self.wait()
        self.held = True
        return "the thing"

@twins(take, follow_up=is_there)
class loses_an_item(Handover):
    """The item is put into the hands of a receiver that is cancelled in the same turn."""

    async def start(self):
        self.items = collections.deque()
        await super().start()

    def keep(self, thing):
        self.items.append(thing)

    async def take(self):
        return self.items.popleft() if self.items else await self.wait()

async def put(subject, case):
    subject.give("the thing")
    case.event("given")
    await asyncio.sleep(0.1)

async def was_received(subject, case):
    if not subject.received:
        await asyncio.wait_for(subject.take(), 1)

@twins(put, victim="receiver", trigger="given", follow_up=was_received)
class loses_what_is_put(Handover):
    """The same, seen from the giver: the receiver is cancelled when it has the item and has not run yet."""

    async def start(self):
        self.items, self.received = collections.deque(), []
        self.receiver = asyncio.create_task(self.receive(), name="receiver")
        await asyncio.sleep(0)

    async def receive(self):
        self.received.append(await self.take())

    def keep(self, thing):
        self.items.append(thing)

    async def take(self):
        return self.items.popleft() if self.items else await self.wait()

@twins(take, follow_up=is_there)
class loses_a_connection(Handover):
    """A pool of one connection; it goes to a waiter that is cancelled in the turn of the hand-over."""

    async def start(self):
        self.idle, self.size = [], 0
        asyncio.get_running_loop().call_later(0.1, self.give, await self.take())

    def keep(self, thing):
        self.idle.append(thing)

    async def take(self):
        if self.idle:
            return self.idle.pop()
        if self.size == 0:
            self.size += 1
            return object()
        return await self.wait()

async def use(pool, case):
    await pool.take()
    try:
        await asyncio.sleep(0.1)
    finally:
        pool.size -= 1

@twins(use, actors=3, follow_up=is_there)
class exhausts(Handover):
    """One that was cancelled while it came about is counted for ever: after the third, nobody gets one."""

    size = 0

    async def start(self):
        pass

    async def take(self):
        if self.size == 3:
            await self.wait()
        self.size += 1
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            if self.correct:
                self.size -= 1
            raise
'''

KINDS = {
    # subject: the storm that is meant for its kind, the expectations that it breaks, the line that is named
    "third_cancel_leaks": ("cancel-storm", {"no-leaked-tasks"}, "await asyncio.shield(task)"),
    "one_shot_shield": ("cancel-pairs", {"no-leaked-tasks"}, "await asyncio.shield(task)"),
    "swallows": ("cancel-sweep", {"cancellation-delivered"}, "await self.helper"),
    "masks": ("fail", {"cleanup-error-kept"}, ""),
    "leaves_a_task": ("cancel-sweep", {"no-leaked-tasks"}, "await asyncio.sleep(0.1)"),
    "spins": ("cancel-sweep", {"no-hot-spin"}, ""),
    "blocks": ("calm", {"no-blocked-loop"}, "time.sleep(0.1)  # blocks here"),
    "loses_the_error_of_its_body": ("body-error", {"cleanup-error-kept"}, ""),
    "drains_for_ever": ("child-grandchild", {"returns"}, ""),
    "loses_a_lock": ("cancel-sweep", {"follow-up-works"}, "return await waiter"),
    "loses_an_item": ("cancel-sweep", {"follow-up-works"}, "return await waiter"),
    "loses_what_is_put": ("cancel-storm", {"follow-up-works"}, "return await waiter"),
    "loses_a_connection": ("cancel-sweep", {"follow-up-works"}, "return await waiter"),
    "exhausts": ("actors", {"follow-up-works"}, "await asyncio.sleep(0.1)"),
}


def line_of(site: Site) -> str:
    """The text of a line of the script, or where else it is."""
    return SOURCE.splitlines()[site.line - 1].strip() if site.file.startswith("probe_") else str(site)


@pytest.mark.parametrize("kind", KINDS)
def test_the_storm_that_is_meant_for_a_kind_of_fault_flags_it(campaign: Stager, kind: str) -> None:
    storm, expectations, line = KINDS[kind]
    bad = campaign(SOURCE, f"{kind}[bad]", storms=[storm])
    assert bad.flagged == expectations, bad.told()
    assert bad.cell.verdict is Verdict.FAIL
    assert (bad.calm.verdict is Verdict.PASS) is (storm != "calm"), bad.told()
    if line:
        sites = [finding.site for finding in bad.findings if finding.site is not None]
        assert {line_of(site) for site in sites} == {line}, bad.told()


@pytest.mark.parametrize("kind", KINDS)
def test_its_correct_twin_bears_every_storm(campaign: Stager, kind: str) -> None:
    good = campaign(SOURCE, f"{kind}[good]", budget_trials=60)
    assert good.flagged == set(), good.told()
    assert good.cell.verdict is Verdict.PASS, good.told()
    untried = {tally.storm for tally in good.cell.storms if not tally.trials and not tally.why}
    assert untried <= {"cancel-pairs"}, "the budget did not meet every storm"


def test_a_victim_that_swallows_its_cancel_is_flagged_and_one_that_is_busy_elsewhere_is_not(
    campaign: Stager,
) -> None:
    source = """
    import asyncio
    from stormdrain import probe

    async def work(case):
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            if case.param == "passes it on":
                raise

    async def idle(subject, case):
        await asyncio.sleep(0.05)

    @probe(operation=idle, victim="worker", parametrize={"bad": "swallows it", "good": "passes it on"})
    async def with_worker(case):
        worker = asyncio.create_task(work(case), name="worker")
        yield worker
        await asyncio.wait([worker])

    @probe(operation=idle, victim="nobody")
    async def without(case):
        yield object()
    """
    bad = campaign(source, "with_worker[bad]", storms=["cancel-sweep", "timeout"])
    assert bad.flagged == {"cancellation-delivered"}, bad.told()
    assert {finding.message for finding in bad.findings} == {
        "the cancel was accepted by 'worker', and it returned as if nothing had happened"
    }
    assert [tally.why for tally in bad.cell.storms if tally.storm == "timeout"] == [
        "the faults are for another task than the operation's (worker)"
    ]
    good = campaign(source, "with_worker[good]", storms=["cancel-sweep"])
    assert good.flagged == set(), good.told()
    assert good.cell.verdict is Verdict.PASS
    without = campaign(source, "without", storms=["cancel-sweep"])
    assert without.cell.exit_code == 4
    assert without.cell.error == "the probe names the victim 'nobody', and no task of that name was there"


def test_what_cannot_be_handed_back_is_a_subject_that_is_no_longer_usable(campaign: Stager) -> None:
    source = """
    import asyncio
    from stormdrain import probe

    class Pool:
        given = 0
        broken = False

        async def take(self):
            self.given += 1
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                self.broken = True
            return self

        def back(self, thing):
            if self.broken:
                raise ValueError("not of this pool")
            self.given -= 1

    async def take(pool, case):
        case.hand_back(pool.back)
        return await pool.take()

    async def all_there(pool, case):
        assert pool.given == 0

    @probe(operation=take, follow_up=all_there, absorbs_cancel="it hands over what it was asked for")
    async def pool(case):
        yield Pool()
    """
    played = campaign(source, storms=["timeout"])
    assert played.flagged == {"follow-up-works"}, played.told()
    assert {finding.message for finding in played.findings} == {"the follow-up raised ValueError: not of this pool"}
