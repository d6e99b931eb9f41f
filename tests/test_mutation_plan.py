"""Mutant plans: read with everything in its place, refused in words, and put to a suite as they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from revising import write
from stormdrain.errors import UsageError
from stormdrain.model import Baseline, MutantRecord
from stormdrain.mutation.plan import anchored, expected, expected_on, names_match, read_plan
from stormdrain.mutation.runner import MutationRequest, completed, find_tests, run
from stormdrain.revisions import Cache, EnvironmentConfig, Revision, available_interpreters

PLAN = """
[target]
head = "path:../new"
base = "path:../old"
tests = ["tests"]
requires = ["pytest>=8"]
watched = ["3.11"]

[[mutant]]
name = "no-double"
why = "nothing holds the figure"
caught_by = ["test_double"]
[[mutant.edit]]
module = "pond.pipe"
symbol = "double"
old = "* 2"
new = "* 3"

[[mutant]]
name = "no-rest"
[mutant.caught_by]
"3.14" = ["test_rest"]
"*" = []
[[mutant.edit]]
module = "pond.pipe"
symbol = "rest"
replace = '''
def rest():
    return 0
'''
"""


def test_a_plan_is_read_and_looks_revisions_up_beside_itself(tmp_path: Path) -> None:
    write(tmp_path, {"plans/plan.toml": PLAN, "new/x": "", "old/x": ""})
    plan = read_plan(tmp_path / "plans/plan.toml")
    assert plan.head == f"path:{tmp_path / 'new'}"
    assert plan.watched == ("3.11",)
    assert [mutant.name for mutant in plan.mutants] == ["no-double", "no-rest"]
    assert plan.mutants[0].why == "nothing holds the figure"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x =", "not TOML"),
        ("[targets]\n", "no key 'targets'"),
        ("[target]\nhaed = 'x'\n", "no key 'haed'"),
        ("[target]\ntests = 'x'\n", "wrong type"),
        ("[[mutant]]\nname = 'a b'\n", "no name"),
        ("[[mutant]]\nname = 'a'\n", "no [[edit]]"),
        ("[[mutant]]\nname = 'a'\n[[mutant.edit]]\npath = 'x.py'\n", "exactly one thing"),
        (
            "[[mutant]]\nname = 'a'\ncaught_by = [1]\n[[mutant.edit]]\npath='x.py'\nold='a'\nnew='b'\n",
            "strings",
        ),
        ("[[mutant]]\nname='a'\n[[mutant.edit]]\npath='x'\nold='a'\nnew='b'\n" * 2, "two mutants"),
    ],
)
def test_a_plan_that_is_wrong_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "plan.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan(file)
    assert said in str(caught.value)
    assert str(file) in caught.value.where
    assert caught.value.todo


def test_a_plan_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_plan(tmp_path / "plan.toml")


def test_overlays_are_looked_up_beside_the_plan_and_versions_are_not_taken_for_files(tmp_path: Path) -> None:
    write(tmp_path, {"a.toml": "", "b.patch": ""})
    assert anchored("pypi:x==1.0+a.toml+b.patch", tmp_path) == f"pypi:x==1.0+{tmp_path}/a.toml+{tmp_path}/b.patch"
    assert anchored("pypi:x==1.0+local", tmp_path) == "pypi:x==1.0+local"
    assert anchored("main", tmp_path) == "main"


def test_expectations_are_kept_for_each_interpreter() -> None:
    kept = expected({"3.14": ("test_a", "test_b[x]"), "3.10": (), "*": ("test_c",)})
    assert expected_on(kept, "3.14.1") == ("test_a", "test_b[x]")
    assert expected_on(kept, "3.10") == ()
    assert expected_on(kept, "3.12.1") == ("test_c",)
    assert expected_on(expected(None), "3.12") is None
    assert expected_on(expected({"*": ()}), "3.12") == ()


def test_a_test_is_meant_by_function_with_or_without_parameters() -> None:
    test = "tests/test_x.py::test_a[asyncio]"
    assert names_match("test_a", test)
    assert names_match("test_a[asyncio]", test)
    assert names_match(test, test)
    assert not names_match("test_a[trio]", test)


def test_the_request_wins_over_the_plan_and_tests_must_be_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "plan.toml": PLAN,
            "other.toml": "[[mutant]]\nname='b'\n[[mutant.edit]]\npath='x'\nold='a'\nnew='b'\n",
        },
    )
    request, plans = completed(MutationRequest(head="main", plans=(tmp_path / "plan.toml",)))
    assert (request.head, request.tests, request.requires) == ("main", ("tests",), ("pytest>=8",))
    assert len(plans) == 1
    with pytest.raises(UsageError, match="no tests"):
        completed(MutationRequest(plans=(tmp_path / "other.toml",)))


OLD = {
    "pond/__init__.py": "",
    "pond/pipe.py": "def double(number):\n    return number * 2\n\n\ndef rest():\n    return 1\n",
    "tests/test_pipe.py": (
        "from pond.pipe import double, rest\n\n\ndef test_double():\n    assert double(2) == 4\n\n\n"
        "def test_rest():\n    assert rest() in (0, 1, 2)\n"
    ),
}
NEW = {**OLD, "pond/pipe.py": OLD["pond/pipe.py"].replace("return 1", "return 2")}


@pytest.mark.long
def test_a_plan_runs_on_two_interpreters(tmp_path: Path) -> None:
    write(tmp_path / "old", OLD)
    write(tmp_path / "new", NEW)
    write(tmp_path, {"plans/plan.toml": PLAN})
    pythons = tuple(one.version for one in available_interpreters())[-2:]
    said: list[object] = []
    request = MutationRequest(
        plans=(tmp_path / "plans/plan.toml",),
        pythons=pythons,
        environment=EnvironmentConfig(dependencies="listed"),
        project=tmp_path,
        cache=Cache(tmp_path / "cache"),
    )
    records, baselines = run(request, said.append)
    by_name = {record.name: record for record in records}
    assert by_name["no-double"].outcome == dict.fromkeys(pythons, "caught")
    assert by_name["no-rest"].outcome == dict.fromkeys(pythons, "missed")
    reverted = {record.operator: set(record.outcome.values()) for record in records if record.source == "revert"}
    assert reverted == {"revert-lines": {"missed"}, "drop-statement": {"caught"}}
    assert [baseline.python for baseline in baselines] == list(pythons)
    assert all(baseline.forced == "seen" for baseline in baselines)
    assert [one for one in said if isinstance(one, MutantRecord)] == list(records)
    assert [one for one in said if isinstance(one, Baseline)] == list(baselines)


@pytest.mark.long
def test_shards_together_are_the_whole_and_known_results_are_the_same(tmp_path: Path) -> None:
    write(tmp_path / "old", OLD)
    write(tmp_path / "new", NEW)
    write(tmp_path, {"plans/plan.toml": PLAN})
    whole = MutationRequest(
        plans=(tmp_path / "plans/plan.toml",),
        pythons=(available_interpreters()[-1].version,),
        environment=EnvironmentConfig(dependencies="listed"),
        symbols=("pond.pipe:double",),
        project=tmp_path,
        cache=Cache(tmp_path / "cache"),
        reuse=True,
    )
    said: list[object] = []
    records, _ = run(whole, said.append)
    parts = [run(replace(whole, shard=(number, 3)), said.append)[0] for number in (1, 2, 3)]
    assert {one.id: one.outcome for part in parts for one in part} == {one.id: one.outcome for one in records}
    assert sum(map(len, parts)) == len(records) > 4
    assert {one.source for one in records} == {"plan", "revert", "general"}
    known = [line for line in said if isinstance(line, str) and "known from before" in line]
    assert int(known[0].rpartition(": ")[2].split()[0]) == 0
    again, _ = run(whole, said.append)
    assert [(one.id, one.outcome, one.matrix, one.ran) for one in again] == [
        (one.id, one.outcome, one.matrix, one.ran) for one in records
    ]
    with pytest.raises(UsageError, match="no shard"):
        run(replace(whole, shard=(4, 3)), said.append)


def test_tests_that_are_nowhere_are_told(tmp_path: Path) -> None:
    revision = Revision("x", "x", "release", None, None, None, "")
    with pytest.raises(UsageError, match="nowhere"):
        find_tests(MutationRequest(tests=("nowhere",), project=tmp_path), revision)
