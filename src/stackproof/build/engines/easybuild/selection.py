"""A request and the catalogue to the components of a chain, each with its release or its place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct, field

from stackproof.build.engines.easybuild.components import (
    Build,
    Catalogue,
    ChainRequest,
    Component,
    ExternalComponent,
    Gpu,
    Need,
    Release,
    ReleaseSource,
    When,
)
from stackproof.build.engines.spack.conflicts import Conflict
from stackproof.core.errors import Location, Problem, Reason, did_you_mean
from stackproof.core.value import Value
from stackproof.core.versions import Versions, versions
from stackproof.mpi import families

LIBFABRIC = "libfabric"
GFORTRAN = "gfortran"
CXI = "cxi"
# Releases whose configure script decides about sm2 by what it is told of shm.
# Source: prov/sm2/configure.m4 in https://github.com/ofiwg/libfabric at 1.22 to 2.6.
_SHM, _SM2, _SM2_BY_SHM = "shm", "sm2", versions(":2.5")
# Providers that are linked to rdma-core.
_VERBS_USERS = ("verbs", "efa", "psm3")
_NO_CUDA = "no-cuda"
# Of one release of HPE's host software.
_HOST_SOFTWARE = ("libcxi", "cassini-headers", "cxi-driver")
# These go into commands of a shell and into names of files.
PATH = re.compile(r"/[A-Za-z0-9._+/-]+")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]*")


class SelectedComponent(Value, kw_only=False):
    """A component of a chain: built from `source`, or `external` on the machine."""

    component: Component
    version: str
    source: ReleaseSource | None = None
    external: ExternalComponent | None = None


class Selection(Struct):
    """What a request means, in build order; `notes` and `problems` as they were found.

    `where` gives the place of a key of the recipe that the request is from.
    """

    request: ChainRequest
    catalogue: Catalogue
    where: Callable[..., Location] | None = None
    parts: dict[str, SelectedComponent] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(
        self,
        message: str,
        hint: str,
        reason: Reason = Reason.INVALID_VALUE,
        at: tuple[str | int, ...] = (),
    ) -> None:
        """Note a problem, once; `at` are the keys of a recipe that it is about."""
        where = self.where(*at) if self.where and at else None
        problem = Problem(reason=reason, message=message, hint=hint, where=where)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse_unknown(self, name: str, at: tuple[str | int, ...]) -> None:
        """Note a problem where the catalogue has no component of this name."""
        known = self.catalogue.components
        if name not in known:
            self.refuse(f"the catalogue has no component `{name}`", name_hint(name, known), at=at)

    def check_place(self, prefix: str, name: str, at: tuple[str | int, ...]) -> None:
        """Note a problem of a folder of the machine that cannot stand in a command."""
        if not PATH.fullmatch(prefix) or ".." in prefix.split("/"):
            self.refuse(
                f"`{prefix}`, where `{name}` is, cannot be used",
                "write an absolute path of letters, digits and `._+-`",
                at=at,
            )

    def note(self, text: str) -> None:
        """Note what a user should know, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def machine(self) -> Mapping[str, ExternalComponent]:
        """Return what the machine has, the accelerator's software among it."""
        gpu, at = self.request.gpu, self.request.gpu_at
        return {**self.request.externals, **({gpu.value: at} if gpu is not Gpu.NONE and at else {})}

    def holds(self, when: When, version: str, component: str = "") -> bool:
        """Return whether an entry of a component counts in this chain.

        `component` is what the entry is about: a need, or what is left out.
        """
        request = self.request
        mpi, gpu = request.mpi[0] if request.mpi else "", request.gpu.value
        compilers = request.toolchain.compilers
        flags = {
            "xpmem": request.xpmem,
            "libcxi-tools": request.libcxi_tools,
            "bundled": request.bundled or component in request.bundled_parts,
            "ucx": request.ucx,
            "ucc": request.ucc,
            "gfortran": compilers is None or compilers.fortran == GFORTRAN,
            **{name: mpi == name for name in families.REGISTRY},
        }
        name = when.flag.removeprefix("no-")
        return (
            set(when.providers) <= set(request.providers)
            and not set(when.lacks) & set(request.providers)
            and (when.gpu in ("", gpu) or (when.gpu == _NO_CUDA and request.gpu is not Gpu.CUDA))
            and versions(f"={version}").within(when.versions)
            and (not name or flags[name] is (name == when.flag))
        )

    def there(self, part: SelectedComponent, need: Need) -> bool:
        """Return whether a component has one of its needs in this chain."""
        return need.component in self.parts and self.holds(need.when, part.version, need.component)

    def need_options(self, part: SelectedComponent) -> Iterator[str]:
        """Yield what configure is told of components that are there, and of those that are not."""
        for need in part.component.needs:
            text = need.option if self.there(part, need) else need.otherwise
            if text:
                yield text

    def build(self, part: SelectedComponent) -> Build:
        """Return how a component of the chain is built."""
        return next(
            (one for one in part.component.builds if self.holds(one.when, part.version)), Build()
        )


