"""What stands in a signature of `ssh-keygen -Y sign`, and in a file of allowed signers.

ssh-keygen alone says whether a signature holds. This is for what it does not say: with which key,
how long that key is good, and what its certificate asks for. Formats: PROTOCOL.sshsig and
PROTOCOL.certkeys of OpenSSH, and ssh-keygen(1), ALLOWED SIGNERS.
"""

from __future__ import annotations

import base64
import re
import struct
from datetime import UTC, datetime

from stackproof.core.value import Value

_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"\n-----END SSH SIGNATURE-----"
_MAGIC = b"SSHSIG"
_UNTIL = re.compile(r'valid-before="?(\d{8}(?:\d{4}(?:\d{2})?)?)(Z|UTC)?', re.IGNORECASE)
_MOMENT = re.compile(r"(\d{8}(?:\d{4}(?:\d{2})?)?)(Z|UTC)?", re.IGNORECASE)
_FORMS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_CERTIFICATE = b"-cert-v"
_OF_KEYS = {
    b"ssh-ed25519-cert-v01@openssh.com": 1, b"sk-ssh-ed25519-cert-v01@openssh.com": 2,
    b"ssh-rsa-cert-v01@openssh.com": 2, b"sk-ecdsa-sha2-nistp256-cert-v01@openssh.com": 3,
    **{b"ecdsa-sha2-nistp%d-cert-v01@openssh.com" % bits: 2 for bits in (256, 384, 521)},
}  # fmt: skip
"""How many strings of a certificate are its key, behind its type and a nonce."""
_USER = 1
_NEVER = (1 << 64) - 1
_LAST = (1 << 63) - 1
"""The latest time that a record can have."""


class SshCertificate(Value):
    """A certificate that signed in the place of a key; `authority` is who made it, in base64.

    It is good from `after` until before `until`, in seconds since 1970; 0 is for ever. `critical`
    are the names of options that restrict what it may be used for.
    """

    is_of_user: bool
    principals: tuple[str, ...]
    after: int
    until: int
    critical: tuple[str, ...]
    authority: str


def key_of(armoured: bytes) -> bytes:
    """Return the public key, or certificate, that made a signature; empty for no signature.

    What stands behind the end is no part of it, as for ssh-keygen.
    """
    text, end, _ = armoured.removeprefix(_BEGIN).partition(_END)
    try:
        blob = base64.b64decode(b"".join(text.split()), validate=True)
        magic, version = struct.unpack_from(">6sI", blob)
        key, _ = _string(blob, struct.calcsize(">6sI"))
    except (ValueError, struct.error):
        return b""
    sound = armoured.startswith(_BEGIN) and end and (magic, version) == (_MAGIC, 1)
    return key if sound else b""


def certificate(key: bytes) -> SshCertificate | None:
    """Return the certificate that a key is, None for a plain key.

    Raises `ValueError` for what cannot be read, an empty key among it.
    """
    try:
        kind, at = _string(key, 0)
        if _CERTIFICATE not in kind:
            return None
        if kind not in _OF_KEYS:
            raise ValueError("it is of a kind that is not known")
        for _ in range(1 + _OF_KEYS[kind]):
            _, at = _string(key, at)
        _, what = struct.unpack_from(">QI", key, at)
        _, at = _string(key, at + struct.calcsize(">QI"))
        principals, at = _string(key, at)
        after, until = struct.unpack_from(">QQ", key, at)
        critical, at = _string(key, at + struct.calcsize(">QQ"))
        for _ in range(2):
            _, at = _string(key, at)
        authority, _ = _string(key, at)
    except struct.error:
        raise ValueError("it is cut off") from None
    return SshCertificate(
        is_of_user=what == _USER,
        principals=tuple(one.decode(errors="replace") for one in _strings(principals)),
        after=after,
        until=0 if until == _NEVER else min(max(until, 1), _LAST),
        critical=tuple(one.decode(errors="replace") for one in _strings(critical)[::2]),
        authority=base64.b64encode(authority).decode(),
    )


def _string(blob: bytes, at: int) -> tuple[bytes, int]:
    """Return a string of ssh, its length before it, and where it ends; raises `struct.error`."""
    (length,) = struct.unpack_from(">I", blob, at)
    start = at + struct.calcsize(">I")
    (text,) = struct.unpack_from(f"{length}s", blob, start)
    return text, start + length


def _strings(blob: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(blob):
        text, at = _string(blob, at)
        found.append(text)
    return found


def until(allowed: str, *keys: str) -> int:
    """Return until when keys, in base64, are good, in seconds since 1970; 0 for ever, or for none.

    Of all times in the lines of these keys the first counts, one in a comment as well.
    """
    times = [
        _seconds(match[1], utc=bool(match[2]))
        for line in allowed.split("\n")
        if not line.lstrip().startswith("#") and not set(keys).isdisjoint(line.split())
        for match in _UNTIL.finditer(line)
    ]
    return min(times, default=0)


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
