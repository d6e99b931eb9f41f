"""Splices: the one representation of every change to source."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormdrain.errors import UsageError
from stormdrain.splice import (
    Edit,
    Splice,
    apply,
    edit_path,
    edited,
    line_splices,
    read_edits,
    splices,
    unified,
)
from stormdrain.symbols import Symbols

SOURCE = b'''\
"""A module."""
from __future__ import annotations

import os
import sys

LIMIT = 3


class Door:
    open: bool = False

    @property
    def wide(self) -> bool:
        return self.open

    async def close(self) -> None:
        """Close it."""
        try:
            await self.push()
        finally:
            self.open = False

    def push(self): return None


def start():
    def handler():
        return 1

    return handler


if os.name == "posix":
    def sync(): return "posix"
else:
    def sync(): return "other"
'''


def one(**table: object) -> Edit:
    return read_edits([{"module": "pkg.mod", **table}], "plan.toml")[0]


def changed(source: bytes = SOURCE, **table: object) -> str:
    after = edited(source, [one(**table)], "pkg/mod.py")
    ast.parse(after)
    return after.decode()


def test_a_method_is_replaced_with_its_decorators_and_indented_to_fit() -> None:
    after = changed(symbol="Door.wide", replace="def wide(self):\n    return 'x'\n")
    assert "    def wide(self):\n        return 'x'\n\n    async def close" in after
    assert "@property" not in after


def test_text_within_strings_is_not_indented() -> None:
    after = changed(symbol="Door.close", replace='async def close(self):\n    return """\na\n  b"""\n')
    door = ast.parse(after).body[5]
    assert isinstance(door, ast.ClassDef)
    close = door.body[2]
    assert isinstance(close, ast.AsyncFunctionDef)
    assert ast.literal_eval(close.body[0].value) == "\na\n  b"  # type: ignore[attr-defined]


def test_a_closure_is_named_with_locals() -> None:
    after = changed(symbol="start.<locals>.handler", replace="def handler():\n    return 2")
    assert "    def handler():\n        return 2\n\n    return handler" in after


def test_a_sibling_is_added_after_and_before() -> None:
    after = changed(symbol="Door.close", add_after="async def _close_impl(self):\n    pass\n")
    assert "self.open = False\n\n    async def _close_impl(self):\n        pass\n\n    def push" in after
    before = changed(symbol="Door.wide", add_before="def narrow(self):\n    pass\n")
    assert "    def narrow(self):\n        pass\n\n    @property\n    def wide" in before
    at_end = changed(symbol="sync#2", add_after="def other():\n    pass")
    assert at_end.rstrip().endswith("def other():\n        pass")


def test_an_import_follows_the_last_one_at_the_top() -> None:
    assert "import sys\nimport asyncio\n\nLIMIT" in changed(**{"import": "import asyncio"})
    assert changed(b"def f(): pass\n", **{"import": "import a"}) == "import a\ndef f(): pass\n"
    assert changed(b'"""Doc."""', **{"import": "import a"}) == '"""Doc."""\nimport a\n'
    assert changed(b"", **{"import": "import a"}) == "import a\n"


def test_text_is_replaced_in_a_symbol_only() -> None:
    after = changed(symbol="Door.close", old="self.open = False", new="pass")
    assert "        finally:\n            pass\n" in after
    assert changed(old="return ", new="return  ", count=6).count("return  ") == 6


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"old": "nowhere", "new": ""}, "0 times"),
        ({"old": "return", "new": ""}, "not 1"),
        ({"old": "  try:\n  await self.push()", "new": "x"}, "another indentation"),
        ({"symbol": "Door.shut", "delete": True}, "no definition of Door.shut"),
        ({"symbol": "close", "delete": True}, "Door.close"),
        ({"symbol": "sync", "delete": True}, "defined 2 times"),
        ({"symbol": "start", "replace": "def start(:"}, "not Python"),
        ({"symbol": "start"}, "exactly one thing"),
        ({"symbol": "start", "replace": "x", "delete": True}, "exactly one thing"),
        ({"symbol": "start", "replace": "x", "new": "y"}, "go with `old`"),
        ({"replace": "x"}, "needs a symbol"),
        ({"old": "x"}, "`new`"),
        ({"old": "x", "new": "y", "count": 0}, "1 or more"),
        ({"import": "import a", "symbol": "start"}, "module level"),
        ({"old": "x", "new": "y", "path": "a.py"}, "one of them"),
        ({"old": "x", "new": "y", "sybmol": "start"}, "no key 'sybmol'"),
        ({"old": 1, "new": "y"}, "must be a str"),
    ],
)
def test_an_edit_that_does_not_fit_says_why(table: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        changed(**table)
    assert said in str(caught.value)
    assert "plan.toml, edit 1" in caught.value.where
    assert caught.value.todo


@pytest.mark.parametrize("path", ["/etc/passwd", "../x.py", "", "a/../b.py"])
def test_a_path_stays_below_the_import_root(path: str) -> None:
    with pytest.raises(UsageError):
        read_edits([{"path": path, "old": "x", "new": "y"}], "plan.toml")


def test_a_module_is_found_as_file_or_package() -> None:
    edit = one(old="x", new="y")
    assert edit_path(edit) == "pkg/mod.py"
    assert edit_path(edit, {"pkg/mod.py"}.__contains__) == "pkg/mod.py"
    assert edit_path(edit, {"pkg/mod/__init__.py"}.__contains__) == "pkg/mod/__init__.py"


def test_a_definition_is_deleted_with_its_lines_and_a_lone_one_leaves_pass() -> None:
    assert "close" not in changed(symbol="Door.close", delete=True)
    assert "    pass\nelse:" in changed(symbol="sync#1", delete=True)
    assert "LIMIT" not in changed(symbol="LIMIT", delete=True)


def test_line_ends_of_the_file_are_kept() -> None:
    crlf = SOURCE.replace(b"\n", b"\r\n")
    after = edited(crlf, [one(symbol="start", replace="def start():\n    return 1")], "pkg/mod.py")
    assert b"def start():\r\n    return 1\r\n" in after
    assert after.count(b"\n") == after.count(b"\r\n")


def test_a_byte_order_mark_and_wide_characters_do_not_shift_offsets() -> None:
    source = b"\xef\xbb\xbf" + "é = 'ü'; ö = 1\ndef f(): return 'ß'\n".encode()
    after = edited(source, [one(symbol="f", replace="def f(): return 2")], "m.py")
    assert after == b"\xef\xbb\xbf" + "é = 'ü'; ö = 1\ndef f(): return 2\n".encode()


def test_edits_of_one_list_are_laid_against_the_same_source_in_any_order() -> None:
    edits = [one(**{"import": "import asyncio"}), one(symbol="start", delete=True), one(old="= 3", new="= 4")]
    assert edited(SOURCE, edits, "m.py") == edited(SOURCE, edits[::-1], "m.py")


def test_edits_that_meet_are_refused() -> None:
    with pytest.raises(UsageError, match="same place"):
        edited(SOURCE, [one(symbol="Door", delete=True), one(symbol="Door.close", delete=True)], "m.py")


def test_a_file_that_cannot_be_parsed_is_named() -> None:
    with pytest.raises(UsageError, match=r"pkg/mod\.py"):
        splices(one(symbol="f", delete=True), b"def f(:", "pkg/mod.py")


def test_a_line_belongs_to_its_innermost_definition() -> None:
    symbols = Symbols(SOURCE)
    lines = SOURCE.decode().splitlines()
    assert symbols.at(lines.index("        return 1") + 1) == "start.<locals>.handler"
    assert symbols.at(lines.index("    @property") + 1) == "Door.wide"
    assert symbols.at(1) == ""


sources = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c", b"\r\n", "ü\n".encode()])).map(b"".join)


@st.composite
def cuts(draw: st.DrawFn) -> tuple[bytes, list[Splice]]:
    source = draw(sources)
    points = sorted(draw(st.lists(st.integers(0, len(source)), max_size=8)))
    pairs = dict.fromkeys(zip(points[::2], points[1::2], strict=False))
    return source, [Splice("m.py", start, end, draw(st.binary(max_size=4))) for start, end in pairs]


@given(cuts(), st.randoms())
def test_splices_commute(case: tuple[bytes, list[Splice]], random: object) -> None:
    source, items = case
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert apply(source, items) == apply(source, shuffled)


@given(cuts())
def test_each_splice_changes_its_own_bytes_and_nothing_else(case: tuple[bytes, list[Splice]]) -> None:
    source, items = case
    after, at, shift = apply(source, items), 0, 0
    for item in sorted(items, key=lambda item: (item.start, item.end)):
        assert after[at + shift : item.start + shift] == source[at : item.start]
        start = item.start + shift
        assert after[start : start + len(item.replacement)] == item.replacement
        at, shift = item.end, shift + len(item.replacement) - (item.end - item.start)
    assert after[at + shift :] == source[at:]


@given(cuts())
def test_splices_can_be_taken_back(case: tuple[bytes, list[Splice]]) -> None:
    source, items = case
    after, shift, back = apply(source, items), 0, []
    for item in sorted(items, key=lambda item: (item.start, item.end)):
        start = item.start + shift
        back.append(Splice("m.py", start, start + len(item.replacement), source[item.start : item.end]))
        shift += len(item.replacement) - (item.end - item.start)
    distinct = {(item.start, item.end) for item in back}
    if len(distinct) == len(back):
        assert apply(after, back) == source


@given(sources, sources)
def test_line_splices_turn_one_source_into_the_other(old: bytes, new: bytes) -> None:
    found = line_splices("m.py", old, new)
    assert apply(old, found) == new
    assert bool(found) == (old != new)
    assert bool(unified("m.py", old, new)) == (old.decode().splitlines() != new.decode().splitlines())
