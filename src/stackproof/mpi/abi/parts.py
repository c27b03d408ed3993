"""The parts that an MPI consists of."""

from __future__ import annotations

from enum import StrEnum


class LibraryRole(StrEnum):
    """What a library of an MPI is for."""

    MAIN = "main"
    FORTRAN = "fortran"
    FORTRAN_2008 = "fortran-2008"
    CXX = "c++"
    INNER = "inner"
    """Used by the MPI itself only, and tied to one release."""
