"""Which releases of HPE's packages go together, and whose a library is that none of them has.

Sources: the packages `cray-mpich`, `cray-gtl`, `cray-pmi` and `cray-pals` of Stackinator
(https://github.com/eth-cscs/stackinator) and of https://github.com/spack/spack-packages, which
agree.
"""

from __future__ import annotations

import re

# Cray MPICH has asked for PMI 6.1.16 since these releases, by their first number.
_NEW_PMI_SINCE = {8: (8, 1, 33), 9: (9, 0, 1)}
_NEW_PMI = (6, 1, 16)
_GTL_OF = {"9.0.0": "8.1.32", "9.0.1": "8.1.33"}
# Since this release the library for CUDA names neither the driver nor the runtime that it calls.
_CUDA_UNNAMED_SINCE = (8, 1, 27)
_PMI, _PALS = re.compile(r"libpmi2?\.so\b.*"), re.compile(r"libpals\.so\b.*")
_GTL = re.compile(r"libmpi_gtl_\w+\.so\b.*")
_GLIBC = re.compile(
    r"(?:lib(?:c|m|mvec|dl|pthread|rt|util|resolv|anl)\.so\.\d+|ld-linux[\w.-]*|ld64\.so\.\d+)"
)
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so\b.*")
# Libraries that a machine has, by their packages of SLES 15.
_OF_SITE = (
    (r"libfabric\.so", "libfabric, of the Slingshot Host Software"),
    (r"libcxi\.so", "libcxi, of the Slingshot Host Software"),
    (r"libxpmem\.so", "xpmem, of the Slingshot Host Software"),
    (r"libcudart\.so", "the CUDA toolkit"),
    (r"lib(?:cuda|nvidia-ml)\.so", "NVIDIA's driver"),
    (r"lib(?:amdhip64|hsa-runtime64|rocm\w*|hip\w*)\.so", "ROCm"),
    (r"libgfortran\.so", "libgfortran5"),
    (r"libquadmath\.so", "libquadmath0"),
    (r"libatomic\.so", "libatomic1"),
    (r"libstdc\+\+\.so", "libstdc++6"),
    (r"libgcc_s\.so", "libgcc_s1"),
    (r"libjansson\.so", "libjansson4"),
    (r"libcurl\.so", "libcurl4"),
    (r"libnuma\.so", "libnuma1"),
    (r"libnv\w*\.so", "the NVIDIA HPC SDK"),
)


COMPILERS = {
    "gnu": ("gcc", "g++", "gfortran"),
    "nvidia": ("nvc", "nvc++", "nvfortran"),
    "crayclang": ("craycc", "crayCC", "crayftn"),
    "aocc": ("clang", "clang++", "flang"),
    "amd": ("amdclang", "amdclang++", "amdflang"),
    "intel": ("icx", "icpx", "ifx"),
}
"""The compilers of C, C++ and Fortran that HPE builds Cray MPICH for, by its names for them."""


def number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare; letters in it count nothing."""
    return tuple(int(word) for word in re.findall(r"\d+", version))


def pmi_fault(mpich: str, pmi: str) -> str:
    """Return why a release of Cray MPICH does not go with one of PMI; empty where it does."""
    new = _wants_new_pmi(mpich)
    if new and number(pmi) < _NEW_PMI:
        return f"Cray MPICH {mpich} needs PMI 6.1.16 or newer"
    if not new and number(pmi) >= _NEW_PMI:
        return f"Cray MPICH {mpich} needs PMI 6.1.15 or older"
    return ""


def _wants_new_pmi(mpich: str) -> bool:
    return number(mpich) >= _NEW_PMI_SINCE.get(number(mpich)[0], (10,))


def gtl_of(mpich: str) -> tuple[str, ...]:
    """Return the releases of the library for GPUs that go with one of Cray MPICH, best first."""
    return (mpich, *filter(None, [_GTL_OF.get(mpich)]))


def unnamed_needs(gtl: str, release: str) -> tuple[str, ...]:
    """Return what the library for `gtl` (cuda, rocm) calls and does not name."""
    if gtl != "cuda":
        return ()
    if number(release) >= _CUDA_UNNAMED_SINCE:
        return ("libcudart.so.12", "libcuda.so.1")
    return ("libstdc++.so.6",)


def vendor_package(soname: str, mpich: str) -> str:
    """Return how the RPM of HPE's that has a library is named, then which one; empty for none."""
    if _PMI.fullmatch(soname):
        return f"cray-pmi , {'6.1.16 or newer' if _wants_new_pmi(mpich) else '6.1.15 or older'},"
    if _PALS.fullmatch(soname):
        return "cray-pals"
    return f"cray-mpich-{gtl_of(mpich)[-1]}-gtl" if _GTL.fullmatch(soname) else ""


def site_package(soname: str) -> str:
    """Return who brings a library of the machine; empty where that is not known."""
    return next((who for pattern, who in _OF_SITE if re.match(pattern, soname)), "")


def is_driver(soname: str) -> bool:
    """Return whether a library comes with a GPU's driver, which only nodes with one have."""
    return bool(_DRIVER.fullmatch(soname))


def is_glibc(soname: str) -> bool:
    """Return whether a library is of glibc, which every machine has."""
    return bool(_GLIBC.fullmatch(soname))
