"""Provenance of an image, as SLSA has it (version 1): who built it, how, and from what.

The format is that of https://slsa.dev/spec/v1.0/provenance; `parse` reads that of other builders as
well. Of ours `externalParameters` are the files of the recipe, as they were written, and what the
site and the engine added stands in `internalParameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from stackproof.core import limits
from stackproof.core.value import Value
from stackproof.share.attested import attestation
from stackproof.share.attested.attestation import Attestation

PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:stackproof:build:1"
UNNAMED = "urn:stackproof:builder"
"""The builder where nobody says who answers for the machine."""
NAME = "provenance.intoto.json"
"""How the document is called beside an image."""


class Material(Value):
    """What went into a build: a file by its SHA-256, or a repository at a commit.

    Both are empty of what its builder knows by other names, which are in `facts`.
    """

    name: str
    uri: str
    sha256: str = ""
    commit: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


class Provenance(Value):
    """How an image was built: `builder` is an address that says who answers for the machine.

    `versions` are those of the programs that built it. `recipe` maps the names of its files to
    their texts, `inside` is what the builder added. `bill` is the digest of the bill of materials.
    """

    builder: str
    build_type: str = BUILD_TYPE
    versions: Mapping[str, str] = field(default_factory=dict)
    recipe: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, Any] = field(default_factory=dict)
    materials: tuple[Material, ...] = ()
    bill: str = ""


def attest(said: Provenance, about: tuple[tuple[str, str], ...]) -> Attestation:
    """Return the statement that files, by name and SHA-256, were built so."""
    run: dict[str, Any] = {"builder": {"id": said.builder, "version": dict(said.versions)}}
    if said.bill:
        run["byproducts"] = [
            {
                "name": "meta/bom.cdx.json", "digest": {"sha256": said.bill},
                "mediaType": "application/vnd.cyclonedx+json",
            }
        ]  # fmt: skip
    return Attestation(
        about=about,
        predicate_type=PREDICATE,
        predicate={
            "buildDefinition": {
                "buildType": said.build_type,
                "externalParameters": {"recipe": dict(said.recipe)},
                "internalParameters": dict(said.inside),
                "resolvedDependencies": [_data(one) for one in said.materials],
            },
            "runDetails": run,
        },
    )


def _data(one: Material) -> dict[str, Any]:
    digests = {"sha256": one.sha256, "gitCommit": one.commit}
    found = {
        "name": one.name,
        "uri": one.uri,
        "digest": {key: value for key, value in digests.items() if value},
        "annotations": dict(one.facts),
    }
    return {key: value for key, value in found.items() if value}


def parse(found: Attestation, *, file: str) -> Provenance:
    """Return the provenance in a statement of a build; raises WRONG_TYPE for any other."""
    definition = _mapping(found.predicate.get("buildDefinition"))
    run = _mapping(found.predicate.get("runDetails"))
    builder = _mapping(run.get("builder"))
    listed = definition.get("resolvedDependencies") or []
    if not isinstance(builder.get("id"), str) or not isinstance(definition.get("buildType"), str):
        raise attestation.malformed(file, "this provenance names no builder, or no kind of build")
    if not isinstance(listed, list) or len(listed) > limits.ATTESTED.count:
        raise attestation.malformed(file, "what it says of sources is no list, or too long")
    byproducts = run.get("byproducts")
    bills = [
        _mapping(_mapping(one).get("digest")).get("sha256")
        for one in (byproducts if isinstance(byproducts, list) else [])
        if str(_mapping(one).get("name")).endswith("bom.cdx.json")
    ]
    return Provenance(
        builder=builder["id"],
        build_type=definition["buildType"],
        versions=_texts(builder.get("version")),
        recipe=_texts(_mapping(definition.get("externalParameters")).get("recipe")),
        inside=_mapping(definition.get("internalParameters")),
        materials=tuple(_material(one) for one in map(_mapping, listed)),
        bill=next((one for one in bills if isinstance(one, str)), ""),
    )


def _material(data: Mapping[str, Any]) -> Material:
    digests = _texts(data.get("digest"))
    texts = _texts({key: data.get(key) for key in ("name", "uri")})
    return Material(
        name=texts.get("name", ""),
        uri=texts.get("uri", ""),
        sha256=digests.get("sha256", ""),
        commit=digests.get("gitCommit", digests.get("sha1", "")),
        facts=_texts(data.get("annotations")),
    )


def _mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}


def _texts(data: object) -> dict[str, str]:
    return {key: value for key, value in _mapping(data).items() if isinstance(value, str)}
