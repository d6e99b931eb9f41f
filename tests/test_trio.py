"""What a campaign on trio must see: points between steps, scopes, timeouts, what is left, hangs, spins."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Played, Stager
from stormdrain.expectations import CHECKS
from stormdrain.model import Observation, Trial, Verdict
from stormdrain.workers import Worker

pytest.importorskip("trio")

ONCE = "cancel-storm(once)/w:scope/f:scope+0.02s"
CANCELLED = "scope(cancelled)/w:scope/f:scope@start"
FAIL_AFTER = "timeout/w:fail_after=0.05"
MOVE_ON_AFTER = "timeout/w:move_on_after=0.05"
FAILS = "fail(alone)/x:cleanup:RuntimeError"
FAILS_CANCELLED = "fail(cancel)/w:scope/f:scope+0.02s/x:cleanup:RuntimeError"
OF_OPERATIONS = {name for name, check in CHECKS.items() if check.look is not None}
CONCURRENT = "concurrent/w:scope/f:scope+0.02s"

PRELUDE = """
import os, subprocess, sys, threading, time
import trio
from stormdrain import probe

class Subject:
    def __init__(self, case, correct):
        self.case, self.correct, self.kept = case, correct, []

    async def cleanup(self):
        await trio.lowlevel.checkpoint()

    async def impl(self):
        await trio.sleep(0.5)

    async def start(self, **script):
        child = self.case.child("tool", **script)
        self.process = await trio.lowlevel.open_process([child.path], stdin=subprocess.PIPE)
        await child.ready()

def twins(start=None, **options):
    def put(operation):
        @probe(operation=operation, backends=["trio"], parametrize={"bad": False, "good": True}, **options)
        async def subject(case):
            made = Subject(case, case.param)
            if start:
                await made.start(**start)
            yield made
        subject.__name__ = operation.__name__
        return subject
    return put
"""

SUBJECTS: dict[str, tuple[str, str]] = {
    # operation: (the expectation that its bad subject breaks, what is thrown)
    "waits_for_nothing": ("returns", ONCE),
    "leaves_a_child": ("child-reaped", ONCE),
    "leaves_a_daemon": ("no-orphans", ONCE),
    "leaves_a_system_task": ("no-leaked-tasks", ONCE),
    "leaves_a_thread": ("no-leaked-threads", ONCE),
    "leaves_a_pipe": ("no-leaked-descriptors", ONCE),
    "swallows": ("cancellation-delivered", ONCE),
    "swallows_a_timeout": ("timeout-converts", FAIL_AFTER),
    "loses_the_error": ("cleanup-error-kept", FAILS),
    "strands_another_caller": ("bystander-unharmed", CONCURRENT),
    "raises_in_del": ("no-loop-reports", ONCE),
    "spins": ("no-hot-spin", ONCE),
    "blocks": ("no-blocked-loop", ONCE),
    "enters_twice": ("entered-once", ONCE),
    "takes_long": ("within-deadline", ONCE),
    "breaks_the_follow_up": ("follow-up-works", ONCE),
    "keeps_the_interpreter": ("exits-cleanly", ONCE),
}

SOURCE = (
    PRELUDE
    + """
def shielded():
    return trio.CancelScope(shield=True)

