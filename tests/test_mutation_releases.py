"""Ten real changes, from release to release of public packages: every hunk gives a mutant that compiles, or has a reason.

The releases are read where the cache keeps them; nothing of them is installed, run or kept here.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormdrain.mutation.revert import reverts
from stormdrain.mutation.sources import changed_files
from stormdrain.revisions import Cache, resolve
from stormdrain.symbols import Symbols

PAIRS = (
    ("aiosqlite", "0.20.0", "0.21.0", ""),
    ("anyio", "4.2.0", "4.3.0", "src"),
    ("claude-agent-sdk", "0.2.110", "0.2.111", "src"),
    ("dramatiq", "1.12.1", "1.12.3", ""),
    ("quart", "0.19.5", "0.20.0", "src"),
    ("async-timeout", "4.0.2", "4.0.3", ""),
    ("uvicorn", "0.14.0", "0.15.0", ""),
    ("aiorwlock", "1.3.0", "1.4.0", ""),
    ("aiolimiter", "1.2.1", "1.3.0", "src"),
    ("janus", "1.0.0", "2.0.0", ""),
)


def hunks(old: bytes, new: bytes) -> Iterator[tuple[int, int, bytes]]:
    """First and last byte in the new text of each group of changed lines, and what stood there before."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            yield len(b"".join(after[:j1])), len(b"".join(after[:j2])), b"".join(before[i1:i2])


def reason(new: bytes, start: int, end: int, text: bytes) -> str:
    """Why there is no mutant of a hunk; empty where there is none."""
    taken_back = new[:start] + text + new[end:]
    try:
        compile(taken_back, "taken back", "exec", dont_inherit=True)
    except SyntaxError:
        return "taken back by itself it is no program"
    return "the same program" if ast.dump(ast.parse(taken_back)) == ast.dump(ast.parse(new)) else ""


@pytest.mark.long
@pytest.mark.parametrize(("name", "old", "new", "root"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_every_hunk_of_a_real_change_gives_a_mutant_or_has_a_reason(name: str, old: str, new: str, root: str) -> None:
    before, after = (
        Path(resolve(f"pypi:{name}=={version}", project=Path.cwd(), cache=Cache(), sdist=True).source or "") / root
        for version in (old, new)
    )
    base = changed_files(before, after)
    head = {path: (after / path).read_bytes() for path in base}
    made = reverts(base, head, {path: Symbols(text, where=path) for path, text in head.items()})
    counts = Counter(hunks=0, mutants=len(made))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in made:
            (text,) = one.texts(head).values()
            compile(text, one.path, "exec", dont_inherit=True)
            assert text != head[one.path]
    for path, text in head.items():
        mine = [item for one in made for item in one.splices if item.path == path]
        for start, end, instead in hunks(base[path], text):
            counts["hunks"] += 1
            if not any(item.start <= end and start <= item.end for item in mine):
                why = reason(text, start, end, instead)
                counts[why] += 1
                assert why, f"{path}: {text[start:end].decode()!r} for {instead.decode()!r}"
    print(name, dict(counts))
    assert counts["hunks"]
    assert made
