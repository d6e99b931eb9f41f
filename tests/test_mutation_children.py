"""Mutants are in force in the interpreters that tests start, also in those that ignore PYTHONPATH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from revising import write
from stormdrain.mutation.runner import MutationRequest, run
from stormdrain.revisions import EnvironmentConfig

PROJECT = {
    "pond/__init__.py": "",
    "pond/pipe.py": "def double(number):\n    return number * 2\n",
    "tests/test_pipe.py": """import subprocess
import sys

import pytest

CODE = "from pond.pipe import double; print(double(2))"


@pytest.mark.parametrize("options", [["-I"], ["-E", "-s"], []], ids=["I", "E", "plain"])
def test_child(options):
    done = subprocess.run([sys.executable, *options, "-c", CODE], capture_output=True, text=True)
    assert done.stdout == "4\\n", done.stderr


def test_child_without_an_environment():
    subprocess.run([sys.executable, "-I", "-c", CODE], env={})
""",
}


@pytest.mark.parametrize("old", ["number * 2", "def double"], ids=["swapped", "cold"])
def test_a_child_that_ignores_pythonpath_runs_the_mutant(tmp_path: Path, old: str) -> None:
    new = "number * 3" if old == "number * 2" else "def other"
    edit = f"[[mutant]]\nname = 'wrong'\n[[mutant.edit]]\npath = 'pond/pipe.py'\nold = '{old}'\nnew = '{new}'\n"
    files = write(tmp_path, {**PROJECT, "plan.toml": edit})
    request = MutationRequest(
        head=f"path:{files}",
        tests=("tests",),
        plans=(tmp_path / "plan.toml",),
        sources=("plan",),
        environment=EnvironmentConfig(dependencies="listed", requires=("pytest",)),
        pythons=(f"{sys.version_info.major}.{sys.version_info.minor}",),
        project=tmp_path,
    )
    ((record,), (baseline,)) = run(request, lambda line: None)
    assert baseline.left_out == {}
    row = next(iter(record.matrix.values()))
    children = {f"tests/test_pipe.py::test_child[{kind}]": "failed" for kind in ("I", "E", "plain")}
    assert {test: result.outcome for test, result in row.items()} == children
