"""Open MPI 6: libmpi.so.40 is thin, handles and code are in libopen_mpi.

Programs are those of Open MPI 4 and 5, so that only the library side is different.
"""

from __future__ import annotations

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.mpi.abi.openmpi import OpenMpiAbi

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
