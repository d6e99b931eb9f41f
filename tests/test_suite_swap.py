"""A mutant that is swapped in fails exactly the tests that an edited copy fails in a plain pytest run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stormdrain.revisions import available_interpreters
from suites import PATH, Bench, pure_packages

SOURCE = """
import contextlib
import dataclasses
import functools

LIMIT = 3
NAMES = [name.upper() for name in ("a", "b")]


def table(size):
    return {number: number * 2 for number in range(size)}


TABLE = table(4)


@functools.lru_cache(maxsize=None)
def cached(value):
    return value + 1


def counter(start):
    step = 2

    def count():
        nonlocal start
        start += step
        return start

    return count


@contextlib.contextmanager
def opened(log):
    log.append("open")
    try:
        yield "it"
    finally:
        log.append("closed")


def numbers(limit=LIMIT):
    for number in range(limit):
        yield number


@dataclasses.dataclass
class Tank:
    size: int = 2

    @property
    def double(self):
        return self.size * 2

    @staticmethod
    def empty():
        return Tank(0)

    def pour(self, amount):
        self.size -= amount
        return [part for part in range(self.size) if part != 1]


FIRST = functools.partial(max, key=lambda item: -item)
"""

TESTS = """
from pond.pipe import FIRST, LIMIT, NAMES, TABLE, Tank, cached, counter, numbers, opened


def test_constants():
    assert LIMIT == 3 and NAMES == ["A", "B"] and TABLE[3] == 6


def test_cached():
    assert cached(1) == 2


def test_counter():
    count = counter(1)
    assert [count(), count()] == [3, 5]


def test_opened():
    log = []
    with opened(log) as it:
        log.append(it)
    assert log == ["open", "it", "closed"]


def test_numbers():
    assert list(numbers()) == [0, 1, 2]


def test_tank():
    tank = Tank(5)
    assert tank.double == 10
    assert tank.pour(1) == [0, 2, 3]
    assert Tank.empty().size == 0
    assert Tank() == Tank(2)


def test_first():
    assert FIRST([3, 1, 2]) == 1
"""

MUTANTS = {
    "constant": ("LIMIT = 3", "LIMIT = 4"),
    "comprehension": ("name.upper()", "name.title() + 'x'"),
    "ran-at-import": ("number * 2 for", "number * 3 for"),
    "decorated": ("return value + 1", "return value + 2"),
    "free-variable": ("        start += step\n", "        start += 2\n"),
    "free-variable-lost": ("        start += step\n", "        start += 4\n"),
    "outer": ("step = 2", "step = 3"),
    "generator": ("yield number\n", "yield number + 1\n"),
    "kind": ("        yield number\n", "        return [number]\n"),
    "default": ("limit=LIMIT", "limit=2"),
    "cleanup": ('        log.append("closed")', '        log.append("shut")'),
    "field": ("size: int = 2", "size: int = 3"),
    "property": ("self.size * 2", "self.size + 2"),
    "static": ("Tank(0)", "Tank(1)"),
    "decorator": ("    @property\n", ""),
    "attribute": ("        self.size -= amount\n", "        pass\n"),
    "inner-comprehension": ("if part != 1", "if part != 2"),
    "lambda": ("-item", "item"),
    "syntax-of-import": ("import contextlib\n", "import contextlib\nimport nowhere\n"),
    "raises-at-import": ("TABLE = table(4)", "TABLE = table(4)[9]"),
    "two-functions": ("def cached(value):\n    return value", "def cached(value, more=1):\n    return value"),
    "new-name": ("FIRST = ", "SECOND = FIRST = "),
}


@pytest.fixture(scope="session")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pure_packages(tmp_path_factory.mktemp("pure"))


def others() -> list[Any]:
    """Interpreters of this machine that can run this environment's pytest."""
    found = [one for one in available_interpreters() if tuple(map(int, one.version.split("."))) >= (3, 11)]
    return [pytest.param(one.path, id=one.version) for one in found]


