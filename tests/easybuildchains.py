"""Chains from source as machines with Slingshot, and others, have asked for them."""

from __future__ import annotations

from stackproof.build.engines.easybuild.components import (
    ChainRequest,
    ExternalComponent,
    Gpu,
    OwnPatch,
    Toolchain,
)

OS_SOURCES = ("debian-trixie", "upstream")

EESSI = "/cvmfs/software.eessi.io/versions/2023.06/software/linux/aarch64/nvidia/grace"


def eessi(name: str, version: str) -> ExternalComponent:
    """Return a library of EESSI 2023.06, as its modules name it."""
    full = f"{version}-GCCcore-12.3.0"
    return ExternalComponent(
        version=version, prefix=f"{EESSI}/software/{name}/{full}", module=f"{name}/{full}"
    )


PATCH = OwnPatch(filename="fix.patch", sha256="ab" * 32, address="https://example.org/fix.patch")
REQUESTS: dict[str, ChainRequest] = {
    # Open MPI 5.0.7 over lnx and cxi, Grace-Hopper, built on top of EESSI: its compiler and libraries.
    "slingshot-cuda": ChainRequest(
        mpi=("openmpi", "5.0.7"),
        libfabric="2.1.0",
        providers=("shm", "cxi", "lnx"),
        gpu=Gpu.CUDA,
        gpu_at=ExternalComponent(
            version="12.1.1",
            prefix=f"{EESSI}/accel/nvidia/cc90/software/CUDA/12.1.1",
            module="CUDA/12.1.1",
        ),
        externals={
            "xpmem": ExternalComponent(version="2.9.6", prefix="/usr"),
            "gdrcopy": ExternalComponent(version="2.5", prefix="/opt/gdrcopy/2.5"),
            "hwloc": eessi("hwloc", "2.9.1"),
            "libevent": eessi("libevent", "2.1.12"),
            "pmix": eessi("PMIx", "4.2.4"),
        },
        toolchain=Toolchain(name="GCC", version="12.3.0"),
        xpmem=True,
        shs="12.0.1",
        benchmarks=("osu",),
        accept=("openmpi-lnx-device-registration-cuda", "libfabric-lnx-gdrcopy"),
    ),
    # The same for AMD GPUs: a newer pair, the system's compiler as a module.
    "slingshot-rocm": ChainRequest(
        mpi=("openmpi", "5.0.10"),
        libfabric="2.5.1",
        providers=("shm", "cxi", "lnx"),
        gpu=Gpu.ROCM,
        gpu_at=ExternalComponent(version="6.0.3", prefix="/opt/rocm-6.0.3"),
        toolchain=Toolchain(name="SystemCompilerGCC", version="12.2.0"),
        xpmem=True,
        shs="13.0.0",
        benchmarks=("osu",),
    ),
    # MPICH with CUDA, as a container for Grace-Hopper has it.
    "slingshot-mpich": ChainRequest(
        mpi=("mpich", "4.3.1"),
        libfabric="1.22.0",
        providers=("shm", "cxi"),
        gpu=Gpu.CUDA,
        gpu_at=ExternalComponent(version="12.8.1", prefix="/usr/local/cuda"),
        externals={
            "libcxi": ExternalComponent(version="1.7.0", prefix="/usr"),
            "cassini-headers": ExternalComponent(version="1.7.0", prefix="/usr"),
            "cxi-driver": ExternalComponent(version="1.7.0", prefix="/usr"),
        },
        xpmem=True,
    ),
    # What can be built and run anywhere, from the operating system's source packages.
    "ethernet": ChainRequest(
        mpi=("openmpi", "5.0.7"),
        libfabric="2.1.0",
        providers=("shm", "tcp", "sm2", "rxm", "lnx"),
        origins=OS_SOURCES,
        bundled=True,
    ),
    # InfiniBand: UCX and UCC beside libfabric's verbs, a copy of one part, options and a patch.
    "infiniband": ChainRequest(
        mpi=("openmpi", "5.0.10"),
        libfabric="2.5.1",
        providers=("verbs", "shm", "tcp", "rxm", "ucx", "hook_hmem"),
        bundled_parts=("prrte",),
        ucx=True,
        ucc=True,
        options={
            "openmpi": ("--with-slurm", "--with-prrte=internal"),
            "hwloc": ("--enable-libxml2",),
        },
        patches={"openmpi": (PATCH,)},
        benchmarks=("osu", "imb"),
    ),
    # A network stack alone, with the NIC's diagnostic programs.
    "tools": ChainRequest(
        libfabric="2.1.0",
        providers=("shm", "cxi"),
        origins=OS_SOURCES,
        shs="13.0.0",
        libcxi_tools=True,
    ),
}
