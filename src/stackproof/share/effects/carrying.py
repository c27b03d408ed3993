"""Signatures and documents of an image, carried to a registry with it and back.

There each is a manifest that refers to the image's. What comes from a registry is believed no more
than a file: a policy is asked before any byte of the image moves, with what the signatures say of
the digests in its manifest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, StackproofError, fail
from stackproof.share import manifests
from stackproof.share.effects import attaching, attachments, signing, trusted
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pulling import RemoteImage
from stackproof.share.manifests import OciDescriptor, OciManifest
from stackproof.share.trust import policy, statement
from stackproof.share.trust.policy import SignedLabel, TrustAction

SIGNATURE = "application/vnd.stackproof.image-signature.v1"
DOCUMENT = "application/vnd.stackproof.document.v1"
_STATEMENT = "application/vnd.in-toto+json"
_SEAL = "application/vnd.openssh.signature"
_BYTES = "application/octet-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What came with an image: its signatures, and documents by name."""

    signatures: tuple[FoundSignature, ...]
    documents: tuple[tuple[str, bytes], ...]


def send(registry: OciRegistry, image: RemoteImage, path: str) -> int:
    """Attach in a registry what is attached to the image here and is not there; return how many."""
    there = {layer.digest for _, one in image.attached for layer in one.layers}
    subject = manifests.descriptor_of(image.manifest)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    groups = [
        (SIGNATURE, [(_STATEMENT, "statement.json", one.statement), (_SEAL, "seal", one.seal)])
        for one in attachments.signatures(path)
    ]
    for name, file in attachments.documents(path).items():
        content = files.read_bounded(file, limits.DOCUMENT_FILE)
        groups.append((DOCUMENT, [(_BYTES, name, content)]))
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
    return OciDescriptor(
        media_type=kind, digest=manifests.digest_of(content), size=len(content),
        annotations={manifests.TITLE: title},
    )  # fmt: skip


def fetch(registry: OciRegistry, image: RemoteImage) -> Carried:
    """Return the signatures and documents of an image in a registry, their digests checked."""
    signatures: list[FoundSignature] = []
    documents: list[tuple[str, bytes]] = []
    for digest, one in image.attached:
        if one.kind == SIGNATURE and len(one.layers) == 2:
            text, seal = (registry.blob(image.repository, layer) for layer in one.layers)
            where = f"{image.repository}@{digest}"
            signatures.append(FoundSignature(file=where, statement=text, seal=seal))
        elif one.kind == DOCUMENT:
            documents += [_document(registry, image, one)]
    most = limits.STATEMENT_FILE.count
    return Carried(signatures=tuple(signatures[:most]), documents=tuple(documents[:most]))


def _document(registry: OciRegistry, image: RemoteImage, one: OciManifest) -> tuple[str, bytes]:
    layer = one.layers[0]
    most = limits.DOCUMENT_FILE.bytes
    return layer.title, registry.blob(image.repository, layer, most=most)


def admit(image: RemoteImage, carried: Carried, say: Callable[[str], None]) -> None:
    """Return where the policy of this machine lets an image be pulled; `say` hears a warning.

    Raises `StackproofError` with the reason why not, and what reading the policy raises.
    """
    rules = trusted.rules()
    if rules is None:
        return
    good, problems = _judged(image, carried)
    decision = policy.decide(rules, good, now=trusted.now())
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
    for name, content in carried.documents:
        attachments.put_document(path, name, content)
