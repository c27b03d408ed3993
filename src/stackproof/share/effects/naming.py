"""Words that name images, files or labels, to files: the one place where a label becomes a path.

A file of that name wins, so that nothing changes for who names files; `./NAME` is always a file. A
word that is no file and looks like none (`LOOKS`) is a label, an id or a digest.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence

from stackproof.core import mountlist
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.mountlist import MountRequest
from stackproof.share import labels
from stackproof.share.effects import places
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.labels import Label, LabelRecord

_USE_NOTED_S = 3600.0
_HERE = "here"
"""The system of a label on a machine that has no name by its site: a host's name is that of one
node, and changes."""


def looks_like_a_file(word: str) -> bool:
    """Return True for a word that cannot be meant as a label: a path, or a name with our suffix."""
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
    from stackproof.core.effects import files  # noqa: PLC0415 - slow, and for failures alone
    from stackproof.image.container.effects import roots  # noqa: PLC0415 - as above

    if os.path.lexists(word) or roots.is_image(word):
        return word, ""
    files.refuse_closed(word)
    guess = labels.guess(places.records(), word, system=places.system())
    raise fail(
        Reason.IMAGE_MISSING,
        f"there is no image `{word}`: {describe_missing()}",
        hint=f"{guess}`stackproof image ls` lists the labels, `stackproof image pull` brings one "
        "from a registry, and `stackproof build` makes an image",
    )


def describe_missing() -> str:
    """Return the words on a name that no file and no label has."""
    folders = "`, `".join(str(repository.folder) for repository in places.repositories())
    return f"neither a file, nor a label in `{folders}`"


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


def whole_label(text: str, like: Label, image: str) -> tuple[Label, str]:
    """Return a label with all parts for an image file, and a note on those that were left out.

    They are those of `like`; else the system is the site's, or `here`, and the architecture what
    the image says that it was built for, or this machine's. The note is empty where none was left
    out. Raises `StackproofError` (USAGE) without name, version or tag.
    """
    label = labels.parse(text)
    built_for = "" if label.uarch or like.uarch else _built_for(image)
    return labels.completed(
        label,
        (like, "as its other label"),
        (Label(system=places.system()), f"as {places.SYSTEM} says"),
        (Label(uarch=built_for), "which it was built for"),
        (Label(system=_HERE), f"as {places.SYSTEM} is not set"),
        (Label(uarch=os.uname().machine), "as this machine"),
    )


def _built_for(image: str) -> str:
    """Return the machine that an image was built for, empty where it does not say it."""
    from stackproof.image.effects.image_file import read_member  # noqa: PLC0415 - for new labels alone

    try:
        stack = json.loads(read_member(image, "meta/stack.json") or b"{}")
    except (StackproofError, ValueError, RecursionError):
        return ""  # what is wrong with the image is said when it is added
    said = [stack.get(key) for key in ("target", "architecture")] if isinstance(stack, dict) else []
    return next((text for text in said if isinstance(text, str) and labels.is_part(text)), "")


def labels_to_remove(
    repository: ImageRepository, words: Sequence[str], *, exact: bool
) -> tuple[LabelRecord, ...]:
    """Return the records that words mean, a digest or an id all of its image.

    With `exact` a label must be given with all its parts. Raises all problems at once:
    IMAGE_MISSING, which suggests no other image to delete, LABEL_AMBIGUOUS and USAGE.
    """
    found: list[LabelRecord] = []
    problems: list[Problem] = []
    for word in words:
        try:
            found += _to_remove(repository, word, exact=exact)
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return tuple(found)


def _to_remove(repository: ImageRepository, word: str, *, exact: bool) -> tuple[LabelRecord, ...]:
    label = labels.parse(word)
    records = repository.candidates(label)
    if whole := tuple(one for one in records if word in {one.id, one.digest}):
        return whole
    meant = labels.chosen(records, word, system=places.system())
    if not meant:
        raise fail(
            Reason.IMAGE_MISSING,
            f"no image of `{repository.folder}` has the label `{word}`",
            hint="`stackproof image ls` lists the labels",
        )
    if len(meant) > 1:
        raise fail(
            Reason.LABEL_AMBIGUOUS,
            f"`{word}` means {len(meant)} labels",
            detail=labels.table(meant),
            hint=f"name each of them in full, as `{meant[0].label}`",
        )
    if exact and label != meant[0].label:
        raise fail(
            Reason.USAGE,
            f"nobody confirms this (--yes, or no terminal), and `{word}` is no label in full",
            hint=f"give NAME/VERSION:TAG@SYSTEM%UARCH, `{meant[0].label}`, or its id, "
            f"`{meant[0].id}`",
        )
    return meant
