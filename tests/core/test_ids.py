from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import ids

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_canonical_json_says_the_same_value(value):
    assert json.loads(ids.canonical_json(value)) == value


@pytest.mark.battery
@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_the_order_of_keys_does_not_matter(value):
    backwards = dict(reversed(value.items()))
    assert ids.canonical_json(backwards) == ids.canonical_json(value)
    assert ids.content_id(backwards) == ids.content_id(value)


@given(JSON, JSON)
def test_different_values_have_different_ids(one, other):
    same = ids.canonical_json(one) == ids.canonical_json(other)
    assert (ids.content_id(one) == ids.content_id(other)) is same


def test_canonical_json_is_pinned():
    assert (
        ids.canonical_json({"b": [1, 2.5, None], "a": "ü"}) == '{"a":"ü","b":[1,2.5,null]}'.encode()
    )


def test_content_id_is_pinned():
    # sha256 of the two bytes `{}`, as sha256sum(1) prints it
    assert ids.content_id({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_has_not_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        ids.canonical_json([value])


def test_short():
    assert ids.short("0123456789abcdef") == "0123456789ab"
