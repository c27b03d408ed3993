"""ABI manifests: what a prefix, a program or a machine provides and needs, as one JSON file.

A manifest holds what the loader's model would read of every file that matters, under the paths that
were asked for. A check on manifests is the same check on another file view, so that it answers the
same on a laptop as on the machine that the manifest is of.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec import field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.inject.program import demand_of
from stackproof.inject.releases import number_of
from stackproof.inject.replacement import Main, Replacement, find_replacement
from stackproof.inject.ways import inner_folders
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import (
    CacheEntry,
    File,
    FileView,
    LoaderSettings,
    Machine,
    load_program,
)
from stackproof.mpi import abi


class ManifestMpi(Value):
    """An MPI that a manifest describes, and what shows its family."""

    path: str
    soname: str
    family: str
    shown: str


class Manifest(Value):
    """What is known of some files without having them.

    `prefix` is what it describes; `programs` are the programs in it that call MPI. `names` maps
    every path that was found to the real path of its file; `files` and `traces` go by real paths.
    `needs` and `provides` have the newest version node of each kind, of others and for others.
    """

    SCHEMA: ClassVar[str] = "stackproof/abi-manifest/1"

    prefix: str
    machine: Machine
    mpis: tuple[ManifestMpi, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict)
    provides: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, ElfFile] = field(default_factory=dict)
    traces: Mapping[str, Traces] = field(default_factory=dict)
    set_id: tuple[str, ...] = ()
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    caches: Mapping[str, Mapping[str, tuple[CacheEntry, ...]]] = field(default_factory=dict)
    preloads: tuple[str, ...] = ()


class ManifestView:
    """The file view of a manifest."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def look(self, path: str) -> File | None:
        """Return the file that was found at a path."""
        real = self.manifest.names.get(path) or self.manifest.names.get(posixpath.normpath(path))
        return None if real is None else File(real, real, real in self.manifest.set_id)

    def elf(self, file: File) -> ElfFile:
        """Return what an ELF file says; raises NOT_ELF for one that was none."""
        if file.path not in self.manifest.files:
            raise fail(
                Reason.NOT_ELF,
                f"`{file.path}` is not an ELF file",
                where=Location(file=file.path),
            )
        return self.manifest.files[file.path]

    def traces(self, file: File) -> Traces:
        """Return what code and constants tell, nothing where it was not asked for."""
        return self.manifest.traces.get(file.path, Traces())

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder that was listed."""
        return self.manifest.folders.get(folder, ())

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache."""
        return self.manifest.caches.get(path, {})

    def preloads(self) -> tuple[str, ...]:
        """Return what every program there has preloaded."""
        return self.manifest.preloads


_BASE_LIBRARIES = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libz.so.1",
)
"""Libraries that every machine with glibc has, or that very many have."""


class Recorder:
    """A file view that remembers what it was asked."""

    def __init__(self, below: FileView) -> None:
        self._below = below
        self.names: dict[str, str] = {}
        self.files: dict[str, ElfFile] = {}
        self.seen: dict[str, Traces] = {}
        self.set_id: dict[str, None] = {}
        self.folders: dict[str, tuple[str, ...]] = {}
        self.caches: dict[str, Mapping[str, tuple[CacheEntry, ...]]] = {}

    def look(self, path: str) -> File | None:
        """Return the file at a path."""
        file = self._below.look(path)
        if file is not None:
            self.names[path] = file.path
            if file.set_id:
                self.set_id[file.path] = None
        return file

    def elf(self, file: File) -> ElfFile:
        """Return what an ELF file says."""
        self.files[file.path] = self._below.elf(file)
        return self.files[file.path]

    def traces(self, file: File) -> Traces:
        """Return what code and constants tell."""
        self.seen[file.path] = self._below.traces(file)
        return self.seen[file.path]

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder."""
        names = self._below.listing(folder)
        if names:
            self.folders[folder] = names
        return names

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache."""
        self.caches[path] = self._below.cache(path)
        return self.caches[path]

    def preloads(self) -> tuple[str, ...]:
        """Return what every program has preloaded."""
        return self._below.preloads()


