"""The pytest plugin that takes over once the suite is collected.

It stands where pytest would run the tests, and hands over to a role: the warm one,
which serves the host, or a cold one, which runs one mutant that was imported anew.
The warm process stays as collection left it: no test and no loop ever runs there,
so every fork starts from the same state.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any, Protocol

import pytest

from .. import linux
from . import codes, finder, swap
from .board import Board
from .child import Job, Reports, Suite, fork
from .hangs import watch_jumps
from .monitor import ImportWatch
from .pool import Record, Slot
from .zygote import ColdStart, Zygote


class Role(Protocol):
    """What is done with a collected suite."""

    def serve(self, session: Session) -> None:
        """Run what is to be run."""

    def lose(self, session: Session, why: str) -> None:
        """The suite could not be collected at all."""


class Session:
    """pytest's hooks up to the end of the collection.

    Args:
        settings: what the host said at the start.
        watch: records what runs during import and collection.
        role: what is done then; `cold` makes another of what a fork of the zygote is to do.
    """

    def __init__(self, settings: Record, watch: ImportWatch, role: Role, cold: Any) -> None:
        self.settings, self.watch, self.role, self._cold = settings, watch, role, cold
        self.files: dict[str, str] = settings["files"]
        """Path relative to the layer -> real path, of the files under test."""
        self.named: dict[str, str] = {**self.files, **settings["test_files"]}
        """What mutants call files -> real path; test files too."""
        self.temporary = Path(settings["temporary"])
        self.errors: dict[str, str] = {}
        """What could not be collected, and why."""
        self.late_zygote: Zygote | None = None
        """A zygote with pytest configured, where that did not import what is under test."""
        self.reports = Reports()
        self.tests: set[str] = set()
        """Real paths of the files that the tests are in."""
        self.served = False
        self._forks = 0

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self.reports, "stormdrain-reports")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Make the zygote as late as it is of use."""
        if isinstance(self.role, self._cold):
            return
        if not set(self.files.values()) & imported_files():
            begun = Zygote.begin()
            if isinstance(begun, ColdStart):
                self.role = self._cold(self.settings["layers"], begun)
            else:
                self.late_zygote = begun

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
        self.suite = self._look_around(session, warm=not isinstance(self.role, self._cold))
        watch_jumps([part for code in self.suite.codes for part in codes.tree(code)])
        gc.freeze()
        self.role.serve(self)
        return True

    def _look_around(self, session: pytest.Session, *, warm: bool) -> Suite:
        """Find what is alive of the files under test. A cold start swaps nothing: what it loaded is enough."""
        modules = list(sys.modules.values())
        targets = swap.spellings(self.files.values(), modules)
        index, found = swap.Index(names=targets), finder.LayerFinder.loaded
        if warm:
            self.tests = set(map(os.path.realpath, {item.path for item in session.items}))
            for item in session.items:
                _ = item.location  # made on demand and kept: once here instead of once in every fork
            gc.collect()
            index = swap.build_index(swap.spellings([*self.files.values(), *self.tests], modules), self.watch.ran)
            every = (function.__code__ for functions in index.functions.values() for function in functions)
            found = [code for code in every if code.co_filename in targets]
        return Suite(
            session.config,
            session.items,
            self.reports,
            index,
            self.settings["memory"],
            self.settings["layers"],
            targets=targets,
            codes=found,
        )

    def start(self, job: Job, items: list[int], board: Board) -> Slot:
        """Make the fork for a job."""
        pid, pipe = fork(self.suite, job, items, board, self.next_temporary())
        return Slot(job, items, pid, pipe, board)

    def next_temporary(self) -> Path:
        """A folder name for the next fork."""
        self._forks += 1
        return self.temporary / f"{os.getpid()}-{self._forks}"


def module_files() -> dict[str, str]:
    """The file of every module that is imported."""
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str):
            found[name] = file
    return found


def imported_files() -> set[str]:
    """The real paths of all imported modules."""
    return {os.path.realpath(file) for file in module_files().values()}
