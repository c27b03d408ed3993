from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from refusals import refused
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value


class Inner(Value):
    word: str


class Outer(Value):
    SCHEMA: ClassVar[str] = "stackproof/outer/1"

    number: float
    inner: Inner
    many: tuple[Inner, ...] = ()
    named: dict[str, int] = field(default_factory=dict)
    maybe: str | None = None


TEXTS = st.text(st.characters(codec="utf-8"))
INNERS = st.builds(Inner, word=TEXTS)
OUTERS = st.builds(
    Outer,
    number=st.floats(allow_nan=False, allow_infinity=False),
    inner=INNERS,
    many=st.lists(INNERS, max_size=3).map(tuple),
    named=st.dictionaries(TEXTS, st.integers(-(2**63), 2**63 - 1), max_size=3),
    maybe=st.none() | TEXTS,
)


@given(OUTERS)
def test_round_trip(outer):
    assert noun.from_json(Outer, noun.to_json(outer)) == outer
    assert noun.from_json(Outer, noun.to_json(outer, indent=None).encode()) == outer
    assert noun.from_data(Outer, noun.to_data(outer)) == outer


def test_schema_comes_first():
    text = noun.to_json(Outer(number=1, inner=Inner(word="é")))
    assert next(iter(json.loads(text))) == "schema"
    assert text.endswith("}\n")
    assert "é" in text


def test_a_noun_without_schema():
    assert noun.to_data(Inner(word="a")) == {"word": "a"}
    assert noun.from_data(Inner, {"word": "a"}) == Inner(word="a")


def test_nan_is_not_json():
    with pytest.raises(ValueError, match="JSON"):
        noun.to_json(Outer(number=float("nan"), inner=Inner(word="a")))


GOOD: dict[str, Any] = {"schema": Outer.SCHEMA, "number": 1.5, "inner": {"word": "a"}}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, Reason.UNSUPPORTED),
        ([], Reason.UNSUPPORTED),
        ({}, Reason.UNSUPPORTED),
        (GOOD | {"schema": "stackproof/outer/2"}, Reason.UNSUPPORTED),
        (GOOD | {"schema": ["stackproof/outer/1"]}, Reason.UNSUPPORTED),
        (GOOD | {"number": "1"}, Reason.WRONG_TYPE),
        (GOOD | {"inner": None}, Reason.WRONG_TYPE),
        ({"schema": Outer.SCHEMA, "number": 1}, Reason.WRONG_TYPE),
        (GOOD | {"many": [{"word": 1}]}, Reason.WRONG_TYPE),
    ],
)
def test_what_does_not_fit(data, reason):
    with refused(reason) as caught:
        noun.from_data(Outer, data, file="f.json")
    assert caught.value.problems[0].where is not None
    assert caught.value.problems[0].where.file == "f.json"


@pytest.mark.parametrize(
    "text",
    ["", "{", "word", b"\xff\xfe", "\ud800", "[1,]", "[" * 100_000, "NaN", '{"a": 1e999}'],
    ids=lambda text: ascii(text[:8]),
)
def test_what_is_not_json(text):
    with pytest.raises(StackproofError) as caught:
        noun.from_json(Outer, text)
    assert caught.value.reason in {Reason.YAML_SYNTAX, Reason.UNSUPPORTED}


@given(st.binary() | st.text())
def test_any_text_is_a_noun_or_an_error_of_ours(text):
    with pytest.raises(StackproofError):
        noun.from_json(Outer, text)
