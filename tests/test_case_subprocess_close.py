"""A real system: the close() of a subprocess transport, five designs of it, cell by cell.

Every row was measured elsewhere in real time with real children; here the same
outcomes, fates, return codes and counts must come out, on every interpreter.
Durations are exact, since the time is virtual and the children are scripted.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from stormdrain.lab import read_script
from stormdrain.model import Cell, Observation, Trial, Verdict, from_json, to_json
from stormdrain.revisions import Cache, available_interpreters, find_interpreters, prepare, resolve
from stormdrain.workers import Worker

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "probes" / "claude_agent_sdk"
RELEASE = "pypi:claude-agent-sdk==0.2.143"
PYTHONS = os.environ.get("STORMDRAIN_TEST_PYTHONS", "3.11 3.13").split()
DESIGNS = ("base", "loop0", "h055", "h5b1", "h760")

EVERY_20_MS = "cancel-storm/f:cancel~0.02s"
ONE_CANCEL = "cancel-storm(once)/f:cancel+0.02s"
CANCELLED_SCOPE = "scope(cancelled)/w:scope/f:scope@start"
BEFORE_START = "cancel-before-start/f:cancel@start"
FAILS_ALONE = "fail(alone)/x:_close_impl:RuntimeError"
FAILS_CANCELLED = "fail(cancel)/f:cancel+0.02s/x:_close_impl:RuntimeError"
FAILS_WAIT_FOR = "fail(timeout)/w:wait_for=0.02/x:_close_impl:RuntimeError"
FAILS_TIMEOUT = "fail(timeout)/w:timeout=0.02/x:_close_impl:RuntimeError"
TERMINATE_FAILS = "fail(cancel)/f:cancel+0.02s/x:_process.terminate:PermissionError"
WAIT_FOR = "timeout/w:wait_for=0.05"
TIMEOUT = "timeout/w:timeout=0.05"

STAYS = (
    EVERY_20_MS,
    ONE_CANCEL,
    CANCELLED_SCOPE,
    BEFORE_START,
    FAILS_ALONE,
    FAILS_CANCELLED,
    FAILS_WAIT_FOR,
    FAILS_TIMEOUT,
    TERMINATE_FAILS,
)
IGNORES = (WAIT_FOR, TIMEOUT)


def revision(design: str) -> str:
    """`base`, a design, or a design and variants of it joined by `+`."""
    spec = RELEASE
    for part in design.split("+"):
        if part.startswith("0."):
            spec = f"pypi:claude-agent-sdk=={part}"
        elif part != "base":
            spec += f"+{FOLDER / part}.toml"
    return spec


@functools.cache
def observed(python: str, design: str, child: str, schedules: tuple[str, ...]) -> dict[str, Trial]:
    """The trials of these schedules, by schedule."""
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    script = read_script(FOLDER / "close.py")
    cache = Cache()
    interpreter = find_interpreters([python])[0]
    environment = prepare(
        resolve(revision(design), project=ROOT, cache=cache), interpreter, requires=script.requires, cache=cache
    )
    if python == "3.10":
        schedules = tuple(schedule for schedule in schedules if "w:timeout" not in schedule)
    found: dict[str, Trial] = {}
    with Worker(environment.python, environment.path) as worker:
        request = {
            "do": "campaign",
            "file": str(script.path),
            "probe": f"transport[{child}]",
            "roots": list(environment.path),
            "cell": to_json(Cell("00000000", f"transport[{child}]", design, python, "asyncio")),
            "schedules": schedules,
            "canaries": False,
        }
        for kind, body in worker.ask(request):
            if kind == "trial":
                trial = from_json(Trial, body)
                found[trial.token.partition("/")[2]] = trial
            else:
                assert not body.get("error"), body["error"]
    return found


def seen(python: str, design: str, schedule: str) -> Observation:
    if python == "3.10" and "w:timeout" in schedule:
        pytest.skip("asyncio.timeout came with 3.11")
    child, schedules = ("ignores", IGNORES) if schedule in IGNORES else ("stays", STAYS)
    trial = observed(python, design, child, schedules)[schedule]
    assert trial.observation is not None, trial.error
    return trial.observation


def errors(observation: Observation) -> list[str]:
    """The exception that came out and its causes; on 3.10 a new CancelledError stands before the one that has them."""
    return [error.type for error in observation.outcome.chain if error.link in ("", "cause")]


@dataclass(frozen=True)
class Row:
    """What comes out: exceptions, elapsed seconds, fate and return code of the child, entries of the cleanup."""

    errors: tuple[str, ...]
    elapsed: float
    fate: str
    returncode: int | None = None
    rounds: int | None = 1

    def check(self, observation: Observation) -> None:
        (child,) = observation.processes
        got = Row(
            tuple(errors(observation)),
            round(observation.elapsed, 3),
            child.state,
            child.returncode if child.state == "gone" else None,
            observation.counts["_close_impl"],
        )
        assert got == self


GONE_AT_5 = Row(("CancelledError",), 5.0, "gone", -15)
AT_10 = Row(("TimeoutError", "CancelledError"), 10.0, "gone", -9)
TABLE: dict[str, dict[str, Row]] = {
    EVERY_20_MS: {
        "base": Row(("CancelledError",), 0.02, "alive", rounds=None),
        "h055": GONE_AT_5,
        "h5b1": GONE_AT_5,
        "h760": GONE_AT_5,
    },
    ONE_CANCEL: {
        "base": Row(("CancelledError",), 0.02, "alive", rounds=None),
        "loop0": Row(("CancelledError",), 5.02, "gone", -15, rounds=2),
        "h055": GONE_AT_5,
        "h5b1": GONE_AT_5,
        "h760": GONE_AT_5,
    },
    **{
        wrap: {
            "base": Row(("TimeoutError", "CancelledError"), 0.05, "alive", rounds=None),
            "loop0": Row(("TimeoutError", "CancelledError"), 10.05, "gone", -9, rounds=2),
            "h055": AT_10,
            "h5b1": AT_10,
            "h760": AT_10,
        }
        for wrap in IGNORES
    },
    CANCELLED_SCOPE: {
        "base": Row((), 5.0, "gone", -15, rounds=None),
        **dict.fromkeys(DESIGNS[1:], Row((), 5.0, "gone", -15)),
    },
    FAILS_CANCELLED: {
        "loop0": Row(("RuntimeError",), 0.07, "alive", rounds=2),
        "h055": Row(("RuntimeError",), 0.05, "alive"),
        "h5b1": Row(("CancelledError", "RuntimeError"), 0.05, "alive"),
        "h760": Row(("CancelledError", "RuntimeError"), 0.05, "alive"),
    },
    **{
        wrap: {
            "loop0": Row(("RuntimeError",), 0.07, "alive", rounds=2),
            "h055": Row(("RuntimeError",), 0.05, "alive"),
            "h5b1": Row(("TimeoutError", "CancelledError", "RuntimeError"), 0.05, "alive"),
            "h760": Row(("TimeoutError", "CancelledError", "RuntimeError"), 0.05, "alive"),
        }
        for wrap in (FAILS_WAIT_FOR, FAILS_TIMEOUT)
    },
    TERMINATE_FAILS: {
        "base": Row(("CancelledError",), 0.02, "alive", rounds=None),
        "loop0": Row(("PermissionError",), 5.02, "alive", rounds=2),
        "h055": Row(("PermissionError",), 5.0, "alive"),
        "h5b1": Row(("CancelledError", "PermissionError"), 5.0, "alive"),
        "h760": Row(("CancelledError", "PermissionError"), 5.0, "alive"),
    },
    FAILS_ALONE: dict.fromkeys(DESIGNS[1:], Row(("RuntimeError",), 0.05, "alive")),
}
CELLS = [(schedule, design) for schedule, row in TABLE.items() for design in row]

pytestmark = [pytest.mark.parametrize("python", PYTHONS), pytest.mark.xdist_group("subprocess-close")]


@pytest.mark.parametrize(("schedule", "design"), CELLS, ids=[f"{schedule}-{design}" for schedule, design in CELLS])
def test_what_is_thrown_at_close_comes_out_as_measured(python: str, schedule: str, design: str) -> None:
    TABLE[schedule][design].check(seen(python, design, schedule))


def test_the_loop_around_the_cleanup_never_returns_under_a_storm(python: str) -> None:
    observation = seen(python, "loop0", EVERY_20_MS)
    assert observation.outcome.kind == "hung"
    assert (observation.counts["_close_impl"] or 0) > 500
    assert [child.state for child in observation.processes] == ["alive"]
    assert observation.hang is not None
    assert any("subprocess_cli.py" in line for line in observation.hang.tasks)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_cancel_before_the_first_step_accuses_nobody(python: str, design: str) -> None:
    seen(python, design, EVERY_20_MS)
    trial = observed(python, design, "stays", STAYS)[BEFORE_START]
    assert trial.verdict is Verdict.PASS
    assert trial.observation is not None
    assert trial.observation.outcome.kind == "never-entered"
    assert [child.state for child in trial.observation.processes] == ["alive"]


@pytest.mark.parametrize("design", DESIGNS[1:])
def test_a_failing_cleanup_that_nobody_cancels_raises_the_very_same_object(python: str, design: str) -> None:
    error = seen(python, design, FAILS_ALONE).outcome.error
    assert error is not None
    assert error.injected


@pytest.mark.parametrize("design", DESIGNS)
def test_with_a_scope_around_it_the_shielded_wait_takes_few_turns(python: str, design: str) -> None:
    observation = seen(python, design, CANCELLED_SCOPE)
    assert observation.turns < 20
    assert observation.operation.kind == "returned"


@pytest.mark.parametrize("design", ["h055+no-scope", "h760+no-scope"])
def test_without_the_scope_a_cancelled_anyio_scope_makes_the_loop_spin(python: str, design: str) -> None:
    trial = observed(python, design, "stays", (CANCELLED_SCOPE,))[CANCELLED_SCOPE]
    observation = trial.observation
    assert observation is not None
    assert [finding.expectation for finding in trial.findings] == ["no-hot-spin"]
    assert trial.findings[0].site is not None
    assert trial.findings[0].site.file.endswith("subprocess_cli.py")
    assert observation.operation.error is not None
    assert observation.operation.error.cancelled
    assert (observation.elapsed, observation.processes[0].returncode) == (5.0, -15)


@pytest.mark.parametrize(
    ("design", "reports"), [("h055", {"3.14": 1}), ("h5b1", {"3.14": 1}), ("h760", {})], ids=["h055", "h5b1", "h760"]
)
def test_only_shield_on_3_14_reports_the_failing_cleanup_to_the_loop(
    python: str, design: str, reports: dict[str, int]
) -> None:
    observation = seen(python, design, FAILS_CANCELLED)
    assert len(observation.reports) == reports.get(python, 0)
    assert all("shielded future" in report.message for report in observation.reports)


RACE = tuple(f"fail(sweep)/f:cancel@{n}/x:_close_impl:RuntimeError" for n in range(1, 13))


def test_the_sweep_finds_the_race_that_result_is_for(python: str) -> None:
    """The cancel arrives in the very turn in which the cleanup fails: without `result()` the error is lost."""
    lost = [
        schedule
        for schedule, trial in observed(python, "h055+no-result", "stays", RACE).items()
        if "cleanup-error-kept" in {finding.expectation for finding in trial.findings}
    ]
    kept = [
        schedule
        for schedule, trial in observed(python, "h055+result-first", "stays", RACE).items()
        if "cleanup-error-kept" in {finding.expectation for finding in trial.findings}
    ]
    assert lost
    assert kept == []
    for schedule in lost:
        first = observed(python, "h055+result-first", "stays", RACE)[schedule].observation
        second = observed(python, "h055+no-result", "stays", RACE)[schedule].observation
        assert first is not None
        assert second is not None
        assert (errors(first)[0], errors(second)[0]) == ("RuntimeError", "CancelledError")


def test_the_shield_of_the_next_release_saves_the_child_of_a_cancelled_scope(python: str) -> None:
    before = observed(python, "0.2.110", "stays", (CANCELLED_SCOPE,))[CANCELLED_SCOPE].observation
    after = observed(python, "0.2.111", "stays", (CANCELLED_SCOPE,))[CANCELLED_SCOPE].observation
    assert before is not None
    assert after is not None
    assert before.operation.error is not None
    assert (before.operation.error.type, before.elapsed, before.processes[0].state) == ("CancelledError", 0.0, "alive")
    assert (after.operation.kind, after.elapsed, after.processes[0].returncode) == ("returned", 5.0, -15)
