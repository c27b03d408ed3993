"""The site noun: documents, sources of facts, merging; the shipped sites are valid."""

from __future__ import annotations

import json
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import document, noun
from stackproof.core.effects import shipped
from stackproof.core.errors import StackproofError
from stackproof.core.value import Value
from stackproof.mpi import families
from stackproof.site import model as site_model
from stackproof.site.model import FabricType, Site, leaves, merge, parse_site, to_document

DOCUMENTS = Path(__file__).parents[1] / "documents"
MACHINES = {
    "adastra", "alps-gh200", "alps-zen2", "aurora", "el-capitan", "frontier", "helios-cpu",
    "helios-gpu", "local", "lumi-c", "lumi-g", "olivia-cpu", "olivia-gh200",
}  # fmt: skip


def parse(text: str) -> Site:
    return parse_site(document.parse(text, file="site.yaml"))


def shipped_site(name: str) -> Site:
    path = shipped.find("sites", name)
    return parse_site(document.parse(path.read_bytes(), file=str(path)))


@pytest.mark.parametrize(
    "path", sorted((DOCUMENTS / "invalid").glob("site-*.yaml")), ids=lambda path: path.stem
)
def test_invalid(path):
    text = path.read_text()
    expected = [
        line.removeprefix("# expect: ") for line in text.splitlines() if line.startswith("# expect")
    ]
    with pytest.raises(StackproofError) as caught:
        parse_site(document.parse(text, file=path.name))
    found = [f"{p.reason} {p.where.line if p.where else 0}" for p in caught.value.problems]
    assert found == expected


@pytest.mark.parametrize(
    "path", sorted((DOCUMENTS / "valid").glob("site-*.yaml")), ids=lambda path: path.stem
)
def test_valid(path):
    found = parse_site(document.parse(path.read_bytes(), file=path.name))
    assert noun.from_json(Site, noun.to_json(found)) == found
    assert site_model.from_document(to_document(found), file="again") == found


def test_every_key_document_holds_every_key():
    """The data of the fullest document, the schema and the values name the same keys."""
    text = (DOCUMENTS / "valid" / "site-every-key.yaml").read_text()
    given_keys = _keys_of(document.parse(text, file="x").data, document.schema("site"))
    assert given_keys == _schema_keys(document.schema("site"))


def _schema_keys(schema: dict, path: str = "") -> set[str]:
    keys: set[str] = set()
    for key, value in schema.get("properties", {}).items():
        keys |= {f"{path}/{key}"} | _schema_keys(value, f"{path}/{key}")
    for inner in (schema.get("additionalProperties"), schema.get("items")):
        if isinstance(inner, dict):
            keys |= _schema_keys(inner, f"{path}/*")
    return keys


def _keys_of(data: object, schema: dict, path: str = "") -> set[str]:
    if not isinstance(schema, dict):  # Spack's own settings, below `spack.packages`
        return set()
    if isinstance(data, list):
        return {k for item in data for k in _keys_of(item, schema.get("items", {}), f"{path}/*")}
    if not isinstance(data, dict):
        return set()
    keys: set[str] = set()
    for key, value in data.items():
        if key in schema.get("properties", {}):
            keys |= {f"{path}/{key}"} | _keys_of(value, schema["properties"][key], f"{path}/{key}")
        else:
            keys |= _keys_of(value, schema.get("additionalProperties", {}), f"{path}/*")
    return keys


def _value_keys(kind: object, path: str = "") -> set[str]:
    for inner in typing.get_args(kind):
        if found := _value_keys(inner, path + "/*" if kind != inner and _many(kind) else path):
            return found
    if not (isinstance(kind, type) and issubclass(kind, Value)):
        return set()
    keys: set[str] = set()
    for name, hint in typing.get_type_hints(kind).items():
        if typing.get_origin(hint) is not typing.ClassVar:
            key = f"{path}/{name.replace('_', '-')}"
            keys |= {key} | _value_keys(hint, key)
    return keys


def _many(kind: object) -> bool:
    return typing.get_origin(kind) not in {None, typing.Union, type(int | None)}


