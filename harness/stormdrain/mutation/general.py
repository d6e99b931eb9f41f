"""General operators: mutmut's, through one adapter.

mutmut's operators are good and nobody needs them written again. It offers no
documented interface for them, so this module is the only place that knows its
inside; it names the versions that it was tried with and says so clearly when
mutmut changes. What comes out are splices like any other mutant's, so mutmut's own
way of running things has no part in it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from importlib import metadata
from typing import Any

from ..errors import UsageError
from ..splice import Splice
from ..symbols import Symbols
from .mutant import Mutant, mutant

KNOWN = ("3.8",)
"""Minor versions of mutmut that this adapter was tried with."""
WHY = "no test depends on this detail"


def general(path: str, symbols: Symbols, lines: Collection[int]) -> Iterator[Mutant]:
    """The mutants that mutmut makes of some lines.

    Args:
        path: the file; symbols: its definitions.
        lines: line numbers, from 1; parsing takes long, so with none nothing is done.

    Raises:
        UsageError: mutmut is not there, or is a version that does not fit.
    """
    if not lines:
        return
    source = symbols.source.decode("utf-8-sig")
    shift = len(symbols.source) - len(source.encode())
    library = _library()
    try:
        module, mutations, spans = library(source, set(lines))
    except Exception as error:
        if type(error).__name__ == "ParserSyntaxError":
            raise UsageError(
                f"mutmut cannot read {path}", where="mutation, general operators", todo="leave them out"
            ) from error
        raise _changed(f"{type(error).__name__}: {error}") from error
    for one in mutations:
        if (span := spans.get(one.original_node)) is None:
            continue
        start = span.start + shift
        text = module.code_for_node(one.mutated_node).encode()
        splice = Splice(path, start, start + span.length, text)
        kind = type(one.original_node).__name__.lower()
        if symbols.source[start : splice.end] != text and not _says_only(symbols, splice):
            yield mutant(
                [splice],
                {path: symbols},
                source="general",
                operator=f"mutmut-{kind}",
                why=WHY,
                statement=_statement(symbols, splice),
            )


def _library() -> Callable[[str, set[int]], tuple[Any, list[Any], Any]]:
    """mutmut's visitor, put to a source: the module, what it would change, and where each node is in bytes.

    Its own entry point reads the configuration of whatever directory it is called
    in, and fails where it finds none.
    """
    try:
        version = metadata.version("mutmut")
    except metadata.PackageNotFoundError as error:
        raise UsageError(
            "general operators need mutmut", where="mutation", todo="pip install 'stormdrain[mutation]'"
        ) from error
    if not version.startswith(tuple(f"{known}." for known in KNOWN)):
        raise _changed(f"version {version} is not one of those")
    try:
        import libcst
        from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
        from mutmut.mutation.file_mutation import MutationVisitor
        from mutmut.mutation.mutators import mutation_operators
        from mutmut.mutation.pragma_handling import IgnoredCode, PragmaVisitor
    except ImportError as error:
        raise _changed(str(error)) from error

    def mutations(source: str, lines: set[int]) -> tuple[Any, list[Any], Any]:
        wrapper = MetadataWrapper(libcst.parse_module(source))
        pragmas = PragmaVisitor("")
        wrapper.visit(pragmas)
        ignored = IgnoredCode(pragmas.no_mutate_lines, pragmas.ignore_node_lines, set())
        visitor = MutationVisitor(mutation_operators, ignored, lines)
        wrapper.visit(visitor)
        return wrapper.module, visitor.mutations, wrapper.resolve(ByteSpanPositionProvider)

    return mutations


def _changed(what: str) -> UsageError:
    return UsageError(
        f"mutmut has changed: this adapter knows {', '.join(KNOWN)}; {what}",
        where="mutation, general operators",
        todo=f"pip install 'mutmut>={KNOWN[0]},<4', or leave general operators out",
    )


_LOGGING = {"critical", "debug", "error", "exception", "info", "log", "warn", "warning"}


def _says_only(symbols: Symbols, splice: Splice) -> bool:
    """Whether a mutant changes nothing but words: a docstring, or what is raised or logged with which text."""
    for node in ast.walk(symbols.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            within: ast.AST | None = node
        elif isinstance(node, ast.Raise):
            within = node.exc
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGING:
            within = node
        else:
            continue
        if within is not None and not isinstance(within, (ast.Name, ast.Attribute)):
            start, end = symbols.span(within)
            if start <= splice.start and splice.end <= end:
                return True
    return False


def _statement(symbols: Symbols, splice: Splice) -> tuple[int, int] | None:
    """First and last line of the innermost statement that holds a splice; of a compound one only its head."""
    found: tuple[int, int] | None = None
    for node in ast.walk(symbols.tree):
        if not isinstance(node, ast.stmt):
            continue
        start, end = symbols.span(node)
        if start <= splice.start and splice.end <= end:
            last = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if isinstance(body, list) and splice.end <= symbols.span(body[0])[0]:
                last = max(node.lineno, body[0].lineno - 1)
            found = (node.lineno, last)
    return found
