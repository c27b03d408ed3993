"""An image installed at a prefix: moved there in a folder of its own, switched to by one rename.

The prefix is a link to a version beside it, as an injection's place is: programs that run keep the
version that they were started from, and the one before can be gone back to.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.effects import tree
from stackproof.image.effects.image_file import load_image
from stackproof.inject.effects import versions
from stackproof.inject.effects.versions import Before
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView
from stackproof.pack.effects.make import PackWishes, make
from stackproof.pack.model import Moved
from stackproof.pack.options import InstallOptions

_RECORD = "meta/installed.json"


class Installed(Value):
    """The record of a version: of which image, what was moved, and what the prefix was before.

    `before` is the text of the prefix as a link, empty where nothing was there. `moved` is empty
    where the prefix is the place that the image was built for. `changed` is whether it was not so
    already.
    """

    SCHEMA: ClassVar[str] = "stackproof/installed/1"

    place: str
    name: str
    image: str
    image_sha256: str
    view: str = ""
    before: str = ""
    moved: tuple[Moved, ...] = ()
    changed: bool = True


def install(options: InstallOptions, image: str) -> Installed:
    """Install an image at a prefix and return what was done.

    Raises `StackproofError`: what `make` raises, UNSUPPORTED with every file that cannot be moved,
    USAGE for a prefix that something else is at, BUSY, NOT_PERMITTED, DISK_FULL. What was there
    stays as it was then.
    """
    place = _place(options.to)
    found = load_image(image)
    view = options.view or found.default_view or ""
    digest = files.sha256(image)
    _refuse_others(place)
    with versions.locked(place) as keep:
        now = _recorded(keep)
        if now and (now.image_sha256, now.view) == (digest, view):
            return replace(now, changed=False)
        with versions.staging(keep) as folder:
            moved = _filled(image, options, found.mount, Path(folder))
            number = versions.free_number(keep)
            before = versions.look_before(keep, number)
            if before.is_folder:  # somebody made it meanwhile
                _refuse_others(place)
            record = Installed(
                place=place,
                name=found.name,
                image=os.path.abspath(image),
                image_sha256=digest,
                view=view,
                before=before.text,
                moved=moved,
            )
            _write_record(folder, record)
            versions.normalise(folder)
            version = versions.name_version(keep, number)
        versions.switch(keep, version, before)
    return record


def undo(options: InstallOptions) -> Installed:
    """Let a prefix be what it was before its version, and return that version's record."""
    place = _place(options.to)
    if not os.path.islink(place) or _current(place) is None:
        raise _not_ours(options.to)
    with versions.locked(place) as keep:
        record = _recorded(keep)
        if record is None:
            raise _not_ours(options.to)
        hint = f"`rm {place}` removes what is there now"
        versions.go_back(keep, Before(text=record.before), hint)
    return record


def has_mpi(place: str) -> bool:
    """Return True for a prefix with an MPI that `inject … --with` finds."""
    try:
        return bool(find_replacement(RootView(), place).mains)
    except StackproofError:  # it has no MPI, or several
        return False


def _not_ours(text: str) -> StackproofError:
    return fail(
        Reason.FILE_MISSING,
        f"`{text}` was not made by `stackproof install`",
        where=Location(file=text),
        hint="name the prefix that was given as --to",
    )


def _place(text: str) -> str:
    if ":" in text or ";" in text:
        raise fail(
            Reason.USAGE,
            f"`{text}` cannot be a prefix: `:` and `;` part lists of folders",
            hint="name another folder",
        )
    return versions.real_place(text)


def _refuse_others(place: str) -> None:
    """Raise `StackproofError` (USAGE) for a prefix that is there and that nobody installed."""
    if not os.path.lexists(place) or (os.path.islink(place) and _current(place)):
        return
    what = "is a mount point" if os.path.ismount(place) else "exists"
    raise fail(
        Reason.USAGE,
        f"`{place}` {what}, and `stackproof install` did not make it",
        where=Location(file=place),
        hint="name a prefix that is not there yet: what is in use must not change",
    )


def _current(place: str) -> Installed | None:
    """Return the record of the version that a prefix points to, None where it is none of ours.

    Whoever acts on it asks `_recorded`, with the lock held.
    """
    folder = versions.current(place)
    return _record_of(folder) if folder else None


def _recorded(keep: versions.Keep) -> Installed | None:
    version = keep.version()
    return _record_of(keep.path(version)) if version else None


def _record_of(folder: str) -> Installed | None:
    path = os.path.join(folder, _RECORD)
    try:
        return noun.from_json(Installed, files.read_bounded(path, limits.LOCK), file=path)
    except StackproofError as error:
        if error.reason is Reason.FILE_MISSING:
            return None
        raise


def _write_record(folder: str, record: Installed) -> None:
    """Write the record into a tree; raises `StackproofError` where it has no folder for that."""
    path = os.path.join(folder, _RECORD)
    if os.path.islink(os.path.dirname(path)):
        raise fail(
            Reason.UNSUPPORTED,
            f"`{os.path.dirname(_RECORD)}` of the image is a link",
            where=Location(file=record.image),
            hint="make images with `stackproof build`",
        )
    files.write(path, noun.to_json(record))


def _filled(image: str, options: InstallOptions, mount: str, folder: Path) -> tuple[Moved, ...]:
    """Fill a folder with what an image holds; return what was moved, if it had to be."""
    if os.path.abspath(options.to) == mount:
        tree.unpack(image, folder, mount).close()
        return ()
    return make(image, PackWishes(view=options.view, tier=0), folder).moved
