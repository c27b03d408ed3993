"""Unpack a foreign tree: nothing of it is anybody's but the caller's, and no link is followed.

A program parses it behind walls (`parser`), as root without root's rights, into a folder that no
other user can enter. What came out is walked by descriptors, given to the caller, judged, and only
then gets its name by a rename.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from stackproof.core import limits, links
from stackproof.core.effects import files, sandbox
from stackproof.core.effects.foreign import parser
from stackproof.core.effects.foreign.parser import Bounds, Ended, StartError
from stackproof.core.effects.foreign.tree import ForeignTree, set_mode
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.limits import Limit
from stackproof.core.links import LinkRules
from stackproof.core.value import Value

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME = "tree"
_TOO_MUCH = "more files, or larger ones, than such an image has"
_NOT_ALL = 2  # unsquashfs(1): 1 is a fatal error
# What debugfs(8) says where nothing is wrong: its name, and what is the caller's anyhow.
_OF_DEBUGFS = re.compile(
    r"debugfs \d.*|\S+: (?:Operation not permitted|Invalid argument) while "
    r"(?:changing ownership|setting permissions|setting times) of .*"
)
_SPECIAL = re.compile(
    r"create_inode: (?:could not|failed to) create "
    r"(?:character device|block device|fifo|socket) (.*?)(?:, because .*)?"
)


class Packed(Value):
    """An image file: its path, where the file system begins in it, and the kind of that.

    `member` chooses a part of a SquashFS, by its path; `processors` is 0 for all.
    """

    path: str
    kind: str = "squashfs"
    offset: int = 0
    member: str = ""
    processors: int = 0

    def argv(self) -> tuple[str, ...]:
        """Return the program that unpacks this into its working folder."""
        if self.kind == "ext":
            return ("debugfs", "-R", 'rdump / "."', f"{parser.IMAGE}?offset={self.offset}")
        some = ("-processors", str(self.processors)) if self.processors else ()
        part = ("-offset", str(self.offset)) if self.offset else ()
        member = (self.member,) if self.member else ()
        return ("unsquashfs", "-quiet", "-no-progress", "-no-xattrs", *some, *part,
                "-force", "-dest", ".", parser.IMAGE, *member)  # fmt: skip


class UnpackRules(Value):
    """The rules for what comes out of an image.

    `links` says what links mean. Devices, pipes and sockets are refused, or left out where
    `whole_system`: root file systems have them, and nothing that is looked for there is one.
    `most` bounds all that is written; of a large image also its size does.
    """

    links: LinkRules = links.PLAIN
    whole_system: bool = False
    seconds: int = limits.UNPACKED.seconds
    file_bytes: int = limits.LAYER.bytes
    most: Limit = limits.FOREIGN


def unpack(packed: Packed, into: str | os.PathLike[str], rules: UnpackRules) -> ForeignTree:
    """Unpack an image into a folder that is not there yet, or is empty, and return it, open.

    It appears with its content whole and judged: regular files, folders and links of the caller,
    permission bits alone. Raises `StackproofError`: IMAGE_UNREADABLE for a damaged image and for
    one that holds what is refused, TOO_LARGE, DISK_FULL, NOT_PERMITTED, TOOL_MISSING.
    """
    target = Path(os.path.abspath(into))
    holder = ""
    try:
        with files.close_at_end(
            os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        ) as parent:
            holder = tempfile.mkdtemp(dir=target.parent, prefix=".unpack.")
            with _opened(holder) as inner:
                mode, top = _filled(packed, inner, rules)
                os.rename(_NAME, target.name, src_dir_fd=inner, dst_dir_fd=parent)
            os.fchmod(top, mode)  # last: a folder that cannot be written to cannot be moved
    except OSError as error:
        raise files.translate(error, target) from error
    finally:
        if holder:
            files.remove(holder)
    return ForeignTree(top, rules.links, name=str(target))


def _filled(packed: Packed, holder: int, rules: UnpackRules) -> tuple[int, int]:
    """Fill a new folder in a private one; return the mode that it is to have, and it, open."""
    os.mkdir(_NAME, 0o700, dir_fd=holder)
    top = os.open(_NAME, _FOLDER, dir_fd=holder)
    try:
        os.fchmod(top, 0o700)  # no set-group-id of the folder above
        parser.writer(top)
        most = _most_of(packed, rules)
        ended = _parsed(packed, top, rules, most)
        if (os.fstat(top).st_uid, os.fstat(top).st_gid) != (os.geteuid(), os.getegid()):
            os.fchown(top, os.geteuid(), os.getegid())
        mode = stat.S_IMODE(os.fstat(top).st_mode) & 0o777
        os.fchmod(top, 0o700)
        settled = _Settling(packed.path, most)
        settled.settle(top)
        _judge(packed, ended, settled, rules)
    except BaseException:
        os.close(top)
        raise
    return mode, top


def _most_of(packed: Packed, rules: UnpackRules) -> tuple[int, int]:
    """Return the bytes and entries that an image may have, by the rules and by its own size."""
    with files.translate_errors(packed.path):
        size = os.stat(packed.path).st_size
    grown = limits.GIB + limits.IMAGE_RATIO.bytes * size
    return min(rules.most.bytes, grown), rules.most.count


def _parsed(packed: Packed, top: int, rules: UnpackRules, most: tuple[int, int]) -> Ended:
    bounds = Bounds(seconds=rules.seconds, output=limits.MIB, file=rules.file_bytes, tree=most)
    with _image(packed.path) as image:
        return parser.parse(packed.argv(), image, bounds, folder=top)


def expand(packed: str, plain: int, most: int) -> Ended:
    """Write what zstd packed to an open file, at most so many bytes; the caller looks at the end.

    Raises `StackproofError` (TOOL_MISSING, FILE_MISSING, NOT_PERMITTED).
    """
    bounds = Bounds(seconds=limits.UNPACKED.seconds, file=most)
    with _image(packed) as image:
        argv = ("zstd", "-d", "-q", "--no-sparse", "-c")
        return parser.parse(argv, image, bounds, output=plain)


@contextlib.contextmanager
def _image(path: str) -> Iterator[int]:
    """Open an image for a parser; the errors of both get their words here."""
    with files.translate_errors(path):
        image = parser.open_image(path)
    try:
        yield image
    except StartError as error:
        raise not_started(error) from error
    finally:
        os.close(image)


def not_started(error: StartError) -> StackproofError:
    """Return the error of ours for a parser that could not be started."""
    return fail(
        Reason.TOOL_MISSING,
        f"cannot run `{error.filename}`: {error.strerror}",
        hint=sandbox.package_hint(error.filename)
        if isinstance(error, FileNotFoundError) or not parser.find(error.filename)
        else "it is run as a user without rights: install it where every user can run it",
    )


def _judge(packed: Packed, ended: Ended, settled: _Settling, rules: UnpackRules) -> None:
    """Raise for a parser that ended badly, and for what it left."""
    if ended.fault == "full":
        raise settled.too_large(_TOO_MUCH)
    said = [line for line in ended.complaints.decode(errors="replace").splitlines() if line.strip()]
    told = [match[1].removeprefix("./") for match in map(_SPECIAL.fullmatch, said) if match]
    special = sorted({*told, *settled.special})
    if special and not rules.whole_system:
        raise _refused(packed.path, "devices, pipes or sockets", special)
    if packed.kind == "ext" and not all(map(_OF_DEBUGFS.fullmatch, said)):
        raise damaged(packed.path, ended)  # it ends with 0 whatever it could not write
    if ended.fault or ended.code not in ({0, _NOT_ALL} if len(told) == len(said) else {0}):
        raise damaged(packed.path, ended)
    bad = links.faults(settled.links, settled.folders, rules.links)
    if bad:
        names = [f"{fault.path} -> {fault.target}" for fault in bad]
        raise _refused(packed.path, "links that lead out of it", names)


def damaged(path: str, ended: Ended) -> StackproofError:
    """Return the error for an image that its program could not unpack, or not within bounds."""
    full = b"No space left" in ended.complaints or b"Disk quota" in ended.complaints
    why = {"time": " in time", "size": ": its program says too much"}.get(ended.fault, "")
    return fail(
        Reason.DISK_FULL if full else Reason.IMAGE_UNREADABLE,
        f"image `{path}` cannot be unpacked{why}",
        where=Location(file=path),
        hint="free space, or name a place on another file system"
        if full
        else "the image is damaged: copy or build it again",
        detail=ended.said() or None,
    )


def _refused(path: str, what: str, names: list[str]) -> StackproofError:
    shown = names[: limits.REFUSED.count]
    more = [f"and {len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return fail(
        Reason.IMAGE_UNREADABLE,
        f"image `{path}` holds {what}",
        where=Location(file=path),
        hint="find out who made it: a software stack needs none of these",
        detail="\n".join([repr(name)[1:-1][:200] for name in shown] + more),
    )


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    with files.close_at_end(os.open(folder, _FOLDER)) as descriptor:
        yield descriptor


class _Settling(Struct):
    """A walk through what a parser left: all becomes the caller's, and is told."""

    image: str
    most: tuple[int, int]
    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    special: list[str] = field(default_factory=list)
    several: set[int] = field(default_factory=set)
    entries: int = 0
    size: int = 0

    def settle(self, top: int) -> None:
        """Walk through an open folder; raises TOO_LARGE, and `OSError`."""
        self._folder(top, "", 0)

    def _folder(self, folder: int, path: str, depth: int) -> None:
        if depth > limits.FOREIGN.depth:
            raise self.too_large(f"folders {limits.FOREIGN.depth} deep")
        with os.scandir(folder) as entries:
            inner = [entry for entry in entries if self._is_folder(folder, path, entry)]
        for entry in inner:
            self._enter(folder, path + entry.name, entry, depth)

    def _is_folder(self, folder: int, path: str, entry: os.DirEntry[str]) -> bool:
        """Settle an entry that is no folder; return true for a folder."""
        state = entry.stat(follow_symlinks=False)
        self.entries += 1
        if state.st_nlink == 1 or state.st_ino not in self.several:
            self.size += state.st_blocks * 512
        if state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            self.several.add(state.st_ino)
        size, entries = self.most
        if self.entries > entries or self.size > size:
            raise self.too_large(_TOO_MUCH)
        kind = stat.S_IFMT(state.st_mode)
        if kind not in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}:
            self.special.append(path + entry.name)
            os.unlink(entry.name, dir_fd=folder)
            return False
        self._own(folder, entry.name, state)
        if kind == stat.S_IFLNK:
            self.links[path + entry.name] = os.readlink(entry.name, dir_fd=folder)
        elif state.st_mode & 0o7000 and kind == stat.S_IFREG:
            set_mode(folder, entry.name, state.st_mode & 0o777)
        return kind == stat.S_IFDIR

    def _enter(self, folder: int, path: str, entry: os.DirEntry[str], depth: int) -> None:
        """Settle a folder; one that its owner may not enter is opened for the time."""
        self.folders.add(path)
        mode = entry.stat(follow_symlinks=False).st_mode
        if mode & 0o700 != 0o700:
            set_mode(folder, entry.name, 0o700)
        with files.close_at_end(os.open(entry.name, _FOLDER, dir_fd=folder)) as descriptor:
            self._folder(descriptor, f"{path}/", depth + 1)
            if mode & 0o7000 or mode & 0o700 != 0o700:
                os.fchmod(descriptor, mode & 0o777)

    def _own(self, folder: int, name: str, state: os.stat_result) -> None:
        user, group = os.geteuid(), os.getegid()
        if (state.st_uid, state.st_gid) != (user, group):
            os.chown(name, user, group, dir_fd=folder, follow_symlinks=False)

    def too_large(self, what: str) -> StackproofError:
        """Return the error for an image that holds too much of something."""
        return fail(
            Reason.TOO_LARGE,
            f"image `{self.image}` holds {what}",
            where=Location(file=self.image),
            hint="check that this is the image you meant",
        )
