"""What is to be injected: the libraries of a prefix, and the MPI among them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import File, FileView
from stackproof.mpi import abi
from stackproof.mpi.abi import AbiFamily, LibraryRole

_LIBRARY = re.compile(r"lib.+\.so(?:\.[0-9.]+)?")
_FOLDERS = ("lib", "lib64")
_MULTIARCH = ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
_SYSTEM = re.compile(r"(?:/usr)?/lib(?:32|64)?/")
_MINOR = re.compile(r"(\.so\.\d+)(?:\.\d+)+$")
_PLUGIN = re.compile(r"(?:mca_|lib).+?\.so(?:\.[0-9.]+)?")


class Main(Value):
    """The main library of an MPI; a prefix may have several, one for each ABI."""

    path: str
    file: File
    elf: ElfFile
    family: AbiFamily
    shown: str


class Replacement(Value):
    """A prefix and the folders of its libraries.

    `names` maps the file names of its libraries to their paths; `named` are the names of a library
    that was asked for by itself. Without `mains` it is no MPI but something below one, such as
    libfabric.
    """

    prefix: str
    folders: tuple[str, ...]
    names: Mapping[str, str]
    mains: tuple[Main, ...]
    named: tuple[str, ...] = ()

    def main_for(self, wanted: str | None) -> Main | None:
        """Return the main library for an ABI, the first one when the ABI is unknown or not had."""
        for main in self.mains:
            if main.family.abi == wanted:
                return main
        return self.mains[0] if self.mains else None

    @property
    def home(self) -> str:
        """Return the prefix that it was installed to: what is before `lib` in its first folder."""
        words = self.folders[0].split("/")
        for number in range(len(words) - 1, 0, -1):
            if words[number] in _FOLDERS:
                return "/".join(words[:number]) or "/"
        return self.prefix

    def owns(self, path: str) -> bool:
        """Return whether a path is of the replacement: in its prefix, and not just beside it.

        A folder of the system holds everything else too: there only MPI's libraries count, and the
        one that was named.
        """
        if not path.startswith(self.prefix.rstrip("/") + "/"):
            return False
        name = posixpath.basename(path)
        return not self._is_shared() or part_of(name) is not None or name in self.named

    def _is_shared(self) -> bool:
        return any(_SYSTEM.match(folder + "/") for folder in self.folders)

    def plugins(self, view: FileView) -> Iterator[str]:
        """Yield the paths of plug-ins in the folders below the libraries that hold them."""
        for folder in self.folders:
            for name in _PLUGIN_FOLDERS:
                place = posixpath.join(folder, name)
                for entry in view.listing(place):
                    if _PLUGIN.fullmatch(entry):
                        yield posixpath.join(place, entry)


# Open MPI, PMIx and PRRTE (pkglibdir), libfabric (FI_PROVIDER_PATH), UCX (UCX_MODULE_DIR).
_PLUGIN_FOLDERS = (
    "openmpi",
    "openmpi/lib/openmpi",
    "openmpi/lib/openmpi3",
    "pmix",
    "prte",
    "libfabric",
    "ucx",
    "mpich/libfabric",
    "mpich/ucx",
    "openmpi/libfabric",
    "openmpi/ucx",
)


def find_replacement(view: FileView, place: str) -> Replacement:
    """Return what a prefix, a folder of libraries or one library offers for injection.

    Raises `StackproofError` (NO_MPI) when there is no shared library.
    """
    single = view.look(place)
    if single is not None:
        prefix = folder = posixpath.dirname(place)
        if posixpath.basename(folder) in _FOLDERS:
            prefix = posixpath.dirname(folder)
        folders: tuple[str, ...] = (folder,)
    else:
        prefix = place.rstrip("/") or "/"
        inside = (*_FOLDERS, *_MULTIARCH)
        candidates = (*(posixpath.join(prefix, name) for name in inside), prefix)
        folders = tuple(path for path in candidates if any(_libraries(view, path)))
    names: dict[str, str] = {}
    for folder in folders:
        for name, path in _libraries(view, folder):
            names.setdefault(name, path)
    if not names:
        raise fail(
            Reason.NO_MPI,
            f"there is no shared library in `{place}`"
            if single is None
            else f"`{place}` is neither a shared library nor an image nor a manifest",
            where=Location(file=place),
            hint="name the prefix that has `lib/libmpi.so…`, or the library itself",
        )
    named = () if single is None else _names_of(view, place, single)
    return Replacement(
        prefix=prefix,
        folders=folders,
        names=names,
        mains=_named_first(tuple(_mains(view, names)), named),
        named=named,
    )


def _named_first(mains: tuple[Main, ...], named: tuple[str, ...]) -> tuple[Main, ...]:
    """Return the main libraries, only the one that was named where it is one."""
    asked = tuple(main for main in mains if main.elf.soname in named)
    return asked or mains


def _names_of(view: FileView, place: str, file: File) -> tuple[str, ...]:
    """Return the names that one library answers to; none when it is no library."""
    try:
        soname = view.elf(file).soname
    except StackproofError:
        return ()
    return tuple({posixpath.basename(place), posixpath.basename(file.path), soname} - {""})


def _libraries(view: FileView, folder: str) -> Iterator[tuple[str, str]]:
    for name in view.listing(folder):
        if _LIBRARY.fullmatch(name):
            yield name, posixpath.join(folder, name)


def _mains(view: FileView, names: Mapping[str, str]) -> Iterator[Main]:
    """Yield the MPI libraries of a prefix, each file once, under the name that is its SONAME."""
    seen = set()
    for name, path in names.items():
        if not name.startswith("libmpi"):
            continue
        file = view.look(path)
        if file is None or file.identity in seen:
            continue
        try:
            elf = view.elf(file)
        except StackproofError:  # a linker script, for example
            continue
        found = abi.family_of(elf)
        if found is None:
            continue
        # Wheels hold copies in the place of links: the one under the SONAME is what is loaded.
        home = names.get(elf.soname, path)
        file = view.look(home) or file
        if file.identity not in seen:
            seen.add(file.identity)
            yield Main(path=home, file=file, elf=view.elf(file), family=found[0], shown=found[1])


def part_of(name: str) -> LibraryRole | None:
    """Return the part of an MPI that a name promises, None for another library.

    The name may be that of the file which links lead to: `libopen-pal.so.40.30.2`.
    """
    found = abi.abi_of_name(_MINOR.sub(r"\1", name))
    return found[1] if found else None
