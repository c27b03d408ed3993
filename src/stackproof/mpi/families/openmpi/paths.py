"""What makes Open MPI take each transport.

`OMPI_MCA_opal_common_ofi_provider_include` is `OMPI_MCA_mtl_ofi_provider_include` before version 5.
"""

from __future__ import annotations

from stackproof.mpi.families.record import Forced

_BY_PROVIDER = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_btl": "self"}
"""With no byte transfer layer but `self`, cm is the only way to a peer."""
_PROVIDER = "OMPI_MCA_opal_common_ofi_provider_include"

PATHS = {
    # Seen to keep all traffic off the interfaces: 5.0.8 and 5.0.11. ob1 with no other way to reach
    # a peer than shared memory: another peer is an error. Leaving the libfabric and UCX components
    # out also makes the start several times faster.
    "shm": Forced(
        since=(5,),
        set={"OMPI_MCA_pml": "ob1", "OMPI_MCA_mtl": "^ofi", "OMPI_MCA_btl": "self,sm"},
    ),
    # Seen to send all traffic by the interface named: 4.1.8, 5.0.8 and 5.0.11. It leaves the
    # provider out unless it is named, and asks libfabric for an interface that reaches other nodes.
    "tcp": Forced(
        since=(4, 1),
        set={**_BY_PROVIDER, _PROVIDER: "tcp", "OMPI_MCA_mtl_ofi_provider_include": "tcp"},
        lo=False,
    ),
    # 5 is the first whose sources were read for this; docs.cscs.ch, "OpenMPI".
    "cxi": Forced(since=(5,), set={**_BY_PROVIDER, _PROVIDER: "cxi", "FI_PROVIDER": "cxi"}),
    "lnx": Forced(
        since=(5,),
        set={**_BY_PROVIDER, "OMPI_MCA_mtl_ofi_av": "table", _PROVIDER: "{provider}"},
    ),
}
