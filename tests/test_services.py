"""Services under signals: every expectation flags the service that breaks it, and lets its correct twin pass."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from conftest import Played, Stager

START = """
import _signal as s, posix, select, sys, time
def say(text): posix.write(1, text.encode() + b"\\n")
def wait():
    while True: select.poll().poll()
def on(act, number=15): s.signal(number, lambda *_: act())
def leave(code=0): posix._exit(code)
"""
"""What the small programs below begin with; on the bare interpreter they are up in some 15 ms."""

ONE = "signal/f:signal=SIGTERM!idle"


def script(programs: Mapping[str, str], terms: str = 'exits={"SIGTERM": 0}', spawn: str = "", before: str = "") -> str:
    """A probe script: one service for each program, which says `ready` when it is."""
    listed = {name: START + textwrap.dedent(program) for name, program in programs.items()}
    return f"""
import os, sys
from stormdrain import na, ready_child, ready_file, ready_line, ready_port, ready_reply, ready_when, service
{before}
@service({terms}, parametrize={listed!r}, inject=False)
def program(case):
    yield case.spawn([sys.executable, "-ISE", "-c", case.param], ready=ready_line("ready"){spawn})
"""


def flagged(played: Played) -> set[str]:
    assert not played.cell.error, played.told()
    return played.flagged


TWINS = {
    "returns": (
        "s.signal(15, s.SIG_IGN); say('ready'); wait()",
        "on(leave); say('ready'); wait()",
        "bound=0.4",
    ),
    "exit-code": (
        "on(lambda: leave(3)); say('ready'); wait()",
        "on(leave); say('ready'); wait()",
        "bound=5",
    ),
    "artefacts-complete": (
        "on(leave); say('ready'); wait()",
        """
        def close():
            posix.close(posix.open("result", posix.O_CREAT | posix.O_WRONLY, 0o600))
            leave()
        on(close); say('ready'); wait()
        """,
        'artefacts=lambda case: os.listdir(case.path) == ["result"]',
    ),
    "prompt": (
        "on(lambda: (time.sleep(0.6), leave())); say('ready'); wait()",
        "on(leave); say('ready'); wait()",
        "prompt=0.5",
    ),
    "nothing-left": (
        "if posix.fork() == 0: s.signal(15, s.SIG_IGN); say('ready'); wait()\non(leave); wait()",
        """
        child = posix.fork()
        if child == 0: say('ready'); wait()
        on(lambda: (posix.kill(child, 15), posix.waitpid(child, 0), leave())); wait()
        """,
        "bound=5",
    ),
    "quiet-output": (
        "on(lambda: (say('Task was destroyed but it is pending!'), leave())); say('ready'); wait()",
        "on(lambda: (say('bye'), leave())); say('ready'); wait()",
        "bound=5",
    ),
}


@pytest.mark.parametrize("expectation", TWINS)
def test_an_expectation_flags_the_service_that_breaks_it_and_no_other(campaign: Stager, expectation: str) -> None:
    bad, good, terms = TWINS[expectation]
    source = script({"bad": bad, "good": good}, f'exits={{"SIGTERM": 0}}, {terms}')
    hang = {"nothing-left"} if expectation == "returns" else set()
    assert flagged(campaign(source, "program[bad]", schedules=[ONE])) == {expectation} | hang
    assert flagged(campaign(source, "program[good]", schedules=[ONE])) == set()


def test_a_signal_to_the_child_alone_must_end_it_even_where_it_inherited_a_mask(campaign: Stager) -> None:
    blocked = """
        s.pthread_sigmask(s.SIG_BLOCK, [15])
        if posix.fork() == 0: say('ready'); wait()
        s.pthread_sigmask(s.SIG_UNBLOCK, [15]); on(leave); wait()
    """
    reaps = """
        child = posix.fork()
        if child == 0: say('ready'); wait()
        posix.waitpid(child, 0); wait()
    """
    source = script({"blocked": blocked, "reaps": reaps}, 'exits={"SIGTERM": 0}, bound=0.5')
    to_child = ["signal-child/f:signal=SIGTERM.child!idle"]
    played = campaign(source, "program[blocked]", schedules=to_child)
    assert flagged(played) == {"child-reaped"}
    assert "in which it is blocked" in played.findings[0].message
    played = campaign(source, "program[reaps]", schedules=to_child)
    assert flagged(played) == set()
    assert played.of("signal-child")[-1].observation.outcome.value == "goes on"  # type: ignore[union-attr]


def test_every_expectation_of_services_has_a_canary_here(campaign: Stager) -> None:
    source = script({"good": "on(leave); say('ready'); wait()"})
    played = campaign(source, storms=["signal"], canaries=True)
    assert set(played.cell.canaries) == {*TWINS, "child-reaped"}
    assert {verdict.value for verdict in played.cell.canaries.values()} == {"FAIL"}
    assert played.cell.verdict.value == "PASS", played.told()


def test_a_hang_that_only_a_second_signal_ends_is_a_failure_of_the_first(campaign: Stager) -> None:
    program = """
        def first(): on(lambda: leave(0))
        on(first); say('ready'); wait()
    """
    played = campaign(script({"deaf": program}, 'exits={"SIGTERM": 0}, bound=0.4'), storms=["signal", "signal-repeat"])
    one = next(trial for trial in played.trials if trial.token.endswith(ONE))
    assert [finding.expectation for finding in one.findings] == ["returns", "nothing-left"]
    assert "a second SIGTERM ends it, with exit code 0" in one.findings[0].message
    two = [trial for trial in played.of("signal-repeat") if trial.phase == "storm" and trial.reached]
    assert {trial.verdict.value for trial in two} == {"PASS"}, "the second signal hides it"


def test_death_by_a_second_signal_after_a_complete_cleanup_is_told_apart(campaign: Stager) -> None:
    cleans = """
        def close():
            posix.close(posix.open("result", posix.O_CREAT | posix.O_WRONLY, 0o600))
            s.signal(15, s.SIG_DFL)
            time.sleep(0.4)
            leave()
        on(close); say('ready'); wait()
    """
    source = script(
        {"cleans": cleans}, 'exits={"SIGTERM": 0}, artefacts=lambda case: "result" in os.listdir(case.path)'
    )
    played = campaign(source, schedules=["signal-repeat(two)/f:signal=SIGTERM!idle/f:signal=SIGTERM+0.1s"])
    (trial,) = played.of("signal-repeat")[-1:]
    assert trial.observation is not None
    assert trial.observation.exit_status == -15
    assert trial.verdict.value == "PASS", played.told()
    assert any("not the first one" in note.message for note in trial.na if note.expectation == "exit-code")


def test_before_it_is_ready_a_service_may_die_of_the_signal_but_leaves_nothing(campaign: Stager) -> None:
    slow = "time.sleep(0.3); on(leave); say('ready'); wait()"
    family = """
        if posix.fork() == 0: s.signal(15, s.SIG_IGN); wait()
        time.sleep(0.3); on(leave); say('ready'); wait()
    """
    source = script({"slow": slow, "family": family})
    played = campaign(source, "program[slow]", storms=["signal-startup"])
    assert flagged(played) == set(), played.told()
    assert any(trial.observation and trial.observation.exit_status == -15 for trial in played.of("signal-startup"))
    played = campaign(source, "program[family]", storms=["signal-startup"])
    assert flagged(played) == {"nothing-left"}
    children = [trial for trial in played.of("signal-startup") if "!child-1" in trial.token]
    assert [trial.verdict.value for trial in children] == ["FAIL"]


def test_the_end_of_stdin_comes_alone_and_before_with_and_after_a_signal(campaign: Stager) -> None:
    program = """
        code = [0]
        on(lambda: code.__setitem__(0, 7)); say('ready')
        while True:
            try:
                if not posix.read(0, 100): break
            except InterruptedError: pass
        leave(code[0])
    """
    source = script({"reads": program}, 'exits={"SIGTERM": 7, "EOF": 0}, bound=0.6')
    played = campaign(source, storms=["signal-stdin", "signal"])
    ends = {trial.token.partition("/")[2]: trial for trial in played.trials}
    alone = ends["signal-stdin(alone)/f:close-stdin!idle"].observation
    after = ends["signal-stdin(after)/f:signal=SIGTERM!idle/f:close-stdin!quiet"].observation
    assert alone is not None
    assert after is not None
    assert (alone.exit_status, after.exit_status) == (0, 7)
    assert {f.expectation for f in ends[ONE].findings} == {"returns", "nothing-left"}


def test_signals_go_to_the_process_as_a_supervisor_sends_them_or_to_the_group_as_a_terminal_does(
    campaign: Stager,
) -> None:
    family = """
        child = posix.fork()
        if child == 0: say('ready'); wait()
        on(leave); wait()
    """
    played = campaign(script({"family": family}), storms=["signal"])
    found = {trial.token.partition("/")[2]: trial.verdict.value for trial in played.trials if trial.phase == "storm"}
    assert found[ONE] == "FAIL", "its child never hears of it"
    assert found["signal(group)/f:signal=SIGTERM.group!idle"] == "PASS"


def test_a_child_that_is_dead_or_ignores_sigterm_is_no_excuse_to_hang(campaign: Stager) -> None:
    program = """
        import os
        child = posix.posix_spawn(os.environ["CHILD"], [os.environ["CHILD"]], os.environ)
        def close():
            posix.kill(child, 15); posix.waitpid(child, 0); leave()
        on(close); wait()
    """
    source = f"""
import sys
from stormdrain import ready_child, service
@service(exits={{"SIGTERM": 0}}, bound=0.5)
def parent(case):
    child = case.child("tool")
    program = {START + textwrap.dedent(program)!r}
    yield case.spawn([sys.executable, "-ISE", "-c", program], ready=ready_child(child), env={{"CHILD": child.path}})
"""
    played = campaign(source, storms=["signal", "signal-child-dead", "signal-child-ignores"])
    verdicts = {trial.storm: trial.verdict.value for trial in played.trials if trial.phase == "storm" and trial.reached}
    assert verdicts == {"signal": "PASS", "signal-child-dead": "PASS", "signal-child-ignores": "FAIL"}, played.told()
