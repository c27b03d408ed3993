"""Several documents to one: inherited, conditional, chosen from a matrix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.document import Document, parse
from stackproof.core.errors import Reason, StackproofError
from stackproof.recipe.composition import (
    compose,
    expand,
    has_conditions,
    matrix,
    parts,
    suffix,
    tree,
)
from stackproof.recipe.conditions import Truth


def chain(*texts: str) -> tuple[Document, ...]:
    return tuple(parse(text, file=f"{number}.yaml") for number, text in enumerate(texts))


def meant(*texts: str, choice=None, **facts: str):
    names = {name.replace("_", "-"): value for name, value in facts.items()}
    return compose(chain(*texts), names, choice or {}).document.data


def problems(*texts: str):
    with pytest.raises(StackproofError) as caught:
        compose(chain(*texts), {}, {})
    return [(p.reason, p.where.file, p.where.line, p.where.column) for p in caught.value.problems]


BASE = "a: 1\nb: {c: 2, d: [x, y]}\n"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", {"a": 1, "b": {"c": 2, "d": ["x", "y"]}}),
        ("a: 5", {"a": 5, "b": {"c": 2, "d": ["x", "y"]}}),
        ("b: {c: 7}", {"a": 1, "b": {"c": 7, "d": ["x", "y"]}}),
        ("b: {e: 9}", {"a": 1, "b": {"c": 2, "d": ["x", "y"], "e": 9}}),
        ("b: {d: [z]}", {"a": 1, "b": {"c": 2, "d": ["z"]}}),
        ("b: {d: [..., z]}", {"a": 1, "b": {"c": 2, "d": ["x", "y", "z"]}}),
        ("b: {d: [w, ..., z]}", {"a": 1, "b": {"c": 2, "d": ["w", "x", "y", "z"]}}),
        ("b: {d: [..., ...]}", {"a": 1, "b": {"c": 2, "d": ["x", "y", "x", "y"]}}),
        ("b: {c: null}", {"a": 1, "b": {"d": ["x", "y"]}}),
        ("b: null", {"a": 1}),
        ("b: word", {"a": 1, "b": "word"}),
        ("a: {z: 1}", {"a": {"z": 1}, "b": {"c": 2, "d": ["x", "y"]}}),
        ("new: null", {"a": 1, "b": {"c": 2, "d": ["x", "y"]}, "new": None}),
        ("e: [..., z]", {"a": 1, "b": {"c": 2, "d": ["x", "y"]}, "e": ["z"]}),
    ],
)
def test_what_comes_later_wins(text, data):
    assert meant(BASE, text or "{}") == data


IN_ORDER = """\
when:
- if: {gpu: cuda}
  then: {a: 2, b: {d: [..., cuda]}}
- if: {gpu: [cuda, rocm]}
  then: {b: {d: [..., gpu]}}
- unless: {gpu: cuda}
  then: {a: 3}