@pytest.fixture(params=others())
def other_python(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty environment of another interpreter."""
    subprocess.run([request.param, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    return str(tmp_path / "venv" / "bin" / "python")


def plainly(bench: Bench, folder: Path, old: str, new: str) -> set[str]:
    """What fails in a plain run on an edited copy."""
    assert bench.source.count(old) == 1
    layer = folder / "copy"
    (layer / "pond").mkdir(parents=True)
    (layer / "pond" / "__init__.py").touch()
    (layer / PATH).write_text(bench.source.replace(old, new))
    done = subprocess.run(
        [
            bench.python,
            "-m",
            "pytest",
            "-q",
            "-rA",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "test_pipe.py",
        ],
        cwd=bench.suite,
        env={**os.environ, "PYTHONPATH": str(layer), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    failed = set(re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.M))
    return failed if done.returncode < 2 else set(re.findall(r"def (test_\w+)", TESTS))


def test_swapped_mutants_fail_what_a_cold_start_fails(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SOURCE, TESTS)
    made = bench.numbered(MUTANTS)
    with bench.campaign() as campaign:
        assert campaign.baseline().left_out == {}
        campaign.force(name for one in made for name in one.functions)
        warm = campaign.mutate(made)
        every = campaign.facts.kept
        cold = campaign.run([campaign.job(one, every, cold=True) for one in made])
    how = {one.name: warm[one.id].how for one in made}
    for one in made:
        failed = [index for index, record in cold[one.id].results.items() if record["out"] == "failed"]
        assert [index for index, record in warm[one.id].results.items() if record["out"] == "failed"] == failed
    assert how["decorated"] == how["property"] == how["generator"] == how["cleanup"] == ""
    assert how["free-variable-lost"] == how["attribute"] == how["inner-comprehension"] == ""
    assert "module" in how["constant"]
    assert "class Tank" in how["field"]
    assert "imported" in how["ran-at-import"]
    assert "kind" in how["kind"]


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail_what_an_edited_copy_fails_in_a_plain_run(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path / "bench", SOURCE, TESTS)
    outcome = bench.run({name: MUTANTS[name]})
    assert set(outcome.cells(name)) == plainly(bench, tmp_path, *MUTANTS[name])


def test_what_is_no_mutant_is_said_and_not_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SOURCE, TESTS)
    outcome = bench.run(
        {
            "same": ("LIMIT = 3", "LIMIT  =  (3)"),
            "broken": ("LIMIT = 3", "LIMIT = = 3"),
            "one": ("return value + 1", "return value + 3"),
            "twin": ("return value + 1", "return (value + 3)"),
        }
    )
    assert outcome.of("same") == outcome.of("broken") == outcome.of("twin") == "unviable"
    assert outcome.of("one") == "caught"
    assert "the same as the original" in outcome.records["same"].error
    assert "does not compile" in outcome.records["broken"].error
    assert "the same as one" in outcome.records["twin"].error


def test_a_module_that_only_tests_import_needs_no_cold_start(tmp_path: Path) -> None:
    tests = "def test_late():\n    from pond.pipe import LIMIT\n    assert LIMIT == 3\n"
    outcome = Bench(tmp_path, SOURCE, tests).run({"constant": ("LIMIT = 3", "LIMIT = 4")})
    assert outcome.ran["constant"].how == ""
    assert outcome.cells("constant") == {"test_late": "failed"}


def test_the_revision_wins_over_a_checkout_beside_the_tests(tmp_path: Path) -> None:
    outcome = Bench(
        tmp_path,
        "def f():\n    return 1\n",
        "from pond.pipe import f\n\ndef test_f():\n    assert f() == 1\n",
        more={
            "suite/pond/__init__.py": "",
            "suite/pond/pipe.py": "def f():\n    return 2\n",
            "suite/conftest.py": "import os, sys\nsys.path.insert(0, os.path.dirname(__file__))\n",
        },
    ).run({"other": ("return 1", "return 3")})
    assert outcome.cells("other") == {"test_f": "failed"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the pure packages of this environment are used")
def test_every_interpreter_comes_to_the_same(tmp_path: Path, other_python: str, pure: Path) -> None:
    bench = Bench(tmp_path, SOURCE, TESTS, python=other_python, path=(str(pure),))
    wanted = {name: MUTANTS[name] for name in ("constant", "decorated", "attribute", "free-variable-lost", "generator")}
    outcome = bench.run(wanted)
    assert outcome.baseline.left_out == {}
    assert [outcome.ran[name].how for name in wanted if name != "constant"] == [""] * 4
    assert outcome.cells("constant") == {"test_constants": "failed", "test_numbers": "failed"}
    assert outcome.cells("attribute") == {"test_tank": "failed"}
    assert outcome.cells("free-variable-lost") == {"test_counter": "failed"}
