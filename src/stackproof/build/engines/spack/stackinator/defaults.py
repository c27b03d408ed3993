"""A cluster configuration for a machine that has none: from what was found there, and knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import Programs
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.compilers import old_compiler
from stackproof.core.value import Value
from stackproof.site.model import FabricType


class SystemPackage(Value):
    """Software of the machine as Spack's external: `spec` has name and version."""

    name: str
    spec: str
    prefix: str


class MachineFacts(Value):
    """What of a machine decides how Spack builds there.

    `gpu` is `cuda`, `rocm` or None; `operating_system` is Spack's name, such as debian12.
    """

    name: str
    architecture: str
    operating_system: str = ""
    fabric: FabricType | None = None
    gpu: str | None = None
    compilers: tuple[Programs, ...] = ()
    packages: tuple[SystemPackage, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether the machine has a package."""
        return any(package.name == name for package in self.packages)


# Why the generated network.yaml says what it does for Slingshot, and the public source of each.
_ADVICE = {
    "libfabric 2.4.0 hangs with LNX over CXI, and 2.5.0 needs a libcxi that few have":
        "https://github.com/ofiwg/libfabric/issues/11900 and "
        "https://github.com/ofiwg/libfabric/issues/12036",
    "libcxi 13.1 and 14.0 made working Open MPI jobs fail; 13.0 did not":
        "https://github.com/HewlettPackard/shs-libcxi/issues/18",
    "Open MPI before 5.0.8 cannot send device buffers through LNX; 5.0.9 knows LNX by the name it "
    "has since libfabric 2.2":
        "https://github.com/open-mpi/ompi/issues/13048",
    "MPICH before 4.3 may receive wrong data over CXI with MPI_ANY_SOURCE":
        "https://github.com/pmodels/mpich/issues/7184",
}  # fmt: skip
_SLINGSHOT_LIBFABRIC = "libfabric@2.2:2.3,2.5.1:"
# The providers of libfabric that reach a fabric, without those for one node.
_FABRICS: Mapping[FabricType | None, tuple[str, ...]] = {
    FabricType.SLINGSHOT_11: ("cxi", "rxm", "tcp"),
    FabricType.INFINIBAND: ("verbs", "rxm", "tcp"),
}
_ANY_FABRIC = ("tcp", "rxm")


def default_cluster_config(facts: MachineFacts) -> ClusterConfig:
    """Return a cluster configuration that a stack can be built with on a machine.

    What the machine has is not built again where it is bound to the machine (Slurm, drivers'
    libraries, Cray MPICH); libfabric is offered and may be built too.
    """
    return ClusterConfig(
        name=facts.name,
        packages=_packages(facts),
        network_packages=_network_packages(facts),
        mpis=_mpis(facts),
        compilers=_compilers(facts),
        concretizer={"reuse": False},
    )


def _packages(facts: MachineFacts) -> dict[str, Any]:
    packages: dict[str, Any] = {}
    if facts.compilers:
        packages["gcc"] = {"externals": [_gcc(compiler) for compiler in facts.compilers]}
    for package in facts.packages:
        if package.name == "libfabric":
            continue
        entry = packages.setdefault(package.name, {"buildable": False, "externals": []})
        entry["externals"].append({"spec": package.spec, "prefix": package.prefix})
    return packages


def _gcc(compiler: Programs) -> dict[str, Any]:
    names = "c,c++,fortran" if "fortran" in compiler.paths else "c,c++"
    return {
        "spec": f"gcc@{compiler.version} languages='{names}'",
        "prefix": compiler.prefix,
        "extra_attributes": {"compilers": dict(compiler.paths)},
    }


def _compilers(facts: MachineFacts) -> tuple[Mapping[str, Any], ...]:
    """Return the compilers for Spack up to 0.23, which must know the operating system."""
    if not facts.operating_system:
        return ()
    system, target = facts.operating_system, facts.architecture
    return tuple(
        old_compiler(f"gcc@{one.version}", one.paths, system, target) for one in facts.compilers
    )


def _mpis(facts: MachineFacts) -> dict[str, tuple[str, ...]]:
    slingshot = facts.fabric is FabricType.SLINGSHOT_11
    providers = ",".join(sorted({*_FABRICS.get(facts.fabric, _ANY_FABRIC), "shm"}))
    libfabric = _SLINGSHOT_LIBFABRIC if slingshot else "libfabric"
    lnx = f"{providers},lnx" if slingshot else providers
    mpis: dict[str, tuple[str, ...]] = {
        "openmpi": (f"{libfabric} fabrics={lnx}",),
        "mpich": (f"{libfabric} fabrics={providers}",),
    }
    if facts.has("cray-mpich"):
        mpis["cray-mpich"] = ()
    return mpis


def _network_packages(facts: MachineFacts) -> dict[str, Any]:
    slingshot = facts.fabric is FabricType.SLINGSHOT_11
    gpu = [f"+{facts.gpu}"] if facts.gpu else []
    shared = ["cma", "xpmem"] if facts.has("xpmem") else ["cma"]
    openmpi = {
        "require": [f"fabrics={','.join([*shared, 'ofi'])}"],
        "prefer": [*(["@5.0.9:"] if slingshot else ["@5:"]), *gpu],
    }
    mpich = {"require": ["device=ch4", "netmod=ofi"], "prefer": ["@4.3:", *gpu]}
    if facts.has("slurm"):
        openmpi["require"].append("schedulers=slurm")
    if facts.has("xpmem"):
        mpich["prefer"].append("+xpmem")
    libfabric: dict[str, Any] = {"buildable": True}
    externals = [p for p in facts.packages if p.name == "libfabric"]
    if externals:
        libfabric["externals"] = [{"spec": p.spec, "prefix": p.prefix} for p in externals]
    if gpu:
        libfabric["prefer"] = gpu
    packages: dict[str, Any] = {"openmpi": openmpi, "mpich": mpich, "libfabric": libfabric}
    if slingshot:
        packages["libcxi"] = {"prefer": ["@:13.0"]}
    return packages


def cluster_documents(cluster: ClusterConfig) -> dict[str, dict[str, Any]]:
    """Return the documents of a cluster's folder as data, by file name."""
    mpi = {name: {"specs": list(specs)} for name, specs in cluster.mpis.items()}
    return {
        "packages.yaml": {"packages": dict(cluster.packages)},
        "network.yaml": {"mpi": mpi, "packages": dict(cluster.network_packages)},
        "compilers.yaml": {"compilers": [dict(entry) for entry in cluster.compilers]},
        "concretizer.yaml": {"concretizer": dict(cluster.concretizer)},
    }


def comments(facts: MachineFacts) -> dict[str, tuple[str, ...]]:
    """Return what is to be said at the head of each document, line by line."""
    first = f"What Spack does not build on {facts.name}: found there, kept as small as possible."
    network = [f"What each MPI gets on {facts.name} where a recipe does not say."]
    if facts.fabric is FabricType.SLINGSHOT_11:
        for why, source in _ADVICE.items():
            network += [f"{why}:", f"  {source}"]
    old = "For recipes of version 1 (Spack up to 0.23) only."
    return {
        "packages.yaml": (first,),
        "network.yaml": tuple(network),
        "compilers.yaml": (old,),
        "concretizer.yaml": (old,),
    }
