"""Shared memory inside one node."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.mpi.transports import support, traffic
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import Check, Output, State
from stackproof.results.path import Medium

# Seen to keep all traffic off the interfaces: Open MPI 5.0.8 and 5.0.11, MPICH 4.3.1 and 5.0.2,
# Intel MPI 2021.17.2 and 2021.18.1. MPICH before 4 may be built on ch3, which has other settings.
_MINIMUM: support.Minimum = {"openmpi": (5,), "mpich": (4,), "intel-mpi": (2021,)}

_SETTINGS = {
    # ob1 with no other way to reach a peer than shared memory: another peer is an error. Leaving
    # the libfabric and UCX components out also makes the start several times faster.
    "openmpi": {
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_mtl": "^ofi",
        "OMPI_MCA_btl": "self,sm",
    },
    # ch4 uses its own shared memory for peers on the node; libfabric's shm provider is the only
    # network it gets, so that nothing can leave the node.
    "mpich": {
        "MPIR_CVAR_NOLOCAL": "0",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "shm",
    },
    "intel-mpi": {"I_MPI_FABRICS": "shm"},
}


class Shm:
    """Messages through memory that the ranks of one node share."""

    name = "shm"
    title = "shared memory"

    def supports(self, family: str, version: str) -> bool:
        """Return whether the release was seen to obey, or is newer than one that was."""
        return support.reaches(_MINIMUM, family, version)

    def profile(self, setup: Setup) -> Profile:
        """Return the family's settings; UNSUPPORTED for a placement with more than one node."""
        placement = setup.placement
        if not self.supports(setup.family, setup.version):
            raise support.unsupported(self.name, _MINIMUM, setup.family, setup.version)
        if placement.locality is Locality.INTER:
            raise fail(
                Reason.UNSUPPORTED,
                f"the placement `{placement.name}` has {len(placement.nodes)} nodes, which share "
                "no memory",
                hint="use the transport `tcp`, `cxi`, `lnx` or `auto` for it",
            )
        settings = _SETTINGS[setup.family]
        return Profile(
            env=EnvPatch(set=settings),
            expect=settings.get("FI_PROVIDER", ""),
            inside=(Medium.MEMORY,),
        )

    def check(self, output: Output, case: Case) -> Check:
        """Return OK when next to nothing left by any interface, loopback included.

        BAD when in every part they sent all that it moved, as an MPI does that took the network.
        What is less is others' traffic, by its own measure and not by the arm's: a slow arm must
        not lose more launches to it than a fast one.
        """
        found = traffic.counted(output, case)
        unseen = traffic.unseen("transport", found, case)
        if unseen is not None:
            return unseen
        if found.is_quiet(found.off()):
            state, reason, what = State.OK, "", "shared memory"
        elif found.carried_everywhere():
            state, reason = State.BAD, Reason.WRONG_TRANSPORT.value
            what = "the messages went through the network"
        else:
            state, reason, what = State.UNKNOWN, "", "there was other traffic"
        return Check(name="transport", state=state, reason=reason, evidence=f"{what}: {found.text}")
