"""MPI ABI families: recognised by what is inside a file, never by its name alone.

A SONAME says neither enough nor the truth: `libmpi.so.12` may be given to anything, Debian calls
MPICH `libmpich.so.12`, and Open MPI keeps one SONAME over changes that matter. What a library
exports, and which constants a program was compiled with, cannot be given by a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Protocol

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces

# --------------------------------------------------------------------------------------------------
# Fortran's way of calling MPI: names and data that tell the family of a Fortran program.
#
# A Fortran compiler mangles `MPI_Send` to `mpi_send_`, `mpi_send`, `mpi_send__` or `MPI_SEND`, the
# same for every MPI. What differs are the common blocks behind constants such as MPI_BOTTOM, and
# the names of the `mpi_f08` procedures.

_CALL = re.compile(r"mpi_[a-z0-9_]+?_{0,2}|MPI_[A-Z0-9_]+")
_MIXED = re.compile(r"P?MPI_[A-Z][a-z0-9]")

# mpif.h of MPICH 3 to 5 and of Intel MPI.
MPICH_BLOCKS = frozenset({"mpipriv1_", "mpipriv2_", "mpiprivc_", "mpifcmb5_", "mpifcmb9_"})
# ompi/include/mpif-common.h and ompi/mpi/fortran of Open MPI 4 and 5.
OPENMPI_BLOCKS = frozenset(
    {
        "mpi_fortran_bottom_",
        "mpi_fortran_in_place_",
        "mpi_fortran_argv_null_",
        "mpi_fortran_argvs_null_",
        "mpi_fortran_errcodes_ignore_",
        "mpi_fortran_status_ignore_",
        "mpi_fortran_statuses_ignore_",
        "mpi_fortran_unweighted_",
        "mpi_fortran_weights_empty_",
    }
)


def is_fortran_call(name: str) -> bool:
    """Return whether a symbol is an MPI procedure as Fortran compilers name it."""
    return bool(_CALL.fullmatch(name)) and not _MIXED.match(name)


# What converts handles for a procedure of any name.
_CONVERTS = re.compile(r"_(?:f2c|c2f|fromint|toint)(?:_c)?$")


def may_call(procedures: Iterable[str], functions: Iterable[str]) -> bool:
    """Return whether procedures of MPICH's Fortran library may call some functions of its main one.

    `mpi_send_` calls `MPI_Send` or `PMPI_Send` and what converts handles, and so do the others of
    `mpif.h` and the module `mpi`, made by one script (MPICH, maint and src/binding/fortran/mpif_h;
    seen in the code of all 433 of 4.0.2). Those of the module `mpi_f08` may call more.
    """
    called = [*procedures]
    roots = {name.lower().removeprefix("p").rstrip("_") for name in called}
    return any("f08" in name.lower() or "cdesc" in name for name in called) or any(
        name.lower().removeprefix("p") in roots or _CONVERTS.search(name) for name in functions
    )


def shared(names: Iterable[str], blocks: frozenset[str]) -> str:
    """Return the first of some blocks among names, empty when there is none."""
    return min(blocks.intersection(names), default="")


# --------------------------------------------------------------- The parts that an MPI consists of


class LibraryRole(StrEnum):
    """What a library of an MPI is for."""

    MAIN = "main"
    FORTRAN = "fortran"
    FORTRAN_2008 = "fortran-2008"
    CXX = "c++"
    INNER = "inner"
    """Used by the MPI itself only, and tied to one release."""


# ------------------------------ The standard ABI of MPI 5.0: libmpi_abi.so.1 of any implementation

_VERSION = "MPI_Abi_get_version"
_MARKS = ("ompi_mpi_comm_world",)


class StandardAbi:
    """Any library with the ABI that MPI 5.0 fixes (chapter 20 of the standard)."""

    name = "standard"
    title = "the standard ABI of MPI 5.0"
    abi = "standard"

    PARTS: ClassVar[dict[LibraryRole, re.Pattern[str]]] = {
        LibraryRole.MAIN: re.compile(r"libmpi_abi\.so(?:\.[01])?"),
        LibraryRole.FORTRAN: re.compile(r"libmpifort_abi\.so(?:\.[01])?"),
    }

    def exported_by(self, elf: ElfFile) -> str:
        """Return the query that goes with the SONAME; MPICH 5 exports the query in both ABIs."""
        if _VERSION not in elf.exports or any(mark in elf.exports for mark in _MARKS):
            return ""
        named = any(pattern.fullmatch(elf.soname) for pattern in self.PARTS.values())
        return f"it exports `{_VERSION}` as `{elf.soname}`" if named else ""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return the library that an object was linked to, when no other ABI shows in it."""
        del traces
        for name in elf.needed:
            if self.PARTS[LibraryRole.MAIN].fullmatch(name):
                return f"it was linked to `{name}`"
        return ""


