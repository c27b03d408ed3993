"""Values put into YAML text: what is wanted stands there, and nothing that a person wrote is lost."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.core import document as documents
from stackproof.core.editing import Keys, edited
from stackproof.core.effects import shipped
from stackproof.core.errors import Reason, StackproofError


def read(text: str) -> Any:
    return documents.parse(text, file="x").data


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("", {("a", "b"): 1}, "a: {b: 1}\n"),
        ("# said\n", {("a",): "1"}, "# said\na: '1'\n"),
        ("a: 1", {("b",): 2}, "a: 1\nb: 2\n"),
        ("a:\n", {("a", "b"): 1}, "a: {b: 1}\n"),
        ("a: {}\n", {("a", "b"): 1}, "a: {b: 1}\n"),
        ("a: {b: 1,}\n", {("a", "c"): 2}, "a: {b: 1,c: 2}\n"),
        ("a: {b: 1}  # why\n", {("a", "c"): [1, 2]}, "a: {b: 1, c: [1, 2]}  # why\n"),
        ("a: # why\n  b: 1 # so\n\nc: 3\n", {("a", "d"): 2}, "a: # why\n  b: 1 # so\n  d: 2\n\nc: 3\n"),
        ("a:\n  b: 'x' # so\n", {("a", "b"): "y: z"}, "a:\n  b: 'y: z' # so\n"),
        ("a:\n- 1\n- 2\nb: 3\n", {("a",): [4]}, "a:\n [4]\nb: 3\n"),
        ("a: |\n  one\n  two\n# end\n", {("b",): 1}, "a: |\n  one\n  two\n# end\nb: 1\n"),
        ("a:\n  b:\n    c: 1\n", {("a", "b", "d"): 2, ("a", "e"): 3, ("f",): 4},
         "a:\n  b:\n    c: 1\n    d: 2\n  e: 3\nf: 4\n"),
    ],
)  # fmt: skip
def test_a_value_comes_to_its_place(text: str, changes: dict[Keys, Any], expected: str) -> None:
    result = edited(text, changes, file="x")
    if text.startswith(
        "a: |"
    ):  # comments behind the last value stay where they are, before or after
        assert read(result) == read(expected)
        assert "# end\n" in result
    else:
        assert result == expected


def test_what_is_there_already_changes_nothing() -> None:
    text = "a:   {b: 1}\n\n\n# end"
    assert edited(text, {("a", "b"): 1}, file="x") is text


def test_a_form_that_leaves_no_place_is_refused() -> None:
    text = "base: &base {b: 1}\nother: *base\n"
    with pytest.raises(StackproofError) as caught:
        edited(text, {("other", "c"): 2}, file="x")
    assert caught.value.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize("name", shipped.names("sites"))
def test_no_line_of_a_shipped_site_is_lost(name: str) -> None:
    text = shipped.find("sites", name).read_text(encoding="utf-8")
    changes: dict[Keys, Any] = {
        ("partitions", "node", "cores"): 128,
        ("externals", "cray-mpich"): {"version": "8.1.32", "path": "/opt/cray/pe/mpich/8.1.32"},
        ("limits", "fuse"): True,
        ("facts", "limits.fuse"): "asked",
    }
    result = edited(text, changes, file="x")
    lost = [
        line for line in difflib.ndiff(text.splitlines(), result.splitlines()) if line[0] == "-"
    ]
    assert lost == []
    assert read(result)["limits"] == {"fuse": True}


_KEYS = st.sampled_from(["a", "b", "c d", "e-f", "1", "on"])
_VALUES = st.one_of(
    st.integers(-5, 5), st.booleans(), st.lists(st.integers(0, 3), max_size=2),
    st.text("ab :#'\"-{}[],&*!|>%@`\n\u00e9", max_size=6),
)  # fmt: skip
_TREES = st.recursive(
    _VALUES, lambda inner: st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(_KEYS, _TREES, max_size=3),
    st.dictionaries(st.lists(_KEYS, min_size=1, max_size=3).map(tuple), _VALUES, min_size=1, max_size=3),
    st.sampled_from([True, False, None]),
)  # fmt: skip
def test_any_document_says_what_was_wanted_or_is_refused(
    data: dict[str, Any], changes: dict[Keys, Any], flow: bool | None
) -> None:
    paths = list(changes)
    if any(one != other and one == other[: len(one)] for one in paths for other in paths):
        return  # one of them would undo another
    text = yaml.safe_dump(data, default_flow_style=flow, sort_keys=False, allow_unicode=True)
    text = "# first\n" + text
    try:
        result = edited(text, changes, file="x")
    except StackproofError as error:
        told = error.reason
    else:
        told = None
    if told is not None:
        assert told is Reason.UNSUPPORTED
        return
    assert result.startswith("# first\n")
    found = read(result)
    for path, value in changes.items():
        place = found
        for key in path:
            place = place[key]
        assert place == value
    assert edited(result, changes, file="x") == result
