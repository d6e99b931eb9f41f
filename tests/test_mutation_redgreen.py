"""Red and green: a new test must fail on base, and for the right reason."""

from __future__ import annotations

import sys
from pathlib import Path

from revising import write
from stormdrain.mutation.redgreen import RedGreen, compare, new_tests, reason_of
from stormdrain.mutation.runner import MutationRequest
from stormdrain.revisions import Environment, Interpreter, Revision

OLD = "def double(number):\n    return number + number * 2\n"
NEW = "def double(number):\n    return number * 2\n\n\ndef half(number):\n    return number / 2\n"

OLD_TESTS = "from pond import pipe\n\n\ndef test_zero():\n    assert pipe.double(0) == 0\n"
NEW_TESTS = (
    OLD_TESTS
    + """

def test_double():
    assert pipe.double(2) == 4


def test_half():
    assert pipe.half(2) == 1


def test_type():
    assert isinstance(pipe.double(2), int)


def test_red_everywhere():
    assert pipe.double(2) == 5


class TestMore:
    def test_raises(self):
        if pipe.double(1) != 2:
            raise ValueError("odd")
"""
)


def revision(folder: Path) -> Revision:
    return Revision("x", folder.name, "path", folder, folder, folder, "")


def environment(folder: Path) -> Environment:
    here = Interpreter(sys.executable, "3.11", "3.11.0")
    layer = folder / "src"
    return Environment(sys.executable, here, layer, (str(layer),), (), "", revision(folder))


def test_new_tests_are_red_for_the_right_reason_or_named(tmp_path: Path) -> None:
    old = write(
        tmp_path / "old",
        {"src/pond/__init__.py": "", "src/pond/pipe.py": OLD, "tests/test_pipe.py": OLD_TESTS},
    )
    new = write(
        tmp_path / "new",
        {
            "src/pond/__init__.py": "",
            "src/pond/pipe.py": NEW,
            "tests/test_pipe.py": NEW_TESTS,
            "pytest.ini": "[pytest]\n",
        },
    )
    request = MutationRequest(tests=("tests",), project=tmp_path)
    wanted = new_tests(request, revision(old), revision(new))
    assert wanted is not None
    assert "test_zero" not in next(iter(wanted.values()))
    said: list[object] = []
    found = compare(request, revision(new), environment(old), environment(new), wanted, "3.11", said.append)
    kinds = {one.test.rpartition("::")[2]: (one.kind, one.reason) for one in found}
    assert kinds == {
        "test_double": ("red", "an assertion"),
        "test_half": ("wrong reason", "AttributeError"),
        "test_type": ("decorative", ""),
        "test_red_everywhere": ("broken", ""),
        "test_raises": ("red", "ValueError"),
    }
    assert all(isinstance(one, RedGreen) for one in found)


def test_tests_that_cannot_even_be_imported_on_base_are_red_for_the_wrong_reason(tmp_path: Path) -> None:
    tests = "from pond.pipe import half\n\n\ndef test_half():\n    assert half(2) == 1\n"
    old = write(tmp_path / "old", {"src/pond/__init__.py": "", "src/pond/pipe.py": OLD})
    new = write(
        tmp_path / "new",
        {
            "src/pond/__init__.py": "",
            "src/pond/pipe.py": NEW,
            "tests/test_pipe.py": tests,
            "pytest.ini": "[pytest]\n",
        },
    )
    request = MutationRequest(tests=("tests",), project=tmp_path)
    (one,) = compare(request, revision(new), environment(old), environment(new), None, "3.11", lambda line: None)
    assert (one.kind, one.reason) == ("wrong reason", "ImportError")


def test_a_reason_is_read_from_a_record() -> None:
    assert reason_of({"text": "test_x.py:3: AssertionError: assert 1 == 2"}) == "an assertion"
    assert reason_of({"text": "outcomes.py:1: Failed: DID NOT RAISE"}) == "an assertion"
    assert reason_of({"text": "x.py:3: TimeoutError\n  from CancelledError"}) == "TimeoutError"
    assert reason_of({"text": "x", "verdict": "deadlock"}) == "deadlock"
