"""An image's content at its mount point as the loader sees it, above this machine; not mounted.

The tree is listed once, and only files that are asked for are read, so that a large image takes no
longer than a small one.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping

from stackproof.core import limits
from stackproof.core.command import Command, Completed
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import image_file
from stackproof.linking.effects.view import HostView
from stackproof.linking.elf import ElfFile, read
from stackproof.linking.elf.constants import Traces, read_traces
from stackproof.linking.elf.layout import BytesSource
from stackproof.linking.loader import CacheEntry, File
from stackproof.linking.loader.view import without_links

_TIMEOUT_S = 60.0
_TOP = "squashfs-root"
_LINE = re.compile(
    rf"(?P<mode>[-dlbcps]\S{{9}}) \S+ +(?P<size>\d+)(?:, *\d+)? \S+ \S+ {_TOP}(?P<path>/.*)?$"
)


class ImageView:
    """The `FileView` of this machine with an image at a mount point, and the bytes of its files.

    `below` is the view that it is mounted over: this machine, or another image of the same job.
    """

    def __init__(self, image: str, mount: str, below: HostView | ImageView | None = None) -> None:
        self.image = image
        self.mount = posixpath.normpath(mount)
        self._host = HostView("/") if below is None else below
        self._links: dict[str, str] = {}
        self._files: dict[str, int] = {}
        self._folders: dict[str, list[str]] = {self.mount: []}
        self._contents: dict[str, bytes] = {}
        self._elfs: dict[str, ElfFile] = {}
        self._list()

    def _list(self) -> None:
        """Read the names in the image; a name with a line break in it is passed over."""
        done = self._unsquashfs("-d", _TOP, "-lls", os.path.abspath(self.image))
        if done.timed_out or done.returncode != 0:
            raise self._damaged(f"the files of image `{self.image}` cannot be listed", done)
        for line in done.stdout.decode(errors="surrogateescape").splitlines():
            match = _LINE.match(line)
            if match is None or not match["path"]:
                continue
            kind, name = match["mode"][0], match["path"]
            if kind == "l":
                name, _, target = name.partition(" -> ")
                self._links[self.mount + name] = target
            elif kind == "d":
                self._folders.setdefault(self.mount + name, [])
            elif kind == "-":
                self._files[self.mount + name] = int(match["size"])
            parent, base = posixpath.split(self.mount + name)
            self._folders.setdefault(parent, []).append(base)

    def holds(self, path: str) -> bool:
        """Return whether a path without links is one of the image's."""
        return path == self.mount or path.startswith(f"{self.mount}/")

    def owns(self, path: str) -> bool:
        """Return whether a path without links is in this image, or in one that it lies over."""
        below = self._host
        return self.holds(path) or (isinstance(below, ImageView) and below.owns(path))

    def resolve(self, path: str) -> str | None:
        """Return a path without links, which may lead out of the image; None for a loop of them."""
        return without_links(path, self._link)

    def _link(self, path: str) -> str | None:
        if self.holds(path):
            return self._links.get(path)
        return None if self.mount.startswith(f"{path}/") else _host_link(path)

    def look(self, path: str) -> File | None:
        """Return the regular file at an absolute path, None when there is none."""
        found = self.resolve(path)
        if found is None:
            return None
        if not self.holds(found):
            return self._host.look(found)
        return File(found, f"image:{found}") if found in self._files else None

    def elf(self, file: File) -> ElfFile:
        """Return what an ELF file says; raises like `elf.read`, and IMAGE_UNREADABLE."""
        if not self.holds(file.path):
            return self._host.elf(file)
        if file.path not in self._elfs:
            self._elfs[file.path] = read(BytesSource(file.path, self.content(file.path)))
        return self._elfs[file.path]

    def traces(self, file: File) -> Traces:
        """Return what the code and the constants of an ELF file tell; raises like `elf`."""
        if not self.holds(file.path):
            return self._host.traces(file)
        return read_traces(BytesSource(file.path, self.content(file.path)))

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a folder, none when it is none."""
        found = self.resolve(folder)
        if found is not None and self.holds(found):
            return tuple(sorted(self._folders.get(found, ())))
        return self._host.listing(folder)

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of this machine's ld.so.cache by name."""
        return self._host.cache(path)

    def preloads(self) -> tuple[str, ...]:
        """Return what every program of this machine has preloaded."""
        return self._host.preloads()

    def content(self, path: str) -> bytes:
        """Return the bytes of a file; raises `StackproofError` (IMAGE_UNREADABLE, TOO_LARGE)."""
        if not self.holds(path) and isinstance(self._host, ImageView):
            return self._host.content(path)
        if path not in self._contents:
            self._contents[path] = self._read(path)
        return self._contents[path]

    def _read(self, path: str) -> bytes:
        member = _literal(path[len(self.mount) + 1 :])
        size = self._files.get(path, 0)
        if size <= limits.IMAGE_MEMBER.bytes:
            return image_file.read_member(self.image, member)
        if size > limits.ELF_CONTENT.bytes:
            raise fail(
                Reason.TOO_LARGE,
                f"`{path}` has {size} bytes",
                where=Location(file=path),
                hint=f"a library of over {limits.ELF_CONTENT.bytes >> 20} MiB is not looked at",
            )
        done = self._unsquashfs("-cat", os.path.abspath(self.image), member)
        if done.timed_out or done.returncode != 0 or len(done.stdout) != size:
            raise self._damaged(f"`{path}` of image `{self.image}` cannot be read", done)
        return done.stdout

    def _unsquashfs(self, *words: str) -> Completed:
        argv = ("unsquashfs", "-processors", "1", *words)
        return run.run(Command(argv=argv, timeout_s=_TIMEOUT_S))

    def _damaged(self, message: str, done: Completed) -> StackproofError:
        return fail(
            Reason.IMAGE_UNREADABLE,
            message,
            where=Location(file=self.image),
            hint="the image is damaged: copy or build it again",
            detail=done.stderr.decode(errors="replace")[-2000:] or None,
        )


def _host_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _literal(member: str) -> str:
    """Return a name that unsquashfs takes as it is: it knows wildcards and backslashes."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", member)
