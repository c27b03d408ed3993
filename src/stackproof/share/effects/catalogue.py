"""The images that a registry has: by the list that is kept there, a site's service, or tag by tag.

The list is the image `NAMESPACE/index:latest`, renewed by every push, copy and deletion of ours. It
is believed for showing and for finding a label that was not said in full; what a tag names is asked
of the registry itself before anything is taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.share import addresses, labels, listing, manifests
from stackproof.share.addresses import INDEX_NAME, RegistryAddress
from stackproof.share.effects import uploading
from stackproof.share.effects.http_client import HttpRequest
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.labels import Label, LabelRecord, RemoteLabel
from stackproof.share.manifests import OciDescriptor, OciManifest

KIND = "listings"
_SUFFIX = ".json"
_THREADS = 8
_SETTLES_S = 0.2
_ATTEMPTS = 10


def find(
    registry: OciRegistry, namespace: str, *, service: str = "", fresh: bool = False
) -> tuple[LabelRecord, ...]:
    """Return the images of a namespace: of a site's service, else of the list, else tag by tag.

    `fresh` asks for every tag. Raises `StackproofError`: REGISTRY_ANSWER, and what `OciRegistry`
    does, as REGISTRY_UNABLE where there is no list and the server does not tell what it has.
    """
    if not fresh and service:
        found: tuple[LabelRecord, ...] | None = _served(registry, namespace, service)
    else:
        found = None if fresh else kept(registry, namespace)
    if found is None:
        found = tag_by_tag(registry, namespace)
    remember(registry.address, namespace, found)
    return found


def choose(
    registry: OciRegistry, remote: RemoteLabel, *, system: str = "", service: str = ""
) -> LabelRecord:
    """Return the one image that a label not said in full means, or an id or a digest.

    Where the list does not have it every tag is asked for. Raises `StackproofError`:
    LABEL_AMBIGUOUS, IMAGE_MISSING with what is near, and as `find`.
    """
    word = str(remote.label)
    found: tuple[LabelRecord, ...] = ()
    for fresh in (False, True):
        found = find(registry, remote.namespace, service=service, fresh=fresh)
        one = labels.only(found, word, system=system)
        if one is not None:
            return one
    raise fail(
        Reason.IMAGE_MISSING,
        f"the namespace `{remote.namespace}` of `{registry.address}` has no image `{word}`",
        hint=f"{labels.guess(found, word, system=system)}"
        f"`stackproof image find {remote.namespace}::` lists what there is",
    )


def kept(registry: OciRegistry, namespace: str) -> tuple[LabelRecord, ...] | None:
    """Return the images of the list that is kept in a registry; None where there is none."""
    repository = registry.address.repository(namespace, INDEX_NAME)
    try:
        content, _ = registry.manifest(repository, listing.TAG)
    except StackproofError as error:
        if error.reason is Reason.IMAGE_MISSING:
            return None
        raise
    manifest = manifests.parse_manifest(content, where=repository)
    layer = manifest.layer(listing.FILE)
    if manifest.kind != listing.ARTEFACT or layer is None:
        return None
    rows = registry.blob(repository, layer, most=limits.LISTING.bytes)
    return listing.parse(rows, namespace=namespace, where=f"{registry.address.host}/{repository}")


def tag_by_tag(registry: OciRegistry, namespace: str) -> tuple[LabelRecord, ...]:
    """Return the images of a namespace as its tags say, several at a time."""
    with registry.client.within(limits.REQUESTS):
        return _tag_by_tag(registry, namespace)


def _tag_by_tag(registry: OciRegistry, namespace: str) -> tuple[LabelRecord, ...]:
    prefix = registry.address.prefix
    below = f"{registry.address.repository(namespace)}/"
    try:
        names = [name for name in registry.repositories() if name.startswith(below)]
    except StackproofError as error:
        if error.reason not in {Reason.IMAGE_MISSING, Reason.REGISTRY_DENIED, Reason.LOGIN_NEEDED}:
            raise
        raise fail(
            Reason.REGISTRY_UNABLE,
            f"`{registry.address.host}` does not tell what images it has, and keeps no list of "
            f"`{namespace}`",
            where=Location(file=f"{registry.address.host}/{below}{INDEX_NAME}"),
            hint="say a label in full; the first `stackproof image push` or `copy` makes the list",
        ) from error
    with ThreadPoolExecutor(_THREADS) as pool:
        tagged = zip(names, pool.map(registry.tags, names), strict=True)
        remotes = [
            remote
            for name, tags in tagged
            for tag in tags
            if (remote := addresses.remote_of(name, tag, prefix=prefix)) is not None
            and labels.is_label(str(remote.label))
            and not addresses.former_of(tag)[0]
        ]
        found = list(pool.map(lambda one: _record(registry, one), remotes))
    return listing.ordered(one for one in found if one is not None)


def read_image(
    registry: OciRegistry, remote: RemoteLabel, reference: str
) -> tuple[LabelRecord, bytes, OciManifest]:
    """Return an image of a label's repository, by tag or digest: its record and its manifest.

    Raises `StackproofError`: IMAGE_MISSING, REGISTRY_ANSWER.
    """
    content, digest = registry.manifest(registry.address.repository(*remote.path), reference)
    where = str(replace(remote, label=replace(remote.label, tag=reference)))
    manifest = manifests.parse_manifest(content, where=where)
    return listing.record_of(remote, manifest, digest), content, manifest


def _record(registry: OciRegistry, remote: RemoteLabel) -> LabelRecord | None:
    """Return the record of a tag; None for one that is no image of ours, or has just gone."""
    try:
        return read_image(registry, remote, remote.label.tag)[0]
    except StackproofError as error:
        if error.reason in {Reason.IMAGE_MISSING, Reason.REGISTRY_ANSWER}:
            return None
        raise


def _served(registry: OciRegistry, namespace: str, service: str) -> tuple[LabelRecord, ...]:
    """Return the answer of the site's service, asked as uenv does."""
    url = f"{service}?{urllib.parse.urlencode({'namespace': namespace})}"
    with registry.client.send(HttpRequest(method="GET", url=url)) as answer:
        if answer.status != 200:
            raise fail(
                Reason.REGISTRY_ANSWER,
                f"the listing `{service}` answered with {answer.status}",
                where=Location(file=service),
                hint="`stackproof image find --fresh` asks the registry itself, for every tag",
            )
        content = answer.read(limits.LISTING.bytes)
    return listing.parse(content, namespace=namespace, where=service)


