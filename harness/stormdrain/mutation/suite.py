"""The host's end of a suite worker: starts it, sends it jobs, hands on what comes back.

One worker holds one suite, collected once, of one revision on one interpreter.
What it says arrives as lines on an inherited descriptor; its output goes to a
file that is shown when it cannot even collect. When the host goes, a guardian
ends everything below it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import stormdrain

from ..errors import BaselineError, InternalError, UsageError
from ..revisions import LAYERS

Record = dict[str, Any]
MEMORY = 1 << 30
START_SECONDS = 300.0
"""How long the import and collection of a suite may take, real seconds."""


@dataclass(frozen=True)
class SuiteSpec:
    """What to run: tests, the code under test, and the interpreter to run it with.

    python: the interpreter of the environment.
    layers: import roots of the revision, first wins.
    files: paths relative to a layer of the files that mutants change.
    test_files: test files that mutants change: their name in mutants (`./tests/test_it.py`) -> real path.
    tests: paths (or node ids) for pytest; cwd: where pytest runs.
    arguments: more arguments for pytest.
    """

    python: str
    layers: tuple[str, ...]
    files: tuple[str, ...]
    tests: tuple[str, ...]
    cwd: str
    arguments: tuple[str, ...] = ()
    test_files: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 2
    seed: int = 0
    memory: int = MEMORY
    label: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def real_path(self, relative: str) -> str:
        """Where a file under test is.

        Raises:
            UsageError: no layer has it.
        """
        for layer in self.layers:
            path = os.path.join(layer, relative)
            if os.path.isfile(path):
                return os.path.realpath(path)
        raise UsageError(
            f"there is no {relative} in this revision",
            where=self.label,
            todo="check the path and the revision",
        )


class SuiteProcess:
    """A worker that has collected a suite. Use as a context manager.

    Raises:
        BaselineError: the suite cannot be collected.
    """

    def __init__(self, spec: SuiteSpec) -> None:
        self.spec = spec
        self.relative = {spec.real_path(path): path for path in spec.files}
        """Real path -> path relative to the layer, of the files under test."""
        self.tests: tuple[str, ...] = ()
        self.facts: Record = {}
        self._buffer = b""
        self._next = 0
        self._folder = Path(tempfile.mkdtemp(prefix="stormdrain-suite-"))
        try:
            self._start()
            self._collect()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SuiteProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> None:
        spec = self.spec
        link = self._folder / "path"
        link.mkdir()
        (link / "stormdrain").symlink_to(Path(stormdrain.__file__).resolve().parent)
        (self._folder / "t").mkdir()
        settings = {
            "files": {path: real for real, path in self.relative.items()},
            "test_files": dict(spec.test_files),
            "layers": [os.path.realpath(layer) for layer in spec.layers],
            "arguments": [*spec.tests, *spec.arguments],
            "cwd": spec.cwd,
            "jobs": spec.jobs,
            "memory": spec.memory,
            "temporary": str(self._folder / "t"),
        }
        (self._folder / "settings.json").write_text(json.dumps(settings))
        environment = {
            **os.environ,
            **spec.environment,
            "PYTHONPATH": os.pathsep.join([str(link), *spec.layers]),
            LAYERS: os.pathsep.join(spec.layers),
            "PYTHONHASHSEED": str(spec.seed % 2**32),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONHOME", "PYTHONSTARTUP"):
            environment.pop(name, None)
        life, self._life = os.pipe()
        commands, self._commands = os.pipe()
        self._events, events = os.pipe()
        inherited = (life, commands, events)
        command = [spec.python, "-m", "stormdrain.worker.suite", str(self._folder / "settings.json")]
        with open(self._folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [*command, *map(str, inherited)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=spec.cwd,
                env=environment,
                pass_fds=inherited,
            )
        for descriptor in inherited:
            os.close(descriptor)

    def _collect(self) -> None:
        for kind, *what in self._lines(START_SECONDS):
            if kind == "collected":
                self.tests, self.facts = tuple(what[0]), what[1]
                break
            if kind == "failed":
                raise self._cannot_collect(what[0])
        if elsewhere := self.facts["elsewhere"]:
            name, file = next(iter(elsewhere.items()))
            raise UsageError(
                f"the tests import {name} from {file}, not from the revision",
                where=self.spec.label,
                todo="remove what puts that place before the revision on sys.path",
            )
        if not self.tests:
            errors = self.facts["errors"]
            raise self._cannot_collect(next(iter(errors.values()), "no test was found"))

    def _cannot_collect(self, why: str) -> BaselineError:
        told = why.strip().rpartition("\n")[2]
        if "No module named 'pytest'" in why:
            return BaselineError(
                "the suite cannot be collected: pytest is not in the environment of the code under test",
                where=self.spec.label,
                todo='add --with pytest, or requires = ["pytest"] in [tool.stormdrain.environment]',
            )
        return BaselineError(
            f"the suite cannot be collected: {told}\n{self.log()}".rstrip(),
            where=self.spec.label,
            todo="make `pytest` collect these tests in that environment (requirements, paths)",
        )

    def log(self, limit: int = 3000) -> str:
        """The end of what the worker printed."""
        with contextlib.suppress(OSError):
            return (self._folder / "log").read_text(errors="replace")[-limit:].strip()
        return ""

    def scratch(self, name: str) -> str:
        """A path in a folder that is gone when the worker is."""
        return str(self._folder / name)

    # -- requests -----------------------------------------------------------

    def needs(self, tests: Mapping[int, Record]) -> None:
        """Say what each test needed unmutated (fields of `worker.suite.child.Needs`)."""
        self._send({"do": "needs", "tests": tests})

    def compile(self, mutants: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, str]]:
        """Compile mutants: id -> files' texts. Gives id -> (fingerprint or `same`, error)."""
        if not mutants:
            return {}
        wanted = [{"id": key, "files": files} for key, files in mutants.items()]
        self._send({"do": "compile", "mutants": wanted})
        found: dict[str, tuple[str, str]] = {}
        for kind, *what in self._lines(START_SECONDS):
            if kind == "compiled":
                found[what[0]] = (what[1], what[2])
                if len(found) == len(mutants):
                    break
        return found

    def run(self, jobs: Sequence[Record]) -> Iterator[tuple[str, str, Any]]:
        """Run jobs and give what comes back, in the order in which it comes.

        Args:
            jobs: fields of `worker.suite.child.Job`, with `files` for the texts.

        Yields:
            `("planned", id, reason)`: how the mutant gets in; `("done", id, facts)`: all
            that became of it, with `results`, pairs of a test's number and its record.
        """
        for job in jobs:
            self._send({"do": "run", **job})
        open_jobs = {job["id"] for job in jobs}
        if not open_jobs:
            return
        for line in self._lines(None):
            yield line[0], line[1], line[2]
            if line[0] == "done":
                open_jobs.discard(line[1])
                if not open_jobs:
                    return

    def _send(self, request: Record) -> None:
        data = (json.dumps(request) + "\n").encode()
        os.set_blocking(self._commands, False)
        while data:
            # The worker may be busy telling us things: read while it does not take more.
            _, writable, _ = select.select([], [self._commands], [], 0.02)
            if writable:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._commands, data) :]
            else:
                self._read(0)

    def _read(self, timeout: float | None) -> bool:
        ready, _, _ = select.select([self._events], [], [], timeout)
        if not ready:
            return True
        data = os.read(self._events, 1 << 20)
        self._buffer += data
        return bool(data)

    def _lines(self, seconds: float | None) -> Iterator[tuple[Any, ...]]:
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            while b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                yield tuple(json.loads(line))
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise BaselineError(
                    f"the suite was not collected within {seconds:.0f} s",
                    where=self.spec.label,
                    todo="look at what its import and its collection do",
                )
            if not self._read(left):
                raise InternalError(f"the suite worker ended ({self.spec.label}):\n{self.log()}")

    def end(self) -> None:
        """Have the worker ended, from any thread; whoever waits for it gets an InternalError, and closes it."""
        if (descriptor := self.__dict__.pop("_life", None)) is not None:
            os.close(descriptor)

    def close(self) -> None:
        """End the worker and everything below it."""
        for name in ("_life", "_commands", "_events"):
            if (descriptor := self.__dict__.pop(name, None)) is not None:
                os.close(descriptor)
        if (process := getattr(self, "_process", None)) is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
