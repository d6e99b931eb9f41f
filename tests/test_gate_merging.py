"""The laws of merging: parts of one truth make the whole, in any order, and nothing that a part has is lost."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from building import cell, failing_cell, failing_trial, passing_cell, run
from stormdrain.errors import UsageError
from stormdrain.gate.decide import conclude
from stormdrain.gate.merging import merge_runs, missing_shards, whole
from stormdrain.model import (
    Baseline,
    CellResult,
    JobCoverage,
    MutantRecord,
    Run,
    Site,
    TestResult,
    Touched,
    Trial,
    Verdict,
    numbers,
    ranges,
    to_json,
)
from stormdrain.model.suites import OwnTest, RedGreen, Slack

PYTHONS = ("3.11.7", "3.12.1", "3.13.0")
OUTCOMES = ("caught", "missed", "timed out", "unstable")


def merged(*runs: Run) -> Run:
    return merge_runs([(Path(f"run-{number}"), one) for number, one in enumerate(runs)])


def canonical(one: Run) -> Any:
    """A run as JSON in which the order of records makes no difference; what is added up or decided later left out."""
    left = {"command", "seconds", "started", "verdict", "exit_code", "seed"}

    def rested(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rested(item) for key, item in value.items()}
        if isinstance(value, list):
            return sorted((rested(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
        return value

    return rested({key: value for key, value in to_json(one).items() if key not in left})


# A truth that depends on a name alone, so that parts of it never contradict each other.


def mutant(name: str, pythons: set[str]) -> MutantRecord:
    def outcome(python: str) -> str:
        return OUTCOMES[(int(name[1:]) + PYTHONS.index(python)) % len(OUTCOMES)]

    return MutantRecord(
        name,
        f"drop-{name}",
        "operator",
        "edit",
        "a.py",
        "A.close",
        "-x",
        outcome={python: outcome(python) for python in pythons},
        matrix={python: {"test_a": TestResult("failed", name)} for python in pythons if outcome(python) == "caught"},
        ran=dict.fromkeys(pythons, 3),
        left=dict.fromkeys(pythons, 2),
        confirmed=dict.fromkeys(pythons, "twice more"),
        expected=("test_a",),
        site=Site("a.py", 3, "A.close"),
    )


def trials(key: str) -> tuple[Trial, ...]:
    storm = failing_trial(key)
    confirm = [dataclasses.replace(storm, phase="confirm", error=f"try {number}") for number in range(3)]
    return (storm, *confirm)


mutants = st.dictionaries(st.sampled_from(["m1", "m2", "m3", "m4"]), st.sets(st.sampled_from(PYTHONS), min_size=1))
cells = st.sets(st.sampled_from(["aaaaaaaa", "bbbbbbbb", "cccccccc"]))
lines = st.sets(st.integers(1, 20))


@st.composite
def parts(draw: st.DrawFn) -> Run:
    """A shard, or another job."""
    keys = sorted(draw(cells))
    pythons = sorted(draw(st.sets(st.sampled_from(PYTHONS))))
    kind = st.sampled_from(["pre-existing", "broken by head"])
    return run(
        *(failing_cell(key) if key < "c" else passing_cell(key) for key in keys),
        trials=tuple(trial for key in keys for trial in trials(key)),
        base=draw(st.sampled_from(["main", ""])),
        mutants=tuple(mutant(name, some) for name, some in draw(mutants).items()),
        baselines=tuple(
            Baseline(
                python,
                ("t1", "t2", *(() if (red := draw(st.booleans())) else ("t3",))),
                left_out={"t3": "red: no"} if red else {},
                forced=draw(st.sampled_from(["seen", "not executed: A.close", ""])),
                revision="head",
                lines={"a.py": ranges(draw(lines))},
                spawns=draw(st.integers(0, 2)),
            )
            for python in pythons
        ),
        redgreen=tuple(RedGreen("t1", python, "red") for python in pythons),
        slack=tuple(Slack("t1", python, 1.0, 0.5) for python in pythons),
        own=tuple(OwnTest("t3", python, draw(kind)) for python in pythons),
        touched=draw(st.sampled_from([(), (Touched("a.py", "src/a.py", "1-20"),)])),
        coverage=tuple(
            JobCoverage(name, lines={"a.py": ranges(draw(lines))})
            for name in sorted(draw(st.sets(st.sampled_from(["mac", "win"]))))
        ),
        environment=dict.fromkeys(pythons, ("a==1",)),
        unwatched=draw(st.sampled_from([{}, {"watched": "3.11"}])),
        errors=draw(st.sampled_from([(), ("no room",)])),
        notes=draw(st.sampled_from([(), ("a note",), ("another", "a note")])),
        interrupted=draw(st.booleans()),
    )


@settings(max_examples=30)
@given(parts())
def test_a_run_merged_with_itself_is_itself(one: Run) -> None:
    normal = canonical(merged(one))
    assert canonical(merged(one, one)) == normal
    assert len(merged(one).trials) == len(one.trials)
    assert {key: value for key, value in normal.items() if key in ("cells", "trials", "mutants", "coverage")} == {
        key: value
        for key, value in canonical(merged(one, run())).items()
        if key in ("cells", "trials", "mutants", "coverage")
    }


@settings(max_examples=30)
@given(st.lists(parts(), min_size=2, max_size=3))
def test_the_order_of_runs_makes_no_difference(some: list[Run]) -> None:
    first = canonical(merged(*some))
    for order in itertools.permutations(some):
        assert canonical(merged(*order)) == first


@settings(max_examples=30)
@given(parts(), parts(), parts())
def test_runs_may_be_merged_in_steps(one: Run, two: Run, three: Run) -> None:
    at_once = canonical(merged(one, two, three))
    assert canonical(merged(merged(one, two), three)) == at_once
    assert canonical(merged(one, merged(two, three))) == at_once


@settings(max_examples=30)
@given(st.lists(parts(), min_size=1, max_size=3))
def test_nothing_that_a_part_has_is_lost(some: list[Run]) -> None:
    all_ = merged(*some)
    by_id = {one.id: one for one in all_.mutants}
    ran = {one.python: one for one in all_.baselines}
    for part in some:
        assert {one.cell.key for one in part.cells} <= {one.cell.key for one in all_.cells}
        assert all(one in all_.trials for one in part.trials)
        for one in part.mutants:
            for name in ("outcome", "matrix", "ran", "left", "confirmed"):
                assert getattr(one, name).items() <= getattr(by_id[one.id], name).items(), name
            assert (by_id[one.id].site, by_id[one.id].expected) == (one.site, one.expected)
        for baseline in part.baselines:
            assert numbers(baseline.lines["a.py"]) <= numbers(ran[baseline.python].lines["a.py"])
            assert baseline.left_out.items() <= ran[baseline.python].left_out.items()
            assert not set(baseline.tests) - set(ran[baseline.python].tests) - set(ran[baseline.python].left_out)
        for what in ("redgreen", "slack", "touched", "errors", "notes"):
            assert all(one in getattr(all_, what) for one in getattr(part, what)), what
        assert part.environment.items() <= all_.environment.items()
        assert all_.interrupted >= part.interrupted


@settings(max_examples=30)
@given(st.lists(parts(), min_size=1, max_size=3))
def test_a_merge_never_decides_better_than_its_parts_allow(some: list[Run]) -> None:
    decided = whole(conclude(merged(*some)), some)
    if decided.exit_code == 0:
        assert not any(part.interrupted or part.errors for part in some)
        assert all(outcome != "missed" for one in decided.mutants for outcome in one.outcome.values()) or all(
            {"caught", "timed out"} & set(one.outcome.values()) for one in decided.mutants
        )
        assert not any(one.kind == "broken by head" for one in decided.own)
    if any(part.errors for part in some):
        assert decided.verdict is Verdict.ERROR


def test_an_error_that_ended_a_part_is_the_whole_s(tmp_path: Path) -> None:
    good = run(passing_cell())
    bad = run(passing_cell("bbbbbbbb"), errors=("no room",), exit_code=2, verdict=Verdict.ERROR)
    worse = dataclasses.replace(bad, exit_code=70)
    assert whole(conclude(merged(good, bad)), [good, bad]).exit_code == 2
    assert whole(conclude(merged(bad, worse)), [bad, worse]).exit_code == 70
    cut = dataclasses.replace(good, interrupted=True)
    decided = whole(conclude(merged(cut, good)), [cut, good])
    assert (decided.verdict, decided.exit_code) == (Verdict.UNRESOLVED, 3)


def test_a_shard_that_was_not_merged_is_named_and_leaves_it_undecided() -> None:
    first = run(mutants=(mutant("m4", {"3.11.7"}),), command=("stormdrain", "mutate", "--shard", "1/3"))
    third = run(mutants=(), command=("stormdrain", "mutate", "--shard=3/3"))
    assert missing_shards([first, third]) == ("shard 2/3",)
    decided = whole(conclude(merged(first, third)), [first, third])
    assert decided.exit_code == 3
    assert "not merged: shard 2/3" in decided.notes
    second = run(mutants=(), command=("stormdrain", "mutate", "--shard", "2/3"))
    assert whole(conclude(merged(first, second, third)), [first, second, third]).exit_code == 0


@pytest.mark.parametrize(
    ("one", "two", "what"),
    [
        (run(head="a"), run(head="b"), "of different revisions"),
        (run(touched=(Touched("a.py", "", "1"),)), run(touched=(Touched("a.py", "", "2"),)), "of different code"),
        (
            run(redgreen=(RedGreen("t", "3.11", "red"),)),
            run(redgreen=(RedGreen("t", "3.11", "decorative"),)),
            "is red in one run and decorative in another",
        ),
        (
            run(CellResult(cell(), Verdict.PASS)),
            run(CellResult(cell(), Verdict.UNRESOLVED)),
            "is PASS in one run and UNRESOLVED in another",
        ),
    ],
)
def test_what_contradicts_is_an_error_with_the_run_s_name(one: Run, two: Run, what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        merged(one, two)
    assert "run-1" in caught.value.where
    assert caught.value.todo
