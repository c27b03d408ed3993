"""The MPI's own choice of path."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import traffic
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output, State


class Auto:
    """Nothing is forced; only the interface is pinned where the placement names one.

    Without that, Open MPI and MPICH spread messages over all interfaces that they find, also over
    a management network.
    """

    name = "auto"
    title = "the MPI's own choice"

    def supports(self, family: str, version: str) -> bool:
        """Return True: every MPI has a choice of its own."""
        del family, version
        return True

    def profile(self, setup: Setup) -> Profile:
        """Return the pins for TCP of libfabric, UCX and the MPI itself; a pin chooses no path."""
        interface = setup.placement.interface
        if interface is None:
            return Profile()
        pins = {"FI_TCP_IFACE": interface, "UCX_NET_DEVICES": interface}
        if setup.family in REGISTRY:
            pins |= dict.fromkeys(REGISTRY[setup.family].interface_variables, interface)
        return Profile(env=EnvPatch(set=pins))

    def check(self, output: Output, case: Case) -> Check:
        """Return OK with what was counted: whatever path was taken is the one asked for."""
        found = traffic.counted(output, case)
        words = found.text if found.sent else "no interface was counted"
        return Check(name="transport", state=State.OK, evidence=f"nothing was forced; {words}")
