"""Documents beside an image: signed for it, and looked at: what they attest, and who says so.

A document is signed with the image that it is about. What is sealed are two lines as sha256sum
writes them, the image's first, so that anybody can make them:

    SHA256  -
    SHA256  NAME

The signature of an image names the documents that were there, too; whoever signed it has signed
those as well.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.ids import digest
from stackproof.core.value import Value
from stackproof.share.attested import attestation, kinds, verdict
from stackproof.share.attested.attestation import Attestation
from stackproof.share.attested.verdict import AttestedVerdict
from stackproof.share.effects import attachments, measuring, signing, trusted
from stackproof.share.effects.signing import VerifiedSignature
from stackproof.share.trust import policy
from stackproof.share.trust.effects import seals
from stackproof.share.trust.effects.seals import Sealed
from stackproof.share.trust.policy import TrustDecision

NAMESPACE = "stackproof-document"


class AttachedDocument(Value):
    """A document beside an image: `signers` are those who signed it, alone or with the image.

    `verdict` is what it attests of this image. `problems` say why a signature, or
    the document, does not count. `size` is in bytes.
    """

    name: str
    file: str
    size: int
    sha256: str
    media: str
    signers: tuple[str, ...] = ()
    verdict: AttestedVerdict | None = None
    problems: tuple[Problem, ...] = ()


class AttachedFacts(Value):
    """What is beside an image: documents, signatures that hold, and why others do not.

    `decision` is what the policy of this site says, None where there is none.
    """

    documents: tuple[AttachedDocument, ...]
    signatures: tuple[VerifiedSignature, ...]
    problems: tuple[Problem, ...]
    decision: TrustDecision | None = None


def sealed_text(image_sha256: str, name: str, document_sha256: str) -> bytes:
    """Return the text that is signed for a document."""
    return f"{image_sha256}  -\n{document_sha256}  {name}\n".encode()


def seal(name: str, content: bytes, image_sha256: str, key: str) -> bytes:
    """Return the seal of a document for an image; raises as `seals.make` does."""
    text = sealed_text(image_sha256, name, digest(content))
    return seals.make(text, key, namespace=NAMESPACE, what=name)


def signer_of(
    name: str, document_sha256: str, seal: bytes, *, image_sha256: str, signers: str, file: str
) -> str:
    """Return the signer of a document for an image; raises as `seals.holder` does."""
    text = sealed_text(image_sha256, name, document_sha256)
    sealed = Sealed(text=text, seal=seal, file=file, namespace=NAMESPACE)
    return seals.holder(sealed, signers).signer


def signed(image: str, name: str, image_sha256: str, signers: str) -> bool:
    """Return True where a signer in a file of allowed signers signed a document by itself."""
    path = attachments.folder_of(image) / name
    seal = attachments.seal_of(path)
    with contextlib.suppress(StackproofError):
        return bool(seal) and bool(
            signer_of(
                name, files.sha256(path), seal, image_sha256=image_sha256, signers=signers,
                file=str(path),
            )
        )  # fmt: skip
    return False


def look(image: str, signers: str, *, label: str = "") -> AttachedFacts | None:
    """Return the documents beside an image, by a file of allowed signers; None where nothing is.

    `label` is what the image was asked for, empty for none: the policy is asked with it. The image
    is read for its digest, unless that is remembered. Raises what reading raises.
    """
    named, signatures = attachments.documents(image), attachments.signatures(image)
    if not named and not signatures:
        return None
    sha256 = measuring.measure(image).sha256
    good: tuple[VerifiedSignature, ...] = ()
    problems: tuple[Problem, ...] = ()
    if signatures:
        try:
            found = signing.verify(image, signers)
            good, problems = found.good, found.problems
        except StackproofError as error:
            problems = error.problems
    decision = None
    try:
        rules = trusted.rules()
        if rules is not None:
            signed = tuple(one.signed for one in good)
            decision = policy.decide(rules, signed, now=trusted.now(), asked=label)
    except StackproofError as error:
        problems = (*problems, *error.problems)
    known = signers if os.path.isfile(signers) else ""
    return AttachedFacts(
        documents=tuple(_looked_at(path, sha256, known, good) for path in named.values()),
        signatures=good,
        problems=problems,
        decision=decision,
    )


def _looked_at(
    path: Path, image_sha256: str, signers: str, good: Sequence[VerifiedSignature]
) -> AttachedDocument:
    """Return a document with all that can be said of it; without `signers` nobody is known."""
    content = b""
    problems: list[Problem] = []
    said: AttestedVerdict | None = None
    try:
        content = attachments.read(path, limits.DOCUMENT_FILE)
        said = meaning(path.name, content, image_sha256)
    except StackproofError as error:
        problems += error.problems
    sha256 = files.sha256(path)
    who = [one.signed.signer for one in good if one.said.attached.get(path.name) == sha256]
    try:
        seal = attachments.seal_of(path)
        if seal and not signers:
            raise _nobody_known(path)
        if seal:
            who.append(
                signer_of(
                    path.name, sha256, seal, image_sha256=image_sha256, signers=signers,
                    file=str(path),
                )
            )  # fmt: skip
    except StackproofError as error:
        problems += error.problems
    return AttachedDocument(
        name=path.name,
        file=str(path),
        size=path.stat().st_size,
        sha256=sha256,
        media=kinds.media_type(path.name, content),
        signers=tuple(dict.fromkeys(who)),
        verdict=said,
        problems=tuple(problems),
    )


def meaning(name: str, content: bytes, image_sha256: str) -> AttestedVerdict | None:
    """Return the attestation of an image in a document; None where it attests nothing known.

    Raises `StackproofError`: DOCUMENT_OF_ANOTHER, WRONG_TYPE for what is not as its type has it.
    """
    found = attested(name, content, image_sha256)
    if found is not None and found.predicate_type == verdict.PREDICATE:
        return verdict.parse(found, file=name)
    return None


def attested(name: str, content: bytes, image_sha256: str) -> Attestation | None:
    """Return the statement that a document is, of this image; None for one that is none.

    Raises as `meaning` does.
    """
    if len(content) > limits.ATTESTED.bytes:
        return None
    found = attestation.parse(content, file=name)
    if found is None or found.is_of(image_sha256):
        return found
    others = ", ".join(f"{one or 'a file'} {its[:16]}" for one, its in found.about[:5])
    raise fail(
        Reason.DOCUMENT_OF_ANOTHER,
        f"`{name}` is about another image: none of its subjects has this one's SHA-256",
        detail=f"is about   {others or 'nothing'}\nthis image {image_sha256[:16]}",
        where=Location(file=name),
        hint="attach it to the image that it is about",
    )


def _nobody_known(path: Path) -> StackproofError:
    return fail(
        Reason.WRONG_SIGNER,
        f"`{path.name}` is signed, and no file of allowed signers says by whom",
        where=Location(file=str(path)),
        hint="write one, as for images: ssh-keygen(1), ALLOWED SIGNERS",
    )
