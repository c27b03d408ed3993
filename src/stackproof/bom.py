"""The bill of materials of an image: CycloneDX 1.6 JSON, the same bytes for the same lock.

It is part of what a plan's id is made of, so every look at a stack renders it. It is small, and is
written here; loading the library for CycloneDX would take longer than all else that `check` does.
The tests compare it with what the library writes.
"""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

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
    whole: dict[str, Any] = {
        "bom-ref": f"stack:{stack.name}",
        "name": stack.name,
        "type": "platform",
        "version": stack.version,
    }
    if stack.description:
        whole["description"] = stack.description
    if stack.site_facts:
        whole["properties"] = [
            {"name": f"stackproof:{key}", "value": value}
            for key, value in sorted(stack.site_facts.items())
        ]
    parts = [_component(one) for one in sorted(lock.artefacts, key=lambda a: (a.name, a.version))]
    names = sorted(part["bom-ref"] for part in parts)
    needs = {"ref": whole["bom-ref"], "dependsOn": names}
    data = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "components": parts,
        "dependencies": sorted([*({"ref": name} for name in names), needs], key=lambda d: d["ref"]),
        "metadata": {"component": whole},
        "serialNumber": uuid.uuid5(_NAMESPACE, ids.content_id([to_data(stack), to_data(lock)])).urn,
        "specVersion": "1.6",
        "version": 1,
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _component(artefact: Artefact) -> dict[str, Any]:
    name = artefact.name.lower().replace("_", "-")
    path = f"{quote(name, safe='')}@{quote(artefact.version, safe='')}"
    found: dict[str, Any] = {
        "bom-ref": f"pypi:{artefact.name}@{artefact.version}",
        "hashes": [{"alg": "SHA-256", "content": artefact.sha256}],
        "name": artefact.name,
        "purl": f"pkg:pypi/{path}?file_name={quote(artefact.filename, safe='')}",
        "type": "library",
        "version": artefact.version,
    }
    if artefact.licence:
        found["licenses"] = [{"license": {"name": artefact.licence}}]
    return found
