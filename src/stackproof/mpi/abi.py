"""MPI ABI families: recognised by what is inside a file, never by its name alone.

A SONAME says neither enough nor the truth: `libmpi.so.12` may be given to anything, Debian calls
MPICH `libmpich.so.12`, and Open MPI keeps one SONAME over changes that matter. What a library
exports, and which constants a program was compiled with, cannot be given by a link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum

from stackproof.core.value import Value
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


def _of_blocks(elf: ElfFile, blocks: frozenset[str], title: str) -> str:
    """Return the first of some common blocks that an object has or uses, in words."""
    block = min(blocks.intersection((*elf.exports, *_imported(elf))), default="")
    return f"it uses {title}'s common block `{block}`" if block else ""


def _imported(elf: ElfFile) -> list[str]:
    return [entry.name for entry in elf.imports]


class Abi(StrEnum):
    """What a program is compiled for."""

    MPICH = "mpich"
    OPENMPI = "openmpi"
    STANDARD = "standard"


class LibraryRole(StrEnum):
    """What a library of an MPI is for."""

    MAIN = "main"
    FORTRAN = "fortran"
    FORTRAN_2008 = "fortran-2008"
    CXX = "c++"
    INNER = "inner"
    """Used by the MPI itself only, and tied to one release."""


_VENDOR = r"(?:_(?:cray|gnu|intel|amd|aocc|nvidia|pgi)(?:_\d+)?)?"
_PARTS = tuple(
    (abi, part, re.compile(form))
    for abi, part, form in (
        (Abi.STANDARD, LibraryRole.MAIN, r"libmpi_abi\.so(?:\.[01])?"),
        (Abi.STANDARD, LibraryRole.FORTRAN, r"libmpifort_abi\.so(?:\.[01])?"),
        (Abi.MPICH, LibraryRole.MAIN, rf"libmpi(?:ch)?{_VENDOR}\.so\.12"),
        (Abi.MPICH, LibraryRole.FORTRAN, rf"libmpi(?:ch)?f(?:ort|90){_VENDOR}\.so\.12"),
        (Abi.MPICH, LibraryRole.CXX, rf"libmpi(?:ch)?cxx{_VENDOR}\.so\.12"),
        (Abi.OPENMPI, LibraryRole.MAIN, r"libmpi\.so\.(?:20|40|0)"),
        (Abi.OPENMPI, LibraryRole.FORTRAN, r"libmpi_(?:mpifh|usempi\w*?)(?:-\w+)?\.so\.\d+"),
        (Abi.OPENMPI, LibraryRole.CXX, r"libmpi_cxx\.so\.\d+"),
        (Abi.OPENMPI, LibraryRole.INNER,
         r"lib(?:open-pal|open-rte|open_mpi|mca_common_\w+|prrte)\.so\.\d+"),
    )
)  # fmt: skip
"""The names of the parts that an MPI of each ABI consists of."""


def abi_of_name(name: str) -> tuple[Abi, LibraryRole] | None:
    """Return which ABI and which part of an MPI the name of a library promises, None if none."""
    return next(((abi, part) for abi, part, form in _PARTS if form.fullmatch(name)), None)


_PLAIN_NAME = re.compile(r"libmpi(?:ch)?\.so")


def is_plain(name: str) -> bool:
    """Return True for the name of a main library for linkers, which any MPI may have."""
    return _PLAIN_NAME.fullmatch(name) is not None


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


class AbiFamily(Value):
    """Libraries that share one binary interface and one way of being put together.

    `abi` is that of programs which it runs. `exported_by` gives what shows that a main library is
    of this family, `used_by` what shows that an object was compiled for this ABI; empty when
    nothing does.
    """

    name: str
    title: str
    abi: Abi
    exported_by: Callable[[ElfFile], str]
    used_by: Callable[[ElfFile, Traces], str]


# ------------------------------ The standard ABI of MPI 5.0: libmpi_abi.so.1 of any implementation
# It is fixed by chapter 20 of the standard.

_VERSION = "MPI_Abi_get_version"
_WORLD = "ompi_mpi_comm_world"


def _exported_by_standard(elf: ElfFile) -> str:
    """Return the query that goes with the SONAME; MPICH 5 exports the query in both ABIs."""
    promise = abi_of_name(elf.soname)
    named = promise is not None and promise[0] is Abi.STANDARD
    is_one = named and _VERSION in elf.exports and _WORLD not in elf.exports
    return f"it exports `{_VERSION}` as `{elf.soname}`" if is_one else ""


def _used_by_standard(elf: ElfFile, _: Traces) -> str:
    """Return the library that an object was linked to, when no other ABI shows in it."""
    main = (Abi.STANDARD, LibraryRole.MAIN)
    name = next((name for name in elf.needed if abi_of_name(name) == main), "")
    return f"it was linked to `{name}`" if name else ""


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
_WITNESSES = 2


def _exported_by_mpich(elf: ElfFile) -> str:
    """Return the internal function that only MPICH exports beside MPI's own."""
    if "MPI_Init" not in elf.exports or _WORLD in elf.exports:
        return ""
    marks = [name for name in _INSIDE if name in elf.exports]
    if not marks:
        marks = sorted(filter(_MARK.fullmatch, elf.exports))
        marks = marks if len(marks) > _WITNESSES else []
    return f"it exports `{marks[0]}`" if marks else ""


