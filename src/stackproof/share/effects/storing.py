"""Images put into a repository and taken out of it, whole or not at all.

An image is copied beside its place under a name by its digest, with a lock on that copy: what was
copied when a command was killed is used by the next one, and of several that add one image one
copies. Folder and label become visible in one transaction of the index; a folder goes only while
the index is held and no label names it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.image.effects.load import load_superblock
from stackproof.share import labels
from stackproof.share.effects.repository import IMAGES, ImageRepository, IndexChange, is_digest
from stackproof.share.labels import IMAGE, Label, LabelRecord

PART = ".part-"
"""How an unfinished copy is called, with the digest behind it."""
NEW = ".new-"
"""How a folder is called that will be an image's."""
GONE = ".gone-"
"""How a folder is called that is being deleted."""
_CHUNK = 1 << 20
_YOUNG_S = 600.0  # of clocks of other nodes, too


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """What gets a label: a file, which may be `moved`; `force` takes the label from another image.

    `known` is the digest of an image that is in the repository, which is then only labelled.
    """

    label: Label
    file: str
    known: str = ""
    move: bool = False
    force: bool = False


def add(
    repository: ImageRepository, options: AddOptions, monitor: Monitor = null_monitor
) -> LabelRecord:
    """Give an image a label, and copy it into the repository unless it is there.

    Raises `StackproofError`: LABEL_TAKEN, DISK_FULL, NOT_PERMITTED, IMAGE_DAMAGED for a file that
    changes meanwhile, and what reading images and changing the index raises.
    """
    _, size = load_superblock(options.file)
    monitor(Event(what="started", name="read", text=options.file))
    digest = options.known or files.sha256(options.file)
    refuse_taken(repository, options.label, digest, force=options.force)
    folder = repository.folder_of(digest)
    record = LabelRecord(
        label=options.label,
        date=_date(options.file),
        size=size,
        digest=digest,
        folder=str(folder),
    )
    if label_present(repository, record, force=options.force):
        return record
    with _copied(repository, options, digest, monitor) as part:
        publish(repository, record, part, unpack_meta, force=options.force)
    if options.move:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(options.file)
    return record


def publish(
    repository: ImageRepository,
    record: LabelRecord,
    part: Path,
    unpack: Callable[[Path, Path], None],
    *,
    force: bool,
) -> None:
    """Make a copy that is held the image of a label; `unpack` puts beside it what belongs there.

    It is given the copy and the folder. Raises as `add`.
    """
    folder = repository.folder_of(record.digest)
    new = folder.with_name(f"{NEW}{record.digest}.{os.getpid()}")
    try:
        files.remove(new)
        new.mkdir(parents=True)
        unpack(part, new)
        part.rename(new / IMAGE)  # last: what has it is whole
        with repository.changing() as change:
            _check_free(change, record.label, record.digest, force=force)
            gone = _place(new, folder, record.size)
            change.add(record)
        if gone is not None:
            files.remove(gone)
    except OSError as error:
        raise files.translate(error, folder) from error
    finally:
        files.remove(new)


def label_present(repository: ImageRepository, record: LabelRecord, *, force: bool) -> bool:
    """Give a label to an image that is in the repository; return whether it is, whole."""
    folder = repository.folder_of(record.digest)
    if not is_whole(folder, record.size):
        return False
    with repository.changing() as change:
        if not is_whole(folder, record.size):
            return False
        _check_free(change, record.label, record.digest, force=force)
        change.add(record)
    return True


def refuse_taken(repository: ImageRepository, label: Label, digest: str, *, force: bool) -> None:
    """Raise LABEL_TAKEN before anything is copied; looked at again when the label is given."""
    taken = {str(one.label): one.digest for one in repository.records()}
    _refuse(taken.get(str(label), ""), label, digest, force=force)


def _check_free(change: IndexChange, label: Label, digest: str, *, force: bool) -> None:
    _refuse(change.digest_of(label), label, digest, force=force)


def _refuse(taken: str, label: Label, digest: str, *, force: bool) -> None:
    if taken and taken != digest and not force:
        raise fail(
            Reason.LABEL_TAKEN,
            f"the label `{label}` is that of another image, `{taken[:16]}`",
            hint="take another tag, or give --force: the other image keeps its further labels",
        )


def is_whole(folder: Path, size: int) -> bool:
    """Return whether the folder of an image has it, in the size that it must have."""
    try:
        return (folder / IMAGE).stat().st_size == size
    except OSError:
        return False


