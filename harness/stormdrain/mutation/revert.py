"""Reverted hunks: each independent part of a change, taken back while the rest stays.

A line of a diff that can be taken back without any test noticing is a line that no
test holds. Groups of lines are compared without their indentation, for a change
that wraps a block moves every line of it and changes only one; what it wrapped them
in is taken away by the syntax tree: a `with` unwrapped, an `except` arm or a
decorator dropped. So is each statement that the change added, since one group may
hold a whole method.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..splice import Splice, apply
from ..symbols import Symbols, all_blocks
from .mutant import Mutant, mutant
from .unwrap import without_arm, without_decorator, without_statement, without_with

WHY = "no test holds this part of the change: it can be taken back unnoticed"


@dataclass(frozen=True)
class Group:
    """Lines `head[start:end]` (from 0) that stand for `base[old_start:old_end]`."""

    start: int
    end: int
    old_start: int
    old_end: int


def reverts(base: Mapping[str, bytes], head: Mapping[str, bytes], symbols: Mapping[str, Symbols]) -> tuple[Mutant, ...]:
    """One mutant for each part of the change from base to head that can be taken back by itself.

    Args:
        base, head: the files that both have, by path.
        symbols: the definitions of head's files.
    """
    made: list[Mutant] = []
    for path in sorted(set(base) & set(head)):
        if base[path] == head[path]:
            continue
        for operator, found in _of_file(path, base[path], head[path], symbols[path]):
            made.append(mutant(found, symbols, source="revert", operator=operator, why=WHY))
    return tuple(made)


def _of_file(path: str, old: bytes, new: bytes, symbols: Symbols) -> Iterator[tuple[str, list[Splice]]]:
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    offsets = [0]
    for line in after:
        offsets.append(offsets[-1] + len(line))
    seen: set[tuple[Splice, ...]] = set()

    def fresh(found: list[Splice]) -> bool:
        key = tuple(found)
        known = key in seen or not found
        seen.add(key)
        return not known and _compiles(new, found)

    plain_before, plain_after = [line.strip() for line in before], [line.strip() for line in after]
    moved = [
        part for group in _groups(plain_before, plain_after) for part in _refined(group, plain_before, plain_after)
    ]
    changed = {number for group in moved for number in range(group.start, group.end)}
    for group in moved:
        splice = Splice(path, offsets[group.start], offsets[group.end], _moved_back(group, before, after))
        if splice.replacement.strip() != b"".join(after[group.start : group.end]).strip() and fresh([splice]):
            yield "revert-lines", [splice]
    for group in _groups(before, after):
        text = b"".join(before[group.old_start : group.old_end])
        found = [Splice(path, offsets[group.start], offsets[group.end], text)]
        if fresh(found):
            yield "revert-hunk", found
    for operator, found in (*_by_syntax(path, symbols, changed), *_statements(path, symbols, changed)):
        if fresh(found):
            yield operator, found


def _groups(before: list[bytes], after: list[bytes]) -> list[Group]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [Group(j1, j2, i1, i2) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"]


def _refined(group: Group, before: list[bytes], after: list[bytes]) -> list[Group]:
    """A group split at its most similar pair of lines, and so on: an edited line apart from new ones."""
    old = range(group.old_start, group.old_end)
    new = range(group.start, group.end)
    if len(old) * len(new) <= 1 or len(old) * len(new) > _PAIRS:
        return [group]
    similar, i, j = max((_similarity(before[i], after[j]), -i, -j) for i in old for j in new)
    if similar < _ALIKE:
        return [group]
    i, j = -i, -j
    parts = [Group(group.start, j, group.old_start, i), Group(j + 1, group.end, i + 1, group.old_end)]
    first, last = (_refined(part, before, after) for part in parts)
    both = [*first, Group(j, j + 1, i, i + 1), *last]
    return [part for part in both if part.start < part.end or part.old_start < part.old_end]


_ALIKE = 0.6
_PAIRS = 2500


def _similarity(old: bytes, new: bytes) -> float:
    matcher = difflib.SequenceMatcher(None, old.decode("utf-8", "replace"), new.decode("utf-8", "replace"))
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


def _moved_back(group: Group, before: list[bytes], after: list[bytes]) -> bytes:
    """Base's lines of a group, indented as head indents the lines around them."""
    shift = 0
    beside = [(group.old_start - 1, group.start - 1), (group.old_end, group.end)]
    if group.end - group.start == group.old_end - group.old_start == 1:
        beside = [(group.old_start, group.start)]  # an edited line: its own indentation is meant
    for old, new in beside:
        if 0 <= old < len(before) and 0 <= new < len(after) and before[old].strip() and after[new].strip():
            shift = _indent(after[new]) - _indent(before[old])
            break
    out = []
    for line in before[group.old_start : group.old_end]:
        text = line.lstrip(b" \t")
        out.append(b" " * max(0, _indent(line) + shift) + text if text.strip() else line)
    return b"".join(out)


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))


def _compiles(source: bytes, found: list[Splice]) -> bool:
    """Whether it is still a program: a `continue` without its loop parses, and so does a `nonlocal` of nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(apply(source, found), "mutant", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def _by_syntax(path: str, symbols: Symbols, changed: set[int]) -> Iterator[tuple[str, list[Splice]]]:
    """What the change wrapped around lines that stayed: those statements whose own first line it wrote."""
    for node in ast.walk(symbols.tree):
        if isinstance(node, (ast.With, ast.AsyncWith)) and node.lineno - 1 in changed:
            yield "unwrap-with", without_with(path, symbols, node)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            for handler in node.handlers:  # type: ignore[attr-defined]
                if handler.lineno - 1 in changed:
                    yield "drop-except", without_arm(path, symbols, node, handler)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                if decorator.lineno - 1 in changed:
                    yield "drop-decorator", without_decorator(path, symbols, decorator)


_KEPT = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)
"""What is not dropped by itself: without it nothing runs at all, or nothing changes."""


def _statements(path: str, symbols: Symbols, changed: set[int]) -> Iterator[tuple[str, list[Splice]]]:
    """Each statement within functions that lies wholly in lines that the change wrote."""
    for block in all_blocks(symbols.tree):
        for node in block:
            lines = range(node.lineno - 1, node.end_lineno or node.lineno)
            constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            declared = isinstance(node, ast.AnnAssign) and node.value is None
            if not isinstance(node, _KEPT) and not constant and not declared and changed.issuperset(lines):
                yield "drop-statement", without_statement(path, symbols, node, alone=len(block) == 1)
