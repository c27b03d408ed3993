"""What stands in a signature of `ssh-keygen -Y sign`, and in a file of allowed signers.

ssh-keygen alone says whether a signature holds. This is for what it does not say: with which key,
and how long that key is good. Formats: PROTOCOL.sshsig of OpenSSH, and ssh-keygen(1), ALLOWED
SIGNERS.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from datetime import UTC, datetime

_ARMOUR = re.compile(
    rb"\s*-----BEGIN SSH SIGNATURE-----\s+([A-Za-z0-9+/=\s]+)-----END SSH SIGNATURE-----\s*"
)
_MAGIC = b"SSHSIG"
_UNTIL = re.compile(r'valid-before="?(\d{8}(?:\d{4}(?:\d{2})?)?)(Z?)', re.IGNORECASE)
_MOMENT = re.compile(r"(\d{8}(?:\d{4}(?:\d{2})?)?)(Z?)", re.IGNORECASE)
_FORMS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


def key_of(armoured: bytes) -> str:
    """Return the public key that made a signature, in base64; empty for what is no signature."""
    match = _ARMOUR.fullmatch(armoured)
    if match is None:
        return ""
    try:
        blob = base64.b64decode(b"".join(match[1].split()), validate=True)
        magic, version, length = struct.unpack_from(">6sII", blob)
    except (binascii.Error, struct.error):
        return ""
    start = struct.calcsize(">6sII")
    if magic != _MAGIC or version != 1 or len(blob) < start + length:
        return ""
    return base64.b64encode(blob[start : start + length]).decode()


def until(allowed: str, key: str) -> int:
    """Return until when a key is good, in seconds since 1970: 0 for ever, or where it is not there.

    Of several times the first counts.
    """
    found = [0]
    for line in allowed.splitlines():
        if key in line.split() and not line.lstrip().startswith("#"):
            match = _UNTIL.search(line)
            found += [_seconds(match[1], utc=bool(match[2]))] if match else []
    return min(filter(None, found), default=0)


def names(allowed: str) -> tuple[str, ...]:
    """Return the names, which may be patterns, that a file of allowed signers has keys of."""
    rows = [line.split() for line in allowed.splitlines()]
    return tuple(
        name for row in rows if row and not row[0].startswith("#") for name in row[0].split(",")
    )


def moment(text: str) -> int | None:
    """Return a time as `valid-before` has it, in seconds since 1970; None for what is none."""
    match = _MOMENT.fullmatch(text)
    found = _seconds(match[1], utc=bool(match[2])) if match else 1
    return found if found > 1 else None


def _seconds(digits: str, *, utc: bool) -> int:
    try:
        moment = datetime.strptime(digits, _FORMS[len(digits)])  # noqa: DTZ007 - local without `Z`, as ssh-keygen has it
    except ValueError:
        return 1  # a time that is none: the key is good no more
    return int((moment.replace(tzinfo=UTC) if utc else moment).timestamp())
