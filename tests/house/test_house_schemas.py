"""The rules of the house on schemas: every key has a description, and no other key is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from housefiles import PACKAGE
from stackproof.core import document

SCHEMAS = sorted((PACKAGE / "core" / "schemas").glob("*.json"))


def keys_of(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of a key: below `properties`, wherever that stands."""
    if isinstance(node, list):
        for index, inner in enumerate(node):
            yield from keys_of(inner, f"{path}[{index}]")
    elif isinstance(node, dict):
        properties = node.get("properties", {})
        for key, value in properties.items():
            yield f"{path}.{key}", value
        for key, inner in node.items():
            yield from keys_of(inner, f"{path}.{key}")


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_schemas(path):
    schema = document.schema(path.stem)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["description"]
    bare = [place for place, value in keys_of(schema) if not value.get("description")]
    assert bare == []


def closed(node: Any) -> bool:
    """Return whether every mapping of a schema says what else it may hold."""
    if isinstance(node, list):
        return all(closed(inner) for inner in node)
    if not isinstance(node, dict):
        return True
    if isinstance(node.get("properties"), dict) and isinstance(node.get("type"), str):
        open_ended = node["type"] == "object" and "additionalProperties" not in node
        if open_ended:
            return False
    return all(closed(inner) for inner in node.values())


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_schemas_refuse_unknown_keys(path):
    assert closed(document.schema(path.stem))


def test_there_are_schemas():
    assert {path.stem for path in SCHEMAS} >= {"recipe", "site"}
