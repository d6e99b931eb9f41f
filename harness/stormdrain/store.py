"""The only writer of reports/: what a run found stays readable whatever becomes of the host.

While a run goes on, its folder holds `trials.jsonl`: a line for each record, the
kind first, flushed as it comes, so that a host that was killed or a disk that
ran full leaves everything up to the last line. When the run ends, `run.json` is
put in place in one rename and the journal is removed. Readers get a
:class:`~stormdrain.model.Run` from either.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .errors import StormdrainError, UsageError
from .model import (
    SCHEMA,
    Baseline,
    CellResult,
    MutantRecord,
    Run,
    Trial,
    Verdict,
    from_json,
    merge,
    to_json,
)
from .model.suites import OwnTest, RedGreen, Slack

JOURNAL = "trials.jsonl"
RESULT = "run.json"
REPORTS = "reports"
_AGAIN = "name another run, or run the command again that wrote it"

Record = Trial | CellResult | MutantRecord | Baseline | RedGreen | Slack | OwnTest
_KINDS: dict[str, type[Any]] = {
    "trial": Trial,
    "cell": CellResult,
    "mutant": MutantRecord,
    "baseline": Baseline,
    "redgreen": RedGreen,
    "slack": Slack,
    "own": OwnTest,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class CannotWrite(StormdrainError):
    """The run's folder cannot be written (exit 2)."""


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CannotWrite(
            f"the run cannot be written: {error.strerror or error}",
            where=str(error.filename or folder),
            todo="free some room or name a folder that can be written with --out DIR",
        ) from error


def new_folder(command: str, out: Path | None, reports: Path) -> Path:
    """The folder of a new run, made: `out`, or `<UTC time>-<command>` under `reports`.

    A finished run that is there already is kept as `run.before.json`.

    Raises:
        CannotWrite: it cannot be made or written.
    """
    if out is not None:
        with _told(out):
            out.mkdir(parents=True, exist_ok=True)
            if (out / RESULT).exists():
                os.replace(out / RESULT, out / "run.before.json")
        return out
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    for attempt in range(1, 1000):
        folder = reports / (f"{stamp}-{command}" + (f"-{attempt}" if attempt > 1 else ""))
        with _told(folder):
            try:
                folder.mkdir(parents=True)
            except FileExistsError:
                continue
        return folder
    raise CannotWrite("a thousand runs started in this second", where=str(reports), todo="use --out DIR")


class Writer:
    """Writes one run. Safe to call from several threads.

    Args:
        folder: an existing folder, see :func:`new_folder`.
        start: what is known before the first record; its verdict does not count.
    """

    def __init__(self, folder: Path, start: Run) -> None:
        self.folder = folder
        self._start = start
        self._lock = threading.Lock()
        self._records: dict[str, list[Any]] = {name: [] for name in _KINDS}
        with _told(folder):
            self._journal: IO[bytes] = (folder / JOURNAL).open("wb")
        self._append("run", as_json(start))

    def add(self, record: Record) -> None:
        """Write a record down at once.

        Raises:
            CannotWrite: the disk is full or the folder is gone; what was written before stays.
        """
        with self._lock:
            self._records[_NAMES[type(record)]].append(record)
            self._append(_NAMES[type(record)], to_json(record))

    def _append(self, kind: str, data: object) -> None:
        line = json.dumps([kind, data], ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
        with _told(self.folder / JOURNAL):
            self._journal.write(line)
            self._journal.flush()

    def so_far(self) -> Run:
        """The run as far as it was recorded, marked as interrupted."""
        with self._lock:
            return assemble(self._start, self._records)

    def finish(self, run: Run) -> Path:
        """Put run.json in place and remove the journal; returns its path.

        Raises:
            CannotWrite: it cannot be written; the journal stays.
        """
        path = self.folder / RESULT
        with self._lock:
            write_atomically(
                path, json.dumps(finite(as_json(run)), ensure_ascii=True, allow_nan=False, indent=1) + "\n"
            )
            self.close()
            with contextlib.suppress(OSError):
                (self.folder / JOURNAL).unlink()
        return path

    def close(self) -> None:
        """Close the journal; it stays where it is."""
        with contextlib.suppress(OSError):
            self._journal.close()


def as_json(run: Run) -> dict[str, Any]:
    """The JSON form of a run, with the version by which it is read: a default elsewhere, never here."""
    return {"schema": run.schema, **to_json(run)}


def finite(value: Any) -> Any:
    """The value with the largest number there is in the place of infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return math.copysign(sys.float_info.max, value)
    return value


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Raises:
        CannotWrite: it cannot be written; the old one is still there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with _told(path):
        try:
            with draft.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()


def assemble(start: Run, records: Mapping[str, Sequence[Any]]) -> Run:
    """A run of which only the records are known, by kind: marked as interrupted, exit 130."""
    cells, trials = tuple(records["cell"]), tuple(records["trial"])
    done = {cell.cell.key for cell in cells}
    loose = [trial.verdict for trial in trials if trial.cell not in done and trial.phase == "storm"]
    verdict = merge([*(cell.verdict for cell in cells), *loose])
    return dataclasses.replace(
        start,
        interrupted=True,
        exit_code=130,
        # Nothing that was cut off may look like a clean bill.
        verdict=Verdict.UNRESOLVED if verdict in (Verdict.PASS, Verdict.NA) else verdict,
        trials=trials,
        cells=cells,
        mutants=tuple({mutant.id: mutant for mutant in records["mutant"]}.values()),
        baselines=tuple(records["baseline"]),
        redgreen=tuple(records["redgreen"]),
        slack=tuple(records["slack"]),
        own=tuple(records["own"]),
    )


def load_run(path: Path) -> Run:
    """Read a run: a run.json, a run's folder, or the folder of a run that never ended.

    Raises:
        UsageError: there is none, or it is damaged or of another version.
    """
    target = path / RESULT if path.is_dir() else path
    if path.is_dir() and not target.exists() and (path / JOURNAL).exists():
        return _load_journal(path / JOURNAL)
    try:
        data = json.loads(target.read_bytes())
    except FileNotFoundError:
        raise UsageError(
            "there is no run here",
            where=str(path),
            todo=f"name a folder that holds {RESULT} or {JOURNAL}, or a {RESULT}",
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"the run cannot be read: {error}", where=str(target), todo=_AGAIN) from error
    return _read(data, target)


def _read(data: object, where: Path) -> Run:
    # Version 1 was first written without its number.
    schema = data.get("schema", 1) if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"the run has schema {schema}, this stormdrain reads {SCHEMA}",
            where=str(where),
            todo="use the version of stormdrain that wrote it, or run it again",
        )
    try:
        return from_json(Run, data)
    except (ValueError, TypeError) as error:
        raise UsageError(f"this is not a run: {error}", where=str(where), todo=_AGAIN) from error


def _load_journal(path: Path) -> Run:
    start: Run | None = None
    found: dict[str, list[Any]] = {name: [] for name in _KINDS}
    with path.open("rb") as stream:
        for line in stream:
            if not line.endswith(b"\n"):
                break  # the host ended in the middle of it
            try:
                kind, data = json.loads(line)
                if kind == "run":
                    start = _read(data, path)
                elif kind in _KINDS:
                    found[kind].append(from_json(_KINDS[kind], data))
            except (ValueError, TypeError) as error:
                raise UsageError(f"a line of the journal is damaged: {error}", where=str(path), todo=_AGAIN) from error
    if start is None:
        raise UsageError("the run ended before it began: nothing is recorded", where=str(path), todo=_AGAIN)
    return assemble(start, found)
