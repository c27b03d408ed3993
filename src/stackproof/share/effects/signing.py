"""Signatures of images by `ssh-keygen -Y`: made, and looked at one by one.

Signed is the text of `ImageStatement`, by ssh-keygen under a namespace of its own: a signature made
for anything else is none of an image. Nothing needs a network.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from stackproof.core.effects import ssh_keys
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.effects import attachments, measuring
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.trust import statement
from stackproof.share.trust.effects import seals
from stackproof.share.trust.effects.seals import Sealed
from stackproof.share.trust.policy import SignedLabel
from stackproof.share.trust.statement import META, ImageStatement

NAMESPACE = "stackproof-image"
BELIEVE = 'echo "$USER namespaces=\\"stackproof-image\\" $(cat {key})" >> ~/.ssh/allowed_signers'
"""The command line that lets a user believe a key, by its public file (ssh-keygen(1))."""
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
    seal = seals.make(text, key, namespace=NAMESPACE, what=image)
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
                raise _other_meta(image)
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
        hint="whoever answers for it signs it: `stackproof image sign IMAGE`",
    )


def check(found: FoundSignature, said: ImageStatement, signers: str) -> VerifiedSignature:
    """Return a signature that holds; raises `StackproofError` with the reason why it does not."""
    sealed = Sealed(text=found.statement, seal=found.seal, file=found.file, namespace=NAMESPACE)
    holder = seals.holder(sealed, signers)
    if said.date > time.time() + _SKEW_S:
        raise fail(
            Reason.CLOCK_SKEW,
            f"the signature of `{holder.signer}` is of a time that has not come yet",
            where=Location(file=found.file),
            hint="the clock of this machine, or of the one where it was signed, is wrong",
        )
    signed = SignedLabel(label=said.label, signer=holder.signer, until=holder.until)
    return VerifiedSignature(file=found.file, said=said, signed=signed, key=holder.key)


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


def _other_meta(image: str) -> StackproofError:
    return fail(
        Reason.META_MISMATCH,
        f"the folder `meta` beside `{image}` is not the one that was signed",
        where=Location(file=image),
        hint="uenv takes variables from it: remove the image, and pull or add it again",
    )
