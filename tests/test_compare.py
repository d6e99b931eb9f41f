"""Base against head: each kind of change, and that what is not known is never called passing."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from building import (
    cell,
    failing_cell,
    failing_trial,
    finding,
    passing_cell,
    passing_trial,
)
from stormdrain.compare import KINDS, aspect_of, compare
from stormdrain.model import CellResult, Change, Event, Note, StormTally, Trial, Verdict
from stormdrain.reporting.timeline import first_difference

BASE, HEAD = "aaaaaaaa", "bbbbbbbb"


def only(changes: tuple[Change, ...], expectation: str = "child-reaped") -> Change:
    (found,) = [change for change in changes if change.expectation == expectation]
    return found


def test_a_finding_that_head_no_longer_has_is_fixed_and_shown_from_the_first_difference() -> None:
    changes = compare(
        [failing_cell(BASE, "base"), passing_cell(HEAD, "head")],
        [
            failing_trial(BASE, 3, "close() starts", "cancel lands"),
            passing_trial(HEAD, 3, "close() starts", "SIGTERM"),
        ],
    )
    change = only(changes)
    assert change.kind == "fixed"
    assert change.base == f"{BASE}/cancel-sweep/f:cancel@3"
    assert change.head == f"{HEAD}/cancel-sweep/f:cancel@3"
    assert change.differs_from == "event 2: base: cancel lands at 1.00 s; head: SIGTERM at 1.00 s"


def test_a_finding_that_base_did_not_have_is_regressed() -> None:
    change = only(compare([passing_cell(BASE, "base"), failing_cell(HEAD, "head")], []))
    assert change.kind == "regressed"
    assert change.head == f"{HEAD}/cancel-sweep/f:cancel@3"


def test_a_finding_of_both_is_still_failing_and_says_how_often_on_each_side() -> None:
    more = [finding(HEAD, point) for point in (3, 4, 5)]
    change = only(compare([failing_cell(BASE, "base"), failing_cell(HEAD, "head", *more)], []))
    assert change.kind == "still failing"
    assert "1 of 12 on base, 3 of 12 on head" in change.message


def test_a_storm_that_fails_on_neither_is_still_passing() -> None:
    changes = compare([passing_cell(BASE, "base"), passing_cell(HEAD, "head")], [])
    assert {(change.kind, change.storm) for change in changes} == {
        ("still passing", "calm"),
        ("still passing", "cancel-sweep"),
    }


def test_a_probe_that_only_head_has_is_new() -> None:
    changes = compare(
        [
            passing_cell(BASE, "base"),
            passing_cell(HEAD, "head"),
            failing_cell("cccccccc", "head", probe="other"),
        ],
        [],
    )
    assert only(changes).kind == "new"
    assert only(changes).probe == "other"


def test_an_expectation_that_does_not_apply_on_base_is_told_apart() -> None:
    quiet = dataclasses.replace(passing_trial(BASE), na=(Note("child-reaped", "no child"),))
    change = only(compare([passing_cell(BASE, "base"), failing_cell(HEAD, "head")], [quiet]))
    assert change.kind == "N/A on base"
    assert "no child" in change.message


def test_a_storm_that_does_not_apply_on_base_is_told_apart() -> None:
    none = dataclasses.replace(
        passing_cell(BASE, "base"), storms=(StormTally("cancel-sweep", Verdict.NA, why="no _close_impl"),)
    )
    change = only(compare([none, failing_cell(HEAD, "head")], []))
    assert change.kind == "N/A on base"
    assert "no _close_impl" in change.message


def unresolved(key: str, role: str) -> CellResult:
    tally = StormTally("cancel-sweep", Verdict.UNRESOLVED, 12, 0, 0, 0, 2)
    return CellResult(cell(key, role), Verdict.UNRESOLVED, storms=(tally,))


def test_a_side_that_could_not_be_decided_is_never_a_side_that_passed() -> None:
    assert only(compare([unresolved(BASE, "base"), failing_cell(HEAD, "head")], [])).kind == "inconclusive"
    assert only(compare([failing_cell(BASE, "base"), unresolved(HEAD, "head")], [])).kind == "inconclusive"
    changes = compare([passing_cell(BASE, "base"), unresolved(HEAD, "head")], [])
    assert [change.kind for change in changes if change.storm == "cancel-sweep"] == ["inconclusive"]


def test_a_broken_baseline_makes_the_pair_inconclusive() -> None:
    broken = CellResult(cell(BASE, "base"), Verdict.ERROR, error="calm hung", exit_code=4)
    changes = compare([broken, failing_cell(HEAD, "head")], [])
    assert {change.kind for change in changes if change.expectation or not change.storm} == {"inconclusive"}
    assert any("calm hung" in change.message for change in changes)
    broken_head = dataclasses.replace(broken, cell=cell(HEAD, "head"))
    assert only(compare([failing_cell(BASE, "base"), broken_head], [])).kind == "inconclusive"


def test_what_breaks_in_calm_on_head_is_not_called_fixed_in_the_storms() -> None:
    calm = finding(HEAD, storm="calm", token=f"{HEAD}/calm")
    changes = compare([failing_cell(BASE, "base"), failing_cell(HEAD, "head", calm)], [])
    kinds = {change.storm: change.kind for change in changes if change.expectation}
    assert kinds == {"calm": "regressed", "cancel-sweep": "inconclusive"}


def test_what_broke_in_calm_on_base_is_not_called_a_regression_in_a_storm() -> None:
    calm = finding(BASE, storm="calm", token=f"{BASE}/calm")
    changes = compare([failing_cell(BASE, "base", calm), failing_cell(HEAD, "head")], [])
    kinds = {change.storm: change.kind for change in changes if change.expectation}
    assert kinds == {"calm": "fixed", "cancel-sweep": "still failing"}


def test_a_fix_says_what_was_not_tried_on_head() -> None:
    cut = dataclasses.replace(
        passing_cell(HEAD, "head"), storms=(StormTally("cancel-sweep", Verdict.PASS, 8, not_tried=4),)
    )
    change = only(compare([failing_cell(BASE, "base"), cut], []))
    assert change.kind == "fixed"
    assert "4 not tried on head" in change.message


RAISES, DENIED = "fail(alone)/x:_close_impl:RuntimeError", "fail(alone)/x:_process.terminate:PermissionError"


def fails(key: str, role: str, schedule: str, *quiet: Trial) -> tuple[CellResult, list[Trial]]:
    hit = finding(key, storm="fail", token=f"{key}/{schedule}")
    tally = StormTally("fail", Verdict.FAIL, 1 + len(quiet), 1)
    trial = Trial(key, "fail", hit.token, Verdict.FAIL, (hit,))
    return CellResult(cell(key, role), Verdict.FAIL, storms=(tally,), findings=(hit,)), [trial, *quiet]


def test_one_failing_call_does_not_excuse_another() -> None:
    passed = Trial(BASE, "fail", f"{BASE}/{RAISES}", Verdict.PASS)
    base, base_trials = fails(BASE, "base", DENIED, passed)
    head, head_trials = fails(HEAD, "head", RAISES)
    kinds = {change.aspect: change.kind for change in compare([base, head], [*base_trials, *head_trials])}
    assert kinds == {
        "alone _close_impl:RuntimeError": "regressed",
        "alone _process.terminate:PermissionError": "inconclusive",
    }


def test_a_schedule_that_base_does_not_have_or_reach_is_told_apart() -> None:
    base, base_trials = fails(BASE, "base", DENIED)
    head, head_trials = fails(HEAD, "head", RAISES)
    (missing,) = [c for c in compare([base, head], [*base_trials, *head_trials]) if "_close_impl" in c.aspect]
    assert (missing.kind, "no such schedule" in missing.message) == ("N/A on base", True)
    apart = Trial(BASE, "fail", f"{BASE}/{RAISES}", Verdict.NA, reached=False)
    (unreached,) = [c for c in compare([base, head], [*base_trials, apart, *head_trials]) if "_close" in c.aspect]
    assert (unreached.kind, "does not come" in unreached.message) == ("N/A on base", True)


def test_the_aspect_of_a_schedule_leaves_out_points_and_seconds() -> None:
    assert aspect_of("aaaaaaaa/cancel-sweep/f:cancel@3") == ""
    assert aspect_of("aaaaaaaa/timeout(edge)/w:wait_for=4.99") == "edge wait_for"
    assert aspect_of("aaaaaaaa/cancel-sweep/w:scope/f:scope@3") == ""
    assert aspect_of(f"aaaaaaaa/{RAISES}") == "alone _close_impl:RuntimeError"
    assert aspect_of("nonsense") == ""


def test_interpreters_and_backends_are_not_mixed() -> None:
    changes = compare(
        [
            failing_cell(BASE, "base", python="3.11.7"),
            passing_cell(HEAD, "head", python="3.12.1"),
            passing_cell("cccccccc", "head", python="3.11.7", backend="trio"),
        ],
        [],
    )
    assert only(changes).kind == "inconclusive"
    assert only(changes).python == "3.11.7"


def test_without_a_base_there_is_nothing_to_compare() -> None:
    assert compare([failing_cell()], []) == ()


def test_pids_addresses_and_lines_are_no_difference() -> None:
    base = [
        Event(0, "start"),
        Event(1, "child", "pid 4711 at 0x7f00 /tmp/a/cli"),
        Event(2, "end", "close.py:12"),
    ]
    head = [
        Event(0, "start"),
        Event(5, "child", "pid 99123 at 0x8f00 /tmp/b/cli"),
        Event(2, "end", "close.py:19"),
    ]
    assert first_difference(base, head) == ""
    entered = [Event(0, "start"), Event(0, "entered", "_close_impl"), *head[1:]]
    assert first_difference(base, entered) == ""
    assert first_difference(base[:2], head) == "event 3: base: nothing more; head: end close.py:19 at 2.00 s"


sides = st.sampled_from(["pass", "fail", "unresolved", "error", "absent"])


def build(kind: str, key: str, role: str) -> list[CellResult]:
    return {
        "pass": [passing_cell(key, role)],
        "fail": [failing_cell(key, role)],
        "unresolved": [unresolved(key, role)],
        "error": [CellResult(cell(key, role), Verdict.ERROR, error="broken")],
        "absent": [],
    }[kind]


@given(sides, sides)
def test_every_finding_on_head_is_accounted_for_and_nothing_is_fixed_unless_head_passed(base: str, head: str) -> None:
    cells = build(base, BASE, "base") + build(head, HEAD, "head")
    trials: list[Trial] = []
    changes = compare(cells, trials)
    assert all(change.kind in KINDS for change in changes)
    if base != "absent" and head == "fail":
        assert only(changes).head
    if any(change.kind == "fixed" for change in changes):
        assert (base, head) == ("fail", "pass")
    if any(change.kind == "regressed" for change in changes):
        assert (base, head) == ("pass", "fail")
