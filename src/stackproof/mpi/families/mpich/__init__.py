"""MPICH as its developers release it; its wheel finds all relative to its own libraries."""

from __future__ import annotations

import re

from stackproof.mpi.families.record import Forced, GpuSwitch, InfoProgram, LogForms, MpiFamily

# Before 4 it may be built on ch3 with other settings.
_PATHS = {
    # Seen to keep all traffic off the interfaces: 4.3.1 and 5.0.2. ch4 uses its own shared memory
    # for peers on the node; libfabric's shm provider is the only network it gets, so that nothing
    # can leave the node.
    "shm": Forced(
        since=(4,),
        set={"MPIR_CVAR_NOLOCAL": "0", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "shm"},
    ),
    # Seen to send all traffic by the interface named: 4.3.1 and 5.0.2. The wheel of 3.4 is built on
    # ch3, which has no choice of interface.
    "tcp": Forced(
        since=(4,),
        set={"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"},
    ),
    # 4.3 is the first whose sources were read for this; older ones mix up messages of cxi and
    # shared memory (known problem K53). docs.cscs.ch, "MPICH"; src/mpid/ch4 and pull request 6435
    # for a job on a single node, which would avoid cxi.
    "cxi": Forced(
        since=(4, 3),
        set={
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "MPIR_CVAR_NOLOCAL": "1",
            "MPIR_CVAR_SINGLE_HOST_ENABLED": "0",
            "FI_PROVIDER": "cxi",
        },
    ),
}

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
    paths=_PATHS,
    # Without it MPICH sends all through the host (K52); src/mpid/ch4/netmod/ofi/ofi_init.c has it
    # from 4.1 on.
    gpu_switches=(GpuSwitch(name="MPIR_CVAR_CH4_OFI_ENABLE_HMEM", since=(4, 1)),),
    # MPIX_Query_cuda_support and its kin say so, and no library names one of CUDA or ROCm: 4.3.1 to
    # 5.0.2.
    wheels_lack={"mpich": ("cuda", "rocm")},
    variable_prefix="MPIR_CVAR_",
    log=LogForms(
        component="MPICH",
        speaks=r"Fatal error in |Abort\(|internal ABORT|Assertion failed in file \S*(?:mpi[dlr]"
        r"|ch[34])|MPI[DRL]\w*\(\d+\)|MPIDI?_|MPIR_|write_line error|PMI[I2]?_|_pmi2_kvs",
        words=r"MPIR_|MPIDI?_|MPII_|MPICH|internal_Init|Fatal error in (?:internal_|P?MPI_)"
        r"|PMII_singinit|HYD[TU]_|\[mpiexec@|\[proxy:|_pmi2_kvs_get",
        version=r"(?<!CRAY )MPICH [Vv]ersion:?\s*(\d+\.\d+(?:\.\d+)?)",
    ),
    # Cray's says the version of the MPICH that it was made of, and names its own interface.
    info=InfoProgram(
        argv=("mpichversion",),
        version=re.compile(r"^MPICH Version:\s+(\d+\.\d[\w.]*)$", re.MULTILINE),
        foreign="CRAY",
    ),
    spack={"mpich": "3.1"},  # https://www.mpich.org/abi/
    easybuild="MPICH",
    chain=True,
    parts=("libmpifort.so.12", "libmpicxx.so.12", "libmpichfort.so.12", "libmpichcxx.so.12"),
    evidence="stackproof.mpi.families.mpich.evidence",
)
