"""Released versions with a fault that became known, and those without: the probes in probes/public tell them apart.

Those of the interpreter itself need no package and run always, one run each; the
others install old releases and run three times, or as often as STORMDRAIN_TURNS says:

    STORMDRAIN_TURNS=20 pytest --long tests/test_public_bugs.py tests/test_case_public_services.py
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from stormdrain.lab import ProbeRequest, run_probes
from stormdrain.model import CellResult, Verdict
from stormdrain.revisions import available_interpreters

FOLDER = Path(__file__).parents[1] / "probes" / "public"
TURNS = range(1, 1 + int(os.environ.get("STORMDRAIN_TURNS", "3")))
"""How often each release is run."""


@dataclass(frozen=True)
class Case:
    """A script, the expectation that tells, and the releases: (revision, interpreter)."""

    script: str
    expectation: str
    bad: tuple[str, str]
    good: tuple[str, str]

    @property
    def sides(self) -> list[object]:
        name = self.script.removesuffix(".py")
        return [
            pytest.param(self.script, self.expectation, *self.bad, True, id=f"{name}-bad"),
            pytest.param(self.script, self.expectation, *self.good, False, id=f"{name}-good"),
        ]


CASES = (
    Case("anyio_669.py", "child-reaped", ("pypi:anyio==4.2.0", "3.11"), ("pypi:anyio==4.3.0", "3.11")),
    Case("anyio_1111.py", "no-hot-spin", ("pypi:anyio==4.13.0", "3.12"), ("pypi:anyio==4.16.0", "3.12")),
    Case("redis_2665.py", "follow-up-works", ("pypi:redis==4.5.3", "3.11"), ("pypi:redis==4.5.5", "3.11")),
    Case(
        "aiosqlite_317.py",
        "exits-cleanly",
        ("pypi:aiosqlite==0.20.0", "3.11"),
        ("pypi:aiosqlite==0.21.0", "3.11"),
    ),
    Case(
        "aiohttp_7479.py",
        "cancel-count-balanced",
        ("pypi:aiohttp==3.10.5", "3.11"),
        ("pypi:aiohttp==3.10.10", "3.11"),
    ),
    Case("quart_339.py", "no-loop-reports", ("pypi:quart==0.19.5", "3.11"), ("pypi:quart==0.20.0", "3.11")),
    Case("mcp_555.py", "returns", ("pypi:mcp==1.9.4", "3.11"), ("pypi:mcp==1.12.4", "3.11")),
)
STDLIB = (
    pytest.param("cpython_86296.py", "cancellation-delivered", "stdlib", "3.11", True, id="cpython_86296-3.11"),
    pytest.param("cpython_86296.py", "cancellation-delivered", "stdlib", "3.12", False, id="cpython_86296-3.12"),
    pytest.param("cpython_134471.py", "cancellation-delivered", "stdlib", "3.11", True, id="cpython_134471-3.11"),
    pytest.param("cpython_134471.py", "cancellation-delivered", "stdlib", "3.12", True, id="cpython_134471-3.12"),
)


def run(script: str, revision: str, python: str, budget: int | None = None) -> CellResult:
    """The result of the script's one cell."""
    if python not in {interpreter.version for interpreter in available_interpreters()}:
        pytest.skip(f"Python {python} is not on this machine; name it in STORMDRAIN_PYTHONS")
    request = ProbeRequest((FOLDER / script,), head=revision, pythons=(python,), budget_trials=budget)
    (cell,), _ = run_probes(request, lambda item: None)
    return cell


def told(cell: CellResult) -> str:
    lines = [f"{cell.verdict.value} {cell.error}"]
    return "\n".join(
        lines + [f"{one.token} {one.expectation} {one.failed}/{one.runs}: {one.message}" for one in cell.findings]
    )


def check(cell: CellResult, expectation: str, bad: bool) -> None:
    """Bad: it fails, in the named expectation, confirmed in real time. Good: it passes, with all canaries flagged."""
    assert cell.canaries, told(cell)
    assert set(cell.canaries.values()) == {Verdict.FAIL}, told(cell)
    if bad:
        assert cell.verdict is Verdict.FAIL, told(cell)
        assert [one for one in cell.findings if one.expectation == expectation and one.failed], told(cell)
    else:
        assert cell.verdict is Verdict.PASS, told(cell)


@pytest.mark.parametrize(("script", "expectation", "revision", "python", "bad"), STDLIB)
def test_a_fault_of_the_interpreter_is_told_from_its_absence(
    script: str, expectation: str, revision: str, python: str, bad: bool
) -> None:
    check(run(script, revision, python, budget=12), expectation, bad)


@pytest.mark.long
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(
    ("script", "expectation", "revision", "python", "bad"), [*STDLIB, *(side for case in CASES for side in case.sides)]
)
def test_a_release_with_a_known_fault_fails_there_and_one_without_it_passes(
    script: str, expectation: str, revision: str, python: str, bad: bool, turn: int
) -> None:
    check(run(script, revision, python), expectation, bad)
