"""What views changed is taken back: whole, and nothing else with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.command import EnvPatch
from stackproof.mount import undo

NAMES = st.sampled_from(("PATH", "LD_LIBRARY_PATH", "A", "B"))
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
ENVIRONMENTS = st.dictionaries(NAMES, VALUES)
LISTS = st.dictionaries(NAMES, st.lists(VALUES, max_size=2).map(tuple), max_size=2)
PATCHES = st.builds(
    EnvPatch,
    set=st.dictionaries(NAMES, VALUES),
    unset=st.lists(NAMES, max_size=2).map(tuple),
    prepend=LISTS,
    append=LISTS,
)


@given(ENVIRONMENTS, PATCHES)
def test_left_is_what_was_entered(environment: dict[str, str], patch: EnvPatch) -> None:
    entered = undo.entered(environment, patch)
    assert {k: v for k, v in entered.items() if k != undo.UNDO} == patch.apply(environment)
    assert undo.left(entered) == environment


@given(ENVIRONMENTS, PATCHES, PATCHES)
def test_two_changes_are_left_at_once(
    environment: dict[str, str], first: EnvPatch, second: EnvPatch
) -> None:
    entered = undo.entered(undo.entered(environment, first), second)
    assert undo.left(entered) == environment


@given(ENVIRONMENTS, ENVIRONMENTS)
def test_a_difference_leads_from_one_to_the_other(
    before: dict[str, str], after: dict[str, str]
) -> None:
    to_set, to_unset = undo.difference(before, after)
    result = {name: value for name, value in before.items() if name not in to_unset} | to_set
    assert result == after
    assert not set(to_set) & set(to_unset)


def test_what_somebody_else_changed_stays() -> None:
    entered = undo.entered({"PATH": "/bin"}, EnvPatch(set={"A": "1"}, prepend={"PATH": ("/x",)}))
    assert undo.left(entered | {"PATH": "/mine:/x:/bin"}) == {"PATH": "/mine:/x:/bin"}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1", '{"A": 1}', '{"A": ["x"]}', '{"A": [1, 2]}', "[" * 100_000]
)
def test_a_record_that_is_none_undoes_nothing(text: str) -> None:
    environment = {"A": "1", undo.UNDO: text}
    assert undo.left(environment) == {"A": "1"}


def test_nothing_changed_leaves_no_record() -> None:
    assert undo.entered({"A": "1"}, EnvPatch(set={"A": "1"})) == {"A": "1"}
    record = undo.entered({"A": "1"}, EnvPatch(unset=("A",)))[undo.UNDO]
    assert json.loads(record) == {"A": ["1", None]}
