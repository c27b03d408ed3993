"""Seals: texts signed by `ssh-keygen -Y` under a namespace, and whose a seal is.

`signing` seals statements about images.
"""

from __future__ import annotations

import base64
import re
import tempfile
import time
from pathlib import Path

from stackproof.core import limits
from stackproof.core.command import Completed
from stackproof.core.effects import files, ssh_keys
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.trust import sshsig
from stackproof.share.trust.sshsig import SshCertificate

_GOOD = re.compile(r'Good "[^"]*" signature for (?P<who>.+) with \S+ key (?P<key>\S+)')


class Sealed(Value):
    """A text with its seal; `file` is what problems name, `namespace` what the seal is good for."""

    text: bytes
    seal: bytes
    file: str
    namespace: str


class SealHolder(Value):
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
    """Return the holder of a seal by a file of allowed signers.

    A certificate is good as far as it says itself, and for the name that it is for: ssh-keygen asks
    that of those of an authority only, and none about options that are critical. Raises
    `StackproofError`: SIGNATURE_INVALID, WRONG_SIGNER, KEY_EXPIRED, CLOCK_SKEW for a key
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
        key = sshsig.key_of(sealed.seal)
        certificate = _certificate(sealed, key)
        listed = ssh_keys.ask(text, "find-principals", "-s", str(seal), "-f", signers)
        names = [line.strip() for line in listed.stdout.decode(errors="replace").splitlines()]
        for name in filter(None, names):
            done = ssh_keys.ask(text, "verify", "-f", signers, "-I", name, *words, "-s", str(seal))
            match = _GOOD.search(done.stdout.decode(errors="replace"))
            mine = certificate is None or name in certificate.principals
            if not done.returncode and match is not None and mine:
                break
        else:
            raise _wrong_key(sealed, listed if listed.returncode else done, signers)
    lines = files.read_bounded(signers, limits.DOCUMENT).decode(errors="replace")
    times = [sshsig.until(lines, base64.b64encode(key).decode())]
    if certificate is not None:
        times += [certificate.until, sshsig.until(lines, certificate.authority)]
    return SealHolder(signer=name, key=match["key"], until=min(filter(None, times), default=0))


def _certificate(sealed: Sealed, key: bytes) -> SshCertificate | None:
    """Return the certificate that made a seal, None for a plain key.

    Raises `StackproofError` for one that is none of a user, not good now, or restricted.
    """
    try:
        found = sshsig.certificate(key)
    except ValueError as error:
        raise fail(
            Reason.SIGNATURE_INVALID,
            f"a signature, or its certificate, cannot be read: {error}",
            where=Location(file=sealed.file),
            hint="sign again, with a key or a certificate of ssh-keygen",
        ) from None
    if found is None:
        return None
    now, reason, why = time.time(), Reason.WRONG_SIGNER, ""
    if not found.is_of_user:
        why = "is one of a machine"
    elif found.critical:
        why = f"is restricted by `{found.critical[0]}`"
    elif found.after > now:
        reason, why = Reason.CLOCK_SKEW, "is not good yet"
    elif 0 < found.until <= now:
        reason, why = Reason.KEY_EXPIRED, "is no longer good"
    if not why:
        return found
    raise fail(
        reason,
        f"the certificate of this signature {why}",
        where=Location(file=sealed.file),
        hint="sign again, with a certificate of a user that is good now and has no critical option",
    )


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
