"""Where glibc looks for a library: the folders, in order, and which file it takes.

The order is that of `_dl_map_object` (glibc, elf/dl-load.c) and of ld.so(8): what is loaded under
that name already; DT_RPATH of the object that asks and of those that had it loaded, unless it has a
DT_RUNPATH itself; LD_LIBRARY_PATH; DT_RUNPATH of the object that asks; ld.so.cache; the default
folders. Each folder is tried with the subfolders of the processor first. A file for another
machine or class is passed over; a file that is no ELF file ends the program.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader.ldcache import File, FileView
from stackproof.linking.loader.machine import Interpreter, Machine, hwcaps

_TOKEN = re.compile(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")
# FLAG_ELF_LIBC6 with the flag of each architecture: glibc, sysdeps/generic/ldconfig.h.
_CACHE_FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03, "ppc64": 0x0503, "s390x": 0x0403, "i386": 3}
_LINUX_ABIS = {0, 3}  # ELFOSABI_SYSV, ELFOSABI_LINUX


class LoaderSettings(Value):
    """What a program is started with: variables of the loader, and whether they count.

    `secure` is a set-user-id program or one with capabilities: the loader drops the variables.
    `folder` is the current folder, for relative paths.
    """

    library_path: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    secure: bool = False
    folder: str = "/"


def settings_of(environment: Mapping[str, str]) -> LoaderSettings:
    """Return the settings of an environment: folders and libraries that come first; ld.so(8)."""
    # It takes blanks and semicolons too, in one list or the other.
    paths, preload = (environment.get(name, "") for name in ("LD_LIBRARY_PATH", "LD_PRELOAD"))
    return LoaderSettings(
        library_path=tuple(paths.replace(";", ":").split(":")) if paths else (),
        preload=tuple(preload.replace(":", " ").split()),
    )


class MappedObject(Struct, kw_only=True):
    """An object that the loader has mapped.

    `path` is the name it was opened by, `origin` what `$ORIGIN` stands for in it; `by` is the
    number of the object that asked for it first, None for the program. `how` says in words where
    it was found. `names` are all names it answers to.
    """

    number: int
    path: str
    file: File
    elf: ElfFile
    origin: str
    by: int | None
    how: str
    names: set[str] = field(default_factory=set)

    @property
    def soname(self) -> str:
        """Return its SONAME, or the name of its file without one."""
        return self.elf.soname or posixpath.basename(self.path)


class Fatal(Value):
    """A file that ends the program because it cannot be read as a library."""

    path: str
    message: str


class Hit(Value):
    """A file that the search ended at."""

    path: str
    file: File
    elf: ElfFile
    how: str


class Searcher(Value):
    """All that a search depends on, except for who asks."""

    view: FileView
    machine: Machine
    interpreter: Interpreter
    setting: LoaderSettings
    bits: int
    subfolders: tuple[str, ...]
    """Those of every folder of a search: `Interpreter.subfolders` of that machine."""
    passed_over: dict[str, str] = field(default_factory=dict)
    """Files that had the right name and were for another machine, with that machine."""

    def find(
        self, name: str, chain: Sequence[MappedObject], main: MappedObject
    ) -> Hit | Fatal | None:
        """Return what a name leads to; `chain` is who asks, who had that one loaded, and so on."""
        if "/" in name:
            path = self.expanded(name, chain[0]) if chain else name
            return None if path is None else self._open(self._absolute(path), "by its path")
        look = self.view.look
        for folders, how, plain in self._places(name, chain, main):
            for folder in folders:
                for subfolder in ("",) if plain else self.subfolders:
                    path = f"{folder}/{subfolder}/{name}" if subfolder else f"{folder}/{name}"
                    path = path.replace("//", "/", 1)
                    hit = self._opened(path, how, file) if (file := look(path)) else None
                    if hit is not None:
                        return hit
        return None

    def _places(
        self, name: str, chain: Sequence[MappedObject], main: MappedObject
    ) -> Iterator[tuple[tuple[str, ...], str, bool]]:
        """Yield folders, why they are searched, and whether without subfolders."""
        asking = chain[0] if chain else main
        if asking.elf.runpath is None:
            for loaded in (*chain, *(() if main in chain else (main,))):
                if loaded.elf.rpath is not None and loaded.elf.runpath is None:
                    folders = self.folders_of(loaded.elf.rpath, loaded)
                    yield folders, f"DT_RPATH of {loaded.path}", False
        if not self.setting.secure:
            folders = tuple(self._absolute(word or ".") for word in self.setting.library_path)
            yield folders, "LD_LIBRARY_PATH", False
        if asking.elf.runpath is not None:
            folders = self.folders_of(asking.elf.runpath, asking)
            yield folders, f"DT_RUNPATH of {asking.path}", False
        cached = self._cached(name, without_defaults=asking.elf.no_default_libraries)
        if cached:
            yield (posixpath.dirname(cached),), "ld.so.cache", True
        if not asking.elf.no_default_libraries:
            yield self.interpreter.folders, "a default folder", False

    def folders_of(self, text: str, loaded: MappedObject) -> tuple[str, ...]:
        """Return the folders of an RPATH or RUNPATH; entries that a loader drops are left out."""
        found = []
        for word in text.split(":"):
            path = self.expanded(word, loaded)
            if path is not None:
                found.append(self._absolute(path or "."))
        return tuple(dict.fromkeys(found))

    def expanded(self, text: str, loaded: MappedObject) -> str | None:
        """Return a path with `$ORIGIN`, `$LIB` and `$PLATFORM` put in, None where that is refused.

        A program that runs with more rights than its user may use `$ORIGIN` for default folders
        only.
        """
        values = {
            "ORIGIN": loaded.origin,
            "LIB": self.interpreter.library_token,
            "PLATFORM": self.machine.architecture,
        }
        path = _TOKEN.sub(lambda match: values[match.group(1) or match.group(2)], text)
        if self.setting.secure and "ORIGIN" in text and path != text:
            trusted = {posixpath.normpath(folder) for folder in self.interpreter.folders}
            return path if posixpath.normpath(path) in trusted else None
        return path

    def _absolute(self, path: str) -> str:
        full = posixpath.join(self.setting.folder, path)
        if path == "." or not path:
            full = self.setting.folder
        return full.rstrip("/") or "/"

    def _cached(self, name: str, *, without_defaults: bool) -> str:
        """Return the path that ld.so.cache has for a name, empty for none.

        The loader takes the entry of the best subfolder that the processor has, else the first
        one without.
        """
        entries = self.view.cache(self.interpreter.cache).get(name, ())
        flags = _CACHE_FLAGS.get(self.machine.architecture)
        fit = [e for e in entries if flags is None or e.flags in {flags, 1}]
        order = (*hwcaps(self.machine), "")
        usable = [e for e in fit if not e.hwcap and e.subfolder in order]
        best = min(usable, key=lambda entry: order.index(entry.subfolder), default=None)
        if best is None:
            return ""
        inside = posixpath.dirname(best.path) in self.interpreter.folders
        return "" if without_defaults and inside else best.path

    def _open(self, path: str, how: str) -> Hit | Fatal | None:
        """Return what opening a path gives: a library, nothing, or the end of the program."""
        file = self.view.look(path)
        return None if file is None else self._opened(path, how, file)

    def _opened(self, path: str, how: str, file: File) -> Hit | Fatal | None:
        try:
            elf = self.view.elf(file)
        except StackproofError as error:
            if error.reason in {Reason.NOT_ELF, Reason.ELF_DAMAGED, Reason.TOO_LARGE}:
                return Fatal(path=path, message=error.problems[0].message)
            raise
        if elf.bits != self.bits or elf.machine != self.machine.architecture:
            self.passed_over[path] = f"{elf.machine}, {elf.bits} bits"
            return None
        if elf.os_abi not in _LINUX_ABIS:
            return Fatal(path=path, message=f"its OS ABI is {elf.os_abi}, not that of Linux")
        return Hit(path=path, file=file, elf=elf, how=how)
