"""What is attached to an image in a registry: read, and added so that other clients find it.

Where a server keeps no list of what refers to a manifest (no `OCI-Subject` in its answer), clients
keep one under the fallback tag. It has no lock: what another writes at the same moment can replace
ours, so it is read again a moment later, and written again until it has both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.share import manifests
from stackproof.share.effects import uploading
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.manifests import OciDescriptor, OciIndex, OciManifest

_SETTLES_S = 0.2
"""How long after writing a list it is read again: others take less from reading to writing."""
_ATTEMPTS = 10


def attached(
    registry: OciRegistry, repository: str, digest: str, kind: str = ""
) -> tuple[tuple[str, OciManifest], ...]:
    """Return the manifests attached to another, of one kind or all, with digests."""
    every = read(registry, repository, digest, listed(registry, repository, digest))
    return tuple(each for each in every if kind in {"", each[1].kind})


def listed(registry: OciRegistry, repository: str, digest: str) -> tuple[OciDescriptor, ...]:
    """Return the list of what is attached: what pulls need first, the newest first."""
    each = {one.digest: one for one in registry.referrers(repository, digest)}
    newest = sorted(
        each.values(), key=lambda one: one.annotations.get(manifests.CREATED, ""), reverse=True
    )
    return tuple(sorted(newest, key=_rank))


def _rank(one: OciDescriptor) -> int:
    needed = (manifests.META, manifests.SIGNATURE, "", manifests.VERDICT)
    return needed.index(one.artifact_type) if one.artifact_type in needed else len(needed)


def read(
    registry: OciRegistry, repository: str, digest: str, wanted: Sequence[OciDescriptor]
) -> tuple[tuple[str, OciManifest], ...]:
    """Return the manifests of a list that are attached to another, with their digests.

    The manifests themselves are looked into: lists of some clients name other types. One that is
    listed and not there is passed over: servers that delete what has no tag take it away.
    """
    manifests_read = []
    for one in wanted:
        try:
            content, its_digest = registry.manifest(repository, one.digest)
        except StackproofError as error:
            if error.reason is Reason.IMAGE_MISSING:
                continue
            raise
        manifest = manifests.parse(content, where=f"{repository}@{one.digest}")
        if isinstance(manifest, OciIndex) or manifest.subject is None:
            continue
        if manifest.subject.digest == digest:
            manifests_read.append((its_digest, manifest))
    return tuple(manifests_read)


def attach(
    registry: OciRegistry, repository: str, manifest: OciManifest, blobs: Sequence[bytes]
) -> str:
    """Attach a manifest to its subject, with the blobs of its layers; return its digest."""
    for blob in (manifests.EMPTY_BLOB, *blobs):
        uploading.upload_bytes(registry, repository, blob)
    return put(registry, repository, manifest)


def put(registry: OciRegistry, repository: str, manifest: OciManifest) -> str:
    """Put a manifest whose blobs are there, and list it where the server does not."""
    content = manifests.render(manifest)
    digest = manifests.digest_of(content)
    kept = registry.put_manifest(repository, digest, content, manifests.MANIFEST)
    if manifest.subject is not None and not kept:
        _list(registry, repository, manifest.subject.digest, manifests.descriptor_of(manifest))
    return digest


def _list(registry: OciRegistry, repository: str, subject: str, one: OciDescriptor) -> None:
    """Have a manifest in the list under the fallback tag of its subject; raises BUSY."""
    tag = manifests.fallback_tag(subject)
    for _ in range(_ATTEMPTS):
        before = registry.fallback_index(repository, subject)
        after = manifests.with_referrer(before, one)
        if after == before:
            return
        registry.put_manifest(repository, tag, manifests.render(after), manifests.INDEX)
        time.sleep(_SETTLES_S)
    raise fail(
        Reason.BUSY,
        f"others attach to `{repository}@{subject}` all the time",
        where=Location(file=f"{registry.address.host}/{repository}:{tag}"),
        hint="try again later",
    )
