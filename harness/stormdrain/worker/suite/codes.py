"""Code objects compared: what makes two compiled files the same program.

A mutant is worth running only if it differs from the original and from its
siblings in what the interpreter executes: bytecode, constants, names or
exception table. Positions do not count, so a reformatted line is no mutant. The
same comparison tells which functions a mutant changed, and so what to swap.
"""

from __future__ import annotations

import dis
import hashlib
import warnings
from collections.abc import Iterator
from types import CodeType

Pair = tuple[CodeType, CodeType]


def compiled(source: str | bytes, path: str) -> CodeType:
    """Compile a file. A mutant may be of a kind that the compiler warns of: that is no reason to refuse it.

    Raises:
        SyntaxError, ValueError: it does not compile.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code: CodeType = compile(source, path, "exec", dont_inherit=True)
    return code


def nested(code: CodeType) -> list[CodeType]:
    """The code objects among the constants of a code object, in order."""
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def tree(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that are nested in it."""
    yield code
    for inner in nested(code):
        yield from tree(inner)


def _constant(value: object) -> object:
    if isinstance(value, CodeType):
        return "code"
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    return f"{type(value).__name__} {value!r}"


def own(code: CodeType) -> tuple[object, ...]:
    """Everything that a code object does itself, without nested code objects and positions."""
    constants: object = [_constant(value) for value in code.co_consts]
    program: object = code.co_code
    if "__static_attributes__" in code.co_names:
        # From 3.13 a class body holds the names that its methods assign to self.
        # Dropping `self.x = 1` in a method must not count as a change of the class.
        steps = [(step.opname, str(_constant(step.argval))) for step in dis.get_instructions(code)]
        at = steps.index(("STORE_NAME", str(_constant("__static_attributes__"))))
        constants, program = None, steps[: at - 1] + steps[at + 1 :]
    return (
        code.co_name,
        program,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        getattr(code, "co_exceptiontable", b""),
    )


def chains(original: CodeType, mutated: CodeType, outer: tuple[Pair, ...] = ()) -> Iterator[tuple[Pair, ...]]:
    """Where two compiled files differ: chains of pairs, outermost first; the last pair itself differs."""
    outer += ((original, mutated),)
    here, there = nested(original), nested(mutated)
    if own(original) != own(mutated):
        yield outer
    if len(here) == len(there):
        for first, second in zip(here, there, strict=True):
            yield from chains(first, second, outer)


def same(first: CodeType, second: CodeType) -> bool:
    """Whether two compiled files do the same."""
    return next(chains(first, second), None) is None


def fingerprint(code: CodeType) -> str:
    """A hash that is equal where :func:`same` holds (in one process: constants are compared by repr)."""
    digest = hashlib.sha256()
    for part in tree(code):
        digest.update(repr(own(part)).encode())
    return digest.hexdigest()[:16]
