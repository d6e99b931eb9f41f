"""Operators on how failures and cancellations travel: what is caught, raised again, chained or looked at."""

from __future__ import annotations

import ast

from .base import Changes, Source, called, method, name_of, operator

_WIDER = {"Exception": "BaseException", "CancelledError": "BaseException"}
_NARROWER = {"BaseException": "Exception", "CancelledError": "Exception"}


@operator(
    "drop-reraise",
    "no test looks at whether the exception still comes out after it was handled",
    (
        "try:\n    f()\nexcept ValueError:\n    g()\n    raise",
        "try:\n    f()\nexcept ValueError:\n    g()\n    pass",
    ),
    ("if cancellation is not None:\n    raise cancellation", "if cancellation is not None:\n    pass"),
)
def drop_reraise(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Raise) and (node.exc is None or isinstance(node.exc, (ast.Name, ast.Attribute))):
        yield [(node, b"pass")]


@operator(
    "drop-cause",
    "no test looks at the cause of what is raised",
    ("raise cancellation from error", "raise cancellation"),
    ("raise RuntimeError('no') from None", "raise RuntimeError('no')"),
)
def drop_cause(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Raise) and node.exc is not None and node.cause is not None:
        yield [(node, b"raise " + source.text(node.exc))]


@operator(
    "widen-except",
    "no test lets through here what a wider `except` would swallow",
    ("try:\n    f()\nexcept Exception:\n    g()", "try:\n    f()\nexcept BaseException:\n    g()"),
    (
        "try:\n    f()\nexcept asyncio.CancelledError:\n    g()",
        "try:\n    f()\nexcept BaseException:\n    g()",
    ),
)
def widen_except(node: ast.AST, source: Source) -> Changes:
    yield from _retyped(node, source, _WIDER)


@operator(
    "narrow-except",
    "no test raises here what only the wider `except` catches",
    ("try:\n    f()\nexcept BaseException:\n    g()", "try:\n    f()\nexcept Exception:\n    g()"),
    (
        "try:\n    f()\nexcept CancelledError as error:\n    g()",
        "try:\n    f()\nexcept Exception as error:\n    g()",
    ),
)
def narrow_except(node: ast.AST, source: Source) -> Changes:
    yield from _retyped(node, source, _NARROWER)


def _retyped(node: ast.AST, source: Source, table: dict[str, str]) -> Changes:
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        for kind in node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]:
            if (new := table.get(name_of(kind))) is not None:
                yield [(kind, new.encode())]


@operator(
    "drop-except-type",
    "no test raises this one of the exceptions that are caught together",
    (
        "try:\n    f()\nexcept (OSError, ValueError):\n    g()",
        "try:\n    f()\nexcept (ValueError,):\n    g()",
    ),
    ("try:\n    f()\nexcept (A, B, C):\n    g()", "try:\n    f()\nexcept (B, C,):\n    g()"),
)
def drop_except_type(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Tuple):
        kinds = node.type.elts
        for unwanted in kinds if len(kinds) > 1 else []:
            kept = [source.text(kind) for kind in kinds if kind is not unwanted]
            yield [(node.type, b"(" + b", ".join(kept) + b",)")]


@operator(
    "rethrow",
    "no test lets this fail: what the handler does instead of raising is not looked at",
    ("try:\n    f()\nexcept OSError:\n    g()", "try:\n    f()\nexcept OSError:\n    raise"),
    ("try:\n    f()\nexcept Cancelled:\n    cancelled = True", "try:\n    f()\nexcept Cancelled:\n    raise"),
)
def rethrow(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.ExceptHandler) and not isinstance(node.body[0], ast.Raise):
        start, end = source.symbols.span(node.body[0])[0], source.symbols.span(node.body[-1])[1]
        yield [source.splice_at(start, end, b"raise")]


@operator(
    "return-in-finally",
    "no test lets an exception or a cancellation go through this `finally`",
    ("try:\n    f()\nfinally:\n    g()", "try:\n    f()\nfinally:\n    g()\n    return"),
)
def return_in_finally(node: ast.AST, source: Source) -> Changes:
    body = getattr(node, "finalbody", None)
    if not isinstance(body, list) or not body or isinstance(body[-1], (ast.Return, ast.Raise)):
        return
    function = source.around(node, ast.FunctionDef, ast.AsyncFunctionDef)
    own_line = not source.symbols.source[
        source.symbols.offset(body[-1].lineno, 0) : source.symbols.span(body[-1])[0]
    ].strip()
    if function is not None and own_line:
        text = source.text(body[-1]) + b"\n" + b" " * body[-1].col_offset + b"return"
        yield [source.splice(body[-1], text)]


@operator(
    "drop-result",
    "no test has a task that failed here: its exception is lost",
    ("task.result()", "pass"),
    ("error = task.exception()", "error = None"),
    ("return task.result()", "return None"),
)
def drop_result(node: ast.AST, source: Source) -> Changes:
    if method(node) in ("result", "exception") and not node.args:  # type: ignore[attr-defined]
        above = source.parent(node)
        yield [(above, b"pass") if isinstance(above, ast.Expr) else (node, b"None")]


@operator(
    "unsuppress",
    "no test makes this raise what is suppressed",
    (
        "with contextlib.suppress(ProcessLookupError):\n    process.kill()",
        "if True:\n    process.kill()",
    ),
)
def unsuppress(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.With) and len(node.items) == 1 and called(node.items[0].context_expr) == "suppress":
        yield [source.header(node, b"if True")]
