"""The formats by name, and the file that each is written to."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from ..model import Run

FILES = {
    "terminal": "report.txt",
    "markdown": "report.md",
    "json": "report.json",
}
"""Name of the file of each format."""


def render(name: str, run: Run, folder: Path | None = None) -> str:
    """A run in a format, ending in a line end.

    Args:
        name: one of :data:`FILES`.
        run: the run.
        folder: where its record is, for formats that say so.
    """
    return _RENDERERS[name](run, folder)


def _terminal(run: Run, folder: Path | None) -> str:
    from .terminal import print_report

    stream = io.StringIO()
    print_report(run, stream, folder, colour=False)
    return stream.getvalue()


def _markdown(run: Run, folder: Path | None) -> str:
    from .markdown import markdown_report

    return markdown_report(run)


def _json(run: Run, folder: Path | None) -> str:
    from .jsonform import json_report

    return json_report(run)


_RENDERERS: dict[str, Callable[[Run, Path | None], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
}
