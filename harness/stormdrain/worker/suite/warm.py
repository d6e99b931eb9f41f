"""The warm role: takes requests from the host and sends it lines.

Requests: `needs` (what each test needed unmutated), `compile` (is this a mutant at
all?), `run` (a job), `quit`. Lines: `collected`, `compiled`, `planned`, `done`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType

import pytest

from . import codes, rewrites, swap
from .board import Board
from .child import Job, Needs
from .clock import real_monotonic
from .pool import Pool, Record, Slot
from .session import Session, imported_files, module_files
from .zygote import Zygote

_LATE = ("asyncio", "trio", "anyio", "concurrent", "multiprocessing", "_pytest", "exceptiongroup", "sniffio")
"""Packages whose late imports are made once, in the parent, when a test turns out to need them."""


class Warm:
    """Serves the host.

    Args:
        commands, events: descriptors: requests from the host, lines to it.
        zygote: starts what cannot be swapped.
    """

    def __init__(self, commands: int, events: int, zygote: Zygote) -> None:
        self.commands, self.events, self.zygote = commands, events, zygote
        self.began = real_monotonic()
        self.original: dict[str, CodeType] = {}
        self._buffer = b""

    def send(self, *what: object) -> None:
        """A line to the host."""
        data = (json.dumps(what) + "\n").encode()
        while data:
            data = data[os.write(self.events, data) :]

    def lose(self, session: Session, why: str) -> None:
        """Say that there is no suite."""
        with contextlib.suppress(BrokenPipeError):
            self.send("failed", why)

    def serve(self, session: Session) -> None:
        """Take requests and run jobs until told to stop."""
        self.session = session
        self.suite = session.suite
        self.imported = imported_files()
        self.pool = Pool(session.settings["jobs"], self.start, self.send, self.suite.needs)
        self._choose_zygote()
        self.send("collected", [item.nodeid for item in self.suite.items], self.facts())
        while True:
            if not self.pool.step(self.commands):
                continue
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

    def _choose_zygote(self) -> None:
        """Use the late zygote, with the suite's other imports in it, unless that brings in the target."""
        self.pool.keep.add(self.zygote.pid)
        late = self.session.late_zygote
        if late is None:
            return
        self.pool.keep.add(late.pid)
        own = (*self.session.settings["layers"], os.path.realpath(self.session.suite.config.rootpath))
        names = [name for name, file in module_files().items() if not os.path.realpath(file).startswith(own)]
        if late.preload(names, list(self.session.files.values()), self.session.temporary):
            self.zygote.close()
            self.zygote = late
        else:
            late.close()

    def facts(self) -> Record:
        """What the host should know of this process."""
        elsewhere = {}
        for name, file in module_files().items():
            stem = name.replace(".", "/")
            for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
                known = self.session.files.get(candidate)
                if known is not None and os.path.realpath(file) != known:
                    elsewhere[candidate] = file
        return {
            "seconds": real_monotonic() - self.began,
            "python": ".".join(map(str, sys.version_info[:3])),
            "pytest": pytest.__version__,
            "threads": [thread.name for thread in threading.enumerate()[1:]],
            "elsewhere": elsewhere,
            "errors": self.session.errors,
            "paths": [os.path.realpath(item.path) for item in self.suite.items],
            "imported": sorted((path, line) for path, line, _ in self.suite.index.ran),
            "import_lines": sorted({(os.path.realpath(name), line) for name, line in self.session.watch.lines}),
        }

    # -- requests -------------------------------------------------------------

    def do_needs(self, request: Record) -> None:
        """What each test needed unmutated."""
        for index, values in request["tests"].items():
            self.suite.needs[int(index)] = Needs(**values)

    def do_late(self, request: Record) -> None:
        """Import here, once, what tests import by themselves, so that not every fork has to."""
        for name in request["names"]:
            if name.partition(".")[0] in _LATE or name.partition(".")[0] in sys.stdlib_module_names:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def do_compile(self, request: Record) -> None:
        """Answer what each mutant compiles to (`same` as the original, or a fingerprint), or why not."""
        for one in request["mutants"]:
            try:
                prints = [self._print(relative, text) for relative, text in sorted(one["files"].items())]
            except (SyntaxError, ValueError) as error:
                self.send("compiled", one["id"], "", f"{type(error).__name__}: {error}")
            else:
                self.send("compiled", one["id"], "; ".join(filter(None, prints)) or "same", "")

    def _print(self, relative: str, text: str) -> str:
        path = self.session.named[relative]
        code = self._compiled(text, path)
        return "" if codes.same(self._original(path), code) else f"{relative} {codes.fingerprint(code)}"

    def _compiled(self, text: str, path: str) -> CodeType:
        """Compile a file as it was when it was imported."""
        if path in self.session.tests:
            return rewrites.compiled(text, path, self.suite.config)
        return codes.compiled(text, path)

    def _original(self, path: str) -> CodeType:
        if path not in self.original:
            self.original[path] = self._compiled(Path(path).read_text(encoding="utf-8-sig"), path)
        return self.original[path]

    def do_run(self, request: Record) -> None:
        """Take a job."""
        files = request.pop("files", {})
        texts = {self.session.named[relative]: text for relative, text in files.items()}
        job = Job(texts=texts, **request)
        self.send("planned", job.id, self._plan(job))
        self.pool.submit(job)

    def _plan(self, job: Job) -> str:
        """Decide how the mutant gets in; an empty string where code objects are swapped, else why not."""
        if job.cold:
            return "asked for"
        for path, text in job.texts.items():
            if path not in self.imported and path not in self.session.tests:
                continue  # the child imports it, from the mutated text
            mutated = self._compiled(text, path)
            found = swap.plan(self._original(path), mutated, text, path, self.suite.index)
            if isinstance(found, str):
                job.swaps, job.cold = [], True
                return found
            job.swaps += found
        return ""

    def start(self, job: Job, items: list[int], board: Board) -> Slot:
        """Make the process for a job: a fork of this one, or a cold start."""
        if not job.cold:
            return self.session.start(job, items, board)
        names = [self.suite.items[index].nodeid for index in items]
        return self.zygote.start(job, items, names, self.suite.needs, self.session.next_temporary())
