"""What a cell came to, kept by content: a gate that runs again takes it where nothing changed.

The key is a hash over everything that a campaign is known to depend on: stormdrain's
own source, the script and what lies beside it, the layers and environments of both
sides, the interpreter, storms, budgets and seed. What the code under test asks the
world besides (a server, the hour) is not in it, so `--fresh` runs everything, and the
report says of each cell that was taken.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .model import CellResult, Note, Trial, Verdict
from .revisions import Cache

FORMAT = 1
_LARGEST = 1 << 20
"""Bytes; larger files count by their size alone."""
_SOUND = (Verdict.PASS, Verdict.FAIL, Verdict.NA)
"""What is worth keeping: an error may be gone the next time, and what is unresolved may be resolved."""


@dataclass(frozen=True)
class Kept:
    """The record in the cache."""

    day: str
    result: CellResult
    trials: tuple[Trial, ...]


@functools.cache
def harness() -> str:
    """A hash over stormdrain's own source."""
    return folder_digest(Path(__file__).parent)


def folder_digest(folder: Path) -> str:
    """A hash over a folder's files, by name and content; hidden ones and compiled ones are left out.

    Args:
        folder: the folder.
    """
    named = ((path.relative_to(folder), path) for path in folder.rglob("*") if path.is_file())
    return files_digest(
        {
            inner.as_posix(): path
            for inner, path in named
            if not any(part.startswith(".") or part == "__pycache__" for part in inner.parts)
        }
    )


def files_digest(files: Mapping[str, Path]) -> str:
    """A hash over files, by the names that they are given and by content.

    Args:
        files: name -> path.
    """
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        size = path.stat().st_size
        digest.update(f"{name}\0{size}\0".encode(errors="surrogateescape"))
        if size <= _LARGEST:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(asked: Mapping[str, Any], script: Path, sides: Sequence[str]) -> str:
    """The key of a campaign.

    Args:
        asked: the request that the worker gets.
        script: the probe's script.
        sides: digests of the environments of all sides that are compared on this interpreter.
    """
    content = json.dumps([FORMAT, harness(), dict(asked), folder_digest(script.parent), list(sides)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


class Known:
    """Results of cells from one run to the next.

    Args:
        cache: where they are kept.
        day: today, as it is told of a result that is taken another time.
    """

    def __init__(self, cache: Cache, day: str) -> None:
        self._cache, self._day = cache, day

    def get(self, key: str) -> Kept | None:
        """What an earlier run of the same content found, with a note that says so; None where there was none."""
        kept = self._cache.read("cells", key, Kept)
        if kept is None:
            return None
        note = Note(
            "known", f"taken from a run of {kept.day}, nothing that it depends on has changed (--fresh runs it)"
        )
        return replace(kept, result=replace(kept.result, notes=(*kept.result.notes, note)))

    def put(self, key: str, result: CellResult, trials: Sequence[Trial]) -> None:
        """Keep what a cell came to, where that was decided, in place of what was kept before."""
        undecided = any(tally.unresolved for tally in result.storms)
        if result.verdict in _SOUND and not result.error and not undecided:
            self._cache.drop("cells", key)
            self._cache.make("cells", key, Kept, lambda folder: Kept(self._day, result, tuple(trials)))