def test_schema_keys_are_the_fields_of_values():
    assert _schema_keys(document.schema("site")) == _value_keys(Site)


def test_schema_describes_every_key_and_sets_no_default():
    def check(schema: dict) -> None:
        assert "description" in schema, schema
        assert "default" not in schema
        inner = [*schema.get("properties", {}).values(), schema.get("propertyNames")]
        for value in (*inner, schema.get("additionalProperties"), schema.get("items")):
            if isinstance(value, dict):
                check(value)
        if schema.get("type") == "object":
            assert "additionalProperties" in schema

    check(document.schema("site"))


def test_shipped_sites_are_these():
    assert set(shipped.names("sites")) == MACHINES


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_shipped_site(name):
    found = shipped_site(name)
    assert found.name == name
    assert found.description
    assert noun.from_json(Site, noun.to_json(found)) == found
    for path in leaves(found):
        sources = found.sources_of(path)
        assert sources, path
        assert all(source.url or (source.authors and source.date) for source in sources), path
    used = {name for path in leaves(found) for name in _ids(found, path)}
    assert used == set(found.sources)


def _ids(found: Site, path: str) -> list[str]:
    return [name for name, source in found.sources.items() if source in found.sources_of(path)]


@pytest.mark.parametrize("name", sorted(MACHINES - {"local"}))
def test_shipped_slingshot_machine(name):
    found = shipped_site(name)
    assert found.fabric.type is FabricType.SLINGSHOT_11
    assert found.fabric.limit_mb_s == 25_000
    assert found.fabric.bidirectional_limit_mb_s == 50_000
    assert [step.bytes for step in found.fabric.step_sizes] == [192]
    assert found.architectures in {("x86_64",), ("aarch64",)}
    assert found.vendor_mpi is None or found.vendor_mpi.family in families.REGISTRY


def test_facts_of_machines_are_what_their_sources_say():
    lumi = shipped_site("lumi-c")
    assert (lumi.partitions["cpu"].nodes, lumi.partitions["cpu"].sockets) == (2048, 2)
    assert lumi.vendor_mpi
    assert lumi.vendor_mpi.version == "8.1.29"
    assert lumi.externals["libfabric"].version == "1.15.2.0"
    assert [s.date for s in lumi.sources_of("vendor-mpi.version")] == ["2025-05"]
    assert shipped_site("lumi-g").partitions["gpu"].nics == 4
    assert shipped_site("helios-gpu").partitions["gpu"].nodes == 110
    assert shipped_site("helios-cpu").partitions["cpu"].nics is None  # no source says it
    assert shipped_site("alps-gh200").launchers["srun"].pmi == ("pmi2", "pmix")
    assert shipped_site("adastra").launchers["srun"].pmi == ("pmi2",)
    frontier, aurora, capitan = map(shipped_site, ("frontier", "aurora", "el-capitan"))
    assert [p.nodes for s in (frontier, aurora, capitan) for p in s.partitions.values()] == [
        9856, 10624, 11136,
    ]  # fmt: skip
    assert capitan.partitions["compute"].nics is None  # no source says it
    assert [s.scheduler.type for s in (frontier, aurora, capitan)] == ["slurm", "pbs", "flux"]
    assert capitan.launchers["flux"].pmi == ("simple", "cray-pals")
    olivia = shipped_site("olivia-gh200")
    assert [s.date for s in olivia.sources_of("externals.libfabric.version")] == ["2026-05-11"]
    assert [s.date for s in olivia.sources_of("externals.libcxi.version")] == ["2025-09-10"]


def test_local_declares_nothing():
    assert leaves(shipped_site("local")) == {}


SOURCES = """
sources:
  book: {title: a book}
  page: {title: a page}
"""


def test_longest_path_decides_the_source():
    found = parse(
        "name: x\npartitions: {a: {nodes: 2, nics: 1}, ab: {nodes: 3}}\n"
        + SOURCES
        + "facts: {partitions: book, partitions.a.nics: [page, book]}"
    )
    assert [s.title for s in found.sources_of("partitions.a.nodes")] == ["a book"]
    assert [s.title for s in found.sources_of("partitions.a.nics")] == ["a page", "a book"]
    assert [s.title for s in found.sources_of("partitions.ab.nodes")] == ["a book"]
    assert found.sources_of("fabric.type") == ()