def renew(
    registry: OciRegistry,
    namespace: str,
    *,
    add: Sequence[LabelRecord] = (),
    drop: Sequence[Label] = (),
) -> bool:
    """Change the list that is kept in a registry, which is made where there is none.

    Return whether there was none. Another may write it at the same moment: it is read again a
    moment later, and changed again.
    """
    first = kept(registry, namespace)
    new = first is None
    before = tag_by_tag_or_nothing(registry, namespace) if first is None else first
    for _ in range(_ATTEMPTS):
        after = listing.changed(before, add=add, drop=drop)
        if after == before and first is not None:
            return new
        _write(registry, namespace, after)
        time.sleep(_SETTLES_S)
        first = before = kept(registry, namespace) or ()
        if listing.changed(before, add=add, drop=drop) == before:
            return new
    raise fail(
        Reason.BUSY,
        f"others change the list of `{namespace}` all the time",
        where=Location(file=f"{registry.address.host}/{namespace}/{INDEX_NAME}"),
        hint="your change is made; `stackproof image find --fresh` shows it",
    )


def tag_by_tag_or_nothing(registry: OciRegistry, namespace: str) -> tuple[LabelRecord, ...]:
    """Return the images as tags say, none where the server does not tell."""
    try:
        return tag_by_tag(registry, namespace)
    except StackproofError as error:
        if error.reason is Reason.REGISTRY_UNABLE:
            return ()
        raise


def _write(registry: OciRegistry, namespace: str, records: Sequence[LabelRecord]) -> None:
    content = listing.render(records)
    repository = registry.address.repository(namespace, INDEX_NAME)
    layer = OciDescriptor(
        media_type="application/json", digest=manifests.digest_of(content), size=len(content),
        annotations={manifests.TITLE: listing.FILE},
    )  # fmt: skip
    for blob in (manifests.EMPTY_BLOB, content):
        uploading.upload_bytes(registry, repository, blob)
    manifest = OciManifest(artifact_type=listing.ARTEFACT, config=manifests.EMPTY, layers=(layer,))
    registry.put_manifest(repository, listing.TAG, manifests.render(manifest), manifests.MANIFEST)


def remember(address: RegistryAddress, namespace: str, records: Sequence[LabelRecord]) -> None:
    """Keep what a namespace has; a cache that cannot be written keeps nothing."""
    with contextlib.suppress(StackproofError):
        files.write(_folder(address) / f"{namespace}{_SUFFIX}", listing.render(records))


def remembered(address: RegistryAddress, namespace: str = "") -> tuple[LabelRecord, ...]:
    """Return the images that a namespace had, or all of them, without what cannot be read."""
    pattern = f"{namespace or '*'}{_SUFFIX}"
    found: list[LabelRecord] = []
    for path in sorted(_folder(address).glob(pattern)):
        with contextlib.suppress(StackproofError):
            content = files.read_bounded(path, limits.LISTING)
            found += listing.parse(content, namespace=path.stem, where=str(path))
    return listing.ordered(found)


def hint_at_namespaces(registry: OciRegistry, remote: RemoteLabel, *, system: str = "") -> str:
    """Return the beginning of a hint that says which other namespaces have a label."""
    records = [*remembered(registry.address)]
    for namespace in {"build", "deploy"} - {remote.namespace}:  # most registries have these
        with contextlib.suppress(StackproofError):
            records += kept(registry, namespace) or ()
    meant = labels.matching(records, remote.label, system=system)
    others = sorted({record.namespace for record in meant} - {remote.namespace})
    return "".join(f"`{namespace}::{remote.label}` has it; " for namespace in others[:3])


def _folder(address: RegistryAddress) -> Path:
    return cache_kinds.home(KIND) / hashlib.sha256(str(address).encode()).hexdigest()
