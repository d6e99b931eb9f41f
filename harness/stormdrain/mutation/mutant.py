"""Mutants before they run: splices with a name, and what is needed to choose tests for them.

A mutant's id must survive edits elsewhere in the file, since entries of a policy
refer to it for weeks. So it is a hash of what the mutant does (operator, qualified
name, old and new text, and which of several alike), never of where.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..splice import Edit, Splice, apply, edit_path, splices, unified
from ..symbols import Symbol, Symbols
from .plan import PlannedMutant, expected

Region = tuple[str, int, int]
"""A file and its first and last line: a test that runs one of them covers the mutant."""


@dataclass(frozen=True)
class Mutant:
    """One changed version of the code under test.

    source: `plan`, `revert`, `operator`, `general`, `neutral`, `forced`.
    functions: `path:name` of the functions that it changes; empty at module or class level.
    regions: the lines that a test must run to be able to notice; empty: any test may.
    """

    name: str
    source: str
    operator: str
    symbol: str
    splices: tuple[Splice, ...]
    functions: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    why: str = ""
    expected: tuple[str, ...] = ()
    line: int = 0
    id: str = ""
    error: str = ""

    @property
    def path(self) -> str:
        """The file that it changes (the first, where there are several)."""
        return self.splices[0].path if self.splices else ""

    def texts(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        """The mutated files.

        Raises:
            UsageError: two of its splices meet.
        """
        return {
            path: apply(sources[path], [item for item in self.splices if item.path == path])
            for path in dict.fromkeys(item.path for item in self.splices)
        }

    def diff(self, sources: Mapping[str, bytes]) -> str:
        """Its change as a unified diff."""
        return "\n".join(unified(path, sources[path], text) for path, text in self.texts(sources).items())


def mutant(
    found: Iterable[Splice],
    symbols: Mapping[str, Symbols],
    *,
    source: str,
    operator: str,
    name: str = "",
    why: str = "",
    statement: tuple[int, int] | None = None,
    expected: tuple[str, ...] = (),
) -> Mutant:
    """Describe a mutant: which symbol it changes, and which lines a test must run to notice.

    Args:
        found: its splices.
        symbols: the definitions of each file that it changes.
        source, operator, name, why, expected: see :class:`Mutant`.
        statement: first and last line of the statement that it changes, where that is enough to know.
    """
    found = tuple(sorted(found, key=lambda item: (item.path, item.start)))
    functions: dict[str, None] = {}
    regions: list[Region] = []
    everywhere = False
    names: dict[str, None] = {}
    for item in found:
        table = symbols[item.path]
        inner = function_at(table, item)
        names[inner.name if inner else _level(table, item)] = None
        if inner is None:
            everywhere = True
            continue
        functions[f"{item.path}:{inner.name}"] = None
        first, last = statement or (inner.line, inner.end_line)
        regions.append((item.path, first, last))
    line = symbols[found[0].path].line_of(found[0].start)
    return Mutant(
        name=name,
        source=source,
        operator=operator,
        symbol=", ".join(filter(None, names)),
        splices=found,
        functions=tuple(functions),
        regions=() if everywhere else tuple(dict.fromkeys(regions)),
        why=why,
        expected=expected,
        line=line,
    )


def function_at(symbols: Symbols, item: Splice) -> Symbol | None:
    """The innermost function whose body holds the whole splice; None at module or class level.

    A change of a signature or a decorator is the enclosing scope's.
    """
    inner = None
    for symbol in symbols.all:
        if isinstance(symbol.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            start = symbols.span(symbol.node.body[0])[0]
            if symbol.node.body[0].lineno > symbol.node.lineno:
                start = symbols.offset(symbol.node.body[0].lineno, 0)
            if start <= item.start and item.end <= symbols.whole_lines(symbol)[1]:
                inner = symbol
    return inner


def _level(symbols: Symbols, item: Splice) -> str:
    return symbols.at(symbols.line_of(item.start))


def numbered(mutants: Iterable[Mutant], sources: Mapping[str, bytes]) -> tuple[Mutant, ...]:
    """The mutants with their ids, and names where they have none."""
    seen: Counter[str] = Counter()
    out: list[Mutant] = []
    for one in mutants:
        old = [sources[item.path][item.start : item.end] for item in one.splices]
        new = [item.replacement for item in one.splices]
        parts = [one.operator, *(item.path for item in one.splices), one.symbol, repr(old), repr(new)]
        content = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        seen[content] += 1
        ordinal = seen[content]
        key = hashlib.sha256(f"{content} {ordinal}".encode()).hexdigest()[:10]
        name = one.name or f"{one.operator}-{key[:6]}"
        out.append(replace(one, id=key, name=name))
    return tuple(out)


def planned(
    wanted: PlannedMutant, sources: Mapping[str, bytes], symbols: Mapping[str, Symbols], exists: Iterable[str]
) -> Mutant:
    """A mutant of a plan on the sources of its revision.

    Raises:
        UsageError: an edit does not fit.
    """
    files = set(exists)
    found: list[Splice] = []
    for edit in wanted.edits:
        path = edit_path(edit, files.__contains__)
        found += splices(edit, sources[path], path)
    made = mutant(
        found,
        symbols,
        source="plan",
        operator=wanted.name,
        name=wanted.name,
        why=wanted.why,
        expected=expected(wanted.caught_by),
    )
    made.texts(sources)  # raises where two edits meet
    return made


def paths_of(edits: Iterable[Edit], exists: Iterable[str]) -> tuple[str, ...]:
    """The files that edits change.

    Raises:
        UsageError: one of them does not exist.
    """
    files = set(exists)
    found: dict[str, None] = {}
    for edit in edits:
        path = edit_path(edit, files.__contains__)
        if path not in files:
            raise UsageError(f"there is no {path} in the revision", where=edit.where, todo="check `module` or `path`")
        found[path] = None
    return tuple(found)
