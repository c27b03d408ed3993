"""HPE Cray MPICH: the vendor's MPI on Slingshot machines; it comes with the machine only.

It is started by the site's own launcher; its tree is `…/mpich/VERSION/ofi/COMPILER/VERSION`.
"""

from __future__ import annotations

import re

from stackproof.mpi.families.record import Forced, GpuSwitch, LibraryMarks, LogForms, MpiFamily

CRAY_MPICH = MpiFamily(
    name="cray-mpich",
    title="HPE Cray MPICH",
    abi="mpich",
    launcher="srun",
    # `MPI VERSION    : CRAY MPICH version 8.1.28.2 (ANL base 3.4a2)`: output of
    # `MPI.versioninfo()` (Julia) and `mpi4py --mpi-lib-version` on Cray EX machines, as users'
    # public documentation shows it.
    banner=re.compile(r"MPI VERSION\s*:\s*CRAY MPICH version (\d[\w.]*)"),
    # Slurm's own plug-in for it; the shell's of Flux: flux-shell-cray-pals(1).
    pmi={"srun": "cray_shasta", "flux": "cray-pals"},
    # intro_mpi(3): it opens all NICs and chooses by a map.
    nic_variables={"MPICH_OFI_NIC_POLICY": "USER", "MPICH_OFI_NIC_MAPPING": "{map}"},
    # The settings of `matched` are its own.
    paths={"matched": Forced(since=(8, 1), set={"FI_PROVIDER": "cxi"})},
    # Without it a GPU's address is taken for the host's (K45): intro_mpi(3) and docs.olcf.ornl.gov,
    # Frontier User Guide, "GPU-Aware MPI".
    gpu_switches=(GpuSwitch(name="MPICH_GPU_SUPPORT_ENABLED", since=(8, 1)),),
    made_of="mpich",
    marks=LibraryMarks(
        path=re.compile(r"^/opt/cray/pe/mpich/(?P<release>[^/]+)/"), maker="CRAY MPICH"
    ),
    variable_prefix="MPICH_",
    log=LogForms(
        component="Cray MPICH",
        speaks=r"MPICH ERROR \[Rank|MPICH WARNING|CRAY MPICH|libmpi_(?:cray|gnu|intel|nvidia|amd)\b"
        r"|GTL library",
        words=r"CRAY MPICH|MPICH ERROR \[Rank|PE \d+: MPICH|libmpi_(?:cray|gnu|intel|nvidia"
        r"|amd)(?:_\d+)?\.so|\[PE_\d+\]|GTL library|MPIDI_CRAY_|MPICH_\w+ +=|cray_pmi",
        version=r"CRAY MPICH version (\d+\.\d+\.\d+)",
    ),
    spack={"cray-mpich": "7.0"},  # https://www.mpich.org/abi/
    vendor=True,
    evidence="stackproof.mpi.families.cray_mpich.evidence",
)
