"""Taking a wrapper away by the syntax tree, and keeping what it wrapped.

Removing the line of a `with` or a `try` leaves a block that is indented too far.
These functions move the block back; lines that begin inside a string stay as they
are, for their blanks are part of a value.
"""

from __future__ import annotations

import ast

from ..splice import Splice, lines_within_strings
from ..symbols import Symbols


def without_with(path: str, symbols: Symbols, node: ast.With | ast.AsyncWith) -> list[Splice]:
    """The body of a `with` in its place. Names that it binds are gone: a body that uses them fails."""
    return [_replace(path, symbols, node, block_text(symbols, node.body, node))]


def without_arm(path: str, symbols: Symbols, node: ast.AST, handler: ast.ExceptHandler) -> list[Splice]:
    """A `try` without one of its `except` arms; its body alone, where nothing else is left of it."""
    handlers: list[ast.ExceptHandler] = node.handlers  # type: ignore[attr-defined]
    body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
    orelse: list[ast.stmt] = node.orelse  # type: ignore[attr-defined]
    if len(handlers) == 1 and not node.finalbody:  # type: ignore[attr-defined]
        return [_replace(path, symbols, node, block_text(symbols, [*body, *orelse], node))]
    if len(handlers) == 1 and orelse:
        return []
    start = symbols.offset(handler.lineno, 0)
    end = symbols.offset((handler.end_lineno or handler.lineno) + 1, 0)
    return [Splice(path, start, end, b"")]


def without_decorator(path: str, symbols: Symbols, decorator: ast.expr) -> list[Splice]:
    """The definition without one of its decorators."""
    start = symbols.offset(decorator.lineno, 0)
    return [Splice(path, start, symbols.offset((decorator.end_lineno or decorator.lineno) + 1, 0), b"")]


def without_statement(path: str, symbols: Symbols, node: ast.stmt, *, alone: bool) -> list[Splice]:
    """A block without one of its statements; `pass` in its place where it is alone or shares its line."""
    start, end = symbols.span(node)
    first = symbols.offset(node.lineno, 0)
    last = symbols.offset((node.end_lineno or node.lineno) + 1, 0)
    shares = symbols.source[first:start].strip() or symbols.source[end:last].strip()[:1] not in (b"", b"#")
    if alone or shares:
        return [Splice(path, start, end, b"pass")]
    return [Splice(path, first, last, b"")]


def _replace(path: str, symbols: Symbols, node: ast.AST, text: bytes) -> Splice:
    start, end = symbols.span(node)
    return Splice(path, start, end, text)


def block_text(symbols: Symbols, body: list[ast.stmt], outer: ast.AST) -> bytes:
    """The source of statements, indented as the one that they stand for; the first line without blanks."""
    width = symbols.span(outer)[0] - symbols.offset(outer.lineno, 0)  # type: ignore[attr-defined]
    inside = lines_within_strings(symbols.source.decode())
    parts: list[bytes] = []
    groups = _runs(body)
    for first, last in groups:
        start = symbols.span(first)[0]
        line = min([first.lineno, *(item.lineno for item in getattr(first, "decorator_list", []))])
        own_line = not symbols.source[symbols.offset(first.lineno, 0) : start].strip()
        begin = symbols.offset(line, 0) if own_line else start
        shift = (start - symbols.offset(first.lineno, 0) - width) if own_line else 0
        text = symbols.source[begin : symbols.span(last)[1]]
        lines = text.split(b"\n")
        for number, content in enumerate(lines):
            if line + number not in inside and content[:shift].strip() == b"":
                lines[number] = content[shift:]
        if not own_line:
            lines[0] = b" " * width + lines[0]
        parts.append(b"\n".join(lines))
    return b"\n".join(parts)[width:]


def _runs(body: list[ast.stmt]) -> list[tuple[ast.stmt, ast.stmt]]:
    """Statements that follow each other in the source, as first and last: comments between them are kept."""
    runs: list[tuple[ast.stmt, ast.stmt]] = []
    for statement in body:
        if (
            runs
            and statement.lineno - (runs[-1][1].end_lineno or 0) <= 1
            and statement.col_offset == runs[-1][0].col_offset
        ):
            runs[-1] = (runs[-1][0], statement)
        else:
            runs.append((statement, statement))
    return runs
