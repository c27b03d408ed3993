"""The standard ABI of MPI 5.0: libmpi_abi.so.1 of any implementation."""

from __future__ import annotations

import re
from typing import ClassVar

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.mpi.abi.parts import LibraryRole

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
