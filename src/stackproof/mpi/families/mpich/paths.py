"""What makes MPICH take each transport; before 4 it may be built on ch3 with other settings."""

from __future__ import annotations

from stackproof.mpi.families.record import Forced, GpuSwitch

PATHS = {
    # Seen to keep all traffic off the interfaces: 4.3.1 and 5.0.2. ch4 uses its own shared memory
    # for peers on the node; libfabric's shm provider is the only network it gets, so that nothing
    # can leave the node.
    "shm": Forced(
        since=(4,),
        set={
            "MPIR_CVAR_NOLOCAL": "0",
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "shm",
        },
    ),
    # Seen to send all traffic by the interface named: 4.3.1 and 5.0.2. The wheel of 3.4 is built on
    # ch3, which has no choice of interface.
    "tcp": Forced(
        since=(4,),
        set={
            "MPIR_CVAR_NOLOCAL": "1",
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "tcp",
        },
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

# Without it MPICH sends all through the host (K52); src/mpid/ch4/netmod/ofi/ofi_init.c has it from
# 4.1 on.
GPU_SWITCHES = (GpuSwitch(name="MPIR_CVAR_CH4_OFI_ENABLE_HMEM", since=(4, 1)),)
