"""The JSON schema of run.json, made from the model, so that the two cannot disagree.

`run.schema.json` beside this module is what this makes; `stormdrain report --schema`
prints it, and a test holds the file to the model. After a change of the model:
`python -m stormdrain.reporting.schema`.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import SCHEMA, Run
from ..store import write_atomically

FILE = Path(__file__).with_name("run.schema.json")
DIALECT = "http://json-schema.org/draft-07/schema#"
EXIT_CODES = (0, 1, 2, 3, 4, 70, 130)
_SCALARS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema() -> dict[str, Any]:
    """The schema: a definition for each dataclass of the model, an object without further fields each."""
    found: dict[str, Any] = {}
    _form(Run, found)
    top = found["Run"]
    # The version is the one field that is written although it has its default: it says how to read the others.
    top["required"] = sorted({*top["required"], "schema"})
    top["properties"]["schema"] = {"const": SCHEMA}
    top["properties"]["exit_code"] = {"enum": list(EXIT_CODES)}
    return {
        "$schema": DIALECT,
        "title": f"run.json of stormdrain, version {SCHEMA}",
        "description": "A field that is not there holds its default: empty, zero or false. Times are seconds.",
        "allOf": [{"$ref": "#/definitions/Run"}],
        "definitions": dict(sorted(found.items())),
    }


def text() -> str:
    """The schema as it lies in the package."""
    return json.dumps(schema(), indent=1, ensure_ascii=True) + "\n"


def _form(kind: Any, found: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type hint; dataclasses are added to `found` and referred to."""
    if kind is Any:
        return {}
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or origin is types.UnionType:
        return {"anyOf": [_form(option, found) for option in inner]}
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return {"type": "array", "items": _form(inner[0], found)}
    if origin is tuple:
        items = [_form(one, found) for one in inner]
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _form(inner[1], found)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in found:
            found[kind.__name__] = {}  # it may refer to itself
            found[kind.__name__] |= _object(kind, found)
        return {"$ref": f"#/definitions/{kind.__name__}"}
    raise TypeError(f"{kind} has no JSON schema")


def _object(kind: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    nothing = dataclasses.MISSING
    return {
        "type": "object",
        "description": (inspect.getdoc(kind) or "").partition("\n")[0],
        "properties": {one.name: _form(hints[one.name], found) for one in fields},
        "required": sorted(one.name for one in fields if one.default is nothing and one.default_factory is nothing),
        "additionalProperties": False,
    }


if __name__ == "__main__":
    write_atomically(FILE, text())
