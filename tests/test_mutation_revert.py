"""Reverted hunks: each independent part of a change is taken back by itself, and still compiles."""

from __future__ import annotations

import ast
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormdrain.mutation.mutant import numbered
from stormdrain.mutation.revert import reverts
from stormdrain.symbols import Symbols

PATH = "pond/pipe.py"


def taken_back(base: str, head: str) -> dict[str, list[str]]:
    """The texts of all reverts, by operator."""
    old, new = textwrap.dedent(base).encode(), textwrap.dedent(head).encode()
    found: dict[str, list[str]] = {}
    for one in numbered(reverts({PATH: old}, {PATH: new}, {PATH: Symbols(new)}), {PATH: new}):
        text = one.texts({PATH: new})[PATH].decode()
        compile(text, PATH, "exec", dont_inherit=True)
        found.setdefault(one.operator, []).append(text)
    return found


BASE = """
async def close(self):
    await self.flush()
    self.open = False
"""


def test_independent_groups_of_a_hunk_are_taken_back_one_by_one() -> None:
    head = """
    async def close(self):
        await self.flush(1)
        self.open = False
        self.closed = True
    """
    found = taken_back(BASE, head)["revert-lines"]
    head = textwrap.dedent(head)
    assert found == [head.replace("flush(1)", "flush()"), head.replace("    self.closed = True\n", "")]


def test_what_a_block_was_wrapped_in_is_taken_away_and_the_block_moves_back() -> None:
    head = """
    async def close(self):
        # stay
        with Scope(shield=True):
            await self.flush()
            self.open = False
    """
    unwrapped = textwrap.dedent("""
    async def close(self):
        # stay
        await self.flush()
        self.open = False
    """)
    assert taken_back(BASE, head)["unwrap-with"] == [unwrapped]


def test_a_line_that_changed_within_a_wrapped_block_is_taken_back_by_itself() -> None:
    head = """
    async def close(self):
        with Scope(shield=True):
            await self.flush(1)
            self.open = False
    """
    assert textwrap.dedent(head).replace("flush(1)", "flush()") in taken_back(BASE, head)["revert-lines"]


def test_an_except_arm_is_dropped_and_the_others_stay() -> None:
    base = """
    def f():
        try:
            g()
        except KeyError:
            pass
    """
    head = """
    def f():
        try:
            g()
        except KeyError:
            pass
        except ValueError:
            h()
    """
    assert textwrap.dedent(base) in taken_back(base, head)["revert-lines"]
    only = """
    def f():
        try:
            g()
        except ValueError:
            h()
    """
    assert taken_back("def f():\n    g()\n", only)["drop-except"] == ["\ndef f():\n    g()\n"]


def test_a_decorator_is_dropped() -> None:
    head = "@cache\n@other\ndef f():\n    return 1\n"
    assert "@other\ndef f():\n    return 1\n" in taken_back("def f():\n    return 1\n", head)["drop-decorator"]


def test_each_statement_of_an_added_method_is_dropped() -> None:
    head = (
        BASE
        + "\nasync def drain(self):\n    x: int\n"
        + "    if self.open:\n        await self.close()\n    return 1\n"
    )
    dropped = taken_back(BASE, head)["drop-statement"]
    assert BASE + "\nasync def drain(self):\n    x: int\n    return 1\n" in dropped
    assert head.replace("await self.close()", "pass") in dropped
    assert head.replace("    return 1\n", "") in dropped
    assert len(dropped) == 3


def test_a_string_that_spans_lines_keeps_its_blanks_when_its_block_moves_back() -> None:
    head = '''
    def f():
        with a():
            return """
      x
        y"""
    '''
    (text,) = taken_back("\ndef f():\n    return 1\n", head)["unwrap-with"]
    namespace: dict[str, object] = {}
    exec(text, namespace)
    assert namespace["f"]() == "\n  x\n    y"  # type: ignore[operator]


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("def f(a):\n    for x in a:\n        x()\n        continue\n", "def f(a):\n    while_(a)\n    x()\n    g()\n"),
        (
            "def f():\n    def g():\n        return 1\n    return g\n",
            "def f():\n    x = 0\n    def g():\n        nonlocal x\n        x = 1\n        return 1\n    return g\n",
        ),
    ],
    ids=["continue", "nonlocal"],
)
def test_what_parses_and_is_still_no_program_is_no_mutant(base: str, head: str) -> None:
    assert taken_back(base, head)  # which compiles each


def test_ids_survive_edits_elsewhere_in_the_file() -> None:
    head = BASE.replace("flush()", "flush(1)")
    ids = []
    for before in ("", "import os\n\n\ndef other():\n    return os\n"):
        old, new = (before + BASE).encode(), (before + head).encode()
        found = numbered(reverts({PATH: old}, {PATH: new}, {PATH: Symbols(new)}), {PATH: new})
        ids.append([one.id for one in found])
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])


def test_mutants_that_are_alike_in_one_function_have_different_ids() -> None:
    base = "def f():\n    pass\n    a()\n"
    head = "def f():\n    g()\n    pass\n    g()\n    a()\n    g()\n"
    found = numbered(
        reverts({PATH: base.encode()}, {PATH: head.encode()}, {PATH: Symbols(head.encode())}),
        {PATH: head.encode()},
    )
    assert len({one.id for one in found}) == len(found) >= 3


LINES = st.sampled_from(["    a()", "    b()", "    with c():\n        d()", "    x = 1", "    # note", ""])


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=6))
def test_every_revert_parses_and_differs_and_stays_within_the_change(old: list[str], new: list[str]) -> None:
    base, head = (f"def f():\n{chr(10).join(lines)}\n    return 1\n".encode() for lines in (old, new))
    for one in reverts({PATH: base}, {PATH: head}, {PATH: Symbols(head)}):
        text = one.texts({PATH: head})[PATH]
        assert text != head
        ast.parse(text)


@pytest.mark.parametrize("same", ["", "def f():\n    return 1\n"])
def test_nothing_is_taken_back_where_nothing_changed(same: str) -> None:
    assert taken_back(same, same) == {}
