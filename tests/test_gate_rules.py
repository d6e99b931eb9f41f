"""The gate's decision: what counts, what is excused, what is accepted, and one line for each rule."""

from __future__ import annotations

import dataclasses
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import cell, failing_cell, finding, passing_cell, run
from stormdrain.gate.decide import conclude, counting
from stormdrain.gate.policy import Accepted, Policy, fate
from stormdrain.gate.rules import Setting, apply_gate
from stormdrain.gate.watched import Watched
from stormdrain.model import CellResult, MutantRecord, RuleResult, Run, StormTally, Verdict
from stormdrain.model.suites import RedGreen

BASE, HEAD = "aaaaaaaa", "bbbbbbbb"
TODAY = datetime.date(2026, 6, 1)


def gate(whole: Run, policy: Policy | None = None, **over: object) -> Run:
    values: dict[str, object] = {"watched": Watched(("3.11", "3.12"), "gate.toml"), "today": TODAY}
    return apply_gate(whole, Setting(policy or Policy(), **{**values, **over}))  # type: ignore[arg-type] # right by name


def rule(whole: Run, name: str) -> RuleResult:
    (found,) = [one for one in whole.rules if one.rule == name]
    return found


def mutant(name: str, **outcome: str) -> MutantRecord:
    outcomes = {python.replace("_", "."): what for python, what in outcome.items()}
    return MutantRecord(f"id-{name}", name, "plan", "edit", "a.py", "A.close", "", outcome=outcomes)


def test_without_a_base_every_finding_counts() -> None:
    decided = conclude(run(failing_cell()))
    assert (decided.verdict, decided.exit_code) == (Verdict.FAIL, 1)


def test_with_a_base_only_new_findings_of_head_decide() -> None:
    both = run(failing_cell(BASE, "base"), failing_cell(HEAD, "head"))
    assert conclude(both).exit_code == 0
    assert conclude(both, Policy(base_rule="all")).exit_code == 1
    only_base = run(failing_cell(BASE, "base"), passing_cell(HEAD, "head"))
    assert conclude(only_base).exit_code == 0
    only_head = run(passing_cell(BASE, "base"), failing_cell(HEAD, "head"))
    assert conclude(only_head).exit_code == 1


def test_a_finding_that_real_time_did_not_show_is_unresolved_and_no_failure() -> None:
    doubt = finding(failed=0, runs=3)
    tally = StormTally("cancel-sweep", Verdict.UNRESOLVED, 12, unresolved=1)
    result = CellResult(cell(), Verdict.UNRESOLVED, storms=(tally,), findings=(doubt,))
    decided = conclude(run(result))
    assert counting(decided, Policy()) == ()
    assert (decided.verdict, decided.exit_code) == (Verdict.UNRESOLVED, 3)
    assert conclude(run(result), Policy(fail_on=("FAIL",))).exit_code == 0


def test_a_broken_cell_gives_its_own_code_whatever_else_failed() -> None:
    broken = CellResult(cell("cccccccc"), Verdict.ERROR, error="calm hung", exit_code=4)
    assert conclude(run(failing_cell(), broken)).exit_code == 4
    assert conclude(run(broken, dataclasses.replace(broken, exit_code=70))).exit_code == 70
    assert conclude(run(dataclasses.replace(broken, exit_code=0))).exit_code == 4


@pytest.mark.parametrize(
    ("kinds", "code"),
    [
        (["red"], 0),
        (["red", "decorative"], 1),
        (["wrong reason"], 1),
        (["unstable", "red"], 3),
        (["broken", "decorative"], 4),
    ],
)
def test_a_new_test_must_fail_without_its_change_and_for_the_right_reason(kinds: list[str], code: int) -> None:
    decided = conclude(run(redgreen=tuple(RedGreen(f"test_{n}", "3.11", kind) for n, kind in enumerate(kinds))))
    assert decided.exit_code == code


def test_nothing_at_all_is_never_a_pass() -> None:
    decided = conclude(run())
    assert (decided.verdict, decided.exit_code) == (Verdict.NA, 3)


def test_only_named_expectations_count_where_fail_is_not_named() -> None:
    assert conclude(run(failing_cell()), Policy(fail_on=("no-hot-spin",))).exit_code == 0
    assert conclude(run(failing_cell()), Policy(fail_on=("child-reaped",))).exit_code == 1


