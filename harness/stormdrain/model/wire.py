"""The JSON form of the model: dataclasses out, dataclasses in, nothing else.

Host and worker may run on different interpreters, so what crosses the wire is
plain JSON. One pair of functions serves every dataclass of the model: fields
are named, unknown fields are an error (a newer peer must not be half read), and
fields that hold their default are left out so that a run stays small.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Json = Any
"""What :mod:`json` reads and writes."""


def to_json(value: Any) -> Json:
    """The JSON form of a model value (dataclass, enum, tuple, mapping, scalar)."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Json] = {}
        for field in dataclasses.fields(value):
            item = getattr(value, field.name)
            if field.default is not dataclasses.MISSING and item == field.default and type(item) is type(field.default):
                continue
            if field.default_factory is not dataclasses.MISSING and item == field.default_factory():
                continue
            out[field.name] = to_json(item)
        return out
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def from_json(kind: type[T], data: Json) -> T:
    """Build a `kind` from its JSON form.

    Raises:
        ValueError: the data does not have that form.
    """
    return typing.cast("T", _read(kind, data, kind.__name__))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _read(kind: Any, data: Json, where: str) -> Any:
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    if origin is typing.Union or origin is types.UnionType:
        options = typing.get_args(kind)
        if data is None and type(None) in options:
            return None
        rest = [option for option in options if option is not type(None)]
        for option in rest:
            try:
                return _read(option, data, where)
            except ValueError:
                if option is rest[-1]:
                    raise
        raise ValueError(f"{where}: no form fits")
    if origin is tuple:
        if not isinstance(data, Sequence) or isinstance(data, str):
            raise ValueError(f"{where}: a list was expected")
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_read(inner[0], item, f"{where}[{index}]") for index, item in enumerate(data))
        if len(inner) != len(data):
            raise ValueError(f"{where}: {len(inner)} items were expected")
        return tuple(_read(option, item, f"{where}[{index}]") for index, (option, item) in enumerate(zip(inner, data)))
    if origin is dict or origin is Mapping or origin is typing.get_origin(Mapping[str, int]):
        if not isinstance(data, dict):
            raise ValueError(f"{where}: an object was expected")
        return {key: _read(typing.get_args(kind)[1], item, f"{where}.{key}") for key, item in data.items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _read_dataclass(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(kind, type) and type(data) is kind:
        return data
    raise ValueError(f"{where}: {kind} was expected, {type(data).__name__} was there")


def _read_dataclass(kind: Any, data: Json, where: str) -> Any:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: an object was expected")
    hints = _hints(kind)
    if unknown := sorted(set(data) - set(hints)):
        raise ValueError(f"{where}: unknown field {unknown[0]!r}")
    try:
        return kind(**{name: _read(hints[name], item, f"{where}.{name}") for name, item in data.items()})
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error
