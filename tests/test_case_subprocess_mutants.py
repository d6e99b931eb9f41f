"""The mutants of a real system's close(), kill by kill, on each interpreter: as seen in plain, cold, real-time runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stormdrain.mutation.plan import expected_on
from stormdrain.mutation.runner import MutationRequest, run
from stormdrain.revisions import available_interpreters

ROOT = Path(__file__).parents[1]
PLAN = ROOT / "mutants" / "claude_agent_sdk.toml"
PYTHONS = os.environ.get("STORMDRAIN_TEST_PYTHONS", "3.11 3.13").split()


@pytest.mark.long
@pytest.mark.parametrize("python", PYTHONS)
def test_each_mutant_is_caught_by_the_tests_that_catch_it_in_plain_runs(python: str) -> None:
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    records, baselines = run(
        MutationRequest(plans=(PLAN,), pythons=(python,), sources=("plan",), confirm_seconds=0.0, project=ROOT),
        lambda item: None,
    )
    assert all(baseline.forced == "seen" for baseline in baselines)
    assert len(records) == 19
    for record in records:
        planned = expected_on(record.expected, python)
        assert planned is not None, record.name
        (matrix,) = record.matrix.values() or [{}]
        caught = {test.rpartition("::")[2] for test in matrix}
        assert caught == set(planned), record.name
