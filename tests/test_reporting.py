"""Reports say what they must, fit where they go, and stay harmless whatever the code under test says."""

from __future__ import annotations

import dataclasses
import html
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from building import (
    CHILD,
    cell,
    failing_cell,
    failing_trial,
    finding,
    observation,
    passing_cell,
    run,
)
from stormdrain.gate.decide import conclude
from stormdrain.model import (
    Baseline,
    CellResult,
    Left,
    MutantRecord,
    Note,
    Point,
    ProbeSpec,
    RuleResult,
    Run,
    Site,
    StormTally,
    TestResult,
    Trial,
    Verdict,
    from_json,
)
from stormdrain.model.suites import RedGreen, Slack
from stormdrain.reporting.formats import FILES, Around, render
from stormdrain.reporting.groups import group_findings, left_over
from stormdrain.reporting.kills import change_lines, expected_on, surprises
from stormdrain.reporting.places import in_tree
from stormdrain.reporting.replayed import print_trial
from stormdrain.reporting.stryker import old_lines
from stormdrain.reporting.suites import KINDS as SUITE_KINDS
from stormdrain.reporting.terminal import print_report

DIFF = """\
--- a/pkg/mod.py
+++ b/pkg/mod.py
@@ -10,4 +10,3 @@ def close():
     if True:
-        proc.kill()
         proc.wait()
     return
"""


def mutant(name: str = "no-kill", **over: object) -> MutantRecord:
    values: dict[str, object] = {
        "id": f"id-{name}",
        "source": "plan",
        "operator": "drop",
        "path": "pkg/mod.py",
        "symbol": "close",
        "diff": DIFF,
        "why": "nothing looks at the child",
        "outcome": {"3.11": "missed", "3.12": "missed"},
        "site": Site("pkg/mod.py", 11, "close", True),
    }
    return MutantRecord(name=name, **{**values, **over})  # type: ignore[arg-type] # values are right by name


def caught(name: str = "no-wait", python: str = "3.11") -> MutantRecord:
    row = {"tests/test_a.py::test_child": TestResult("failed", "assert 1 == 0")}
    return mutant(name, outcome={"3.11": "missed", python: "caught"}, matrix={python: row}, ran={python: 3})


def whole() -> Run:
    """A run with something of everything."""
    both = run(
        failing_cell("aaaaaaaa", "base"),
        failing_cell("bbbbbbbb", "head", finding("bbbbbbbb"), finding("bbbbbbbb", 4, "no-hot-spin", id="spin")),
        CellResult(cell("cccccccc", "head", probe="other"), Verdict.ERROR, error="calm hung\nhere", error_todo="look"),
        trials=(failing_trial("aaaaaaaa"), failing_trial("bbbbbbbb")),
        base="pypi:claude-agent-sdk==0.2.143",
        mutants=(mutant(), caught(), mutant("odd", outcome={}, error="does not compile")),
        baselines=(Baseline("3.11", ("tests/test_a.py::test_child",), {"t::x": "red: boom"}, "seen"),),
        rules=(
            RuleResult("findings", False, "1 counts", "look there"),
            RuleResult("watched", True, "3.11", "", True),
        ),
        unwatched={"watched": "3.11"},
        redgreen=tuple(
            RedGreen("t.py::test_new", "3.11", kind, "ImportError", "no name\nhere") for kind in SUITE_KINDS
        ),
        slack=(Slack("t.py::test_slow", "3.11", 5.0, 0.1, 0.5, 5.0, None, 60.0, 0.05),),
        notes=("a note",),
        errors=("something went wrong",),
    )
    return dataclasses.replace(both, comparison=conclude(both).comparison)


def terminal(of: Run, *, colour: bool = False) -> str:
    stream = io.StringIO()
    print_report(of, stream, Path("reports/x"), colour=colour)
    return stream.getvalue()


def test_a_failure_shows_everything_that_is_needed_to_act_on_it() -> None:
    text = terminal(run(failing_cell(), trials=(failing_trial(),)))
    for part in (
        "FAIL child-reaped under cancel-sweep",
        "transport (3.11.7, asyncio)",
        "the child was still alive 2.0 s after close() ended",
        "subprocess_cli.py:412",
        "in SubprocessCLITransport.close",
        "pid 4711 alive (S): cli --output-format stream-json",
        "3 of 3 failed",
        "child-reaped-cancel-sweep",
        "stormdrain replay aaaaaaaa/cancel-sweep/f:cancel@3",
        "run.json: reports/x/run.json",
    ):
        assert part in text


