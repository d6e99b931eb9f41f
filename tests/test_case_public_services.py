"""Public bugs of services: each is found in the release that has it, three runs of three, and not in the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormdrain.lab import read_script
from stormdrain.model import Cell, CellResult, ProbeSpec, Trial, from_json, to_json
from stormdrain.revisions import Cache, available_interpreters, find_interpreters, prepare, resolve
from stormdrain.workers import Worker
from test_public_bugs import TURNS

ROOT = Path(__file__).parents[1]
PYTHON = "3.11"
CASES = {
    "uvicorn_852": ("uvicorn", "0.14.0", "0.15.0", {"returns", "nothing-left"}),
    "dramatiq_465": ("dramatiq", "1.12.1", "1.12.3", {"child-reaped"}),
    "mcp_555_service": ("mcp", "1.9.4", "1.12.4", {"returns", "nothing-left"}),
}


def played(name: str, release: str, storms: tuple[str, ...] = ()) -> tuple[list[Trial], CellResult]:
    """All trials of the case's probe on a release."""
    if PYTHON not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {PYTHON} is not on this machine; name it in STORMDRAIN_PYTHONS")
    script = read_script(ROOT / "probes" / "public" / f"{name}.py")
    cache = Cache()
    revision = resolve(f"pypi:{CASES[name][0]}=={release}", project=ROOT, cache=cache)
    environment = prepare(revision, find_interpreters([PYTHON])[0], requires=script.requires, cache=cache)
    trials: list[Trial] = []
    cells: list[CellResult] = []
    asked = {"file": str(script.path), "roots": list(environment.path)}
    with Worker(environment.python, environment.path) as worker:
        (spec,) = (from_json(ProbeSpec, body) for _, body in worker.ask({"do": "list", **asked}))
        cell = to_json(Cell("00000000", spec.name, release, PYTHON, "service"))
        request = {"do": "campaign", "probe": spec.name, "cell": cell, "storms": storms, "canaries": False, **asked}
        for kind, body in worker.ask(request):
            if kind == "trial":
                trials.append(from_json(Trial, body))
            else:
                cells.append(from_json(CellResult, body))
    assert not cells[0].error, cells[0].error
    return trials, cells[0]


@pytest.mark.long
@pytest.mark.parametrize("run", TURNS)
@pytest.mark.parametrize("name", CASES)
def test_the_release_with_the_bug_fails_each_time_in_the_expectation_that_is_about_it(name: str, run: int) -> None:
    _, bad, _, expected = CASES[name]
    trials, cell = played(name, bad)
    assert {finding.expectation for finding in cell.findings} == expected
    for finding in cell.findings:
        assert (finding.failed, finding.runs) == (finding.runs, finding.runs)
        assert finding.runs >= 3
    assert any(trial.verdict.value == "FAIL" for trial in trials)


@pytest.mark.long
@pytest.mark.parametrize("run", TURNS)
@pytest.mark.parametrize("name", CASES)
def test_the_release_without_it_passes(name: str, run: int) -> None:
    trials, cell = played(name, CASES[name][2])
    assert cell.findings == (), [finding.message for finding in cell.findings]
    assert {trial.verdict.value for trial in trials if trial.reached} == {"PASS"}