def select(
    request: ChainRequest, catalogue: Catalogue, where: Callable[..., Location] | None = None
) -> Selection:
    """Return the components of a chain, and every problem of the request."""
    found = Selection(request, catalogue, where)
    _check_words(found)
    _check_providers(found)
    _take(found, LIBFABRIC, request.libfabric)
    if request.xpmem:
        _take(found, "xpmem", request.versions.get("xpmem", ""))
    if request.mpi is not None:
        name, version = request.mpi
        if _known(found, name, "mpi", "an MPI", ("mpi", "family")):
            _take(found, name, version)
    for name in request.benchmarks:
        if request.mpi is None:
            found.refuse(
                f"the benchmarks `{name}` need an MPI",
                "name one, or leave the benchmarks out",
                at=("benchmarks",),
            )
        elif _known(found, name, "perf", "a benchmark", ("benchmarks",)):
            _take(found, name, request.versions.get(name, ""))
    _check_libnl(found)
    _check_conflicts(found)
    for name in sorted({*request.versions, *request.externals} - set(found.parts)):
        found.note(f"`{name}`, which the request speaks of, plays no part in this chain")
    return found


def _known(found: Selection, name: str, group: str, what: str, at: tuple[str, ...]) -> bool:
    names = [one.name for one in found.catalogue.components.values() if one.group == group]
    if name not in names:
        hint = f"there are: {', '.join(names)}"
        found.refuse(f"`{name}` is not {what} of the catalogue", hint, at=at)
    return name in names


def _check_words(found: Selection) -> None:
    """Check what goes into names and commands, and names of components."""
    request = found.request
    named = [("externals", name) for name in request.externals]
    named += [("versions", name) for name in request.versions]
    for at in named:
        found.refuse_unknown(at[1], at)
    ids = [conflict.id for conflict in found.catalogue.conflicts]
    for index, name in enumerate(request.accept):
        if name not in ids:
            found.refuse(
                f"no conflict `{name}` is known", name_hint(name, ids), at=("accept", index)
            )
    for name, external in found.machine.items():
        _check_external(found, name, external)
    if request.gpu is not Gpu.NONE and request.gpu_at is None:
        found.refuse(
            f"where {request.gpu} is installed is not known",
            "say which version is where: builds for GPUs use the machine's own software for them",
            Reason.MISSING_KEY,
            ("gpu",),
        )
    known = _origins(found.catalogue)
    for index, origin in enumerate(request.origins or ("",)):
        if origin not in known:
            hint = f"it is one of: {', '.join(sorted(known))}"
            found.refuse(f"`{origin}` is no origin of sources", hint, at=("sources", index))


def name_hint(name: str, known: Collection[str]) -> str:
    """Return the hint for a name that is not known: the nearest, or all that are."""
    return did_you_mean(name, known).strip() or f"there are: {', '.join(known)}"


def _origins(catalogue: Catalogue) -> set[str]:
    every = (one for component in catalogue.components.values() for one in component.releases)
    return {source.origin for release in every for source in release.sources}


def _check_external(found: Selection, name: str, external: ExternalComponent) -> None:
    gpu = external is found.request.gpu_at
    at: tuple[str, ...] = ("gpu-at",) if gpu else ("externals", name)
    found.check_place(external.prefix, name, (*at, "prefix"))
    if not WORD.fullmatch(external.version):
        message = f"`{external.version}` is no version of `{name}`"
        found.refuse(message, "write it as in 12.8.0", at=(*at, "version"))
    if external.module and not _MODULE.fullmatch(external.module):
        message = f"`{external.module}` is no name of a module"
        found.refuse(message, "write it as in cuda/12.8", at=(*at, "module"))


def _check_providers(found: Selection) -> None:
    """Check that this libfabric has the providers, and what cxi needs."""
    request = found.request
    if not request.providers:
        hint = "name some, such as shm and tcp"
        found.refuse("libfabric has no providers", hint, at=("libfabric", "providers"))
    for index, name in enumerate(request.providers):
        if name in request.providers[:index]:
            at = ("libfabric", "providers", index)
            found.refuse(f"the provider `{name}` stands twice", "name it once", at=at)
        else:
            _check_provider(found, name, index)
    if request.shs and CXI not in request.providers:
        found.note(
            f"the Slingshot host software {request.shs} plays no part without the provider cxi"
        )
    outside = all(name in found.machine for name in _HOST_SOFTWARE)
    if CXI in request.providers and not request.shs and not outside:
        found.refuse(
            "the provider `cxi` needs a release of the Slingshot host software",
            "name it (the release of the machine, or an older one), or say where the machine has "
            + ", ".join(_HOST_SOFTWARE),
            Reason.MISSING_KEY,
            ("libfabric", "providers", request.providers.index(CXI)),
        )


