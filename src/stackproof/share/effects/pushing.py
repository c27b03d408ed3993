"""Images into a registry, from one namespace to another, back to a former one, and out of it.

A tag is moved last, when all that it names is there. What it named before keeps a tag of its own,
`TAG.until-TIME`, so that it can be gone back to, and is not thrown away by the server.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from datetime import UTC, datetime

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.downloads import downloading
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import Value, replace
from stackproof.image.effects import image_file, meta_files
from stackproof.image.effects.image_file import load_superblock
from stackproof.share import addresses, labels, listing, manifests
from stackproof.share.effects import attaching, catalogue, pulling, uploading
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.pulling import RemoteImage
from stackproof.share.effects.uploading import FileBlob
from stackproof.share.labels import LabelRecord, RemoteLabel
from stackproof.share.manifests import OciDescriptor, OciManifest

_META = "meta"


class Pushed(Value):
    """What a push, copy or rollback did: the image, the bytes sent, and the digest it replaced.

    `first` says that its namespace had no list of images before.
    """

    listed: LabelRecord
    sent: int
    replaced: str = ""
    first: bool = False


def push(
    registry: OciRegistry,
    path: str,
    remote: RemoteLabel,
    *,
    force: bool = False,
    monitor: Monitor = null_monitor,
) -> Pushed:
    """Put an image file into a registry under a whole label, with its meta attached.

    Raises `StackproofError`: NOT_REDISTRIBUTABLE, LABEL_TAKEN unless forced, TAG_MOVED when another
    moved the tag meanwhile, IMAGE_DAMAGED for a file that changes, and what uploading does.
    """
    addresses.check_whole(remote)
    superblock, size = load_superblock(path)
    if not image_file.load_described(path, bare=True).redistribute:
        raise fail(
            Reason.NOT_REDISTRIBUTABLE,
            f"`{path}` holds files of a vendor that lets nobody hand them on",
            where=Location(file=path),
            hint="build it at each site from the vendor's own packages: docs/how-to/vendor-mpi.md",
        )
    repository = registry.address.repository(*remote.path)
    before = registry.digest_of_tag(repository, remote.label.tag)
    monitor(Event(what="started", name="read", text=path))
    digest = f"sha256:{files.sha256(path)}"
    made = datetime.fromtimestamp(superblock.made, UTC).strftime("%Y-%m-%d %H:%M:%S")
    created = labels.readable_date(made).replace(" ", "T") + "Z"  # builds write the second 0
    packed = pack_meta(path)
    manifest = manifests.image_manifest(
        digest=digest, size=size, created=created,
        meta_digest=manifests.digest_of(packed.content) if packed else "",
    )  # fmt: skip
    content = manifests.render(manifest)
    _check_free(remote, before, manifests.digest_of(content), force=force)
    with downloading(str(remote), monitor, "upload") as transfer:
        blob = FileBlob(path=path, digest=digest, size=size)
        sent = uploading.upload_file(registry, repository, blob, transfer)
    uploading.upload_bytes(registry, repository, manifests.EMPTY_BLOB)
    listed = listing.record_of(remote, manifest, manifests.digest_of(content))
    registry.put_manifest(repository, listed.manifest, content, manifests.MANIFEST)
    if packed is not None:
        one = packed.manifest(manifests.descriptor_of(manifest), created)
        attaching.attach(registry, repository, one, [packed.content])
    return _named(registry, listed, content, before, sent)


def _named(
    registry: OciRegistry, listed: LabelRecord, content: bytes, before: str, sent: int
) -> Pushed:
    """Give an image whose blobs are there its label, last of all; raises TAG_MOVED."""
    replaced = _move(registry, listed.remote, content, before)
    first = catalogue.renew(registry, listed.namespace, add=[listed])
    return Pushed(listed=listed, sent=sent, replaced=replaced, first=first)


class PackedMeta(Value):
    """The folder `meta` of an image, packed as oras does; `unpacked` is the digest of the tar."""

    content: bytes
    unpacked: str

    def manifest(self, subject: OciDescriptor, created: str) -> OciManifest:
        """Return the manifest by which it is attached to an image."""
        annotations = {
            manifests.UNPACKED_DIGEST: self.unpacked, manifests.UNPACK: "true",
            manifests.TITLE: _META,
        }  # fmt: skip
        layer = OciDescriptor(
            media_type=manifests.TAR_GZIP, digest=manifests.digest_of(self.content),
            size=len(self.content), annotations=annotations,
        )  # fmt: skip
        return manifests.referrer(
            manifests.META, [layer], subject=subject, annotations={manifests.CREATED: created}
        )


def pack_meta(path: str) -> PackedMeta | None:
    """Return the folder `meta` of an image, packed: the same bytes for the same; None without."""
    held = meta_files.read(path)
    if held is None:
        return None
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted((*held.folders, *held.files), key=lambda name: name.split("/")):
            content = held.files.get(name)
            member = tarfile.TarInfo(name)
            member.mode = 0o755 if content is None else 0o644
            member.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
        end = archive.offset
    # No more zeros than an archive ends with: oras reads no further, and compares the digest.
    content = stream.getvalue()[:end] + bytes(2 * tarfile.BLOCKSIZE)
    return PackedMeta(
        content=gzip.compress(content, mtime=0), unpacked=manifests.digest_of(content)
    )


def _check_free(remote: RemoteLabel, before: str, digest: str, *, force: bool) -> None:
    if before and before != digest and not force:
        raise fail(
            Reason.LABEL_TAKEN,
            f"`{remote}` is the label of another image, `{before[:23]}`",
            hint="take another tag, or give --force: `stackproof image history` then still has "
            "the other, and `rollback` goes back to it",
        )


def _move(registry: OciRegistry, remote: RemoteLabel, content: bytes, before: str) -> str:
    """Make a tag that of a manifest, and keep what it was; return the digest that it was.

    Registries know no condition for that, so it is looked at before and after: of two that write
    at once one is told (TAG_MOVED).
    """
    repository, tag = registry.address.repository(*remote.path), remote.label.tag
    digest = manifests.digest_of(content)
    now = registry.digest_of_tag(repository, tag)
    if now != before:
        raise _moved(remote, before, now)
    if now == digest:
        return ""
    if now:
        former, _ = registry.manifest(repository, now)
        time = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]  # two may come in one second
        kept = addresses.former_tag(tag, f"{time}Z")
        registry.put_manifest(repository, kept, former, manifests.MANIFEST)
    registry.put_manifest(repository, tag, content, manifests.MANIFEST)
    there = registry.digest_of_tag(repository, tag)
    if there != digest:
        raise _moved(remote, digest, there)
    return now


def _moved(remote: RemoteLabel, wanted: str, found: str) -> StackproofError:
    return fail(
        Reason.TAG_MOVED,
        f"somebody else has just moved `{remote}`",
        detail=f"thought {wanted or 'nothing'}\nfound   {found or 'nothing'}",
        hint="look at it with `stackproof image history`, and run the command again",
    )


def copy(
    registry: OciRegistry,
    image: RemoteImage,
    target: RemoteLabel,
    *,
    force: bool = False,
    monitor: Monitor = null_monitor,
) -> Pushed:
    """Give an image a label in another place of a registry, with all that is attached to it.

    Nothing is sent where the server can mount. Raises as `push`, and USAGE for the same label.
    """
    addresses.check_whole(target)
    if image.listed.remote == target:
        raise fail(Reason.USAGE, f"`{target}` is source and destination", hint="name another")
    repository = registry.address.repository(*target.path)
    before = registry.digest_of_tag(repository, target.label.tag)
    _check_free(target, before, manifests.digest_of(image.content), force=force)
    sent = 0
    if repository != image.repository:
        tree = _tree(registry, image)
        whole = [image.manifest, *(one for _, one in tree)]
        blobs = {one.digest: one for each in whole for one in (each.config, *each.layers)}
        for blob in blobs.values():
            sent += _bring(registry, blob, image.repository, repository, monitor)
        registry.put_manifest(repository, image.listed.manifest, image.content, manifests.MANIFEST)
        for _, one in tree:
            attaching.put(registry, repository, one)
    listed = listing.record_of(target, image.manifest, image.listed.manifest)
    return _named(registry, listed, image.content, before, sent)


def _tree(registry: OciRegistry, image: RemoteImage) -> tuple[tuple[str, OciManifest], ...]:
    """Return all that is attached to an image, and what is attached to that."""
    found = dict(image.attached)
    new = list(found)
    while new:
        below = [
            one for digest in new for one in attaching.attached(registry, image.repository, digest)
        ]
        new = [digest for digest, _ in below if digest not in found]
        found.update(below)
        if len(found) > limits.REGISTRY.count:
            raise fail(
                Reason.TOO_LARGE,
                f"more than {limits.REGISTRY.count} manifests are attached to "
                f"`{image.listed.remote}`, and to these",
                hint="ask who keeps the registry to delete what nobody needs",
            )
    return tuple(found.items())


def _bring(
    registry: OciRegistry, blob: OciDescriptor, source: str, target: str, monitor: Monitor
) -> int:
    """Have a blob of one repository in another; return how many bytes were sent for that."""
    if registry.has_blob(target, blob.digest):
        return 0
    if not uploading.mount(registry, target, blob.digest, source):
        return 0
    with tempfile.NamedTemporaryFile(prefix="stackproof-copy-") as stream:
        with registry.open_blob(source, blob.digest, 0, blob.size - 1) as answer:
            buffer = memoryview(bytearray(1 << 20))
            while count := answer.read_into(buffer):
                stream.write(buffer[:count])
        stream.flush()
        one = FileBlob(path=stream.name, digest=blob.digest, size=blob.size)
        with downloading(blob.title or blob.digest, monitor, "upload") as transfer:
            return uploading.upload_file(registry, target, one, transfer)


class FormerImage(Value):
    """An image that a tag is of, or was: `until` is empty for the one that it is of now."""

    until: str
    listed: LabelRecord


def history(registry: OciRegistry, remote: RemoteLabel) -> tuple[FormerImage, ...]:
    """Return the images that had a tag, the newest first; raises IMAGE_MISSING for none."""
    repository, tag = registry.address.repository(*remote.path), remote.label.tag
    found = []
    for one in registry.tags(repository):
        of, until = addresses.former_of(one)
        if tag not in {one, of}:
            continue
        listed, _, _ = catalogue.read_image(registry, remote, one)
        found.append(FormerImage(until=until, listed=listed))
    if not found:
        raise fail(
            Reason.IMAGE_MISSING,
            f"`{registry.address.host}` has no `{remote}`, and never had",
            where=Location(file=f"{registry.address.host}/{repository}"),
            hint=f"`stackproof image find {remote.namespace}::` lists what there is",
        )
    return tuple(sorted(found, key=lambda one: one.until or "~", reverse=True))


def rollback(registry: OciRegistry, remote: RemoteLabel, to: str = "") -> Pushed:
    """Make a tag that of a former image again: of the last one, or of a digest, id or time.

    Raises `StackproofError`: IMAGE_MISSING where there is none such, TAG_MOVED.
    """
    known = history(registry, remote)
    now = next((one.listed.manifest for one in known if not one.until), "")
    wanted = [
        one
        for one in known
        if one.until
        and one.listed.manifest != now
        and (not to or to in {one.until, one.listed.manifest, one.listed.id,
                              *one.listed.digests})
    ]  # fmt: skip
    if not wanted:
        raise fail(
            Reason.IMAGE_MISSING,
            f"`{remote}` was never that of {f'`{to}`' if to else 'another image'}",
            hint=f"`stackproof image history {remote}` lists what it was of",
        )
    listed, content, _ = catalogue.read_image(registry, remote, wanted[0].listed.manifest)
    return _named(registry, listed, content, now, sent=0)


def delete(
    registry: OciRegistry, remote: RemoteLabel, *, force: bool = False
) -> tuple[RemoteLabel, ...]:
    """Delete an image of a registry, with all that is attached to it; return the labels that went.

    Registries delete by digest, so that all tags of it go: without `force` that is refused where
    there are others. Raises `StackproofError`: LABELS_LOST, REGISTRY_UNABLE, IMAGE_MISSING.
    """
    image = pulling.look(registry, remote)
    repository, digest = image.repository, image.listed.manifest
    tags = [
        tag
        for tag in registry.tags(repository)
        if tag == remote.label.tag or registry.digest_of_tag(repository, tag) == digest
    ]
    gone = tuple(replace(remote, label=replace(remote.label, tag=tag)) for tag in tags)
    own = remote.label.tag
    others = [
        one for one in gone if own not in {one.label.tag, *addresses.former_of(one.label.tag)}
    ]
    if others and not force:
        raise fail(
            Reason.LABELS_LOST,
            f"`{remote}` cannot go alone: registries delete an image with all its labels",
            detail="\n".join(str(one) for one in others),
            hint="--force deletes it with these; or give each of them another image first",
        )
    tree = _tree(registry, image)
    registry.delete_manifest(repository, digest)
    for attached_digest, _ in tree:
        registry.delete_manifest(repository, attached_digest)
    for one in (digest, *(attached_digest for attached_digest, _ in tree)):
        _delete_fallback(registry, repository, one)
    catalogue.renew(registry, remote.namespace, drop=[one.label for one in gone])
    return gone


def _delete_fallback(registry: OciRegistry, repository: str, digest: str) -> None:
    listed = registry.digest_of_tag(repository, manifests.fallback_tag(digest))
    if listed:
        registry.delete_manifest(repository, listed)
