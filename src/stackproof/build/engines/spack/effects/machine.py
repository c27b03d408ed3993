"""What this machine offers to Spack, found by looking: compilers, Slurm, network libraries."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from stackproof.build.engines.spack.stack import Programs
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.defaults import (
    MachineFacts,
    SystemPackage,
    default_cluster_config,
)
from stackproof.build.engines.spack.stackinator.facts import facts_of_site
from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.effects.run import Runner
from stackproof.core.errors import StackproofError
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.site.effects import probe, toolchain
from stackproof.site.model import FabricType, Site

_TIMEOUT_S = 10.0
# Suffixes of gcc's programs as distributions install several.
_SUFFIXES = ("", *(f"-{number}" for number in range(20, 8, -1)))
_CRAY_LIBFABRIC = "/opt/cray/libfabric"
_CRAY_MPICH = "/opt/cray/pe/mpich"
# Providers of libfabric that are values of `fabrics` in Spack's recipe (spack-packages, libfabric).
_PROVIDERS = frozenset(
    {
        "cxi", "efa", "lnx", "mrail", "opx", "psm", "psm2", "psm3", "rxm", "rxd", "shm", "sockets",
        "tcp", "ucx", "udp", "usnic", "verbs",
    }
)  # fmt: skip
_NUMBERED = re.compile(r"\d+(\.\d+)*")


def cluster_of(site: Site, runner: Runner = run.run) -> ClusterConfig:
    """Return a cluster configuration for a site; the compilers are always this machine's."""
    return default_cluster_config(facts_of(site, runner)[0])


def facts_of(site: Site, runner: Runner = run.run) -> tuple[MachineFacts, tuple[str, ...]]:
    """Return what decides how Spack builds at a site, and what cannot be offered and why.

    Of the site `local`, everything is looked for; of another one its own facts count, and only the
    compilers and the operating system are this machine's, since it is this machine that builds.
    """
    is_here = site.name == probe.LOCAL
    packages, left_out = find_packages(runner) if is_here else packages_of_site(site)
    known = facts_of_site(site)
    gpu = known.get("gpu")
    facts = MachineFacts(
        name=site.name,
        architecture=known.get("architecture") or toolchain.architecture(),
        operating_system=operating_system(),
        fabric=FabricType(site.fabric.type) if site.fabric.type else None,
        gpu=gpu if gpu in {"cuda", "rocm"} else None,
        compilers=tuple(find_compilers(runner)),
        packages=tuple(packages),
    )
    return facts, (*left_out, *(() if facts.compilers else (_without_compilers(),)))


def packages_of_site(site: Site) -> tuple[list[SystemPackage], list[str]]:
    """Return the software that a site file names with path and version, and what it leaves open."""
    packages, left_out = [], []
    for name, external in site.externals.items():
        if name not in {CRAY_MPICH.name, "libfabric", "slurm", "xpmem", "rdma-core"}:
            continue
        if external.version and external.path and not external.path.startswith("/dev/"):
            path = external.path.rstrip("/")
            own = path if path.endswith(external.version) else f"{path}/{external.version}"
            prefix = own if name == "libfabric" and path.startswith("/opt/cray/") else path
            version = external.version
            spec = f"{name}@{version.replace('.', '-') if name == 'slurm' else version}"
            packages.append(SystemPackage(name=name, spec=spec, prefix=prefix))
        else:
            left_out.append(f"{name}: the site does not say its version and path")
    vendor = site.vendor_mpi
    told = any(package.name == CRAY_MPICH.name for package in packages)
    if vendor is not None and vendor.family == CRAY_MPICH.name and not told:
        found = next(_cray_mpich(vendor.version), None)
        if found:
            packages.append(found)
        else:
            left_out.append("cray-mpich: not installed on this machine, and its path is not known")
    return packages, left_out


def find_compilers(runner: Runner = run.run) -> Iterator[Programs]:
    """Yield the gcc of this machine that compile C and C++, each version once."""
    seen = set()
    for suffix in _SUFFIXES:
        names = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
        places = {language: shutil.which(f"{name}{suffix}") for language, name in names.items()}
        paths = {language: path for language, path in places.items() if path}
        if not {"c", "cxx"} <= paths.keys():
            continue
        version = _first_line(runner, paths["c"], "-dumpfullversion", "-dumpversion")
        if _NUMBERED.fullmatch(version) and version not in seen:
            seen.add(version)
            prefix = paths["c"].rsplit("/", 2)[0] or "/"  # `/usr` for `/usr/bin/gcc`
            yield Programs(package="gcc", version=version, prefix=prefix, paths=paths, ours=False)


def _without_compilers() -> str:
    """Return why no compiler can be offered: often a distribution's gcc comes without C++."""
    for suffix in _SUFFIXES:
        c = shutil.which(f"gcc{suffix}")
        if c is not None and shutil.which(f"g++{suffix}") is None:
            return f"gcc: `{c}` is here and its C++ compiler, g++{suffix}, is not: install that too"
    return "gcc: this machine has none that answers, and recipes need one, with g++"


