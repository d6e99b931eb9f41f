"""Concurrency operators: each does what its examples say, and says what its survivor means."""

from __future__ import annotations

import ast
import textwrap

import pytest

from stormdrain.mutation.mutant import numbered
from stormdrain.mutation.operators import OPERATORS, Operator, apply_operators
from stormdrain.symbols import Symbols

PATH = "pond/pipe.py"
HEAD = "async def close(self):\n"
EXAMPLES = [
    pytest.param(one, before, after, id=f"{one.name}-{number}")
    for one in OPERATORS.values()
    for number, (before, after) in enumerate(one.examples)
]


def function(body: str) -> str:
    return HEAD + textwrap.indent(body, "    ") + "\n"


@pytest.mark.parametrize(("one", "before", "after"), EXAMPLES)
def test_an_operator_does_what_its_examples_say(one: Operator, before: str, after: str) -> None:
    source = function(before).encode()
    ast.parse(source)
    made = list(apply_operators(PATH, Symbols(source), range(1, 100), [one]))
    texts = [found.texts({PATH: source})[PATH].decode() for found in made]
    for text in texts:
        ast.parse(text)
    assert function(after) in texts
    assert all(found.operator == one.name and found.why == one.why for found in made)


@pytest.mark.parametrize("one", OPERATORS.values(), ids=OPERATORS)
def test_an_operator_has_examples_and_says_why_a_survivor_matters(one: Operator) -> None:
    assert one.examples
    assert one.why.startswith("no test")
    assert not one.why.endswith(".")


CLOSE = '''
import asyncio


class Pool:
    """A pool."""

    async def close(self):
        """Close it."""
        if self._task is None or self._task.done():
            return
        task = asyncio.create_task(self._close())
        cancellation = None
        with Scope(shield=True):
            while not task.done():
                try:
                    await asyncio.wait({task})
                except asyncio.CancelledError as caught:
                    cancellation = caught
        if cancellation is not None:
            error = task.exception()
            if error is not None:
                raise cancellation from error
            raise cancellation
        task.result()

    async def _close(self):
        try:
            self.process.terminate()
            async with asyncio.timeout(5):
                await self.process.wait()
        finally:
            self._active.discard(self.process)
            self.process.kill()

    async def __aexit__(self, *exc):
        async with asyncio.TaskGroup() as group: group.create_task(self.close())


def mend(x): return x
'''


def test_every_mutant_of_real_looking_code_parses_and_differs_and_has_an_id_of_its_own() -> None:
    source = CLOSE.encode()
    symbols = Symbols(source)
    made = numbered(apply_operators(PATH, symbols, range(1, 100)), {PATH: source})
    texts = [one.texts({PATH: source})[PATH] for one in made]
    for text in texts:
        ast.parse(text)
    assert source not in texts
    assert len({one.id for one in made}) == len(made)
    found = {one.operator for one in made}
    assert found >= {
        "wait-to-shield",
        "drop-scope-shield",
        "loop-once",
        "drop-cause",
        "drop-reraise",
        "drop-result",
        "widen-except",
        "rethrow",
        "drop-ending",
        "swap-endings",
        "empty-finally",
        "drop-timeout",
        "drop-done-guard",
    }


def test_only_statements_that_touch_the_lines_are_mutated() -> None:
    source = CLOSE.encode()
    line = CLOSE.splitlines().index("        task.result()") + 1
    made = list(apply_operators(PATH, Symbols(source), [line]))
    assert [one.operator for one in made] == ["drop-result"]
    assert made[0].regions == ((PATH, line, line),)
    assert made[0].symbol == "Pool.close"
