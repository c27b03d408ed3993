"""Signatures of cosign: what stands in a bundle, and which allowed signers have a key for one.

A bundle is sigstore's of version 0.3 with the signature of a text; cosign alone says whether it
holds. Whose a key is stands in the file of allowed signers, ssh-keygen's, where a key of cosign
(ECDSA on P-256) is a key as any other. ssh-keygen judges its lines for its own signatures; for
those of cosign `signers` does, and takes no line that it does not understand whole.
https://github.com/sigstore/protobuf-specs/blob/main/protos/sigstore_bundle.proto
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import struct
import textwrap
from typing import Any

from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value
from stackproof.share.trust import sshsig

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
"""The type of a bundle, in itself and in a registry."""
PRIVATE_KEY = re.compile(rb"-----BEGIN ENCRYPTED (?:SIGSTORE|COSIGN) PRIVATE KEY-----")
_KIND = b"ecdsa-sha2-nistp256"
_CURVE = b"nistp256"
_SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
"""What stands before the point of such a key in its DER, RFC 5480."""
_POINT = 65
_LINE = re.compile(
    r'\s*(?P<name>[^\s"#,*?!]+)\s+'
    r'(?:(?P<options>(?:[a-z-]+="[^"]*"(?:,(?=[a-z-])|(?=\s)))+)\s+)?'
    rf"{_KIND.decode()}\s+(?P<key>[A-Za-z0-9+/]+=*)(?:\s.*)?",
    re.IGNORECASE,
)
_OPTION = re.compile(r'(?<![a-z-])([a-z-]+)="([^"]*)"', re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z0-9@._-]+(?:,[A-Za-z0-9@._-]+)*")


class BlobBundle(Value):
    """A bundle with the signature of a text: the text's SHA-256, and the hint of the key."""

    sha256: str
    hint: str


class CosignSigner(Value):
    """A line of allowed signers with a key for cosign.

    `hint` is how bundles call the key, `pem` how cosign reads it. The key is good from `after`
    `until`, in seconds since 1970; 0 is no bound. Without `namespaces` it is good for all.
    """

    name: str
    pem: str
    hint: str
    fingerprint: str
    namespaces: tuple[str, ...] = ()
    after: int = 0
    until: int = 0


def is_bundle(seal: bytes) -> bool:
    """Return True for a seal that is meant as a bundle, and not as one of ssh-keygen."""
    return seal.lstrip()[:1] == b"{"


def parse(content: bytes, *, file: str) -> BlobBundle:
    """Return the contents of a bundle; raises `StackproofError` (SIGNATURE_INVALID) for none."""
    try:
        data: Any = json.loads(content)
        message = data["messageSignature"]
        digest = base64.b64decode(message["messageDigest"]["digest"], validate=True)
        found = BlobBundle(
            sha256=digest.hex(), hint=data["verificationMaterial"]["publicKey"]["hint"]
        )
        sound = (
            data["mediaType"] == BUNDLE
            and message["messageDigest"]["algorithm"] == "SHA2_256"
            and isinstance(found.hint, str)
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        sound = False
    if not sound:
        raise fail(
            Reason.SIGNATURE_INVALID,
            "a signature of cosign cannot be read: it is no bundle by a key",
            where=Location(file=file),
            hint="sign the image again: `stackproof image sign --cosign KEY`, with cosign 2.4 or "
            "newer",
        )
    return found


def signers(allowed: str) -> tuple[CosignSigner, ...]:
    """Return the lines of a file of allowed signers whose key cosign can have signed with.

    One with patterns for its name, with an option that is not known here, or for certificates, is
    left out.
    """
    found = []
    for line in allowed.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        options = [(key.lower(), value) for key, value in _OPTION.findall(match["options"] or "")]
        one = _signer(match["name"], match["key"], dict(options))
        if one is not None and len(dict(options)) == len(options):
            found.append(one)
    return tuple(found)


def _signer(name: str, key: str, options: dict[str, str]) -> CosignSigner | None:
    point = _point(key)
    namespaces = options.pop("namespaces", None)
    bounds = [options.pop(one, None) for one in ("valid-after", "valid-before")]
    after, until = (0 if one is None else sshsig.moment(one) for one in bounds)
    if not point or options or after is None or until is None:
        return None
    if namespaces is not None and not _WORDS.fullmatch(namespaces):
        return None
    der = _SPKI + point
    text = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    blob = hashlib.sha256(base64.b64decode(key)).digest()
    return CosignSigner(
        name=name,
        pem=f"-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n",
        hint=base64.b64encode(hashlib.sha256(der).digest()).decode(),
        fingerprint=f"SHA256:{base64.b64encode(blob).decode().rstrip('=')}",
        namespaces=tuple(namespaces.split(",")) if namespaces is not None else (),
        after=after,
        until=until,
    )


def _point(key: str) -> bytes:
    """Return the point of a public key of ssh; nothing for a key of another kind."""
    try:
        blob = base64.b64decode(key, validate=True)
    except binascii.Error:
        return b""
    head = b"".join(struct.pack(">I", len(one)) + one for one in (_KIND, _CURVE))
    head += struct.pack(">I", _POINT)
    point = blob[len(head) :]
    sound = blob.startswith(head) and len(point) == _POINT and point[:1] == b"\x04"
    return point if sound else b""
