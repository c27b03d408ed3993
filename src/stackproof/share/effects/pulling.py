"""Images out of a registry into the repository: whole, checked, once, and gone on with.

Bytes go to the same unfinished copy that `storing` makes of files, under a lock: what is there when
a command is killed is read and asked for no more, and of several that pull one image one does. The
digest is made while bytes come. Beside the image lie what uenv puts there, the attached `meta`, and
`manifest.json`, the bytes of the manifest, whose digest is what signatures are of.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from stackproof.core import limits
from stackproof.core.effects import files, libc
from stackproof.core.effects.downloads import Transfer, downloading
from stackproof.core.effects.foreign.folder import OpenFolder, open_folder
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.numbers import disk_text
from stackproof.core.value import Value, replace
from stackproof.image.container import tar
from stackproof.image.effects import meta_files
from stackproof.image.effects.image_file import load_superblock
from stackproof.image.effects.meta_files import MetaFiles
from stackproof.share import labels, manifests
from stackproof.share.effects import attaching, catalogue, storing
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.repository import IMAGES, ImageRepository
from stackproof.share.labels import LabelRecord, RemoteLabel
from stackproof.share.manifests import OciDescriptor, OciManifest

MANIFEST_FILE = "manifest.json"
"""In the folder of a pulled image: its manifest, byte for byte."""
_BUFFER = 256 << 10
"""What stays in a processor's own cache between its being received, written and digested."""
_BUFFERS = 8
_WRITTEN_OUT = 8 << 20
"""After so many bytes the disk is given them, so that little is left to wait for at the end."""
_ATTEMPTS = 5
_PATIENCE_S = 6 * 3600.0
_TRANSIENT = frozenset({
    Reason.NO_NETWORK, Reason.ANSWER_TRUNCATED, Reason.REGISTRY_BUSY, Reason.REGISTRY_FAILED,
})  # fmt: skip


class RemoteImage(Value):
    """An image as a registry has it: its record, the bytes of its manifest, its file and its meta.

    `attached` are the manifests that refer to it, with their digests, but for the last of them that
    were not looked at, of which there are `unread`.
    """

    listed: LabelRecord
    content: bytes
    manifest: OciManifest
    layer: OciDescriptor
    attached: tuple[tuple[str, OciManifest], ...]
    meta: OciDescriptor | None
    unread: int = 0

    @property
    def repository(self) -> str:
        """Its repository below the registry's address."""
        return self.listed.folder


class Pulled(Value):
    """What a pull did: the label in the repository, and the bytes that came over the network."""

    record: LabelRecord
    received: int


def look(
    registry: OciRegistry, remote: RemoteLabel, *, most: int = limits.REGISTRY.count
) -> RemoteImage:
    """Return the image of a whole label, with `most` manifests of what is attached.

    Raises `StackproofError`: IMAGE_MISSING, META_MISMATCH, META_AMBIGUOUS, REGISTRY_ANSWER, and
    what `OciRegistry` does.
    """
    repository = registry.address.repository(*remote.path)
    listed, content, manifest = catalogue.read_image(registry, remote, remote.label.tag)
    refers = attaching.listed(registry, repository, listed.manifest)
    found = attaching.read(registry, repository, listed.manifest, refers[:most])
    meta = manifests.meta_layer(manifest, [one for _, one in found], where=str(remote))
    return RemoteImage(
        listed=replace(listed, folder=repository),
        content=content, manifest=manifest, attached=found, meta=meta,
        layer=manifests.image_layer(manifest, where=str(remote)), unread=len(refers[most:]),
    )  # fmt: skip


def look_again(
    registry: OciRegistry, listed: LabelRecord, *, most: int = limits.REGISTRY.count
) -> RemoteImage:
    """Return the image that a listed label names now; raises TAG_MOVED where that is another one.

    Raises as `look`.
    """
    image = look(registry, listed.remote, most=most)
    if not image.listed.digests & listed.digests:
        raise fail(
            Reason.TAG_MOVED,
            f"`{listed.remote}` is by now the label of another image than the list says",
            detail=f"listed {listed.digest}\nfound  {image.listed.digest}",
            hint=f"`stackproof image pull {listed.remote}`, in full, takes what it is now",
        )
    return image


