"""What mutants came to, kept by content.

The key is a hash over everything that a result is known to depend on: the layer and
the environment, the suite's own files, the mutated text, the tests that were chosen
and how they were run. What a test reads besides (a server, the hour) is not in it,
so results are reused only where that is asked for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..known import files_digest, harness
from ..revisions import Cache, Environment
from .campaign import Ran

FORMAT = 1
_SETTINGS = ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")


@dataclass(frozen=True)
class Stored:
    """The record in the cache."""

    text: str


class Results:
    """Results of one suite on one interpreter.

    Args:
        cache: where they are kept.
        environment: what the suite ran in.
        tests, cwd: the suite; arguments: of pytest.
    """

    def __init__(
        self, cache: Cache, environment: Environment, tests: Sequence[str], cwd: str, arguments: Sequence[str]
    ) -> None:
        self._cache = cache
        parts = [FORMAT, harness(), environment.digest, environment.interpreter.full, *arguments, *tests]
        self._ground = json.dumps([*map(str, parts), suite_digest(tests, Path(cwd))])

    def key(self, texts: Mapping[str, str], chosen: Sequence[str]) -> str:
        """The key of a mutant's results: its texts, and the tests that are run on it."""
        content = json.dumps([self._ground, sorted(texts.items()), list(chosen)])
        return hashlib.sha256(content.encode()).hexdigest()[:32]

    def get(self, key: str, tests: Sequence[str]) -> Ran | None:
        """What is known, with tests numbered as in `tests`; None where nothing is."""
        stored = self._cache.read("mutants", key, Stored)
        if stored is None:
            return None
        number = {name: index for index, name in enumerate(tests)}
        values = json.loads(stored.text)
        values["results"] = {number[name]: record for name, record in values["results"].items()}
        values["chosen"] = [number[name] for name in values["chosen"]]
        return Ran(**{**values, "known": True})

    def put(self, key: str, ran: Ran, tests: Sequence[str]) -> None:
        """Keep a result, unless the worker failed on it."""
        if ran.broken or len(ran.results) < len(ran.chosen):
            return
        values = asdict(ran)
        values["results"] = {tests[index]: record for index, record in ran.results.items()}
        values["chosen"] = [tests[index] for index in ran.chosen]
        self._cache.make("mutants", key, Stored, lambda folder: Stored(json.dumps(values)))


def suite_digest(tests: Sequence[str], cwd: Path) -> str:
    """A hash over the files that tests are in, what lies beside them, and pytest's settings above them."""
    files: set[Path] = set()
    for name in tests:
        place = (cwd / name.partition("::")[0]).resolve()
        folder = place if place.is_dir() else place.parent
        files.update(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        for above in (folder, *folder.parents):
            files.update(above / setting for setting in _SETTINGS if (above / setting).is_file())
            if above == cwd.resolve():
                break
    return files_digest({path.as_posix(): path for path in files})
