"""Signatures and verdicts of an image, carried to a registry with it and back.

There each is a manifest that refers to the image's. What comes from a registry is believed no more
than a file: a policy is asked before any byte of the image moves, with what the signatures say of
the digests in its manifest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from stackproof.core import ids, limits
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share import manifests
from stackproof.share import verdict as share_verdict
from stackproof.share.effects import attaching, attachments, judging, signing, trusted
from stackproof.share.effects.attachments import FoundSignature
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pulling import RemoteImage
from stackproof.share.manifests import OciDescriptor, OciManifest
from stackproof.share.trust import statement
from stackproof.share.trust.policy import SignedLabel

SIGNATURE = manifests.SIGNATURE
_STATEMENT = "application/vnd.in-toto+json"
_SEAL = "application/vnd.openssh.signature"
_JSON = "application/json"
_LEFT_THERE = {
    Reason.INVALID_VALUE, Reason.TOO_LARGE, Reason.DOCUMENT_OF_ANOTHER, Reason.WRONG_TYPE,
    Reason.UNSUPPORTED, Reason.YAML_SYNTAX,
}  # fmt: skip
"""Why a verdict is not brought, which keeps no image from being pulled."""
_Part = tuple[str, str, bytes]


class Carried(Value):
    """What came with an image: signatures, verdicts by name, warnings of what was left there."""

    signatures: tuple[FoundSignature, ...]
    verdicts: Mapping[str, bytes]
    notes: tuple[str, ...] = ()


def send(registry: OciRegistry, image: RemoteImage, path: str) -> int:
    """Attach in a registry what is attached to the image here and is not there; return how many."""
    there = {layer.digest for _, one in image.attached for layer in one.layers}
    subject = manifests.descriptor_of(image.manifest)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    groups: list[tuple[str, list[_Part]]] = [
        (SIGNATURE, [(_STATEMENT, "statement.json", one.statement), (_SEAL, "seal", one.seal)])
        for one in attachments.signatures(path)
    ]
    for name, file in attachments.verdicts(path).items():
        content = attachments.read(file, limits.VERDICT_FILE)
        groups.append((manifests.VERDICT, [(_JSON, name, content)]))
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
    """Return the signatures and verdicts of an image in a registry, their digests checked.

    Of verdicts of one name one is taken: that which somebody signed with the image who is known
    here, else the newest. What is no verdict on this image stays there, with a warning.
    """
    signatures: list[FoundSignature] = []
    named: dict[str, list[bytes]] = {}
    notes: list[str] = []
    left = limits.VERDICTS.bytes
    if image.unread:
        notes.append(
            f"{image.unread} more that are attached to `{image.listed.remote}` were left there: a "
            f"pull looks at {limits.ATTACHED.count}, signatures first, the newest first"
        )
    for digest, one in sorted(image.attached, key=_created, reverse=True):
        try:
            if one.kind == SIGNATURE:
                signatures += _signature(registry, image, one, digest)
            elif one.kind == manifests.VERDICT:
                left -= sum(layer.size for layer in one.layers)
                name, content = _verdict(registry, image, one, most=left)
                named.setdefault(name, []).append(content)
        except StackproofError as error:
            if error.reason not in _LEFT_THERE:
                raise
            notes.append(f"`{digest[:23]}` was left there: {error.problems[0].message}")
    taken = tuple(signatures[: limits.STATEMENT_FILE.count])
    known = _known_digests(image, taken)
    chosen = {}
    for name, several in named.items():
        signed = [content for content in several if ids.digest(content) in known]
        chosen[name] = (signed or several)[0]
        if len(set(several)) > 1:
            which = (
                "the signed one" if signed else "the newest, signed by nobody who is known here,"
            )
            notes.append(f"there are {len(several)} verdicts `{name}`: {which} is taken")
    return Carried(signatures=taken, verdicts=chosen, notes=tuple(notes))


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


def _verdict(
    registry: OciRegistry, image: RemoteImage, one: OciManifest, *, most: int
) -> tuple[str, bytes]:
    """Return name and text of a verdict; raises `StackproofError` for none on this image."""
    name = one.layers[0].title if one.layers else ""
    if not attachments.can_be_named(name):
        raise fail(Reason.INVALID_VALUE, f"`{name[:80]}` cannot be the name of a verdict")
    if most < 0 or one.layers[0].size > limits.VERDICT_FILE.bytes:
        raise fail(Reason.TOO_LARGE, f"the verdicts are too large, with `{name}`")
    content = registry.blob(image.repository, one.layers[0], most=limits.VERDICT_FILE.bytes)
    share_verdict.parse(content, image.layer.hex, file=name)
    return name, content


def _known_digests(image: RemoteImage, signatures: Sequence[FoundSignature]) -> frozenset[str]:
    """Return the digests of verdicts that were signed with the image, by whom is known here."""
    signers = judging.default_signers()
    found: set[str] = set()
    for one in signatures if os.path.isfile(signers) else ():
        with contextlib.suppress(StackproofError):
            said = statement.parse(one.statement, file=one.file)
            if said.image == image.layer.hex:
                found |= set(signing.check(one, said, signers).said.attached.values())
    return frozenset(found)


def admit(image: RemoteImage, carried: Carried, say: Callable[[str], None]) -> None:
    """Refuse an image that this machine's policy lets nobody pull; `say` hears a warning.

    Raises `StackproofError` with the reason why not, and what reading the policy raises.
    """
    if trusted.rules() is None:
        return
    good: list[SignedLabel] = []
    problems: list[Problem] = []
    where = str(image.listed.remote)
    for one in carried.signatures:
        try:
            said = statement.parse(one.statement, file=one.file)
            if said.image != image.layer.hex:
                raise signing.of_another(one.file, said)
            good.append(signing.check(one, said, trusted.signers()).signed)
        except StackproofError as error:
            problems += error.problems
    decision = trusted.decide(good, where)
    why = problems[0] if problems and not good else None
    if refused := decision and trusted.refusal(decision, why, where, say):
        raise fail(
            refused[0],
            f"this site does not let `{where}` be used: {refused[1]}",
            where=Location(file=where),
            hint="ask who answers for it to sign it, and to push it again",
        )


def put(path: str, carried: Carried) -> None:
    """Put beside a pulled image what came with it; raises what writing raises."""
    for one in carried.signatures:
        attachments.put_signature(path, one.statement, one.seal)
    for name, content in carried.verdicts.items():
        attachments.put_verdict(path, name, content)