def _used_by_mpich(elf: ElfFile, traces: Traces) -> str:
    """Return the handles, or the common blocks of Fortran, that an object was compiled with."""
    if len(traces.handles) >= _WITNESSES:
        words = ", ".join(f"{value:#x}" for value in traces.handles)
        return f"its code loads MPICH's datatypes {words}"
    inside = min(filter(_MARK.fullmatch, _imported(elf)), default="")
    return _of_blocks(elf, MPICH_BLOCKS, "MPICH") or (f"it uses `{inside}`" if inside else "")


# --------------------------------------------------------------------------------------------------
# Open MPI: handles are addresses of data in libmpi, which programs import or copy. Of Open MPI 6
# libmpi.so.40 is thin, and handles and code are in libopen_mpi below it.

_HANDLE = re.compile(r"ompi_(?:mpi|request|message|win|group|op|file|f08)_\w+")
_BELOW = "libopen_mpi.so"


def _exported_by_openmpi(elf: ElfFile) -> str:
    """Return the handle that libmpi itself exports."""
    return f"it exports `{_WORLD}`" if {"MPI_Init", _WORLD} <= elf.exports.keys() else ""


def _used_by_openmpi(elf: ElfFile, _: Traces) -> str:
    """Return the handle, or the common block of Fortran, that an object refers to."""
    names = (*_imported(elf), *(entry.name for entry in elf.copies))
    handle = min(filter(_HANDLE.fullmatch, names), default="")
    return f"it uses `{handle}`" if handle else _of_blocks(elf, OPENMPI_BLOCKS, "Open MPI")


def _exported_by_openmpi6(elf: ElfFile) -> str:
    """Return the library that a thin libmpi stands on."""
    below = next((name for name in elf.needed if name.startswith(_BELOW)), "")
    return f"it needs `{below}`" if below and "MPI_Init" in elf.exports else ""


FAMILIES = {
    name: AbiFamily(name=name, title=title, abi=abi, exported_by=exported_by, used_by=used_by)
    for name, title, abi, exported_by, used_by in (
        ("standard", "the standard ABI of MPI 5.0", Abi.STANDARD,
         _exported_by_standard, _used_by_standard),
        ("openmpi6", "Open MPI 6", Abi.OPENMPI, _exported_by_openmpi6, _used_by_openmpi),
        ("openmpi", "Open MPI 4 and 5", Abi.OPENMPI, _exported_by_openmpi, _used_by_openmpi),
        ("mpich", "the MPICH ABI", Abi.MPICH, _exported_by_mpich, _used_by_mpich),
    )
}  # fmt: skip
_OWN_START = frozenset({"PMPI_Init", "PMPI_Init_thread"})


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
    of a handle besides: neither makes it an MPI. EZTrace looks for the MPI's own at run time.
    """
    if any(entry.name in _OWN_START for entry in elf.imports):
        return True
    takes = "MPI_Init" in elf.exports and not _OWN_START & elf.exports.keys()
    return takes and not abi_of_name(elf.soname) and any(map(abi_of_name, elf.needed))
