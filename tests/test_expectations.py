"""Every expectation flags a subject that breaks it, in that one alone, and lets its correct twin pass.

A check that cannot fail is worth nothing, so each is also disabled by hand: the
campaign must notice that and come to ERROR.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import PYTHON, VERSION, Stager
from stormdrain.expectations import CHECKS
from stormdrain.model import Verdict
from stormdrain.workers import Worker

PRELUDE = """
import asyncio, atexit, os, signal, socket, subprocess, sys, tempfile, threading, time
from stormdrain import probe

class Subject:
    def __init__(self, case, correct):
        self.case, self.correct, self.kept = case, correct, []

    async def cleanup(self):
        await asyncio.sleep(0)

    async def impl(self):
        await asyncio.sleep(0.5)

    async def start(self, **script):
        child = self.case.child("tool", **script)
        self.process = await asyncio.create_subprocess_exec(child.path, stdin=-1)
        await child.ready()

def twins(start=None, **options):
    def put(operation):
        @probe(operation=operation, parametrize={"bad": False, "good": True}, **options)
        async def subject(case):
            made = Subject(case, case.param)
            if start:
                await made.start(**start)
            yield made
        subject.__name__ = operation.__name__
        return subject
    return put
"""

ONCE = "cancel-storm(once)/f:cancel+0.02s"
NEEDS_311 = {"uncancels"}
"""Operations that need what came with 3.11."""

SUBJECTS: dict[str, tuple[str, str]] = {
    # operation: (the expectation that its bad subject breaks, what is thrown)
    "waits_for_nothing": ("returns", ONCE),
    "tries_for_ever": ("returns", ONCE),
    "takes_the_process_down": ("returns", ONCE),
    "leaves_a_child": ("child-reaped", ONCE),
    "leaves_a_zombie": ("child-reaped", ONCE),
    "leaves_a_grandchild": ("no-orphans", "calm"),
    "leaves_a_task": ("no-leaked-tasks", ONCE),
    "leaves_a_thread": ("no-leaked-threads", ONCE),
    "leaves_a_socket": ("no-leaked-descriptors", ONCE),
    "leaves_a_file": ("no-leaked-descriptors", ONCE),
    "swallows_the_cancel": ("cancellation-delivered", ONCE),
    "cleanup_replaces_the_cancel": (
        "cancellation-delivered",
        "fail(cancel)/f:cancel+0.02s/x:cleanup:RuntimeError",
    ),
    "swallows_the_timeout": ("timeout-converts", "timeout/w:wait_for=0.05"),
    "swallows_the_timeout_later": ("timeout-converts", "timeout/w:wait_for=0.05"),
    "loses_the_error": ("cleanup-error-kept", "fail(alone)/x:cleanup:RuntimeError"),
    "uncancels": ("cancel-count-balanced", ONCE),
    "drops_a_failed_future": ("no-loop-reports", ONCE),
    "forgets_an_await": ("no-loop-reports", ONCE),
    "polls_without_pause": ("no-hot-spin", ONCE),
    "blocks_the_loop": ("no-blocked-loop", ONCE),
    "starts_over": ("entered-once", ONCE),
    "is_late": ("within-deadline", ONCE),
    "cannot_be_closed_again": ("follow-up-works", ONCE),
    "breaks_the_exit": ("exits-cleanly", ONCE),
    "shares_its_fate": ("bystander-unharmed", "concurrent/f:cancel+0.02s"),
}

SOURCE = (
    PRELUDE
    + """
