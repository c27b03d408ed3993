"""Conditions on facts: three answers, and what is wrong with how they are written."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.document import parse
from stackproof.core.errors import Reason
from stackproof.recipe.conditions import Condition, Truth, is_conditional, read_condition

HOLDS, NOT, UNKNOWN = Truth.HOLDS, Truth.DOES_NOT_HOLD, Truth.UNKNOWN


def condition(text: str, axes: tuple[str, ...] = ()):
    document = parse(text, file="x")
    return read_condition(document, document.data, (), axes)


@pytest.mark.parametrize(
    ("text", "facts", "verdict"),
    [
        ("if: {gpu: cuda}", {"gpu": "cuda"}, HOLDS),
        ("if: {gpu: cuda}", {"gpu": "rocm"}, NOT),
        ("if: {gpu: cuda}", {}, UNKNOWN),
        ("if: {gpu: [cuda, rocm]}", {"gpu": "rocm"}, HOLDS),
        ("if: {gpu: cuda, fabric: none}", {"gpu": "rocm"}, NOT),
        ("if: {gpu: cuda, fabric: none}", {"gpu": "cuda"}, UNKNOWN),
        ("unless: {gpu: cuda}", {"gpu": "rocm"}, HOLDS),
        ("unless: {gpu: cuda}", {"gpu": "cuda"}, NOT),
        ("unless: {gpu: cuda}", {}, UNKNOWN),
        ("unless: {gpu: cuda, fabric: none}", {"gpu": "cuda", "fabric": "ethernet"}, HOLDS),
        ("unless: {gpu: cuda, fabric: none}", {"fabric": "ethernet"}, HOLDS),
        ("if: {gpu: cuda}\nunless: {fabric: none}", {"gpu": "cuda", "fabric": "ethernet"}, HOLDS),
        ("if: {gpu: cuda}\nunless: {fabric: none}", {"gpu": "cuda", "fabric": "none"}, NOT),
        ("if: {gpu: cuda}\nunless: {fabric: none}", {"gpu": "rocm"}, NOT),
    ],
)
def test_answers(text, facts, verdict):
    found, problems = condition(text)
    assert problems == []
    assert found.verdict(facts) is verdict


NAMES = ("gpu", "fabric", "architecture")
SIDES = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from("abc"), min_size=1, max_size=2).map(tuple)
)


@given(SIDES, SIDES, st.dictionaries(st.sampled_from(NAMES), st.sampled_from("abc")))
def test_unknown_means_that_it_depends_on_what_is_not_stated(wants, unwanted, facts):
    one = Condition(wants=wants, unwanted=unwanted)
    open_ones = [name for name in one.facts if name not in facts]
    whole = {
        one.verdict({**facts, **dict(zip(open_ones, values, strict=True))})
        for values in itertools.product("abcd", repeat=len(open_ones))
    }
    assert UNKNOWN not in whole
    verdict = one.verdict(facts)
    if verdict is not UNKNOWN:
        assert whole == {verdict}
    elif set(wants) & set(unwanted) == set():
        assert whole == {HOLDS, NOT}


def test_words():
    found, _ = condition("if: {gpu: [cuda, rocm], fabric: none}\nunless: {site: lumi}")
    assert str(found) == "where gpu is cuda or rocm and fabric is none unless site is lumi"
    assert found.facts == ("gpu", "fabric", "site")


@pytest.mark.parametrize(
    ("text", "reason", "column", "hint"),
    [
        ("if: {gpus: cuda}", Reason.UNKNOWN_KEY, 6, "`gpu`"),
        ("if: {matrix.mpi: x}", Reason.UNKNOWN_KEY, 6, "architecture"),
        ("if: {gpu: nvidia}", Reason.INVALID_VALUE, 11, "cuda, rocm"),
        ("if: {gpu: [cuda, nvidia]}", Reason.INVALID_VALUE, 11, "cuda, rocm"),
        ("if: {gpu-architecture: 90}", Reason.WRONG_TYPE, 24, "quotes"),
        ("if: {gpu: []}", Reason.WRONG_TYPE, 11, "quotes"),
        ("if: cuda", Reason.WRONG_TYPE, 5, "`if: {gpu: cuda}`"),
        ("unless: {}", Reason.WRONG_TYPE, 9, "`unless: {gpu: cuda}`"),
    ],
)
def test_mistakes(text, reason, column, hint):
    _, problems = condition(text)
    assert [(p.reason, p.where.line, p.where.column) for p in problems] == [(reason, 1, column)]
    assert hint in problems[0].hint


def test_an_axis_of_the_matrix_is_a_fact():
    found, problems = condition("if: {matrix.mpi: openmpi}", ("mpi",))
    assert problems == []
    assert found.verdict({"matrix.mpi": "openmpi"}) is HOLDS


@pytest.mark.parametrize(
    ("item", "answer"),
    [({"if": {}, "then": []}, True), ({"unless": {}, "then": []}, True), ({"if": {}}, False),
     ({"then": []}, False), ({"if": {}, "then": [], "spec": "x"}, False), ("if", False)],
)  # fmt: skip
def test_what_is_a_conditional_item(item, answer):
    assert is_conditional(item) is answer
