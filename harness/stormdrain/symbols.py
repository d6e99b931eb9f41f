"""Where the definitions of a source file are, by qualified name and in bytes.

Edits and mutants name what they change as Python does: `Class.method`,
`start.<locals>.handler`. This module finds the bytes that such a name stands
for, decorators included, and says which symbol a line belongs to.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .errors import UsageError

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Symbol:
    """A definition: its qualified name, its bytes (with decorators), and what it is.

    kind: `function`, `class` or `assign` (a name that is given a value).
    alone: it is the only statement of its block.
    """

    name: str
    kind: str
    start: int
    end: int
    line: int
    end_line: int
    node: ast.stmt
    alone: bool = False


class Symbols:
    """The definitions of one file.

    Args:
        source: the whole file, in UTF-8.
        where: what to call it in messages.

    Raises:
        UsageError: the source cannot be parsed by the interpreter that runs this.
    """

    def __init__(self, source: bytes, *, where: str = "") -> None:
        self.source, self.where = source, where
        skip = len(BOM) if source.startswith(BOM) else 0
        try:
            source.decode()
            self.tree = ast.parse(source[skip:])
        except (SyntaxError, ValueError) as error:
            version = ".".join(map(str, sys.version_info[:2]))
            raise UsageError(
                f"Python {version}, which runs stormdrain, cannot read this file: {error}",
                where=where,
                todo="run stormdrain on an interpreter that knows the file's syntax; files must be UTF-8",
            ) from error
        self._lines = [skip]
        for line in source[skip:].splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """The byte offset of a line (from 1) and byte column (from 0); behind the last line, the end."""
        return self._lines[min(line, len(self._lines)) - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The bytes of a node; of a definition without its decorators."""
        return (
            self.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def text(self, node: ast.AST) -> bytes:
        """The source of a node."""
        start, end = self.span(node)
        return self.source[start:end]

    @cached_property
    def all(self) -> tuple[Symbol, ...]:
        """Every definition, outer before inner, in the order of the file."""
        return tuple(self._walk(self.tree.body, ""))

    def find(self, name: str) -> Symbol:
        """The definition of that qualified name; `name#2` is the second of several.

        Raises:
            UsageError: there is none, or there are several and the name does not say which.
        """
        plain, _, ordinal = name.partition("#")
        found = [symbol for symbol in self.all if symbol.name == plain]
        defined = [symbol for symbol in found if symbol.kind != "assign"] or found
        if ordinal.isdigit() and 1 <= int(ordinal) <= len(defined):
            return defined[int(ordinal) - 1]
        if len(defined) == 1 and not ordinal:
            return defined[0]
        if defined:
            lines = ", ".join(str(symbol.line) for symbol in defined)
            raise UsageError(
                f"{plain} is defined {len(defined)} times (lines {lines})",
                where=self.where,
                todo=f'name one of them: "{plain}#1" to "{plain}#{len(defined)}"',
            )
        last = plain.rpartition(".")[2]
        near = [symbol.name for symbol in self.all if symbol.name.rpartition(".")[2] == last]
        near = near or difflib.get_close_matches(plain, [symbol.name for symbol in self.all], 3)
        raise UsageError(
            f"there is no definition of {plain}",
            where=self.where,
            todo=f"perhaps {' or '.join(dict.fromkeys(near))}" if near else "check the name and the revision",
        )

    def at(self, line: int) -> str:
        """The qualified name of the innermost function or class that has this line; empty at module level."""
        inner = ""
        for symbol in self.all:
            if symbol.kind != "assign" and symbol.line <= line <= symbol.end_line:
                inner = symbol.name
        return inner

    def line_of(self, offset: int) -> int:
        """The line (from 1) that a byte offset lies on."""
        return self.source.count(b"\n", 0, offset) + 1

    def whole_lines(self, symbol: Symbol) -> tuple[int, int]:
        """The bytes of all lines that a definition touches, with the last line's end."""
        return self._lines[symbol.line - 1], self._lines[min(symbol.end_line, len(self._lines) - 1)]

    def indent(self, symbol: Symbol) -> str:
        """The blanks before a definition."""
        line = self.source[self._lines[symbol.line - 1] : symbol.start].decode()
        return line[: len(line) - len(line.lstrip(" \t"))]

    def import_offset(self) -> int:
        """Where another import goes: behind the last one that stands before the first function or class."""
        body = self.tree.body
        last: ast.stmt | None = None
        for index, statement in enumerate(body):
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                break
            doc = index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if isinstance(statement, (ast.Import, ast.ImportFrom)) or doc:
                last = statement
        if last is None:
            return self._lines[first_line(body[0]) - 1] if body else len(self.source)
        line = last.end_lineno or last.lineno
        for statement in body:  # `import a; b = (` goes on to another line
            if statement.lineno == line:
                line = max(line, statement.end_lineno or line)
        return self._lines[min(line, len(self._lines) - 1)]

    def _walk(self, body: Iterable[ast.stmt], prefix: str) -> Iterator[Symbol]:
        statements = list(body)
        for node in statements:
            alone = len(statements) == 1
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                kind = "class" if isinstance(node, ast.ClassDef) else "function"
                yield self._symbol(node, prefix + node.name, kind, alone)
                inner = f"{prefix}{node.name}." + ("<locals>." if kind == "function" else "")
                yield from self._walk(node.body, inner)
            elif (name := assigned_name(node)) is not None:
                yield self._symbol(node, prefix + name, "assign", alone)
            else:
                for block in blocks(node):
                    yield from self._walk(block, prefix)

    def _symbol(self, node: ast.stmt, name: str, kind: str, alone: bool) -> Symbol:
        line, end_line = first_line(node), node.end_lineno or node.lineno
        start, end = self.span(node)
        if line < node.lineno:  # the decorators, from the first one's `@`
            start = self.offset(line, 0)
            start += len(self.source[start:]) - len(self.source[start:].lstrip(b" \t\f"))
        return Symbol(name, kind, start, end, line, end_line, node, alone)


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(item.lineno for item in decorators)])


def assigned_name(node: ast.stmt) -> str | None:
    """The name that a plain assignment binds, if it binds exactly one."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return None


def blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of statements within a compound statement that is no definition."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
    for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        yield part.body


def all_blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every block of statements that lies within a function."""
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _inner_blocks(function.body)


def _inner_blocks(block: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    yield block
    for statement in block:
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in blocks(statement):
                yield from _inner_blocks(inner)