def find_packages(runner: Runner = run.run) -> tuple[list[SystemPackage], list[str]]:
    """Return the software of this machine that stacks should use instead of building it.

    With it comes what was seen but cannot be offered, with the reason.
    """
    packages: list[SystemPackage] = []
    left_out: list[str] = []
    srun = shutil.which("srun")
    if srun:
        told = re.search(r"slurm\S* (\d[\w.]*)", _first_line(runner, srun, "--version"))
        prefix = os.path.dirname(os.path.dirname(srun)) or "/"
        if told:
            spec = f"slurm@{told[1].replace('.', '-')}"
            packages.append(SystemPackage(name="slurm", spec=spec, prefix=prefix))
        else:
            left_out.append(f"slurm: `{srun} --version` does not answer: it is not set up here")
    for name, modules in (("xpmem", ("xpmem", "cray-xpmem")), ("rdma-core", ("libibverbs",))):
        found = next((f for module in modules if (f := _module(runner, module))), None)
        if found:
            version = ".".join(found[0].split(".")[2:]) if name == "rdma-core" else found[0]
            spec = f"{name}@{version or found[0]}"
            packages.append(SystemPackage(name=name, spec=spec, prefix=found[1]))
        elif name == "xpmem" and os.path.exists("/dev/xpmem"):
            left_out.append("xpmem: the kernel has it, its headers and pkg-config file are missing")
    packages += _libfabric(runner)
    packages += _cray_mpich(None)
    return packages, left_out


def _libfabric(runner: Runner) -> list[SystemPackage]:
    """Return the libfabric of Cray and of the system, with the providers that they show."""
    prefixes: dict[str, str] = {}
    for version in _names(_CRAY_LIBFABRIC):
        if _NUMBERED.fullmatch(version):
            prefixes[f"{_CRAY_LIBFABRIC}/{version}"] = version
    found = _module(runner, "libfabric")
    if found:
        prefixes.setdefault(found[1], found[0])
    result = []
    for prefix, version in prefixes.items():
        if not os.path.isfile(f"{prefix}/include/rdma/fabric.h"):
            continue
        fabrics = _providers(runner, f"{prefix}/bin/fi_info")
        spec = f"libfabric@{version}" + (f" fabrics={','.join(fabrics)}" if fabrics else "")
        result.append(SystemPackage(name="libfabric", spec=spec, prefix=prefix))
    return result


def _providers(runner: Runner, fi_info: str) -> list[str]:
    """Return the providers that `fi_info --list` names on lines of their own, sorted."""
    if not os.path.isfile(fi_info):
        return []
    text = _text(runner, (fi_info, "--list"))
    names = re.findall(r"^([a-z0-9_]+):", text, re.MULTILINE)
    return sorted({name.removeprefix("ofi_") for name in names} & _PROVIDERS)


def _cray_mpich(only: str | None) -> Iterator[SystemPackage]:
    """Yield Cray MPICH for GNU compilers, of every version or of one; lists folders only."""
    for version in _names(_CRAY_MPICH):
        if not _NUMBERED.fullmatch(version) or (only and version != only):
            continue
        base = f"{_CRAY_MPICH}/{version}/ofi/gnu"
        compilers = [name for name in _names(base) if _NUMBERED.fullmatch(name)]
        if compilers:
            newest = max(compilers, key=lambda name: tuple(map(int, name.split("."))))
            spec = f"cray-mpich@{version}"
            yield SystemPackage(name=CRAY_MPICH.name, spec=spec, prefix=f"{base}/{newest}")


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def operating_system() -> str:
    """Return this machine's distribution as Spack names it (debian12, sles15), empty if unknown."""
    try:
        with open("/etc/os-release", encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError):
        return ""
    lines = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', text, re.MULTILINE))
    name, version = lines.get("ID", ""), lines.get("VERSION_ID", "")
    if name != "ubuntu":  # the only one that Spack names with its minor version
        version = version.partition(".")[0]
    return f"{name.replace('-', '')}{version}" if name and version else ""


def _module(runner: Runner, name: str) -> tuple[str, str] | None:
    """Return version and prefix of a library as pkg-config knows it."""
    program = shutil.which("pkg-config")
    if program is None:
        return None
    version = _first_line(runner, program, "--modversion", name)
    prefix = _first_line(runner, program, "--variable=prefix", name)
    return (version, prefix) if _NUMBERED.fullmatch(version) and os.path.isabs(prefix) else None


def _first_line(runner: Runner, *argv: str) -> str:
    lines = _text(runner, argv).splitlines()
    return lines[0].strip() if lines else ""


def _text(runner: Runner, argv: tuple[str, ...]) -> str:
    """Return the standard output of a program; empty when it fails or does not answer."""
    try:
        done = runner(Command(argv=argv, timeout_s=_TIMEOUT_S))
    except StackproofError:
        return ""
    if done.timed_out or done.returncode != 0:
        return ""
    return done.stdout.decode(errors="replace")
