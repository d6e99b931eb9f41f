"""Swapping code objects in place, so that a mutant needs no import of its own.

Assigning `function.__code__` changes every reference at once: bound methods,
partials, `__wrapped__`, registered callbacks. It is right only while nothing that
the old code did is still in force, so everything else gets a cold start: code of
modules and classes, functions that ran while the suite was imported, generators
that are suspended in the old code.
"""

from __future__ import annotations

import ast
import gc
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import AsyncGeneratorType, CodeType, CoroutineType, FunctionType, GeneratorType

from . import codes

Key = tuple[str, int, str]
Swap = tuple[FunctionType, CodeType]

_OPTIMIZED = 0x1
_KIND = 0x20 | 0x80 | 0x200
"""Flags of generators, coroutines and asynchronous generators."""


@dataclass
class Index:
    """What is alive of the files under test once the suite is collected."""

    functions: dict[Key, list[FunctionType]] = field(default_factory=lambda: defaultdict(list))
    suspended: set[Key] = field(default_factory=set)
    ran: set[Key] = field(default_factory=set)
    """Functions that were entered while the suite was imported."""
    names: dict[str, str] = field(default_factory=dict)
    """Real path of each file as code objects spell it."""


def key(code: CodeType, names: dict[str, str]) -> Key | None:
    """What a function is found by again: file, first line and name; None for code of other files."""
    path = names.get(code.co_filename)
    return (path, code.co_firstlineno, code.co_name) if path else None


def build_index(names: dict[str, str], ran: Iterable[CodeType]) -> Index:
    """Find the live functions of the named files. To be called before `gc.freeze()`, which hides them."""
    index = Index(names=names)
    for code in ran:
        if (found := key(code, names)) is not None:
            index.ran.add(found)
    for thing in gc.get_objects():
        kind = type(thing)
        if kind is FunctionType:
            if (found := key(thing.__code__, names)) is not None:
                index.functions[found].append(thing)
        elif kind in (GeneratorType, CoroutineType, AsyncGeneratorType):
            code = getattr(thing, "gi_code", None) or getattr(thing, "cr_code", None) or thing.ag_code
            if (found := key(code, names)) is not None:
                index.suspended.add(found)
    return index


def plan(original: CodeType, mutated: CodeType, source: str, path: str, index: Index) -> list[Swap] | str:
    """What to swap for a mutated source, or why it needs a cold start.

    Args:
        original, mutated: the file, compiled in the same way.
        source: the mutated text.
        path: the real path of the file.
        index: what is alive.
    """
    todo: list[Swap] = []
    for chain in codes.chains(original, mutated):
        done = False
        for old, new in reversed(chain):
            if not old.co_flags & _OPTIMIZED:
                if done:
                    break
                return "module level" if old.co_name == "<module>" else f"body of class {old.co_name}"
            found = _swaps(original, source, old, new, (path, old.co_firstlineno, old.co_name), index)
            if isinstance(found, str):
                return f"{old.co_name} {found}"
            todo += found
            done = done or bool(found)
        if not done:
            return f"no live function has {chain[-1][0].co_name}"
    return todo


def _swaps(original: CodeType, source: str, old: CodeType, new: CodeType, found: Key, index: Index) -> list[Swap] | str:
    if found in index.ran:
        return "ran while the suite was imported"
    if found in index.suspended:
        return "is suspended"
    if (old.co_flags ^ new.co_flags) & _KIND:
        return "changes its kind"
    swaps: list[Swap] = []
    for function in index.functions.get(found, ()):
        if codes.own(function.__code__) != codes.own(old):
            return "differs from its source"
        if old.co_freevars != new.co_freevars:
            new = _keep_free_variables(original, source, old, new)
            if old.co_freevars != new.co_freevars:
                return "changes its free variables"
        swaps.append((function, new))
    return swaps


def _keep_free_variables(original: CodeType, source: str, old: CodeType, new: CodeType) -> CodeType:
    """The new code with dead references to the free variables that it lost, else it cannot be assigned."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == new.co_name:
            if min([node.lineno, *(item.lineno for item in node.decorator_list)]) != new.co_firstlineno:
                continue
            names: list[ast.stmt] = [ast.Expr(ast.Name(name, ast.Load())) for name in old.co_freevars]
            dead = ast.copy_location(ast.If(ast.Constant(0), names, []), node.body[-1])
            node.body.append(ast.fix_missing_locations(dead))
    again = compile(tree, old.co_filename, "exec", dont_inherit=True)
    for chain in codes.chains(original, again):
        for before, after in chain:
            if before is old:
                return after
    return new


def spellings(paths: Iterable[str], modules: Iterable[object]) -> dict[str, str]:
    """Every name under which code objects may spell the files: given, resolved, as they were imported."""
    real = {os.path.realpath(path) for path in paths}
    names = {path: path for path in real}
    names.update({path: os.path.realpath(path) for path in paths})
    ends = tuple({os.path.basename(path) for path in names})
    for module in modules:
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(ends) and os.path.realpath(file) in real:
            names[file] = os.path.realpath(file)
    return names