def test_declared_beats_probed_and_each_fact_keeps_its_source():
    declared = parse(
        "name: x\npartitions: {node: {cores: 64}}\nos: SLES\n"
        + SOURCES
        + "facts: {partitions: book, os: page}"
    )
    probed = parse(
        "name: y\npartitions: {node: {cores: 128, sockets: 2}}\nkernel: '6.1'\n"
        "sources: {book: {title: lscpu, kind: command}}\nfacts: {partitions: book, kernel: book}"
    )
    both = merge(declared, probed)
    assert both.name == "x"
    assert both.partitions["node"].cores == 64
    assert both.partitions["node"].sockets == 2
    assert (both.os, both.kernel) == ("SLES", "6.1")
    titles = {path: [s.title for s in both.sources_of(path)] for path in leaves(both)}
    assert titles == {
        "partitions.node.cores": ["a book"],
        "partitions.node.sockets": ["lscpu"],
        "os": ["a page"],
        "kernel": ["lscpu"],
    }


def test_a_fabric_is_not_mixed_of_two():
    """The limit of a probed Ethernet must not become the limit of a declared Slingshot."""
    declared = parse(
        "name: x\nfabric: {type: slingshot-11}\nsources: {a: {title: t}}\nfacts: {fabric: a}"
    )
    ethernet = parse(
        "name: y\nfabric: {type: ethernet, limit-mb-s: 125}\nsources: {a: {title: t}}\n"
        "facts: {fabric: a}"
    )
    same = parse(
        "name: y\nfabric: {type: slingshot-11, limit-mb-s: 25000}\nsources: {a: {title: t}}\n"
        "facts: {fabric: a}"
    )
    assert merge(declared, ethernet).fabric.limit_mb_s is None
    assert merge(declared, same).fabric.limit_mb_s == 25_000


NODES = st.dictionaries(
    st.sampled_from(("nodes", "sockets", "cores", "nics")), st.integers(1, 9), max_size=4
)


@given(st.dictionaries(st.sampled_from("ab"), NODES), st.dictionaries(st.sampled_from("ab"), NODES))
def test_merge_keeps_every_fact_of_both_and_prefers_the_declared(one, two):
    declared, probed = (
        parse(json.dumps({
            "name": "x", "partitions": nodes, "sources": {source: {"title": source}},
            "facts": {"partitions": source} if any(nodes.values()) else {},
        }))
        for nodes, source in ((one, "declared"), (two, "probed"))
    )  # fmt: skip
    both = merge(declared, probed)
    ours, theirs = leaves(declared), leaves(probed)
    assert leaves(both) == {**theirs, **ours}
    for path in leaves(both):
        assert [s.title for s in both.sources_of(path)] == [
            "declared" if path in ours else "probed"
        ]
    assert merge(both, both) == both


def test_unknown_shipped_name_lists_the_names():
    with pytest.raises(StackproofError) as caught:
        shipped.find("sites", "lumi-cc")
    problem = caught.value.problems[0]
    assert problem.reason == "file-missing"
    assert "`lumi-c`" in str(problem.hint)
    assert all(name in str(problem.hint) for name in MACHINES)


@pytest.mark.parametrize("name", ["../sites/lumi-c", "", "lumi-c.yaml", "/etc/passwd"])
def test_a_shipped_name_is_never_a_path(name):
    with pytest.raises(StackproofError) as caught:
        shipped.find("sites", name)
    assert caught.value.reason == "file-missing"


def test_knowledge_is_named_by_its_path():
    assert all(shipped.find("knowledge", name).is_file() for name in shipped.names("knowledge"))
    with pytest.raises(ValueError, match="not one of"):
        shipped.root("secrets")


def test_the_example_of_the_how_to_is_valid():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "describe-a-site.md"
    text = page.read_text()
    found = parse(text.split("```yaml\n")[1].split("```")[0])
    assert f"valid ({len(leaves(found))} facts, {len(found.sources)} sources)" in text
