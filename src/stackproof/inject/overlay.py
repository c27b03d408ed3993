"""A file view with links that are not there yet, and with another DT_RPATH in one program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import CacheEntry, File, FileView


class Overlay:
    """A view in which a way of injection has been made."""

    def __init__(
        self,
        below: FileView,
        *,
        links: Mapping[str, str],
        rpath: tuple[str, ...] = (),
        program: str = "",
    ) -> None:
        self._below = below
        self._links = links
        self._rpath = rpath
        self._program = below.look(program) if rpath else None

    def look(self, path: str) -> File | None:
        """Return the file at a path; a link is opened by its own name."""
        return self._below.look(self._links.get(path, path))

    def elf(self, file: File) -> ElfFile:
        """Return what a file says, the program with its new DT_RPATH."""
        elf = self._below.elf(file)
        if self._program is not None and file.identity == self._program.identity:
            old = elf.rpath or elf.runpath
            words = (*self._rpath, *((old,) if old else ()))
            return replace(elf, rpath=":".join(words), runpath=None)
        return elf

    def traces(self, file: File) -> Traces:
        """Return what code and constants tell."""
        return self._below.traces(file)

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, new links included."""
        new = (path.rpartition("/")[2] for path in self._links if path.rpartition("/")[0] == folder)
        return tuple(sorted({*self._below.listing(folder), *new}))

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache."""
        return self._below.cache(path)

    def preloads(self) -> tuple[str, ...]:
        """Return what every program has preloaded."""
        return self._below.preloads()
