"""Shared memory inside one node."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.mpi.transports import support, traffic
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import Check, Output, State
from stackproof.results.path import Medium


class Shm:
    """Messages through memory that the ranks of one node share."""

    name = "shm"
    title = "shared memory"

    def supports(self, family: str, version: str) -> bool:
        """Return whether the release was seen to obey, or is newer than one that was."""
        return support.forced(self.name, family, version) is not None

    def profile(self, setup: Setup) -> Profile:
        """Return the family's settings; UNSUPPORTED for a placement with more than one node."""
        placement = setup.placement
        settings = support.need(self.name, setup).set
        if placement.locality is Locality.INTER:
            raise fail(
                Reason.UNSUPPORTED,
                f"the placement `{placement.name}` has {len(placement.nodes)} nodes, which share "
                "no memory",
                hint="use the transport `tcp`, `cxi`, `lnx` or `auto` for it",
            )
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
