"""pytest's rewritten test files: kept for the cold starts of one run, and mutated like any other code.

Nothing is written beside the user's tests, so without this each cold start would
parse and rewrite all of them again. And where an assertion itself is mutated, the
text that stands in for the file has to go through the same rewriting.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import os
from pathlib import Path
from types import CodeType
from typing import Any

texts: dict[str, str] = {}
"""Mutated test files by real path; they stand in for the files in imports to come."""


def keep(folder: Path) -> None:
    """Keep rewritten files in `folder`. Does nothing where pytest has no such function (a private one)."""
    from _pytest.assertion import rewrite

    original: Any = getattr(rewrite, "_rewrite_test", None)
    if original is None:
        return

    def _rewrite_test(fn: Path, config: Any) -> tuple[Any, CodeType]:
        # The first of the two is what a compiled file would be checked by, and none is written here.
        if (text := texts.get(os.path.realpath(fn))) is not None:
            return None, compiled(text, str(fn), config)
        name = hashlib.sha256(os.fspath(fn).encode()).hexdigest()[:16]
        stat = os.stat(fn)
        key = f"{stat.st_mtime_ns} {stat.st_size}"
        place = folder / f"rewritten-{name}"
        try:
            known, code = marshal.loads(place.read_bytes())
            if known == key:
                return None, code
        except (OSError, ValueError, EOFError, TypeError):
            pass
        found: tuple[Any, CodeType] = original(fn, config)
        scratch = place.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(marshal.dumps((key, found[1])))
        scratch.rename(place)
        return found

    rewrite._rewrite_test = _rewrite_test


def compiled(text: str, path: str, config: Any) -> CodeType:
    """Compile a test file as pytest does, its assertions rewritten.

    Raises:
        SyntaxError: it does not compile.
    """
    from _pytest.assertion.rewrite import rewrite_asserts

    source = text.encode()
    tree = ast.parse(source, filename=path)
    rewrite_asserts(tree, source, path, config)
    code: CodeType = compile(tree, path, "exec", dont_inherit=True)
    return code
