"""Which interpreters CI runs is read from the files that say so, and "not known" stays "not known"."""

from __future__ import annotations

from pathlib import Path

import pytest

from stormdrain.gate.matrices import version_of
from stormdrain.gate.watched import supported, watched


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def workflow(folder: Path, jobs: str, name: str = "ci.yml") -> None:
    put(folder, f".github/workflows/{name}", "on: [push]\njobs:\n" + jobs)


def test_a_matrix_of_a_workflow_is_read(tmp_path: Path) -> None:
    workflow(
        tmp_path,
        """
  test:
    strategy:
      matrix:
        os: [ubuntu-latest, windows-latest]
        python-version: ["3.10", "3.11", "3.12"]
        exclude:
          - python-version: "3.12"
        include:
          - {os: ubuntu-latest, python-version: "3.14-dev"}
    steps:
      - uses: actions/setup-python@v5
        with:
          python-version: ${{ matrix.python-version }}
      - run: pytest
""",
    )
    found = watched(tmp_path)
    assert found.pythons == ("3.10", "3.11", "3.14")
    assert found.source == ".github/workflows/ci.yml"
    assert found.unwatched(("3.10", "3.12", "3.13")) == ("3.12", "3.13")


def test_interpreters_are_found_wherever_a_job_names_them(tmp_path: Path) -> None:
    workflow(
        tmp_path,
        """
  plain:
    steps:
      - uses: actions/setup-python@v5
        with: {python-version: "3.10.4"}
      - run: make test
  several:
    steps:
      - uses: actions/setup-python@v5
        with:
          python-version: |
            3.11
            pypy3.10
      - run: nox
  uv:
    env: {UV_PYTHON: "3.12"}
    steps:
      - run: uv run pytest
  image:
    container: python:3.13-slim
    steps:
      - run: python -m unittest
  command:
    strategy: {matrix: {v: ["3.9"]}}
    steps:
      - run: tox -e py314
""",
    )
    assert watched(tmp_path).pythons == ("3.10", "3.11", "3.12", "3.13", "3.14")


def test_a_job_that_runs_no_tests_watches_nothing(tmp_path: Path) -> None:
    workflow(
        tmp_path,
        """
  docs:
    steps:
      - uses: actions/setup-python@v5
        with: {python-version: "3.13"}
      - run: mkdocs build
""",
    )
    assert watched(tmp_path).pythons is None


def test_a_computed_matrix_is_not_known_and_said_so(tmp_path: Path) -> None:
    workflow(
        tmp_path,
        "  test:\n    strategy: {matrix: {python: '${{ fromJSON(needs.a.outputs.b) }}'}}\n    steps: [{run: pytest}]\n",
    )
    found = watched(tmp_path)
    assert found.pythons is None
    assert "computed" in found.notes[0]


def test_an_unquoted_3_10_is_3_1_as_ci_reads_it(tmp_path: Path) -> None:
    workflow(
        tmp_path,
        "  test:\n    strategy: {matrix: {python-version: [3.9, 3.10]}}\n    steps: [{run: pytest}]\n",
    )
    found = watched(tmp_path)
    assert found.pythons == ("3.9",)
    assert "3.1" in found.notes[0]


@pytest.mark.parametrize("text", ["[", "jobs: 3", "jobs: {a: 1, b: {steps: 3}}", "", "- x", "jobs: {a: {steps: [1]}}"])
def test_damaged_workflows_break_nothing(tmp_path: Path, text: str) -> None:
    put(tmp_path, ".github/workflows/ci.yml", text)
    assert watched(tmp_path).pythons is None


def test_tox_environments_are_expanded(tmp_path: Path) -> None:
    put(tmp_path, "tox.ini", "[tox]\nenvlist =\n    py{310, 311}-{trio,asyncio}\n    lint, 3.12  # comment\n")
    assert watched(tmp_path).pythons == ("3.10", "3.11", "3.12")


def test_tox_in_toml_and_the_legacy_form_are_read(tmp_path: Path) -> None:
    put(tmp_path, "tox.toml", 'env_list = ["3.13", "type"]')
    put(tmp_path, "pyproject.toml", '[tool.tox]\nlegacy_tox_ini = """\n[tox]\nenv_list = py39,py310\n"""\n')
    found = watched(tmp_path)
    assert found.pythons == ("3.9", "3.10", "3.13")
    assert found.source == "tox.toml, pyproject.toml"


def test_nox_sessions_are_read_without_running_the_file(tmp_path: Path) -> None:
    put(
        tmp_path,
        "noxfile.py",
        "import nox\nraise SystemExit(1)\nOLD = ['3.10']\nALL = [*OLD, '3.11']\n"
        "@nox.session(python=ALL)\ndef tests(session): ...\n"
        "@nox.session(python='3.13', name='x')\ndef other(session): ...\n",
    )
    assert watched(tmp_path).pythons == ("3.10", "3.11", "3.13")


def test_hatch_matrices_are_read(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[[tool.hatch.envs.test.matrix]]\npython = ["3.10", "3.12"]\n')
    assert watched(tmp_path).pythons == ("3.10", "3.12")


def test_the_configuration_wins_over_the_files(tmp_path: Path) -> None:
    put(tmp_path, "tox.ini", "[tox]\nenvlist = py310\n")
    found = watched(tmp_path, ("3.12", "3.11.4"), "gate.toml")
    assert found.pythons == ("3.11", "3.12")
    assert found.source == "gate.toml"


def test_without_any_file_it_is_not_known(tmp_path: Path) -> None:
    assert watched(tmp_path).pythons is None
    assert watched(None).pythons is None
    assert watched(tmp_path).unwatched(("3.14",)) == ()


def test_what_is_supported_comes_from_requires_python_then_from_classifiers(tmp_path: Path) -> None:
    put(tmp_path, "pyproject.toml", '[project]\nrequires-python = ">=3.11.2,<3.14"\n')
    assert supported(tmp_path) == ("3.11", "3.12", "3.13")
    lead = "Programming Language :: Python :: "
    put(tmp_path, "pyproject.toml", f'[project]\nclassifiers = ["{lead}3", "{lead}3.10", "{lead}3.9"]\n')
    assert supported(tmp_path) == ("3.9", "3.10")
    put(tmp_path, "pyproject.toml", '[project]\nrequires-python = "nonsense"\n')
    assert supported(tmp_path) == ()
    assert supported(None) == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.11", "3.11"),
        ("3.11.4", "3.11"),
        ("py311", "3.11"),
        ("py3.13", "3.13"),
        ("3.14-dev", "3.14"),
        ("3.14.0-rc.1", "3.14"),
        ("3.13t", "3.13"),
        ("cp312", "3.12"),
        ("pypy3.10", ""),
        ("3.x", ""),
        ("3.1", ""),
        ("2.7", ""),
        ("lint", ""),
        ("", ""),
    ],
)
def test_versions_are_read_in_every_spelling(text: str, version: str) -> None:
    assert version_of(text) == version
