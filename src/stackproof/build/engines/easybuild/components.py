"""The catalogue of components, versions, sources, digests and options; and requests for chains.

One YAML file a component, in `components/` beside this module, which are read into these nouns as
they stand: a key has `-` where a field has `_`. tests/build/test_easybuild_components.py holds that
no file lacks a source, a digest or a licence, or names what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import field

from stackproof.build.engines.spack.conflicts import Conflict
from stackproof.build.stack import Digest, OsPackage, SourceFile
from stackproof.core.value import Value
from stackproof.core.versions import ANY, Versions, versions
from stackproof.mpi import families

PREFIX = "prefix"
PROVIDERS = "providers"
PROVIDER = "{provider}"


class When(Value, rename="kebab", forbid_unknown_fields=True):
    """In which chains an entry counts; what is not given does not matter.

    `providers` are all to be in libfabric, `lacks` none of them; `gpu` is one of `none`, `cuda`,
    `rocm`, `no-cuda`; `versions` are those of the component itself; `flag` is one of `FLAGS` or
    its opposite (`no-xpmem`).
    """

    providers: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    gpu: str = ""
    versions: Versions = ANY
    flag: str = ""


ALWAYS = When()
_MPIS = tuple(name for name, family in families.REGISTRY.items() if family.chain)
FLAGS = ("xpmem", "libcxi-tools", "bundled", "ucx", "ucc", "gfortran", *_MPIS)
"""What a request switches on besides providers and accelerators; an MPI by its name.

