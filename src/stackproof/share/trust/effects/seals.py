"""Seals: texts signed by `ssh-keygen -Y` under a namespace, and whose a seal is.

`signing` seals statements about images, `documents` what is attached to them.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stackproof.core import limits
from stackproof.core.command import Completed
from stackproof.core.effects import files, ssh_keys
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.share.trust import sshsig

_GOOD = re.compile(r'Good "[^"]*" signature for (?P<who>.+) with \S+ key (?P<key>\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A text with its seal; `file` is what problems name, `namespace` what the seal is good for."""

    text: bytes
    seal: bytes
    file: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealHolder:
    """Whose a seal is: the name in the file of allowed signers, and the key.

    The key is good `until`, in seconds since 1970; 0 is for ever.
    """

    signer: str
    key: str
    until: int = 0


def make(text: bytes, key: str, *, namespace: str, what: str) -> bytes:
    """Return the seal of a text by a private key, or a public one of an agent.

    A passphrase is asked for on the terminal. Raises `StackproofError`: FILE_MISSING for the key,
    TOOL_MISSING, NOT_PERMITTED with what ssh-keygen says.
    """
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        path = Path(folder, "text")
        path.write_bytes(text)
        fault = ssh_keys.sign(path, key, namespace)
        if fault is not None:
            raise fail(
                Reason.NOT_PERMITTED,
                f"`{what}` could not be signed",
                detail=fault or None,
                hint=f"try `{ssh_keys.TOOL} -y -f {key}`",
                where=Location(file=key),
            )
        return path.with_name("text.sig").read_bytes()


def holder(sealed: Sealed, signers: str) -> SealHolder:
    """Return whose a seal is by a file of allowed signers.

    Raises `StackproofError`: SIGNATURE_INVALID, WRONG_SIGNER, KEY_EXPIRED, CLOCK_SKEW for a key
    that is not good yet, TOOL_MISSING, and what reading the file raises.
    """
    words = ("-n", sealed.namespace)
    with tempfile.TemporaryDirectory(prefix="stackproof-verify-") as folder:
        text, seal = Path(folder, "text"), Path(folder, "seal")
        text.write_bytes(sealed.text)
        seal.write_bytes(sealed.seal)
        known = ssh_keys.ask(text, "check-novalidate", *words, "-s", str(seal))
        if known.returncode:
            raise _broken(sealed.file, known)
        listed = ssh_keys.ask(text, "find-principals", "-s", str(seal), "-f", signers)
        names = [line.strip() for line in listed.stdout.decode(errors="replace").splitlines()]
        for name in filter(None, names):
            done = ssh_keys.ask(text, "verify", "-f", signers, "-I", name, *words, "-s", str(seal))
            match = _GOOD.search(done.stdout.decode(errors="replace"))
            if not done.returncode and match is not None:
                break
        else:
            raise _wrong_key(sealed, listed if listed.returncode else done, signers)
    lines = files.read_bounded(signers, limits.DOCUMENT).decode(errors="replace")
    until = sshsig.until(lines, sshsig.key_of(sealed.seal))
    return SealHolder(signer=name, key=match["key"], until=until)


def _wrong_key(sealed: Sealed, done: Completed, signers: str) -> StackproofError:
    said = done.stderr.decode(errors="replace")
    where = Location(file=sealed.file)
    if "not yet valid" in said:
        return fail(
            Reason.CLOCK_SKEW,
            f"the key of this signature is not good yet, by `{signers}`",
            detail=said.strip(),
            where=where,
            hint="the clock of this machine may be wrong",
        )
    if "expired" in said:
        return fail(
            Reason.KEY_EXPIRED,
            f"the key of this signature is no longer good, by `{signers}`",
            detail=said.strip(),
            where=where,
            hint="whoever answers for it signs it again, with a newer key",
        )
    return fail(
        Reason.WRONG_SIGNER,
        f"the key of this signature is nobody's in `{signers}`, or not for `{sealed.namespace}`",
        detail=said.strip() or None,
        where=where,
        hint="put the key into it if you trust its owner: `NAME KEY`, see ssh-keygen(1)",
    )


def _broken(file: str, done: Completed) -> StackproofError:
    return fail(
        Reason.SIGNATURE_INVALID,
        "a signature is not one of what is beside it",
        detail=done.stderr.decode(errors="replace").strip() or None,
        where=Location(file=file),
        hint="that was changed after it was signed, or the signature is damaged",
    )
