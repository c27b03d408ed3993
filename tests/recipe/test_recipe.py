"""Recipes and bench specifications: every document under tests/documents, and what they mean."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from stackproof.bench.amounts import parse_size, power_sizes
from stackproof.bench.spec import BenchSpec, parse_bench
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.meaning import meaning_problems
from stackproof.core import document, noun
from stackproof.core.errors import StackproofError

DOCUMENTS = Path(__file__).parents[1] / "documents"
FACTS = {"architecture": "x86_64"}
PARSERS = {"recipe": partial(parse_recipe, facts=FACTS), "bench": parse_bench}


def _documents(kind: str) -> list[Path]:
    return sorted(p for name in PARSERS for p in (DOCUMENTS / kind).glob(f"{name}-*.yaml"))


@pytest.mark.parametrize("path", _documents("valid"), ids=lambda path: path.stem)
def test_valid(path: Path) -> None:
    parse = PARSERS[path.name.partition("-")[0]]
    value = parse(document.parse(path.read_bytes(), file=path.name))
    assert noun.from_json(type(value), noun.to_json(value)) == value


@pytest.mark.parametrize("path", _documents("invalid"), ids=lambda path: path.stem)
def test_invalid(path: Path) -> None:
    text = path.read_text()
    reason, line = text.splitlines()[0].removeprefix("# expect: ").split()
    parse = PARSERS[path.name.partition("-")[0]]
    with pytest.raises(StackproofError) as caught:
        parse(document.parse(text, file=path.name))
    first = caught.value.problems[0]
    assert (first.reason.value, first.where and first.where.line) == (reason, int(line))
    assert first.hint or first.reason.value == "yaml-syntax"


def test_all_problems_at_once() -> None:
    text = "name: X\nmpi: {family: mpich, flavour: 1}\nmount: /usr\nimage: {level: high}\n"
    with pytest.raises(StackproofError) as caught:
        parse_recipe(document.parse(text, file="r.yaml"), FACTS)
    assert {p.reason.value for p in caught.value.problems} == {
        "invalid-value", "unknown-key", "bad-mount-point", "wrong-type",
    }  # fmt: skip


def test_schema_keys_are_the_fields() -> None:
    """Defaults live in the dataclass only; the schema has the same keys."""
    keys = {key.replace("-", "_") for key in document.schema("bench")["properties"]}
    assert keys == {name.removesuffix("_s") for name in BenchSpec.__struct_fields__}
    for kind in PARSERS:
        assert "default" not in json.dumps(document.schema(kind)).replace("default-view", "").replace(
            "`default`", "").replace("its default view", "")  # fmt: skip


def test_defaults() -> None:
    text = "name: x\nmpi: {family: mpich}\n"
    recipe = parse_recipe(document.parse(text, file="r.yaml"), FACTS)
    assert recipe.mount == "/user-environment"
    assert [view.name for view in recipe.views] == ["default"]
    assert recipe.default_view == "default"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ({"level": 22}, ""),
        ({"level": 23}, "zstd has levels 1 to 22"),
        ({"compression": "gzip", "level": 10}, "gzip has levels 1 to 9"),
        ({"compression": "xz", "level": 1}, "the compressor xz has no levels"),
    ],
)
def test_levels_are_those_of_the_compressor(image: dict[str, object], said: str) -> None:
    recipe = document.Document(file="r.yaml", data={"image": image}, positions={})
    assert "".join(one.message for one in meaning_problems(recipe)) == said


def test_views_without_a_default_have_none() -> None:
    text = "name: x\nmpi: {family: mpich}\nviews: {develop: {set: {A: b}}}\n"
    recipe = parse_recipe(document.parse(text, file="r.yaml"), FACTS)
    assert recipe.default_view is None


def test_sizes() -> None:
    assert power_sizes(0, 8) == (0, 1, 2, 4, 8)
    assert power_sizes(3, 16) == (4, 8, 16)
    assert [parse_size(s) for s in (7, "64 KiB", "4MiB", "1 B")] == [7, 65536, 4194304, 1]
    with pytest.raises(ValueError, match="not a size"):
        parse_size("4 MB")


def test_image_paths_are_relative_to_the_specification() -> None:
    text = "baseline: {image: a.squashfs}\nchallengers: [{image: /x/b.squashfs:/mnt}]\n"
    spec = parse_bench(document.parse(text, file="b.yaml"), folder="/data/demo")
    assert spec.baseline.image == "/data/demo/a.squashfs"
    assert spec.challengers[0].image == "/x/b.squashfs:/mnt"


@pytest.mark.parametrize(
    ("sizes", "place", "said"),
    [
        ("{from: 4 MiB, to: 1}", "b.yaml:2:8", "no power of two"),
        ("{from: 3, to: 3}", "b.yaml:2:8", "no power of two"),
        ("{from: 1, to: 0}", "b.yaml:2:8", "no power of two"),
    ],
)
def test_a_range_without_a_size_is_refused(sizes: str, place: str, said: str) -> None:
    """It was taken for no wish at all, and every size was measured."""
    text = f"baseline: {{image: a.squashfs}}\nsizes: {sizes}\n"
    with pytest.raises(StackproofError) as caught:
        parse_bench(document.parse(text, file="b.yaml"))
    (problem,) = caught.value.problems
    assert (str(problem.where), said in problem.message) == (place, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("20m", 1200.0), ("1.5h", 5400.0), ("0.5m", 30.0)]
)
def test_a_budget_of_a_specification_is_seconds(text: str, seconds: float) -> None:
    text = f"baseline: {{name: a, image: a}}\nuntil-decided: true\nbudget: {text}\n"
    spec = parse_bench(document.parse(text, file="b.yaml"))
    assert (spec.until_decided, spec.budget_s, spec.launches) == (True, seconds, 40)


@pytest.mark.parametrize("text", ["0m", "0.0s", "soon", "5", "5 m", "1e3s", "-5m", "9" * 400 + "h"])
def test_a_budget_that_is_no_time_is_refused_where_it_stands(text: str) -> None:
    text = f"baseline: {{name: a, image: a}}\nuntil-decided: true\nbudget: '{text}'\n"
    with pytest.raises(StackproofError) as caught:
        parse_bench(document.parse(text, file="b.yaml"))
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert (problem.where.line, "for example 90s" in str(problem)) == (3, True)
