"""What is known of the machine that a program will run on, where that is not this one.

Two kinds of facts: the machine's own files, from an ABI manifest that was written there, which are
then seen in the place of this machine's; or what a site file says (releases of libraries,
processor, launchers), with which the version nodes that are needed are compared. What neither tells
is said to be unknown, together with what would tell it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import field

from stackproof.core.value import Value
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.releases import Releases, number_of
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import CacheEntry, Closure, File, FileView, MappedObject
from stackproof.linking.loader.machine import LEVELS

if TYPE_CHECKING:
    from stackproof.site.model import Site

_SYSTEM = re.compile(r"(?:/usr)?/lib(?:32|64|x32)?/|/etc/ld\.so\.cache")
_C_LIBRARY = re.compile(
    r"(?:ld-linux[\w.-]*|ld64|lib(?:c|m|mvec|dl|pthread|rt|util|resolv|anl|nsl|crypt|BrokenLocale|"
    r"thread_db))\.so\.\d+"
)
_COMPILER = re.compile(r"lib(?:stdc\+\+|gcc_s|gfortran|quadmath|gomp|atomic)\.so\.\d+")
_DRIVER = {
    "nvidia": re.compile(r"lib(?:cuda|nvidia-[\w-]+|nvcuvid)\.so(?:\.\d+)*"),
    "amd": re.compile(r"lib(?:hsa-runtime64|amdhip64|drm_amdgpu)\.so(?:\.\d+)*"),
}
# SLES 15 has glibc 2.26 and GCC 7, RHEL 8 newer ones, and machines of this field no older system.
_ALWAYS = {"GCC": (7, 0, 0), "GLIBCXX": (3, 4, 23), "CXXABI": (1, 3, 11), "GLIBC": (2, 26)}
_PRODUCTS = {
    "glibc": "glibc",
    "libfabric": "libfabric",
    "slingshot-host-software": "Slingshot host software",
    "gcc": "GCC",
}
"""How sites call what `knowledge/symbol-versions.yaml` knows releases of."""
_KINDS = {"GLIBC": "glibc", "FABRIC": "libfabric", "LIBCXI": "slingshot-host-software",
          "GLIBCXX": "gcc", "CXXABI": "gcc", "GCC": "gcc", "GFORTRAN": "gcc"}  # fmt: skip
_LIBRARIES = {
    "libfabric": "libfabric.so.1",
    "libcxi": "libcxi.so.1",
    "slingshot-host-software": "libcxi.so.1",
    "xpmem": "libxpmem.so.0",
}
"""What sites name as externals, by the library that comes with it."""
_SHOWN = 12


class Target(Value):
    """A machine by its facts.

    `nodes` has the newest version node of each kind that its system has; `os_name` is the name
    of that where its glibc follows from nothing else; `present` are libraries that it is known
    to have, by SONAME; `there` is a view of its own files where a manifest has them. `level` is
    the level of its processors, empty when unknown. `gpu` is nvidia, amd, none or empty;
    `starts` are launchers by the names of `starting.OFFERS`. `contained` says that programs
    bring their own system.
    """

    name: str
    architecture: str = ""
    level: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)
    os_name: str = ""
    present: frozenset[str] = frozenset()
    there: FileView | None = None
    gpu: str = ""
    starts: tuple[str, ...] = ()
    contained: bool = False

    def is_driver(self, soname: str) -> bool:
        """Return whether a library comes with the driver of the machine's GPUs."""
        return self.gpu in _DRIVER and bool(_DRIVER[self.gpu].fullmatch(soname))

    def because(self, kind: str) -> str:
        """Return words that say what a node of a kind follows from; empty for what is stated."""
        return f", as {self.os_name} has" if self.os_name and kind == "GLIBC" else ""

    def has(self, soname: str) -> bool:
        """Return whether the machine is known to have a library."""
        if soname in self.present or self.is_driver(soname):
            return True
        if _COMPILER.fullmatch(soname):
            return "GLIBCXX" in self.nodes
        return is_c_library(soname) and "GLIBC" in self.nodes


def is_c_library(soname: str) -> bool:
    """Return whether a library is of glibc, whose release says all of it."""
    return _C_LIBRARY.fullmatch(soname) is not None


# Levels of the x86-64 psABI by the names that Spack gives to processors.
# Source: microarchitectures.json of https://github.com/archspec/archspec-json.
_LEVELS = {
    **dict.fromkeys(("x86_64", "core2", "k10"), LEVELS[0]),
    **dict.fromkeys(("x86_64_v2", "nehalem", "westmere", "sandybridge", "ivybridge"), LEVELS[1]),
    **dict.fromkeys(
        ("x86_64_v3", "haswell", "broadwell", "skylake", "zen", "zen2", "zen3"), LEVELS[2]
    ),
    **dict.fromkeys(
        ("x86_64_v4", "skylake_avx512", "cascadelake", "icelake", "sapphirerapids", "zen4", "zen5"),
        LEVELS[3],
    ),
}


