"""HPE Cray MPICH: the vendor's MPI on Slingshot machines; it comes with the machine only.

It is started by the site's own launcher; its tree is `…/mpich/VERSION/ofi/COMPILER/VERSION`.
"""

from __future__ import annotations

import re

from stackproof.mpi.families.record import Forced, GpuSwitch, MpiFamily

CRAY_MPICH = MpiFamily(
    name="cray-mpich",
    title="HPE Cray MPICH",
    abi="mpich",
    launcher="srun",
    # `MPI VERSION    : CRAY MPICH version 8.1.28.2 (ANL base 3.4a2)`: output of
    # `MPI.versioninfo()` (Julia) and `mpi4py --mpi-lib-version` on Cray EX machines, as users'
    # public documentation shows it.
    banner=re.compile(r"MPI VERSION\s*:\s*CRAY MPICH version (\d[\w.]*)"),
    pmi={"srun": "cray_shasta"},  # Slurm's own plug-in for it
    # intro_mpi(3): it opens all NICs and chooses by a map.
    nic_variables={"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": "{map}"},
    # The settings of `matched` are its own.
    paths={"matched": Forced(since=(8, 1), set={"FI_PROVIDER": "cxi"})},
    # Without it a GPU's address is taken for the host's (K45): intro_mpi(3) and docs.olcf.ornl.gov,
    # Frontier User Guide, "GPU-Aware MPI".
    gpu_switches=(GpuSwitch(name="MPICH_GPU_SUPPORT_ENABLED", since=(8, 1)),),
    evidence="stackproof.mpi.families.cray_mpich.evidence",
)
