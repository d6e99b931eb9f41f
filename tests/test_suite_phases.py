"""The phases of a campaign: what is kept of a suite, in which clock, what is executed and confirmed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest

from conftest import MARK, left_after, marked
from stormdrain.errors import BaselineError, UsageError
from suites import PATH, Bench

SLEEPS = """
import asyncio
import sys


async def rest(seconds):
    await asyncio.sleep(seconds)
    return "rested"


async def ask(seconds):
    child = await asyncio.create_subprocess_exec("sleep", seconds)
    return await child.wait()


def double(number):
    return number * 2


def unused(number):
    return number * 3
"""


def test_a_test_that_waits_runs_in_virtual_time_and_sees_its_own_seconds(tmp_path: Path) -> None:
    tests = """
    import asyncio
    import time

    from pond.pipe import rest

    def test_rest():
        began = time.monotonic()
        assert asyncio.run(rest(3)) == "rested"
        assert time.monotonic() - began >= 3
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run(
        {
            "longer": ("await asyncio.sleep(seconds)", "await asyncio.sleep(seconds * 1000)"),
            "shorter": ('(seconds)\n    return "r', '(0)\n    return "r'),
        }
    )
    facts = outcome.campaign.facts
    assert facts.real == set()
    assert facts.seconds[0] < 3 <= facts.real_seconds[0]
    assert outcome.of("longer") == "missed"
    assert outcome.of("shorter") == "caught"


def test_a_child_that_acts_by_itself_makes_its_test_run_in_real_time(tmp_path: Path) -> None:
    tests = """
    import asyncio

    from pond.pipe import ask, double

    def test_ask():
        async def main():
            return await asyncio.wait_for(ask("0.3"), 20)
        assert asyncio.run(main()) == 0

    def test_double():
        assert double(1) == 2
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run(
        {"wrong": ("return await child.wait()", "return 1 + await child.wait()")}
    )
    tests_ = outcome.campaign.suite.tests
    assert {tests_[index].rpartition("::")[2] for index in outcome.campaign.facts.real} == {"test_ask"}
    assert outcome.baseline.left_out == {}
    assert outcome.cells("wrong") == {"test_ask": "failed"}


def test_a_kill_that_only_the_jumping_clock_made_is_taken_back(tmp_path: Path) -> None:
    tests = """
    import asyncio

    from pond.pipe import ask

    def test_ask():
        assert asyncio.run(ask("0.1")) == 0
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run(
        {
            "impatient": ("await child.wait()", "await asyncio.wait_for(child.wait(), 20)"),
            "wrong": ("await child.wait()", "1 + await child.wait()"),
        }
    )
    assert outcome.campaign.facts.real == set()
    assert outcome.ran["impatient"].confirmed == "every kill twice more in real time"
    assert outcome.of("impatient") == "missed"
    assert outcome.of("wrong") == "caught"


def test_red_unstable_and_skipped_tests_are_left_out_and_named(tmp_path: Path) -> None:
    tests = f"""
    import pathlib

    import pytest

    from pond.pipe import double

    RUNS = pathlib.Path({str(tmp_path)!r}) / "runs"

    def test_good():
        assert double(1) == 2

    def test_red():
        assert double(1) == 3, "always"

    def test_unstable():
        with RUNS.open("a") as file:
            file.write(".")
        assert len(RUNS.read_text()) % 2 == 0

    @pytest.mark.skip(reason="not today")
    def test_skipped():
        pass
    """
    outcome = Bench(tmp_path, SLEEPS, tests, jobs=1).run({"wrong": ("number * 2", "number * 4")})
    assert [name.rpartition("::")[2] for name in outcome.baseline.tests] == ["test_good"]
    left_out = {name.rpartition("::")[2]: why for name, why in outcome.baseline.left_out.items()}
    assert "always" in left_out["test_red"]
    assert left_out["test_red"].startswith("red")
    assert "unstable" in left_out["test_unstable"]
    assert left_out["test_skipped"] == "skipped: Skipped: not today"
    assert outcome.cells("wrong") == {"test_good": "failed"}


def test_a_test_that_fails_by_chance_does_not_count_as_a_kill(tmp_path: Path) -> None:
    tests = f"""
    import pathlib

    from pond.pipe import double

    RUNS = pathlib.Path({str(tmp_path)!r}) / "runs"

    def test_double():
        if double(1) == 4:
            with RUNS.open("a") as file:
                file.write(".")
            assert len(RUNS.read_text()) > 1
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run({"wrong": ("number * 2", "number * 4")})
    assert outcome.of("wrong") == "unstable"
    assert outcome.cells("wrong") == {"test_double": "unstable"}
    assert "failed 1 of 3 times" in outcome.text("wrong", "test_double")


def test_a_test_with_a_process_of_its_own_that_fails_by_chance_is_no_kill_beside_a_real_one(tmp_path: Path) -> None:
    tests = f"""
    import pathlib
    import subprocess

    from pond.pipe import double

    RUNS = pathlib.Path({str(tmp_path)!r}) / "runs"

    def test_by_chance():
        subprocess.run(["true"], check=True)
        if double(1) == 4:
            with RUNS.open("a") as file:
                file.write(".")
            assert len(RUNS.read_text()) > 1

    def test_always():
        assert double(1) == 2
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run({"wrong": ("number * 2", "number * 4")})
    assert outcome.of("wrong") == "caught"
    assert outcome.cells("wrong") == {"test_by_chance": "unstable", "test_always": "failed"}
    assert "failed 1 of 2 times" in outcome.text("wrong", "test_by_chance")


