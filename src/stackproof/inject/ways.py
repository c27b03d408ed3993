"""The ways to put a replacement under a program, the simplest first; each as a view of files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from stackproof.core.value import replace
from stackproof.inject.attempt import Question
from stackproof.inject.model import Way
from stackproof.inject.program import Demand
from stackproof.inject.replacement import Main, Replacement
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import CacheEntry, File, FileView
from stackproof.mpi import abi
from stackproof.mpi.abi import LibraryRole

ALIASES = "/run/stackproof-aliases"
"""Where links would be made if not beside the library; any folder does."""
ANY_FOLDER = "DIR"
"""What a reader is shown in the place of `ALIASES`."""


def ways(
    replacement: Replacement, demand: Demand, main: Main | None, question: Question
) -> Iterator[Way]:
    """Yield ways to try: LD_LIBRARY_PATH, with links, LD_PRELOAD, and a new DT_RPATH."""
    setting = question.setting
    beside = question.beside and not replacement.is_shared
    links = aliases(replacement, demand, main, beside=beside)
    folders = replacement.folders
    linked = (*((ALIASES,) if links and not beside else ()), *folders)
    inner = inner_folders(replacement)
    opened = (*links, main.path) if main and demand.is_module and not demand.names else ()
    if not setting.secure and not unnameable(linked):
        yield Way(name="library-path", library_path=linked, links=links, opened=opened)
        if inner:
            folders_too = (*linked, *inner)
            yield Way(name="library-path-all", library_path=folders_too, links=links, opened=opened)
        preload = tuple(_preloads(replacement, demand, links))
        if preload and not unnameable(preload, in_preload=True):
            yield Way(name="preload", library_path=linked, preload=preload, links=links)
    yield Way(name="rpath", rpath=linked, links=links)
    if inner and links and not setting.secure:  # a link has another `$ORIGIN` than its library
        yield Way(name="rpath", rpath=linked, library_path=inner, links=links)


# What separates the words of a list, and what the loader puts something else in the place of.
_TOKENS = re.compile(r"\$(?:\{(?:ORIGIN|LIB|PLATFORM)\}|(?:ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")
_SEPARATORS, _PRELOAD_SEPARATORS = ":;", ": "


def unnameable(paths: Sequence[str], *, in_preload: bool = False) -> str:
    """Return the first path that no list of the loader can name, empty when there is none."""
    separators = _PRELOAD_SEPARATORS if in_preload else _SEPARATORS
    for path in paths:
        if _TOKENS.search(path) or any(sign in path for sign in separators):
            return path
    return ""


def inner_folders(replacement: Replacement) -> tuple[str, ...]:
    """Return the folders inside the prefix that its MPI finds its own libraries in.

    What is in LD_LIBRARY_PATH comes before a DT_RUNPATH, so that a program's own path may put other
    libraries under the MPI than those it came with. By a link in another folder, the MPI finds
    them by neither path: `$ORIGIN` is the folder of the link.
    """
    found = []
    for main in replacement.mains:
        home = posixpath.dirname(main.path)
        for word in (main.elf.runpath or main.elf.rpath or "").split(":"):
            path = posixpath.normpath(word.replace("$ORIGIN", home).replace("${ORIGIN}", home))
            # A semicolon would end the folder where the loader reads a list of them.
            if path.startswith("/") and replacement.owns(path) and not unnameable([path]):
                found.append(path)
    return tuple(path for path in dict.fromkeys(found) if path not in replacement.folders)


def aliases(
    replacement: Replacement, demand: Demand, main: Main | None, *, beside: bool = False
) -> dict[str, str]:
    """Return links for the names that the program asks for and the replacement has under others.

    They are in `ALIASES`, or `beside` the library that they lead to.

    Only a library of the same part and ABI stands in, and only with the right major number. A link
    has an absolute path as its target. Names count too that the host of a module may ask for, and
    that a program opens. A plain name stands for the ABI that the program shows.
    """
    links = {}
    has_opened = main is not None and any(replacement.has(name, main) for name in demand.opens)
    opens = () if has_opened else demand.opens
    for name in (*demand.names, *demand.host_names, *opens):
        if main is None or replacement.has(name, main):
            continue
        shown = None if name in demand.opens else demand.abi
        plain = abi.is_plain(name) and (shown or main.family.abi, LibraryRole.MAIN)
        promise = plain or abi.abi_of_name(name)
        if not promise or promise[0] != main.family.abi:
            continue
        stand_in = main.path if promise[1] is LibraryRole.MAIN else _same_part(replacement, promise)
        if stand_in:
            folder = posixpath.dirname(stand_in) if beside else ALIASES
            links[posixpath.join(folder, name)] = stand_in
    return links


def _same_part(replacement: Replacement, promise: tuple[str, LibraryRole]) -> str:
    if promise[1] is not LibraryRole.FORTRAN or promise[0] is not abi.Abi.MPICH:
        return ""
    for name, path in replacement.names.items():
        if abi.abi_of_name(name) == promise:
            return path
    return ""


def _preloads(replacement: Replacement, demand: Demand, links: dict[str, str]) -> Iterator[str]:
    by_name = {posixpath.basename(link): link for link in links}
    for name in demand.names:
        if name in by_name:
            yield by_name[name]
        elif name in replacement.names:
            yield replacement.names[name]


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