# --------------------------------------------------------------------------------------------------
# The MPICH ABI: MPICH since 3.1, Intel MPI, MVAPICH, Cray MPICH's ABI-compatible libraries.
#
# Handles are integers in the code of the program. The MPICH ABI Compatibility Initiative fixes the
# names and the numbers of libtool (12:x:0); it leaves out MPIX functions and the Fortran 2008
# module.

_INSIDE = (
    "MPIR_F08_MPI_STATUS_IGNORE_OBJ",
    "MPII_Win_get_attr",
    "MPII_Comm_get_attr",
    "QMPI_Context_create",
)
# All but MPIR's names for debuggers, which every MPI has (the MPIR process acquisition interface).
_MARK = re.compile(
    r"(?:MPII|MPIDI?|QMPI|MPIR(?!_(?:being_debugged|debug_\w+|proctable\w*|Breakpoint|i_am_starter|"
    r"force_to_main|partial_attach_ok|ignore_queues|acquired_pre_main|executable_path|"
    r"server_arguments|attach_fifo|forward_\w+|dll_name|dll_name_array|call_\w+)\b))_\w+"
)
_VENDOR = r"(?:_(?:cray|gnu|intel|amd|aocc|nvidia|pgi)(?:_\d+)?)?"
_WITNESSES = 2


class MpichAbi:
    """The MPICH family."""

    name = "mpich"
    title = "the MPICH ABI"
    abi = "mpich"

    PARTS: ClassVar[dict[LibraryRole, re.Pattern[str]]] = {
        LibraryRole.MAIN: re.compile(rf"libmpi(?:ch)?{_VENDOR}\.so\.12"),
        LibraryRole.FORTRAN: re.compile(rf"libmpi(?:ch)?f(?:ort|90){_VENDOR}\.so\.12"),
        LibraryRole.CXX: re.compile(rf"libmpi(?:ch)?cxx{_VENDOR}\.so\.12"),
    }

    def exported_by(self, elf: ElfFile) -> str:
        """Return the internal function that only MPICH exports beside MPI's own."""
        if "MPI_Init" not in elf.exports or "ompi_mpi_comm_world" in elf.exports:
            return ""
        for name in _INSIDE:
            if name in elf.exports:
                return f"it exports `{name}`"
        marks = sorted(name for name in elf.exports if _MARK.fullmatch(name))
        return f"it exports `{marks[0]}`" if len(marks) > _WITNESSES else ""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return the handles, or the common blocks of Fortran, that an object was compiled with."""
        if len(traces.handles) >= _WITNESSES:
            words = ", ".join(f"{value:#x}" for value in traces.handles)
            return f"its code loads MPICH's datatypes {words}"
        block = shared(_names(elf), MPICH_BLOCKS)
        if block:
            return f"it uses MPICH's common block `{block}`"
        inside = sorted(entry.name for entry in elf.imports if _MARK.fullmatch(entry.name))
        return f"it uses `{inside[0]}`" if inside else ""


def _names(elf: ElfFile) -> tuple[str, ...]:
    return (*elf.exports, *(entry.name for entry in elf.imports))


# --------------------------------------------------------------------------------------------------
# Open MPI 4 and 5: handles are addresses of data in libmpi, which programs import or copy.

_HANDLE = re.compile(r"ompi_(?:mpi|request|message|win|group|op|file|f08)_\w+")
_WORLD = "ompi_mpi_comm_world"

# Open MPI 5 has neither ORTE nor C++ bindings, and its libopen-pal another number; libmpi was .so.0
# in 1.3 to 1.6, .so.1 in 1.7 and 1.8, .so.20 in 2 (VERSION in each of its releases).
_GONE = re.compile(
    r"lib(?:open-rte|mpi_cxx)\.so\.(\d+)|libopen-pal\.so\.((?!80$)\d+)|"
    r"libmpi(?:_f77|_f90|_mpifh|_usempi\w*)?\.so\.(0|1|20)"
)


def releases_of_part(name: str) -> str:
    """Return the Open MPI of a library that Open MPI 5 lacks; empty for every other one."""
    match = _GONE.fullmatch(name)
    number = next(filter(None, match.groups())) if match else ""
    return number and {"40": "Open MPI 3 or 4", "20": "Open MPI 2"}.get(number, "Open MPI 1")


class OpenMpiAbi:
    """Open MPI with libopen-pal below libmpi."""

    name = "openmpi"
    title = "Open MPI 4 and 5"
    abi = "openmpi"

    PARTS: ClassVar[dict[LibraryRole, re.Pattern[str]]] = {
        LibraryRole.MAIN: re.compile(r"libmpi\.so\.(?:20|40|0)"),
        LibraryRole.FORTRAN: re.compile(r"libmpi_(?:mpifh|usempi\w*?)(?:-\w+)?\.so\.\d+"),
        LibraryRole.CXX: re.compile(r"libmpi_cxx\.so\.\d+"),
        LibraryRole.INNER: re.compile(
            r"lib(?:open-pal|open-rte|open_mpi|mca_common_\w+|prrte)\.so\.\d+"
        ),
    }

    def exported_by(self, elf: ElfFile) -> str:
        """Return the handle that libmpi itself exports."""
        return f"it exports `{_WORLD}`" if {"MPI_Init", _WORLD} <= elf.exports.keys() else ""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return the handle, or the common block of Fortran, that an object refers to."""
        del traces
        handles = [entry.name for entry in elf.imports if _HANDLE.fullmatch(entry.name)]
        handles += [entry.name for entry in elf.copies if _HANDLE.fullmatch(entry.name)]
        if handles:
            return f"it uses `{min(handles)}`"
        block = shared((*elf.exports, *(entry.name for entry in elf.imports)), OPENMPI_BLOCKS)
        return f"it uses Open MPI's common block `{block}`" if block else ""


