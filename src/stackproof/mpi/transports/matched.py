"""Slingshot's NIC with the settings that Cray MPICH gives to libfabric, for every MPI alike."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.value import replace
from stackproof.mpi.transports import support
from stackproof.mpi.transports.cxi import Cxi, need_cxi
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.results.path import Medium

# What Cray MPICH 8.1 sets by itself: intro_mpi(3), and the values that 8.1.25 prints in
# github.com/E3SM-Project/polaris/issues/205.
VENDOR_SETTINGS = {
    "FI_CXI_RDZV_THRESHOLD": "16384",
    "FI_CXI_RDZV_EAGER_SIZE": "2048",
    "FI_CXI_DEFAULT_CQ_SIZE": "32768",
    "FI_CXI_OFLOW_BUF_SIZE": "12582912",
    "FI_CXI_OFLOW_BUF_COUNT": "3",
    "FI_MR_CACHE_MAX_SIZE": "-1",
    "FI_MR_CACHE_MAX_COUNT": "524288",
}


class Matched(Cxi):
    """As `cxi`, with the vendor's settings; of the vendor's MPI only these are fixed.

    Inside a node Cray MPICH goes on to use its own shared memory.
    """

    name = "matched"
    title = "Slingshot with the vendor's settings"

    def supports(self, family: str, version: str) -> bool:
        """Return whether cxi can be forced, or the settings are the family's own."""
        return super().supports(family, version) or (
            support.forced(self.name, family, version) is not None
        )

    def profile(self, setup: Setup) -> Profile:
        """Return what `cxi` sets, and the vendor's settings; raises like `cxi`."""
        own = support.forced(self.name, setup.family, setup.version)
        if own is not None:
            need_cxi(self.name, setup)
            env = {**own.set, **VENDOR_SETTINGS}
            return Profile(
                env=EnvPatch(set=env),
                expect="cxi",
                inside=(Medium.MEMORY, Medium.SLINGSHOT),
                between=(Medium.SLINGSHOT,),
                notes=support.newer(setup),
            )
        found = super().profile(setup)
        return replace(found, env=EnvPatch(set={**found.env.set, **VENDOR_SETTINGS}))
