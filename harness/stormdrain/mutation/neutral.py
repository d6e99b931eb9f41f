"""Neutral mutants: the same program, written otherwise.

A test that "catches" one reads the source instead of running it, and catches every
real mutant for the wrong reason. So each file under test gets one version in which
a local name is another and a comment is new, put on disk for that run, and every
test is run on it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from ..splice import Splice
from ..symbols import Symbol, Symbols
from .mutant import Mutant, mutant

WHY = "a test that notices this reads the source: it says nothing about what the code does"

_LOOKS_AT_NAMES = {"locals", "vars", "eval", "exec", "dir", "globals"}


def neutral(path: str, symbols: Symbols, functions: Collection[str]) -> Mutant | None:
    """The neutral mutant of a file, or None where no function has a local name to change.

    Args:
        path: the file; symbols: its definitions.
        functions: `path:name` of those that are preferred: the ones that other mutants change.
    """
    candidates = [symbol for symbol in symbols.all if symbol.kind == "function"]
    candidates.sort(key=lambda symbol: f"{path}:{symbol.name}" not in functions)
    for symbol in candidates:
        if found := _renamed(path, symbols, symbol):
            return mutant(found, {path: symbols}, source="neutral", operator="rewrite", why=WHY)
    return None


def _renamed(path: str, symbols: Symbols, symbol: Symbol) -> list[Splice]:
    function = symbol.node
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    nodes = list(ast.walk(function))
    inner = [node for node in nodes if node is not function and isinstance(node, _SCOPES)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    if inner or any(name.id in _LOOKS_AT_NAMES for name in names):
        return []
    shared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    taken = {name.id for name in names}
    # Before 3.12 the positions of what stands in an f-string are not to be trusted.
    in_text = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    shared |= {name.id for name in names if id(name) in in_text}
    for name in names:
        own = isinstance(name.ctx, ast.Store) and name.id not in shared | arguments | bound
        if own and not name.id.startswith("__") and f"{name.id}_" not in taken and not _is_pattern(nodes, name.id):
            found = [
                Splice(path, *symbols.span(other), f"{name.id}_".encode()) for other in names if other.id == name.id
            ]
            line = symbols.offset((function.end_lineno or function.lineno) + 1, 0)
            return [*found, Splice(path, line, line, b"# The same program, written otherwise.\n")]
    return []


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def _is_pattern(nodes: list[ast.AST], name: str) -> bool:
    """Whether a name is bound in a way that has no Name node: an import or a match pattern."""
    return any(getattr(node, "asname", None) == name or (hasattr(node, "name") and node.name == name) for node in nodes)
