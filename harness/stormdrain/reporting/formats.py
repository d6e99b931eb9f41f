"""The formats by name, and the file that each is written to."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..model import Run

FILES = {
    "terminal": "report.txt",
    "markdown": "report.md",
    "json": "report.json",
    "junit": "junit.xml",
    "sarif": "report.sarif",
    "github": "annotations.txt",
    "stryker": "mutation.json",
}
"""Name of the file of each format."""


@dataclass(frozen=True)
class Around:
    """What formats may say beside the run: the folder of its record, and the project's tree."""

    folder: Path | None = None
    root: Path | None = None


def render(name: str, run: Run, around: Around | None = None) -> str:
    """A run in a format, ending in a line end.

    Args:
        name: one of :data:`FILES`.
        run: the run.
        around: see :class:`Around`.
    """
    return _RENDERERS[name](run, around or Around())


def _terminal(run: Run, around: Around) -> str:
    from .terminal import print_report

    stream = io.StringIO()
    print_report(run, stream, around.folder, colour=False)
    return stream.getvalue()


def _markdown(run: Run, around: Around) -> str:
    from .markdown import markdown_report

    return markdown_report(run)


def _json(run: Run, around: Around) -> str:
    from .jsonform import json_report

    return json_report(run)


def _junit(run: Run, around: Around) -> str:
    from .junit import junit_report

    return junit_report(run, around.root)


def _sarif(run: Run, around: Around) -> str:
    from .sarif import sarif_report

    return sarif_report(run, around.root)


def _github(run: Run, around: Around) -> str:
    from .github import github_report

    return github_report(run, around.root)


def _stryker(run: Run, around: Around) -> str:
    from .stryker import stryker_report

    return stryker_report(run)


_RENDERERS: dict[str, Callable[[Run, Around], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "json": _json,
    "junit": _junit,
    "sarif": _sarif,
    "github": _github,
    "stryker": _stryker,
}
