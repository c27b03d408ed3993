"""The quick answer whether data fit a schema is that of the library, for every schema we have."""

from __future__ import annotations

import copy
import functools
import importlib.resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import document, fitting
from stackproof.core.errors import Reason

ROOT = Path(__file__).parents[2]
KINDS = sorted(
    path.name.removesuffix(".json")
    for path in importlib.resources.files("stackproof.core.schemas").iterdir()
    if path.name.endswith(".json")
)
STRANGE = st.sampled_from([
    None, True, False, 0, 1, -1, 1.0, 1.5, 10**20, "", "x", "a b", "4 KiB", "é" * 300,
    "${{x}}", "/a/../b", [], ["x"], ["x", "x"], [1], [{}], {}, {"x": 1}, {"a b": "x"}, {"if": "x"},
])  # fmt: skip


@functools.cache
def documents() -> tuple[Any, ...]:
    """Return the data of every small document of the project, whatever its kind."""
    found = []
    for folder in ("tests/documents", "recipes", "sites", "knowledge", "demo"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            if path.stat().st_size < 12_000:
                try:
                    found.append(yaml.safe_load(path.read_bytes()))
                except (yaml.YAMLError, ValueError):
                    continue
    return tuple(found)


@functools.cache
def validator(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(document.schema(kind))


@functools.cache
def fitting_documents(kind: str) -> tuple[Any, ...]:
    return tuple(data for data in documents() if validator(kind).is_valid(data))


def quickly(kind: str, data: Any) -> bool:
    """Return the quick answer, the library's where there is none."""
    try:
        return fitting.fits(document.schema(kind), data)
    except fitting.UnknownError:
        return validator(kind).is_valid(data)


@pytest.mark.parametrize("kind", KINDS)
def test_every_document_by_every_schema(kind):
    for data in documents():
        assert quickly(kind, data) == validator(kind).is_valid(data)


@pytest.mark.parametrize("kind", ["recipe", "spack-recipe", "easybuild-recipe", "site", "bench"])
def test_right_documents_need_no_library(kind):
    assert fitting_documents(kind)
    for data in fitting_documents(kind):
        assert fitting.fits(document.schema(kind), data)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(data, (dict, list)):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            found += places(value, (*path, key))
    return found


def changed(data: Any, path: tuple[Any, ...], how: str, value: Any) -> Any:
    """Return data with one place replaced, removed, renamed or with something added to it."""
    if not path:
        return value
    whole = copy.deepcopy(data)
    around = whole
    for key in path[:-1]:
        around = around[key]
    if how == "remove":
        del around[path[-1]]
    elif how == "rename" and isinstance(around, dict):
        around[str(value)] = around.pop(path[-1])
    elif how == "add" and isinstance(around[path[-1]], list):
        around[path[-1]].append(value)
    elif how == "add" and isinstance(around[path[-1]], dict):
        around[path[-1]]["x"] = value
    else:
        around[path[-1]] = value
    return whole


@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_a_document_with_something_wrong(data, kind):
    base = data.draw(st.sampled_from(fitting_documents(kind) or (None,)))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(base)))
        how = data.draw(st.sampled_from(["replace", "remove", "rename", "add"]))
        base = changed(base, path, how, data.draw(STRANGE))
    assert quickly(kind, base) == validator(kind).is_valid(base)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"multipleOf": 2}, 3),
        ({"$ref": "https://example.org/other"}, 3),
        ({"enum": [[1]]}, [1]),
        ({"uniqueItems": True}, [1, True]),
    ],
)
def test_what_only_the_library_decides(schema, data):
    with pytest.raises(fitting.UnknownError):
        fitting.fits(schema, data)


def test_a_word_that_is_unknown_here_is_still_looked_at(monkeypatch):
    monkeypatch.setattr(document, "schema", lambda _: {"properties": {"a": {"multipleOf": 2}}})
    found = document.problems(document.parse("a: 3\n", file="x.yaml"), "recipe")
    assert [(p.reason, str(p.where)) for p in found] == [(Reason.INVALID_VALUE, "x.yaml:1:4")]
