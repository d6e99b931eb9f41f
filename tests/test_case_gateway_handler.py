"""A real system: the gateway's handler of SIGTERM, before its fix, after it, and four ways to get it wrong.

The handler is a closure inside of the gateway's start path. It is built from that code
and runs in the trial's own process; the signals are real ones.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from stormdrain.gate.config import load_config
from stormdrain.lab import read_script
from stormdrain.model import Cell, CellResult, Observation, Trial, from_json, to_json
from stormdrain.revisions import Cache, available_interpreters, find_interpreters, prepare, resolve
from stormdrain.workers import Worker

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "probes" / "hermes_agent"
RELEASE = "pypi:hermes-agent==0.19.0"
PYTHONS = os.environ.get("STORMDRAIN_TEST_PYTHONS", "3.12").split()
TIMES = 3

BLOCKED = "signal-repeat(three)/f:signal=SIGTERM+0.01s/f:signal=SIGTERM+0.02s"
FIVE = "signal-repeat(five)/" + "/".join(f"f:signal=SIGTERM+{seconds}s" for seconds in (0.05, 0.1, 0.15, 0.2))
COLLECTED = "gc(unanchored)/f:gc!unanchored"
VARIANTS = ("base", "head", "no-anchor", "no-guard", "no-exemption", "parked")


def revision(variant: str) -> str:
    head = f"{RELEASE}+{FOLDER / 'head.toml'}"
    return {"base": RELEASE, "head": head}.get(variant, f"{head}+{FOLDER / variant}.toml")


@functools.cache
def played(
    python: str, variant: str, probe: str, schedules: tuple[str, ...], times: int
) -> tuple[list[Trial], CellResult]:
    """Calm and the trials of these schedules, each as often as it says."""
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    if python in ("3.10", "3.14"):
        pytest.skip("the package is for 3.11 to 3.13")
    script = read_script(FOLDER / "handler.py")
    cache = Cache()
    environment = prepare(
        resolve(revision(variant), project=ROOT, cache=cache),
        find_interpreters([python])[0],
        requires=script.requires,
        config=load_config(FOLDER / "gate.toml").environment,
        cache=cache,
    )
    trials: list[Trial] = []
    cells: list[CellResult] = []
    with Worker(environment.python, environment.path) as worker:
        request = {
            "do": "campaign",
            "file": str(script.path),
            "probe": probe,
            "roots": list(environment.path),
            "cell": to_json(Cell("00000000", probe, variant, python, "asyncio")),
            "schedules": schedules * times,
            "canaries": False,
            "confirm": False,
        }
        for kind, body in worker.ask(request):
            if kind == "trial":
                trials.append(from_json(Trial, body))
            else:
                cells.append(from_json(CellResult, body))
    assert not cells[0].error, cells[0].error
    return trials, cells[0]


def seen(python: str, variant: str, probe: str, schedule: str, times: int = TIMES) -> list[Observation]:
    schedules = {"blocked": (BLOCKED, COLLECTED), "real": (FIVE, COLLECTED)}[probe]
    trials, _ = played(python, variant, probe, schedules if times > 1 else (schedule,), times)
    found = [trial.observation for trial in trials if trial.token.partition("/")[2] == schedule]
    assert len(found) == times
    return [one for one in found if one is not None]


CALLS = {"base": 3, "head": 1, "no-anchor": 3, "no-guard": 3, "no-exemption": 1, "parked": 3}
LOST = {"base", "no-anchor"}
SWEPT = {"base", "no-exemption", "parked"}

pytestmark = [pytest.mark.parametrize("python", PYTHONS), pytest.mark.xdist_group("gateway-handler")]
each_variant = pytest.mark.parametrize("variant", VARIANTS)


@each_variant
def test_three_signals_while_stop_is_blocked_begin_so_many_stops(python: str, variant: str) -> None:
    (observation,) = seen(python, variant, "blocked", BLOCKED, times=1)
    assert observation.counts["stop"] == CALLS[variant]


@pytest.mark.long
@each_variant
def test_three_signals_begin_so_many_stops_three_times_of_three(python: str, variant: str) -> None:
    assert [one.counts["stop"] for one in seen(python, variant, "blocked", BLOCKED)] == [CALLS[variant]] * TIMES


@pytest.mark.long
@each_variant
def test_collecting_garbage_loses_the_task_that_nobody_holds(python: str, variant: str) -> None:
    for observation in seen(python, variant, "blocked", COLLECTED):
        lost = variant in LOST
        assert len(observation.unanchored) == lost
        assert observation.outcome.kind == ("deadlock" if lost else "returned")
        destroyed = [one for one in observation.reports if "Task was destroyed but it is pending" in one.message]
        assert len(destroyed) == lost


@pytest.mark.long
@each_variant
def test_five_signals_while_the_real_stop_drains(python: str, variant: str) -> None:
    calls = {"base": 5, "head": 1, "no-anchor": 5, "no-guard": 5, "no-exemption": 1, "parked": 5}[variant]
    for observation in seen(python, variant, "real", FIVE):
        assert observation.counts["stop"] == calls
        error = observation.outcome.error
        assert (error.message if error else "") == (
            "the sweep over background tasks has cancelled the shutdown itself" if variant == "parked" else ""
        )


@pytest.mark.long
@each_variant
def test_collecting_garbage_in_the_real_stop_is_not_reachable_in_this_version(python: str, variant: str) -> None:
    trials, cell = played(python, variant, "real", (FIVE, COLLECTED), TIMES)
    found = [trial for trial in trials if trial.token.partition("/")[2] == COLLECTED]
    assert {(trial.verdict.value, trial.reached) for trial in found} == {("N/A", False)}
    assert {trial.observation.unanchored for trial in found if trial.observation} == {()}
    assert any("not reachable in this version" in note.message for note in cell.notes)


@pytest.mark.long
@each_variant
def test_the_sweep_over_background_tasks_cancels_the_shutdown_or_spares_it(python: str, variant: str) -> None:
    trials, _ = played(python, variant, "sweep", ("calm",), TIMES)
    found = [trial.observation for trial in trials if trial.phase == "storm" and trial.observation]
    assert len(found) == TIMES
    for observation in found:
        assert observation.outcome.kind == ("raised" if variant in SWEPT else "returned")
        callers = {str(one.caller.function).rpartition(".")[2] for one in observation.cancels if one.caller}
        assert ("_stop_impl_body" in callers) == (variant in SWEPT)


@pytest.mark.long
def test_a_shutdown_that_is_itself_cancelled_is_never_announced(python: str) -> None:
    """A sweep over the real stop(): at its first steps the cancel leaves whoever waits for the shutdown waiting."""
    steps = tuple(f"cancel-sweep/f:cancel@{n}" for n in range(1, 8))
    trials, _ = played(python, "head", "cancelled", steps, 1)
    hung = [trial for trial in trials if trial.observation and trial.observation.outcome.kind == "deadlock"]
    assert hung
    for trial in hung:
        assert "returns" in {finding.expectation for finding in trial.findings}
        assert trial.findings[0].site is not None
        assert trial.findings[0].site.file == "gateway/run.py"
