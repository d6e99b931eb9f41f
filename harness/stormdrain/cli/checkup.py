"""What `doctor` runs: the canaries, on each interpreter that is here.

A canary is a subject with a known fault. What an interpreter and this machine
let be seen of it is what they let be seen of the code under test.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..errors import InternalError, StormdrainError
from ..model import Cell, CellResult, Verdict, from_json, to_json
from ..revisions import Interpreter
from ..workers import Worker

AT_ONCE = 2
PROBES = """
import asyncio

from stormdrain import probe, ready_line, service


class Nothing:
    async def close(self):
        await asyncio.sleep(0)


@probe(operation="close", backends=["asyncio", "uvloop"])
async def on_asyncio(case):
    return Nothing()


@probe(operation=lambda subject, case: __import__("trio").sleep(0), backends=["trio"])
async def on_trio(case):
    return None


@service(exits={"SIGTERM": 0})
def of_services(case):
    script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    return case.spawn(["sh", "-c", script], ready=ready_line("ready"))
"""
CELLS = (("on_asyncio", "asyncio"), ("on_trio", "trio"), ("on_asyncio", "uvloop"), ("of_services", "service"))


@dataclass(frozen=True)
class Seen:
    """What the canaries of one backend came to on one interpreter.

    missing: the backend does not import there, and nothing was run.
    """

    python: Interpreter
    backend: str
    flagged: int = 0
    of: int = 0
    trouble: str = ""
    limits: tuple[str, ...] = ()
    missing: bool = False


def check_up(interpreters: Iterable[Interpreter]) -> Iterator[Seen]:
    """Run every canary on every interpreter, two interpreters at a time; in their order."""
    with tempfile.TemporaryDirectory(prefix="stormdrain-") as folder:
        script = Path(folder, "doctor_probes.py")
        script.write_text(PROBES)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for seen in pool.map(lambda one: _on(one, script), interpreters):
                yield from seen


def _on(python: Interpreter, script: Path) -> list[Seen]:
    try:
        with Worker(str(python.path)) as worker:
            return [_canaries(worker, python, script, probe, backend) for probe, backend in CELLS]
    except (StormdrainError, InternalError) as error:
        return [Seen(python, "worker", trouble=str(error))]


def _canaries(worker: Worker, python: Interpreter, script: Path, probe: str, backend: str) -> Seen:
    request = {
        "do": "campaign",
        "file": str(script),
        "probe": probe,
        "roots": [],
        "cell": to_json(Cell("d0c70000", probe, "doctor", python.full, backend)),
        "storms": ["cancel-before-start"],
        "budget_trials": 1,
        "confirm": False,
        "canaries": True,
    }
    results = [from_json(CellResult, body) for kind, body in worker.ask(request) if kind == "cell"]
    result = results[0]
    if backend in ("trio", "uvloop") and "does not import here" in result.error:
        return Seen(python, backend, missing=True)
    flagged = sum(verdict is Verdict.FAIL for verdict in result.canaries.values())
    limits = tuple(note.message for note in result.notes if note.expectation in ("canary", "backend", "clock"))
    return Seen(python, backend, flagged, len(result.canaries), result.error, limits)
