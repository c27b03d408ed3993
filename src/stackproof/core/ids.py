"""Content ids: canonical JSON, hashed."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical_json(value: Any) -> bytes:
    """Return the one byte string for a JSON value: sorted keys, no spaces, UTF-8.

    Raises `ValueError` for NaN and infinities, which JSON has not.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def content_id(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def short(identifier: str) -> str:
    """Return the 12 first digits of an id, for people."""
    return identifier[:12]
