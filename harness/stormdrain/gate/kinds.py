"""What a key of the configuration may hold, in the words of the error that says so."""

from __future__ import annotations

import datetime
import re
from typing import Any

STRINGS, STRING, NUMBER, FLAG, TABLE, TABLES, DATE, PERCENT = (
    "a list of strings",
    "a string",
    "a whole number",
    "true or false",
    "a table",
    "an array of tables",
    "a date (2026-12-31)",
    '"all" or a whole number from 0 to 100',
)


def fits(value: Any, kind: str) -> bool:
    """Whether a value is of a kind, which is one of the texts above."""
    if kind == STRINGS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == DATE:
        if isinstance(value, str):
            return bool(re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", value)) and _is_day(value)
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    if kind == PERCENT and value == "all":
        return True
    if kind == PERCENT:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100
    if kind == NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == TABLES:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return isinstance(value, {STRING: str, FLAG: bool, TABLE: dict}[kind])


def _is_day(value: str) -> bool:
    try:
        datetime.date.fromisoformat(value)
    except ValueError:
        return False
    return True
