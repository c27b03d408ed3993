"""The bill of materials is what the library for CycloneDX writes, byte for byte."""

from __future__ import annotations

import json
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from hypothesis import given
from hypothesis import strategies as st
from packageurl import PackageURL

from stackproof import ids
from stackproof.bom import render_bom
from stackproof.noun import to_data
from stackproof.stack import Artefact, Lock, Requirement, Stack

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]))
NAME = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)
VERSION = st.from_regex(
    r"([1-9]!)?[0-9]{1,2}(\.[0-9]{1,2}){0,2}(rc1|\.post2|\+cu12)?", fullmatch=True
)
ARTEFACTS = st.lists(
    st.builds(
        lambda name, version, licence, digit: Artefact(
            name=name,
            version=version,
            filename=f"{name}-{version}-1build-cp311.abi3-manylinux_2_28_x86_64.whl",
            sha256=digit * 64,
            licence=licence,
        ),
        NAME, VERSION, TEXT, st.sampled_from("0123456789abcdef"),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.name,
)  # fmt: skip


def by_the_library(stack: Stack, lock: Lock) -> str:
    whole = Component(
        name=stack.name,
        version=stack.version,
        type=ComponentType.PLATFORM,
        description=stack.description or None,
        bom_ref=f"stack:{stack.name}",
        properties=[
            Property(name=f"stackproof:{key}", value=value)
            for key, value in sorted(stack.site_facts.items())
        ],
    )
    identity = ids.content_id([to_data(stack), to_data(lock)])
    namespace = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")
    bom = Bom(serial_number=uuid.uuid5(namespace, identity))
    bom.metadata.component = whole
    parts = [
        Component(
            name=one.name,
            version=one.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"pypi:{one.name}@{one.version}",
            purl=PackageURL(
                type="pypi",
                name=one.name.lower().replace("_", "-"),
                version=one.version,
                qualifiers={"file_name": one.filename},
            ),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one.sha256)],
            licenses=[DisjunctiveLicense(name=one.licence)] if one.licence else None,
        )
        for one in lock.artefacts
    ]
    bom.components.update(parts)
    bom.register_dependency(whole, parts)
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    data["metadata"].pop("timestamp", None)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


@given(artefacts=ARTEFACTS, facts=st.dictionaries(NAME, TEXT, max_size=3), description=TEXT)
def test_the_same_as_the_library(
    artefacts: list[Artefact], facts: dict[str, str], description: str
) -> None:
    stack = Stack(
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
    lock = Lock(engine="wheel", wants="w", artefacts=tuple(artefacts))
    assert json.loads(render_bom(stack, lock)) == json.loads(by_the_library(stack, lock))
    assert render_bom(stack, lock) == by_the_library(stack, lock)