def pull(
    registry: OciRegistry,
    image: RemoteImage,
    repository: ImageRepository,
    *,
    force: bool = False,
    monitor: Monitor = null_monitor,
) -> Pulled:
    """Bring an image into a repository, under its label.

    Raises `StackproofError`: LABEL_TAKEN, IMAGE_DAMAGED for other bytes than the manifest names,
    which are not kept, DISK_FULL, INTERRUPTED, NO_NETWORK and ANSWER_TRUNCATED after some attempts,
    with what came kept for the next one, and what `storing.publish` does.
    """
    digest, size = image.layer.hex, image.layer.size
    folder = repository.folder_of(digest)
    date = labels.readable_date(image.listed.date)
    record = replace(image.listed, folder=str(folder), date=date, namespace="", manifest="")
    storing.refuse_taken(repository, record, force=force)
    if storing.label_present(repository, record, force=force):
        _keep_manifest(folder, image.content)
        return Pulled(record=record, received=0)
    with registry.client.within(limits.PULL_META):
        meta = _meta(registry, image)
    waits = Event(what="note", name="wait", text=f"another command is pulling {record.label}")
    with _held(repository, digest, lambda: monitor(waits)) as (images, descriptor):
        if storing.label_present(repository, record, force=force):  # another has pulled it
            return Pulled(record=record, received=len(meta))
        _check_room(descriptor, size, repository.folder)
        try:
            with downloading(str(record.label), monitor) as transfer:
                received = _fill(registry, image, descriptor, transfer)
        except KeyboardInterrupt:
            kept = disk_text(os.fstat(descriptor).st_size)
            raise fail(
                Reason.INTERRUPTED,
                f"interrupted; {kept} of {disk_text(size)} are kept",
                hint="the same command goes on with it",
            ) from None
        os.fsync(descriptor)
        os.fchmod(descriptor, 0o444)

        def unpack(copy: Path, new: Path) -> None:
            load_superblock(str(copy))
            _keep_manifest(new, image.content)
            if image.meta is None:
                storing.unpack_meta(copy, new)
            else:
                unpack_meta(meta, image.meta, new)

        storing.publish(repository, record, (images, descriptor), unpack, force=force)
    return Pulled(record=record, received=received + len(meta))


def _keep_manifest(folder: Path, content: bytes) -> None:
    """Put the manifest beside an image; one that others own stays as it is."""
    with contextlib.suppress(StackproofError), open_folder(folder) as place:
        place.write(MANIFEST_FILE, content)


@contextlib.contextmanager
def _held(
    repository: ImageRepository, digest: str, waits: Callable[[], None]
) -> Iterator[tuple[OpenFolder, int]]:
    """Hold the unfinished copy of an image, once nobody else does; it stays however this ends.

    The lock is a file of its own, and not the copy, which moves to its place before the index has
    it: who waited must find it there. Gives the folder of images, and the copy's descriptor.
    """
    part = f"{storing.PART}{digest}"
    lock = f"{part}.lock"
    busy = fail(Reason.BUSY, f"`{digest}` is being pulled by somebody", hint="try again later")
    try:
        with (
            repository.opened_images() as images,
            images.locked(lock, seconds=_PATIENCE_S, mode=0o600, busy=busy, waits=waits),
        ):
            descriptor = storing.own(images, part)
            try:
                yield images, descriptor
            finally:
                if os.fstat(descriptor).st_size == 0:
                    images.remove(part)
                os.close(descriptor)
                images.remove(lock)
    except OSError as error:
        raise files.translate(error, repository.folder / IMAGES / part) from error


