"""A prefix to a network-stack artefact: libraries that can be put under any program one by one.

An artefact has a folder for every level at which it can be injected, with the libraries of that
level only, and one with all that they need. What is needed has a SONAME of its own there, which
nothing else in a process asks for or answers to, so that no library of the program takes its place
and it takes the place of none. Search paths are DT_RPATHs: LD_LIBRARY_PATH does not come before
them. They name `$ORIGIN`, and the place at which containers see the artefact, since a library that
a bind mount puts over another one has that one's folder as its `$ORIGIN`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.inject.delivery import Copied, Gathered, InjectionDelivery, find_beside, stays
from stackproof.inject.hook_manifest import Compact, Replaced
from stackproof.inject.program import configured_for
from stackproof.inject.replacement import Main, Replacement, libraries_of, part_of
from stackproof.linking.elf.model import MACHINES
from stackproof.linking.loader import (
    Closure,
    FileView,
    LoaderSettings,
    Machine,
    MappedObject,
    load_program,
)
from stackproof.mpi import families, requirement
from stackproof.mpi.abi import Abi

PRIVATE = "private"
_PRIVATE_PLUGINS = f"{PRIVATE}/provider/"
_FABRIC = "libfabric.so.1"
_BELOW_MPI = {
    "libcxi": re.compile(r"libcxi\.so\.\d+"),
    "libfabric": re.compile(r"lib(?:fabric|xpmem)\.so\.\d+"),
}
_PROVIDER = re.compile(r"lib.+-fi\.so")
_MODULE = re.compile(r"lib.+\.so(?:\.[0-9.]+)?")
# They open drivers by name that ask for `libibverbs.so.1`: with a copy of their own, nobody finds a
# device (rdma-core, Documentation/versioning.md: provider plug-ins).
_RDMA = re.compile(r"lib(?:ibverbs|rdmacm|ibumad|efa|mlx4|mlx5|mana|hns)\.so\.\d+")
# Functions by the standard that brought them (changes listed in MPI 3.0, 3.1, 4.0, 4.1 and 5.0).
_PROBES = (
    "MPI_Mprobe",
    "MPI_T_cvar_get_index",
    "MPI_Psend_init",
    "MPI_Session_init",
    "MPI_Send_c",
    "MPI_Get_hw_resource_info",
    "MPI_Abi_get_version",
)


class ArtefactRequest(Value):
    """What an artefact is to be called, where containers see it, and for which release of SHS.

    `tag` is what private SONAMEs hold, `machine` the processor that its libraries may need.
    """

    name: str
    place: str
    tag: str
    machine: Machine
    shs: str = ""


def plan_artefact(
    view: FileView, replacement: Replacement, wish: ArtefactRequest
) -> tuple[InjectionDelivery, Compact]:
    """Return how a prefix becomes a variant of an artefact, and what a hook is told of that.

    Raises `StackproofError` with all that is in the way: NO_FABRIC when the prefix has nothing that
    could be injected, INJECTION_FAILS for libraries that lack something.
    """
    chosen = libraries_of(view, replacement, _level)
    if not chosen:
        raise fail(
            Reason.NO_MPI,
            f"`{replacement.prefix}` has neither an MPI nor libfabric, libcxi or xpmem",
            where=Location(file=replacement.prefix),
            hint="name the prefix that has `lib/libfabric.so.1`",
        )
    work = _Work(view=view, wish=wish, folders=replacement.folders)
    for path in chosen.values():
        work.take(path)
    for soname in tuple(work.gathered.found):  # libfabric of an MPI comes to light in its closure
        level = _level(soname)
        if level:
            chosen.setdefault(soname, work.gathered.found[soname].path)
    work.gathered.check()
    plugins = tuple(work.plugins(replacement))
    if not replacement.mains:
        plugins = tuple(one for one in plugins if not one.target.startswith(_PRIVATE_PLUGINS))
    parts = _asked_for((*_parts(work, chosen), *plugins))
    told, trees = _moved(view, replacement, work, wish)
    have = {_level(soname) or "mpi" for soname in chosen}
    environment = {"mpi": told, "libfabric": {}}
    if any(part.target.startswith("provider/") for part in plugins):
        environment["libfabric"] = {"FI_PROVIDER_PATH": f"{wish.place}/provider"}
        told["FI_PROVIDER_PATH"] = f"{wish.place}/{PRIVATE}/provider"
    environment = {level: values for level, values in environment.items() if level in have}
    delivery = InjectionDelivery(
        copies=parts,
        trees=trees,
        left=tuple(sorted(work.gathered.left)),
        without=tuple(work.without),
    )
    return delivery, _compact(work, chosen, replacement, environment)


def _level(soname: str) -> str:
    if part_of(soname) is not None:
        return "mpi"
    return next((name for name, form in _BELOW_MPI.items() if form.fullmatch(soname)), "")


class _Work(Struct, kw_only=True):
    """Libraries that are gathered, their closures, and plug-ins that stay behind."""

    view: FileView
    wish: ArtefactRequest
    folders: tuple[str, ...]
    gathered: Gathered = field(default_factory=lambda: Gathered(stays=is_machines))
    closures: list[Closure] = field(default_factory=list)
    without: list[str] = field(default_factory=list)

    def take(self, path: str) -> None:
        """Take in a library with all that it needs."""
        closure = self._load(path)
        self.closures.append(closure)
        self.gathered.take(closure)

    def _load(self, path: str) -> Closure:
        """Return the closure of a library: by itself, else with the folders of the prefix.

        Intel's libraries have no search path and rely on LD_LIBRARY_PATH; their copies have one.
        """
        closure = self._closure_with(path, ())
        if all(is_machines(edge.name) for edge in closure.missing):
            return closure
        more = self._closure_with(path, self.folders)
        return more if len(more.missing) < len(closure.missing) else closure

    def _closure_with(self, path: str, folders: tuple[str, ...]) -> Closure:
        setting = LoaderSettings(library_path=folders)
        return load_program(self.view, path, machine=self.wish.machine, setting=setting)

    def private(self, soname: str) -> str:
        """Return the SONAME of a private copy: `libnl-3.so.200` becomes `libnl-3-sp….so.200`."""
        head, dot, tail = soname.partition(".so")
        return f"{head}-sp{self.wish.tag}{dot}{tail}" if dot else f"{soname}-sp{self.wish.tag}"

    def renamed(self, loaded: MappedObject, mine: str) -> dict[str, str]:
        """Return what the copy of an object asks for instead; `mine` is the level of the copy.

        Parts of one MPI find each other by their own names, everything else by its private one.
        """
        names = {}
        for name in loaded.elf.needed:
            to = self._target(loaded, name)
            if to is None or is_machines(to):
                continue
            new = to if mine == _level(to) == "mpi" else self.private(to)
            if new != name:
                names[name] = new
        return names

    def _target(self, loaded: MappedObject, name: str) -> str | None:
        for closure in self.closures:
            for one in closure.objects:
                if one.file.identity != loaded.file.identity:
                    continue
                for edge in closure.needs_of(one.number):
                    if edge.name == name and edge.to is not None:
                        return closure.objects[edge.to].soname
        return None

    def plugins(self, replacement: Replacement) -> Iterator[Copied]:
        """Yield plug-ins of libfabric and UCX; those that lack something are left behind."""
        beside = (path for _, path in find_beside(self.view, self.gathered.found))
        for path in dict.fromkeys((*replacement.plugins(self.view), *beside)):
            name, folder = posixpath.basename(path), posixpath.basename(posixpath.dirname(path))
            form = {"libfabric": _PROVIDER, "ucx": _MODULE}.get(folder)
            file = self.view.look(path)
            if form is None or not form.fullmatch(name) or file is None:
                continue
            try:
                closure = self._load(path)
            except StackproofError as error:
                self.without.append(f"{name}: {error.problems[0].message}")
                continue
            if why := self.gathered.missing(closure):
                self.without.append(f"{name}: {why}")
                continue
            if folder == "libfabric":
                # It talks to the libfabric that opens it: the program's, or the MPI's private one.
                yield self._plugin(closure, "provider", keep=_FABRIC)
                yield self._plugin(closure, f"{PRIVATE}/provider")
            else:
                yield self._plugin(closure, f"{PRIVATE}/ucx")

    def _plugin(self, closure: Closure, folder: str, keep: str = "") -> Copied:
        plugin, rest = closure.objects[0], closure.objects[1:]
        self.closures.append(closure)
        beside = posixpath.dirname(plugin.path)
        for loaded in rest:
            soname = loaded.soname
            if not is_machines(soname) and posixpath.dirname(loaded.path) != beside:
                self.gathered.found.setdefault(soname, loaded)
        # A plug-in of UCX may need another one, which keeps its name: it lies beside it.
        near = {one.soname for one in rest if posixpath.dirname(one.path) == beside} | {keep}
        needed = {
            old: new for old, new in self.renamed(plugin, "plugin").items() if old not in near
        }
        up = "../private" if folder == "provider" else ".."
        return Copied(
            source=plugin.file.path,
            target=f"{folder}/{posixpath.basename(plugin.path)}",
            soname=plugin.elf.soname,
            rpath=f"$ORIGIN:$ORIGIN/{up}:{self.wish.place}/{PRIVATE}",
            needed=needed,
        )


def _parts(work: _Work, chosen: Mapping[str, str]) -> Iterator[Copied]:
    place = work.wish.place
    for soname in chosen:
        loaded = work.gathered.found[soname]
        level = _level(soname) or "mpi"
        folders = ["$ORIGIN", f"$ORIGIN/../{PRIVATE}", f"{place}/{level}", f"{place}/{PRIVATE}"]
        if level != "mpi":  # only an MPI has parts that stand beside each other by their names
            folders = [f"$ORIGIN/../{PRIVATE}", f"{place}/{PRIVATE}"]
        yield Copied(
            source=loaded.file.path,
            target=f"{level}/{soname}",
            soname=soname,
            rpath=":".join(folders),
            needed=work.renamed(loaded, level),
        )
    for soname, loaded in work.gathered.found.items():
        if soname in chosen and _level(soname) in {"mpi", ""}:
            continue
        new = work.private(soname)
        yield Copied(
            source=loaded.file.path,
            target=f"{PRIVATE}/{new}",
            soname=new,
            rpath=f"$ORIGIN:{place}/{PRIVATE}",
            needed=work.renamed(loaded, PRIVATE),
        )


def _asked_for(parts: tuple[Copied, ...]) -> tuple[Copied, ...]:
    """Return parts without private libraries that no other part asks for."""
    by_name = {part.soname: part for part in parts if part.target.startswith(f"{PRIVATE}/lib")}
    todo = [part for part in parts if part.soname not in by_name]
    found: dict[str, Copied] = {}
    while todo:
        part = todo.pop()
        if part.target not in found:
            found[part.target] = part
            todo += [by_name[name] for name in part.needed.values() if name in by_name]
    return tuple(sorted(found.values(), key=lambda part: part.target))


def _moved(
    view: FileView, replacement: Replacement, work: _Work, wish: ArtefactRequest
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what an Open MPI must be told of its new place, and the files that it reads there."""
    if not configured_for(view, work.gathered.found.values()):
        return {}, {}
    home = replacement.home
    trees = {f"home/{name}": posixpath.join(home, name) for name in ("etc", "share")}
    return dict.fromkeys(requirement.OPEN_MPI, f"{wish.place}/home"), trees


