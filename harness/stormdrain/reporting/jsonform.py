"""The run as JSON for other programs: run.json itself, readable by strict parsers.

JSON has no NaN and no infinity, and many parsers refuse a lone surrogate; both
become something that every reader takes.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ..model import Run, to_json


def json_report(run: Run) -> str:
    """The run in the form of run.json."""
    return json.dumps(strict(to_json(run)), ensure_ascii=True, allow_nan=False, indent=2) + "\n"


def strict(value: Any) -> Any:
    """The value without what strict parsers refuse: NaN becomes null, lone surrogates are written out."""
    if isinstance(value, dict):
        return {strict(key): strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return value
