"""An image's content as files for the loader's model; it is not mounted.

The tree is listed once, and only files that are asked for are read, so that a large image takes no
longer than a small one.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign import squash
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.parser import Bounds, Ended, StartError
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import image_file
from stackproof.linking.effects.view import Entry
from stackproof.linking.elf import MAGIC
from stackproof.linking.elf.layout import BytesSource

_TIMEOUT_S = 60
_LINE = re.compile(
    rf"(?P<mode>[-dlbcps]\S{{9}}) \S+ +(?P<size>\d+)(?:, *\d+)? \S+ \S+ {squash.TOP}(?P<path>/.*)?$"
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
        bounds = Bounds(seconds=_TIMEOUT_S, output=limits.LAYER_NAMES.bytes)
        done = self._run(squash.listed, bounds)
        if done.fault or done.code != 0:
            raise self._damaged(f"the files of image `{self._image}` cannot be listed", done)
        for line in done.output.decode(errors="surrogateescape").split("\n"):
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
        member = squash.literal(path[1:])
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
        bounds = Bounds(seconds=_TIMEOUT_S, output=size)
        done = self._run(lambda name, most: squash.read(name, member, most), bounds)
        if done.fault or done.code != 0 or len(done.output) != size:
            raise self._damaged(f"`{shown}` of image `{self._image}` cannot be read", done)
        return done.output

    def _run(self, call: Callable[[str, Bounds], Ended], bounds: Bounds) -> Ended:
        try:
            return call(self.name, bounds)
        except StartError as error:
            raise foreign_unpack.not_started(error) from error
        except OSError as error:
            raise files.translate(error, self.name) from error

    def _damaged(self, message: str, done: Ended) -> StackproofError:
        return fail(
            Reason.IMAGE_UNREADABLE,
            message,
            where=Location(file=self._image),
            hint="the image is damaged: copy or build it again",
            detail=done.said() or None,
        )
