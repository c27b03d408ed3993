"""Fortran's way of calling MPI: names and data that tell the family of a Fortran program.

A Fortran compiler mangles `MPI_Send` to `mpi_send_`, `mpi_send`, `mpi_send__` or `MPI_SEND`, the
same for every MPI. What differs are the common blocks behind constants such as MPI_BOTTOM, and the
names of the `mpi_f08` procedures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
