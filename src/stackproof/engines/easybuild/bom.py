"""The bill of materials of a stack built by EasyBuild: the same CycloneDX for the same lock."""

from __future__ import annotations

import json
import uuid

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from stackproof import ids
from stackproof.engines.easybuild.chain import Easyconfig
from stackproof.engines.easybuild.request import ChainRequest, External
from stackproof.engines.easybuild.stack import EasyBuildLock, EasyBuildStack
from stackproof.noun import to_data
from stackproof.stack import Artefact

_UUIDS = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")
PROVIDERS = "easybuild:providers"
"""The property that holds libfabric's providers, with commas between them."""


def render_bom(stack: EasyBuildStack, lock: EasyBuildLock) -> str:
    """Return the bill of materials as CycloneDX 1.6 JSON text.

    Every component of the chain is there with its version, licence, source files and their
    digests, and what it is built on; so is what the machine brings, and EasyBuild itself, which is
    of scope `excluded`. No time is stamped in, and the serial number comes from stack and lock.
    """
    whole = Component(
        name=stack.name,
        version=stack.version,
        type=ComponentType.PLATFORM,
        description=stack.description or None,
        bom_ref=f"stack:{stack.name}",
        properties=[
            Property(name=f"stackproof:{key}", value=value)
            for key, value in sorted({**stack.site_facts, "optarch": stack.optarch}.items())
        ],
    )
    bom = Bom(serial_number=uuid.uuid5(_UUIDS, ids.content_id([to_data(stack), to_data(lock)])))
    bom.metadata.component = whole
    parts = {one.module: _component(one) for one in lock.components}
    request = stack.request
    given = dict(request.externals) | ({request.gpu: request.gpu_at} if request.gpu_at else {})
    outside = [_external(name, one, request) for name, one in sorted(given.items())]
    for part in (*parts.values(), *outside, *map(_tool, lock.tool)):
        bom.components.add(part)
    for one in lock.components:
        needs = [parts[name] for name in one.needs if name in parts]
        bom.register_dependency(parts[one.module], needs)
    bom.register_dependency(whole, [*parts.values(), *outside])
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    data["metadata"].pop("timestamp", None)
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _component(one: Easyconfig) -> Component:
    properties = [Property(name="easybuild:module", value=one.module)]
    if one.providers:
        properties.append(Property(name=PROVIDERS, value=",".join(one.providers)))
    for source in one.sources:
        digest = source.accepted[0]
        where = digest.provenance or source.address
        properties.append(Property(name=f"source:{source.filename}", value=where))
    only = one.sources[0].accepted[0].sha256 if len(one.sources) == 1 else None
    return Component(
        name=one.component,
        version=one.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        bom_ref=f"easybuild:{one.module}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=only)] if only else None,
        licenses=[DisjunctiveLicense(name=one.licence)] if one.licence else None,
        properties=properties,
    )


def _external(name: str, external: External, request: ChainRequest) -> Component:
    """Return the component of what the machine has; of its libfabric the recipe says what is in."""
    properties = {"easybuild:external": external.prefix, "easybuild:module": external.module}
    if name == "libfabric":
        properties[PROVIDERS] = ",".join(request.providers)
    return Component(
        name=name,
        version=external.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED,
        bom_ref=f"external:{name}@{external.version}",
        properties=[Property(name=key, value=value) for key, value in properties.items() if value],
    )


def _tool(file: Artefact) -> Component:
    return Component(
        name=file.name,
        version=file.version,
        type=ComponentType.APPLICATION,
        scope=ComponentScope.EXCLUDED,
        bom_ref=f"pypi:{file.name}@{file.version}",
        purl=PackageURL(
            type="pypi",
            name=file.name,
            version=file.version,
            qualifiers={"file_name": file.filename},
        ),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)],
        licenses=[DisjunctiveLicense(name=file.licence)] if file.licence else None,
    )
