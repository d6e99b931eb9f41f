"""Operators on what is held: references that keep a task alive, sets that track, lists that exempt."""

from __future__ import annotations

import ast

from .base import Changes, Source, called, method, operator, plain_call

TASKS = {"create_task", "ensure_future", "spawn", "run_coroutine_threadsafe"}


@operator(
    "drop-task-reference",
    "no test collects garbage while the task waits: only the loop's weak set holds it then",
    ("self._task = asyncio.create_task(f())", "asyncio.create_task(f())"),
    ("task = loop.create_task(f())", "loop.create_task(f())"),
)
def drop_task_reference(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Assign) and called(node.value) in TASKS and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Attribute) or (isinstance(target, ast.Name) and not _read(target, source)):
            yield [(node, source.text(node.value))]


def _read(target: ast.Name, source: Source) -> bool:
    """Whether a local name is read anywhere in its function: dropping it would only raise NameError."""
    function = source.around(target, ast.FunctionDef, ast.AsyncFunctionDef)
    return function is not None and any(
        isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load)
        for node in ast.walk(function)
    )


@operator(
    "drop-tracking",
    "no test looks at what is tracked, or needs it to be kept alive",
    ("self._tasks.add(task)", "pass"),
    ("_ACTIVE.append(process)", "pass"),
    ("task.add_done_callback(self._tasks.discard)", "pass"),
)
def drop_tracking(node: ast.AST, source: Source) -> Changes:
    call = plain_call(node)
    if call is not None and method(call) in ("add", "append", "add_done_callback", "register", "push"):
        yield [(node, b"pass")]


@operator(
    "drop-exemption",
    "no test has this one among those that are swept",
    ("if task in (me, self._shutdown_task):\n    return", "if task in (me,):\n    return"),
    (
        "doomed = [t for t in tasks if t is not me and t is not self._stop]",
        "doomed = [t for t in tasks if True and t is not self._stop]",
    ),
    ("if task is self._shutdown_task:\n    return", "if False:\n    return"),
)
def drop_exemption(node: ast.AST, source: Source) -> Changes:
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return
    kind, right = node.ops[0], node.comparators[0]
    if isinstance(kind, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        for unwanted in right.elts if len(right.elts) > 1 else []:
            kept = b", ".join(source.text(item) for item in right.elts if item is not unwanted)
            before, after = {ast.Tuple: (b"(", b",)"), ast.List: (b"[", b"]")}.get(type(right), (b"{", b"}"))
            yield [(right, before + kept + after)]
    elif isinstance(kind, (ast.Is, ast.IsNot)) and not isinstance(right, ast.Constant):
        yield [(node, b"True" if isinstance(kind, ast.IsNot) else b"False")]