def test_what_was_not_looked_at_is_counted() -> None:
    storms = (
        StormTally("calm", Verdict.PASS, 2),
        StormTally("fail", Verdict.NA, why="the probe names no calls"),
        StormTally("cancel-pairs", Verdict.NA, not_tried=826),
        StormTally("cancel-sweep", Verdict.UNRESOLVED, 9, 0, 3, 2, 1),
    )
    result = CellResult(
        cell(), Verdict.UNRESOLVED, storms=storms, trials=11, canaries={"a": Verdict.FAIL, "b": Verdict.PASS}
    )
    text = " ".join(terminal(run(result)).split())
    assert "11 trials, 0 failed; 3 not reached, 828 not tried, 1 unresolved, 1 N/A" in text
    assert "fail: the probe names no calls" in text
    assert "cancel-pairs: not tried within the budget" in text
    assert "canaries 1 of 2 flagged" in text


def test_the_head_says_what_was_compared_on_what_and_in_which_clock() -> None:
    slow = passing_cell("bbbbbbbb", "head", clock="real", clock_why="the calm trials differ")
    text = terminal(run(passing_cell("aaaaaaaa", "base"), slow, base="pypi:x==1", head="worktree", seed=7))
    for part in (
        "pypi:x==1",
        "worktree",
        "3.11.7",
        "asyncio",
        "real: the calm trials differ",
        "run.json (environment)",
        "7",
    ):
        assert part in text


def test_a_pass_that_is_worth_little_says_why_where_it_is_read() -> None:
    spec = ProbeSpec("transport", "probes/transport.py", "close")
    raises = Note("calm", "the operation raises when nothing disturbs it: RuntimeError: no")
    hollow = dataclasses.replace(passing_cell(), spec=spec, notes=(raises,))
    for name in ("terminal", "markdown", "github"):
        text = " ".join(html.unescape(render(name, run(hollow))).split())
        assert "caution" in text
        assert "raises when nothing disturbs it" in text.replace("%3A", ":")
        assert "no point at which anything could be thrown" in text
    sound = dataclasses.replace(hollow, notes=(), points=(Point(1),))
    assert "caution" not in render("terminal", run(sound))


@pytest.mark.parametrize("colour", [False, True])
def test_colour_changes_no_word(colour: bool) -> None:
    plain = terminal(whole(), colour=False)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal(whole(), colour=colour)) == plain


def test_no_line_is_wider_than_80_columns_but_what_is_meant_to_be_pasted() -> None:
    long = finding(token="aaaaaaaa/fail(timeout)/w:wait_for=0.02/x:_close_impl.and.much.more.of.it:RuntimeError")
    result = failing_cell("aaaaaaaa", "", long)
    for line in terminal(run(result)).splitlines() + terminal(whole()).splitlines():
        assert len(line) <= 80 or line.lstrip().startswith("stormdrain replay")


def test_findings_of_one_line_are_one_block_over_storms_interpreters_and_parameters() -> None:
    cells = [
        failing_cell(
            key,
            "",
            *[finding(key, point, inherits=f"{key}/x" if point else "") for point in range(3)],
            finding(key, 1, storm="cancel-pairs"),
            probe=probe,
            python=python,
        )
        for key, probe, python in (("aaaaaaaa", "t[a]", "3.9.1"), ("bbbbbbbb", "t[b]", "3.11.7"))
    ]
    (group,) = group_findings(run(*cells))
    assert group.storms == {"cancel-sweep": 6, "cancel-pairs": 2}
    assert group.others == 7
    assert group.probe == "t[a], t[b]"
    assert group.where == "3.9.1 3.11.7, asyncio"
    assert not group.lead.inherits


def test_a_finding_in_doubt_is_told_as_unresolved_and_not_as_a_failure() -> None:
    doubt = finding(failed=0, runs=3)
    result = CellResult(cell(), Verdict.UNRESOLVED, findings=(doubt,))
    text = terminal(run(result))
    assert "FAIL" not in text
    assert "0 of 3 in real time" in text


def test_what_calm_leaves_too_is_not_called_left() -> None:
    pipe, task = (
        Left("pipe", "13 -> pipe:[1]", "pipe"),
        Left("task", "loose", "task", Site("a.py", 3, "f", True)),
    )
    calm = observation(left=(pipe,), processes=())
    seen = observation(left=(pipe, task), processes=(CHILD, dataclasses.replace(CHILD, pid=1, state="gone")))
    assert left_over(seen, calm) == (
        "pid 4711 alive (S): cli --output-format stream-json",
        "task: loose, from a.py:3 in f",
    )


def test_a_replayed_trial_shows_its_timeline() -> None:
    stream = io.StringIO()
    print_trial(failing_trial("aaaaaaaa", 3, "close() starts", "cancel lands"), stream)
    text = stream.getvalue()
    assert text.index("close() starts") < text.index("cancel lands") < text.index("outcome")
    assert "raised <- CancelledError" in text
    assert "FAIL child-reaped" in text


