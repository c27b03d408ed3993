"""The MPICH ABI: MPICH since 3.1, Intel MPI, MVAPICH, Cray MPICH's ABI-compatible libraries.

Handles are integers in the code of the program. The MPICH ABI Compatibility Initiative fixes the
names and the numbers of libtool (12:x:0); it leaves out MPIX functions and the Fortran 2008 module.
"""

from __future__ import annotations

import re
from typing import ClassVar

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.mpi.abi import fortran
from stackproof.mpi.abi.parts import LibraryRole

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
        block = fortran.shared(_names(elf), fortran.MPICH_BLOCKS)
        if block:
            return f"it uses MPICH's common block `{block}`"
        inside = sorted(entry.name for entry in elf.imports if _MARK.fullmatch(entry.name))
        return f"it uses `{inside[0]}`" if inside else ""


def _names(elf: ElfFile) -> tuple[str, ...]:
    return (*elf.exports, *(entry.name for entry in elf.imports))
