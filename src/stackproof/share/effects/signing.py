"""Signatures of images by `ssh-keygen -Y`: made, and looked at one by one.

Signed is the text of `ImageStatement`, by ssh-keygen under a namespace of its own: a signature made
for anything else is none of an image. Nothing needs a network.
"""

from __future__ import annotations

import base64
import os
import re
import tempfile
import time
from pathlib import Path

from stackproof.core import limits
from stackproof.core.command import Completed
from stackproof.core.effects import files, ssh_keys
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.effects import attachments, measuring
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.trust import sshsig, statement
from stackproof.share.trust.policy import SignedLabel
from stackproof.share.trust.sshsig import SshCertificate
from stackproof.share.trust.statement import META, ImageStatement

NAMESPACE = "stackproof-image"
BELIEVE = 'echo "$USER namespaces=\\"stackproof-image\\" $(cat {key})" >> ~/.ssh/allowed_signers'
"""The command line that lets a user believe a key, by its public file (ssh-keygen(1))."""
_GOOD = re.compile(r'Good "[^"]*" signature for (?P<who>.+) with \S+ key (?P<key>\S+)')
_SKEW_S = 300
_KEYS = ("id_ed25519", "id_ecdsa", "id_ed25519_sk", "id_ecdsa_sk", "id_rsa")


class VerifiedSignature(Value):
    """A signature that holds: what is said, by whom, with which key, and until when it is good."""

    file: str
    said: ImageStatement
    signed: SignedLabel
    key: str


class Verification(Value):
    """What the signatures of an image came to: those that hold, and why the others do not."""

    good: tuple[VerifiedSignature, ...]
    problems: tuple[Problem, ...]


def default_key() -> str:
    """Return the key of this user that ssh would take first; raises FILE_MISSING for none."""
    folder = Path("~/.ssh").expanduser()
    for name in _KEYS:
        if (folder / name).is_file():
            return str(folder / name)
    raise fail(
        Reason.FILE_MISSING,
        f"there is no key of ssh in `{folder}`",
        hint=f"name one, `--key FILE`, or make one: {ssh_keys.TOOL} -t ed25519",
    )


def state(image: str, label: str) -> ImageStatement:
    """Return the statement on an image as it is now: its digests, and those of verdicts."""
    found = measuring.measure(image)
    return ImageStatement(
        label=label,
        image=found.sha256,
        verity=found.verity,
        size=found.size,
        date=int(time.time()),
        meta=measuring.digest_of_meta(attachments.folder_of(image).with_name(META))
        if attachments.digest_in_path(image)
        else "",
        attached={name: sha256 for name, sha256 in attachments.digests(image).items() if sha256},
    )


def sign(image: str, said: ImageStatement, key: str) -> Path:
    """Sign a statement with a private key, or a public one of an agent; return where it stands.

    A passphrase is asked for on the terminal. Raises `StackproofError`: FILE_MISSING for the key,
    TOOL_MISSING, NOT_PERMITTED with what ssh-keygen says, and what writing raises.
    """
    text = statement.render(said)
    with tempfile.TemporaryDirectory(prefix="stackproof-sign-") as folder:
        path = Path(folder, "text")
        path.write_bytes(text)
        fault = ssh_keys.sign(path, key, NAMESPACE)
        if fault is not None:
            raise fail(
                Reason.NOT_PERMITTED,
                f"`{image}` could not be signed",
                detail=fault or None,
                hint=f"try `{ssh_keys.TOOL} -y -f {key}`",
                where=Location(file=key),
            )
        seal = path.with_name("text.sig").read_bytes()
    return attachments.put_signature(image, text, seal)


def require_signers(signers: str) -> None:
    """Raise FILE_MISSING for a file of allowed signers that is not there."""
    if not os.path.isfile(signers):
        raise fail(
            Reason.FILE_MISSING,
            f"nothing says whom to believe: there is no file of allowed signers `{signers}`",
            hint=f"your own key: {BELIEVE.format(key='~/.ssh/id_ed25519.pub')}; a site has its own "
            "file there, and --signers FILE names another",
            where=Location(file=signers),
        )


def verify(image: str, signers: str, *, descriptor: int | None = None) -> Verification:
    """Return the worth of the signatures beside an image by a file of allowed signers.

    Raises `StackproofError`: FILE_MISSING for that file, TOOL_MISSING, and what reading raises.
    """
    require_signers(signers)
    found = attachments.signatures(image)
    if not found:
        return Verification(good=(), problems=(unsigned(image),))
    measured = measuring.measure(image, descriptor=descriptor)
    in_path = attachments.digest_in_path(image)
    meta = ""
    if in_path:
        meta = measuring.digest_of_meta(attachments.folder_of(image).with_name(META))
    good: list[VerifiedSignature] = []
    problems: list[Problem] = []
    for one in found:
        try:
            said = statement.parse(one.statement, file=one.file)
            if said.image != measured.sha256:
                # In a repository the folder's name says which image it was.
                changed = said.image == in_path if in_path else said.size == measured.size
                raise _changed(image) if changed else of_another(one.file, said)
            if said.meta and meta and said.meta != meta:
                raise fail(
                    Reason.META_MISMATCH,
                    f"the folder `meta` beside `{image}` is not the one that was signed",
                    where=Location(file=image),
                    hint="uenv takes variables from it: remove the image, and pull or add it again",
                )
            good.append(check(one, said, signers))
        except StackproofError as error:
            problems += error.problems
    if not good and any(one.reason is Reason.TOOL_MISSING for one in problems):
        raise StackproofError(*problems)  # they may hold: nobody can tell here
    return Verification(good=tuple(good), problems=tuple(problems))