@contextlib.contextmanager
def _copied(
    repository: ImageRepository, options: AddOptions, digest: str, monitor: Monitor
) -> Iterator[Path]:
    """Hold a copy of the file in the repository, which another of the same digest goes on with."""
    part = repository.folder / IMAGES / f"{PART}{digest}"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        if options.move:
            with contextlib.suppress(OSError):  # on another file system, or begun as a copy
                os.link(options.file, part)
        descriptor = own(part)
        try:
            if _fill(descriptor, options.file, monitor) != digest:
                if os.fstat(descriptor).st_nlink == 1:
                    os.ftruncate(descriptor, 0)  # what was there was none of this file
                if _fill(descriptor, options.file, monitor) != digest:
                    files.remove(part)
                    raise _changed(options.file)
            os.fsync(descriptor)
            os.fchmod(descriptor, 0o444)
            yield part
        except OSError:
            files.remove(part)  # no room: what was copied only takes more of it
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise files.translate(error, part) from error


def own(part: Path) -> int:
    """Return the descriptor of a copy that nobody else is making, once that is so."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(FileNotFoundError):
            part.chmod(0o644)  # one that is whole is read-only
        descriptor = os.open(part, flags, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == part.stat().st_ino:
                return descriptor
        os.close(descriptor)  # another has finished it, and moved it to its place


def _fill(descriptor: int, source: str, monitor: Monitor) -> str:
    """Copy the rest of a file, and return the digest of all that then is in the copy."""
    total = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(source, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        while chunk := os.read(descriptor, _CHUNK):
            total.update(chunk)
        done = os.lseek(descriptor, 0, os.SEEK_CUR)
        stream.seek(done)
        # No more than there was at the beginning: somebody may be writing to it for ever.
        while done < size and (chunk := stream.read(min(_CHUNK, size - done))):
            total.update(chunk)
            write(descriptor, chunk)
            done += len(chunk)
            text = f"{100 * done // max(size, 1)} % of {source}"
            monitor(Event(what="progress", name="copy", text=text))
    return total.hexdigest()


def write(descriptor: int, chunk: bytes | memoryview) -> None:
    """Write all of some bytes."""
    left = memoryview(chunk)
    while left:
        left = left[os.write(descriptor, left) :]


def _place(new: Path, folder: Path, size: int) -> Path | None:
    """Bring a folder to its place; one that is whole there stays: jobs may have it mounted.

    Returns what then has to be deleted, None for nothing.
    """
    if is_whole(folder, size):
        return None
    gone = _away(folder) if os.path.lexists(folder) else None
    new.rename(folder)
    return gone


def unpack_meta(image: Path, folder: Path) -> None:
    """Put the folder `meta` of an image beside it, as uenv does, so that it need not unpack it."""
    from stackproof.image.effects import meta_files  # noqa: PLC0415 - `image ls` would import it

    meta_files.unpack(str(image), folder)


def remove(repository: ImageRepository, labels: tuple[Label, ...]) -> tuple[str, ...]:
    """Take labels away, and delete the images that have none then; return their digests.

    Raises what changing the index raises. A job that has an image mounted from a local disk keeps
    it; over NFS or Lustre it may not.
    """
    with repository.changing() as change:
        digests = {str(label): change.digest_of(label) for label in labels}
        change.forget(labels)
    gone = [digest for digest in dict.fromkeys(digests.values()) if digest]
    return tuple(digest for digest in gone if sweep(repository, digest))


def sweep(repository: ImageRepository, digest: str) -> bool:
    """Delete an image that no label names; return whether that was so."""
    folder = repository.folder_of(digest)
    with repository.changing() as change:
        if change.has(digest):
            return False
        change.forget_unlabelled()
        gone = _away(folder) if os.path.lexists(folder) else None
    if gone is not None:
        files.remove(gone)
    return True


def _away(folder: Path) -> Path:
    """Give a folder a name under which it is nobody's, and return that."""
    gone = folder.with_name(f"{GONE}{folder.name}.{os.getpid()}")
    try:
        files.remove(gone)
        folder.rename(gone)
    except OSError as error:
        raise files.translate(error, folder) from error
    return gone


def _date(path: str) -> str:
    """Return when a file was changed, in UTC, as uenv writes it."""
    when = datetime.fromtimestamp(os.stat(path).st_mtime, UTC)
    return labels.readable_date(when.strftime("%Y-%m-%d %H:%M:%S"))


def _changed(path: str) -> StackproofError:
    return fail(
        Reason.IMAGE_DAMAGED,
        f"`{path}` changes while it is read",
        where=Location(file=path),
        hint="add it when whoever writes it has ended",
    )


def in_use(left: Path) -> bool:
    """Return whether a command is working at this moment with a copy or folder of `PART`, `NEW`.

    Or, in the folder of an image, uenv: its pull holds a lock beside it, its `add` none.
    """
    if is_digest(left.name):
        young = time.time() - max(map(_changed_at, (left, left / IMAGE))) < _YOUNG_S
        return young or _is_locked(left.with_name(f"{left.name}.lock"))
    digest = left.name.removeprefix(PART).removeprefix(NEW).partition(".")[0]
    part = left.with_name(f"{PART}{digest}")
    return any(_is_locked(path) for path in (left, part, left / IMAGE))


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