def test_every_rule_has_a_line_with_a_figure() -> None:
    decided = gate(run(passing_cell()))
    assert decided.exit_code == 0
    assert [one.rule for one in decided.rules] == [
        "baseline",
        "findings",
        "unresolved",
        "interpreters",
        "watched",
    ]
    assert all(one.held and one.figure for one in decided.rules)
    assert rule(decided, "baseline").figure == "0 of 1 cell broken"


def test_a_broken_rule_says_where_to_look() -> None:
    decided = gate(run(passing_cell(BASE, "base"), failing_cell(HEAD, "head")))
    assert decided.exit_code == 1
    assert not rule(decided, "findings").held
    assert "1 regressed" in rule(decided, "findings").figure
    assert rule(decided, "findings").look == f"stormdrain replay '{HEAD}/cancel-sweep/f:cancel@3'"


def accepted(id_: str, days: int) -> Accepted:
    return Accepted(id_, "known upstream", TODAY + datetime.timedelta(days), 7)


FOUND = "child-reaped-cancel-sweep"


def test_an_accepted_finding_does_not_count() -> None:
    decided = gate(run(failing_cell()), Policy(accepted=(accepted(FOUND, 100),)))
    assert decided.exit_code == 0
    assert rule(decided, "accepted") == RuleResult("accepted", True, "1 entry")


def test_an_accepted_entry_is_warned_of_14_days_before_it_ends() -> None:
    early = rule(gate(run(failing_cell()), Policy(accepted=(accepted(FOUND, 15),))), "accepted")
    late = rule(gate(run(failing_cell()), Policy(accepted=(accepted(FOUND, 14),))), "accepted")
    last = gate(run(failing_cell()), Policy(accepted=(accepted(FOUND, 0),)))
    assert not early.warning
    assert late.held
    assert late.warning
    assert "ends on" in late.look
    assert last.exit_code == 0


def test_an_entry_that_has_ended_fails_and_its_finding_counts_again() -> None:
    decided = gate(run(failing_cell()), Policy(accepted=(accepted(FOUND, -1),)))
    assert decided.exit_code == 1
    assert not rule(decided, "accepted").held
    assert not rule(decided, "findings").held
    assert "line 7" in rule(decided, "accepted").look
    assert "known upstream" in rule(decided, "accepted").look


def test_an_entry_that_matches_nothing_fails() -> None:
    decided = gate(run(passing_cell()), Policy(accepted=(accepted("gone", 100),)))
    assert decided.exit_code == 1
    assert "gone matches nothing" in rule(decided, "accepted").look


def test_an_entry_is_not_called_unmatched_where_an_interpreter_was_missing() -> None:
    decided = gate(run(passing_cell()), Policy(accepted=(accepted("gone", 100),)), missing=("3.14",))
    assert decided.exit_code == 0
    assert rule(decided, "accepted").warning
    line = rule(decided, "interpreters")
    assert line.held
    assert "3.14 not found" in line.figure
    assert "3.14" in line.look


@pytest.mark.parametrize(
    ("outcome", "watched", "expected"),
    [
        ({"3_11": "caught", "3_12": "missed"}, None, "caught"),
        ({"3_11": "missed", "3_12": "timed out"}, ("3.11", "3.12"), "caught"),
        ({"3_11": "missed", "3_12": "missed"}, None, "survivor"),
        ({"3_11": "uncovered"}, None, "survivor"),
        ({"3_11": "missed", "3_14": "caught"}, ("3.11",), "caught only unwatched"),
        ({"3_11": "missed", "3_14": "caught"}, None, "caught"),
        ({"3_14": "caught"}, ("3.11",), "caught"),
        ({"3_11": "not executed"}, None, "undecided"),
        ({"3_11": "not executed", "3_12": "missed"}, None, "survivor"),
        ({"3_11": "unstable"}, None, "undecided"),
        ({"3_11": "unviable"}, None, "none"),
        ({"3_11": "unviable", "3_12": "unstable"}, None, "undecided"),
        ({}, None, "none"),
    ],
)
def test_the_fate_of_a_mutant_over_interpreters(
    outcome: dict[str, str], watched: tuple[str, ...] | None, expected: str
) -> None:
    assert fate(mutant("m", **outcome), watched) == expected


