"""`--tests-too`: the assertions of tests, each made impossible to hold.

A test that still passes with its assertion negated asserts nothing there: the line
is not reached, what it compares is swallowed, or an `all(...)` looks at no element.
Some of that depends on the interpreter, so each assertion is put to every one.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from ..splice import Splice
from ..symbols import Symbols
from .mutant import Mutant, function_at, mutant
from .operators.base import called, keyword

WHY = "the test passes with this assertion made impossible: it asserts nothing there"
NEVER = b"__import__('asyncio').InvalidStateError"
"""An exception that is expected in no test by that name."""


def assertions(path: str, symbols: Symbols, lines: Collection[int] | None = None) -> Iterator[Mutant]:
    """One mutant for each way in which an assertion of a test can be made impossible.

    Args:
        path: the test file; symbols: its definitions.
        lines: only assertions on these lines; all by default.
    """
    for node in ast.walk(symbols.tree):
        for operator, splice in _changes(path, symbols, node):
            if lines is not None and node.lineno not in lines:  # type: ignore[attr-defined]
                continue
            function = function_at(symbols, splice)
            if function is not None and _is_test(function.name):
                yield mutant([splice], {path: symbols}, source="assertion", operator=operator, why=WHY)


def _is_test(name: str) -> bool:
    return any(part.startswith("test") for part in name.split("."))


def _changes(path: str, symbols: Symbols, node: ast.AST) -> Iterator[tuple[str, Splice]]:
    if isinstance(node, ast.Assert):
        start, end = symbols.span(node.test)
        yield "negate-assert", Splice(path, start, end, b"not (" + symbols.text(node.test) + b")")
        for inner in ast.walk(node.test):
            if called(inner) == "all" and isinstance(inner, ast.Call) and len(inner.args) == 1:
                generator = inner.args[0]
                if isinstance(generator, (ast.GeneratorExp, ast.ListComp)):
                    yield "fail-all", Splice(path, *symbols.span(generator.elt), b"False")
    elif called(node) == "raises" and isinstance(node, ast.Call):
        kind = node.args[0] if node.args else None
        if kind is not None:
            yield "other-exception", Splice(path, *symbols.span(kind), NEVER)
        if (match := keyword(node, "match")) is not None:
            yield "other-message", Splice(path, *symbols.span(match.value), rb"r'(?!)'")


def files_of_tests(tests: Sequence[str], cwd: Path) -> dict[str, str]:
    """The files that tests are in: name in mutants -> real path. `tests` is as pytest takes it."""
    found = {}
    for name in tests:
        place = cwd / name.partition("::")[0]
        files = [place] if place.is_file() else sorted({*place.rglob("test_*.py"), *place.rglob("*_test.py")})
        for file in files:
            found[f"./{os.path.relpath(file, cwd)}"] = os.path.realpath(file)
    return found


def changed_in(base: Path | None, head: Path) -> set[int] | None:
    """The lines of a test file that are new since base; None (all of them) where base has no such file."""
    if base is None or not base.is_file():
        return None
    from .targets import changed_lines

    old, new = base.read_bytes(), head.read_bytes()
    return changed_lines({"": old}, {"": new}).get("", set()) if old != new else set()


def tests_of(one: Mutant, tests: Sequence[str], paths: Sequence[str], real: str) -> list[int]:
    """The tests that an assertion's function is: those of its file whose name ends in it.

    Args:
        one: the mutant.
        tests: node ids; paths: the real path of each one's file.
        real: the real path of the mutant's file.
    """
    function = one.functions[0].partition(":")[2].partition(".<locals>")[0].replace(".", "::")
    return [
        index
        for index, test in enumerate(tests)
        if paths[index] == real and test.partition("[")[0].endswith(f"::{function}")
    ]
