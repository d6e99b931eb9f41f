"""Forced failures: for each function that mutants change, one version of it that raises.

A runner whose mutants never execute reports that every one of them survives. So
before any mutant is believed, its function is made to raise, and to leave a mark
in a file as it does, wherever it runs: in the test's process or in a child that a
test starts. Where there is no mark the mutants were not executed, which is said;
where there is one and no test fails, that is worth knowing by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ..splice import Splice
from ..symbols import Symbol, Symbols
from .mutant import Mutant, mutant

MESSAGE = "stormdrain made this function fail"


def forced(function: str, symbols: Mapping[str, Symbols], marker: str) -> Mutant:
    """The forced failure of a function.

    Args:
        function: `path:qualified name`, as :class:`Mutant` names it.
        symbols: the definitions of each file.
        marker: the file that it leaves its mark in.
    """
    path, _, name = function.partition(":")
    table = symbols[path]
    symbol = next(item for item in table.all if item.name == name and item.kind == "function")
    return mutant([_splice(path, table, symbol, marker)], symbols, source="forced", operator="force")


def _splice(path: str, table: Symbols, symbol: Symbol, marker: str) -> Splice:
    assert isinstance(symbol.node, (ast.FunctionDef, ast.AsyncFunctionDef))
    body = symbol.node.body
    doc = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = body[1 if doc and len(body) > 1 else 0]
    offset = table.offset(first.lineno, first.col_offset)
    decorators = getattr(first, "decorator_list", None)
    line = decorators[0].lineno if decorators else first.lineno
    start = table.offset(line, 0)
    indent = table.source[start:offset] if not decorators else table.source[start : table.span(decorators[0])[0] - 1]
    statement = f'raise SystemError({MESSAGE!r}, open({marker!r}, "ab", 0).write(b"."))'.encode()
    if indent.strip():  # on the line of the `def`, or behind a semicolon
        return Splice(path, offset, offset, statement + b"; ")
    return Splice(path, start + len(indent), start + len(indent), statement + b"\n" + indent)
