"""The cold role: one mutant that was imported anew, and its tests. It speaks to the pool of the warm one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from . import finder, mirror, rewrites
from .child import Job, Needs
from .pool import Pool
from .session import Session
from .zygote import ColdStart


class Cold:
    """Runs one job and ends.

    Args:
        layers: import roots of the revision.
        start: the job, the names of its tests, what each needed unmutated, and where to report.
    """

    def __init__(self, layers: list[str], start: ColdStart) -> None:
        request = start.request
        self.pipe = start.pipe
        self.job = Job(**request["job"])
        self.number = dict(zip(request["names"], self.job.items, strict=True))
        """What the warm session calls each test."""
        self.needs = {int(index): Needs(**values) for index, values in request["needs"].items()}
        self.temporary = Path(request["temporary"])
        self.temporary.mkdir()
        finder.LayerFinder.texts = rewrites.texts = self.job.texts
        if self.job.on_disk:
            finder.move(mirror.mirror(self.job.texts, layers, self.temporary / "layer"))

    def send(self, *what: object) -> None:
        """A line to the pool of the warm session."""
        data = (json.dumps(what) + "\n").encode()
        while data:
            data = data[os.write(self.pipe, data) :]

    def lose(self, session: Session, why: str) -> None:
        """Report that the mutant let nothing be collected."""
        for known in self.number.values():
            self._lose(known, why)
        self.send("end", [])

    def _lose(self, known: int, why: str) -> None:
        self.send("result", known, {"out": "failed", "text": f"not collected: {why}"})

    def serve(self, session: Session) -> None:
        """Run the tests and report them under the numbers that the warm session knows."""
        self.send("collected")
        session.temporary = self.temporary
        here: dict[int, int] = {}
        for index, item in enumerate(session.suite.items):
            if (known := self.number.get(item.nodeid)) is not None:
                here[index] = known
                if known in self.needs:
                    session.suite.needs[index] = self.needs[known]
        for name, known in self.number.items():
            if known not in here.values():
                why = next((text for node, text in session.errors.items() if name.startswith(node)), "it is gone")
                self._lose(known, why.strip().rpartition("\n")[2])
        self._run(session, here)

    def _run(self, session: Session, here: dict[int, int]) -> None:
        left: list[str] = []

        def emit(kind: str, job: str, facts: dict[str, Any]) -> None:
            left.extend(facts["left"])
            for index, record in facts["results"]:
                self.send("result", here[index], record)
            if facts["broken"]:
                self.send("broken", facts["broken"])

        self.job.items = list(here)
        pool = Pool(1, session.start, emit, session.suite.needs)
        if here:
            pool.submit(self.job)
        while pool.busy:
            pool.step()
        self.send("end", left)