@twins(closes=False)
async def waits_for_nothing(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if not self.correct:
            await asyncio.get_running_loop().create_future()
        raise

@twins(closes=False)
async def tries_for_ever(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        while not self.correct:
            await asyncio.sleep(0.7)
        raise

@twins(closes=False)
async def takes_the_process_down(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if not self.correct:
            os.kill(os.getpid(), signal.SIGKILL)
        raise

@twins(start={"sigterm": "default"}, closes=True)
async def leaves_a_child(self, case):
    self.process.stdin.close()
    if not self.correct:
        await asyncio.sleep(0.1)
    try:
        await asyncio.sleep(0.1)
    finally:
        self.process.terminate()
        await self.process.wait()

@twins(closes=False)
async def leaves_a_zombie(self, case):
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if not self.correct:
            self.kept.append(process)
            raise
        process.wait()
        raise
    process.wait()

@twins(start={"on_eof": "exit", "grandchild": "daemon"}, closes=True)
async def leaves_a_grandchild(self, case):
    self.process.stdin.close()
    await self.process.wait()
    if self.correct:
        for pid in map(int, open("/proc/self/task/%d/children" % os.getpid()).read().split()):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

@twins(closes=False)
async def leaves_a_task(self, case):
    helper = asyncio.ensure_future(asyncio.sleep(100))
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            helper.cancel()
        raise
    helper.cancel()

@twins(closes=False)
async def leaves_a_thread(self, case):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, daemon=True)
    thread.start()
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            stop.set()
            thread.join()
        raise
    stop.set()
    thread.join()

@twins(closes=False)
async def leaves_a_socket(self, case):
    one, other = socket.socketpair()
    self.kept.append((one, other))
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            one.close(), other.close()
        raise
    one.close(), other.close()

@twins(closes=False)
async def leaves_a_file(self, case):
    number, path = tempfile.mkstemp()
    os.close(number)
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            os.unlink(path)
        raise
    os.unlink(path)

@twins(closes=False)
async def swallows_the_cancel(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            raise

@twins(closes=False, fail=["cleanup"])
async def cleanup_replaces_the_cancel(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError as cancelled:
        try:
            await self.cleanup()
        except RuntimeError as error:
            if self.correct:
                raise cancelled from error
            raise
        raise

@twins(closes=False)
async def swallows_the_timeout(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            raise

@twins(closes=False)
async def swallows_the_timeout_later(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        await asyncio.sleep(0.2)
        if self.correct:
            raise

@twins(closes=False, fail=["cleanup"])
async def loses_the_error(self, case):
    try:
        await self.cleanup()
    except RuntimeError:
        if self.correct:
            raise

@twins(closes=False)
async def uncancels(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if not self.correct:
            asyncio.current_task().uncancel()
        raise

@twins(closes=False)
async def drops_a_failed_future(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        future = asyncio.get_running_loop().create_future()
        future.set_exception(ConnectionError("the peer has gone"))
        if self.correct:
            future.exception()
        raise

@twins(closes=False)
async def forgets_an_await(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            await self.cleanup()
        else:
            self.cleanup()
        raise

@twins(closes=False)
async def polls_without_pause(self, case):
    flag = []
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        asyncio.get_running_loop().call_later(1, flag.append, True)
        while not flag:
            await asyncio.sleep(0.01 if self.correct else 0)
        raise

@twins(closes=False)
async def blocks_the_loop(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            await asyncio.sleep(0.4)
        else:
            time.sleep(0.4)
        raise

@twins(closes=False, count=["impl"])
async def starts_over(self, case):
    cancelled = None
    task = asyncio.ensure_future(self.impl()) if self.correct else None
    while task is None or not task.done():
        try:
            await (asyncio.wait([task]) if task else self.impl())
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled

@twins(closes=False, deadline=3.0)
async def is_late(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        await asyncio.sleep(1 if self.correct else 4)
        raise

@twins(closes=True)
async def cannot_be_closed_again(self, case):
    if self.kept == ["closing"]:
        raise RuntimeError("close() is already under way")
    self.kept.append("closing")
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if self.correct:
            self.kept.clear()
        raise
    self.kept.append("closed")

@twins(closes=False)
async def breaks_the_exit(self, case):
    try:
        await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        if not self.correct:
            atexit.register(os._exit, 3)
        raise

@twins(closes=True)
async def shares_its_fate(self, case):
    if not self.kept or self.kept[0].cancelled():
        self.kept[:] = [asyncio.ensure_future(asyncio.sleep(0.1))]
    await (asyncio.shield(self.kept[0]) if self.correct else self.kept[0])
"""
)

DISABLED = """
import dataclasses, os
from stormdrain.expectations import CHECKS
blind = lambda context: iter(())
name = os.environ["DISABLED"]
check = CHECKS[name]
CHECKS[name] = dataclasses.replace(check, look=check.look and blind, service=check.service and blind)
"""
"""Runs in the worker's interpreter before the worker does."""

UNSEEN_CALLER = """
from stormdrain.expectations import checks
checks.Context.accepted = property(lambda self: self.seen.accepted)
"""
"""The same, and then nobody looks at who called cancel()."""

KINDS = """
import sys
import asyncio
from stormdrain import probe, ready_line, service

class Nothing:
    async def run(self):
        await asyncio.sleep(0)

@probe(operation="run")
async def operation(case):
    yield Nothing()

class Nought:
    async def run(self):
        import trio
        await trio.sleep(0)

@probe(operation="run", backends=["trio"])
async def on_trio(case):
    yield Nought()

@service(exits={"SIGTERM": -15})
def command(case):
    yield case.spawn([sys.executable, "-c", "print('ready', flush=True); input()"], ready=ready_line("ready"))
"""
BACKENDS = {"operation": "asyncio", "on_trio": "trio", "command": "service"}
COUNTS = {"cancel-count-balanced"}


def applies(probe: str, expectation: str) -> bool:
    """Whether an expectation has a canary for such probes on this interpreter."""
    if probe != "command" and expectation in COUNTS:
        return probe == "operation" and VERSION >= (3, 11)
    return CHECKS[expectation].of("service" if probe == "command" else "async") is not None


DISABLINGS = [
    pytest.param(probe, expectation, marks=[pytest.mark.long] if probe == "on_trio" else [])
    for probe in BACKENDS
    for expectation in CHECKS
    if applies(probe, expectation)
]


def needs(operation: str) -> None:
    if operation in NEEDS_311 and VERSION < (3, 11):
        pytest.skip("Task.cancelling came with 3.11")


def test_every_expectation_has_a_subject_that_breaks_it() -> None:
    expected = {name for name, check in CHECKS.items() if check.of("async") is not None}
    assert {expectation for expectation, _ in SUBJECTS.values()} == expected


@pytest.mark.parametrize("operation", SUBJECTS)
def test_a_subject_that_breaks_an_expectation_is_flagged_in_that_one_alone(campaign: Stager, operation: str) -> None:
    expectation, schedule = SUBJECTS[operation]
    needs(operation)
    bad = campaign(SOURCE, f"{operation}[bad]", schedules=[schedule])
    assert bad.flagged == {expectation}, bad.told()
    assert bad.cell.verdict is Verdict.FAIL
    assert bad.calm.verdict is (Verdict.FAIL if schedule == "calm" else Verdict.PASS), bad.told()


@pytest.mark.parametrize("operation", SUBJECTS)
def test_its_correct_twin_passes(campaign: Stager, operation: str) -> None:
    _, schedule = SUBJECTS[operation]
    good = campaign(SOURCE, f"{operation}[good]", schedules=[schedule])
    assert good.flagged == set(), good.told()
    assert good.cell.verdict is Verdict.PASS, good.told()
    assert [trial.verdict for trial in good.trials] == [Verdict.PASS] * 2, good.told()


@pytest.mark.long
@pytest.mark.parametrize("operation", SUBJECTS)
def test_in_real_time_the_same_subject_is_flagged_in_the_same_expectation(campaign: Stager, operation: str) -> None:
    expectation, schedule = SUBJECTS[operation]
    needs(operation)
    bad = campaign(SOURCE, f"{operation}[bad]", schedules=[schedule], clock="real")
    good = campaign(SOURCE, f"{operation}[good]", schedules=[schedule], clock="real")
    assert bad.flagged == {expectation}, bad.told()
    assert good.flagged == set(), good.told()


@pytest.mark.parametrize(("probe", "expectation"), DISABLINGS)
def test_with_one_check_disabled_by_hand_the_campaign_is_an_error(
    campaign: Stager, tmp_path: Path, probe: str, expectation: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(DISABLED)
    with Worker(PYTHON, [str(tmp_path)], {"DISABLED": expectation}) as worker:
        played = campaign(KINDS, probe, storms=["calm"], canaries=True, worker=worker, backend=BACKENDS[probe])
    assert played.cell.verdict is Verdict.ERROR
    assert played.cell.exit_code == 70
    assert f"the check {expectation} did not flag its canary" in played.cell.error
    assert played.trials == ()
    assert played.cell.canaries[expectation] is not Verdict.FAIL


@pytest.mark.parametrize("probe", BACKENDS)
def test_with_all_checks_in_place_each_canary_is_flagged(campaign: Stager, probe: str) -> None:
    played = campaign(KINDS, probe, storms=["calm"], canaries=True, backend=BACKENDS[probe])
    expected = {name for name in CHECKS if applies(probe, name)}
    said = {note.message.partition(":")[0] for note in played.cell.notes if note.expectation == "canary"}
    assert set(played.cell.canaries) | said >= expected
    assert set(played.cell.canaries.values()) == {Verdict.FAIL}
    assert played.cell.verdict is Verdict.PASS, played.told()


@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
def test_a_cancel_that_the_probes_own_lines_ask_for_has_a_canary_of_its_own(
    campaign: Stager, tmp_path: Path, backend: str
) -> None:
    if backend == "uvloop":
        pytest.importorskip("uvloop")
    name = "cancellation-delivered (the target's own cancel)"
    (tmp_path / "sitecustomize.py").write_text(UNSEEN_CALLER)
    with Worker(PYTHON, [str(tmp_path)]) as worker:
        played = campaign(KINDS, "operation", storms=["calm"], canaries=True, worker=worker, backend=backend)
    assert played.cell.exit_code == 70
    assert f"the check {name} did not flag its canary" in played.cell.error
    assert (
        campaign(KINDS, "operation", storms=["calm"], canaries=True, backend=backend).cell.canaries[name]
        is Verdict.FAIL
    )
