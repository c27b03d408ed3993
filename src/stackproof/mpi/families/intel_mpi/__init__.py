"""Intel MPI: a proprietary MPI of the MPICH ABI."""

from __future__ import annotations

import re

from stackproof.mpi.families.record import Forced, GpuSwitch, LibraryMarks, LogForms, MpiFamily

INTEL_MPI = MpiFamily(
    name="intel-mpi",
    title="Intel MPI",
    abi="mpich",
    launcher="intel-hydra",
    # Intel(R) MPI Library 2021.18.1 for Linux* OS
    banner=re.compile(r"Intel\(R\) MPI Library (\d{4}[\w.]*)"),
    # Runtime and headers; `impi-devel` itself requires `impi-rt` of its version.
    distributions=("impi-rt", "impi-devel"),
    # The newest whose wheels can be installed alone: 2021.19.0 requires a distribution `libfabric`
    # of version 2.6 or later (metadata of impi-rt 2021.19.0), which no package index offers.
    default_version="2021.18.1",
    # `mpicc` and the launchers find the tree by `I_MPI_ROOT` and each other by `PATH`. The
    # libfabric in `lib/` is found by `LD_LIBRARY_PATH` and its providers (plug-ins beside it) by
    # `FI_PROVIDER_PATH`; without both, MPI_Init fails as soon as a network is needed.
    variables={"I_MPI_ROOT": "{prefix}", "FI_PROVIDER_PATH": "{prefix}/lib"},
    pmi={"srun": "pmi2"},
    provider_variables=("I_MPI_OFI_PROVIDER",),
    libfabric_variable="I_MPI_OFI_LIBRARY",
    paths={
        # Seen to keep all traffic off the interfaces, and to send it by the one named: 2021.17.2
        # and 2021.18.1.
        "shm": Forced(since=(2021,), set={"I_MPI_FABRICS": "shm"}),
        "tcp": Forced(
            since=(2021,),
            set={"I_MPI_FABRICS": "ofi", "I_MPI_OFI_PROVIDER": "tcp", "FI_PROVIDER": "tcp"},
        ),
        # Its Developer Guide, "Job Schedulers Support", since 2021.11 at the latest.
        "cxi": Forced(
            since=(2021, 11),
            set={"I_MPI_FABRICS": "ofi", "I_MPI_OFI_PROVIDER": "cxi", "FI_PROVIDER": "cxi"},
        ),
    },
    # Developer Reference, "GPU Buffers Support".
    gpu_switches=(GpuSwitch(name="I_MPI_OFFLOAD", since=(2021, 8), memory=frozenset({"cuda"})),),
    wheels_lack={"impi-rt": ("rocm",)},  # 2021.18.1 names libcuda.so alone
    made_of="mpich",
    marks=LibraryMarks(word=b"I_MPI_FABRICS", release="20"),
    variable_prefix="I_MPI_",
    log=LogForms(
        component="Intel MPI",
        speaks=r"bstrap_proxy|i_hydra|I_MPI_|Intel\(R\) MPI|impi|MPI startup\(\)|_ch4_\w+_intel",
        # MPICH says fi_getinfo, and has the files of its releases in no folder of such names.
        words=r"Intel\(R\) MPI|bstrap_proxy|i_hydra|I_MPI_|MPI startup\(\)|impi_shm|impi[/-]"
        r"|intel_mpi|PMI server not found|MPIDI_NM_|MPIDI_OFI_mpi_init_hook\(\d+\)[.: ]+OFI addr"
        r"|_buildspace/|src/intel/|oneapi/mpi/|compilers_and_libraries\S{0,80}/mpi/",
        version=r"Intel\(R\) MPI Library,? (?:Version )?(\d{4}\.\d+(?:\.\d+)?"
        r"|\d{4}(?: Update \d+)?)",
    ),
    spack={"intel-oneapi-mpi": ""},
    easybuild="impi",
    programs=("IMB-MPI1",),
    evidence="stackproof.mpi.families.intel_mpi.evidence",
)