def _compact(
    work: _Work,
    chosen: Mapping[str, str],
    replacement: Replacement,
    environment: Mapping[str, Mapping[str, str]],
) -> Compact:
    wish = work.wish
    provides = {}
    for soname in chosen:
        nodes = work.gathered.found[soname].elf.version_definitions
        if names := tuple(node.name for node in nodes if not node.base):
            provides[soname] = names
    needs: dict[str, dict[str, None]] = {}
    levels = {""}
    for loaded in work.gathered.found.values():
        levels.add(loaded.elf.isa)
        for need in loaded.elf.version_needs:
            if is_machines(need.library) and not need.weak:
                needs.setdefault(need.library, {})[need.name] = None
        for name in loaded.elf.needed:
            if is_machines(name):
                needs.setdefault(name, {})
    replaces = list(_replaced(chosen))
    mains = {
        one.name: main
        for main in replacement.mains
        for one in replaces
        if posixpath.basename(one.file) == main.soname
    }
    families = {main.family.abi for main in mains.values()}
    machine = next(iter(work.gathered.found.values())).elf.machine
    return Compact(
        name=wish.name,
        place=wish.place,
        machine=next(number for number, name in MACHINES.items() if name == machine),
        isa=max(levels),
        shs=wish.shs,
        replaces=tuple(replaces),
        abis={name: main.family.abi for name, main in mains.items()},
        lacks={name: words for name, main in mains.items() if (words := _lacks(main))},
        provides=provides,
        parts=tuple(name for family in sorted(families) for name in _foreign(family, chosen)),
        needs={name: tuple(nodes) for name, nodes in needs.items()},
        environment=environment,
    )