"""
REMOVED = (
    "when:\n- if: {gpu: none}\n  then: {b: null}\n- if: {gpu: none}\n  then: {b: {d: [..., z]}}\n"
)
ITEMS = "d: [x, {if: {gpu: cuda}, then: [c1, c2]}, {unless: {gpu: cuda}, then: [h]}, y]\n"
NESTED = "d: [{if: {gpu: cuda}, then: [{if: {fabric: none}, then: [deep]}, c]}]\n"


@pytest.mark.parametrize(
    ("texts", "facts", "data"),
    [
        ((BASE, REMOVED), {"gpu": "none"}, {"a": 1, "b": {"d": ["z"]}}),
        (
            (BASE, IN_ORDER),
            {"gpu": "cuda"},
            {"a": 2, "b": {"c": 2, "d": ["x", "y", "cuda", "gpu"]}},
        ),
        ((BASE, IN_ORDER), {"gpu": "rocm"}, {"a": 3, "b": {"c": 2, "d": ["x", "y", "gpu"]}}),
        ((BASE, IN_ORDER), {}, {"a": 1, "b": {"c": 2, "d": ["x", "y"]}}),
        ((ITEMS,), {"gpu": "cuda"}, {"d": ["x", "c1", "c2", "y"]}),
        ((ITEMS,), {"gpu": "none"}, {"d": ["x", "h", "y"]}),
        ((ITEMS,), {}, {"d": ["x", "y"]}),
        ((NESTED,), {"gpu": "cuda", "fabric": "none"}, {"d": ["deep", "c"]}),
        ((NESTED,), {"gpu": "cuda", "fabric": "ethernet"}, {"d": ["c"]}),
        (("name: x",), {}, {"name": "x"}),  # one combination, as there is no matrix
    ],
)
def test_conditions_in_their_order(texts, facts, data):
    assert meant(*texts, **facts) == data
    assert expand(chain(*texts)) == ({},)


def test_decisions_and_the_facts_that_were_asked_for():
    text = "when:\n- if: {gpu: cuda}\n  then: {a: 1}\n- if: {fabric: none}\n  then: {a: 2}\n"
    composed = compose(chain(text), {"gpu": "cuda"}, {})
    assert [d.verdict for d in composed.decisions] == [Truth.HOLDS, Truth.UNKNOWN]
    assert composed.tested == ("gpu", "fabric")
    assert [d.where.line for d in composed.decisions] == [2, 4]


def test_every_value_keeps_its_place():
    composed = compose(chain(BASE, "b: {d: [..., z]}\nwhen:\n- if: {gpu: cuda}\n  then: {a: 4}\n"),
                       {"gpu": "cuda"}, {})  # fmt: skip
    where = composed.document.where
    assert str(where("a")) == "1.yaml:4:13"
    assert str(where("b", "c")) == "0.yaml:2:8"
    assert str(where("b", "d", 0)) == "0.yaml:2:15"
    assert str(where("b", "d", 2)) == "1.yaml:1:14"
    assert str(composed.document.where_key("b", "c")) == "0.yaml:2:5"


MATRIX = """\
name: x
a: 0
matrix:
  axes:
    mpi:
      openmpi: {a: 1}
      mpich: {a: 2}
    gpu: [cuda, none]
  exclude: [{mpi: mpich, gpu: cuda}]
when:
- if: {matrix.gpu: cuda}
  then: {b: 1}
