"""Results on stdout: the one way in which commands print, also where nobody reads to the end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..model import Run


def on_terminal(run: Run, folder: Path) -> None:
    """Print the terminal report of a run and where its record is."""
    from ..reporting.terminal import print_report

    quietly(lambda: print_report(run, sys.stdout, folder))


def quietly(write: Callable[[], None]) -> None:
    """Write to stdout; a reader that has gone (`| head`) changes neither the exit code nor the record."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        let_go_of_stdout()


def let_go_of_stdout() -> None:
    """Keep the interpreter from complaining at its exit that nobody reads."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