def test_a_survivor_shows_what_was_changed_why_it_matters_and_where() -> None:
    text = terminal(run(mutants=(mutant(), caught()), unwatched={"watched": "3.11"}))
    assert "SURVIVES no-kill" in text
    assert "missed on 3.11, 3.12" in text
    assert "nothing looks at the child" in text
    assert "-proc.kill()" in text.replace("    ", "")
    assert "id-no-kill" in text
    assert "X" in text


def test_a_mutant_that_only_an_unwatched_interpreter_catches_is_told_so() -> None:
    almost = run(mutants=(caught("shield", "3.14"),), unwatched={"watched": "3.11, 3.12"})
    assert "caught only on 3.14, which nothing runs" in terminal(almost)
    assert "caught only on 3.14, which nothing runs" in render("markdown", almost).replace("&#45;", "-")
    unknown = run(mutants=(caught("shield", "3.14"),))
    assert "nothing runs" not in terminal(unknown)


def test_new_tests_are_told_by_what_they_prove_and_tests_by_what_they_bear() -> None:
    text = terminal(whole())
    assert text.index("broken on 3.11") < text.index("decorative on 3.11") < text.index("red on 3.11: test_new")
    assert "ImportError: no name" in text
    (row,) = [line for line in text.splitlines() if line.endswith("  slow")]
    assert row.split() == ["5.00", "0.100", "0.500", "5.00", "60+", "0.050", "slow"]
    assert "| decorative |" in render("markdown", whole())


def test_a_test_that_notices_a_neutral_change_is_named() -> None:
    neutral = dataclasses.replace(caught("rewrite"), source="neutral")
    kept = run(mutants=(neutral, mutant(left={"3.11": 2})))
    assert "reads source  test_child" in terminal(kept)
    assert "2 processes on 3.11" in terminal(kept)
    assert "reads the source instead of running it: `test_child`" in render("markdown", kept)


def test_the_plan_is_held_against_the_matrix() -> None:
    kept = dataclasses.replace(caught(), expected=("test_child", "3.11 nothing", "3.14 test_other"))
    assert expected_on(kept, "3.11") == frozenset()
    assert expected_on(kept, "3.12") == {"test_child"}
    assert expected_on(kept, "3.14") == {"test_other"}
    assert expected_on(caught(), "3.11") is None
    assert surprises(kept) == ("on 3.11 it was noticed by test_child too",)
    missed = dataclasses.replace(mutant(), expected=("test_child",))
    assert surprises(missed)[0] == "on 3.11 it was not noticed by test_child"


def test_the_changed_lines_are_shown_with_one_line_around_them() -> None:
    assert change_lines(mutant()) == [" if True:", "-    proc.kill()", "     proc.wait()"]
    assert change_lines(mutant(diff="")) == []
    long = "@@ -1,40 +1,0 @@\n" + "\n".join(f"-line {n}" for n in range(40))
    assert change_lines(mutant(diff=long), 5)[-1] == "  (35 lines more)"


# Formats that other programs read


def test_junit_has_a_case_for_each_storm_failure_mutant_and_rule() -> None:
    root = ElementTree.fromstring(render("junit", whole()))
    cases = {(case.get("classname"), case.get("name")): case for case in root.iter("testcase")}
    head = "transport [3.11.7 asyncio]"
    assert cases[head, "cancel-sweep: no-hot-spin"].find("failure") is not None
    assert cases[head, "cancel-sweep: child-reaped"].find("skipped") is not None
    assert cases[head, "calm"].find("failure") is None
    assert cases["other [3.11.7 asyncio]", "baseline"].find("error") is not None
    assert cases["mutants", "close: no-kill"].find("failure") is not None
    assert cases["mutants", "close: no-wait"].find("failure") is None
    assert cases["gate", "findings"].find("failure") is not None
    new = [case for (suite, _), case in cases.items() if suite == "new tests on base"]
    assert len(new) == 1
    assert int(root.get("failures", "0")) == 5
    assert int(root.get("tests", "0")) == len(cases) + len(SUITE_KINDS) - 1


