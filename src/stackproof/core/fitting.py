"""Whether data fit a JSON Schema: yes or no, without a word about why.

Most documents are right, and to load the library for JSON Schema takes longer than to read one. It
is asked only about documents that do not fit, since it says where and why; and about schemas with
words that are unknown here. The tests compare the two.
"""

from __future__ import annotations

import functools
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import Any

from stackproof.core import schemas

Schema = Mapping[str, Any]
Part = bool | Schema
"""What may stand inside a schema: another one, or whether anything fits."""

# Said about a schema, or used by the word beside it.
_SILENT = frozenset({
    "$schema", "$id", "$defs", "title", "description", "default", "examples", "then", "else",
})  # fmt: skip


@functools.cache
def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a document kind (`recipe`, `site`, `bench`, …)."""
    # Not by importlib.resources: to import that takes longer than to read all schemas.
    text = pkgutil.get_data(schemas.__name__, f"{kind}.json") or b""
    loaded: dict[str, Any] = json.loads(text)
    return _whole(loaded, loaded.get("$defs", {})) if b'"$ref"' in text else loaded


def _whole(node: Any, parts: Mapping[str, Any]) -> Any:
    """Return a schema with each part in the place that names it by `$ref`, as `FILE#/$defs/NAME`.

    What stands beside the name wins. A part that holds itself stays a name.
    """
    if isinstance(node, list):
        return [_whole(inner, parts) for inner in node]
    if not isinstance(node, dict):
        return node
    own = {key: _whole(value, parts) for key, value in node.items()}
    name = node.get("$ref")
    if not isinstance(name, str):
        return own
    file, _, key = name.partition("#/$defs/")
    there = schema(file.removesuffix(".json"))["$defs"] if file else parts
    if name in json.dumps(there[key]):
        return own
    del own["$ref"]
    part: dict[str, Any] = _whole(there[key], there)
    return {**part, **own}


class UnknownError(Exception):
    """A schema has a word, or the data a value, that only the library decides about."""


def fits(schema: Schema, data: Any) -> bool:
    """Return True where data fit a schema of Draft 2020-12; raises `UnknownError`."""
    return _fits(schema, data, schema)


def _fits(schema: Part, data: Any, root: Schema) -> bool:
    if isinstance(schema, bool):
        return schema
    for word, wanted in schema.items():
        if word in _SILENT:
            continue
        if word in _LIMITS:
            kind, broken = _LIMITS[word]
            if isinstance(data, kind) and not isinstance(data, bool) and broken(data, wanted):
                return False
        elif word in _RULES:
            if not _RULES[word](schema, data, root):
                return False
        else:
            raise UnknownError(word)
    return True


# Each word that limits one kind of value: the kind, and when a value breaks it.
_LIMITS: dict[str, tuple[type | tuple[type, ...], Callable[[Any, Any], bool]]] = {
    "minLength": (str, lambda data, wanted: len(data) < wanted),
    "maxLength": (str, lambda data, wanted: len(data) > wanted),
    "pattern": (str, lambda data, wanted: re.search(wanted, data) is None),
    "minItems": (list, lambda data, wanted: len(data) < wanted),
    "maxItems": (list, lambda data, wanted: len(data) > wanted),
    "minProperties": (dict, lambda data, wanted: len(data) < wanted),
    "maxProperties": (dict, lambda data, wanted: len(data) > wanted),
    "required": (dict, lambda data, wanted: any(key not in data for key in wanted)),
    "minimum": ((int, float), lambda data, wanted: data < wanted),
    "maximum": ((int, float), lambda data, wanted: data > wanted),
    "exclusiveMinimum": ((int, float), lambda data, wanted: data <= wanted),
    "exclusiveMaximum": ((int, float), lambda data, wanted: data >= wanted),
}


def _is(data: Any, name: str) -> bool:
    if isinstance(data, bool) or data is None:
        return name == ("null" if data is None else "boolean")
    if name == "integer":
        return isinstance(data, int) or (isinstance(data, float) and data.is_integer())
    if name not in _TYPES:
        return False
    return isinstance(data, _TYPES[name])


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str, "object": dict, "array": list, "number": (int, float),
}  # fmt: skip


def _type(schema: Schema, data: Any, _: Schema) -> bool:
    wanted = schema["type"]
    return any(_is(data, name) for name in ([wanted] if isinstance(wanted, str) else wanted))


def _choice(choices: Any, data: Any) -> bool:
    if isinstance(data, (list, dict)):
        raise UnknownError
    return any(
        data == one and isinstance(data, bool) == isinstance(one, bool) for one in choices
    )  # in JSON, 1 is not true


def _items(schema: Schema, data: Any, root: Schema) -> bool:
    return not isinstance(data, list) or all(_fits(schema["items"], one, root) for one in data)


def _unique(schema: Schema, data: Any, _: Schema) -> bool:
    if not schema["uniqueItems"] or not isinstance(data, list):
        return True
    repeated = any(one in data[:number] for number, one in enumerate(data))
    if repeated and not all(isinstance(one, str) for one in data):
        raise UnknownError  # to Python 1 is the same as true, and so is all that holds it
    return not repeated


def _names(schema: Schema, data: Any, root: Schema) -> bool:
    wanted = schema["propertyNames"]
    return not isinstance(data, dict) or all(_fits(wanted, key, root) for key in data)


def _properties(schema: Schema, data: Any, root: Schema) -> bool:
    return not isinstance(data, dict) or all(
        _fits(wanted, data[key], root)
        for key, wanted in schema["properties"].items()
        if key in data
    )


def _patterns(schema: Schema, data: Any, root: Schema) -> bool:
    return not isinstance(data, dict) or all(
        _fits(wanted, value, root)
        for pattern, wanted in schema["patternProperties"].items()
        for key, value in data.items()
        if re.search(pattern, key)
    )


def _others(schema: Schema, data: Any, root: Schema) -> bool:
    if not isinstance(data, dict):
        return True
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return all(
        _fits(schema["additionalProperties"], value, root)
        for key, value in data.items()
        if key not in named and not any(re.search(pattern, key) for pattern in patterns)
    )


def _conditional(schema: Schema, data: Any, root: Schema) -> bool:
    branch = "then" if _fits(schema["if"], data, root) else "else"
    return _fits(schema.get(branch, True), data, root)


def _reference(schema: Schema, data: Any, root: Schema) -> bool:
    start, _, name = schema["$ref"].rpartition("/")
    if start != "#/$defs":
        raise UnknownError
    return _fits(root["$defs"][name], data, root)


_RULES: dict[str, Callable[[Schema, Any, Schema], bool]] = {
    "$ref": _reference,
    "additionalProperties": _others,
    "anyOf": lambda schema, data, root: any(_fits(one, data, root) for one in schema["anyOf"]),
    "const": lambda schema, data, _: _choice([schema["const"]], data),
    "enum": lambda schema, data, _: _choice(schema["enum"], data),
    "if": _conditional,
    "items": _items,
    "oneOf": lambda schema, data, root: sum(_fits(s, data, root) for s in schema["oneOf"]) == 1,
    "patternProperties": _patterns,
    "properties": _properties,
    "propertyNames": _names,
    "type": _type,
    "uniqueItems": _unique,
}
