"""The bill of materials of a stack built by Spack: CycloneDX JSON, the same for the same lock."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6

from stackproof import ids
from stackproof.engines.spack import locks
from stackproof.engines.spack.locks import Node
from stackproof.engines.spack.overlay import NAMESPACE
from stackproof.noun import to_data
from stackproof.spackstack import OsSource, SpackLock, SpackStack

_UUIDS = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")


def render_bom(stack: SpackStack, lock: SpackLock) -> str:
    """Return the bill of materials as CycloneDX 1.6 JSON text.

    Every package of the lock is a component with its version, Spack hash, variants, target and
    compiler; what only built others is of scope `excluded`, what the machine brings is marked as
    external. Licences are not in Spack's lock: `host/spack_worker.py` adds those that the
    packages state. No time is stamped in, and the serial number comes from stack and lock.
    """
    known = locks.everything(lock, stack.mount)
    roots = tuple(key for c in lock.environments.values() for key in locks.roots(c))
    running = {node.hash for node in locks.needed(roots, known)}
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
    bom = Bom(serial_number=uuid.uuid5(_UUIDS, ids.content_id([to_data(stack), to_data(lock)])))
    bom.metadata.component = whole
    accepted = {(source.name, source.version): source for source in stack.os_sources}
    parts = {
        key: _component(
            node,
            accepted.get((node.name, node.version)) if node.namespace == NAMESPACE else None,
            runs=key in running,
        )
        for key, node in known.items()
    }
    for key, part in parts.items():
        bom.components.add(part)
        node = known[key]
        needs = [parts[other] for other in (*node.linked, *node.built_with) if other in parts]
        bom.register_dependency(part, needs)
    bom.register_dependency(whole, [parts[key] for key in dict.fromkeys(roots)])
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    data["metadata"].pop("timestamp", None)
    data["components"] += [_source(clone) for clone in lock.clones]
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _component(node: Node, source: OsSource | None, *, runs: bool) -> Component:
    """Return the component of a package; `source` is that of the operating system it is made of."""
    origin = (
        {}
        if source is None
        else {
            "source:url": source.url,
            "source:os-suite": source.suite,
            "source:os-package": f"{source.source} {source.source_version}",
            "source:os-dsc-sha256": source.dsc,
        }
    )
    properties = {
        **origin,
        "spack:hash": node.hash,
        "spack:namespace": node.namespace,
        "spack:package-hash": node.package_hash,
        "spack:target": f"{node.os}-{node.target}",
        "spack:compiler": node.compiler,
        "spack:external": node.prefix if node.external else "",
        **{f"spack:variant:{key}": _text(value) for key, value in node.variants.items()},
    }
    return Component(
        name=node.name,
        version=node.version,
        type=ComponentType.LIBRARY,
        scope=ComponentScope.REQUIRED if runs else ComponentScope.EXCLUDED,
        bom_ref=f"spack:{node.name}@{node.version}/{node.hash}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=source.sha256)] if source else None,
        properties=[
            Property(name=key, value=value) for key, value in sorted(properties.items()) if value
        ],
    )


def _source(clone: Any) -> Mapping[str, Any]:
    """Return Spack or a package repository itself, as the commit that was used."""
    return {
        "type": "application",
        "name": clone.name,
        "version": clone.commit,
        "bom-ref": f"git:{clone.name}@{clone.commit}",
        "scope": "excluded",
        "externalReferences": [{"type": "vcs", "url": clone.url}],
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
