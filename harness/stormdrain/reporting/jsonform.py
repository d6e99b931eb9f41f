"""The run as JSON for other programs: run.json itself, readable by strict parsers.

JSON has no infinity, and many parsers refuse a lone surrogate; both become
something that every reader takes.
"""

from __future__ import annotations

import json
from typing import Any

from ..model import Run
from ..store import as_json, finite


def json_report(run: Run) -> str:
    """The run in the form of run.json."""
    text = json.dumps(strict(finite(as_json(run))), ensure_ascii=True, allow_nan=False, indent=2) + "\n"
    return text.replace("##[", "\\u0023#[")  # the same to a reader, and no command in a log of GitHub's


def strict(value: Any) -> Any:
    """The value without what strict parsers refuse: lone surrogates are written out."""
    if isinstance(value, dict):
        return {strict(key): strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value
