"""GPG keys that a mirror names: files, or base64 that becomes one."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os

from stackproof.build.engines.spack.stackinator.mirrors import Key
from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Problem, Reason

_ARMOUR = b"-----BEGIN PGP "
# Packet tags of a key: secret key and public key (RFC 9580, section 5).
_KEY_TAGS = (5, 6)


def find_key(key: Key, folder: str) -> tuple[str | None, Problem | None]:
    """Return the path of a key, or the problem why there is none.

    A key is a path (relative to `folder`) or base64. What is base64 is written below the cache,
    readable by its owner only.
    """
    path = os.path.join(folder, key.text)
    if os.path.isfile(path):
        try:
            with open(path, "rb") as stream:
                content = stream.read(limits.KEYS.bytes)
        except OSError as error:
            return None, files.translate(error, path).problems[0]
        return (os.path.abspath(path), None) if _is_key(content) else (None, _no_key(key, path))
    try:
        content = base64.b64decode("".join(key.text.split()), validate=True)
    except (binascii.Error, ValueError):
        return None, _no_key(key, path)
    if not _is_key(content):
        return None, _no_key(key, path)
    name = f"{hashlib.sha256(content).hexdigest()[:32]}.gpg"
    target = cache_kinds.home("keys") / name
    files.write(target, content, mode=0o600)
    return str(target), None


def _is_key(content: bytes) -> bool:
    """Return whether bytes begin as a GPG key does, in armour or without."""
    if content.startswith(_ARMOUR):
        return True
    if len(content) < 2 or not content[0] & 0x80:
        return False
    new_form = content[0] & 0x40
    return (content[0] & 0x3F if new_form else content[0] >> 2 & 0x0F) in _KEY_TAGS


def _no_key(key: Key, path: str) -> Problem:
    long = len(key.text) > 100
    return Problem(
        reason=Reason.INVALID_VALUE,
        message="the key is no GPG key" if long else f"`{path}` is no GPG key",
        where=key.where,
        hint="name a file made by `spack gpg export` or `gpg --export`, or give it in base64",
    )
