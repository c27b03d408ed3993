"""The bill of materials of an image: CycloneDX 1.6 JSON, the same bytes for the same lock.

It is part of what a plan's id is made of, so every look at a stack renders it. It is small, and is
written here; loading the library for CycloneDX would take longer than all else that `check` does.
The tests compare it with what the library writes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import field

from stackproof.build.stack import AnyLock, AnyStack, Artefact
from stackproof.core import ids
from stackproof.core.noun import to_data
from stackproof.core.value import Value

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/stackproof")


class BillEntry(Value):
    """One entry of a bill; `ref` names it, and `needs` are the refs of those it is built on.

    `kind` is `library` or `application`; `scope` is empty, `required`, or `excluded` for what
    only built others. `clone` is the address of a repository that served as a tool.
    """

    name: str
    version: str
    ref: str
    kind: str = "library"
    scope: str = ""
    sha256: str = ""
    licence: str = ""
    purl: str = ""
    clone: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def of_index(artefact: Artefact, *, kind: str = "library", scope: str = "") -> BillEntry:
    """Return the part of a file from the Python package index, with its package URL."""
    name = artefact.name.lower().replace("_", "-")
    path = f"{quote(name, safe='')}@{quote(artefact.version, safe='')}"
    return BillEntry(
        name=artefact.name,
        version=artefact.version,
        ref=f"pypi:{artefact.name}@{artefact.version}",
        kind=kind,
        scope=scope,
        sha256=artefact.sha256,
        licence=artefact.licence,
        purl=f"pkg:pypi/{path}?file_name={quote(artefact.filename, safe='')}",
    )


def render(
    stack: AnyStack,
    lock: AnyLock,
    parts: Iterable[BillEntry],
    *,
    needs: Iterable[str],
    facts: Mapping[str, str],
) -> str:
    """Return the bill of materials as CycloneDX 1.6 JSON text.

    `needs` are the refs of the parts that the stack itself stands on, `facts` what is said of the
    whole. The serial number is derived from stack and lock and no time is stamped in, so that an
    image is reproducible.
    """
    whole: dict[str, Any] = {
        "bom-ref": f"stack:{stack.name}",
        "name": stack.name,
        "type": "platform",
        "version": stack.version,
    }
    if stack.description:
        whole["description"] = stack.description
    if facts:
        whole["properties"] = _properties({f"stackproof:{key}": facts[key] for key in facts})
    listed = list(parts)
    own = sorted((p for p in listed if not p.clone), key=_order)
    edges = {part.ref: part.needs for part in own} | {whole["bom-ref"]: tuple(needs)}
    # Clones stand last, in the order of the lock, and nothing depends on them.
    every = (*own, *(part for part in listed if part.clone))
    data = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "components": [_component(part) for part in every],
        "dependencies": [_dependency(ref, edges[ref]) for ref in sorted(edges)],
        "metadata": {"component": whole},
        "serialNumber": uuid.uuid5(_NAMESPACE, ids.content_id([to_data(stack), to_data(lock)])).urn,
        "specVersion": "1.6",
        "version": 1,
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _order(part: BillEntry) -> tuple[str, ...]:
    return (part.kind, part.name, part.version, part.ref)


def _component(part: BillEntry) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bom-ref": part.ref,
        "name": part.name,
        "type": part.kind,
        "version": part.version,
    }
    if part.sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    if part.licence:
        found["licenses"] = [{"license": {"name": part.licence}}]
    if part.properties:
        found["properties"] = _properties(part.properties)
    if part.purl:
        found["purl"] = part.purl
    if part.scope:
        found["scope"] = part.scope
    if part.clone:
        found["externalReferences"] = [{"type": "vcs", "url": part.clone}]
    return found


def _properties(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": values[name]} for name in sorted(values)]


def _dependency(ref: str, needs: Iterable[str]) -> dict[str, Any]:
    names = sorted(set(needs))
    return {"ref": ref, "dependsOn": names} if names else {"ref": ref}
