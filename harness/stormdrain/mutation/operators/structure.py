"""Operators on how tasks are put together: groups, gathers, and which thread may call what."""

from __future__ import annotations

import ast

from .base import Changes, Source, called, is_true, keyword, name_of, operator
from .cancelling import without_keyword


@operator(
    "ungroup",
    "no test fails or cancels one task of the group and looks at the others",
    (
        "async with asyncio.TaskGroup() as group:\n    group.create_task(f())",
        "for group in (asyncio,):\n    group.create_task(f())",
    ),
)
def ungroup(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.AsyncWith) and len(node.items) == 1:
        item = node.items[0]
        if called(item.context_expr) == "TaskGroup" and isinstance(item.optional_vars, ast.Name):
            function = item.context_expr.func  # type: ignore[attr-defined]
            if isinstance(function, ast.Attribute):
                module = source.text(function.value)
                yield [source.header(node, b"for " + item.optional_vars.id.encode() + b" in (" + module + b",)")]


@operator(
    "drop-return-exceptions",
    "no test lets one of these fail and looks at the others",
    ("await asyncio.gather(*tasks, return_exceptions=True)", "await asyncio.gather(*tasks)"),
)
def drop_return_exceptions(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Call) and (found := keyword(node, "return_exceptions")) and is_true(found.value):
        yield [(node, without_keyword(node, found, source))]


@operator(
    "change-return-when",
    "no test needs the others to be done, or not to be waited for",
    (
        "await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)",
        "await asyncio.wait(tasks, return_when=asyncio.ALL_COMPLETED)",
    ),
    (
        "await asyncio.wait(tasks, return_when=ALL_COMPLETED)",
        "await asyncio.wait(tasks, return_when=FIRST_COMPLETED)",
    ),
)
def change_return_when(node: ast.AST, source: Source) -> Changes:
    other = {
        "FIRST_COMPLETED": "ALL_COMPLETED",
        "FIRST_EXCEPTION": "ALL_COMPLETED",
        "ALL_COMPLETED": "FIRST_COMPLETED",
    }
    new = other.get(name_of(node))
    if new is not None and isinstance(getattr(node, "ctx", None), ast.Load):
        yield [(node, source.text(node)[: -len(name_of(node))] + new.encode())]


@operator(
    "unthreadsafe",
    "no test calls this from another thread while the loop sleeps",
    ("loop.call_soon_threadsafe(stop)", "loop.call_soon(stop)"),
)
def unthreadsafe(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Attribute) and node.attr == "call_soon_threadsafe":
        yield [(node, source.text(node.value) + b".call_soon")]


@operator(
    "inline-task",
    "no test needs this to run beside what follows",
    ("await self._task(asyncio.create_task(f()))", "await self._task(f())"),
)
def inline_task(node: ast.AST, source: Source) -> Changes:
    inner = isinstance(source.parent(node), (ast.Call, ast.Await, ast.Tuple, ast.List))
    if inner and called(node) == "create_task" and isinstance(node, ast.Call) and len(node.args) == 1:
        yield [(node, source.text(node.args[0]))]