def test_sarif_points_at_the_line_in_the_tree_and_says_how_base_compares(tmp_path: Path) -> None:
    site = failing_cell().findings[0].site
    assert site is not None
    there = tmp_path / "src" / site.file
    there.parent.mkdir(parents=True)
    there.write_text("")
    log = json.loads(render("sarif", whole(), Around(root=tmp_path)))
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    results = {result["ruleId"]: result for result in only["results"]}
    place = results["child-reaped"]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": f"src/{site.file}"},
        "region": {"startLine": 412},
    }
    assert results["child-reaped"]["baselineState"] == "unchanged"
    assert results["child-reaped"]["level"] == "note"
    assert results["no-hot-spin"]["baselineState"] == "new"
    assert results["no-hot-spin"]["partialFingerprints"] == {"stormdrainFinding/v1": "spin"}
    assert results["survivor"]["level"] == "error"
    rules = [rule["id"] for rule in only["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in only["results"])
    assert any("calm hung" in one["message"]["text"] for one in only["invocations"][0]["toolExecutionNotifications"])


def test_annotations_are_bounded_and_say_how_many_were_left_out() -> None:
    many = failing_cell("aaaaaaaa", "", *[finding(point=n, site=Site("a.py", n + 1)) for n in range(30)])
    rows = render("github", run(many)).splitlines()
    errors = [row for row in rows if row.startswith("::error ")]
    assert len(errors) == 10
    assert errors[0].startswith("::error file=a.py,line=1,title=")
    assert "and 21 more" in errors[-1]
    assert rows[-1].startswith("::notice ")


def test_the_viewer_of_mutants_gets_lines_at_their_numbers_and_ids_of_tests() -> None:
    report = json.loads(render("stryker", whole()))
    sheet = report["files"]["pkg/mod.py"]
    assert sheet["source"].split("\n")[10] == "        proc.kill()"
    by_id = {one["id"]: one for one in sheet["mutants"]}
    assert by_id["id-no-kill"]["status"] == "Survived"
    assert by_id["id-no-kill"]["location"] == {
        "start": {"line": 11, "column": 1},
        "end": {"line": 11, "column": 20},
    }
    assert by_id["id-no-wait"]["status"] == "Killed"
    tests = {one["id"]: one["name"] for file in report["testFiles"].values() for one in file["tests"]}
    assert [tests[key] for key in by_id["id-no-wait"]["killedBy"]] == ["test_child"]


def test_mutants_of_contradicting_designs_get_files_of_their_own() -> None:
    other = mutant("other", diff=DIFF.replace("if True:", "if False:"))
    report = json.loads(render("stryker", run(mutants=(mutant(), other))))
    assert list(report["files"]) == ["pkg/mod.py", "pkg/mod.py (2)"]


@pytest.mark.parametrize(
    ("diff", "changed"),
    [
        ("@@ -3,1 +3,1 @@\n-a\n+b\n", (3, 3)),
        ("@@ -3,0 +4,1 @@\n+b\n", (3, 3)),
        ("@@ -1,3 +1,2 @@\n a\n-b\n-c\n@@ -9,1 +8,0 @@\n-z\n", (2, 9)),
        ("nonsense", (1, 1)),
        ("", (1, 1)),
    ],
)
def test_the_lines_that_a_diff_changes_are_found(diff: str, changed: tuple[int, int]) -> None:
    assert old_lines(diff)[1:] == changed


def test_json_is_the_run_itself() -> None:
    kept = whole()
    assert from_json(Run, json.loads(render("json", kept))) == kept


def test_a_comment_is_never_longer_than_a_comment_may_be() -> None:
    text = "x" * 500
    many = failing_cell(
        "aaaaaaaa",
        "",
        *[finding(point=n, site=Site(f"{n}.py", 1), message=text, seen=(text,) * 6) for n in range(200)],
    )
    comment = render("markdown", run(many))
    assert len(comment) < 65_536
    assert "more" in comment.splitlines()[-1]
    assert comment.count("<details>") == comment.count("</details>")


def test_a_file_outside_of_the_tree_is_not_looked_up(tmp_path: Path) -> None:
    inside = tmp_path / "tree"
    inside.mkdir()
    (tmp_path / "secret.py").write_text("")
    assert in_tree("../secret.py", inside) == "../secret.py"
    assert in_tree("gone.py", inside) == "gone.py"
    assert in_tree("a.py", None) == "a.py"


# Whatever the code under test says: see test_reporting_hostile.py


def test_a_message_of_a_megabyte_stays_small_in_every_format_for_people() -> None:
    huge = "x" * 1_000_000
    hit = finding(message=huge, seen=(huge,))
    trial = Trial("aaaaaaaa", "cancel-sweep", hit.token, Verdict.FAIL, (hit,), error=huge)
    victim = run(
        dataclasses.replace(failing_cell("aaaaaaaa", "", hit), error=huge),
        trials=(trial,),
        notes=(huge,),
        mutants=(mutant(why=huge, diff="-" + huge),),
    )
    for name in FILES:
        if name != "json":
            assert len(render(name, victim)) < 100_000, name
