"""Base is asked for the very schedules in which head fails, and where it cannot be asked that is said by name."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import failing_trial, finding, passing_trial
from revising import pond, write
from stormdrain.asking import ASKED, OF_EACH, to_ask
from stormdrain.compare import compare
from stormdrain.errors import UsageError
from stormdrain.lab import ProbeRequest, run_probes
from stormdrain.model import CellResult, Change, Trial, Verdict
from stormdrain.revisions import Cache
from stormdrain.storms import SEARCH

# -- which ones ----------------------------------------------------------------

BASE, HEAD = "aaaaaaaa", "bbbbbbbb"


def at(*points: int) -> list[str]:
    return [f"cancel-sweep/f:cancel@{point}" for point in points]


def test_what_head_fails_in_and_base_never_ran_is_asked() -> None:
    head = [failing_trial(HEAD, 3), passing_trial(HEAD, 4), failing_trial(HEAD, 5)]
    assert list(to_ask(head, [])) == at(3, 5)
    assert list(to_ask(head, [passing_trial(BASE, 3)])) == at(5)
    assert to_ask(head, [passing_trial(BASE, 3), passing_trial(BASE, 5)]) == ()


def test_nothing_is_asked_about_what_base_fails_in_as_well() -> None:
    assert to_ask([failing_trial(HEAD, 3)], [failing_trial(BASE, 9)]) == ()


def test_calm_and_the_search_are_not_asked_about() -> None:
    hit = finding(HEAD, 3, storm=SEARCH)
    searched = Trial(HEAD, SEARCH, hit.token, Verdict.FAIL, (hit,))
    calm = dataclasses.replace(failing_trial(HEAD, 3), phase="calm")
    assert to_ask([searched, calm], []) == ()


@given(st.lists(st.tuples(st.integers(1, 300), st.sampled_from(["returns", "child-reaped", "prompt"]))))
def test_no_more_is_asked_than_so_much_and_every_kind_gets_its_turn(failures: list[tuple[int, str]]) -> None:
    head = []
    for point, expectation in failures:
        hit = finding(HEAD, point, expectation)
        head.append(Trial(HEAD, hit.storm, hit.token, Verdict.FAIL, (hit,)))
    asked = to_ask(head, [])
    failed = {(f"cancel-sweep/f:cancel@{point}", expectation) for point, expectation in failures}
    assert len(asked) == len(set(asked)) <= min(ASKED, 3 * OF_EACH)
    assert {text for text, _ in failed} >= set(asked)
    assert {expectation for _, expectation in failed} == {e for text, e in failed if text in asked}
    # Once base has run them, the same question has no more to ask.
    ran = [Trial(BASE, "cancel-sweep", f"{BASE}/{text}", Verdict.PASS) for text in asked]
    assert to_ask(head, ran) == ()


# -- on real subjects ----------------------------------------------------------

LONG = """
import asyncio

class Pump:
    async def start(self):
        self.task = asyncio.ensure_future(asyncio.sleep(3600))
        await asyncio.sleep(0)

    async def close(self):
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.task.cancel()
            raise
        GAP
        self.task.cancel()
"""
"""It leaks where it is cancelled after a run of other places."""
SHORT = LONG.replace(
    "            await asyncio.sleep(0)\n" * 6, "            for _ in range(6): await asyncio.sleep(0)\n"
)
"""It leaks at the same point; on the way there it is at one line only."""
LEAK = "await asyncio.sleep(0)"
TIDY = "await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0))}) if self.task.cancel() else None"

PROBE = """
from stormdrain import probe
from pond.pump import Pump

@probe(operation="close", storms=["cancel-sweep"])
async def pump(case):
    subject = Pump()
    await subject.start()
    yield subject
"""


def compared(
    folder: Path, base: str, head: str, probe: str = PROBE, **over: object
) -> tuple[list[CellResult], list[Change]]:
    """Base and head of a package `pond.pump` with these texts, and how they compare."""
    for name, text in (("base", base), ("head", head)):
        pond(folder / name, files={"src/pond/pump.py": text})
    write(folder, {"probes/pump.py": probe})
    values: dict[str, object] = {"budget_trials": 4, "confirm": False, "reuse": True, "jobs": 1} | over
    request = ProbeRequest(
        (folder / "probes",),
        base=f"path:{folder / 'base'}",
        head=f"path:{folder / 'head'}",
        pythons=(sys.executable,),
        project=folder,
        cache=Cache(folder / "cache"),
        **values,  # type: ignore[arg-type] # right by name
    )
    cells, trials = run_probes(request, lambda item: None)
    return list(cells), list(compare(cells, trials))


@pytest.mark.parametrize(
    ("gap", "kind", "more"), [(LEAK, "still failing", 1), (TIDY, "regressed", 2)], ids=["leaks too", "does not"]
)
def test_a_budget_that_ends_before_the_place_of_a_finding_does_not_leave_base_unasked(
    tmp_path: Path, gap: str, kind: str, more: int
) -> None:
    short, long = SHORT.replace("GAP", LEAK), LONG.replace("GAP", gap)
    cells, changes = compared(tmp_path, long, short)
    (change,) = [one for one in changes if one.expectation]
    assert (change.kind, change.expectation) == (kind, "no-leaked-tasks"), changes
    assert change.base.partition("/")[2] == change.head.partition("/")[2] != ""
    base = cells[0]
    (tally,) = [tally for tally in base.storms if tally.storm == "cancel-sweep"]
    assert tally.trials > 4
    assert tally.trials + tally.not_tried == len(base.points)
    # Nothing has changed: what was asked is known, too.
    again, same = compared(tmp_path, long, short)
    assert [one.kind for one in same if one.expectation] == [kind]
    assert ["known" in {note.expectation for note in cell.notes} for cell in again] == [True, True]


NEWER = "from pond.pump import Pump, DEPTH"


def test_a_script_that_imports_what_only_head_has_is_not_asked_of_base_and_head_counts(tmp_path: Path) -> None:
    head = "DEPTH = 3\n" + SHORT.replace("GAP", LEAK)
    script = PROBE.replace("from pond.pump import Pump", NEWER)
    cells, changes = compared(tmp_path, LONG.replace("GAP", LEAK), head, script)
    assert [(cell.cell.role, cell.verdict) for cell in cells] == [("base", Verdict.NA), ("head", Verdict.FAIL)]
    assert cells[0].error.startswith("base could not be asked: The probe script does not import: ImportError")
    assert "DEPTH" in cells[0].error
    (change,) = [one for one in changes if one.expectation]
    assert change.kind == "N/A on base"
    assert "base could not be asked" in change.message


def test_a_script_that_imports_nowhere_is_a_mistake_of_its_own(tmp_path: Path) -> None:
    script = PROBE.replace("from pond.pump import Pump", NEWER)
    with pytest.raises(UsageError, match="DEPTH") as caught:
        compared(tmp_path, LONG.replace("GAP", LEAK), SHORT.replace("GAP", LEAK), script)
    assert str(tmp_path / "head") in caught.value.where


@pytest.mark.long
def test_other_scripts_of_a_run_go_on_where_base_could_not_be_asked_for_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"probes/newer.py": PROBE.replace("from pond.pump import Pump", NEWER).replace("def pump", "def newer")},
    )
    cells, _ = compared(tmp_path, LONG.replace("GAP", LEAK), "DEPTH = 3\n" + LONG.replace("GAP", LEAK), budget_trials=2)
    found = {(cell.cell.probe, cell.cell.role): cell.verdict for cell in cells}
    assert found["newer", "base"] is Verdict.NA
    assert found["pump", "base"] is Verdict.PASS
    assert len(found) == 4
