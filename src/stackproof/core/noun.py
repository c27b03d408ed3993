"""Nouns to JSON and back, with a schema kind and version.

A noun is a `Value`. Its JSON form is an object whose first key, `schema`, names kind and
version (`stackproof/measurement/1`), so that a file tells by itself what it is.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from stackproof.core.errors import Location, Reason, fail

T = TypeVar("T")


def to_data(noun: Any) -> dict[str, Any]:
    """Return a noun as JSON-ready data, `schema` first where the class names one."""
    data: dict[str, Any] = msgspec.to_builtins(noun)
    schema = getattr(type(noun), "SCHEMA", None)
    return {"schema": schema, **data} if schema else data


def to_json(noun: Any, *, indent: int | None = 1) -> str:
    """Return a noun as JSON text that ends with a newline."""
    return json.dumps(to_data(noun), indent=indent, ensure_ascii=False, allow_nan=False) + "\n"


def from_data(kind: type[T], data: Any, *, file: str = "<data>") -> T:
    """Return the noun that `data` describes.

    Raises `StackproofError` (WRONG_TYPE, UNSUPPORTED) when the data is of another kind or version
    or does not fit the class.
    """
    where = Location(file=file)
    expected = getattr(kind, "SCHEMA", None)
    if expected is not None:
        found = data.get("schema") if isinstance(data, dict) else None
        if found != expected:
            raise fail(
                Reason.UNSUPPORTED,
                f"this is not a `{expected}` document (schema is `{found}`)",
                where=where,
                hint="use a file written by this version of stackproof",
            )
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise fail(Reason.WRONG_TYPE, f"not a valid document: {error}", where=where) from None


def from_json(kind: type[T], text: str | bytes, *, file: str = "<text>") -> T:
    """Return the noun that a JSON text describes; raises `StackproofError` like `from_data`."""
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise fail(Reason.YAML_SYNTAX, f"not JSON: {error}", where=Location(file=file)) from None
    return from_data(kind, data, file=file)