def _check_room(descriptor: int, size: int, folder: Path) -> None:
    """Raise DISK_FULL before anything is asked for that has no room."""
    room, lacking = os.fstatvfs(descriptor), size - os.fstat(descriptor).st_size
    free = room.f_bavail * room.f_frsize
    if free < lacking:
        raise fail(
            Reason.DISK_FULL,
            f"`{folder}` has no space for this image: {disk_text(free)} are free, "
            f"{disk_text(lacking)} are to come",
            where=Location(file=str(folder)),
            hint="`stackproof image ls` lists what is there, `image rm` deletes; "
            "STACKPROOF_REPOSITORY names another place for images",
        )


def _fill(
    registry: OciRegistry,
    image: RemoteImage,
    descriptor: int,
    transfer: Transfer,
) -> int:
    """Bring the rest of an image into its copy; return how many bytes came over the network.

    The copy is emptied where it then is not what the manifest names: nothing of it can be believed.
    """
    failures, again, resumed = 0.0, False, False
    with _Writer(descriptor, image.layer.size) as writer:
        while True:
            before = writer.done
            transfer.at(before, image.layer.size)
            try:
                while writer.done < image.layer.size:
                    _receive(registry, image, writer, transfer)
            except StackproofError as error:
                came = (
                    writer.done - before
                )  # of a server that gives a byte at a time little is asked
                failures = 1.0 if came >= _BUFFER else failures + (0.1 if came else 1.0)
                if error.reason not in _TRANSIENT or failures >= _ATTEMPTS:
                    raise
                resumed = True
                continue
            found = writer.digest()
            if found == image.layer.hex:
                return writer.received
            believed = resumed or writer.found > 0
            writer.empty()
            if again or not believed:
                raise fail(
                    Reason.IMAGE_DAMAGED,
                    f"`{registry.address.host}` gave other bytes than the manifest of "
                    f"`{image.listed.remote}` names",
                    where=Location(file=f"{registry.address.host}/{image.repository}"),
                    detail=f"wanted sha256:{image.layer.hex}\ngot    sha256:{found}",
                    hint="nothing of it was kept; tell who keeps the registry",
                )
            again = True  # what was here may be what is wrong: all comes, once


def _receive(
    registry: OciRegistry, image: RemoteImage, writer: _Writer, transfer: Transfer
) -> None:
    """Receive one answer of a server, from where the copy ends."""
    size = image.layer.size
    first = writer.done
    with registry.open_blob(image.repository, image.layer.digest, first, size - 1) as answer:
        if answer.status == 416:
            raise fail(
                Reason.REGISTRY_ANSWER,
                f"`{image.listed.remote}` is shorter than its manifest says: there is no byte "
                f"{first} of {size}",
                where=Location(file=answer.place),
                hint="tell the registry's administrator; downloaded bytes are kept",
            )
        skip = first if answer.status == 200 else 0  # it knows no ranges, and gives all
        while writer.done < size:
            count = writer.take(answer.read_into, skip or size - writer.done, keep=not skip)
            writer.received += count
            if count == 0:
                raise answer.cut()
            skip = max(skip - count, 0)
            transfer.at(writer.done, size)