def _lacks(main: Main) -> tuple[str, ...]:
    return tuple(name for name in _PROBES if name not in main.elf.exports)


def _replaced(chosen: Mapping[str, str]) -> Iterator[Replaced]:
    """Yield what is replaced, an MPI under the name too that Debian gives to MPICH."""
    for soname in chosen:
        level = _level(soname) or "mpi"
        yield Replaced(level=level, name=soname, file=f"{level}/{soname}")
    if "libmpi.so.12" in chosen and "libmpich.so.12" not in chosen:
        yield Replaced(level="mpi", name="libmpich.so.12", file="mpi/libmpi.so.12")


_STANDARD_PARTS = ("libmpifort_abi.so.1",)


def _foreign(family: str, chosen: Mapping[str, str]) -> Iterator[str]:
    """Yield parts of MPIs by the names that they have in containers, but those that are chosen.

    Those of one release fit each other.
    """
    known = families.REGISTRY.get(family)
    parts = known.parts if known else _STANDARD_PARTS if family == Abi.STANDARD else ()
    return (name for name in parts if name not in chosen)


def is_machines(name: str) -> bool:
    """Return whether a library stays the machine's: of the C library, of drivers, of RDMA."""
    return stays(name) or is_rdma(name)


def is_rdma(name: str) -> bool:
    """Return true for a library of rdma-core, whose drivers are plug-ins of the same release."""
    return _RDMA.fullmatch(posixpath.basename(name)) is not None


def folders_of(closures: Sequence[Closure], names: Collection[str]) -> tuple[str, ...]:
    """Return the folders in which programs find libraries of some names now."""
    found = {
        posixpath.dirname(loaded.path): None
        for closure in closures
        for loaded in closure.objects[1:]
        if loaded.soname in names or loaded.names & set(names)
    }
    return tuple(found)