"""


def test_a_matrix():
    documents = chain(MATRIX)
    assert matrix(documents) == {"mpi": ("openmpi", "mpich"), "gpu": ("cuda", "none")}
    every = expand(documents)
    assert [tuple(one.values()) for one in every] == [
        ("openmpi", "cuda"), ("openmpi", "none"), ("mpich", "none"),
    ]  # fmt: skip
    assert [meant(MATRIX, choice=one) for one in every] == [
        {"name": "x-openmpi-cuda", "a": 1, "b": 1},
        {"name": "x-openmpi-none", "a": 1},
        {"name": "x-mpich-none", "a": 2},
    ]
    assert suffix(every[0]) == "-openmpi-cuda"


def test_a_label_that_is_the_version_of_the_mpi_follows_the_mpi():
    base = "version: '5.0.10'\ndescription: Open MPI 5.0.10\nmpi: {family: a, version: '5.0.10'}\n"
    heir = "inherit: base.yaml\nname: mine\nmpi: {version: '5.0.7'}\n"
    followed = {"version": "5.0.7", "name": "mine", "mpi": {"family": "a", "version": "5.0.7"}}
    assert meant(base, heir) == followed
    assert meant(base, f"{heir}version: '1'\n")["version"] == "1"
    same = meant(base, "inherit: base.yaml\nname: mine\n")
    assert (same["version"], same["description"]) == ("5.0.10", "Open MPI 5.0.10")
    own = meant(base.replace("version: '5.0.10'\n", "version: '2026.1'\n", 1), heir)
    assert (own["version"], own["description"]) == ("2026.1", "Open MPI 5.0.10")


def test_an_inherited_matrix_is_extended():
    documents = chain(MATRIX, "matrix: {axes: {mpi: {cray-mpich: {a: 3}}}}\n")
    assert matrix(documents)["mpi"] == ("openmpi", "mpich", "cray-mpich")
    assert compose(documents, {}, {"mpi": "cray-mpich", "gpu": "none"}).document.data["a"] == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("- a", (Reason.WRONG_TYPE, "0.yaml", 1, 1)),
        ("inherit: [a]", (Reason.WRONG_TYPE, "0.yaml", 1, 10)),
        ("when: {if: {gpu: cuda}}", (Reason.WRONG_TYPE, "0.yaml", 1, 7)),
        ("when:\n- if: {gpu: cuda}", (Reason.MISSING_KEY, "0.yaml", 2, 3)),
        ("when:\n- if: {gpus: x}\n  then: {}", (Reason.UNKNOWN_KEY, "0.yaml", 2, 8)),
        ("when:\n- if: {gpu: x}\n  then: {}", (Reason.INVALID_VALUE, "0.yaml", 2, 13)),
        ("when:\n- if: {gpu: cuda}\n  them: {}", (Reason.UNKNOWN_KEY, "0.yaml", 3, 3)),
        ("d: [{if: {gpu: cuda}, then: x}]", (Reason.WRONG_TYPE, "0.yaml", 1, 29)),
        ("d: [{if: {nothing: cuda}, then: [x]}]", (Reason.UNKNOWN_KEY, "0.yaml", 1, 11)),
        ("matrix: {axes: {mpi: [a]}, exclude: [{gpu: a}]}", (Reason.UNKNOWN_KEY, "0.yaml", 1, 39)),
        ("matrix: {axes: {mpi: [a]}, exclude: [{mpi: b}]}", (Reason.INVALID_VALUE, "0.yaml", 1, 44)),
        ("matrix: {axis: {}}", (Reason.UNKNOWN_KEY, "0.yaml", 1, 10)),
    ],
)  # fmt: skip
def test_mistakes(text, found):
    assert found in problems(text)


def test_mistakes_of_all_files_come_at_once():
    base = "when:\n- if: {gpus: x}\n  then: {}\n"
    top = "d: [{if: {gpu: x}, then: [y]}]\n"
    assert {file for _, file, *_ in problems(base, top)} == {"0.yaml", "1.yaml"}


def test_parts_are_all_of_a_file_whatever_holds():
    found = [part.data for part in parts(chain(MATRIX + "c: [{if: {gpu: rocm}, then: [z]}]\n")[0])]
    assert {"name": "x", "a": 0, "c": ["z"]} in found
    assert {"a": 1} in found
    assert {"b": 1} in found


@pytest.mark.parametrize(
    ("text", "answer"),
    [("a: 1", False), ("when: []", True), ("b: [{if: {gpu: cuda}, then: []}]", True),
     ("b: {c: [{unless: {gpu: cuda}, then: []}]}", True)],
)  # fmt: skip
def test_whether_anything_depends_on_the_site(text, answer):
    assert has_conditions(chain(text)) is answer


def test_a_tree_of_a_part():
    node = tree(parse("a: {b: [1, {c: 2}]}\n", file="x"), "a", why="because")
    assert node.value["b"].value[1].value["c"].value == 2
    assert str(node.value["b"].value[1].where) == "x:1:12"
    assert node.value["b"].why == "because"


VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(("word", "...")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
DATA = st.dictionaries(st.sampled_from("abc"), VALUES)


def document(data, file: str) -> Document:
    return Document(file=file, data=data, positions={})


def has_rest(data) -> bool:
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return data == "..." or any(map(has_rest, inner))


@given(DATA, DATA)
def test_composing_is_a_merge_of_mappings(one, other):
    if has_rest(one) or has_rest(other):
        return

    def merged(low, high):
        if not isinstance(low, dict) or not isinstance(high, dict):
            return high
        both = {key: merged(low[key], high[key]) for key in low if key in high}
        return {**low, **high, **both}

    found = compose((document(one, "0"), document(other, "1")), {}, {}).document.data
    assert found == merged(one, other)


@given(DATA)
def test_a_file_alone_means_what_it_says(one):
    if not has_rest(one):
        assert compose((document(one, "0"),), {}, {}).document.data == one
        assert compose((document(one, "0"), document({}, "1")), {}, {}).document.data == one
