"""The pytest plugin that takes over once the suite is collected, and serves jobs until it is told to stop.

It stands where pytest would run the tests. Its process stays as collection left
it: no test and no loop ever runs here, so every fork starts from the same state.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from .. import linux
from . import codes, finder, swap
from .child import Job, Needs, Reports, Suite, fork, freeze
from .clock import real_monotonic
from .monitor import ImportWatch
from .pool import Pool, Record, Slot
from .zygote import Zygote


class Collected:
    """What warm and cold sessions share: pytest's hooks up to the end of the collection.

    Args:
        settings: what the host said at the start.
        watch: records what runs during import and collection.
    """

    def __init__(self, settings: Record, watch: ImportWatch) -> None:
        self.settings, self.watch = settings, watch
        self.files: dict[str, str] = settings["files"]
        """Path relative to the layer -> real path, of the files under test."""
        self.temporary = Path(settings["temporary"])
        self.reports = Reports()
        self.errors: dict[str, str] = {}
        """What could not be collected, and why."""
        self.served = False
        self._forks = 0

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self.reports, "stormdrain-reports")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors[report.nodeid] = str(report.longrepr)[-3000:]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.watch.stop()
        self.served = True
        if reporter := session.config.pluginmanager.getplugin("terminalreporter"):
            session.config.pluginmanager.unregister(reporter)
        session.config.option.tbstyle = "native"
        linux.become_subreaper()
        names = swap.spellings(self.files.values(), list(sys.modules.values()))
        index = swap.build_index(names, self.watch.ran)
        self.suite = Suite(
            session.config,
            session.items,
            self.reports,
            index,
            self.settings["memory"],
            self.settings["layers"],
        )
        freeze()
        self.serve()
        return True

    def serve(self) -> None:
        """Run what is to be run."""
        raise NotImplementedError

    def next_temporary(self) -> Path:
        """A folder name for the next fork."""
        self._forks += 1
        return self.temporary / f"{os.getpid()}-{self._forks}"

    def start(self, job: Job, items: list[int]) -> Slot:
        """Make the fork for a job."""
        return Slot(job, items, *fork(self.suite, job, items, self.next_temporary()))


class Session(Collected):
    """The warm session: takes requests from the host and sends it lines.

    Args:
        commands, events: descriptors: requests from the host, lines to it.
        zygote: starts what cannot be swapped.
    """

    def __init__(
        self, settings: Record, commands: int, events: int, watch: ImportWatch, zygote: Zygote
    ) -> None:
        super().__init__(settings, watch)
        self.commands, self.events, self.zygote = commands, events, zygote
        self.original: dict[str, CodeType] = {}
        self.began = real_monotonic()
        self._buffer = b""

    def send(self, *what: object) -> None:
        """A line to the host."""
        data = (json.dumps(what) + "\n").encode()
        while data:
            data = data[os.write(self.events, data) :]

    def serve(self) -> None:
        """Take requests and run jobs until told to stop."""
        self.imported = {os.path.realpath(file) for file in _module_files().values()}
        for path in self.files.values():
            self.original[path] = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        self.pool = Pool(self.settings["jobs"], self.start, self.send, self.suite.needs)
        self.pool.keep.add(self.zygote.pid)
        self.send("collected", [item.nodeid for item in self.suite.items], self.facts())
        while True:
            if self.pool.step(self.commands):
                data = os.read(self.commands, 1 << 20)
                if not data:
                    return
                self._buffer += data
                while b"\n" in self._buffer:
                    line, _, self._buffer = self._buffer.partition(b"\n")
                    request = json.loads(line)
                    do = request.pop("do")
                    if do == "quit":
                        return
                    getattr(self, f"do_{do}")(request)

    def facts(self) -> Record:
        """What the host should know of this process."""
        elsewhere = {}
        for name, file in _module_files().items():
            stem = name.replace(".", "/")
            for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
                if candidate in self.files and os.path.realpath(file) != self.files[candidate]:
                    elsewhere[candidate] = file
        return {
            "seconds": real_monotonic() - self.began,
            "python": ".".join(map(str, sys.version_info[:3])),
            "pytest": pytest.__version__,
            "threads": [thread.name for thread in threading.enumerate()[1:]],
            "elsewhere": elsewhere,
            "errors": self.errors,
        }

    def do_needs(self, request: Record) -> None:
        """What each test needed unmutated."""
        for index, values in request["tests"].items():
            self.suite.needs[int(index)] = Needs(**values)

    def do_compile(self, request: Record) -> None:
        """Answer for each mutant what it compiles to (`same` as the original, or a fingerprint), or why it does not."""
        for one in request["mutants"]:
            try:
                prints = [self._print(relative, text) for relative, text in sorted(one["files"].items())]
            except (SyntaxError, ValueError) as error:
                self.send("compiled", one["id"], "", f"{type(error).__name__}: {error}")
            else:
                self.send("compiled", one["id"], "; ".join(filter(None, prints)) or "same", "")

    def _print(self, relative: str, text: str) -> str:
        path = self.files[relative]
        code = compile(text, path, "exec", dont_inherit=True)
        return "" if codes.same(self.original[path], code) else f"{relative} {codes.fingerprint(code)}"

    def do_run(self, request: Record) -> None:
        """Take a job."""
        texts = {self.files[relative]: text for relative, text in request.pop("files", {}).items()}
        job = Job(texts=texts, **request)
        self.send("planned", job.id, self._plan(job))
        self.pool.submit(job)

    def _plan(self, job: Job) -> str:
        """Decide how the mutant gets in; an empty string where code objects are swapped, else why not."""
        if job.cold:
            return "asked for"
        for path, text in job.texts.items():
            if path not in self.imported:
                continue  # the child imports it, from the mutated text
            found = swap.plan(self.original[path], text, path, self.suite.index)
            if isinstance(found, str):
                job.swaps, job.cold = [], True
                return found
            job.swaps += found
        return ""

    def start(self, job: Job, items: list[int]) -> Slot:
        """Make the process for a job: a fork of this one, or a cold start."""
        if not job.cold:
            return super().start(job, items)
        names = [self.suite.items[index].nodeid for index in items]
        return self.zygote.start(job, items, names, self.suite.needs, self.next_temporary())


class ColdSession(Collected):
    """The session of one mutant that was imported anew. It speaks to the pool of the warm one.

    Args:
        request: the job, the names of its tests, and what each needed unmutated.
        pipe: where to report.
    """

    def __init__(self, settings: Record, request: Record, pipe: int, watch: ImportWatch) -> None:
        super().__init__(settings, watch)
        self.job = Job(**request["job"])
        self.names: list[str] = request["names"]
        self.needs = {int(index): Needs(**values) for index, values in request["needs"].items()}
        self.temporary = Path(request["temporary"])
        self.temporary.mkdir()
        self.pipe = pipe
        finder.LayerFinder.texts = self.job.texts

    def send(self, *what: object) -> None:
        """A line to the pool of the warm session."""
        os.write(self.pipe, (json.dumps(what) + "\n").encode())

    def serve(self) -> None:
        """Run the tests and report them under the numbers that the warm session knows."""
        here = {item.nodeid: index for index, item in enumerate(self.suite.items)}
        there = dict(zip(self.names, self.job.items, strict=True))
        number = {here[name]: there[name] for name in self.names if name in here}
        self.send("collected")
        self.lose([name for name in self.names if name not in here])
        left: list[str] = []

        def emit(kind: str, job: str, *what: Any) -> None:
            if kind == "test":
                self.send("result", number[what[0]], what[1])
            elif kind == "broken":
                self.send("broken", *what)
            else:
                left.extend(what[0]["left"])

        for index, known in number.items():
            if known in self.needs:
                self.suite.needs[index] = self.needs[known]
        self.job.items = list(number)
        pool = Pool(1, self.start, emit, self.suite.needs)
        if number:
            pool.submit(self.job)
        while pool.busy:
            pool.step()
        self.send("end", left)

    def lose(self, names: list[str]) -> None:
        """Report tests that are not there: the mutant made their collection fail."""
        there = dict(zip(self.names, self.job.items, strict=True))
        for name in names:
            why = next((text for node, text in self.errors.items() if name.startswith(node)), "")
            last = why.strip().rpartition("\n")[2]
            self.send("result", there[name], {"out": "failed", "text": f"not collected: {last or 'unknown'}"})


def _module_files() -> dict[str, str]:
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            found[name] = file
    return found
