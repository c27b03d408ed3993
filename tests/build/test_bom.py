"""The bill of materials is what the library for CycloneDX writes, byte for byte."""

from __future__ import annotations

import json
import uuid

import pytest
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from hypothesis import given
from hypothesis import strategies as st
from packageurl import PackageURL

from stackproof.build import bom
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.stack import Artefact
from stackproof.core import ids
from stackproof.core.noun import to_data
from stackproof.mpi.requirement import Requirement

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]))
NAME = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
VERSION = st.from_regex(
    r"([1-9]!)?[0-9]{1,2}(\.[0-9]{1,2}){0,2}(rc1|\.post2|\+cu12)?", fullmatch=True
)
DIGEST = st.sampled_from("0123456789abcdef").map(lambda digit: digit * 64)
ARTEFACTS = st.lists(
    st.builds(
        lambda name, version, licence, digest: Artefact(
            name=name,
            version=version,
            filename=f"{name}-{version}-1build-cp311.abi3-manylinux_2_28_x86_64.whl",
            sha256=digest,
            licence=licence,
        ),
        NAME, VERSION, TEXT, DIGEST,
    ),
    max_size=4,
    unique_by=lambda one: one.name,
)  # fmt: skip
PACKAGES = st.lists(
    st.builds(
        lambda name, version, number, **rest: bom.BillEntry(
            name=name, version=version, ref=f"spack:{name}@{version}/{number}", **rest
        ),
        NAME,
        VERSION,
        st.integers(0, 10**9),
        kind=st.sampled_from(["library", "application"]),
        scope=st.sampled_from(["required", "excluded"]),
        sha256=st.just("") | DIGEST,
        licence=TEXT,
        properties=st.dictionaries(NAME, TEXT, max_size=3),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda part: part.ref,
)


def by_the_library(stack: Stack, lock: Lock, parts: list[bom.BillEntry], needs: list[str]) -> str:
    whole = Component(
        name=stack.name,
        version=stack.version,
        type=ComponentType.PLATFORM,
        description=stack.description or None,
        bom_ref=f"stack:{stack.name}",
        properties=[
            Property(name=f"stackproof:{key}", value=value)
            for key, value in stack.site_facts.items()
        ],
    )
    identity = ids.content_id([to_data(stack), to_data(lock)])
    namespace = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")
    whole_bill = Bom(serial_number=uuid.uuid5(namespace, identity))
    whole_bill.metadata.component = whole
    made = {part.ref: component(part) for part in parts}
    whole_bill.components.update(made.values())
    for part in parts:
        whole_bill.register_dependency(made[part.ref], [made[ref] for ref in part.needs])
    whole_bill.register_dependency(whole, [made[ref] for ref in needs])
    data = json.loads(JsonV1Dot6(whole_bill).output_as_string())
    data["metadata"].pop("timestamp", None)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def component(part: bom.BillEntry) -> Component:
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType(part.kind),
        scope=ComponentScope(part.scope) if part.scope else None,
        bom_ref=part.ref,
        purl=PackageURL.from_string(part.purl) if part.purl else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else None,
        licenses=[DisjunctiveLicense(name=part.licence)] if part.licence else None,
        external_references=[
            ExternalReference(type=ExternalReferenceType.VCS, url=XsUri(part.clone))
        ]
        if part.clone
        else None,
        properties=[Property(name=name, value=value) for name, value in part.properties.items()],
    )


def stack_of(facts: dict[str, str], description: str = "") -> Stack:
    return Stack(
        name="x",
        version="1",
        description=description,
        engine="wheel",
        mpi_family="mpich",
        requirements=(Requirement(name="mpich", specifier=""),),
        packages=(),
        mount="/user-environment",
        architecture="x86_64",
        views=(),
        default_view=None,
        transports=(),
        benchmarks=(),
        site_facts=facts,
    )


@pytest.mark.battery
@given(
    artefacts=ARTEFACTS,
    packages=PACKAGES,
    facts=st.dictionaries(NAME, TEXT, max_size=3),
    description=TEXT,
    choices=st.data(),
)
def test_the_same_as_the_library(
    artefacts: list[Artefact],
    packages: list[bom.BillEntry],
    facts: dict[str, str],
    description: str,
    choices: st.DataObject,
) -> None:
    stack = stack_of(facts, description)
    lock = Lock(engine="wheel", wants="w", artefacts=tuple(artefacts))
    parts = [bom.of_index(one) for one in artefacts] + packages
    some = st.lists(st.sampled_from([part.ref for part in parts]), min_size=1, max_size=3)
    needs = choices.draw(some)
    found = bom.render(stack, lock, parts, needs=needs, facts=facts)
    assert found == by_the_library(stack, lock, parts, needs)


def test_what_is_built_on_what_and_repositories_last() -> None:
    stack, lock = stack_of({}), Lock(engine="wheel", wants="w", artefacts=())
    two = bom.BillEntry(name="two", version="1", ref="two")
    four = bom.BillEntry(name="four", version="1", ref="four", needs=("two", "two"))
    first = by_the_library(stack, lock, [two, four], ["four"])
    assert bom.render(stack, lock, [two, four], needs=["four"], facts={}) == first
    clone = bom.BillEntry(
        name="a", version="c" * 40, ref="git:a", clone="https://example.org/a.git"
    )
    bill = json.loads(bom.render(stack, lock, [clone, two, four], needs=["four"], facts={}))
    assert [part["bom-ref"] for part in bill["components"]] == ["four", "two", "git:a"]
    assert "git:a" not in {entry["ref"] for entry in bill["dependencies"]}
    alone = json.loads(by_the_library(stack, lock, [clone], ["git:a"]))["components"]
    assert bill["components"][-1] == alone[0]
