"""Operators on what protects code from a cancellation, and on what limits its time."""

from __future__ import annotations

import ast
import re

from .base import Changes, Source, called, is_true, keyword, name_of, operator, plain_call


@operator(
    "drop-shield",
    "no test cancels the caller while the shielded work runs and looks at whether it is finished",
    ("await asyncio.shield(task)", "await task"),
    ("done = await asyncio.shield(self.close())", "done = await self.close()"),
)
def drop_shield(node: ast.AST, source: Source) -> Changes:
    if called(node) == "shield" and isinstance(node, ast.Call) and len(node.args) == 1:
        yield [(node, source.text(node.args[0]))]


@operator(
    "shield-to-wait",
    "no test holds what comes out of this wait when the task fails: `wait` does not raise, `shield` does",
    ("await asyncio.shield(task)", "await asyncio.wait({task})"),
)
def shield_to_wait(node: ast.AST, source: Source) -> Changes:
    if called(node) == "shield" and isinstance(node, ast.Call) and len(node.args) == 1:
        function = source.text(node.func).replace(b"shield", b"wait")
        yield [(node, function + b"({" + source.text(node.args[0]) + b"})")]


@operator(
    "wait-to-shield",
    "no test holds what comes out of this wait when the task fails: `shield` raises it, `wait` does not",
    ("await asyncio.wait({task})", "await asyncio.shield(task)"),
    ("await asyncio.wait([task], timeout=None)", "await asyncio.shield(task)"),
)
def wait_to_shield(node: ast.AST, source: Source) -> Changes:
    if called(node) == "wait" and isinstance(node, ast.Call) and len(node.args) == 1:
        tasks = node.args[0]
        if isinstance(tasks, (ast.Set, ast.List, ast.Tuple)) and len(tasks.elts) == 1:
            function = source.text(node.func)[: -len("wait")] + b"shield"
            yield [(node, function + b"(" + source.text(tasks.elts[0]) + b")")]


@operator(
    "drop-await",
    "no test needs this to have happened before the next line runs",
    ("await self.flush()", "self.flush()"),
    ("found = await queue.get()", "found = queue.get()"),
)
def drop_await(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Await):
        yield [(node, source.text(node.value))]


@operator(
    "drop-scope-shield",
    "no test closes this in a cancelled scope and looks at what was left undone",
    ("with anyio.CancelScope(shield=True):\n    await f()", "with anyio.CancelScope():\n    await f()"),
    (
        "with move_on_after(2, shield=True) as scope:\n    await f()",
        "with move_on_after(2) as scope:\n    await f()",
    ),
    ("scope.shield = True", "scope.shield = False"),
)
def drop_scope_shield(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Call) and (found := keyword(node, "shield")) and is_true(found.value):
        yield [(node, without_keyword(node, found, source))]
    if isinstance(node, ast.Assign) and is_true(node.value) and name_of(node.targets[0]) == "shield":
        yield [(node.value, b"False")]


def without_keyword(node: ast.Call, unwanted: ast.keyword, source: Source) -> bytes:
    """A call without one of its keyword arguments."""
    kept = [source.text(item) for item in (*node.args, *node.keywords) if item is not unwanted]
    return source.text(node.func) + b"(" + b", ".join(kept) + b")"


@operator(
    "unwrap-scope",
    "no test needs this scope: nothing is cancelled, or timed out, where it would matter",
    ("with anyio.CancelScope(shield=True):\n    await f()", "if True:\n    await f()"),
    ("async with asyncio.timeout(5):\n    await f()", "if True:\n    await f()"),
    ("with anyio.fail_after(5):\n    await f()", "if True:\n    await f()"),
)
def unwrap_scope(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, (ast.With, ast.AsyncWith)) and len(node.items) == 1:
        item = node.items[0]
        if item.optional_vars is None and called(item.context_expr) in _SCOPES:
            yield [source.header(node, b"if True")]


_SCOPES = {"CancelScope", "timeout", "timeout_at", "fail_after", "move_on_after", "fail_at", "move_on_at"}
_TIMED = {"timeout", "timeout_at", "fail_after", "move_on_after", "fail_at", "move_on_at"}


@operator(
    "drop-timeout",
    "no test waits for something that never comes: the timeout could be endless",
    ("await asyncio.wait_for(f(), 5)", "await asyncio.wait_for(f(), None)"),
    ("await asyncio.wait_for(f(), timeout=5)", "await asyncio.wait_for(f(), timeout=None)"),
    ("thread.join(timeout=self.patience)", "thread.join(timeout=None)"),
    ("with anyio.move_on_after(2):\n    await f()", "with anyio.move_on_after(float('inf')):\n    await f()"),
    ("async with asyncio.timeout(2):\n    await f()", "async with asyncio.timeout(None):\n    await f()"),
)
def drop_timeout(node: ast.AST, source: Source) -> Changes:
    if not isinstance(node, ast.Call):
        return
    found = keyword(node, "timeout")
    if found is not None:
        yield [(found.value, b"None")]
    elif called(node) == "wait_for" and len(node.args) == 2:
        yield [(node.args[1], b"None")]
    elif called(node) in _TIMED and node.args:
        endless = b"None" if called(node) in ("timeout", "timeout_at") else b"float('inf')"
        yield [(node.args[0], endless)]


@operator(
    "shorten-timeout",
    "no test needs this time: the timeout could be over at once",
    ("await asyncio.wait_for(f(), 5)", "await asyncio.wait_for(f(), 0)"),
    ("with anyio.fail_after(self.patience):\n    await f()", "with anyio.fail_after(0):\n    await f()"),
)
def shorten_timeout(node: ast.AST, source: Source) -> Changes:
    if called(node) in (_TIMED - {"timeout_at", "fail_at", "move_on_at"}) and isinstance(node, ast.Call):
        if node.args:
            yield [(node.args[0], b"0")]
    elif called(node) == "wait_for" and isinstance(node, ast.Call) and len(node.args) == 2:
        yield [(node.args[1], b"0")]


@operator(
    "drop-uncancel",
    "no test looks at `cancelling()` afterwards, or nests a timeout or a group around this",
    ("task.uncancel()", "pass"),
    ("if task.uncancel() > 0:\n    raise", "if 0 > 0:\n    raise"),
)
def drop_uncancel(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Expr) and called(node.value) == "uncancel":
        yield [(node, b"pass")]
    elif called(node) == "uncancel" and not isinstance(source.parent(node), ast.Expr):
        yield [(node, b"0")]


@operator(
    "drop-cancel",
    "no test looks at whether what is no longer wanted goes on",
    ("task.cancel()", "pass"),
    ("self._scope.cancel()", "pass"),
)
def drop_cancel(node: ast.AST, source: Source) -> Changes:
    call = plain_call(node)
    if call is not None and called(call) == "cancel" and isinstance(call.func, ast.Attribute):
        yield [(node, b"pass")]


@operator(
    "drop-lock",
    "no test has two callers here at once",
    ("async with self._lock:\n    await f()", "if True:\n    await f()"),
    ("with lock:\n    f()", "if True:\n    f()"),
)
def drop_lock(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, (ast.With, ast.AsyncWith)) and len(node.items) == 1:
        item = node.items[0]
        text = source.text(item.context_expr)
        if item.optional_vars is None and re.search(rb"(?i)lock|mutex|semaphore|\bcond", text):
            yield [source.header(node, b"if True")]
