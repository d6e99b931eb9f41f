"""The same real system on trio: the releases shield close() there since 0.2.111; every design keeps that."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from stormdrain.lab import read_script
from stormdrain.model import Cell, Observation, Trial, from_json, to_json
from stormdrain.revisions import (
    Cache,
    Environment,
    available_interpreters,
    find_interpreters,
    prepare,
    resolve,
)
from stormdrain.workers import Worker
from test_case_subprocess_close import DESIGNS, FOLDER, PYTHONS, ROOT, revision

CANCELLED_SCOPE = "scope(cancelled)/w:scope/f:scope@start"
MOVE_ON = "timeout/w:move_on_after=0.05"
FAIL_AFTER = "timeout/w:fail_after=0.05"
FAILS_CANCELLED = "fail(cancel)/w:scope/f:scope+0.02s/x:_close_impl:RuntimeError"
THROWN = {"stays": (CANCELLED_SCOPE, FAILS_CANCELLED), "ignores": (MOVE_ON, FAIL_AFTER)}


@functools.cache
def observed(python: str, design: str) -> dict[str, Trial]:
    """The trials by schedule."""
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    script, cache = read_script(FOLDER / "close.py"), Cache()
    chosen = resolve(revision(design), project=ROOT, cache=cache)
    interpreter = find_interpreters([python])[0]
    environment = prepare(chosen, interpreter, requires=script.requires, cache=cache)
    with Worker(environment.python, environment.path) as worker:
        return {
            schedule: trial
            for child, schedules in THROWN.items()
            for schedule, trial in played(worker, environment, f"transport[{child}]", schedules)
        }


def played(
    worker: Worker, environment: Environment, name: str, schedules: tuple[str, ...]
) -> Iterator[tuple[str, Trial]]:
    """Trials of a probe under these schedules, with the text of each."""
    request = {
        "do": "campaign",
        "file": str(FOLDER / "close.py"),
        "probe": name,
        "roots": list(environment.path),
        "cell": to_json(Cell("00000000", name, "here", environment.interpreter.full, "trio")),
        "schedules": schedules,
        "canaries": False,
    }
    for kind, body in worker.ask(request):
        if kind == "trial":
            trial = from_json(Trial, body)
            yield trial.token.partition("/")[2], trial
        else:
            assert not body.get("error"), body["error"]


def seen(python: str, design: str, schedule: str) -> Observation:
    trial = observed(python, design)[schedule]
    assert trial.observation is not None, trial.error
    return trial.observation


def row(observation: Observation) -> tuple[str, float, str, int | None]:
    """What close() itself came to, after how long, and the child's fate."""
    error = observation.operation.error
    (child,) = observation.processes
    code = child.returncode if child.state == "gone" else None
    return error.type if error else "returned", round(observation.elapsed, 3), child.state, code


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_cancelled_scope_waits_for_the_child_to_go(python: str, design: str) -> None:
    assert row(seen(python, design, CANCELLED_SCOPE)) == ("returned", 5.0, "gone", -15)


@pytest.mark.parametrize("schedule", [MOVE_ON, FAIL_AFTER])
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_timeout_waits_until_a_child_that_ignores_sigterm_is_killed(python: str, design: str, schedule: str) -> None:
    assert row(seen(python, design, schedule)) == ("returned", 10.0, "gone", -9)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("python", PYTHONS)
def test_a_cleanup_that_fails_in_a_cancelled_scope_surfaces(python: str, design: str) -> None:
    observation = seen(python, design, FAILS_CANCELLED)
    if design == "base":
        assert observation.counts == {"_close_impl": None}
    else:
        assert row(observation) == ("RuntimeError", 0.05, "alive", None)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_shield_came_with_the_second_release(python: str) -> None:
    before, after = (seen(python, release, CANCELLED_SCOPE) for release in ("0.2.110", "0.2.111"))
    assert row(before) == ("Cancelled", 0.0, "alive", None)
    assert row(after) == ("returned", 5.0, "gone", -15)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_release_without_a_shield_is_found_out_at_the_line_where_it_waits(python: str) -> None:
    trial = observed(python, "0.2.110")[MOVE_ON]
    (finding,) = [finding for finding in trial.findings if finding.expectation == "child-reaped"]
    assert finding.site is not None
    assert finding.site.target
    assert finding.site.function.endswith("close")
