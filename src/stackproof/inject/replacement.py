"""What is to be injected: the libraries of a prefix, and the MPI among them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import File, FileView, elf_at
from stackproof.mpi import abi
from stackproof.mpi.abi import AbiFamily, LibraryRole

_LIBRARY = re.compile(r"lib.+\.so(?:\.[0-9.]+)?")
_FOLDERS = ("lib", "lib64")
_MULTIARCH = ("lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu")
_SYSTEM = re.compile(r"(?:/usr)?/lib(?:32|64)?/")
_MINOR = re.compile(r"(\.so\.\d+)(?:\.\d+)+$")
_NETWORK = re.compile(r"lib(?:fabric|cxi|xpmem|uc[mpst])[.-]")
_STACK, _DESCRIBED = "stack", "env.json"
"""What a pack, and what the tree of an image, is known by."""
_NO_PACKAGES = frozenset({"bin", "sbin", "include", "share", "etc", "var", "src", "env", "meta"})
_DEEPEST = 4
"""Trees of EasyBuild and Spack have `software/NAME/VERSION` and the like."""
_SHOWN = 3
_PLUGIN = re.compile(r"(?:mca_|lib).+?\.so(?:\.[0-9.]+)?")


class Main(Value):
    """The main library of an MPI; a prefix may have several, one for each ABI."""

    path: str
    file: File
    elf: ElfFile
    family: AbiFamily
    shown: str

    @property
    def soname(self) -> str:
        """Return its SONAME, or the name of its file without one."""
        return self.elf.soname or posixpath.basename(self.path)


class Replacement(Value):
    """A prefix and the folders of its libraries.

    `names` maps the file names of its libraries to their paths, `plain` those without a number to
    the ABI of the MPI there; `named` are the names of a library that was asked for by itself.
    Without `mains` it is no MPI but something below one, such as libfabric.
    """

    prefix: str
    folders: tuple[str, ...]
    names: Mapping[str, str]
    mains: tuple[Main, ...]
    named: tuple[str, ...] = ()
    plain: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str, main: Main) -> bool:
        """Return True for a name of one of its libraries; a plain one must lead to that MPI."""
        return name in self.names and self.plain.get(name, main.family.abi) == main.family.abi

    def main_for(self, *abis: str | None) -> Main | None:
        """Return the main library for the first ABI that one is of, the first one for none."""
        mains: dict[str, Main] = {}
        for main in self.mains:
            mains.setdefault(main.family.abi, main)
        return next((mains[name] for name in (*abis, *mains) if name in mains), None)

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
        return not self.is_shared or part_of(name) is not None or name in self.named

    @property
    def is_shared(self) -> bool:
        """Return True for a folder of the system, which holds everything else too."""
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

    A prefix may be a stack that was installed or packed, or an image's tree: its MPI lies deeper,
    and what it offers is that MPI, in the whole prefix. Raises `StackproofError`: NO_MPI when there
    is no shared library, or a stack has neither an MPI nor a network library; INVALID_VALUE for a
    stack with several MPIs.
    """
    single = view.look(place)
    offered = _offered(view, place, single)
    tree = "" if single is not None or (offered and offered.mains) else _tree_in(view, place)
    if tree:
        return replace(_inner(view, place, tree), prefix=place.rstrip("/"))
    if offered is not None:
        return offered
    raise fail(
        Reason.NO_MPI,
        f"there is no shared library in `{place}`"
        if single is None
        else f"`{place}` is neither a shared library nor an image",
        where=Location(file=place),
        hint="name the prefix that has `lib/libmpi.so…`, or the library itself",
    )


def require_use(replacement: Replacement) -> Replacement:
    """Return a replacement that has an MPI, a network library, or one library that was named.

    Raises `StackproofError` (NO_MPI) for a folder of other libraries: programs would keep all they
    have, and seem to work with it.
    """
    by_name = replacement.named or any(part_of(name) for name in replacement.names)
    if replacement.mains or by_name or _has_network(replacement):
        return replacement
    names = ", ".join(f"`{name}`" for name in sorted(replacement.names)[:_SHOWN])
    raise fail(
        Reason.NO_MPI,
        f"`{replacement.prefix}` has neither an MPI nor a network library, only {names}",
        where=Location(file=replacement.prefix),
        hint="name the prefix that has `lib/libmpi.so…` or `lib/libfabric.so.1`; to replace "
        "another library, name its file",
    )


