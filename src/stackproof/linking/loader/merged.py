"""The files of a program with an MPI of a container's image, as one view of files."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader.ldcache import CacheEntry, File, FileView


class MergedView:
    """The files of a program's root, with the prefix of a replacement from another view.

    What only the root of the replacement has is found there too, but is counted as borrowed.
    """

    def __init__(self, base: FileView, over: FileView, prefix: str) -> None:
        self._views = {"base": base, "over": over}
        self._prefix = prefix.rstrip("/")

    def look(self, path: str) -> File | None:
        """Return the file at a path: of the replacement below its prefix, else of the program."""
        inside = path == self._prefix or path.startswith(f"{self._prefix}/")
        for name in ("over",) if inside else ("base", "over"):
            file = self._views[name].look(path)
            if file is not None:
                return file._replace(identity=f"{name} {file.identity}")
        return None

    def _split(self, file: File) -> tuple[FileView, File]:
        name, _, identity = file.identity.partition(" ")
        return self._views[name], file._replace(identity=identity)

    def elf(self, file: File) -> ElfFile:
        """Return the parsed ELF file."""
        view, own = self._split(file)
        return view.elf(own)

    def traces(self, file: File) -> Traces:
        """Return the traces in code and constants."""
        view, own = self._split(file)
        return view.traces(own)

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder of either."""
        names = {name for view in self._views.values() for name in view.listing(folder)}
        return tuple(sorted(names))

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache, the program's before the replacement's."""
        return {**self._views["over"].cache(path), **self._views["base"].cache(path)}

    def preloads(self) -> tuple[str, ...]:
        """Return the libraries that every program of the program's root has preloaded."""
        return self._views["base"].preloads()


def is_borrowed(file: File, prefix: str) -> bool:
    """Return True if a merged view took a file of the replacement's root outside its prefix."""
    inside = file.path.startswith(prefix.rstrip("/") + "/")
    return file.identity.startswith("over ") and not inside