@twins()
async def waits_for_nothing(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if not self.correct:
            with shielded():
                await trio.Event().wait()
        raise

@twins(start={"sigterm": "default"})
async def leaves_a_child(self, case):
    try:
        await trio.sleep(0.1)
    finally:
        with trio.CancelScope(shield=self.correct):
            await trio.lowlevel.checkpoint()
            await self.process.stdin.aclose()
            self.process.terminate()
            await self.process.wait()

@twins()
async def leaves_a_daemon(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        with shielded():
            await self.start(on_eof="exit", **({} if self.correct else {"grandchild": "daemon"}))
            await self.process.stdin.aclose()
            await self.process.wait()
        raise

@twins()
async def leaves_a_system_task(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        trio.lowlevel.spawn_system_task(trio.sleep, 0.2 if self.correct else 1000)
        raise

@twins()
async def leaves_a_thread(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if not self.correct:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        raise

@twins()
async def leaves_a_pipe(self, case):
    ends = os.pipe()
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if not self.correct:
            self.kept.append(ends)
            ends = ()
        raise
    finally:
        for end in ends:
            os.close(end)

async def swallowing(self):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if self.correct:
            raise

@twins()
async def swallows(self, case):
    await swallowing(self)

@twins()
async def swallows_a_timeout(self, case):
    await swallowing(self)

@twins(fail=["cleanup:RuntimeError"])
async def loses_the_error(self, case):
    try:
        await self.cleanup()
    except RuntimeError:
        if self.correct:
            raise

@twins(closes=True)
async def strands_another_caller(self, case):
    if self.kept:
        await self.kept[0].wait()
        return
    self.kept.append(done := trio.Event())
    try:
        await trio.sleep(0.1)
    finally:
        if self.correct:
            done.set()
    done.set()

class Loud:
    def __del__(self):
        raise RuntimeError("nobody looks at this")

@twins()
async def raises_in_del(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if not self.correct:
            Loud()
        raise

@twins()
async def spins(self, case):
    until = trio.current_time() + 0.1
    while trio.current_time() < until:
        try:
            await trio.sleep(until - trio.current_time())
        except trio.Cancelled:
            if self.correct:
                raise
    await trio.lowlevel.checkpoint()

@twins()
async def blocks(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if not self.correct:
            time.sleep(0.6)
        raise

@twins(count=["impl"])
async def enters_twice(self, case):
    try:
        await self.impl()
    except trio.Cancelled:
        if not self.correct:
            with shielded():
                await self.impl()
        raise

@twins(deadline=1.0)
async def takes_long(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        with shielded():
            await trio.sleep(0.9 if self.correct else 1.1)
        raise

async def again(self, case):
    if self.kept:
        raise RuntimeError("still under way")

@twins(follow_up=again)
async def breaks_the_follow_up(self, case):
    self.kept.append("under way")
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        if self.correct:
            self.kept.clear()
        raise
    self.kept.clear()

@twins()
async def keeps_the_interpreter(self, case):
    try:
        await trio.sleep(0.1)
    except trio.Cancelled:
        thread = threading.Thread(target=threading.Event().wait, args=[0.0 if self.correct else None])
        thread.start()
        case.event("a thread that is not a daemon")
        raise
"""
)

ESCALATES = (
    PRELUDE
    + """
@probe(operation="close", backends=["trio"], parametrize={"plain": False, "shielded": True}, closes=True)
async def escalates(case):
    made = Escalates(case, case.param)
    await made.start(sigterm="ignore")
    yield made
    if made.process.returncode is None:
        made.process.kill()
    await made.process.stdin.aclose()

class Escalates(Subject):
    async def close(self):
        with trio.CancelScope(shield=self.correct):
            for signal in ("terminate", "kill"):
                with trio.move_on_after(5):
                    return await self.process.wait()
                getattr(self.process, signal)()
            await self.process.wait()
"""
)


def trio_campaign(campaign: Stager, source: str, name: str, *schedules: str, **options: object) -> Played:
    """The named probe under these schedules, on trio."""
    return campaign(source, name, schedules=schedules, backend="trio", **options)


def seen(trial: Trial) -> Observation:
    assert trial.observation is not None, trial.error
    return trial.observation


def last(played: Played) -> Observation:
    """The observation of the trial that was asked for."""
    assert not played.cell.error, played.told()
    return seen(played.trials[-1])


# -- expectations -----------------------------------------------------------------


def test_every_expectation_that_applies_on_trio_has_a_subject_that_breaks_it() -> None:
    assert {expectation for expectation, _ in SUBJECTS.values()} == OF_OPERATIONS - {"cancel-count-balanced"}


@pytest.mark.parametrize("operation", SUBJECTS)
def test_a_subject_that_breaks_an_expectation_is_flagged_in_it(campaign: Stager, operation: str) -> None:
    expectation, schedule = SUBJECTS[operation]
    bad = trio_campaign(campaign, SOURCE, f"{operation}[bad]", schedule)
    assert expectation in bad.flagged, bad.told()
    assert bad.flagged <= {expectation, *ALONG.get(operation, ())}, bad.told()
    assert bad.calm.verdict is Verdict.PASS, bad.told()


ALONG = {
    "leaves_a_child": {"no-leaked-descriptors"},  # trio's pidfd of a process that nobody has waited for
    "spins": {"cancellation-delivered"},
    "keeps_the_interpreter": {"no-leaked-threads"},
}
"""Expectations that a bad subject cannot but break too."""


@pytest.mark.parametrize("operation", SUBJECTS)
def test_its_correct_twin_passes(campaign: Stager, operation: str) -> None:
    good = trio_campaign(campaign, SOURCE, f"{operation}[good]", SUBJECTS[operation][1])
    assert good.flagged == set(), good.told()
    assert [trial.verdict for trial in good.trials] == [Verdict.PASS] * 2, good.told()


def test_every_canary_is_flagged_and_the_one_that_cannot_be_is_named(campaign: Stager) -> None:
    played = campaign(SOURCE, "swallows[good]", storms=["cancel-storm"], backend="trio", canaries=True)
    assert not played.cell.error, played.told()
    assert played.cell.canaries == dict.fromkeys(OF_OPERATIONS - {"cancel-count-balanced"}, Verdict.FAIL)
    counted, own = sorted(note.message for note in played.cell.notes if note.expectation == "canary")
    assert counted.startswith("cancel-count-balanced: trio counts no cancels")
    assert own.startswith("cancellation-delivered (the target's own cancel): ")


# -- time -------------------------------------------------------------------------


def test_an_escalation_of_ten_seconds_takes_exactly_ten_on_the_trials_clock(campaign: Stager) -> None:
    calm = seen(trio_campaign(campaign, ESCALATES, "escalates[plain]", ONCE).calm)
    assert (calm.outcome.kind, calm.elapsed) == ("returned", 10.0)
    assert [(child.state, child.returncode) for child in calm.processes] == [("gone", -9)]
    assert calm.elapsed_real < 5


def test_a_cancelled_scope_cuts_short_what_is_not_shielded_and_nothing_else(campaign: Stager) -> None:
    plain = last(trio_campaign(campaign, ESCALATES, "escalates[plain]", CANCELLED))
    assert (plain.operation.error.type if plain.operation.error else "", plain.elapsed) == ("Cancelled", 0.0)
    assert [child.state for child in plain.processes] == ["alive"]
    shielded = trio_campaign(campaign, ESCALATES, "escalates[shielded]", CANCELLED)
    waited = last(shielded)
    assert (waited.operation.kind, waited.elapsed, waited.thrown) == ("returned", 10.0, 0)
    assert shielded.flagged == set(), shielded.told()


@pytest.mark.parametrize("schedule", [FAIL_AFTER, MOVE_ON_AFTER])
def test_a_timeout_strikes_on_its_moment_and_the_finding_says_where(campaign: Stager, schedule: str) -> None:
    played = trio_campaign(campaign, ESCALATES, "escalates[plain]", schedule)
    struck = last(played)
    assert struck.elapsed == 0.05
    error = struck.outcome.error
    assert (error.type if error else "") == ("TooSlowError" if schedule == FAIL_AFTER else "")
    (finding,) = [finding for finding in played.findings if finding.expectation == "child-reaped"]
    assert finding.site is not None
    assert finding.site.function.endswith("close"), finding.site


def test_a_timeout_of_zero_lets_the_operation_run_to_its_first_checkpoint(campaign: Stager) -> None:
    struck = last(trio_campaign(campaign, RACE, "race", "timeout(zero)/w:fail_after=0"))
    error = struck.outcome.error
    assert (struck.elapsed, struck.thrown, error and error.type) == (0.0, 1, "TooSlowError")
    assert struck.faults[0].site is not None
    assert struck.faults[0].site.function.endswith("hand_over")


def test_in_real_time_the_same_comes_out(campaign: Stager) -> None:
    played = trio_campaign(campaign, SOURCE, "swallows[bad]", ONCE, clock="real")
    assert last(played).clock == "real"
    assert played.flagged == {"cancellation-delivered"}, played.told()


# -- points -------------------------------------------------------------------------

RACE = (
    PRELUDE
    + """
@probe(operation="hand_over", backends=["trio"])
async def race(case):
    async with trio.open_nursery() as nursery:
        made = Race(case, True)
        made.event = trio.Event()
        made.nursery = nursery
        yield made

class Race(Subject):
    async def hand_over(self):
        self.nursery.start_soon(self.give)
        await self.event.wait()
        self.kept.append("received")

    async def give(self):
        await trio.sleep(1)
        self.event.set()
"""
)


def test_a_point_lies_after_each_step_and_before_a_waiter_that_has_been_woken(campaign: Stager) -> None:
    points = seen(trio_campaign(campaign, RACE, "race", ONCE).calm).points
    where = [(point.at, point.chain[0].function.rpartition(".")[2]) for point in points]
    # The operation waits; the giver sleeps; it is woken and has not resumed; it has set the event.
    assert where == [(0.0, "hand_over"), (0.0, "hand_over"), (1.0, "hand_over"), (1.0, "hand_over")]
    assert len({point.key for point in points}) == 4


def test_in_the_turn_in_which_the_wait_ends_a_cancel_comes_too_late_to_be_thrown(campaign: Stager) -> None:
    sweep = [f"cancel-sweep/w:scope/f:scope@{n}" for n in range(1, 5)]
    played = trio_campaign(campaign, RACE, "race", *sweep)
    by_point = {trial.token.rpartition("@")[2]: seen(trial) for trial in played.trials[1:]}
    assert {n: (one.operation.kind, one.thrown) for n, one in by_point.items()} == {
        "1": ("raised", 1),
        "2": ("raised", 1),
        "3": ("raised", 1),
        "4": ("returned", 0),  # the event is set, the waiter is due, and has no checkpoint left
    }
    assert played.flagged == set(), played.told()


SIBLINGS = (
    PRELUDE
    + """
@probe(operation="run", backends=["trio"])
async def siblings(case):
    yield Siblings(case, True)

class Siblings(Subject):
    async def run(self):
        async with trio.open_nursery() as nursery:
            for n in range(8):
                nursery.start_soon(self.say, n)
        self.case.event("".join(self.kept))
        raise ValueError("".join(self.kept))

    async def say(self, n):
        for _ in range(3):
            await trio.lowlevel.checkpoint()
            self.kept.append(str(n))
"""
)


def order_of(played: Played) -> str:
    error = seen(played.calm).outcome.error
    assert error is not None
    return error.message


def test_siblings_run_in_an_order_that_depends_on_the_seed_alone(campaign: Stager, tmp_path: Path) -> None:
    def with_seed(seed: int) -> str:
        with Worker(sys.executable, errors=tmp_path / "errors") as worker:
            return order_of(trio_campaign(campaign, SIBLINGS, "siblings", ONCE, worker=worker, seed=seed))

    one, again, other = with_seed(1), with_seed(1), with_seed(2)
    assert one == again != other
    assert Counter(one) == Counter("01234567" * 3)


def test_the_same_operation_has_the_same_points_each_time(campaign: Stager) -> None:
    calm = [seen(trio_campaign(campaign, SIBLINGS, "siblings", ONCE).calm).points for _ in range(3)]
    assert len(calm[0]) > 20
    assert calm[0] == calm[1] == calm[2]


def test_tasks_of_the_harness_are_neither_steps_nor_left(campaign: Stager) -> None:
    calm = seen(trio_campaign(campaign, RACE, "race", ONCE).calm)
    assert calm.steps == 4
    assert calm.before == calm.left == ()


# -- hangs and spins ------------------------------------------------------------------


def test_a_wait_that_nothing_can_end_is_a_deadlock_that_names_every_task(campaign: Stager) -> None:
    hang = last(trio_campaign(campaign, SOURCE, "waits_for_nothing[bad]", ONCE))
    assert (hang.outcome.kind, hang.elapsed) == ("deadlock", 0.02)
    assert hang.hang is not None
    (task,) = hang.hang.tasks
    assert task.startswith("operation: ")
    assert "waits_for_nothing" in task


def test_a_spin_costs_turns_and_not_seconds(campaign: Stager) -> None:
    spun = last(trio_campaign(campaign, SOURCE, "spins[bad]", ONCE))
    assert spun.spin > 1000
    assert 0.1 <= spun.elapsed < 0.2
    assert spun.turns < 5000
    assert spun.spin_site is not None
    assert spun.spin_site.function.endswith("spins")


# -- what a cancelled scope did ---------------------------------------------------------


def test_a_cleanup_that_fails_under_a_cancelled_scope_surfaces(campaign: Stager) -> None:
    played = trio_campaign(campaign, SOURCE, "loses_the_error[good]", FAILS_CANCELLED)
    assert [error.type for error in last(played).operation.chain] == ["RuntimeError"]
    assert last(played).operation.chain[0].injected
    assert played.flagged == set(), played.told()


GROUPS = (
    PRELUDE
    + """
@probe(operation="run", backends=["trio"])
async def groups(case):
    yield Groups(case, True)

class Groups(Subject):
    async def run(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1)
            nursery.start_soon(trio.sleep, 2)
"""
)


def test_a_group_of_cancellations_is_a_cancellation_and_is_reported_as_it_comes(campaign: Stager) -> None:
    played = trio_campaign(campaign, GROUPS, "groups", ONCE)
    error = last(played).operation.error
    assert error is not None
    assert error.cancelled
    assert played.flagged == set(), played.told()


def test_who_cancels_a_scope_is_seen_and_a_deadline_is_nobody(campaign: Stager) -> None:
    source = (
        PRELUDE
        + """
@probe(operation="run", backends=["trio"])
async def cancels(case):
    yield Cancels(case, True)

class Cancels(Subject):
    async def run(self):
        with trio.move_on_after(0.5):
            await trio.sleep(1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.sleep(1)
"""
    )
    (cancel,) = seen(trio_campaign(campaign, source, "cancels", ONCE).calm).cancels
    assert cancel.caller is not None
    assert cancel.caller.function.endswith("run")


def test_a_nursery_of_the_probe_that_breaks_cancels_the_operation_alone(campaign: Stager) -> None:
    source = (
        PRELUDE
        + """
@probe(operation="run", backends=["trio"])
async def breaks(case):
    try:
        async with trio.open_nursery() as nursery:
            made = Breaks(case, True)
            made.nursery = nursery
            yield made
    except BaseException as error:
        assert "ValueError" in repr(error)

class Breaks(Subject):
    async def run(self):
        self.nursery.start_soon(self.fail)
        await trio.sleep(1)

    async def fail(self):
        raise ValueError("a background task has failed")
"""
    )
    calm = seen(trio_campaign(campaign, source, "breaks", ONCE).calm)
    assert calm.outcome.error is not None
    assert calm.outcome.error.type == "Cancelled"
    assert (calm.dispose.kind, calm.exit.kind) == ("returned", "returned")


def test_a_system_task_that_crashes_is_reported_with_its_error(campaign: Stager) -> None:
    source = (
        PRELUDE
        + """
@probe(operation="run", backends=["trio"])
async def crashes(case):
    yield Crashes(case, True)

class Crashes(Subject):
    async def run(self):
        trio.lowlevel.spawn_system_task(self.fail)
        await trio.sleep(1)

    async def fail(self):
        raise ValueError("a system task has failed")
"""
    )
    played = trio_campaign(campaign, source, "crashes", ONCE)
    calm = seen(played.calm)
    assert any("a system task has failed" in report.message for report in calm.reports), calm.reports
    assert {"no-loop-reports", "exits-cleanly"} <= played.flagged, played.told()


ACTORS = (
    PRELUDE
    + """
@probe(operation="wait", backends=["trio"], actors=3)
async def three(case):
    yield Three(case, True)

class Three(Subject):
    async def wait(self):
        self.kept.append(1)
        await trio.sleep(1)
"""
)


def test_all_callers_can_be_cancelled_in_one_turn(campaign: Stager) -> None:
    played = trio_campaign(campaign, ACTORS, "three", "actors/w:scope/f:actors@1")
    calm, cancelled = (seen(trial) for trial in played.trials)
    assert [calm.outcome.kind, *(other.kind for other in calm.others)] == ["returned"] * 3
    errors = [cancelled.operation.error, *(other.error for other in cancelled.others)]
    assert [error.type if error else "" for error in errors] == ["Cancelled"] * 3


HANDLER = (
    PRELUDE
    + """
import signal
from stormdrain import deliver

@probe(operation=deliver("SIGTERM", until="shut_down"), backends=["trio"], count=["stop"])
async def service(case):
    async with trio.open_nursery() as nursery:
        made = Service(case, True)
        await nursery.start(made.listen)
        yield made
        nursery.cancel_scope.cancel()

class Service(Subject):
    async def listen(self, task_status):
        self.stopped = trio.Event()
        with trio.open_signal_receiver(signal.SIGTERM) as arrivals:
            task_status.started()
            async for _ in arrivals:
                await self.stop()

    async def stop(self):
        await trio.sleep(0.1)
        self.stopped.set()

    async def shut_down(self):
        await self.stopped.wait()
"""
)


def test_a_signal_handler_of_trio_gets_real_signals_at_every_step(campaign: Stager) -> None:
    played = campaign(HANDLER, "service", storms=["signal-repeat"], backend="trio")
    assert not played.cell.error, played.told()
    stops = {trial.token.partition("/")[2]: seen(trial).counts["stop"] for trial in played.trials}
    assert stops.pop("calm") == 1
    assert len(stops) > 4
    assert max(stops.values()) > 1, stops  # a second signal stops it a second time
    assert {trial.storm for trial in played.trials if trial.findings} == {"signal-repeat"}


# -- storms -----------------------------------------------------------------------------


def test_each_storm_runs_on_trio_or_says_why_not(campaign: Stager) -> None:
    source = ESCALATES.replace("move_on_after(5)", "move_on_after(0.2)")
    played = campaign(source, "escalates[shielded]", backend="trio", budget_trials=40)
    tallies = {tally.storm: tally for tally in played.cell.storms}
    silent = {name for name, tally in tallies.items() if tally.verdict is Verdict.NA and not tally.why}
    assert silent == set()
    here = {name for name, tally in tallies.items() if not tally.why}
    assert {"cancel-storm", "timeout", "scope", "cancel-sweep", "concurrent"} <= here
    assert {name for name in tallies if name.startswith("child-")} <= here


# -- anyio on both ------------------------------------------------------------------------

ANYIO = """
import anyio
from stormdrain import probe

class Subject:
    def __init__(self, shield):
        self.shield = shield

    async def close(self):
        with anyio.CancelScope(shield=self.shield):
            await self.process.stdin.aclose()
            for stop in ("terminate", "kill"):
                with anyio.move_on_after(5):
                    return await self.process.wait()
                getattr(self.process, stop)()
            await self.process.wait()

@probe(operation="close", backends=["asyncio", "trio"], parametrize={"plain": False, "shielded": True})
async def subject(case):
    child = case.child("tool", on_eof="stay", sigterm="default")
    made = Subject(case.param)
    made.process = await anyio.open_process([child.path], stdout=None, stderr=None)
    await child.ready()
    yield made
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("shield", ["plain", "shielded"])
def test_a_subject_that_uses_only_anyio_comes_out_alike_on_both_backends(
    campaign: Stager, backend: str, shield: str
) -> None:
    pytest.importorskip("anyio")
    played = campaign(ANYIO, f"subject[{shield}]", schedules=[CANCELLED, MOVE_ON_AFTER], backend=backend)
    calm, *thrown = (seen(trial) for trial in played.trials)
    assert (calm.outcome.kind, calm.elapsed) == ("returned", 5.0)
    fates = {(one.elapsed, one.processes[0].state, one.processes[0].returncode) for one in thrown}
    kinds = {one.operation.kind for one in thrown}
    if shield == "shielded":
        assert (fates, kinds) == ({(5.0, "gone", -15)}, {"returned"})
        assert played.flagged == set(), played.told()
    else:
        assert (fates, kinds) == ({(0.0, "alive", None), (0.05, "alive", None)}, {"raised"})
        assert "child-reaped" in played.flagged, played.told()


# -- what is not there ------------------------------------------------------------------


@pytest.fixture
def fresh_worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker that a script may spoil."""
    with Worker(sys.executable, errors=tmp_path / "errors") as worker:
        yield worker


def test_an_internal_that_is_missing_leaves_the_cell_unresolved_by_name(campaign: Stager, fresh_worker: Worker) -> None:
    source = SOURCE + "\nimport trio._core._run\ndel trio._core._run._r\n"
    cell = trio_campaign(campaign, source, "swallows[good]", ONCE, worker=fresh_worker).cell
    assert cell.verdict is Verdict.UNRESOLVED
    assert "trio._core._run._r.seed" in cell.error
    assert "0.22 to 0.35" in cell.error


def test_what_is_not_seen_on_a_version_is_said_and_its_expectations_are_not_judged(
    campaign: Stager, fresh_worker: Worker
) -> None:
    source = (
        SOURCE
        + """
from stormdrain.worker.drive import trio_internals
trio_internals.SEES_THROWN = False
"""
    )
    options = {"storms": ["cancel-storm"], "backend": "trio", "canaries": True, "worker": fresh_worker}
    played = campaign(source, "swallows[bad]", **options)
    assert not played.cell.error, played.told()
    unjudged = {note.message.partition(":")[0] for note in played.cell.notes if note.expectation == "canary"}
    own = "cancellation-delivered (the target's own cancel)"
    assert unjudged == {"cancellation-delivered", own, "timeout-converts", "cancel-count-balanced"}
    assert seen(played.trials[-1]).thrown is None
    assert played.flagged == set()


def test_without_trio_the_probe_is_told_to_require_it(campaign: Stager, fresh_worker: Worker) -> None:
    source = """
import sys
from stormdrain import probe
sys.modules["trio"] = None

async def nothing(subject, case):
    pass

@probe(operation=nothing, backends=["trio"])
async def subject(case):
    yield None
"""
    cell = trio_campaign(campaign, source, "subject", ONCE, worker=fresh_worker).cell
    assert (cell.verdict, cell.exit_code) == (Verdict.ERROR, 2)
    assert "requires" in cell.error_todo


def test_a_backend_that_there_is_not_is_refused(campaign: Stager) -> None:
    from stormdrain.errors import UsageError

    with pytest.raises(UsageError, match="curio"):
        campaign(SOURCE, "swallows[good]", schedules=[ONCE], backend="curio")
