"""MVAPICH of The Ohio State University: MPICH's code and ABI, with protocols of its own.

Release 3 goes on from MPICH 3.4.3, release 4 from 4.3.0; both reach Slingshot, Omni-Path and
Ethernet by libfabric, and InfiniBand by UCX. MVAPICH2, up to 2.3.7, has the device ch3. Sources:
https://github.com/OSU-Nowlab/MVAPICH-docs/blob/ec721d4/docs/source/quick.rst and
https://github.com/nmorey/mvapich/blob/v4.0/CHANGELOG. No package index has a wheel.
"""

from __future__ import annotations

import re

from stackproof.mpi.families.mpich import MPICH
from stackproof.mpi.families.record import (
    Forced,
    GpuSwitch,
    InfoProgram,
    LibraryMarks,
    LogForms,
    MpiFamily,
)

# Read in documents and never run. Variables of MPICH (MPIR_CVAR_…) hold beside names of its own
# (MVP_…): docs/source/cvar.rst, as above. The network module is chosen by MPICH's variable, too,
# and Slingshot by FI_PROVIDER=cxi: https://anaconda.org/conda-forge/mvapich, release 4.
_FIRST = (4,)
_PATHS = {
    transport: Forced(since=_FIRST, set=MPICH.paths[transport].set)
    for transport in ("shm", "tcp", "cxi")
}

MVAPICH = MpiFamily(
    name="mvapich",
    title="MVAPICH",
    abi="mpich",  # in the initiative since MVAPICH2 2.0: https://www.mpich.org/abi/
    # Its default: https://github.com/OSU-Nowlab/MVAPICH-docs/blob/3121eb8/docs/source/launchers.rst
    launcher="hydra",
    # `MVAPICH Version:` since 3 and `MVAPICH2 Version      :` before; MPI.jl, test of version
    # strings; https://github.com/mpi4py/mpi4py/blob/master/src/pympivendor.h.
    banner=re.compile(r"MVAPICH2? Version\s*:\s*(\d[\w.]*)"),
    # As MPICH: for Hydra it is built with PMI-1, which Slurm's pmi2 answers; `--with-pmi=slurm` is
    # PMI-1, too: https://github.com/nmorey/mvapich/blob/v4.0/configure.ac
    pmi={"srun": "pmi2"},
    paths=_PATHS,
    gpu_switches=(GpuSwitch(name="MPIR_CVAR_CH4_OFI_ENABLE_HMEM", since=_FIRST),),
    made_of="mpich",
    marks=LibraryMarks(word=b"MVAPICH", maker="MVAPICH"),
    variable_prefix="MV",
    log=LogForms(
        component="MVAPICH",
        speaks=r"\[mvapich|MVAPICH|\[cli_\d+\]|mpispawn|mpirun_rsh|mv2_|MPIDI_CH3_Init",
        words=(
            r"MVAPICH|\[mvapich|mpirun_rsh|mpispawn|M(?:V2|VP)_\w+|\[cli_\d+\]: (?:aborting|read)"
            r"|:mpi_rank_\d+\]\[|mv2_\w+"
        ),
        version=r"MVAPICH2?(?:-[A-Za-z]\w*)?(?: [Vv]ersion *:?\s*| |-)(\d+\.\d+(?:\.\d+)?)\b",
    ),
    # Up to release 3: the sources of 4.0 have no mpiname. Source: determine_version of the packages
    # mvapich and mvapich2 in
    # https://github.com/spack/spack-packages.
    info=InfoProgram(
        argv=("mpiname", "-a"), version=re.compile(r"^MVAPICH2? (\d\S*)", re.MULTILINE)
    ),
    spack={"mvapich": "", "mvapich2": "2.0"},
    evidence="stackproof.mpi.families.mpich.evidence",  # its device ch4 is MPICH's
)
