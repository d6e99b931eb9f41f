"""The mutants of two real systems under signals, kill by kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stormdrain.model import Baseline, MutantRecord
from stormdrain.mutation.plan import expected_on
from stormdrain.mutation.runner import MutationRequest, run
from stormdrain.revisions import available_interpreters

ROOT = Path(__file__).parents[1]
PYTHONS = os.environ.get("STORMDRAIN_TEST_PYTHONS", "3.12").split()

pytestmark = [pytest.mark.long, pytest.mark.parametrize("python", PYTHONS)]


def put_to_the_tests(name: str, python: str, needs: tuple[str, ...]) -> tuple[dict[str, MutantRecord], Baseline]:
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    if python not in needs:
        pytest.skip(f"the package is for {' and '.join(needs)}")
    plan = ROOT / "mutants" / f"{name}.toml"
    request = MutationRequest(plans=(plan,), pythons=(python,), sources=("plan",), confirm_seconds=0.0, project=ROOT)
    records, baselines = run(request, lambda item: None)
    assert baselines[0].forced == "seen"
    return {record.name: record for record in records}, baselines[0]


def caught_by(record: MutantRecord) -> set[str]:
    (matrix,) = record.matrix.values() or [{}]
    return {test.rpartition("::")[2] for test, result in matrix.items() if result.outcome != "unstable"}


def test_only_a_test_that_looks_at_the_server_notices_that_nobody_tells_it_to_go(python: str) -> None:
    records, baseline = put_to_the_tests("mcp_cassette", python, ("3.12", "3.13", "3.14"))
    # A test that waits for a second is red where that is too short, without any mutant.
    left_out = {test.rpartition("::")[2] for test in baseline.left_out}
    assert left_out <= {"test_sigterm_after_a_second_writes_the_cassette"}
    assert caught_by(records["m1"]) == {"test_sigterm_ends_the_server_too"}
    for name in ("h1", "h2"):
        expected = set(expected_on(records[name].expected, python) or ())
        assert caught_by(records[name]) == expected - left_out


def test_each_way_to_get_the_handler_wrong_is_noticed_by_the_test_that_is_about_it(python: str) -> None:
    records, baseline = put_to_the_tests("hermes_agent", python, ("3.11", "3.12", "3.13"))
    assert not baseline.left_out
    assert set(records) == {"bare", "no-anchor", "no-guard", "no-exemption", "parked"}
    for record in records.values():
        assert caught_by(record) == set(expected_on(record.expected, python) or ()), record.name
