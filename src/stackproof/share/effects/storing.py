"""Images put into a repository and taken out of it, whole or not at all.

An image is copied beside its place under a name by its digest, with a lock on that copy: what was
copied when a command was killed is used by the next one, and of several that add one image one
copies. Folder and label become visible in one transaction of the index; a folder goes only while
the index is held and no label names it. Until then a folder is for nobody else. All goes by the
descriptors of folders that were judged: `foreign.folder`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.effects.foreign.folder import (
    LEFT,
    OpenFolder,
    fault,
    owner_text,
    refused,
    umask,
)
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import Value
from stackproof.image.effects.image_file import load_superblock
from stackproof.share import labels
from stackproof.share.effects.repository import ImageRepository, is_digest
from stackproof.share.labels import IMAGE, Label, LabelRecord

PART = ".part-"
"""How an unfinished copy is called, with the digest behind it."""
NEW = ".new-"
"""How a folder is called that will be an image's."""
GONE = ".gone-"
"""How a folder is called that is being deleted."""
_CHUNK = 1 << 20
_TRIES = 1000
_YOUNG_S = 600.0  # of clocks of other nodes, too


class AddOptions(Value):
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
    folder = repository.folder_of(digest)
    record = LabelRecord(
        label=options.label,
        date=_date(options.file),
        size=size,
        digest=digest,
        folder=str(folder),
    )
    refuse_taken(repository, record, force=options.force)
    if label_present(repository, record, force=options.force):
        return record
    with (
        repository.opened_images() as images,
        _copied(images, options, digest, monitor) as descriptor,
    ):
        publish(repository, record, (images, descriptor), unpack_meta, force=options.force)
    if options.move:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(options.file)
    return record


def publish(
    repository: ImageRepository,
    record: LabelRecord,
    copy: tuple[OpenFolder, int],
    unpack: Callable[[Path, Path], None],
    *,
    force: bool,
) -> None:
    """Make a copy that is held the image of a label; `unpack` puts beside it what belongs there.

    It is given the copy and the folder, by names that nobody else can exchange. `copy` is the
    folder of images, and the descriptor of the copy in it. Raises as `add`.
    """
    images, descriptor = copy
    name = f"{NEW}{record.digest}.{os.getpid()}"
    try:
        images.remove(name)
        mode = 0o777 if images.shared else 0o755
        with images.make_folder(name, 0o700) as new:
            unpack(_fixed(descriptor), _fixed(images.descriptor) / name)
            images.rename(f"{PART}{record.digest}", IMAGE, to=new)  # last: what has it is whole
            _check_same(new, descriptor)
            new.set_mode(mode & ~umask())
        with repository.changing() as change:
            _check_free(change.digest_of(record.label), record, force=force)
            gone = _place(images, name, record)
            change.add(record)
        if gone:
            discard(images, gone)
    except OSError as error:
        raise files.translate(error, Path(record.folder)) from error
    finally:
        images.remove(name)


def _fixed(descriptor: int) -> Path:
    """Return a path of an open file or folder, for this process and for those that it starts."""
    return Path(f"/proc/{os.getpid()}/fd/{descriptor}")


def _check_same(new: OpenFolder, descriptor: int) -> None:
    state = new.state(IMAGE)
    if state is None or not os.path.samestat(state, os.fstat(descriptor)):
        raise refused(new.path / IMAGE, "was exchanged by somebody meanwhile")


def label_present(repository: ImageRepository, record: LabelRecord, *, force: bool) -> bool:
    """Give a label to an image that is in the repository; return whether it is, whole."""
    if not repository.folder_of(record.digest).exists():
        return False
    with repository.opened_images() as images:
        if not is_whole(images, record):
            return False
        with repository.changing() as change:
            if not is_whole(images, record):
                return False
            _check_free(change.digest_of(record.label), record, force=force)
            change.add(record)
    return True


def refuse_taken(repository: ImageRepository, record: LabelRecord, *, force: bool) -> None:
    """Raise LABEL_TAKEN before anything is copied; looked at again when the label is given."""
    for one in repository.candidates(record.label):
        if one.label == record.label:
            _check_free(one.digest, record, force=force)


def _check_free(taken: str, record: LabelRecord, *, force: bool) -> None:
    """Raise LABEL_TAKEN where a label is that of another image, by the digest `taken`."""
    if taken and taken != record.digest and not force:
        raise fail(
            Reason.LABEL_TAKEN,
            f"the label `{record.label}` is that of another image, `{taken[:16]}`",
            hint="take another tag, or give --force: the other image keeps its further labels",
        )


def is_whole(images: OpenFolder, record: LabelRecord) -> bool:
    """Return true for an image whose folder has it, in the size that it must have.

    One that somebody else put there, or a link to elsewhere, is none.
    """
    try:
        with images.open_folder(record.digest) as folder:
            state = folder.state(IMAGE)
            return (
                state is not None
                and stat.S_ISREG(state.st_mode)
                and not fault(state, shared=folder.shared)
                and state.st_size == record.size
            )
    except StackproofError:
        return False


