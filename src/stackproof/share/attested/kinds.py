"""What a document beside an image is, by its content: the type that registries list it as."""

from __future__ import annotations

import json
from typing import Any

from stackproof.core import limits

IN_TOTO = "application/vnd.in-toto+json"
CYCLONEDX = "application/vnd.cyclonedx+json"
SPDX = "application/spdx+json"
DOCUMENT = "application/vnd.stackproof.document.v1"
"""What is none of the others, in a registry."""
ARTEFACTS = (IN_TOTO, CYCLONEDX, SPDX, DOCUMENT)
"""What of that which refers to an image is a document, whoever attached it."""
_BYTES = "application/octet-stream"
_ENDINGS = {".html": "text/html", ".json": "application/json", ".txt": "text/plain"}


def media_type(name: str, content: bytes) -> str:
    """Return the type of a document's bytes."""
    if len(content) <= limits.ATTESTED.bytes and content.lstrip()[:1] == b"{":
        found = _of_json(content)
        if found:
            return found
    return next((kind for end, kind in _ENDINGS.items() if name.endswith(end)), _BYTES)


def _of_json(content: bytes) -> str:
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    if str(data.get("_type", "")).startswith("https://in-toto.io/Statement/"):
        return IN_TOTO
    if data.get("bomFormat") == "CycloneDX":
        return CYCLONEDX
    return SPDX if isinstance(data.get("spdxVersion"), str) else ""


def artefact_type(media: str) -> str:
    """Return as what a document of a type is attached in a registry."""
    return media if media in ARTEFACTS else DOCUMENT