class _Writer:
    """Bytes to the end of a copy, and into its digest by a second thread, with a few buffers.

    Receiving and writing cost as much as a digest, so a pull is about as fast as what only receives
    and writes. What is in the copy already is read first (`found`); `done` counts that and what was
    taken, `received` what came over the network.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.received = 0
        self._descriptor = descriptor
        self._total = hashlib.sha256()
        self._unwritten = 0
        self.found = self.done = self._read_back(size)
        self._thread = ThreadPoolExecutor(1)
        self._buffers = deque(
            (memoryview(bytearray(_BUFFER)), self._thread.submit(int)) for _ in range(_BUFFERS)
        )
        """Each with what the thread does of it, which must end before it is filled again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let the second thread end."""
        self._thread.shutdown()

    def _read_back(self, size: int) -> int:
        """Have the digest of what is there, and return how much; too much of it is thrown away."""
        if os.fstat(self._descriptor).st_size > size:
            os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        while chunk := os.read(self._descriptor, _BUFFER):
            self._total.update(chunk)
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def take(self, read: Callable[[memoryview], int], most: int, *, keep: bool = True) -> int:
        """Write what `read` puts into a buffer, or do not; return how many bytes that is.

        Raises what `read` and writing do.
        """
        buffer, digested = self._buffers[0]
        digested.result()
        count = read(buffer[:most])
        if count and keep:
            storing.write(self._descriptor, buffer[:count])
            self.done += count
            self._buffers.append((buffer, self._thread.submit(self._digest, buffer[:count])))
            self._buffers.popleft()
        return count

    def digest(self) -> str:
        """Return the digest of all that was taken."""
        return self._thread.submit(self._total.hexdigest).result()

    def empty(self) -> None:
        """Throw away what is there; only after `digest`, when nothing is on its way."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._total, self.found, self.done = hashlib.sha256(), 0, 0

    def _digest(self, piece: memoryview) -> int:
        self._total.update(piece)
        self._unwritten += len(piece)
        if self._unwritten >= _WRITTEN_OUT:
            libc.write_out(self._descriptor)
            self._unwritten = 0
        return len(piece)


def _meta(registry: OciRegistry, image: RemoteImage) -> bytes:
    """Return the packed meta, checked; nothing where there is none. Raises META_MISMATCH."""
    if image.meta is None:
        return b""
    try:
        return registry.blob(image.repository, image.meta, most=limits.IMAGE_MEMBER.bytes)
    except StackproofError as error:
        if error.reason is not Reason.IMAGE_DAMAGED:
            raise
        raise fail(
            Reason.META_MISMATCH,
            f"the meta of `{image.listed.remote}` is not what its manifest names",
            where=Location(file=f"{registry.address.host}/{image.repository}"),
            detail=error.problems[0].detail,
            hint="nothing of it was kept; tell who keeps the registry",
        ) from error


def unpack_meta(packed: bytes, layer: OciDescriptor, folder: Path) -> None:
    """Unpack the folder `meta` as oras packs it; raises META_MISMATCH for other than files."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(packed, limits.IMAGE_MEMBER.bytes)
    except zlib.error:
        raise _no_meta("it is not packed with gzip") from None
    if unpacker.unconsumed_tail:
        raise _no_meta(f"it unpacks to more than {limits.IMAGE_MEMBER.bytes} bytes")
    said = layer.annotations.get(manifests.UNPACKED_DIGEST)
    if said and said != manifests.digest_of(content):
        raise _no_meta("what is packed has another digest than it says")
    meta_files.write(_members(content), folder)


def _members(content: bytes) -> MetaFiles:
    """Return the files in a tar of a folder `meta`; raises META_MISMATCH for other than files."""
    stream = tar.MemoryStream(content, "meta")
    contents: dict[str, bytes] = {}
    folders: dict[str, None] = {}
    for member in tar.entries(stream):
        parts = member.name.strip("/").split("/")
        if parts[0] != "meta" or set(parts) & {"", ".", ".."}:
            raise _no_meta(f"it has `{member.name[:100]}`")
        if len(parts) > limits.META.depth or len(contents) + len(folders) > limits.META.count:
            raise _no_meta("it has more files, or deeper folders, than any meta")
        at = stream.tell()
        if member.kind == "file":
            contents["/".join(parts)] = content[at : at + member.size]
        elif member.kind == "folder":
            folders["/".join(parts)] = None
        else:
            raise _no_meta(f"`{member.name[:100]}` is no plain file")
        for count in range(1, len(parts)):
            folders["/".join(parts[:count])] = None
    if contents.keys() & folders.keys():
        raise _no_meta("a folder in it is a file, too")
    return MetaFiles(files=contents, folders=tuple(folders))


def _no_meta(why: str) -> StackproofError:
    return fail(
        Reason.META_MISMATCH,
        f"the meta that is attached cannot be used: {why}",
        hint="ask who owns the image to push it again",
    )
