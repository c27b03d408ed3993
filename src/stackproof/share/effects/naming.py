"""Words that name images, files or labels, to files: the one place where a label becomes a path.

A file of that name wins, so that nothing changes for who names files; `./NAME` is always a file. A
word that is no file and looks like none (`LOOKS`) is a label, an id or a digest.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence

from stackproof.core import mountlist
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.mountlist import MountRequest
from stackproof.share import labels
from stackproof.share.effects import places
from stackproof.share.labels import Label, LabelRecord

_USE_NOTED_S = 3600.0


def looks_like_a_file(word: str) -> bool:
    """Return whether a word cannot be meant as a label: a path, or a name with our suffix."""
    return word.startswith(("/", ".", "~")) or word.endswith((".squashfs", ".sqfs", ".sif"))


def record_of(word: str) -> LabelRecord | None:
    """Return the record that a word means, None for none, or where it is no label at all.

    Raises `StackproofError`: LABEL_AMBIGUOUS, IMAGE_MISSING where the file is gone, and what
    reading repositories raises.
    """
    if looks_like_a_file(word) or not labels.is_label(word):
        return None
    found = labels.only(places.candidates(labels.parse(word)), word, system=places.system())
    if found is not None and not os.path.isfile(found.file):
        raise fail(
            Reason.IMAGE_MISSING,
            f"the image of the label `{found.label}` is gone",
            where=Location(file=found.file),
            hint="`stackproof image fsck` says what else is; `stackproof image rm` forgets it",
        )
    return found


def file_of(word: str) -> str:
    """Return the file or folder that a word names; the word itself where it means nothing.

    Whoever reads the file says then that it is not there. Raises as `record_of`.
    """
    if os.path.exists(word):
        return word
    found = record_of(word)
    if found is None:
        return word
    _note_use(found)
    return found.file


def image_file(word: str) -> str:
    """Return the file that a word names, which must be an image's.

    Raises as `record_of`, and IMAGE_MISSING for a label that there is not, with what was meant.
    """
    return word if os.path.isfile(word) else image_asked(word)[0]


def image_asked(word: str) -> tuple[str, str]:
    """Return the image's file that a word names, and the label, in full, that it asks for.

    No label is asked for by a path, an id or a digest: they say which bytes are meant. A file in
    the working folder, which somebody else may have put there, is taken as a label of that name.
    Raises as `image_file`.
    """
    if looks_like_a_file(word):
        return word, ""
    is_file = os.path.isfile(word)
    found = record_of(word)
    if found is not None or is_file:
        label = "" if found is None else _label_of(found, word)
        if found is None or is_file:
            return word, label
        _note_use(found)
        return found.file, label
    before, colon, behind = word.partition(":")
    if behind.startswith(":") and not os.path.lexists(word):
        raise fail(
            Reason.IMAGE_MISSING,
            f"`{word}` names an image of a registry, not one that is here",
            hint=f"`stackproof image pull {word}`, then name it as `{behind[1:]}`",
        )
    if colon and os.path.isfile(before):
        raise fail(
            Reason.BAD_MOUNT_POINT,
            f"`{behind}` cannot be a mount point: it is not absolute",
            where=Location(file=before),
            hint=f"write `{before}:/user-environment`, or leave it out",
        )
    known = places.records()
    if not known or os.path.lexists(word):
        return word, ""
    folders = "`, `".join(str(one.folder) for one in places.repositories())
    raise fail(
        Reason.IMAGE_MISSING,
        f"there is no image `{word}`: neither a file, nor a label in `{folders}`",
        hint=f"{labels.guess(known, word, system=places.system())}"
        "`stackproof image ls` lists the labels",
    )


def _label_of(record: LabelRecord, word: str) -> str:
    """Return the label of a record that a word means, nothing for an id or a digest.

    Raises `StackproofError` (REPOSITORY_DAMAGED) for one that would be read as another label.
    """
    text = str(record.label)
    if word in {record.id, record.digest} and word != record.label.name:
        return ""
    if labels.is_label(text) and labels.parse(text) == record.label:
        return text
    raise fail(
        Reason.REPOSITORY_DAMAGED,
        f"the index of a repository has a label that is none, `{text[:200]}`",
        where=Location(file=record.file),
        hint="move the index away, or set STACKPROOF_REPOSITORY to another folder",
    )


def images(requests: Sequence[MountRequest]) -> tuple[MountRequest, ...]:
    """Return requests with files in the place of labels; raises all problems at once."""
    found: list[MountRequest] = []
    problems: list[Problem] = []
    for request in requests:
        try:
            path, label = image_asked(request.image)
        except StackproofError as error:
            problems += error.problems
            continue
        found.append(MountRequest(image=path, mount_point=request.mount_point, label=label))
    if problems:
        raise StackproofError(*problems)
    return tuple(found)


def text_of(text: str) -> str:
    """Return `IMAGE[:MOUNT]`, or a folder, with a file in the place of a label.

    Raises as `file_of`.
    """
    if os.path.exists(text):
        return text
    image, point = mountlist.split(text)
    path = file_of(image)
    return text if path == image else path if point is None else f"{path}:{point}"


def labels_of(path: str) -> tuple[str, ...]:
    """Return the labels of an image by its path; none for one that lies in no repository."""
    folder, name = os.path.split(os.path.abspath(path))
    if name != labels.IMAGE:
        return ()
    meant = Label(name=os.path.basename(folder))
    with contextlib.suppress(StackproofError):
        return tuple(str(one.label) for one in places.candidates(meant) if one.folder == folder)
    return ()


def last_use(folder: str) -> float:
    """Return when the image of a folder was last used, by a label or read; 0 where it is gone.

    In seconds since 1970. Reads show where the file system writes times of access down.
    """
    try:
        return max(os.stat(folder).st_mtime, os.stat(f"{folder}/{labels.IMAGE}").st_atime)
    except OSError:
        return 0.0


def _note_use(record: LabelRecord) -> None:
    """Leave a trace of a use, by which unused images are found; at most one an hour."""
    with contextlib.suppress(OSError):
        state = os.stat(record.folder)
        if state.st_uid == os.geteuid() and time.time() - state.st_mtime > _USE_NOTED_S:
            os.utime(record.folder)
