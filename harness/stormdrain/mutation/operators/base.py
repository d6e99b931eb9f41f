"""What an operator is, and how all of them are put to a file."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...splice import Splice
from ...symbols import Symbols, first_line
from ..mutant import Mutant, mutant

Change = tuple[ast.AST, bytes]
"""A node and the source that stands for it in the mutant."""
Changes = Iterator[Sequence[Change | Splice]]


class Source:
    """A parsed file, as operators see it: nodes with their text and their parents.

    Args:
        path: what splices name.
        symbols: its definitions.
    """

    def __init__(self, path: str, symbols: Symbols) -> None:
        self.path, self.symbols = path, symbols
        self._parents = {child: node for node in ast.walk(symbols.tree) for child in ast.iter_child_nodes(node)}

    def text(self, node: ast.AST) -> bytes:
        """A node's source."""
        return self.symbols.text(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around a node."""
        return self._parents.get(node)

    def around(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest node of one of these kinds around a node, within the same function."""
        found = self.parent(node)
        while found is not None and not isinstance(found, kinds):
            if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
                return None
            found = self.parent(found)
        return found

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is in, or is."""
        while not isinstance(node, ast.stmt):
            above = self.parent(node)
            if above is None:
                return None
            node = above
        return node

    def splice(self, node: ast.AST, text: bytes) -> Splice:
        """The splice that puts a text in a node's place."""
        start, end = self.symbols.span(node)
        return Splice(self.path, start, end, text)

    def splice_at(self, start: int, end: int, text: bytes) -> Splice:
        """A splice by offsets."""
        return Splice(self.path, start, end, text)

    def header(self, node: ast.With | ast.AsyncWith | ast.While | ast.If, text: bytes) -> Splice:
        """The splice that puts a text in the place of a compound statement's head, up to its colon."""
        start = self.symbols.span(node)[0]
        last: ast.AST = node.test if isinstance(node, (ast.While, ast.If)) else _last_item(node)
        end = self.symbols.source.index(b":", self.symbols.span(last)[1])
        return Splice(self.path, start, end, text)


def _last_item(node: ast.With | ast.AsyncWith) -> ast.AST:
    item = node.items[-1]
    return item.optional_vars or item.context_expr


@dataclass(frozen=True)
class Operator:
    """One operator.

    name: `drop-shield`; why: what it means if its mutant survives.
    examples: pairs of a function's body before and after; they are its tests.
    change: gives for a node the lists of changes that each make a mutant.
    """

    name: str
    why: str
    examples: tuple[tuple[str, str], ...]
    change: Callable[[ast.AST, Source], Changes]


OPERATORS: dict[str, Operator] = {}
"""All operators by name, in the order in which they are put to a node."""


def operator(
    name: str, why: str, *examples: tuple[str, str]
) -> Callable[[Callable[[ast.AST, Source], Changes]], Callable[[ast.AST, Source], Changes]]:
    """Register an operator."""

    def register(change: Callable[[ast.AST, Source], Changes]) -> Callable[[ast.AST, Source], Changes]:
        OPERATORS[name] = Operator(name, why, examples, change)
        return change

    return register


def apply_operators(
    path: str,
    symbols: Symbols,
    lines: Collection[int],
    operators: Iterable[Operator] | None = None,
) -> Iterator[Mutant]:
    """The mutants that operators make of the statements that touch some lines.

    Args:
        path: the file; symbols: its definitions.
        lines: line numbers, from 1.
        operators: which ones; all by default.
    """
    source = Source(path, symbols)
    seen: set[tuple[Splice, ...]] = set()
    chosen = tuple(OPERATORS.values() if operators is None else operators)
    # Before 3.12 the positions of what stands in an f-string are not to be trusted.
    texts = (node for node in ast.walk(symbols.tree) if isinstance(node, ast.JoinedStr))
    in_text = {id(part) for text in texts for part in ast.walk(text)}
    for node in ast.walk(symbols.tree):
        statement = source.statement(node) if hasattr(node, "lineno") and id(node) not in in_text else None
        if statement is None or not _touches(node, statement, lines):
            continue
        for one in chosen:
            for changes in one.change(node, source):
                splices = [item if isinstance(item, Splice) else source.splice(*item) for item in changes]
                if tuple(splices) in seen or all(_same(symbols, item) for item in splices):
                    continue
                seen.add(tuple(splices))
                span = first_line(statement), statement.end_lineno or statement.lineno
                yield mutant(
                    splices,
                    {path: symbols},
                    source="operator",
                    operator=one.name,
                    why=one.why,
                    statement=span,
                )


def _same(symbols: Symbols, item: Splice) -> bool:
    return symbols.source[item.start : item.end] == item.replacement


def _touches(node: ast.AST, statement: ast.stmt, lines: Collection[int]) -> bool:
    """Whether what an operator would change is among the lines; a compound statement counts by its head."""
    body = getattr(statement, "body", None)
    if node is statement and isinstance(body, list) and isinstance(body[0], ast.stmt):
        last = max(body[0].lineno - 1, statement.lineno)
        if isinstance(statement, ast.Try) or type(statement).__name__ == "TryStar":
            last = statement.end_lineno or last
        return any(number in lines for number in range(first_line(statement), last + 1))
    first, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
    if isinstance(node, ast.ExceptHandler):
        end = max(node.body[0].lineno - 1, first)
    return any(number in lines for number in range(first, end + 1))


# -- what operators ask of nodes ------------------------------------------------


def called(node: ast.AST) -> str:
    """The last name of what a call calls: `shield` of `asyncio.shield(x)`; empty for other nodes."""
    if not isinstance(node, ast.Call):
        return ""
    return name_of(node.func)


def name_of(node: ast.AST) -> str:
    """The last name of an expression: `CancelledError` of `asyncio.CancelledError`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def method(node: ast.AST) -> str:
    """The method that a call of an attribute calls: `close` of `self.pool.close()`."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def plain_call(node: ast.AST) -> ast.Call | None:
    """The call of a statement that is a call, awaited or not, and nothing else."""
    if not isinstance(node, ast.Expr):
        return None
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    return value if isinstance(value, ast.Call) else None


def keyword(node: ast.Call, name: str) -> ast.keyword | None:
    """A keyword argument of a call."""
    return next((item for item in node.keywords if item.arg == name), None)


def is_true(node: ast.AST | None) -> bool:
    """Whether a node is the constant True."""
    return isinstance(node, ast.Constant) and node.value is True
