"""Open MPI 4 and 5: handles are addresses of data in libmpi, which programs import or copy."""

from __future__ import annotations

import re
from typing import ClassVar

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.mpi.abi import fortran
from stackproof.mpi.abi.parts import LibraryRole

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
        block = fortran.shared(
            (*elf.exports, *(entry.name for entry in elf.imports)), fortran.OPENMPI_BLOCKS
        )
        return f"it uses Open MPI's common block `{block}`" if block else ""