def target_of_site(site: Site, releases: Releases) -> Target:
    """Return what a site says; of several partitions what holds for all of them."""
    every = {**site.tools, **site.externals}
    versions = {name: one.version for name, one in every.items() if one.version}
    follows = "" if site.glibc else releases.glibc_of(site.os or "")
    if glibc := site.glibc or follows:
        versions["glibc"] = glibc
    told = {word: versions[word] for word in _PRODUCTS if word in versions}
    nodes: dict[str, str] = {}
    for word, release in told.items():
        nodes |= releases.nodes_of(_PRODUCTS[word], release)
    if "glibc" in told:
        nodes["GLIBC"] = f"GLIBC_{'.'.join(told['glibc'].split('.')[:2])}"
    if "gcc" in told:  # nodes of libgcc and libgfortran are called by the release of GCC
        nodes |= {kind: f"{kind}_{told['gcc']}" for kind in ("GCC", "GFORTRAN")}
    partitions = tuple(site.partitions.values())
    machines = {one.architecture for one in partitions}
    found = [_LEVELS.get(one.microarchitecture or "", "") for one in partitions]
    gpus = {"none" if one.gpus == 0 else _maker(one.gpu) for one in partitions}
    return Target(
        name=site.name,
        architecture=(machines.pop() or "") if len(machines) == 1 else "",
        level=min(found, key=LEVELS.index) if found and all(found) else "",
        nodes=nodes,
        releases=told,
        os_name=(site.os or "") if follows else "",
        present=frozenset(_LIBRARIES[name] for name in every if name in _LIBRARIES),
        gpu=gpus.pop() if len(gpus) == 1 else "",
        starts=tuple(f"{name}:{pmi}" for name, one in site.launchers.items() for pmi in one.pmi),
    )


def _maker(gpu: str | None) -> str:
    word = (gpu or "").partition(" ")[0].lower()
    return word if word in _DRIVER else ""