def describe(
    view: FileView,
    place: str,
    programs: Sequence[str],
    *,
    machine: Machine,
    setting: LoaderSettings,
) -> Manifest:
    """Return the manifest of a place: its libraries, its programs, and all that these load.

    Raises `StackproofError` (NO_MPI) when it has neither a shared library nor a program.
    """
    recorder = Recorder(view)
    replacement = None
    try:
        replacement = find_replacement(recorder, place)
    except StackproofError:
        if not programs:
            raise
    libraries = () if replacement is None else _libraries(recorder, replacement)
    for path in (*programs, *libraries):
        _record(recorder, path, machine, setting)
    prefix = place if replacement is None or place in programs else replacement.prefix
    own = [
        elf
        for path, elf in recorder.files.items()
        if path == place or path.startswith(f"{prefix}/")
    ]
    return Manifest(
        prefix=prefix,
        machine=machine,
        mpis=() if replacement is None else tuple(map(_provided, replacement.mains)),
        needs=_newest(need.name for elf in own for need in elf.version_needs),
        provides=_newest(
            entry.name for elf in own for entry in elf.version_definitions if not entry.base
        ),
        programs=tuple(programs),
        names=recorder.names,
        files=recorder.files,
        traces=recorder.seen,
        set_id=tuple(recorder.set_id),
        folders=recorder.folders,
        caches=recorder.caches,
        preloads=recorder.preloads(),
    )


def _libraries(recorder: Recorder, replacement: Replacement) -> tuple[str, ...]:
    """Return the paths of a replacement's libraries, its inner ones and plug-ins included."""
    inner = [
        posixpath.join(folder, name)
        for folder in inner_folders(replacement)
        for name in recorder.listing(folder)
        if recorder.look(posixpath.join(folder, name))
    ]
    return (*replacement.names.values(), *inner, *replacement.plugins(recorder))


def _provided(main: Main) -> ManifestMpi:
    return ManifestMpi(
        path=main.path, soname=main.elf.soname, family=main.family.name, shown=main.shown
    )


def _record(recorder: Recorder, path: str, machine: Machine, setting: LoaderSettings) -> None:
    """Let the recorder see all that a check would ask of a program or a library."""
    try:
        closure = load_program(recorder, path, machine=machine, setting=setting)
    except StackproofError:  # a linker script, a damaged file: nothing that could be loaded
        return
    for name in _BASE_LIBRARIES:  # what another MPI may need, besides what this one does
        closure.load(name, closure.program)
    demand_of(recorder, closure)
    for loaded in closure.objects:
        name = loaded.path.rpartition("/")[2]
        if abi.family_of(loaded.elf) or name.startswith(("libopen-pal.", "libopen_mpi.")):
            recorder.traces(loaded.file)


def _newest(nodes: Iterable[str]) -> dict[str, str]:
    """Return the node with the highest number of each kind (`FABRIC`: `FABRIC_1.9`)."""
    found: dict[str, str] = {}
    for node in nodes:
        kind, _, _ = node.rpartition("_")
        if number_of(node) and number_of(node) > number_of(found.get(kind, "")):
            found[kind] = node
    return dict(sorted(found.items()))


class MergedView:
    """The files of a program's machine, with the prefix of a replacement from another view.

    What only the machine of the replacement has is found there too, but is counted as borrowed.
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
        """Return what an ELF file says."""
        view, own = self._split(file)
        return view.elf(own)

    def traces(self, file: File) -> Traces:
        """Return what code and constants tell."""
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
        """Return what every program of the program's machine has preloaded."""
        return self._views["base"].preloads()


def is_borrowed(file: File, prefix: str) -> bool:
    """Return whether a merged view took a file of the replacement's machine outside its prefix."""
    inside = file.path.startswith(prefix.rstrip("/") + "/")
    return file.identity.startswith("over ") and not inside
