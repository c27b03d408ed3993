"""Attestations of in-toto: a statement about files by their digests, and back.

    {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name", "digest": {"sha256"}}],
     "predicateType": URI, "predicate": {…}}

The format is that of github.com/in-toto/attestation, spec/v1/statement.md; keys that are not known
are passed over, as it asks. The same values give the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.trust.statement import IN_TOTO

SUFFIX = ".intoto.json"
"""How names of documents end that are attestations."""
_TYPES = (IN_TOTO, "https://in-toto.io/Statement/v0.1")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Attestation(Value):
    """What a statement says, by its predicate, of files: pairs of a name and a SHA-256."""

    about: tuple[tuple[str, str], ...]
    predicate_type: str
    predicate: Mapping[str, Any]

    def is_of(self, sha256: str) -> bool:
        """Return True where one of the files that it is about has this digest."""
        return bool(sha256) and any(digest == sha256 for _, digest in self.about)


def render(said: Attestation) -> bytes:
    """Return the text of a statement."""
    data = {
        "_type": IN_TOTO,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in said.about],
        "predicateType": said.predicate_type,
        "predicate": said.predicate,
    }
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode()


def parse(content: bytes, *, file: str) -> Attestation | None:
    """Return the attestation in a text; None for a text that is no statement of in-toto.

    Raises `StackproofError` (WRONG_TYPE) for a statement that is not as the format has it.
    """
    try:
        data: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("_type") not in _TYPES:
        return None
    subjects, kind, predicate = (data.get(k) for k in ("subject", "predicateType", "predicate"))
    if not isinstance(subjects, list) or not isinstance(kind, str):
        raise malformed(file, "it has no subject, or no type")
    return Attestation(
        about=tuple(_subject(one, file) for one in subjects),
        predicate_type=kind,
        predicate=predicate if isinstance(predicate, dict) else {},
    )


def _subject(data: object, file: str) -> tuple[str, str]:
    digests = data.get("digest") if isinstance(data, dict) else None
    name = data.get("name", "") if isinstance(data, dict) else None
    if not isinstance(digests, dict) or not isinstance(name, str):
        raise malformed(file, "a subject of it is none")
    sha256 = digests.get("sha256", "")
    return name, sha256 if isinstance(sha256, str) and _DIGEST.fullmatch(sha256) else ""


def malformed(file: str, why: str) -> StackproofError:
    """Return the error for an attestation that is not as its type has it."""
    return fail(
        Reason.WRONG_TYPE,
        f"`{file}` is no attestation that can be read: {why}",
        where=Location(file=file),
        hint="`stackproof image attach IMAGE` makes one of the image itself",
    )