`gfortran` holds where that compiles Fortran.
"""


class Option(Value, rename="kebab", forbid_unknown_fields=True):
    """A configure option, or a command.

    `{libcxi}` stands for where that component is, `{prefix}` for where this one goes,
    `{providers}` for the options that give libfabric the providers that were asked for.
    """

    text: str
    when: When = ALWAYS


class Need(Value, rename="kebab", forbid_unknown_fields=True):
    """A component that another one is built on.

    `option` is written when it is there, `otherwise` when it is not; `search` are folders that the
    linker looks into while building, and nothing at run time. An `optional` one is only
    taken from the machine; `missing` tells the user what is lost without it. `versions` are those
    that work. With `module`, EasyBuild's own code for the component asks for its module, so that
    one of the machine must have one.
    """

    component: str
    when: When = ALWAYS
    versions: Versions = ANY
    option: str = ""
    otherwise: str = ""
    search: str = ""
    optional: bool = False
    missing: str = ""
    module: bool = False


class ReleaseSource(Value, rename="kebab", forbid_unknown_fields=True):
    """A way to obtain a release: its kind (`upstream`, `debian-trixie`), and what it lacks.

    `prepare` are commands before configure, `tools` the programs that they run.
    """

    origin: str
    file: SourceFile
    prepare: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class Release(Value, rename="kebab", forbid_unknown_fields=True):
    """A version of a component and where it comes from, the best way first."""

    version: str
    sources: tuple[ReleaseSource, ...]


class Omission(Value, rename="kebab", forbid_unknown_fields=True):
    """A component that is left out, and why."""

    component: str
    reason: str
    when: When = ALWAYS


class KeptFeature(Value, rename="kebab", forbid_unknown_fields=True):
    """A feature that configure must have taken: a line of `file` begins with `line` then.

    `{provider}` in `feature`, and `{PROVIDER}` in `line`, stand for every provider in turn.
    """

    feature: str
    line: str
    file: str = "config.log"
    when: When = ALWAYS


class CopiedFiles(Value):
    """Patterns of files, and the folder that they go to."""

    files: tuple[str, ...]
    to: str


class Build(Value, rename="kebab", forbid_unknown_fields=True):
    """How EasyBuild builds a component, in the chains that `when` names.

    `easyblock` is empty where EasyBuild has one of its own for the name. `parameters` are
    parameters of an easyconfig as they are. `prepare` are commands before configure, after those of
    the source. `commands` replace configure and make, and `copy` installs. `kept` is looked for
    after configure: without it nothing is compiled.
    """

    when: When = ALWAYS
    easyblock: str = ""
    prepare: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    commands: tuple[Option, ...] = ()
    copy: tuple[CopiedFiles, ...] = ()
    files: tuple[Option, ...] = ()
    folders: tuple[Option, ...] = ()
    checks: tuple[Option, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    headers: tuple[Option, ...] = ()
    kept: tuple[KeptFeature, ...] = ()


class Component(Value, rename="kebab", forbid_unknown_fields=True):
    """One component of the catalogue.

    `name` is ours, `software` is EasyBuild's, from which modules and variables are named. One
    without releases is of the machine alone, and `hint` says how to have it. `providers` are the
    libfabric providers that this catalogue can build, `by_gpu` that builds differ by accelerator,
    `conflicts` modules that may not be loaded with its own, besides others of the same name.
    """

    name: str
    software: str
    title: str
    homepage: str
    licence: str
    builds: tuple[Build, ...]
    releases: tuple[Release, ...] = ()
    needs: tuple[Need, ...] = ()
    left_out: tuple[Omission, ...] = ()
    notes: tuple[Option, ...] = ()
    providers: Mapping[str, Versions] = field(default_factory=dict)
    hint: str = ""
    group: str = "lib"
    by_gpu: bool = False
    conflicts: tuple[str, ...] = ()

    @property
    def root(self) -> str:
        """Return the variable that a module of EasyBuild keeps the installation's folder in.

        Source: `convert_name` in easybuild-framework's `easybuild/tools/filetools.py`.
        """
        plain = self.software.replace("+", "plus").replace("-", "min").replace(".", "")
        return f"EBROOT{plain.upper()}"


class Catalogue(Value):
    """Every component by name, and which versions are known not to work together."""

    components: Mapping[str, Component]
    conflicts: tuple[Conflict, ...] = ()


def parse_catalogue(
    provenance: Mapping[str, Any],
    components: Sequence[Mapping[str, Any]],
    conflicts: tuple[Conflict, ...] = (),
) -> Catalogue:
    """Return the catalogue of the data of its files.

    `provenance` says who states the digests. Raises `msgspec.ValidationError` and `KeyError` for
    what cannot be read: the files are ours.
    """
    people = provenance["provenance"]
    known = [msgspec.convert(_readable(data, people), Component) for data in components]
    return Catalogue(components={one.name: one for one in known}, conflicts=conflicts)


_OPTIONS = ("options", "commands", "files", "folders", "checks", "headers")


def _readable(data: Mapping[str, Any], people: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a component with what a file may write in a shorter way written out."""
    made = {"software": data["name"], **data}
    builds = made.pop("builds", None) or [made.pop("build", {})]
    made["builds"] = [
        {**build, **{key: _options(build[key]) for key in _OPTIONS if key in build}}
        for build in builds
    ]
    made["notes"] = _options(data.get("notes", ()))
    made["providers"] = {name: versions(text) for name, text in data.get("providers", {}).items()}
    made["releases"] = [
        {**release, "sources": [_source(source, people) for source in release["sources"]]}
        for release in data.get("releases", ())
    ]
    whole: dict[str, Any] = _with_versions(made)
    return whole


def _options(entries: Sequence[Any]) -> list[Any]:
    return [{"text": entry} if isinstance(entry, str) else entry for entry in entries]


def _with_versions(data: Any) -> Any:
    """Return data with ranges of versions in the place of their texts."""
    if isinstance(data, dict):
        return {
            key: versions(value) if key == "versions" else _with_versions(value)
            for key, value in data.items()
        }
    return [_with_versions(value) for value in data] if isinstance(data, list) else data


def _source(entry: Mapping[str, Any], people: Mapping[str, Any]) -> dict[str, Any]:
    package = entry.get("package")
    suite = entry["origin"].partition("-")[2]
    file = SourceFile(
        filename=entry["file"],
        accepted=tuple(
            Digest(sha256=sha256, provenance=", ".join(people[who]["title"] for who in named))
            for sha256, named in entry["digests"].items()
        ),
        address=entry.get("address", ""),
        commit=entry.get("commit", ""),
        os_package=OsPackage(**package, suite=suite) if package else None,
    )
    rest = {key: entry[key] for key in ("origin", "prepare", "tools") if key in entry}
    return {**rest, "file": file}


# What a chain from source is asked to hold.


