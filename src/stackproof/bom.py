"""The bill of materials of an image: CycloneDX JSON, the same bytes for the same lock."""

from __future__ import annotations

import json
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from stackproof import ids
from stackproof.noun import to_data
from stackproof.stack import Artefact, Lock, Stack

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")


def render_bom(stack: Stack, lock: Lock) -> str:
    """Return the bill of materials as CycloneDX 1.6 JSON text.

    Each wheel is a component with its SHA-256, package URL and licence as its publisher states
    it. The serial number is derived from stack and lock and no time is stamped in, so that an
    image is reproducible.
    """
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
    bom = Bom(serial_number=uuid.uuid5(_NAMESPACE, identity))
    bom.metadata.component = whole
    parts = [_component(artefact) for artefact in lock.artefacts]
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(whole, parts)
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    data["metadata"].pop("timestamp", None)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _component(artefact: Artefact) -> Component:
    return Component(
        name=artefact.name,
        version=artefact.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pypi:{artefact.name}@{artefact.version}",
        purl=PackageURL(
            type="pypi",
            name=artefact.name.lower().replace("_", "-"),
            version=artefact.version,
            qualifiers={"file_name": artefact.filename},
        ),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artefact.sha256)],
        licenses=[DisjunctiveLicense(name=artefact.licence)] if artefact.licence else None,
    )
