"""Whether a repository is what its index says: files gone, of another size, changed, left over."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.effects.foreign import folder as folders
from stackproof.core.effects.foreign.folder import LEFT
from stackproof.core.errors import StackproofError
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import Value, replace
from stackproof.share.effects import attachments, storing
from stackproof.share.effects.repository import IMAGES, ImageRepository, is_digest
from stackproof.share.labels import IMAGE, LabelRecord


class FaultKind(StrEnum):
    """What can be wrong in a repository."""

    INDEX = "index"
    """The index itself, as SQLite finds it."""
    GONE = "gone"
    """A label whose image is not there."""
    SIZE = "size"
    """An image of another size than the index has."""
    DIGEST = "digest"
    """An image whose content is not the one that its name says."""
    UNLABELLED = "unlabelled"
    """An image that no label names."""
    LEFT = "left"
    """What a command that was ended left behind."""


class RepositoryFault(Value):
    """One fault: where, in words, and whether it was put right."""

    fault: FaultKind
    label: str = ""
    path: str
    text: str
    mended: bool = False


def check(
    repository: ImageRepository, *, digests: bool = False, monitor: Monitor = null_monitor
) -> tuple[RepositoryFault, ...]:
    """Return the faults of a repository; `digests` reads every image to its end.

    Raises what reading the index raises: of one that cannot be read nothing else can be told.
    """
    found = [
        RepositoryFault(fault=FaultKind.INDEX, path=str(repository.folder), text=text)
        for text in repository.integrity()
    ]
    records = repository.records()
    seen: dict[str, RepositoryFault | None] = {}
    for number, record in enumerate(records, 1):
        if record.digest not in seen:
            text = str(record.label)
            monitor(Event(what="started", name="read", text=text, done=number, total=len(records)))
            seen[record.digest] = _of_image(record, digests=digests)
        fault = seen[record.digest]
        if fault is not None:
            found.append(replace(fault, label=str(record.label)))
    return (*found, *unnamed(repository, records))


def _of_image(record: LabelRecord, *, digests: bool) -> RepositoryFault | None:
    try:
        state = os.stat(record.file)
        size = state.st_size if stat.S_ISREG(state.st_mode) else -1
    except OSError as error:
        gone = isinstance(error, FileNotFoundError | NotADirectoryError)
        text = f"the image {'is not there' if gone else 'cannot be looked at'}: {error.strerror}"
        fault = FaultKind.GONE if gone else FaultKind.SIZE
        return RepositoryFault(fault=fault, path=record.file, text=text)
    if size != record.size:
        text = f"it has {size} bytes, the index says {record.size}"
        return RepositoryFault(fault=FaultKind.SIZE, path=record.file, text=text)
    if digests and (digest := files.sha256(record.file)) != record.digest:
        text = (
            f"its SHA-256 is {digest}; one that uenv pulled may be called by another digest, and "
            "is whole then"
        )
        return RepositoryFault(fault=FaultKind.DIGEST, path=record.file, text=text)
    return None


def _is_gone(record: LabelRecord) -> bool:
    found = _of_image(record, digests=False)
    return found is not None and found.fault is FaultKind.GONE


def unnamed(
    repository: ImageRepository, records: Sequence[LabelRecord]
) -> Iterator[RepositoryFault]:
    """Yield the files among the images that belong to none of the labels."""
    digests = {record.digest for record in records}
    images = [repository.folder_of(digest) for digest in sorted(digests)]
    for folder in (repository.folder, *images, *(path / attachments.FOLDER for path in images)):
        for path in _children(folder):
            if LEFT.fullmatch(path.name):
                text = "a file that a command did not write to its end"
                yield RepositoryFault(fault=FaultKind.LEFT, path=str(path), text=text)
    for path in _children(repository.folder / IMAGES):
        if path.name.startswith((storing.PART, storing.NEW, storing.GONE)):
            text = (
                "left by a command that was ended; `image pull` or `image add` of that image goes "
                "on with it"
            )
            yield RepositoryFault(fault=FaultKind.LEFT, path=str(path), text=text)
        elif is_digest(path.name) and path.name not in digests:
            whole = (path / IMAGE).is_file()
            text = "no label names it" if whole else "a folder without image"
            yield RepositoryFault(fault=FaultKind.UNLABELLED, path=str(path), text=text)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def mend(
    repository: ImageRepository, faults: Sequence[RepositoryFault]
) -> tuple[RepositoryFault, ...]:
    """Take away labels whose image is gone, and what is left over; return the faults as they are.

    What is damaged stays, and images without label: somebody may want them.
    """
    gone = {one.label for one in faults if one.fault is FaultKind.GONE}
    labels = tuple(
        one.label
        for one in repository.records()
        if str(one.label) in gone and _is_gone(one)  # it may have an image again
    )
    if labels:
        storing.remove(repository, labels)
    gone_now = cleared(repository, [one.path for one in faults if _may_go(one)])
    return tuple(
        replace(one, mended=one.fault is FaultKind.GONE or one.path in gone_now) for one in faults
    )


def _may_go(one: RepositoryFault) -> bool:
    return one.fault is FaultKind.LEFT or (
        one.fault is FaultKind.UNLABELLED and not os.path.exists(f"{one.path}/{IMAGE}")
    )


def is_busy(path: Path, unlabelled: Container[str]) -> bool:
    """Return true where a command works with what no label names: uenv labels an image last.

    An image that has lost its label is in the index still (`unlabelled`), and so it is nobody's.
    """
    return path.name not in unlabelled and storing.in_use(path)


def cleared(repository: ImageRepository, paths: Sequence[str]) -> frozenset[str]:
    """Delete what no label names, unless somebody is using it; return the paths that are gone."""
    try:
        unlabelled = repository.unlabelled() if paths else frozenset()
    except StackproofError:
        return frozenset()
    every = list(map(Path, paths))
    swept = [one for one in every if is_digest(one.name) and not is_busy(one, unlabelled)]
    # The index is changed once for all folders; where one of them stays, each is tried by itself.
    gone = _swept(repository, swept, unlabelled) or [
        one for one in swept if _swept(repository, [one], unlabelled)
    ]
    for one in every:
        if not is_digest(one.name) and not is_busy(one, unlabelled) and _removed(one):
            gone.append(one)
    return frozenset(map(str, gone))


def _swept(
    repository: ImageRepository, paths: Sequence[Path], unlabelled: Container[str]
) -> list[Path]:
    by_name = {path.name: path for path in paths}

    def idle(name: str) -> bool:
        return not is_busy(by_name[name], unlabelled)

    try:
        names = storing.sweep(repository, *by_name, idle=idle) if paths else ()
    except StackproofError:
        return []
    return [by_name[name] for name in names]


def _removed(path: Path) -> bool:
    try:
        with folders.open_folder(path.parent) as parent:
            parent.remove(path.name)
    except StackproofError:
        return False
    return True