class TargetView:
    """The files of a program and its replacement, with the system of another machine below them."""

    def __init__(self, base: FileView, system: FileView) -> None:
        self._views = {"here": base, "there": system}

    def _name(self, path: str) -> str:
        return "there" if _SYSTEM.match(posixpath.normpath(path)) else "here"

    def look(self, path: str) -> File | None:
        """Return the file at a path: of the other machine in folders of the system."""
        name = self._name(path)
        file = self._views[name].look(path)
        return None if file is None else file._replace(identity=f"{name} {file.identity}")

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
        """Return the names in a folder."""
        return self._views[self._name(f"{folder.rstrip('/')}/")].listing(folder)

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache."""
        return self._views[self._name(path)].cache(path)

    def preloads(self) -> tuple[str, ...]:
        """Return what every program of the other machine has preloaded."""
        return self._views["there"].preloads()


def target_findings(
    closure: Closure, owns: Callable[[str], bool], target: Target, releases: Releases
) -> Iterator[Finding]:
    """Yield what facts say of a closure that was computed with this machine's system.

    Libraries in folders of the system stand for those of the target: of these only what is asked
    of them counts. A target whose own files are known needs none of this.
    """
    program = closure.program
    if target.architecture and target.architecture != program.elf.machine:
        yield Finding(
            cause=Cause.OTHER_MACHINE,
            effect=Effect.FAILS,
            message=f"the program is for {program.elf.machine}, {target.name} is "
            f"{target.architecture}",
            file=program.path,
            remedy="check a build for that machine",
        )
        return
    if not target.level:
        yield from _level_findings(closure, target)
    if target.there is None and not target.contained:
        yield from _node_findings(closure, owns, target, releases)
        yield from _presence_findings(closure, owns, target)
    yield from _driver_findings(closure, owns, target, releases)


def is_system(loaded: MappedObject, owns: Callable[[str], bool]) -> bool:
    """Return whether an object is of the system: neither program nor replacement brings it."""
    return loaded.by is not None and not owns(loaded.path) and bool(_SYSTEM.match(loaded.path))


def _level_findings(closure: Closure, target: Target) -> Iterator[Finding]:
    asking = [loaded for loaded in closure.objects if loaded.elf.isa]
    if asking:
        most = max(asking, key=lambda loaded: LEVELS.index(loaded.elf.isa))
        yield Finding(
            cause=Cause.INSTRUCTIONS,
            effect=Effect.CANNOT_TELL,
            message=f"it demands {most.elf.isa}; which level the processors of {target.name} have "
            "is not known",
            file=most.path,
            remedy="say it with --isa, or as `microarchitecture` of the site's partition",
        )


def _wanted(closure: Closure, owns: Callable[[str], bool]) -> dict[tuple[str, str], MappedObject]:
    """Return the version nodes that are asked of the system, by library, and who asks."""
    found: dict[tuple[str, str], MappedObject] = {}
    for loaded in closure.objects:
        if is_system(loaded, owns):
            continue
        for need in loaded.elf.version_needs:
            provider = closure.named(need.library)
            if (provider is None or is_system(provider, owns)) and not need.weak:
                found.setdefault((need.library, need.name), loaded)
    return found


def _node_findings(
    closure: Closure, owns: Callable[[str], bool], target: Target, releases: Releases
) -> Iterator[Finding]:
    unknown: dict[str, tuple[str, str, MappedObject]] = {}
    for (library, node), by in _wanted(closure, owns).items():
        kind = node.rpartition("_")[0]
        number = number_of(node)
        newest = target.nodes.get(kind)
        if not number or (newest is None and number <= _ALWAYS.get(kind, (0,))):
            continue
        if newest is None:
            if kind not in unknown or number > number_of(unknown[kind][1]):
                unknown[kind] = (library, node, by)
        elif number > number_of(newest):
            word = _KINDS.get(kind, "")
            meaning = releases.meaning(node)
            yield Finding(
                cause=Cause.VERSION_MISSING,
                effect=Effect.FAILS,
                message=f"version `{node}`{f' (that is {meaning})' if meaning else ''} of "
                f"`{library}` is not on {target.name}, which has "
                f"{word} {target.releases.get(word, newest)}{target.because(kind)}",
                file=by.path,
                provider=library,
                version=node,
                remedy="use a build for an older system, or a container with a newer one",
            )
    for kind, (library, node, by) in unknown.items():
        meaning = releases.meaning(node)
        name = _KINDS.get(kind)
        key = "glibc: …" if name == "glibc" else f"externals: {{{name}: {{version: …}}}}"
        remedy = f"say `{key}` of it" if name else ""
        yield Finding(
            cause=Cause.TARGET_UNKNOWN,
            effect=Effect.CANNOT_TELL,
            message=f"`{library}` of {target.name} must have `{node}`"
            f"{f' (that is {meaning})' if meaning else ''}, and its release is not known",
            file=by.path,
            provider=library,
            version=node,
            remedy=" or ".join(filter(None, [remedy, "let `inject manifest` write one there"])),
        )


def _of_release(name: str) -> bool:
    """Return whether a library is everywhere, so that only its release can be wrong."""
    return bool(_C_LIBRARY.fullmatch(name) or _COMPILER.fullmatch(name))


def _presence_findings(
    closure: Closure, owns: Callable[[str], bool], target: Target
) -> Iterator[Finding]:
    """Yield the libraries of the system that the target may not have, all in one."""
    names = {
        loaded.elf.soname or posixpath.basename(loaded.path): closure.objects[loaded.by or 0]
        for loaded in closure.objects
        if is_system(loaded, owns) and not is_system(closure.objects[loaded.by or 0], owns)
    }
    unknown = sorted(name for name in names if not target.has(name) and not _of_release(name))
    if unknown:
        shown = ", ".join(f"`{name}`" for name in unknown[:_SHOWN])
        yield Finding(
            cause=Cause.TARGET_UNKNOWN,
            effect=Effect.CANNOT_TELL,
            message=f"whether {target.name} has {shown} is not known",
            file=names[unknown[0]].path,
            provider=unknown[0],
            symbols=tuple(unknown),
            remedy="look with `ldconfig -p` there, or let `inject manifest` write one there",
        )


def _driver_findings(
    closure: Closure, owns: Callable[[str], bool], target: Target, releases: Releases
) -> Iterator[Finding]:
    """Yield whether a libcxi that is brought along may be newer than the driver of the target."""
    for loaded in closure.objects:
        nodes = [entry.name for entry in loaded.elf.version_definitions
                 if entry.name.startswith("LIBCXI_")]  # fmt: skip
        if not nodes or (is_system(loaded, owns) and not target.contained):
            continue
        newest = max(nodes, key=number_of)
        known = target.nodes.get("LIBCXI")
        if known is None or number_of(newest) > number_of(known):
            has = f"of {releases.meaning(known)}" if known else "of a release that is not known"
            yield Finding(
                cause=Cause.DRIVER,
                effect=Effect.CANNOT_TELL,
                message=f"this libcxi has `{newest}` ({releases.meaning(newest) or 'a release'}); "
                f"whether the driver of {target.name}, {has}, answers it no file tells",
                file=loaded.path,
                version=newest,
                remedy="take the libcxi of the target's own release of the Slingshot host software",
            )