def unsigned(image: str) -> Problem:
    """Return the problem of an image without signatures."""
    return Problem(
        reason=Reason.UNSIGNED,
        message=f"`{image}` is not signed",
        where=Location(file=str(attachments.folder_of(image))),
        hint="its owner signs it: `stackproof image sign IMAGE`",
    )


def check(found: FoundSignature, said: ImageStatement, signers: str) -> VerifiedSignature:
    """Return a signature that holds by a file of allowed signers.

    A certificate is good as far as it says itself, and for the name that it is for: ssh-keygen asks
    that of those of an authority only, and none about options that are critical. Raises
    `StackproofError`: SIGNATURE_INVALID, WRONG_SIGNER, KEY_EXPIRED, CLOCK_SKEW for a key or
    signature that is not good yet, TOOL_MISSING, and what reading the file raises.
    """
    key = sshsig.key_of(found.seal)
    certificate, signer, shown = _holder(found, key, signers)
    lines = files.read_bounded(signers, limits.DOCUMENT).decode(errors="replace")
    times = [sshsig.until(lines, base64.b64encode(key).decode())]
    if certificate is not None:
        times += [certificate.until, sshsig.until(lines, certificate.authority)]
    if said.date > time.time() + _SKEW_S:
        raise fail(
            Reason.CLOCK_SKEW,
            f"the signature of `{signer}` is of a time that has not come yet",
            where=Location(file=found.file),
            hint="the clock of this machine, or of the one where it was signed, is wrong",
        )
    until = min(filter(None, times), default=0)
    signed = SignedLabel(label=said.label, signer=signer, until=until)
    return VerifiedSignature(file=found.file, said=said, signed=signed, key=shown)


def _holder(
    found: FoundSignature, key: bytes, signers: str
) -> tuple[SshCertificate | None, str, str]:
    """Return the certificate that signed, the signer's name among those allowed, and the key."""
    with tempfile.TemporaryDirectory(prefix="stackproof-verify-") as folder:
        text, seal = Path(folder, "text"), Path(folder, "seal")
        text.write_bytes(found.statement)
        seal.write_bytes(found.seal)
        words = ("-n", NAMESPACE, "-s", str(seal))
        known = ssh_keys.ask(text, "check-novalidate", *words)
        if known.returncode:
            raise fail(
                Reason.SIGNATURE_INVALID,
                "a signature is not one of what is beside it",
                detail=known.stderr.decode(errors="replace").strip() or None,
                where=Location(file=found.file),
                hint="that was changed after it was signed, or the signature is damaged",
            )
        certificate = _certificate(found.file, key)
        done = ssh_keys.ask(text, "find-principals", "-s", str(seal), "-f", signers)
        names = [line.strip() for line in done.stdout.decode(errors="replace").splitlines()]
        for name in filter(None, names if not done.returncode else ()):
            done = ssh_keys.ask(text, "verify", "-f", signers, "-I", name, *words)
            match = _GOOD.search(done.stdout.decode(errors="replace"))
            mine = certificate is None or name in certificate.principals
            if not done.returncode and match is not None and mine:
                return certificate, name, match["key"]
    raise _wrong_key(found.file, done, signers)


def _changed(image: str) -> StackproofError:
    return fail(
        Reason.IMAGE_DAMAGED,
        f"`{image}` is not what was signed: its content was changed since",
        where=Location(file=image),
        hint="copy, pull or build it again",
    )


def of_another(file: str, said: ImageStatement) -> StackproofError:
    """Return the error for a signature of another image."""
    return fail(
        Reason.SIGNATURE_OF_ANOTHER,
        f"the signature is one of another image, `{said.label}`",
        where=Location(file=file),
        hint="put it beside the image that it is of",
    )


def _certificate(file: str, key: bytes) -> SshCertificate | None:
    """Return the certificate that made a seal, None for a plain key.

    Raises `StackproofError` for one that is none of a user, not good now, or restricted.
    """
    try:
        found = sshsig.certificate(key)
    except ValueError as error:
        raise fail(
            Reason.SIGNATURE_INVALID,
            f"a signature, or its certificate, cannot be read: {error}",
            where=Location(file=file),
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
        where=Location(file=file),
        hint="sign again, with a certificate of a user that is good now and has no critical option",
    )


def _wrong_key(file: str, done: Completed, signers: str) -> StackproofError:
    said = done.stderr.decode(errors="replace")
    where = Location(file=file)
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
            hint="its owner signs it again, with a newer key",
        )
    return fail(
        Reason.WRONG_SIGNER,
        f"the key of this signature is nobody's in `{signers}`, or not for `{NAMESPACE}`",
        detail=said.strip() or None,
        where=where,
        hint="put the key into it if you trust its owner: `NAME KEY`, see ssh-keygen(1)",
    )
