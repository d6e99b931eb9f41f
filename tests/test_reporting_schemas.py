"""What machines read keeps to its schema: ours for run.json, and those that others published for the rest."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings

from building import failing_cell, failing_trial, finding, run
from conftest import check_run
from published import MUTATION, SARIF, check_json, check_junit, npm_schema
from stormdrain import store
from stormdrain.model import Run, Site, to_json
from stormdrain.reporting import schema
from stormdrain.reporting.formats import Around, render
from test_reporting import caught, mutant, whole
from test_reporting_hostile import victims


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    return {"sarif": npm_schema(*SARIF), "stryker": npm_schema(*MUTATION)}


def written(of: Run, folder: Path) -> bytes:
    """The run as the store writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    return store.Writer(folder, run()).finish(of).read_bytes()


# run.json


def test_the_schema_in_the_package_is_the_one_of_the_model() -> None:
    assert schema.FILE.read_text() == schema.text(), "python -m stormdrain.reporting.schema"


def test_the_schema_is_one_itself() -> None:
    from jsonschema.validators import Draft7Validator

    Draft7Validator.check_schema(schema.schema())


def test_what_the_store_writes_keeps_to_the_schema_and_says_its_version(tmp_path: Path) -> None:
    text = written(whole(), tmp_path)
    check_run(text)
    assert json.loads(text)["schema"] == 1
    check_run(render("json", whole()).encode())


def test_a_run_that_was_cut_off_keeps_to_the_schema(tmp_path: Path) -> None:
    writer = store.Writer(tmp_path, run(base="pypi:a==1"))
    writer.add(failing_trial())
    check_run(written(store.load_run(tmp_path), tmp_path / "again"))


@pytest.mark.parametrize(
    "damage",
    [
        {"verdict": "GREEN"},
        {"exit_code": 5},
        {"schema": 2},
        {"cells": [{}]},
        {"colour": "red"},
        {"seconds": "1"},
        {"trials": [{"cell": "a", "storm": "b", "token": "c", "verdict": "PASS", "reached": "no"}]},
    ],
)
def test_the_schema_refuses_what_no_run_is(tmp_path: Path, damage: dict[str, Any]) -> None:
    sound = json.loads(written(whole(), tmp_path))
    with pytest.raises(ValueError, match=r"data|be"):
        check_run(json.dumps(sound | damage).encode())


def test_what_is_missing_is_refused(tmp_path: Path) -> None:
    sound = json.loads(written(whole(), tmp_path))
    for name in ("schema", "command", "verdict", "exit_code"):
        with pytest.raises(ValueError, match=name):
            check_run(json.dumps({key: item for key, item in sound.items() if key != name}).encode())


def test_every_field_of_every_record_is_described() -> None:
    made = schema.schema()["definitions"]
    seen: set[type] = set()

    def walk(kind: Any) -> None:
        for inner in typing.get_args(kind):
            walk(inner)
        if dataclasses.is_dataclass(kind) and kind not in seen:
            assert isinstance(kind, type)
            seen.add(kind)
            assert set(made[kind.__name__]["properties"]) == {field.name for field in dataclasses.fields(kind)}
            for hint in typing.get_type_hints(kind).values():
                walk(hint)

    walk(Run)
    assert {kind.__name__ for kind in seen} == set(made)


def test_a_version_that_is_not_written_is_the_first(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(to_json(whole())))
    assert store.load_run(path) == whole()


# SARIF, JUnit, mutation-testing-elements


def both(tmp_path: Path) -> tuple[Run, Path]:
    """A run with a finding and a survivor, and the tree in which their files are."""
    tree = tmp_path / "tree"
    (tree / "src" / "pkg").mkdir(parents=True)
    (tree / "src" / "pkg" / "mod.py").write_text("\n" * 20)
    hit = finding(site=Site("pkg/mod.py", 7, "close", True))
    return run(failing_cell("aaaaaaaa", "", hit), trials=(failing_trial(),), mutants=(mutant(), caught())), tree


def test_sarif_has_findings_and_survivors_at_their_lines(tmp_path: Path, published: dict[str, Any]) -> None:
    of, tree = both(tmp_path)
    text = render("sarif", of, Around(root=tree))
    check_json(text, published["sarif"])
    found = {
        result["ruleId"]: result["locations"][0]["physicalLocation"]
        for result in json.loads(text)["runs"][0]["results"]
    }
    assert found == {
        "child-reaped": {"artifactLocation": {"uri": "src/pkg/mod.py"}, "region": {"startLine": 7}},
        "survivor": {"artifactLocation": {"uri": "src/pkg/mod.py"}, "region": {"startLine": 11}},
    }


def test_annotations_have_findings_and_survivors_at_their_lines(tmp_path: Path) -> None:
    of, tree = both(tmp_path)
    rows = [row for row in render("github", of, Around(root=tree)).splitlines() if row.startswith("::error")]
    assert rows[0].startswith("::error file=src/pkg/mod.py,line=7,title=child-reaped under cancel-sweep")
    assert rows[1].startswith("::error file=src/pkg/mod.py,line=11,title=no test notices no-kill")


def test_junit_has_findings_and_survivors_with_their_lines(tmp_path: Path) -> None:
    of, tree = both(tmp_path)
    text = render("junit", of, Around(root=tree))
    check_junit(text)
    said = {case.get("name"): case.findtext("failure") or "" for case in ElementTree.fromstring(text).iter("testcase")}
    assert "suspended at src/pkg/mod.py:7" in said["cancel-sweep: child-reaped"]
    assert "at src/pkg/mod.py:11" in said["close: no-kill"]


@pytest.mark.parametrize("of", [whole(), run(), run(errors=("no",)), run(mutants=(mutant(diff=""),))])
def test_every_kind_of_run_is_taken_by_what_reads_it(of: Run, published: dict[str, Any]) -> None:
    check_json(render("sarif", of), published["sarif"])
    check_json(render("stryker", of), published["stryker"])
    check_junit(render("junit", of))


@settings(max_examples=16, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(victims())
def test_hostile_text_does_not_change_the_form_of_what_machines_read(published: dict[str, Any], victim: Run) -> None:
    check_json(render("sarif", victim), published["sarif"])
    check_json(render("stryker", victim), published["stryker"])
    check_junit(render("junit", victim))
    check_run(render("json", victim).encode())