def _check_libnl(found: Selection) -> None:
    """Refuse two libraries of one name in one link: libcxi's libnl and that of the machine.

    The machine's libibverbs needs the machine's libnl. The linker takes that one for libcxi too,
    and Debian's lacks the symbol versions that libcxi was linked with.
    """
    providers = found.request.providers
    others = [name for name in _VERBS_USERS if name in providers]
    libnl = found.parts.get("libnl")
    if others and CXI in providers and libnl is not None and libnl.external is None:
        found.refuse(
            f"libfabric with `{CXI}` and `{others[0]}` does not link with a libnl of the chain: "
            f"`{others[0]}` needs the machine's libibverbs, and that the machine's libnl",
            "say where the machine has libnl (`externals: {libnl: {prefix: /usr, version: …}}`), "
            "or leave one of the two providers out",
            Reason.UNSUPPORTED,
            ("libfabric", "providers", providers.index(others[0])),
        )


def _check_provider(found: Selection, name: str, index: int) -> None:
    known = found.catalogue.components[LIBFABRIC].providers
    at = ("libfabric", "providers", index)
    asked = versions(f"={found.request.libfabric}")
    if name not in known:
        found.refuse(
            f"the provider `{name}` cannot be built here",
            f"{did_you_mean(name, known)}these can: {', '.join(known)}",
            Reason.UNSUPPORTED,
            at,
        )
    elif name == _SM2 and _SHM not in found.request.providers and asked.within(_SM2_BY_SHM):
        hint = f"name `{_SHM}` too: libfabric's configure script decides about both by it"
        found.refuse(f"the provider `{name}` is not built without `{_SHM}`", hint, at=at)
    elif asked.known and not asked.within(known[name]):
        found.refuse(
            f"libfabric {found.request.libfabric} has no provider `{name}`",
            f"it is in libfabric {span(known[name])}",
            Reason.UNSUPPORTED,
            at,
        )


def span(known: Versions) -> str:
    """Return a range of versions in words."""
    words = []
    for one in known.ranges:
        low, high = (".".join(map(str, end)) if end else "" for end in (one.low, one.high))
        if one.exact or (low and low == high):
            words.append(low)
        elif low and high:
            words.append(f"{low} to {high}")
        else:
            words.append(f"{low} and newer" if low else f"up to {high}" if high else "any version")
    return ", ".join(words)


def _take(found: Selection, name: str, version: str) -> SelectedComponent | None:
    """Take a component after all that it needs; return None when it cannot be had."""
    if name in found.parts:
        return found.parts[name]
    component = found.catalogue.components[name]
    external = found.machine.get(name)
    if external is not None:
        found.parts[name] = SelectedComponent(component, external.version, external=external)
        return found.parts[name]
    chosen = _release(found, component, version)
    if chosen is None:
        return None
    release, source = chosen
    for need in component.needs:
        if found.holds(need.when, release.version, need.component):
            _take_need(found, component, need)
    found.parts[name] = SelectedComponent(component, release.version, source)
    return found.parts[name]


def _take_need(found: Selection, component: Component, need: Need) -> None:
    request, name = found.request, need.component
    if name not in found.machine and not found.catalogue.components[name].releases:
        if need.missing:
            found.note(need.missing)
        if not need.optional and name != request.gpu.value:
            found.refuse(
                f"{component.software} needs `{name}` of the machine",
                found.catalogue.components[name].hint,
                Reason.MISSING_KEY,
            )
        return
    wanted = request.versions.get(name, request.shs if name in _HOST_SOFTWARE else "")
    if name in _HOST_SOFTWARE and not wanted and name not in found.machine:
        return  # said before, as the release is missing
    part = _take(found, name, wanted)
    if part is None:
        return
    if not versions(f"={part.version}").meets(need.versions):
        found.refuse(
            f"{component.software} does not work with {name} {part.version}",
            f"it works with {span(need.versions)}",
            at=_asked_at(found, name),
        )
    if need.module and part.external is not None and not part.external.module:
        found.refuse(
            f"EasyBuild finds the machine's `{name}` for {component.software} by a module alone",
            "name its module, or leave it to be built",
            at=("externals", name),
        )


