"""MPICH as its developers release it; its wheel finds all relative to its own libraries."""

from __future__ import annotations

import re

from stackproof.mpi.families.mpich.paths import GPU_SWITCHES, PATHS
from stackproof.mpi.families.record import MpiFamily

MPICH = MpiFamily(
    name="mpich",
    title="MPICH",
    abi="mpich",
    launcher="hydra",
    banner=re.compile(r"MPICH Version:\s*(\d[\w.]*)"),  # MPICH Version: 5.0.2 …
    distributions=("mpich",),
    variables={"FI_PROVIDER_PATH": "{prefix}/lib/mpich/libfabric"},
    pmi={"srun": "pmi2"},
    # Slurm reads 1024 bytes of a request of PMI-1 and takes the rest for another one (MAX_READLINE
    # in src/plugins/mpi/pmi2/pmi1.c), and MPICH sends UCX's addresses in values of up to 1022. The
    # plug-in sets the same for images (native/spank/pmi.c).
    pmi_variables={"srun": {"UCX_ADDRESS_VERSION": "v2"}},
    paths=PATHS,
    gpu_switches=GPU_SWITCHES,
    # MPIX_Query_cuda_support and its kin say so, and no library names one of CUDA or ROCm: 4.3.1 to
    # 5.0.2.
    wheels_lack={"mpich": ("cuda", "rocm")},
    evidence="stackproof.mpi.families.mpich.evidence",
)
