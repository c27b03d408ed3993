"""What conditions can ask for: the facts of a site or of a cluster configuration, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.findings import mapping, strings
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.site.model import FabricType, Site

# GPUs by what their maker calls them, and the architecture as Spack names it.
# Source: cuda.py (cuda_arch_values) and rocm.py (amdgpu_targets) of
# https://github.com/spack/spack-packages, and the makers' tables of compute capabilities.
_GPUS = {
    "V100": ("cuda", "70"),
    "A100": ("cuda", "80"),
    **dict.fromkeys(("H100", "H200", "GH200"), ("cuda", "90")),
    "MI100": ("rocm", "gfx908"),
    **dict.fromkeys(("MI200", "MI210", "MI250", "MI250X"), ("rocm", "gfx90a")),
    **dict.fromkeys(("MI300A", "MI300X"), ("rocm", "gfx942")),
}
_MAKERS = {"NVIDIA": "cuda", "AMD": "rocm", "INTEL": "level-zero"}
_TARGET = re.compile(r"(?:^|\s)target=([a-z][a-z0-9_]*)")
# Beginnings of Spack's target names that are not of x86_64.
# Source: microarchitectures.json of https://github.com/archspec/archspec-json.
_FAMILIES = {
    "aarch64": (
        "neoverse", "armv", "a64fx", "aarch64", "thunderx", "cortex_a", "m1", "m2", "graviton",
        "ampere",
    ),
    "ppc64le": ("power", "ppc64le"),
    "riscv64": ("riscv64", "u74mc"),
}  # fmt: skip


def facts_of_site(site: Site) -> dict[str, str]:
    """Return what a site says that conditions ask for.

    What is not the same in all partitions is left out, as what is not known.
    """
    facts = {"site": site.name}
    partitions = tuple(site.partitions.values())
    values = {
        "architecture": {p.architecture for p in partitions},
        "microarchitecture": {p.microarchitecture for p in partitions},
        "gpu": {"none" if p.gpus == 0 else _gpu(p.gpu)[0] if p.gpu else None for p in partitions},
        "gpu-architecture": {_gpu(p.gpu)[1] if p.gpu else None for p in partitions},
    }
    for name, found in values.items():
        value = next(iter(found)) if len(found) == 1 else None
        if value:
            facts[name] = value
    if site.fabric.type is not None:
        facts["fabric"] = str(FabricType(site.fabric.type))
    if site.vendor_mpi is not None:
        facts["vendor-mpi"] = site.vendor_mpi.family
    return facts


def cluster_of_site(site: Site) -> ClusterConfig:
    """Return what a site of ours says for Spack, as a cluster configuration says it.

    Cray MPICH may be under `externals` of the site, where asking the machine puts it.
    """
    packages = dict(site.spack.packages) if site.spack else {}
    mpis = dict(site.spack.mpi) if site.spack else {}
    vendor = site.externals.get(CRAY_MPICH.name)
    if vendor is not None and vendor.version and vendor.path and CRAY_MPICH.name not in packages:
        external = {"spec": f"cray-mpich@{vendor.version}", "prefix": vendor.path}
        packages[CRAY_MPICH.name] = {"buildable": False, "externals": [external]}
        mpis.setdefault(CRAY_MPICH.name, ())
    return ClusterConfig(name=site.name, packages=packages, mpis=mpis)


def _gpu(name: str) -> tuple[str | None, str | None]:
    words = name.upper().replace("-", " ").split()
    for word in words:
        if word in _GPUS:
            return _GPUS[word]
    return next((kind for maker, kind in _MAKERS.items() if maker in words), None), None


def facts_of_cluster(cluster: ClusterConfig) -> dict[str, str]:
    """Return what a cluster configuration shows of the facts that conditions ask for.

    The GPU is what its MPIs and libfabric are built for, Slingshot is where Cray MPICH or libcxi
    is; the microarchitecture is `target=` of all packages. What it does not show is left out.
    """
    packages = {**cluster.packages, **cluster.network_packages}
    facts = {"site": cluster.name}
    if cluster.mpis:
        asked = " ".join(_wishes(packages, (*cluster.mpis, "libfabric")))
        facts["gpu"] = next((gpu for gpu in ("cuda", "rocm") if f"+{gpu}" in asked), "none")
    if CRAY_MPICH.name in {*cluster.mpis, *packages}:
        facts["vendor-mpi"] = CRAY_MPICH.name
    if {"libcxi", "cxi-driver", CRAY_MPICH.name} & {*cluster.mpis, *packages}:
        facts["fabric"] = FabricType.SLINGSHOT_11.value
    for wish in _wishes(packages, ("all",)):
        found = _TARGET.search(wish)
        if found:
            facts["microarchitecture"] = found[1]
            facts["architecture"] = architecture_of(found[1])
    return facts


def _wishes(packages: Mapping[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    """Yield what is required, preferred or set for packages, as text."""
    for name in names:
        body = mapping(packages.get(name))
        for key in ("require", "prefer", "variants"):
            value = body.get(key)
            yield from [value] if isinstance(value, str) else strings(value)
        yield from (f"target={value}" for value in strings(body.get("target")))


def architecture_of(target: str) -> str:
    """Return the machine name of one of Spack's targets: aarch64 for neoverse_v2."""
    return next((f for f, starts in _FAMILIES.items() if target.startswith(starts)), "x86_64")