CHILD = """
import subprocess
import sys

from pond.pipe import double

def ask(module, *options):
    code = f"from pond.pipe import double; print(double(2))"
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=60)
    return done.stdout.strip(), done.stderr

def test_child():
    assert ask("pond.pipe")[0] == "4"
"""


def test_code_that_runs_in_a_child_process_is_mutated_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SLEEPS, CHILD)
    before = bench.digest()
    outcome = bench.run({"wrong": ("number * 2", "number * 5"), "unseen": ("number * 3", "number * 5")})
    assert outcome.cells("wrong") == {"test_child": "failed"}
    assert outcome.of("unseen") == "not executed"
    assert outcome.forced == "not executed: unused"
    assert bench.digest() == before


def test_what_runs_in_the_process_but_in_no_test_is_uncovered(tmp_path: Path) -> None:
    tests = "from pond.pipe import double\n\ndef test_double():\n    assert double(1) == 2\n"
    outcome = Bench(tmp_path, SLEEPS, tests).run({"unseen": ("number * 3", "number * 5")})
    assert outcome.of("unseen") == "uncovered"
    assert outcome.forced == "not executed: unused"


def test_a_function_whose_failure_nobody_notices_is_named(tmp_path: Path) -> None:
    tests = """
    from pond.pipe import double

    def test_double():
        try:
            double(1)
        except Exception:
            pass
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run({"wrong": ("number * 2", "number * 5")})
    assert outcome.forced == "seen; no test fails when it raises: double"
    assert outcome.of("wrong") == "missed"


def test_the_first_kill_is_enough_where_that_is_asked_for(tmp_path: Path) -> None:
    tests = """
    import pytest
    from pond.pipe import double

    @pytest.mark.parametrize("number", range(20))
    def test_double(number):
        assert double(1) == 2
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run({"wrong": ("number * 2", "number * 5")}, first=True)
    assert outcome.of("wrong") == "caught"
    assert len(outcome.cells("wrong")) == 1


def test_survivors_are_looked_at_again_cold_and_in_real_time(tmp_path: Path) -> None:
    tests = "from pond.pipe import double\n\ndef test_double():\n    assert double(0) == 0\n"
    outcome = Bench(tmp_path, SLEEPS, tests).run({"blind": ("number * 2", "number * 5")}, confirm_seconds=60.0)
    assert outcome.of("blind") == "missed"
    assert outcome.records["blind"].confirmed == {"here": "missed again, cold and in real time"}


def test_fixtures_of_a_broader_scope_cover_for_every_test_that_uses_them(tmp_path: Path) -> None:
    tests = """
    import pytest
    from pond.pipe import double

    @pytest.fixture(scope="module")
    def four():
        return double(2)

    def test_one(four):
        assert four == 4

    def test_two(four):
        assert four == 4
    """
    outcome = Bench(tmp_path, SLEEPS, tests).run({"wrong": ("number * 2", "number * 5")})
    assert outcome.cells("wrong") == {"test_one": "failed", "test_two": "failed"}


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("def test(:\n", "SyntaxError"),
        ("x = 1\n", "no test was found"),
        ("import nowhere_at_all\n", "nowhere_at_all"),
    ],
)
def test_a_suite_that_cannot_be_collected_is_told(tmp_path: Path, tests: str, said: str) -> None:
    bench = Bench(tmp_path, SLEEPS, "", more={"suite/test_pipe.py": tests})
    with pytest.raises(BaselineError) as caught, bench.campaign():
        pass
    assert said in str(caught.value)


def test_a_file_that_is_not_in_the_revision_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SLEEPS, "def test(): pass\n")
    (bench.layer / PATH).unlink()
    with pytest.raises(UsageError, match=PATH), bench.campaign():
        pass


def test_a_host_that_is_killed_leaves_nothing_running(tmp_path: Path) -> None:
    source = "import time\n\ndef double(number):\n    return number * 2\n"
    tests = """
    import subprocess
    import pathlib
    from pond.pipe import double

    def test_double():
        if double(1) != 2:
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            pathlib.Path(__file__).with_name("started").touch()
            while True:
                pass
    """
    bench = Bench(tmp_path, source, tests)
    script = f"""
    import sys
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from pathlib import Path
    from suites import Bench
    Bench(Path({str(tmp_path)!r}), {source!r}, {textwrap.dedent(tests)!r}).run({{"hangs": ("* 2", "* 3")}})
    """
    (tmp_path / "temporary").mkdir()
    mark = uuid.uuid4().hex
    harness = str(Path(sys.modules["stormdrain"].__file__ or "").parents[1])
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, MARK: mark, "PYTHONPATH": harness, "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.DEVNULL,
    )
    started = bench.suite / "started"
    while not started.exists():
        assert host.poll() is None
        os.sched_yield()
    assert len(marked(mark)) > 3
    assert list((tmp_path / "temporary").iterdir())
    started.unlink()
    before = bench.digest()
    host.send_signal(signal.SIGKILL)
    host.wait()
    assert left_after(mark, 20) == {}
    assert list((tmp_path / "temporary").iterdir()) == []
    started.unlink(missing_ok=True)  # the suite's own doing: the other test of the pair may have begun
    assert bench.digest() == before, "the source tree or the suite was written to"
