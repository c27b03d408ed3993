"""Recipes changed at random: a stack, or problems of ours with a place; never anything else."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import yaml
from hypothesis import example, given, settings

from stackinators import DOCUMENTS, SMALL, cluster, understand
from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.build.engines.spack.stackinator.mirrors import read_mirrors
from stackproof.core.document import parse
from stackproof.core.errors import StackproofError
from stackproof.core.noun import from_json, to_json

RECIPES = {1: "v1-everything", 2: "v2-everything", 3: "v3-everything"}
NAMES = ("config.yaml", "compilers.yaml", "environments.yaml", "modules.yaml", "packages.yaml")
PLACES = {version: cluster(version) for version in RECIPES}


def texts_of(version: int) -> dict[str, str]:
    path = DOCUMENTS / "recipes" / RECIPES[version]
    return {n: (path / n).read_text() for n in NAMES if (path / n).is_file()}


EVERYTHING = {version: texts_of(version) for version in RECIPES}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", " ", "..", "/", "$@x@", "$@mount@", "${@A@}", "@", "%", "gcc", "gcc@12.3", "system", "a b"]),
    st.text(max_size=8),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(data: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            found += paths(value, (*here, key))
    return found


def put(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return data with another value at a path; a value that is `...` removes it."""
    if not path:
        return value if value is not ... else None
    key, *rest = path
    copy = dict(data) if isinstance(data, dict) else list(data)
    if not rest and value is ...:
        del copy[key]
    else:
        copy[key] = put(copy[key], tuple(rest), value)
    return copy


@st.composite
def changed_recipes(draw) -> tuple[int, dict[str, str]]:
    version = draw(st.sampled_from(sorted(EVERYTHING)))
    texts = dict(EVERYTHING[version])
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(texts)))
        data = yaml.safe_load(texts[name])
        path = draw(st.sampled_from(paths(data)))
        value = draw(st.one_of(st.just(...), values))
        texts[name] = yaml.safe_dump(put(data, path, value))
    return version, texts


def judge(version: int, texts: dict[str, Any]) -> None:
    try:
        stack, findings = understand(texts, version=version, on=PLACES[version])
    except StackproofError:
        return
    assert all(p.where is not None and p.message for p in findings.problems)
    if not findings.problems:
        assert from_json(SpackStack, to_json(stack)) == stack


@settings(max_examples=60, deadline=None)
@given(changed_recipes())
@example((2, {"config.yaml": "version: .inf\n"}))
@example((2, {"environments.yaml": "'': {compiler: [gcc], specs: ['']}\n"}))
def test_changed_recipes(recipe):
    judge(*recipe)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NAMES), st.binary(max_size=60))
def test_any_bytes(name, content):
    judge(2, {name: content})


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="{}%#'\" \nabe.$[]@()|*-+0", max_size=40))
def test_any_hook(text):
    judge(2, {"post-install": text})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_changed_mirrors(data):
    document = yaml.safe_load((DOCUMENTS / "mirrors.yaml").read_text())
    path = data.draw(st.sampled_from(paths(document)))
    text = yaml.safe_dump(put(document, path, data.draw(values)))
    findings = FindingsList()
    try:
        read_mirrors(parse(text, file="mirrors.yaml"), "/x", {"FJORD": "/f"}, findings)
    except StackproofError:
        return
    assert all(problem.where for problem in findings.problems)


def test_the_start_of_it_is_valid():
    for version, texts in EVERYTHING.items():
        own = {**dict.fromkeys(set(SMALL[version]) - set(texts)), **texts}
        _, findings = understand(own, version=version)
        shown = [p.message for p in findings.problems if "fjord-tools" not in p.message]
        assert shown == []