def test_a_mutant_that_is_the_same_as_another_is_none() -> None:
    same = dataclasses.replace(mutant("m", **{"3_11": "unviable"}), error="compiles to the same as no-scope")
    assert fate(same) == "none"
    assert fate(dataclasses.replace(same, outcome={})) == "undecided"


def test_neutral_and_forced_changes_are_no_mutants() -> None:
    assert fate(dataclasses.replace(mutant("m", **{"3_11": "missed"}), source="neutral")) == "none"


def test_survivors_beyond_the_allowed_number_break_the_gate_and_are_named() -> None:
    lost = run(mutants=(mutant("no-scope", **{"3_11": "missed"}), mutant("ok", **{"3_11": "caught"})))
    decided = gate(lost)
    assert decided.exit_code == 1
    assert rule(decided, "survivors").figure == "1 of 2 mutants survive, 0 allowed"
    assert rule(decided, "survivors").look == "no-scope (id-no-scope)"
    assert gate(lost, Policy(max_survivors=1)).rules[3].held
    by_name = gate(lost, Policy(accepted=(accepted("no-scope", 100),)))
    by_id = gate(lost, Policy(accepted=(accepted("id-no-scope", 100),)))
    assert rule(by_name, "survivors").held
    assert rule(by_id, "survivors").held
    assert rule(by_id, "survivors").figure == "0 of 2 mutants survive, 0 allowed; 1 accepted"


def test_an_entry_for_a_mutant_that_is_caught_now_matches_nothing() -> None:
    decided = gate(run(mutants=(mutant("m", **{"3_11": "caught"}),)), Policy(accepted=(accepted("m", 100),)))
    assert not rule(decided, "accepted").held


def test_a_kill_on_an_interpreter_that_nothing_runs_is_said() -> None:
    almost = run(mutants=(mutant("shield", **{"3_11": "missed", "3_12": "missed", "3_14": "caught"}),))
    decided = gate(almost)
    line = rule(decided, "unwatched")
    assert line.held
    assert line.figure == "1 mutant caught only on 3.14, which nothing runs"
    assert line.look == "shield"
    strict = gate(almost, Policy(unwatched="fail"))
    assert strict.exit_code == 1
    assert not rule(strict, "survivors").held


def test_a_mutant_that_was_not_executed_leaves_the_gate_undecided() -> None:
    decided = gate(run(mutants=(mutant("m", **{"3_11": "not executed"}),)))
    assert decided.exit_code == 3
    assert not rule(decided, "survivors").held


def test_supported_interpreters_that_nothing_runs_are_named_and_not_known_stays_not_known() -> None:
    line = rule(gate(run(passing_cell()), supported=("3.11", "3.12", "3.14")), "watched")
    assert line.warning
    assert line.figure == "3.11, 3.12 (gate.toml); supported, but nothing runs it: 3.14"
    unknown = rule(gate(run(passing_cell()), supported=("3.14",), watched=Watched(None)), "watched")
    assert "not known" in unknown.figure
    assert "nothing runs" not in unknown.figure


kinds = st.sampled_from(["pass", "fail", "error", "unresolved"])


def built(kind: str, key: str, role: str) -> CellResult:
    if kind == "error":
        return CellResult(cell(key, role), Verdict.ERROR, error="broken", exit_code=4)
    if kind == "unresolved":
        tally = StormTally("cancel-sweep", Verdict.UNRESOLVED, 3, unresolved=1)
        return CellResult(cell(key, role), Verdict.UNRESOLVED, storms=(tally,))
    return failing_cell(key, role) if kind == "fail" else passing_cell(key, role)


@given(kinds, kinds, st.sampled_from(["new", "all"]))
def test_exit_0_means_that_nothing_on_head_was_new_open_or_broken(base: str, head: str, rule_: str) -> None:
    whole = run(built(base, BASE, "base"), built(head, HEAD, "head"))
    decided = gate(whole, Policy(base_rule=rule_))
    if decided.exit_code == 0:
        assert base != "error"
        assert head == "pass" or (head == "fail" and base == "fail" and rule_ == "new")
        assert all(one.held for one in decided.rules)
    else:
        assert not all(one.held for one in decided.rules)
    assert decided.exit_code == {"error": 4}.get(base, decided.exit_code)
