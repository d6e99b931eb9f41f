"""The scripted child as a real process: its signals, pipes, zombies and delays, and what the hub knows."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage import (
    PATIENCE,
    Stage,
    await_end,
    descriptors,
    disposition,
    falls_asleep,
    read_to_end,
    run_python,
    state,
)
from stormdrain.errors import UsageError
from stormdrain.revisions.interpreters import available_interpreters
from stormdrain.worker.props import program as programs
from stormdrain.worker.props.child import child_script
from stormdrain.worker.props.frames import Frame, FrameReader, unescape
from stormdrain.worker.props.inside import actor

JSON_CHARS = 'ab"\\,:{}[] \n\t\u00e9\u20ac<>'
law = settings(deadline=None, max_examples=100)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()


@pytest.fixture
def real_stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, virtual=False)
    yield stage
    stage.close()


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_default_is_the_kernels_default_and_gives_the_negative_return_code(
        self, stage: Stage, number: signal.Signals
    ) -> None:
        process = stage.ready(stage.hub.child())
        assert disposition(process.pid, number) == "default"
        process.send_signal(number)
        assert process.wait(PATIENCE) == -number

    @pytest.mark.parametrize("keyword", ["sigterm", "sigint"])
    def test_ignore_is_the_kernels_ignore(self, stage: Stage, keyword: str) -> None:
        number = signal.Signals[keyword.upper()]
        child = stage.hub.child(**{keyword: "ignore"}, replies={"still": "here"})
        process = stage.ready(child)
        assert disposition(process.pid, number) == "ignored"
        process.send_signal(number)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"still there?\n")
        assert process.stdout.readline() == b"here\n"
        process.kill()
        assert process.wait(PATIENCE) == -signal.SIGKILL

    def test_an_inherited_ignore_does_not_reach_a_child_that_takes_the_default(self, stage: Stage) -> None:
        child = stage.hub.child()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process = stage.ready(child)
        finally:
            signal.signal(signal.SIGINT, before)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT

    def test_record_notes_every_signal_and_goes_on(self, stage: Stage) -> None:
        child = stage.hub.child("cli", sigterm="record", sigint="record")
        process = stage.ready(child)
        assert disposition(process.pid, signal.SIGTERM) == "caught"
        for count, number in enumerate((signal.SIGTERM, signal.SIGINT, signal.SIGTERM), 1):
            process.send_signal(number)
            stage.until(partial(lambda wanted: len(child.signals()) == wanted, count))
        assert child.received() == ["SIGTERM", "SIGINT", "SIGTERM"]
        assert ("child cli", "got SIGINT") in stage.events
        assert process.poll() is None

    def test_exit_leaves_at_once_with_that_code(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="exit:130")
        process = stage.ready(child)
        process.terminate()
        assert process.wait(PATIENCE) == 130
        assert child.signals() == ["SIGTERM"]

    def test_a_signal_is_answered_while_a_flood_blocks_stdout(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="exit:3", floods=1 << 20)
        process = stage.ready(child)
        process.terminate()
        assert process.wait(PATIENCE) == 3

    def test_delay_leaves_exactly_so_long_after_the_first_signal(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="delay:3", exit_code=9)
        process = stage.ready(child)
        process.terminate()
        stage.until(lambda: stage.hub.next_timer() is not None)
        stage.now = 101.0
        process.terminate()
        stage.until(lambda: len(child.signals()) == 2)
        assert stage.hub.next_timer() == 103.0
        assert [detail for _, detail in stage.events if detail.startswith("waits")] == ["waits 3 s (SIGTERM)"]
        assert stage.hub.fire(102.999) == 0
        assert stage.hub.fire(103.0) == 1
        assert process.wait(PATIENCE) == 9

    def test_a_child_that_has_ended_stays_a_zombie_until_it_is_reaped(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child())
        descriptor = os.pidfd_open(process.pid)
        process.terminate()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        assert poller.poll(PATIENCE * 1000)
        os.close(descriptor)
        assert state(process.pid) == "Z"
        process.wait(PATIENCE)
        assert state(process.pid) == ""


class TestStandardStreams:
    def test_it_stays_after_the_end_of_stdin_by_default(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="record")
        process = stage.ready(child)
        assert process.stdin is not None
        process.stdin.close()
        stage.until(child.saw_eof)
        process.terminate()
        stage.until(lambda: child.received() == ["EOF", "SIGTERM"])
        assert process.poll() is None

    def test_it_exits_on_eof_when_told_to_and_writes_its_last_replies_first(self, stage: Stage) -> None:
        child = stage.hub.child(on_eof="exit", exit_code=4, replies={"bye": ["one", "two"]})
        process = stage.ready(child)
        out, _ = process.communicate(b"bye", PATIENCE)
        assert (out, process.returncode) == (b"one\ntwo\n", 4)
        assert child.received() == ["bye", "EOF"]

    def test_a_delay_after_eof_is_exact_in_virtual_time(self, stage: Stage) -> None:
        child = stage.hub.child(on_eof="delay:2.5")
        process = stage.ready(child)
        assert process.stdin is not None
        stage.now = 7.0
        process.stdin.close()
        stage.until(lambda: stage.hub.next_timer() == 9.5)
        assert not stage.hub.inert()
        assert stage.hub.fire(9.5) == 1
        assert process.wait(PATIENCE) == 0

    def test_a_delay_in_real_time_is_slept_by_the_child_itself(self, real_stage: Stage) -> None:
        child = real_stage.hub.child(on_eof="delay:0.05", exit_code=6)
        process = real_stage.ready(child)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE) == 6
        assert real_stage.hub.next_timer() is None
        real_stage.hub.drain()
        assert ("child child", "waits 0.05 s (EOF)") in real_stage.events

    def test_it_says_its_lines_before_it_is_ready(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child(says=['{"type": "system"}', b"raw", "två"]))
        assert process.stdout is not None
        assert read_to_end(process.stdout.fileno()) == '{"type": "system"}\nrawtvå\n'.encode()

    def test_it_answers_with_the_first_reply_that_fits_and_fills_in_what_the_line_says(self, stage: Stage) -> None:
        child = stage.hub.child(
            replies=[
                ("initialize", ['{"id": <<id>>, "for": <<request_id>>}', "<<missing>> <<open"]),
                ("", ["heard: <<line>>"]),
            ]
        )
        process = stage.ready(child)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"request_id": "r\\"1", "method": "initialize", "id":7}\r\nother\n')
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines == [b'{"id": 7, "for": "r\\"1"}\n', b"null <<open\n", b"heard: other\n"]

    def test_a_number_among_its_lines_is_a_pause_on_the_trials_clock(self, stage: Stage) -> None:
        child = stage.hub.child(says=["one", 0.5, "two", 1, "three"])
        process = stage.ready(child)
        assert process.stdout is not None
        assert process.stdout.readline() == b"one\n"
        stage.until(lambda: stage.hub.next_timer() == 100.5)
        assert read_to_end(process.stdout.fileno()) == b""
        stage.now = 100.5
        assert stage.hub.fire(stage.now) == 1
        stage.until(lambda: not stage.hub.busy())
        assert read_to_end(process.stdout.fileno()) == b"two\n"
        assert stage.hub.next_timer() == 101.5

    def test_a_child_that_does_not_read_leaves_the_pipe_full(self, stage: Stage) -> None:
        child = stage.hub.child(reads=False, sigterm="record")
        process = stage.ready(child)
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        written = os.write(process.stdin.fileno(), b"x" * (1 << 20))
        assert written < 1 << 20
        process.terminate()
        stage.until(lambda: child.received() == ["SIGTERM"])
        with pytest.raises(BlockingIOError):
            os.write(process.stdin.fileno(), b"x" * 4096)

    def test_a_flood_comes_in_full_once_somebody_reads(self, stage: Stage) -> None:
        child = stage.hub.child("loud", says=["first"], floods=300_001)
        process = stage.ready(child)
        assert process.stdout is not None
        taken = b""
        while len(taken) < len(b"first\n") + 300_001:
            taken += os.read(process.stdout.fileno(), 65536)
        assert taken.startswith(b"first\nxxx")
        stage.until(lambda: ("child loud", "wrote a flood of 300001 bytes") in stage.events)

    def test_a_flood_that_nobody_reads_leaves_the_child_asleep(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child(floods=1 << 20))
        assert falls_asleep(process.pid)
        assert stage.hub.inert()

    def test_it_closes_stdout_and_lives_on(self, stage: Stage) -> None:
        child = stage.hub.child(says=["last words"], closes_stdout=True, replies={"x": "unheard"})
        process = stage.ready(child)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.read() == b"last words\n"
        process.stdin.write(b"x\n")
        process.stdin.close()
        stage.until(lambda: child.received() == ["x", "EOF"])
        assert falls_asleep(process.pid)

    def test_a_reader_that_goes_away_does_not_end_it(self, stage: Stage) -> None:
        child = stage.hub.child("cli", replies={"x": "unheard"})
        process = stage.ready(child)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"x\n")
        stage.until(lambda: ("child cli", "found its stdout broken") in stage.events)
        assert falls_asleep(process.pid)

    def test_it_breaks_off_in_the_middle_of_the_handshake(self, stage: Stage) -> None:
        child = stage.hub.child(says=["hello", "world"], exit_mid_handshake=True, exit_code=5)
        process = stage.start(child)
        out, _ = process.communicate(timeout=PATIENCE)
        assert (out, process.returncode) == (b"hel", 5)
        with pytest.raises(UsageError, match="it ended before it is ready"):
            asyncio.run(child.ready())

    def test_closed_standard_descriptors_do_not_confuse_it(self, stage: Stage) -> None:
        child = stage.hub.child(on_eof="exit", exit_code=8, sigterm="record")
        command = 'exec "$0" <&- >&- 2>&-'
        process = subprocess.Popen(["/bin/sh", "-c", command, child.path])
        stage.started.append(process)
        assert process.wait(PATIENCE) == 8
        assert child.received() == ["EOF"]

    def test_a_line_of_any_length_is_matched_but_reported_cut(self, stage: Stage) -> None:
        child = stage.hub.child(replies={"needle": "found"})
        process = stage.ready(child)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"y" * 50_000 + b"needle\n" + b"z" * (3 << 20) + b"\nneedle\n")
        assert process.stdout.readline() == b"found\n"
        assert process.stdout.readline() == b"found\n"
        stage.until(lambda: len(child.lines()) == 3)
        assert [len(line) for line in child.lines()] == [1000, 1000, 6]

    def test_reports_are_bounded_and_say_so(self, stage: Stage) -> None:
        child = stage.hub.child("cli", replies={"end": "done"})
        process = stage.ready(child)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(b"%d %s\n" % (n, b"w" * 500) for n in range(400)) + b"end\n")
        assert process.stdout.readline() == b"done\n"
        lines = child.lines()
        assert 100 < len(lines) < 300
        assert stage.events[-1] == ("child cli", "reports no further lines")


class TestLeaving:
    def test_it_exits_so_long_after_it_was_ready(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child(exits_after=60, exit_code=2))
        stage.until(lambda: stage.hub.next_timer() == 160.0)
        assert stage.hub.fire(160.0) == 1
        assert process.wait(PATIENCE) == 2

    def test_it_exits_on_a_line(self, stage: Stage) -> None:
        child = stage.hub.child(exits_on="shutdown", replies={"shutdown": "ok"}, exit_code=1)
        process = stage.ready(child)
        assert process.stdin is not None
        process.stdin.write(b"shutdown now\n")
        assert process.wait(PATIENCE) == 1
        assert process.stdout is not None
        assert process.stdout.read() == b"ok\n"

    def test_it_stops_itself_after_it_is_ready_and_goes_on_when_continued(self, stage: Stage) -> None:
        child = stage.hub.child("cli", stops_itself=True, sigterm="record", on_eof="delay:1")
        process = stage.ready(child)
        assert state(process.pid) == "T"
        process.terminate()
        assert stage.hub.inert()
        assert child.signals() == []
        os.kill(process.pid, signal.SIGCONT)
        stage.until(lambda: child.signals() == ["SIGTERM"])
        assert ("child cli", "was continued") in stage.events

    def test_an_argument_is_answered_without_a_word_to_the_hub(self, stage: Stage) -> None:
        child = stage.hub.child(argv={"-v": "2.1.0 (scripted)"})
        process = stage.start(child, "-v")
        out, _ = process.communicate(timeout=PATIENCE)
        assert (out, process.returncode) == (b"2.1.0 (scripted)\n", 0)
        assert not stage.hub.drain()
        assert stage.hub.pids == {}
        other = stage.start(child, "--input-format", "stream-json")
        asyncio.run(child.ready())
        assert stage.hub.pids == {other.pid: "child"}

    def test_it_ends_by_itself_when_the_trial_is_gone(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child(sigterm="ignore", sigint="ignore"))
        stage.hub.close()
        assert process.wait(PATIENCE) == actor.ORPHANED

    def test_it_ends_by_itself_when_the_trial_dies_without_a_word(self, tmp_path: Path) -> None:
        program = """
            import os, signal, subprocess, sys
            from stormdrain.worker.props.hub import Hub
            hub = Hub(sys.argv[1], virtual=True, now=float, record=lambda what, detail: None)
            child = hub.child(sigterm="ignore")
            process = subprocess.Popen([child.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            child.wait(lambda: bool(child.processes and child.processes[0].ready), "ready")
            print(process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        trial = run_python(sys.executable, program, str(tmp_path))
        assert trial.returncode == -signal.SIGKILL, trial.stderr
        await_end(int(trial.stdout))

    def test_one_that_is_started_after_the_trial_is_over_says_nothing_and_leaves(self, stage: Stage) -> None:
        child = stage.hub.child(says=["hello"])
        stage.hub.close()
        process = stage.start(child)
        out, _ = process.communicate(timeout=PATIENCE)
        assert (out, process.returncode) == (b"", actor.ORPHANED)

    def test_its_life_and_that_of_its_grandchild_is_bounded_by_the_kernel(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="ignore", grandchild="daemon")
        text = Path(child.path).read_text()
        assert "'lifetime': 600" in text
        Path(child.path).write_text(text.replace("'lifetime': 600", "'lifetime': 0.5"))
        process = stage.ready(child)
        assert process.wait(PATIENCE) == -signal.SIGALRM
        for pid in child.pids:
            await_end(pid)


class TestGrandchildren:
    def test_one_that_keeps_the_pipe_outlives_the_child_and_delays_the_end_of_stdout(self, stage: Stage) -> None:
        child = stage.hub.child("cli", grandchild="keeps-pipe", says=["hi"])
        process = stage.ready(child)
        assert process.stdout is not None
        (grandchild,) = [pid for pid in child.pids if pid != process.pid]
        assert stage.hub.pids == {process.pid: "cli", grandchild: "cli/keeps-pipe"}
        process.terminate()
        assert process.wait(PATIENCE) == -signal.SIGTERM
        assert process.stdout.readline() == b"hi\n"
        assert falls_asleep(grandchild)
        os.set_blocking(process.stdout.fileno(), False)
        assert process.stdout.read() is None
        os.set_blocking(process.stdout.fileno(), True)
        os.kill(grandchild, signal.SIGTERM)
        assert process.stdout.read() == b""

    def test_a_daemon_has_its_own_session_and_no_pipes(self, stage: Stage) -> None:
        child = stage.hub.child("cli", grandchild="daemon", sigterm="exit:0")
        process = stage.ready(child)
        (daemon,) = [pid for pid in child.pids if pid != process.pid]
        assert os.getsid(daemon) != os.getsid(process.pid)
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == "", "no zombie is left"
        assert {os.readlink(f"/proc/{daemon}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert falls_asleep(daemon)
        assert disposition(daemon, signal.SIGTERM) == "default"
        stage.hub.close()
        await_end(daemon)


class TestHub:
    def test_a_child_that_was_never_started_is_told_apart_from_one_that_is_slow(self, stage: Stage) -> None:
        child = stage.hub.child("cli")
        with pytest.raises(UsageError, match="no process of it was ever started"):
            child.wait(lambda: False, "it is ready", timeout=0.01)
        stage.ready(child)
        with pytest.raises(UsageError, match=r"process \d+ of it: ready"):
            child.wait(lambda: False, "the moon is full", timeout=0.01)

    def test_one_that_was_killed_before_it_was_ready_is_told_at_once(self, stage: Stage) -> None:
        child = stage.hub.child(says=[b"x" * (1 << 20)])
        process = stage.start(child)
        stage.until(lambda: bool(child.pids))
        process.kill()
        process.wait(PATIENCE)
        with pytest.raises(UsageError, match="started, not ready, gone"):
            asyncio.run(child.ready())

    def test_two_starts_of_one_child_have_a_name_each(self, stage: Stage) -> None:
        child = stage.hub.child("cli")
        first = stage.ready(child)
        second = stage.ready(child)
        assert stage.hub.pids == {first.pid: "cli", second.pid: "cli#2"}
        assert child.pids == [first.pid, second.pid]

    def test_names_that_come_twice_get_a_number(self, stage: Stage) -> None:
        assert [stage.hub.child().name for _ in range(3)] == ["child", "child-2", "child-3"]

    def test_timers_fire_in_the_order_of_their_moments(self, stage: Stage) -> None:
        late = stage.hub.child("late", exits_after=5)
        soon = stage.hub.child("soon", exits_after=2)
        processes = [stage.ready(late), stage.start(soon)]
        asyncio.run(soon.ready())
        stage.until(lambda: stage.hub.next_timer() == 102.0)
        assert stage.hub.fire(110.0) == 2
        assert [process.wait(PATIENCE) for process in processes] == [0, 0]
        fired = [what for what, detail in stage.events if detail.startswith("goes on")]
        assert fired == ["child soon", "child late"]

    def test_it_is_busy_until_the_child_has_done_what_it_was_told_to(self, stage: Stage) -> None:
        child = stage.hub.child(says=["a", 1, b"b" * 60_000])
        process = stage.ready(child)
        stage.until(lambda: stage.hub.next_timer() is not None)
        os.kill(process.pid, signal.SIGSTOP)
        stage.until(lambda: state(process.pid) == "T")
        assert stage.hub.fire(101.0) == 1
        assert not stage.hub.busy(), "one that is stopped does not answer, and time must go on"
        os.kill(process.pid, signal.SIGCONT)
        stage.until(lambda: not stage.hub.busy())
        assert process.stdout is not None
        assert read_to_end(process.stdout.fileno()) == b"a\n" + b"b" * 60_000
        assert stage.hub.inert()

    def test_one_that_leaves_is_busy_until_it_is_a_zombie(self, stage: Stage) -> None:
        child = stage.hub.child(exits_after=1)
        process = stage.ready(child)
        stage.until(lambda: stage.hub.next_timer() is not None)
        stage.hub.fire(101.0)
        stage.until(lambda: not stage.hub.busy())
        assert state(process.pid) == "Z"
        assert stage.hub.inert()

    def test_one_that_said_that_it_leaves_is_busy_as_long_as_it_is_there(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child())
        fifo = os.open(os.path.join(stage.hub.folder, "events"), os.O_WRONLY)
        os.write(fifo, actor.frame(process.pid, "leaving", b"0"))
        os.close(fifo)
        stage.hub.drain()
        assert stage.hub.busy()
        process.kill()
        process.wait(PATIENCE)
        assert not stage.hub.busy()

    def test_a_child_waits_for_room_on_the_fifo(self, stage: Stage) -> None:
        child = stage.hub.child()
        process = stage.ready(child)
        assert process.stdin is not None
        fifo = os.open(os.path.join(stage.hub.folder, "events"), os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(fifo, b"\n" * 4096)
        os.close(fifo)
        process.stdin.write(b"heard?\n")
        assert falls_asleep(process.pid)
        stage.until(lambda: child.lines() == ["heard?"])

    def test_the_timer_of_a_child_that_was_killed_is_forgotten(self, stage: Stage) -> None:
        process = stage.ready(stage.hub.child(exits_after=5))
        stage.until(lambda: stage.hub.next_timer() is not None)
        process.kill()
        process.wait(PATIENCE)
        assert stage.hub.next_timer() is None
        assert stage.hub.inert()
        assert stage.hub.fire(105.0) == 0

    def test_the_timeline_names_no_process_id(self, stage: Stage) -> None:
        child = stage.hub.child("cli", sigterm="delay:1", says=["x", 2, "y"], on_eof="exit", grandchild="daemon")
        process = stage.ready(child)
        process.terminate()
        stage.until(lambda: ("child cli", "waits 1 s (SIGTERM)") in stage.events)
        process.communicate()
        stage.hub.drain()
        assert ("child cli", "leaves with 0") in stage.events
        told = " ".join(f"{what} {detail}" for what, detail in stage.events)
        assert not {str(pid) for pid in child.pids} & set(told.split())

    def test_garbage_on_the_fifo_costs_no_message(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="record")
        process = stage.ready(child)
        fifo = os.open(os.path.join(stage.hub.folder, "events"), os.O_WRONLY)
        os.write(fifo, b"\xff\xfe\0 nonsense")
        process.terminate()
        stage.until(lambda: len(child.signals()) == 1)
        pid = process.pid
        for bad in (
            b"\2x y z\n",
            b"\2999999 signal 15\n",
            b"\2%d timer 1 soon why\n" % pid,
            b"\n" * 50,
            b"q" * 9000,
        ):
            os.write(fifo, bad)
        os.write(fifo, b"\2%d hello nobody\n\2%d fired x\n\2%d signal many\n" % (pid, pid, pid))
        os.close(fifo)
        process.terminate()
        stage.until(lambda: "SIGTERM" in child.signals()[1:])
        assert child.signals() == ["SIGTERM", "signal many", "SIGTERM"]
        assert stage.hub.garbage >= 5
        assert stage.hub.next_timer() is None

    def test_a_script_that_breaks_down_is_told_with_its_reason(self, stage: Stage) -> None:
        child = stage.hub.child(sigterm="record")
        text = Path(child.path).read_text()
        Path(child.path).write_text(text.replace("'record'", "'exit'"))
        process = stage.ready(child)
        process.terminate()
        assert process.wait(PATIENCE) == actor.BROKEN
        with pytest.raises(UsageError, match="broke down: IndexError"):
            asyncio.run(child.ready())

    def test_closing_it_twice_is_harmless_and_leaves_no_descriptor(self, tmp_path: Path) -> None:
        before = descriptors()
        stage = Stage(tmp_path)
        assert stage.hub.descriptors() == descriptors() - before
        stage.close()
        stage.close()
        assert stage.hub.descriptors() == frozenset()
        assert descriptors() == before
        assert not stage.hub.drain()


class TestScriptsThatAreWrong:
    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ({"on_eof": "leave"}, "'leave' is none of: stay, exit, delay:SECONDS"),
            ({"on_eof": "delay"}, "none of"),
            ({"on_eof": "delay:-1"}, "'-1' is no delay|-1.0 is no delay"),
            ({"on_eof": "delay:nan"}, "no delay"),
            ({"sigterm": "exit:256"}, "no exit code"),
            ({"sigterm": "exit:"}, "no exit code"),
            ({"sigint": "ignore:1"}, "none of"),
            ({"sigterm": None}, "None is none of"),
            ({"says": 3}, "no list of lines"),
            ({"says": [None]}, "no delay"),
            ({"says": [True]}, "no delay"),
            ({"replies": "x"}, "no table of replies"),
            ({"replies": ["x"]}, "no pair"),
            ({"replies": {3: "x"}}, "neither text nor bytes"),
            ({"exits_after": "soon"}, "no delay"),
            ({"exit_code": -1}, "no exit code"),
            ({"exit_code": 1.0}, "no exit code"),
            ({"floods": -5}, "no number of bytes"),
            ({"reads": 1}, "neither True nor False"),
            ({"grandchild": "yes"}, "none of: keeps-pipe, daemon"),
            ({"exit_mid_handshake": True}, "no handshake"),
            ({"argv": {"-v": 2}}, "no answer"),
            ({"argv": ["-v"]}, "no table of answers"),
            ({"on_oef": "stay"}, "a script has no 'on_oef'"),
        ],
        ids=str,
    )
    def test_a_bad_value_is_refused_where_the_probe_gives_it(
        self, stage: Stage, script: dict[str, object], said: str
    ) -> None:
        with pytest.raises(UsageError, match=said) as caught:
            stage.hub.child("cli", **script)
        assert "case.child('cli')" in caught.value.where
        assert caught.value.todo

    def test_a_misspelt_keyword_is_answered_with_the_one_that_was_meant(self, stage: Stage) -> None:
        with pytest.raises(UsageError, match="did you mean 'sigterm'"):
            stage.hub.child(sigterrm="ignore")

    @pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 61, 5])
    def test_a_name_that_is_no_file_name_is_refused(self, stage: Stage, name: str) -> None:
        with pytest.raises(UsageError, match="is no name"):
            stage.hub.child(name)


class TestStarting:
    def test_an_interpreter_with_blanks_in_its_path_is_started_through_sh(self, stage: Stage) -> None:
        folder = Path(stage.hub.folder) / "an odd place"
        folder.mkdir()
        python = folder / "python'3"
        python.write_text(f'#!/bin/sh\nexec {programs.interpreter()} "$@"\n')
        python.chmod(0o755)
        child = stage.hub.child(argv={"-v": "one"}, says=["hi"])
        script = ast.literal_eval(re.search(r"main\((.*)\)", Path(child.path).read_text())[1])  # type: ignore[index]
        programs.write_executable(
            child.path,
            programs.write_program(stage.hub.folder, "actor", "output", "child"),
            script,
            str(python),
        )
        assert Path(child.path).read_text().startswith("#!/bin/sh\nexec ")
        assert stage.start(child, "-v").communicate(timeout=PATIENCE)[0] == b"one\n"
        process = stage.start(child)
        asyncio.run(child.ready())
        assert stage.hub.pids == {process.pid: "child"}

    def test_it_imports_nothing_that_costs_time(self) -> None:
        code = programs.program("actor", "output", "child")
        probe = f"""
            import marshal, sys
            before = set(sys.modules)
            for name, code in marshal.loads({code!r}):
                module = sys.modules[name] = type(sys)(name)
                exec(code, module.__dict__)
            print(*sorted(m for m in set(sys.modules) - before if not m.startswith("stormdrain")))
        """
        run = subprocess.run(
            [programs.interpreter(), "-ISE", "-c", textwrap.dedent(probe)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert set(run.stdout.split()) <= {"_signal", "posix", "select", "time"}


class TestFraming:
    @law
    @given(st.binary(max_size=300))
    def test_escaping_is_undone_and_leaves_no_delimiter(self, payload: bytes) -> None:
        escaped = actor.escape(payload)
        assert unescape(escaped) == payload
        assert b"\n" not in escaped
        assert b"\2" not in escaped
        assert len(escaped) <= 2 * len(payload)

    @law
    @given(st.data())
    def test_frames_come_through_whatever_is_between_them_and_however_they_are_cut(self, data: st.DataObject) -> None:
        garbage = st.binary(max_size=40).map(lambda raw: raw.replace(b"\2", b"") + b"\n")
        message = st.tuples(
            st.integers(1, 4_000_000),
            st.sampled_from(["hello", "line", "broken-pipe"]),
            st.binary(max_size=60),
        )
        wanted, stream = [], b""
        for item in data.draw(st.lists(st.one_of(garbage, message), max_size=12)):
            if isinstance(item, bytes):
                stream += item
            else:
                wanted.append(Frame(*item))
                stream += actor.frame(*item)
        reader, got = FrameReader(), []
        while stream:
            cut = data.draw(st.integers(1, len(stream)))
            got += reader.feed(stream[:cut])
            stream = stream[cut:]
        assert got == wanted

    @law
    @given(st.lists(st.binary(max_size=6000), max_size=8))
    def test_pure_garbage_is_never_kept_for_long_and_a_fresh_frame_still_comes_through(
        self, chunks: list[bytes]
    ) -> None:
        reader = FrameReader()
        for chunk in chunks:
            reader.feed(chunk)
        assert len(reader._rest) <= 4096
        assert reader.feed(actor.frame(7, "line", b"x"))[-1] == Frame(7, "line", b"x")

    def test_a_frame_that_begins_in_too_much_garbage_is_not_lost(self) -> None:
        reader = FrameReader()
        frame = actor.frame(7, "line", b"x" * 100)
        assert reader.feed(b"q" * 5000 + frame[:50]) == []
        assert reader.feed(frame[50:]) == [Frame(7, "line", b"x" * 100)]

    def test_a_value_that_holds_the_text_of_a_key_is_not_taken_for_it(self) -> None:
        assert actor.json_value(b'{"_":"\\"a","a":0}', b"a") == b"0"
        assert actor.json_value(b'{"type":"id","id":7}', b"id") == b"7"
        assert actor.json_value(b'{"_":"\\"a"}', b"a") == b"null"

    @law
    @given(
        st.dictionaries(
            st.text("abcdefgh_", min_size=1, max_size=4),
            st.one_of(st.integers(), st.booleans(), st.none(), st.text(JSON_CHARS, max_size=12)),
            max_size=4,
        ),
        st.sampled_from([(",", ":"), (", ", ": ")]),
    )
    def test_the_value_of_a_json_key_is_found_as_it_is_written(
        self, value: dict[str, object], separators: tuple[str, str]
    ) -> None:
        keys = [json.dumps(key) for key in value]
        values = [json.dumps(item) for item in value.values()]
        line = json.dumps(value, separators=separators)
        for key, item in value.items():
            if sum(other == json.dumps(key) for other in keys + values) == 1:
                assert json.loads(actor.json_value(line.encode(), key.encode())) == item

    @law
    @given(
        st.fixed_dictionaries(
            {},
            optional={
                "on_eof": st.sampled_from(["stay", "exit", "delay:1.5"]),
                "sigterm": st.sampled_from(["default", "ignore", "record", "delay:2", "exit:3"]),
                "says": st.lists(
                    st.one_of(st.text(JSON_CHARS, max_size=5), st.binary(max_size=5), st.floats(0, 9)),
                    max_size=5,
                ),
                "floods": st.integers(0, 100),
                "closes_stdout": st.booleans(),
                "stops_itself": st.booleans(),
                "grandchild": st.sampled_from([None, "daemon", "keeps-pipe"]),
                "exits_after": st.one_of(st.none(), st.floats(0, 9)),
            },
        )
    )
    def test_every_checked_script_is_plain_literals_with_one_ready(self, script: dict[str, object]) -> None:
        checked = child_script("x", **script)  # type: ignore[arg-type]
        assert ast.literal_eval(repr(dict(checked))) == dict(checked)
        assert [step for step in checked["steps"] if step[0] == "ready"] == [("ready",)]


SCENARIO = """
    import asyncio, json, subprocess, sys
    from stormdrain.worker.props.hub import Hub

    events, now = [], [10.0]
    hub = Hub(sys.argv[1], virtual=True, now=lambda: now[0], record=lambda *event: events.append(event))
    child = hub.child("cli", sigterm="delay:3", says=["hello"], replies={"ping": "pong <<id>>"})
    process = subprocess.Popen([child.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    asyncio.run(child.ready())
    process.stdin.write(b'{"ping": 1, "id": 5}\\n')
    lines = [process.stdout.readline().decode() for _ in range(2)]
    process.terminate()
    assert hub.wait(lambda: hub.next_timer() is not None, 10)
    timer = hub.next_timer()
    fired = hub.fire(timer)
    code = process.wait(10)
    hub.drain()
    kept = hub.child("plain")
    plain = subprocess.Popen([kept.path], stdin=subprocess.PIPE)
    asyncio.run(kept.ready())
    plain.terminate()
    plain_code = plain.wait(10)
    hub.close()
    print(json.dumps([lines, timer, fired, code, child.received(), events, plain_code]))
"""


@pytest.mark.parametrize("python", available_interpreters(), ids=lambda found: found.version)
def test_it_is_the_same_on_every_interpreter(python: object, tmp_path: Path) -> None:
    run = run_python(python.path, SCENARIO, str(tmp_path))  # type: ignore[attr-defined]
    assert run.returncode == 0, run.stderr
    lines, timer, fired, code, received, events, plain_code = json.loads(run.stdout)
    assert lines == ["hello\n", "pong 5\n"]
    assert (timer, fired, code, plain_code) == (13.0, 1, 0, -15)
    assert received == ['{"ping": 1, "id": 5}', "SIGTERM"]
    assert [detail for what, detail in events if what == "child cli"] == [
        "started",
        "ready",
        'read {"ping": 1, "id": 5}',
        "got SIGTERM",
        "waits 3 s (SIGTERM)",
        "goes on (SIGTERM)",
        "leaves with 0",
    ]


def test_real_time_is_not_what_the_virtual_clock_replaces(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    assert not stage.hub.wait(lambda: False, 0.01)