# --------------------------- Open MPI 6: libmpi.so.40 is thin, handles and code are in libopen_mpi
# Programs are those of Open MPI 4 and 5, so that only the library side is different.

_BELOW = "libopen_mpi.so"


class OpenMpi6Abi:
    """Open MPI with libopen_mpi below libmpi and libmpi_abi."""

    name = "openmpi6"
    title = "Open MPI 6"
    abi = "openmpi"

    def exported_by(self, elf: ElfFile) -> str:
        """Return the library that a thin libmpi stands on."""
        below = next((name for name in elf.needed if name.startswith(_BELOW)), "")
        return f"it needs `{below}`" if below and "MPI_Init" in elf.exports else ""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return what shows a program of Open MPI."""
        return OpenMpiAbi().used_by(elf, traces)


__all__ = [
    "FAMILIES",
    "Abi",
    "AbiFamily",
    "LibraryRole",
    "abi_of_name",
    "family_of",
    "is_fortran_call",
    "is_plain",
    "releases_of_part",
]


class Abi(StrEnum):
    """What a program is compiled for."""

    MPICH = "mpich"
    OPENMPI = "openmpi"
    STANDARD = "standard"


class AbiFamily(Protocol):
    """Libraries that share one binary interface and one way of being put together."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def title(self) -> str:
        """Return the name as people write it."""

    @property
    def abi(self) -> str:
        """Return the ABI of programs that it runs; a value of `Abi`."""

    def exported_by(self, elf: ElfFile) -> str:
        """Return what shows that a main library is of this family, empty when nothing does."""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return what shows that an object was compiled for this ABI, empty when nothing does."""


_OWN_START = frozenset({"PMPI_Init", "PMPI_Init_thread"})
_MEMBERS: tuple[AbiFamily, ...] = (StandardAbi(), OpenMpi6Abi(), OpenMpiAbi(), MpichAbi())
FAMILIES: dict[str, AbiFamily] = {family.name: family for family in _MEMBERS}


def family_of(elf: ElfFile) -> tuple[AbiFamily, str] | None:
    """Return the family of a main library and what shows it, None for no MPI or an unknown one."""
    for family in FAMILIES.values():
        shown = family.exported_by(elf)
        if shown:
            return None if calls_below(elf) else (family, shown)
    return None


def calls_below(elf: ElfFile) -> bool:
    """Return whether an object puts itself before an MPI: what it defines calls MPI's own (PMPI).

    A tool that is linked into a program makes it define `MPI_Init`, and the program may have a copy
    of a handle besides: neither makes it an MPI.
    """
    return any(entry.name in _OWN_START for entry in elf.imports)


_PLAIN_NAME = re.compile(r"libmpi(?:ch)?\.so")


def is_plain(name: str) -> bool:
    """Return True for the name of a main library for linkers, which any MPI may have."""
    return _PLAIN_NAME.fullmatch(name) is not None


def abi_of_name(name: str) -> tuple[Abi, LibraryRole] | None:
    """Return which ABI and which part of an MPI the name of a library promises, None if none."""
    for abi, parts in (
        (Abi.STANDARD, StandardAbi.PARTS),
        (Abi.MPICH, MpichAbi.PARTS),
        (Abi.OPENMPI, OpenMpiAbi.PARTS),
    ):
        for part, pattern in parts.items():
            if pattern.fullmatch(name):
                return abi, part
    return None
