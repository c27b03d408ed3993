"""Signatures and documents of an image, carried to a registry with it and back.

There each is a manifest that refers to the image's. What comes from a registry is believed no more
than a file: a policy is asked before any byte of the image moves, with what the signatures say of
the digests in its manifest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from stackproof.core import ids, limits
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share import manifests
from stackproof.share.attested import attestation, kinds
from stackproof.share.effects import attaching, attachments, documents, judging, signing, trusted
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pulling import RemoteImage
from stackproof.share.manifests import OciDescriptor, OciManifest
from stackproof.share.trust import policy, statement
from stackproof.share.trust.policy import SignedLabel, TrustAction

SIGNATURE = manifests.SIGNATURE
_SEAL = "application/vnd.openssh.signature"
_PREDICATE = "in-toto.io/predicate-type"
"""The annotation by which others say what a statement is about, BuildKit first."""
_LEFT_THERE = {
    Reason.INVALID_VALUE, Reason.TOO_LARGE, Reason.DOCUMENT_OF_ANOTHER, Reason.WRONG_TYPE,
}  # fmt: skip
"""Why a document is not brought, which keeps no image from being pulled."""
_Part = tuple[str, str, bytes]


class CarriedDocument(Value):
    """A document of a registry: `seal` is empty where nobody signed it alone."""

    name: str
    content: bytes
    seal: bytes = b""


class Carried(Value):
    """What came with an image: signatures, documents, and warnings of what was left there."""

    signatures: tuple[FoundSignature, ...]
    documents: tuple[CarriedDocument, ...]
    notes: tuple[str, ...] = ()


def send(registry: OciRegistry, image: RemoteImage, path: str) -> int:
    """Attach in a registry what is attached to the image here and is not there; return how many."""
    there = {layer.digest for _, one in image.attached for layer in one.layers}
    subject = manifests.descriptor_of(image.manifest)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    groups: list[tuple[str, list[_Part]]] = [
        (SIGNATURE, [(kinds.IN_TOTO, "statement.json", one.statement), (_SEAL, "seal", one.seal)])
        for one in attachments.signatures(path)
    ]
    for name, file in attachments.documents(path).items():
        content, seal = attachments.read(file, limits.DOCUMENT_FILE), attachments.seal_of(file)
        kind = kinds.media_type(name, content)
        parts = [(kind, name, content), *([(_SEAL, f"{name}.sig", seal)] if seal else [])]
        groups.append((kinds.artefact_type(kind), parts))
    sent = 0
    for kind, parts in groups:
        layers = [_layer(*part) for part in parts]
        if layers[-1].digest in there:
            continue
        one = manifests.referrer(
            kind, layers, subject=subject, annotations={manifests.CREATED: created}
        )
        attaching.attach(registry, image.repository, one, [content for _, _, content in parts])
        sent += 1
    return sent


def _layer(kind: str, title: str, content: bytes) -> OciDescriptor:
    annotations = {manifests.TITLE: title}
    if kind == kinds.IN_TOTO and (said := attestation.parse(content, file=title)) is not None:
        annotations[_PREDICATE] = said.predicate_type
    return OciDescriptor(
        media_type=kind, digest=manifests.digest_of(content), size=len(content),
        annotations=annotations,
    )  # fmt: skip


def fetch(registry: OciRegistry, image: RemoteImage) -> Carried:
    """Return the signatures and documents of an image in a registry, their digests checked.

    Of documents of one name one is taken: that which somebody signed who is known here, else the
    newest. What is no document of this image stays there, with a warning.
    """
    signatures: list[FoundSignature] = []
    found: dict[str, list[CarriedDocument]] = {}
    notes: list[str] = []
    left = limits.DOCUMENTS.bytes
    if image.unread:
        notes.append(
            f"{image.unread} more that are attached to `{image.listed.remote}` were left there: a "
            f"pull looks at {limits.ATTACHED.count}, signatures first, the newest first"
        )
    for digest, one in sorted(image.attached, key=_created, reverse=True):
        try:
            if one.kind == SIGNATURE:
                signatures += _signature(registry, image, one, digest)
            elif one.kind in kinds.ARTEFACTS:
                left -= sum(layer.size for layer in one.layers)
                document = _document(registry, image, one, most=left)
                found.setdefault(document.name, []).append(document)
        except StackproofError as error:
            if error.reason not in _LEFT_THERE:
                raise
            notes.append(f"`{digest[:23]}` was left there: {error.problems[0].message}")
    taken = tuple(signatures[: limits.STATEMENT_FILE.count])
    known = _known_digests(image, taken)
    chosen = []
    for name, several in found.items():
        signed = [one for one in several if _is_signed(image, one, known)]
        chosen.append((signed or several)[0])
        if len({one.content for one in several}) > 1:
            which = (
                "the signed one" if signed else "the newest, signed by nobody who is known here,"
            )
            notes.append(f"there are {len(several)} documents `{name}`: {which} is taken")
    return Carried(signatures=taken, documents=tuple(chosen), notes=tuple(notes))


def _created(attached: tuple[str, OciManifest]) -> tuple[str, str]:
    digest, one = attached
    return one.annotations.get(manifests.CREATED, ""), digest


def _signature(
    registry: OciRegistry, image: RemoteImage, one: OciManifest, digest: str
) -> tuple[FoundSignature, ...]:
    """Return a signature, none of other layers; raises TOO_LARGE for one that nobody made."""
    if any(layer.size > limits.STATEMENT_FILE.bytes for layer in one.layers):
        raise fail(Reason.TOO_LARGE, "the signature is too large")
    if len(one.layers) != 2:
        return ()
    text, seal = (registry.blob(image.repository, layer) for layer in one.layers)
    return (FoundSignature(file=f"{image.repository}@{digest}", statement=text, seal=seal),)


def _document(
    registry: OciRegistry, image: RemoteImage, one: OciManifest, *, most: int
) -> CarriedDocument:
    """Return a document; raises `StackproofError` for one that cannot be put beside the image."""
    name = one.layers[0].title if one.layers else ""
    if not attachments.can_be_named(name):
        raise fail(Reason.INVALID_VALUE, f"`{name[:80]}` cannot be the name of a document")
    if most < 0 or one.layers[0].size > limits.DOCUMENT_FILE.bytes:
        raise fail(Reason.TOO_LARGE, f"the documents are too large, with `{name}`")
    seal = next((layer for layer in one.layers[1:] if layer.media_type == _SEAL), None)
    content = registry.blob(image.repository, one.layers[0], most=limits.DOCUMENT_FILE.bytes)
    documents.attested(name, content, image.layer.hex)
    return CarriedDocument(
        name=name,
        content=content,
        seal=registry.blob(image.repository, seal, most=limits.SEAL.bytes) if seal else b"",
    )


def _known_digests(image: RemoteImage, signatures: Sequence[FoundSignature]) -> frozenset[str]:
    """Return the digests of documents that were signed with the image, by whom is known here."""
    signers = judging.default_signers()
    found: set[str] = set()
    for one in signatures if os.path.isfile(signers) else ():
        with contextlib.suppress(StackproofError):
            said = statement.parse(one.statement, file=one.file)
            if said.image == image.layer.hex:
                found |= set(signing.check(one, said, signers).said.attached.values())
    return frozenset(found)


def _is_signed(image: RemoteImage, one: CarriedDocument, known: frozenset[str]) -> bool:
    sha256 = ids.digest(one.content)
    if sha256 in known:
        return True
    signers = judging.default_signers()
    if not one.seal or not os.path.isfile(signers):
        return False
    with contextlib.suppress(StackproofError):
        return bool(
            documents.signer_of(
                one.name, sha256, one.seal, image_sha256=image.layer.hex, signers=signers,
                file=one.name,
            )
        )  # fmt: skip
    return False


def admit(image: RemoteImage, carried: Carried, say: Callable[[str], None]) -> None:
    """Refuse an image that this machine's policy lets nobody pull; `say` hears a warning.

    Raises `StackproofError` with the reason why not, and what reading the policy raises.
    """
    rules = trusted.rules()
    if rules is None:
        return
    good, problems = _judged(image, carried)
    decision = policy.decide(rules, good, now=trusted.now(), asked=str(image.listed.remote))
    if decision.reason is None or decision.action is TrustAction.ALLOW:
        return
    why = problems[0] if problems and not good else None
    text = why.message if why else decision.text
    where = str(image.listed.remote)
    if decision.action is TrustAction.WARN:
        say(f"`{where}` is not signed as this site asks: {text}")
        return
    raise fail(
        why.reason if why else decision.reason,
        f"this site does not let `{where}` be used: {text}",
        where=Location(file=where),
        hint="ask who answers for it to sign it, and to push it again",
    )


def _judged(
    image: RemoteImage, carried: Carried
) -> tuple[tuple[SignedLabel, ...], tuple[Problem, ...]]:
    good: list[SignedLabel] = []
    problems: list[Problem] = []
    for one in carried.signatures:
        try:
            said = statement.parse(one.statement, file=one.file)
            if said.image != image.layer.hex:
                raise signing.of_another(one.file, said)
            good.append(signing.check(one, said, trusted.signers()).signed)
        except StackproofError as error:
            problems += error.problems
    return tuple(good), tuple(problems)


def put(path: str, carried: Carried) -> None:
    """Put beside a pulled image what came with it; raises what writing raises."""
    for one in carried.signatures:
        attachments.put_signature(path, one.statement, one.seal)
    for document in carried.documents:
        attachments.put_document(path, document.name, document.content, document.seal)