class Gpu(StrEnum):
    """For which accelerators a chain is built."""

    NONE = "none"
    CUDA = "cuda"
    ROCM = "rocm"


class Compilers(Value, kw_only=False):
    """The names of the compilers of a maker; without `prefix` they need one in the recipe."""

    c: str
    cxx: str
    fortran: str
    on_path: bool = False


COMPILERS: Mapping[str, Compilers] = {
    "clang": Compilers("clang", "clang++", "gfortran", on_path=True),
    "aocc": Compilers("clang", "clang++", "flang"),
    "cce": Compilers("craycc", "crayCC", "crayftn"),
    "nvhpc": Compilers("nvc", "nvc++", "nvfortran"),
}
"""Compilers of the machine besides gcc, used without a module and with the components' own flags.

LLVM's clang has no Fortran on Debian 12, so gfortran goes with it. Sources: AOCC user guide
(docs.amd.com, 57222), "Using the compiler"; CCE's man pages `craycc`, `crayCC` and `crayftn`
(cpe.ext.hpe.com); NVIDIA HPC Compilers User's Guide (docs.nvidia.com/hpc-sdk).
"""


class Toolchain(Value):
    """The compiler of a chain.

    `system` is the compiler that PATH finds, without a module. `SystemCompilerGCC` wraps that
    compiler, whose `version` must then be given, into a module `GCC/VERSION` of the chain, which
    brings EasyBuild's flags with it. `GCC` and `GCCcore` are modules that are there already, as on
    top of EESSI. The names of `COMPILERS` are compilers in `prefix`/bin, or on PATH.
    """

    name: str = "system"
    version: str = ""
    prefix: str = ""

    @property
    def compilers(self) -> Compilers | None:
        """Return the compilers in the place of the system's gcc, None where that compiles."""
        return COMPILERS.get(self.name)


class ExternalComponent(Value):
    """A component that the machine has: where, and by which module it is loaded (if any)."""

    version: str
    prefix: str
    module: str = ""


class OwnFile(Value):
    """A file that a recipe brings: by its digest, and for a source where it may be downloaded."""

    filename: str
    sha256: str
    address: str = ""


class OwnPatch(OwnFile):
    """A patch that a recipe brings; `mends` are ids of known conflicts that it takes away."""

    mends: tuple[str, ...] = ()


class ChainRequest(Value):
    """What a chain is asked to hold.

    `mpi` is name and version (`openmpi`, `mpich`), None for a network stack alone. `shs` is the
    release of HPE's Slingshot host software (`13.0.0`) that the provider cxi is built against.
    `gpu_at` says where CUDA or ROCm is; `externals` are other components that the machine has, by
    the catalogue's names. `versions` are wishes for components that come as needs of others.
    `origins` are the kinds of source files to take, the best first: `upstream` for what a project
    publishes, `debian-SUITE` for the operating system's source packages.

    With `bundled` an MPI builds its own copies of what it brings along (Open MPI: hwloc, libevent,
    PMIx, PRRTE); `bundled_parts` names some of them instead. `ucx` and `ucc` are built under the
    MPI. `options` are given to a component's configure script, the last. `libcxi_tools` builds
    libcxi with its diagnostic programs, and what those need. `accept` are ids of known conflicts
    that do not matter. `source_files` take the place of what the catalogue names, `patches` change
    what was unpacked; both by the catalogue's names.
    """

    libfabric: str
    providers: tuple[str, ...]
    mpi: tuple[str, str] | None = None
    gpu: Gpu = Gpu.NONE
    gpu_at: ExternalComponent | None = None
    toolchain: Toolchain = Toolchain()
    xpmem: bool = False
    shs: str = ""
    externals: Mapping[str, ExternalComponent] = field(default_factory=dict)
    benchmarks: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    origins: tuple[str, ...] = ("upstream",)
    bundled: bool = False
    libcxi_tools: bool = False
    accept: tuple[str, ...] = ()
    source_files: Mapping[str, OwnFile] = field(default_factory=dict)
    patches: Mapping[str, tuple[OwnPatch, ...]] = field(default_factory=dict)
    bundled_parts: tuple[str, ...] = ()
    ucx: bool = False
    ucc: bool = False
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