@contextlib.contextmanager
def _copied(
    images: OpenFolder, options: AddOptions, digest: str, monitor: Monitor
) -> Iterator[int]:
    """Hold a copy of the file in the repository, which another of the same digest goes on with."""
    part = f"{PART}{digest}"
    try:
        if options.move:
            with contextlib.suppress(OSError):  # on another file system, or begun as a copy
                os.link(options.file, part, dst_dir_fd=images.descriptor, follow_symlinks=False)
        descriptor = own(images, part, moved=options.file if options.move else "")
        try:
            if _fill(descriptor, options.file, monitor) != digest:
                if os.fstat(descriptor).st_nlink == 1:
                    os.ftruncate(descriptor, 0)  # what was there was none of this file
                if _fill(descriptor, options.file, monitor) != digest:
                    images.remove(part)
                    raise fail(
                        Reason.IMAGE_DAMAGED,
                        f"`{options.file}` changes while it is read",
                        where=Location(file=options.file),
                        hint="add it when the program that writes it has ended",
                    )
            os.fsync(descriptor)
            os.fchmod(descriptor, 0o444)
            yield descriptor
        except OSError:
            images.remove(part)  # no room: what was copied only takes more of it
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise files.translate(error, images.path / part) from error


def own(images: OpenFolder, part: str, *, moved: str = "") -> int:
    """Return the descriptor of a copy that nobody else is making, once that is so.

    What lies there and is not this user's own plain file is taken away, and not looked at; `moved`
    is the file that has that name as its second one.
    """
    for _ in range(_TRIES):
        descriptor, names = _opened(images, part, moved)
        if descriptor is not None:
            locked = _lock(descriptor)
            state, ours = images.state(part), os.fstat(descriptor)
            same = state is not None and os.path.samestat(state, ours)
            if locked and same and ours.st_nlink <= names:
                return descriptor
            os.close(descriptor)
            if not same:
                continue  # another has finished it, and moved it to its place
        owner = images.state(part)
        try:
            discard(images, part)
        except StackproofError as error:
            who = f"belongs to {owner_text(owner.st_uid)}" if owner else "cannot be taken away"
            raise refused(images.path / part, who) from error
    raise refused(images.path / part, "is exchanged by somebody all the time")


def _lock(descriptor: int) -> bool:
    """Wait for the lock of a copy; return false where NFS has none for what is only read."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return False
    return True


def _opened(images: OpenFolder, part: str, moved: str) -> tuple[int | None, int]:
    """Open a copy, made where there is none, and say how many names it may have.

    None for what is not this user's own plain file. Of one with more names nothing is changed yet:
    another command may be moving it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with contextlib.suppress(FileExistsError):
        return os.open(part, flags, 0o644, dir_fd=images.descriptor), 1
    try:
        handle = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=images.descriptor)
    except FileNotFoundError:
        return None, 1
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid():
            return None, 1
        names = state.st_nlink if moved and _is_file(moved, state) else 1
        path = f"/proc/self/fd/{handle}"  # the file itself, whatever its name is by now
        if state.st_nlink == 1:  # of one that is moved nothing is changed before it is read
            os.chmod(path, 0o644)  # one that is whole is read-only
        with contextlib.suppress(PermissionError):
            return os.open(path, os.O_RDWR | os.O_CLOEXEC), names
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC), names
    except PermissionError:
        return None, 1
    finally:
        os.close(handle)


def _is_file(path: str, state: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(os.lstat(path), state)
    return False


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


def _place(images: OpenFolder, new: str, record: LabelRecord) -> str:
    """Bring a folder to its place; one that is whole there stays: jobs may have it mounted.

    Returns the name of what then has to be deleted, empty for nothing.
    """
    if is_whole(images, record):
        return ""
    gone = _away(images, record.digest)
    images.rename(new, record.digest)
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
    return sweep(repository, *(digest for digest in dict.fromkeys(digests.values()) if digest))


def sweep(
    repository: ImageRepository, *digests: str, idle: Callable[[str], bool] = lambda _: True
) -> tuple[str, ...]:
    """Delete the images of these that no label names; return which these are.

    `idle` is asked while the index is held: of what somebody uses by then nothing is deleted.
    """
    gone: dict[str, str] = {}
    with repository.opened_images() as images:
        try:
            with repository.changing() as change:
                change.forget_unlabelled()
                for digest in change.without_label(digests):
                    if idle(digest):
                        gone[digest] = _away(images, digest)
        finally:  # where one of them stays, those before it are away already
            for name in filter(None, gone.values()):
                discard(images, name)
    return tuple(gone)


def discard(images: OpenFolder, name: str) -> None:
    """Delete an entry; a folder that only its owner can empty stays, by a name that `fsck` tells.

    Raises NOT_PERMITTED where it cannot be renamed either.
    """
    try:
        images.remove(name)
    except StackproofError as error:
        if error.reason is not Reason.NOT_PERMITTED:
            raise
        if not name.startswith(GONE):
            images.rename(name, f"{GONE}{os.urandom(12).hex()}")


def _away(images: OpenFolder, digest: str) -> str:
    """Give an image's folder a name under which it is nobody's; return that, empty for none."""
    gone = f"{GONE}{digest}.{os.urandom(6).hex()}"
    if images.state(digest) is None:
        return ""
    images.rename(digest, gone)
    return gone


def _date(path: str) -> str:
    """Return when a file was changed, in UTC, as uenv writes it."""
    try:
        changed = os.stat(path).st_mtime
    except OSError as error:  # somebody has taken it away meanwhile
        raise files.translate(error, path) from error
    when = datetime.fromtimestamp(changed, UTC)
    return labels.readable_date(when.strftime("%Y-%m-%d %H:%M:%S"))


def in_use(left: Path) -> bool:
    """Return True while a command works with a copy or folder of `PART`, `NEW`.

    Or, in the folder of an image, uenv: its pull holds a lock beside it, its `add` none.
    """
    if is_digest(left.name):
        young = time.time() - max(map(_changed_at, (left, left / IMAGE))) < _YOUNG_S
        return young or _is_locked(left.with_name(f"{left.name}.lock"))
    if LEFT.fullmatch(left.name) and not left.name.startswith((PART, NEW, GONE)):
        return _is_locked(left)
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
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
