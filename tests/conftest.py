"""What the tests share: campaigns of probe text in a real worker, and a look at what is left running.

A `campaign` starts no mock: the text of a probe script goes to a worker on the
interpreter that runs the tests, and what comes back is what the host would get.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell starts what runs in the background with SIGINT ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from stormdrain.errors import StormdrainError
from stormdrain.model import Cell, CellResult, Finding, ProbeSpec, Trial, from_json, to_json
from stormdrain.workers import Worker

PYTHON = os.environ.get("STORMDRAIN_TEST_WORKER", sys.executable)
"""The interpreter of the workers: by default the one that runs the tests."""
_ASK = "import sys; print([*sys.version_info[:3]])"
VERSION: tuple[int, ...] = tuple(json.loads(subprocess.check_output([PYTHON, "-S", "-c", _ASK])))
MARK = "STORMDRAIN_SUITE"
"""Environment variable that every process started by this suite inherits, however far away it has got."""
KEY = "0badcafe"


# How long an example takes depends on what else the machine does.
with contextlib.suppress(ImportError):  # the suites in targets/ run in environments that do not have it
    import hypothesis

    hypothesis.settings.register_profile("suite", deadline=None)
    hypothesis.settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out, unless they are asked for."""
    if config.getoption("--long") or "long" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


# -- what is left running ------------------------------------------------------


def marked(mark: str) -> dict[int, str]:
    """Living processes (pid -> command line) that carry a mark in their environment, this one left out."""
    needle = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes().split(b"\0"):
                words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                found[int(entry.name)] = " ".join(word.decode(errors="replace") for word in words)
    return found


def left_after(mark: str, seconds: float) -> dict[int, str]:
    """Processes with the mark that are still there when `seconds` are over; at once if there are none."""
    until = time.monotonic() + seconds
    while (found := marked(mark)) and (left := until - time.monotonic()) > 0:
        with contextlib.suppress(ProcessLookupError):
            number = os.pidfd_open(next(iter(found)))
            try:
                select.select([number], [], [], left)
            finally:
                os.close(number)
    return found


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running() -> Iterator[str]:
    """After the whole suite, no process that descends from it is alive. Gives the mark that they carry."""
    mark = uuid.uuid4().hex
    os.environ[MARK] = mark
    yield mark
    left = left_after(mark, 10)
    assert not left, f"the suite left these running: {left}"


# -- what was recorded ---------------------------------------------------------


def check_run(text: bytes) -> None:
    """Hold a run.json against the schema that the package ships.

    Raises:
        ValueError: it is no JSON that a strict parser takes, or not of that form.
    """

    def refused(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    keeps = _run_schema()
    keeps(json.loads(text, parse_constant=refused))


@functools.cache
def _run_schema() -> Callable[[Any], Any]:
    import fastjsonschema

    from stormdrain.reporting import schema

    check: Callable[[Any], Any] = fastjsonschema.compile(json.loads(schema.FILE.read_bytes()))
    return check


@pytest.fixture(scope="session", autouse=True)
def every_run_keeps_to_its_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whatever run.json any test left behind is one: `"command"` tells it from what was broken on purpose."""
    yield
    wrong = []
    for folder, _, names in os.walk(tmp_path_factory.getbasetemp()):
        for path in [Path(folder, name) for name in names if name in ("run.json", "run.before.json")]:
            text = path.read_bytes()
            if b'"command"' in text:
                try:
                    check_run(text)
                except ValueError as error:
                    wrong.append(f"{path}: {error}")
    assert not wrong, "\n".join(wrong)


# -- campaigns -----------------------------------------------------------------


@dataclass(frozen=True)
class Played:
    """A campaign that was run: the cell's result and every trial, as the host gets them."""

    cell: CellResult
    trials: tuple[Trial, ...]

    def of(self, storm: str, phase: str = "storm") -> list[Trial]:
        """The trials of a storm."""
        return [trial for trial in self.trials if trial.storm == storm and trial.phase in (phase, "calm")]

    @property
    def calm(self) -> Trial:
        return next(trial for trial in self.trials if trial.phase == "calm")

    @property
    def findings(self) -> list[Finding]:
        return [finding for trial in self.trials for finding in trial.findings]

    @property
    def flagged(self) -> set[str]:
        """The expectations that did not hold in some trial."""
        return {finding.expectation for finding in self.findings}

    def told(self) -> str:
        """All of it in a few lines, for the message of a failed assertion."""
        lines = [f"{self.cell.verdict.value} {self.cell.error}"]
        for trial in self.trials:
            seen = trial.observation
            error = seen.outcome.error if seen else None
            how = f"{seen.outcome.kind} {error.type if error else ''}" if seen else trial.error
            lines.append(f"{trial.phase} {trial.token} {trial.verdict.value} {how} {trial.error}")
            lines += [f"    {one.expectation}: {one.message} ({one.site})" for one in trial.findings]
        return "\n".join(lines)


class Stager:
    """Runs probe text in a worker that lives as long as the suite; if it breaks, another takes its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors = folder / "worker.err"
        self._worker: Worker | None = None

    def worker(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(PYTHON, errors=self.errors)
        return self._worker

    def write(self, source: str) -> str:
        """The script's path; the same text has the same path."""
        text = textwrap.dedent(source)
        path = self.folder / f"probe_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
        path.write_text(text)
        return str(path)

    def specs(self, source: str) -> list[ProbeSpec]:
        """The probes of a script, as the worker lists them."""
        answers = self.worker().ask({"do": "list", "file": self.write(source), "roots": []})
        return [from_json(ProbeSpec, body) for _, body in answers]

    def __call__(
        self,
        source: str,
        probe: str = "",
        *,
        storms: Sequence[str] = (),
        schedules: Sequence[str] = (),
        worker: Worker | None = None,
        **options: Any,
    ) -> Played:
        """Run a probe of the script (the first one by default).

        Args:
            source: the script's text.
            probe: its name.
            storms: only these; with neither storms nor schedules all that apply.
            schedules: only these, after calm (as a replay does).
            worker: by default the suite's own.
            options: of the campaign; canaries and confirmation are off unless asked for.
        """
        try:
            return self._play(source, probe, storms, schedules, worker or self.worker(), options)
        except StormdrainError:
            raise
        except BaseException:
            if worker is None:
                self.close()
            raise

    def _play(
        self,
        source: str,
        probe: str,
        storms: Sequence[str],
        schedules: Sequence[str],
        worker: Worker,
        options: dict[str, Any],
    ) -> Played:
        file = self.write(source)
        listed = worker.ask({"do": "list", "file": file, "roots": []})
        specs = [from_json(ProbeSpec, body) for _, body in listed]
        spec = next(spec for spec in specs if spec.name == (probe or specs[0].name))
        python = ".".join(map(str, VERSION))
        request = {
            "do": "campaign",
            "file": file,
            "probe": spec.name,
            "roots": [],
            "cell": to_json(Cell(KEY, spec.name, "here", python, options.pop("backend", spec.backends[0]))),
            "storms": list(storms),
            "schedules": list(schedules),
            "canaries": False,
            "confirm": False,
            **options,
        }
        trials: list[Trial] = []
        cells: list[CellResult] = []
        for kind, body in worker.ask(request):
            if kind == "trial":
                trials.append(from_json(Trial, body))
            else:
                cells.append(from_json(CellResult, body))
        return Played(cells[0], tuple(trials))

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stager]:
    """Call it with the text of a probe script: it is run by a real worker on this interpreter."""
    stager = Stager(tmp_path_factory.mktemp("campaigns"))
    yield stager
    stager.close()
