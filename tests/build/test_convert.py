"""Several recipes' data to one with conditions: whatever they hold, each means what it meant."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from stackproof.build.engines.spack.stack import FileEntry
from stackproof.build.engines.spack.stackinator.convert import (
    SourceRecipe,
    convert,
    lines_that_count,
    render,
)
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.core.document import parse
from stackproof.core.errors import Reason, StackproofError
from stackproof.recipe.composition import compose

FACTS = (
    {"gpu": "cuda", "architecture": "aarch64"},
    {"gpu": "rocm", "architecture": "x86_64"},
    {"gpu": "none", "architecture": "x86_64"},
)


def variant(number: int, environments: Any, *files: str, facts=None, **config: Any) -> SourceRecipe:
    entries = {name: FileEntry(sha256=f"{number}{name}") for name in files}
    return SourceRecipe(
        name=f"r{number}",
        path=f"r{number}",
        folder=Folder(path=f"r{number}", files=entries),
        data={
            "config.yaml": {"name": "x", "version": 2, "spack": {"repo": "y"}, **config},
            "compilers.yaml": {"gcc": {"version": "13"}},
            "environments.yaml": environments,
        },
        facts=FACTS[number] if facts is None else facts,
    )


def meaning(data: dict[str, Any], facts: dict[str, str]) -> Any:
    """Return what the written recipe means on a site."""
    return compose((parse(render(data), file="x"),), facts, {}).document.data


def test_one_recipe_is_written_without_conditions():
    data = convert([variant(0, {"gnu": {"specs": ["a"]}})])
    assert data == {
        "name": "x", "engine": "spack", "generation": 2, "spack": {"repo": "y"},
        "compilers": {"gcc": {"version": "13"}}, "environments": {"gnu": {"specs": ["a"]}},
    }  # fmt: skip


def test_differing_items_stay_in_their_list():
    data = convert(
        [
            variant(0, {"gnu": {"specs": ["a", "nccl", "b"]}}),
            variant(2, {"gnu": {"specs": ["a", "b"]}}),
        ]
    )
    assert data["environments"]["gnu"]["specs"] == [
        "a", {"if": {"gpu": "cuda"}, "then": ["nccl"]}, "b",
    ]  # fmt: skip


def test_differing_values_become_blocks():
    data = convert([variant(n, {"gnu": {"unify": n == 0}}) for n in range(3)])
    assert data["when"] == [
        {"if": {"gpu": "cuda"}, "then": {"environments": {"gnu": {"unify": True}}}},
        {"if": {"gpu": ["rocm", "none"]}, "then": {"environments": {"gnu": {"unify": False}}}},
    ]


def test_true_is_not_one_and_text_is_not_a_number():
    for one, other in ((True, 1), ("1", 1), (1.0, 1)):
        data = convert([variant(0, {"gnu": {"v": one}}), variant(2, {"gnu": {"v": other}})])
        assert len(data["when"]) == 2


def test_the_order_of_environments_is_kept_or_they_are_written_apart():
    one, other = {"a": {"specs": []}, "b": {"specs": []}}, {"b": {"specs": []}, "a": {"specs": []}}
    data = convert([variant(0, one), variant(2, other)])
    for number, wanted in ((0, one), (2, other)):
        found = meaning(data, FACTS[number])["environments"]
        assert list(found) == list(wanted)


def test_files_that_are_equal_are_named_once():
    same = Folder(path="p", files={"post-install": FileEntry(sha256="h")})
    variants = [
        SourceRecipe(name=n, path=n, folder=same, data=variant(0, {}).data, facts=facts)
        for n, facts in (("one", FACTS[0]), ("two", FACTS[1]))
    ]
    assert convert(variants)["hooks"] == {"post-install": {"file": "one/post-install"}}
    apart = [variant(0, {}, "post-install"), variant(1, {}, "post-install")]
    assert [block["then"] for block in convert(apart)["when"]] == [
        {"hooks": {"post-install": {"file": "r0/post-install"}}},
        {"hooks": {"post-install": {"file": "r1/post-install"}}},
    ]


def test_what_no_fact_tells_apart():
    variants = [
        variant(0, {"gnu": {"specs": ["a"]}}, facts={}),
        variant(1, {"gnu": {"specs": ["b"]}}, facts={"gpu": "cuda"}),
    ]
    with pytest.raises(StackproofError) as caught:
        convert(variants)
    assert caught.value.reason is Reason.INVALID_VALUE
    assert "--fact" in caught.value.problems[0].hint


VALUES = st.recursive(
    st.booleans() | st.integers(0, 2) | st.sampled_from(("a", "b", "yes", "1", "x: y", "# z")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("k", "l", "m")), inner, max_size=3)
    ),
    max_leaves=8,
)
ENVIRONMENTS = st.dictionaries(
    st.sampled_from(("gnu", "intel")),
    st.dictionaries(st.sampled_from(("specs", "views", "unify")), VALUES, max_size=3),
    max_size=2,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ENVIRONMENTS, min_size=1, max_size=3))
def test_whatever_recipes_hold_each_keeps_its_meaning(bodies):
    variants = [variant(number, body) for number, body in enumerate(bodies)]
    data = convert(variants)
    for number, body in enumerate(bodies):
        found = meaning(data, FACTS[number]).get("environments", {})
        assert found == body
        assert yaml.safe_dump(found, sort_keys=True) == yaml.safe_dump(body, sort_keys=True)


def test_rendering_keeps_texts_and_counts_lines():
    text = render({"a": ["yes", "5.0", "x"], "b": "one\ntwo\n", "c": {"d": None}})
    assert yaml.safe_load(text) == {"a": ["yes", "5.0", "x"], "b": "one\ntwo\n", "c": {"d": None}}
    assert lines_that_count("# a\n\nb: 1\n  # c\n  d: 2\n") == 2
