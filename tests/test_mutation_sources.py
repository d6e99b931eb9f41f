"""Where mutants come from besides plans and hunks: general operators, neutral rewrites, named symbols."""

from __future__ import annotations

import ast
import sys
from importlib import metadata
from pathlib import Path

import pytest

from stormdrain.errors import UsageError
from stormdrain.model import MutantRecord
from stormdrain.mutation.general import general
from stormdrain.mutation.mutant import numbered
from stormdrain.mutation.neutral import neutral
from stormdrain.mutation.targets import changed_lines, module_path, place_symbols, symbol_lines
from stormdrain.mutation.watched import only_unwatched
from stormdrain.symbols import Symbols
from suites import PATH, Bench

SOURCE = '''
"""A módule."""
import logging

LIMIT = 3


def level(amount, factor=2):
    """Say how much."""
    found = amount + LIMIT
    if found > factor and amount:
        logging.info("much")
        raise ValueError("too much")
    text = f"{found}"
    return text


class Tank:
    def fill(self, amount):
        total = amount * 2
        for part in range(total):
            self.size += part
        return total
'''


def symbols() -> Symbols:
    return Symbols(SOURCE.encode())


def test_general_mutants_are_splices_that_parse_and_differ() -> None:
    made = numbered(general(PATH, symbols(), range(1, 100)), {PATH: SOURCE.encode()})
    texts = {one.texts({PATH: SOURCE.encode()})[PATH] for one in made}
    for text in texts:
        ast.parse(text)
    assert SOURCE.encode() not in texts
    assert SOURCE.replace("found > factor", "found >= factor").encode() in texts
    assert SOURCE.replace("amount * 2", "amount / 2").encode() in texts
    assert SOURCE.replace("found > factor and amount", "found > factor or amount").encode() in texts
    assert len({one.id for one in made}) == len(made)


def test_general_mutants_leave_docstrings_and_messages_alone() -> None:
    made = general(PATH, symbols(), range(1, 100))
    old = [SOURCE.encode()[item.start : item.end] for one in made for item in one.splices]
    assert not [text for text in old if text in (b'"much"', b'"too much"', b'"""Say how much."""')]


