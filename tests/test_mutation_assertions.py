"""Assertions are mutated, too: one that cannot fail is named."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stormdrain.mutation import outcomes
from stormdrain.mutation.assertions import assertions, changed_in, files_of_tests
from stormdrain.mutation.campaign import Campaign
from stormdrain.mutation.mutant import numbered
from stormdrain.mutation.suite import SuiteProcess
from stormdrain.revisions import available_interpreters
from stormdrain.symbols import Symbols
from suites import Bench, pure_packages

TESTS = """
import pytest
from pond.pipe import double


def helper(value):
    assert value == 4


def test_holds():
    assert double(2) == 4


def test_unreached():
    for number in []:
        assert double(number) == number


def test_of_nothing():
    assert all(number > 3 for number in [])


def test_all():
    assert all(number > 3 for number in [double(2)])


def test_swallowed():
    try:
        assert double(2) == 4
    except AssertionError:
        pass


class TestRaises:
    @pytest.mark.parametrize("value", [1, 2])
    def test_type(self, value):
        with pytest.raises(TypeError, match="unsupported"):
            double(None)
"""


def came_to(bench: Bench) -> dict[tuple[str, str], tuple[str, int, str]]:
    """What each mutated assertion came to, for how many tests, and why it was started cold."""
    ((name, real),) = files_of_tests(("test_pipe.py",), bench.suite).items()
    sources = {**bench.sources, name: Path(real).read_bytes()}
    symbols = {**bench.symbols, name: Symbols(sources[name])}
    made = numbered(assertions(name, symbols[name]), sources)
    found = {}
    with SuiteProcess(replace(bench.spec(), test_files={name: real})) as suite:
        campaign = Campaign(suite, sources, symbols, lambda line: None, label="pond")
        assert campaign.baseline().left_out == {}
        for key, ran in campaign.mutate(made).items():
            one = next(one for one in made if one.id == key)
            found[one.symbol, one.operator] = (outcomes.outcome(one, ran, campaign), len(ran.chosen), ran.how)
    assert name == "./test_pipe.py"
    return found


def test_an_assertion_that_asserts_nothing_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "def double(number):\n    return number * 2\n", TESTS)
    before = bench.digest()
    assert came_to(bench) == {
        ("test_holds", "negate-assert"): ("caught", 1, ""),
        ("test_unreached", "negate-assert"): ("missed", 1, ""),
        ("test_of_nothing", "negate-assert"): ("caught", 1, ""),
        ("test_of_nothing", "fail-all"): ("missed", 1, ""),
        ("test_all", "negate-assert"): ("caught", 1, ""),
        ("test_all", "fail-all"): ("caught", 1, ""),
        ("test_swallowed", "negate-assert"): ("missed", 1, ""),
        ("TestRaises.test_type", "other-exception"): ("caught", 2, ""),
        ("TestRaises.test_type", "other-message"): ("caught", 2, ""),
    }
    assert bench.digest() == before


SOMEWHERE_EMPTY = """
import sys
from pond.pipe import double

FOUND = [double(2)] if sys.version_info[:2] != {empty} else []


def test_all():
    assert all(number > 3 for number in FOUND)
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the pure packages of this environment are used")
def test_an_assertion_on_an_empty_list_is_named_only_where_the_list_is_empty(tmp_path: Path) -> None:
    here = sys.version_info[:2]
    unfit = (f"{here[0]}.{here[1]}", "3.10")
    other = next((one for one in available_interpreters() if one.version not in unfit), None)
    if other is None:
        pytest.skip("needs a second interpreter, 3.11 or newer")
    subprocess.run([other.path, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (tmp_path / "pure").mkdir()
    path = (str(pure_packages(tmp_path / "pure")),)
    source = "def double(number):\n    return number * 2\n"
    for python in (sys.executable, str(tmp_path / "venv" / "bin" / "python")):
        folder = tmp_path / ("here" if python == sys.executable else "there")
        found = came_to(Bench(folder, source, SOMEWHERE_EMPTY.format(empty=here), python=python, path=path))
        assert found["test_all", "fail-all"][0] == ("missed" if python == sys.executable else "caught")


def test_only_assertions_that_are_new_since_base_are_mutated(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("def test_a():\n    assert 1\n")
    new.write_text("def test_a():\n    assert 1\n\n\ndef test_b():\n    assert 2\n")
    lines = changed_in(old, new)
    assert [one.symbol for one in assertions("./new.py", Symbols(new.read_bytes()), lines)] == ["test_b"]
    assert changed_in(None, new) is None
    assert changed_in(new, new) == set()
