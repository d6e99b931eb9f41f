"""Operators on what ends things: calls that clean up, their order, loops that wait until it is over."""

from __future__ import annotations

import ast
from itertools import pairwise

from .base import Changes, Source, called, keyword, method, operator, plain_call

ENDINGS = {
    "aclose", "cleanup", "clear", "close", "close_all", "detach", "discard", "disconnect", "drain", "fail",
    "flush", "join", "kill", "notify", "notify_all", "pop", "put_nowait", "release", "remove", "send_signal",
    "set", "shutdown", "stop", "terminate", "unlink", "unregister", "wait", "wait_closed",
}  # fmt: skip
"""Methods whose call is a step of ending something, or tells another side that it may."""


@operator(
    "drop-ending",
    "no test looks at whether this step of the cleanup happened",
    ("process.terminate()", "pass"),
    ("await self.process.wait()", "pass"),
    ("self._children.discard(process)", "pass"),
    ("if self.writer:\n    self.writer.close()", "if self.writer:\n    pass"),
)
def drop_ending(node: ast.AST, source: Source) -> Changes:
    call = plain_call(node)
    if call is not None and method(call) in ENDINGS:
        yield [(node, b"pass")]


@operator(
    "swap-endings",
    "no test needs these two steps of the cleanup in this order",
    ("self.writer.close()\nself.process.terminate()", "self.process.terminate()\nself.writer.close()"),
    ("process.kill()\nawait process.wait()", "await process.wait()\nprocess.kill()"),
)
def swap_endings(node: ast.AST, source: Source) -> Changes:
    for block in _blocks(node):
        for first, second in pairwise(block):
            one, other = plain_call(first), plain_call(second)
            if one is not None and other is not None and {method(one), method(other)} <= ENDINGS | {"cancel"}:
                yield [(first, source.text(second)), (second, source.text(first))]


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    found = (getattr(node, field, None) for field in ("body", "orelse", "finalbody"))
    return [block for block in found if isinstance(block, list) and block and isinstance(block[0], ast.stmt)]


@operator(
    "loop-once",
    "no test needs a second round: nothing interrupts the first",
    ("while not task.done():\n    await f()", "if not task.done():\n    await f()"),
    (
        "while True:\n    await f()\n    if done():\n        break",
        "while True:\n    await f()\n    if done():\n        break\n    break",
    ),
)
def loop_once(node: ast.AST, source: Source) -> Changes:
    if not isinstance(node, ast.While):
        return
    if node.orelse or _leaves(node.body):
        last = node.body[-1]
        if node.body[0].lineno > node.lineno and not isinstance(last, (ast.Break, ast.Return, ast.Raise)):
            indent = b" " * node.body[0].col_offset
            yield [(last, source.text(last) + b"\n" + indent + b"break")]
    else:
        start = source.symbols.span(node)[0]
        yield [source.splice_at(start, start + len("while"), b"if")]


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a loop's body breaks or continues that loop."""
    for node in body:
        if isinstance(node, (ast.Break, ast.Continue)):
            return True
        if isinstance(node, (ast.While, ast.For, ast.AsyncFor)):
            if _leaves(node.orelse):
                return True
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [child for child in ast.walk(node) if isinstance(child, (ast.Break, ast.Continue))]
            if inner and any(_leaves(block) for block in _all_blocks(node)):
                return True
    return False


def _all_blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    parts = [*getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return _blocks(node) + [part.body for part in parts]


@operator(
    "drop-done-guard",
    "no test comes here with a task that is done already",
    ("if not task.done():\n    task.cancel()", "if not False:\n    task.cancel()"),
    (
        "if self._task is None or self._task.done():\n    return",
        "if self._task is None or False:\n    return",
    ),
    ("if process.returncode is None:\n    process.kill()", "if True:\n    process.kill()"),
)
def drop_done_guard(node: ast.AST, source: Source) -> Changes:
    condition = source.around(node, ast.If, ast.IfExp)
    if condition is None or not _within(node, condition.test):  # type: ignore[attr-defined]
        return
    if called(node) in ("done", "is_closed", "is_closing", "cancelled", "is_set") and not node.args:  # type: ignore[attr-defined]
        yield [(node, b"False")]
    if isinstance(node, ast.Compare) and b"returncode" in source.text(node) and len(node.ops) == 1:
        yield [(node, b"True")]


def _within(node: ast.AST, outer: ast.AST) -> bool:
    return any(node is child for child in ast.walk(outer))


@operator(
    "drop-signal-handler",
    "no test sends this signal",
    ("loop.add_signal_handler(signal.SIGTERM, stop)", "pass"),
    ("signal.signal(signal.SIGINT, stop)", "pass"),
    ("loop.remove_signal_handler(signal.SIGTERM)", "pass"),
)
def drop_signal_handler(node: ast.AST, source: Source) -> Changes:
    call = plain_call(node)
    if call is None:
        return
    named = method(call) in ("add_signal_handler", "remove_signal_handler")
    if named or source.text(call.func) == b"signal.signal":
        yield [(node, b"pass")]


@operator(
    "flip-new-session",
    "no test sends a signal to the group, or looks at who gets it",
    ("p = Popen(command, start_new_session=True)", "p = Popen(command, start_new_session=False)"),
    ("t = Thread(target=run, daemon=False)", "t = Thread(target=run, daemon=True)"),
)
def flip_new_session(node: ast.AST, source: Source) -> Changes:
    if isinstance(node, ast.Call):
        for name in ("start_new_session", "daemon"):
            found = keyword(node, name)
            if found is not None and isinstance(found.value, ast.Constant) and type(found.value.value) is bool:
                yield [(found.value, b"False" if found.value.value else b"True")]


@operator(
    "empty-finally",
    "no test fails, or is cancelled, in the body and looks at what the `finally` was for",
    ("try:\n    f()\nfinally:\n    g()\n    h()", "try:\n    f()\nfinally:\n    pass"),
)
def empty_finally(node: ast.AST, source: Source) -> Changes:
    body = getattr(node, "finalbody", None)
    if isinstance(body, list) and body and not (len(body) == 1 and isinstance(body[0], ast.Pass)):
        start, end = source.symbols.span(body[0])[0], source.symbols.span(body[-1])[1]
        yield [source.splice_at(start, end, b"pass")]


@operator(
    "drop-sleep",
    "no test needs the loop to turn here",
    ("await asyncio.sleep(0)", "pass"),
    ("await anyio.lowlevel.checkpoint()", "pass"),
)
def drop_sleep(node: ast.AST, source: Source) -> Changes:
    call = plain_call(node)
    if call is not None and called(call) in ("sleep", "checkpoint") and isinstance(node.value, ast.Await):  # type: ignore[attr-defined]
        yield [(node, b"pass")]