def _has_network(replacement: Replacement) -> bool:
    return any(map(_NETWORK.match, replacement.names))


def _tree_in(view: FileView, place: str) -> str:
    """Return the folder of a prefix that a stack's packages lie in, empty for another prefix."""
    stack = posixpath.join(place, _STACK)
    if view.listing(stack):
        return stack
    return place.rstrip("/") if _DESCRIBED in view.listing(posixpath.join(place, "meta")) else ""


def _inner(view: FileView, place: str, tree: str) -> Replacement:
    """Return the MPI of a stack, else its first package with a network library."""
    offers = [_offered(view, folder, None) for folder in _packages(view, tree, _DEEPEST)]
    packages = [offer for offer in offers if offer is not None]
    several = {offer.mains[0].file.identity: offer for offer in packages if offer.mains}
    if len(several) > 1:
        shown = ", ".join(f"`{offer.prefix}`" for offer in several.values())
        raise fail(
            Reason.INVALID_VALUE,
            f"the stack in `{place}` has several MPIs: {shown}",
            where=Location(file=place),
            hint="name one of them",
        )
    networks = [offer for offer in packages if _has_network(offer)]
    networks.sort(key=lambda offer: "libfabric.so.1" not in offer.names)
    for offer in (*several.values(), *networks):
        return offer
    raise fail(
        Reason.NO_MPI,
        f"the stack in `{place}` has neither an MPI nor a network library",
        where=Location(file=place),
        hint="name a prefix that has one; the stack's own recipe says what is in it",
    )


def _packages(view: FileView, folder: str, depth: int) -> Iterator[str]:
    """Yield the folders below a stack's folder that have a `lib`, outer ones first."""
    names = [name for name in view.listing(folder) if not name.startswith(".")]
    inside = [
        posixpath.join(folder, name) for name in names if name not in (*_NO_PACKAGES, *_FOLDERS)
    ]
    has_libraries = any(name in _FOLDERS for name in names)
    if has_libraries:
        yield folder
    if depth and (not has_libraries or depth == _DEEPEST):
        for path in inside:
            yield from _packages(view, path, depth - 1)


def _offered(view: FileView, place: str, single: File | None) -> Replacement | None:
    """Return the replacement that a place itself is, None without a shared library."""
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
            if not name.startswith("libmpi") or _is_library(view, path):
                names.setdefault(name, path)
    if not names:
        return None
    named = () if single is None else _names_of(view, place, single)
    return Replacement(
        prefix=prefix,
        folders=folders,
        names=names,
        mains=_named_first(tuple(_mains(view, names)), named),
        named=named,
        plain=dict(_plain(view, names)),
    )


def _plain(view: FileView, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name in filter(abi.is_plain, names):
        file = view.look(names[name])
        known = abi.family_of(view.elf(file)) if file else None
        if known:
            yield name, known[0].abi


def _is_library(view: FileView, path: str) -> bool:
    """Return False for a text of the linker under the name of a library."""
    file = view.look(path)
    try:
        return file is not None and bool(view.elf(file))
    except StackproofError as error:
        return error.reason is not Reason.NOT_ELF


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
        file, elf = view.look(path), elf_at(view, path)
        if file is None or elf is None or file.identity in seen:
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


def libraries_of(
    view: FileView, replacement: Replacement, is_meant: Callable[[str], object]
) -> dict[str, str]:
    """Return the paths of libraries by their SONAMEs: all main ones, and those that are meant.

    Cray's main ones have a compiler in their names, others may have anything: what MPI is shows
    inside.
    """
    found = {main.soname: main.path for main in replacement.mains}
    for name, path in replacement.names.items():
        elf = elf_at(view, path)
        soname = elf.soname or name if elf else ""
        if soname and is_meant(soname):
            found.setdefault(soname, replacement.names.get(soname, path))
    return found


def part_of(name: str) -> LibraryRole | None:
    """Return the part of an MPI that a name promises, None for another library.

    The name may be that of the file which links lead to: `libopen-pal.so.40.30.2`.
    """
    found = abi.abi_of_name(_MINOR.sub(r"\1", name))
    return found[1] if found else None
