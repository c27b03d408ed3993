"""An image's content as files for the loader's model; it is not mounted.

The tree is listed once, and only files that are asked for are read, so that a large image takes no
longer than a small one.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator

from stackproof.core import limits
from stackproof.core.command import Command, Completed
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import image_file
from stackproof.linking.effects.view import Entry
from stackproof.linking.elf import MAGIC
from stackproof.linking.elf.layout import BytesSource

_TIMEOUT_S = 60.0
_TOP = "squashfs-root"
_LINE = re.compile(
    rf"(?P<mode>[-dlbcps]\S{{9}}) \S+ +(?P<size>\d+)(?:, *\d+)? \S+ \S+ {_TOP}(?P<path>/.*)?$"
)


class ImageFiles:
    """The `FileStore` of what is in an image.

    Raises `StackproofError` (IMAGE_UNREADABLE).
    """

    def __init__(self, image: str) -> None:
        self.name = os.path.abspath(image)
        self._image = image
        self._entries: dict[str, Entry] = {}
        self._sizes: dict[str, int] = {}
        self._folders: dict[str, list[str]] = {"/": []}
        self._contents: dict[str, bytes] = {}
        self._set_id: list[str] = []
        self._list()

    def _list(self) -> None:
        """Read the names in the image; a name with a line break in it is passed over."""
        done = self._unsquashfs("-d", _TOP, "-lls", self.name)
        if done.timed_out or done.returncode != 0:
            raise self._damaged(f"the files of image `{self._image}` cannot be listed", done)
        for line in done.stdout.decode(errors="surrogateescape").splitlines():
            match = _LINE.match(line)
            if match is None or not match["path"]:
                continue
            kind, name = match["mode"][0], match["path"]
            if kind == "l":
                name, _, target = name.partition(" -> ")
                self._entries[name] = Entry("symlink", target)
            elif kind == "d":
                self._folders.setdefault(name, [])
            elif kind == "-":
                self._sizes[name] = int(match["size"])
                if {match["mode"][3], match["mode"][6]} & set("sS"):
                    self._set_id.append(name)
                self._entries[name] = Entry("file", "", f"image {self.name}:{name}")
            parent, base = posixpath.split(name)
            self._folders.setdefault(parent, []).append(base)

    def entry(self, path: str) -> Entry | None:
        """See `FileStore`."""
        return Entry("folder") if path in self._folders else self._entries.get(path)

    def names(self, path: str) -> Iterable[str]:
        """See `FileStore`."""
        return self._folders.get(path, ())

    def set_id(self) -> tuple[str, ...]:
        """Return the set-uid and set-gid files; unpacked by a user they are that no longer."""
        return tuple(sorted(self._set_id))

    def elf_files(self, path: str) -> Iterator[str]:
        """See `FileStore`; reads every file below the folder."""
        below = f"{path.rstrip('/')}/"
        names = sorted(name for name in self._sizes if name.startswith(below))
        return (name for name in names if self._content(name, name).startswith(MAGIC))

    @contextlib.contextmanager
    def opened(self, path: str, shown: str) -> Iterator[BytesSource]:
        """See `FileStore`; raises IMAGE_UNREADABLE, and TOO_LARGE."""
        yield BytesSource(shown, self._content(path, shown))

    def real(self, path: str) -> str:
        """See `FileStore`."""
        del path
        return ""

    def _content(self, path: str, shown: str) -> bytes:
        if path not in self._contents:
            self._contents[path] = self._read(path, shown)
        return self._contents[path]

    def _read(self, path: str, shown: str) -> bytes:
        member = _literal(path[1:])
        size = self._sizes.get(path, 0)
        if size <= limits.IMAGE_MEMBER.bytes:
            return image_file.read_member(self._image, member)
        if size > limits.ELF_CONTENT.bytes:
            raise fail(
                Reason.TOO_LARGE,
                f"`{shown}` has {size} bytes",
                where=Location(file=shown),
                hint=f"a library of over {limits.ELF_CONTENT.bytes >> 20} MiB is not looked at",
            )
        done = self._unsquashfs("-cat", self.name, member)
        if done.timed_out or done.returncode != 0 or len(done.stdout) != size:
            raise self._damaged(f"`{shown}` of image `{self._image}` cannot be read", done)
        return done.stdout

    def _unsquashfs(self, *words: str) -> Completed:
        argv = ("unsquashfs", "-processors", "1", *words)
        return run.run(Command(argv=argv, timeout_s=_TIMEOUT_S))

    def _damaged(self, message: str, done: Completed) -> StackproofError:
        return fail(
            Reason.IMAGE_UNREADABLE,
            message,
            where=Location(file=self._image),
            hint="the image is damaged: copy or build it again",
            detail=done.stderr.decode(errors="replace")[-2000:] or None,
        )


def _literal(member: str) -> str:
    """Return a name that unsquashfs takes as it is: it knows wildcards and backslashes."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", member)
