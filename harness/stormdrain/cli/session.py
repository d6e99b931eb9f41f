"""One recorded run of a command: its folder, its progress, and every way in which it can end.

Commands give the work as a function; this module sees to it that whatever
happens in there (a finished run, a user's mistake, Ctrl-C, our own bug) leaves
a run.json, ends our child processes, and comes to the documented exit code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import signal
import sys
import threading
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from .. import store
from ..compare import compare
from ..errors import StormdrainError, UsageError
from ..model import Run, Verdict
from .app import own_fault
from .progress import Progress

Listen = Callable[[object], None]
RUNS_CODE = ("probe", "mutate", "redgreen", "slack", "gate", "replay")
"""Commands that run the code under test."""
Work = Callable[[Listen], Run]


def start_of(*, base: str | None = "", head: str = "", seed: int = 0) -> Run:
    """What is known of a run before it begins."""
    return Run(
        command=("stormdrain", *sys.argv[1:]),
        verdict=Verdict.NA,
        exit_code=130,
        started=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        base=base or "",
        head=head,
        seed=seed,
    )


def record(name: str, out: Path | None, start: Run, work: Work, show: Callable[[Run, Path], None]) -> int:
    """Do the work, record it, show it; returns the exit code.

    Args:
        name: the command, for the folder's name.
        out: the folder that was asked for.
        start: see :func:`start_of`.
        work: is given `listen` for records and progress lines; returns the run,
            with verdict and exit code decided.
        show: prints the finished (or interrupted) run.

    Raises:
        StormdrainError: from the work, after it was recorded; or the folder cannot be written.
    """
    if os.environ.get("GITHUB_EVENT_NAME") == "pull_request_target" and name in RUNS_CODE:
        raise UsageError(
            "pull_request_target would hand secrets and a token that writes to a pull request's code",
            where="GITHUB_EVENT_NAME",
            todo="run on: pull_request, and comment from a separate workflow that takes the result as data",
        )
    folder = store.new_folder(name, out, Path(store.REPORTS))
    writer = store.Writer(folder, start)
    progress = Progress()
    began = time.monotonic()

    def listen(item: object) -> None:
        if isinstance(item, typing.get_args(store.Record)):
            writer.add(item)
        progress(item)

    def spent() -> float:
        return round(time.monotonic() - began, 3)

    try:
        with _termination_as_interrupt():
            run = dataclasses.replace(work(listen), seconds=spent())
    except KeyboardInterrupt:
        with _uninterrupted():
            progress.end()
            end_children()
            run = writer.so_far()
            run = dataclasses.replace(run, seconds=spent(), comparison=compare(run.cells, run.trials))
            writer.finish(run)
        show(run, folder)
        print(f"interrupted; what was found so far is in {folder}", file=sys.stderr)
        return 130
    except store.CannotWrite:
        progress.end()
        end_children()
        writer.close()
        raise
    except StormdrainError as error:
        progress.end()
        end_children()
        _keep(writer, error, error.exit_code, spent())
        raise
    except Exception as error:
        progress.end()
        end_children()
        _keep(writer, error, 70, spent())
        return own_fault(error, folder)
    progress.end()
    writer.finish(run)
    show(run, folder)
    return run.exit_code


def _keep(writer: store.Writer, error: Exception, exit_code: int, seconds: float) -> None:
    """Record a run that an error ended."""
    run = dataclasses.replace(
        writer.so_far(),
        interrupted=False,
        verdict=Verdict.ERROR,
        exit_code=exit_code,
        errors=(str(error),),
        seconds=seconds,
    )
    with contextlib.suppress(StormdrainError):
        writer.finish(run)


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM (a CI job that is cancelled) ends the run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not cut off the writing of what the first one left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_children(grace: float = 3.0) -> int:
    """End every process that descends from this one; returns how many there were.

    Args:
        grace: seconds between SIGTERM and SIGKILL.
    """
    import psutil  # type: ignore[import-untyped] # it ships no types

    found = psutil.Process().children(recursive=True)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, left = psutil.wait_procs(found, grace)
    for process in left:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, grace)
    return len(found)