@pytest.mark.parametrize("version", ["3.7.0", "3.80.1", "4.0.0", "2.9"])
def test_a_mutmut_that_the_adapter_does_not_know_is_told(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    with pytest.raises(UsageError, match=rf"mutmut has changed: this adapter knows 3.8; version {version}") as caught:
        list(general(PATH, symbols(), [1]))
    assert "mutmut>=3.8,<4" in caught.value.todo


def test_a_mutmut_whose_inside_has_moved_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mutmut.mutation.mutators", None)
    with pytest.raises(UsageError, match=r"mutmut has changed: .*mutmut.mutation.mutators"):
        list(general(PATH, symbols(), [1]))


def test_without_mutmut_general_operators_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", absent)
    with pytest.raises(UsageError, match="need mutmut") as caught:
        list(general(PATH, symbols(), [1]))
    assert "stormdrain[mutation]" in caught.value.todo


def test_general_mutants_keep_to_the_lines() -> None:
    line = SOURCE.splitlines().index("    found = amount + LIMIT") + 1
    made = list(general(PATH, symbols(), [line]))
    assert {one.line for one in made} == {line}
    assert {one.regions for one in made} == {((PATH, line, line),)}
    assert list(general(PATH, symbols(), [])) == []


def test_the_neutral_mutant_renames_a_local_and_nothing_else() -> None:
    one = neutral(PATH, symbols(), [f"{PATH}:Tank.fill"])
    assert one is not None
    text = one.texts({PATH: SOURCE.encode()})[PATH].decode()
    assert "total_ = amount * 2" in text
    assert "return total_\n" in text
    assert "range(total_)" in text
    assert one.symbol == "Tank.fill"


def test_a_name_in_a_formatted_text_is_not_renamed() -> None:
    one = neutral(PATH, Symbols(b"def f(a):\n    b = a\n    c = 2\n    return f'{b}' + str(c)\n"), [])
    assert one is not None
    text = one.texts({PATH: b"def f(a):\n    b = a\n    c = 2\n    return f'{b}' + str(c)\n"})[PATH]
    assert text.startswith(b"def f(a):\n    b = a\n    c_ = 2\n    return f'{b}' + str(c_)\n")


@pytest.mark.parametrize(
    "source",
    [
        "def f(a):\n    return a\n",
        "def f(a):\n    b = a\n    return lambda: b\n",
        "def f(a):\n    global b\n    b = a\n",
        "def f(a):\n    b = a\n    return locals()\n",
        "def f(a):\n    b = a\n    return f'{b}'\n",
        "x = 1\n",
    ],
)
def test_no_neutral_mutant_is_made_where_a_name_may_matter(source: str) -> None:
    assert neutral(PATH, Symbols(source.encode()), []) is None


def test_a_test_that_reads_the_source_is_found_out(tmp_path: Path) -> None:
    source = "def double(number):\n    twice = number * 2\n    return twice\n"
    tests = """
    import inspect
    from pathlib import Path

    from pond import pipe

    def test_runs():
        assert pipe.double(2) == 4

    def test_reads_the_function():
        assert "twice = number" in inspect.getsource(pipe.double)

    def test_reads_the_file():
        assert "twice = number" in Path(pipe.__file__).read_text()
    """
    bench = Bench(tmp_path, source, tests)
    before = bench.digest()
    made = neutral(PATH, bench.symbols[PATH], [])
    assert made is not None
    (one,) = numbered([made], bench.sources)
    with bench.campaign() as campaign:
        campaign.baseline()
        campaign.force(one.functions)
        ran = campaign.mutate([one])[one.id]
    failed = {
        campaign.suite.tests[index].rpartition("::")[2]
        for index, record in ran.results.items()
        if record["out"] == "failed"
    }
    assert failed == {"test_reads_the_function", "test_reads_the_file"}
    assert bench.digest() == before


def test_changed_lines_are_those_of_head() -> None:
    base, head = b"a\nb\nc\n", b"a\nx\ny\nc\nz\n"
    assert changed_lines({PATH: base}, {PATH: head}) == {PATH: {2, 3, 5}}
    assert changed_lines({PATH: b"a\nb\n"}, {PATH: b"a\n"}) == {PATH: set()}


FILES = ("pond/__init__.py", "pond/pipe.py", "pond/deep/__init__.py")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("pond.pipe:Tank.fill", ("pond/pipe.py", "Tank.fill")),
        ("pond.pipe.Tank.fill", ("pond/pipe.py", "Tank.fill")),
        ("pond.deep", ("pond/deep/__init__.py", "")),
        ("pond.level", ("pond/__init__.py", "level")),
        ("Tank.fill", None),
    ],
)
def test_a_symbol_is_placed_by_its_module(name: str, place: tuple[str, str] | None) -> None:
    assert module_path(name, FILES) == place


def test_a_bare_symbol_is_looked_for_in_the_files_that_are_known() -> None:
    placed = place_symbols(["Tank.fill"], FILES, [PATH])
    assert placed == {PATH: ["Tank.fill"]}
    lines = symbol_lines(placed, {PATH: symbols()})
    assert lines == {PATH: set(range(19, 24))}
    with pytest.raises(UsageError, match="which file"):
        place_symbols(["Tank.fill"], FILES, [])
    with pytest.raises(UsageError, match=r"Tank\.drain"):
        symbol_lines({PATH: ["Tank.drain"]}, {PATH: symbols()})


@pytest.mark.parametrize(
    ("outcomes", "watched", "said"),
    [
        ({"3.13": "missed", "3.14": "caught"}, ["3.13"], "caught only on 3.14, which nothing runs"),
        ({"3.13": "missed", "3.14.1": "timed out"}, ["3.13.2"], "caught only on 3.14.1, which nothing runs"),
        ({"3.13": "missed", "3.14": "caught"}, ["3.14"], ""),
        ({"3.13": "missed", "3.14": "caught"}, None, "caught only on 3.14 (what runs there is not known)"),
        ({"3.13": "caught", "3.14": "caught"}, [], ""),
        ({"3.13": "missed", "3.14": "missed"}, [], ""),
        ({"3.10": "not executed", "3.14": "caught"}, [], ""),
    ],
)
def test_a_mutant_that_only_an_unwatched_interpreter_catches_is_told(
    outcomes: dict[str, str], watched: list[str] | None, said: str
) -> None:
    record = MutantRecord("1", "x", "plan", "x", PATH, "f", "", outcome=outcomes)
    assert only_unwatched(record, watched) == said