def _asked_at(found: Selection, name: str) -> tuple[str, ...]:
    """Return the keys of a recipe that decide about a component's version."""
    request = found.request
    if name in request.externals:
        return ("externals", name, "version")
    if name in request.versions:
        return ("versions", name)
    if name == LIBFABRIC:
        return (LIBFABRIC, "version")
    if request.mpi and name == request.mpi[0]:
        return ("mpi", "version")
    return ("slingshot",) if name in _HOST_SOFTWARE else ()


def _release(
    found: Selection, component: Component, version: str
) -> tuple[Release, ReleaseSource] | None:
    """Return the release that is asked for, or the first of the best origin, and its source."""
    releases = [one for one in component.releases if version in ("", one.version)]
    if not releases:
        _refuse_version(found, component, version)
        return None
    for origin in found.request.origins:
        for release in releases:
            for source in release.sources:
                if source.origin == origin:
                    return release, source
    if not set(found.request.origins) & _origins(found.catalogue):
        return None  # said before
    origins = dict.fromkeys(source.origin for one in releases for source in one.sources)
    found.refuse(
        f"{component.software} {version or 'of any version'} has no source from "
        + " or ".join(f"`{origin}`" for origin in found.request.origins),
        f"allow one of: {', '.join(origins)}",
        Reason.UNSUPPORTED,
        _asked_at(found, component.name) or ("sources",),
    )
    return None


def _refuse_version(found: Selection, component: Component, version: str) -> None:
    at = _asked_at(found, component.name)
    if not component.releases:
        message = f"{component.software} is not built here"
        found.refuse(message, component.hint, Reason.UNSUPPORTED, at)
        return
    known = sorted((one.version for one in component.releases), key=_numbers, reverse=True)
    newer = WORD.fullmatch(version) and _numbers(version) > _numbers(known[0])
    host = component.name in _HOST_SOFTWARE and version == found.request.shs
    what = "Slingshot host software" if host else component.software
    found.refuse(
        f"{what} {version} is newer than any that is known here ({known[0]})"
        if newer
        else f"{what} {version} is not known here",
        f"known are {', '.join(known)}" + ("; later changes are not guessed" if newer else ""),
        Reason.UNSUPPORTED if newer else Reason.UNKNOWN_VERSION,
        at,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _check_conflicts(found: Selection) -> None:
    """Refuse versions that are known not to work together, and tell of the doubtful ones."""
    request = found.request
    switches = {
        "cuda": request.gpu is Gpu.CUDA,
        "rocm": request.gpu is Gpu.ROCM,
        "gdrcopy": "gdrcopy" in found.parts,
        "xpmem": request.xpmem,
    }
    variants = {name: {"true" if on else "false"} for name, on in switches.items()}
    variants["fabrics"] = {*request.providers, *(["xpmem"] if request.xpmem else [])}
    for conflict in found.catalogue.conflicts:
        wanted = [one for one in conflict.packages if one.name in found.parts]
        mine = [versions(f"={found.parts[one.name].version}") for one in wanted]
        if (
            len(wanted) < len(conflict.packages)
            or not all(one.meets(two.versions) for one, two in zip(mine, wanted, strict=True))
            or not all(
                values <= variants.get(key, set())
                for one in wanted
                for key, values in one.variants.items()
            )
        ):
            continue
        names = dict.fromkeys(one.name for one in wanted)
        together = " with ".join(f"{name} {found.parts[name].version}" for name in names)
        told = f"{together}: {conflict.reason}; {conflict.remedy} (`{conflict.id}`)"
        if not all(one.known for one in mine):
            found.note(f"whether this holds, the version does not tell: {told}")
        elif mended := _mended_by(request, conflict):
            found.note(f"mended by {mended}: {told}")
        elif conflict.severity == "error" and conflict.id not in request.accept:
            found.refuse(
                f"{together}: {conflict.reason} (`{conflict.id}`)",
                f"{conflict.remedy}; or accept `{conflict.id}`{_by_patch(request, conflict)}",
                at=_asked_at(found, next(iter(names))),
            )
        else:
            found.note(told)


def _mended_by(request: ChainRequest, conflict: Conflict) -> str:
    """Return the names of the patches that say that they mend a conflict, in one text."""
    patches = itertools.chain.from_iterable(request.patches.values())
    return ", ".join(patch.filename for patch in patches if conflict.id in patch.mends)


def _by_patch(request: ChainRequest, conflict: Conflict) -> str:
    """Return the end of a hint: how a patch that is there already says that it mends this."""
    names = dict.fromkeys(package.name for package in conflict.packages)
    patches = [patch.filename for name in names for patch in request.patches.get(name, ())]
    if not patches:
        return ""
    return f"; or write `mends: [{conflict.id}]` beside {' or '.join(patches)}, if it mends this"
