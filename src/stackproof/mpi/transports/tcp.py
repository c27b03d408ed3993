"""TCP for every message, also between ranks of one node."""

from __future__ import annotations

from collections.abc import Collection

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.mpi.transports import support, traffic
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.mpi.transports.traffic import LOOPBACK, Traffic
from stackproof.results.case import Case, Locality, Placement
from stackproof.results.measurement import Check, Output, State
from stackproof.results.path import Medium


class Tcp:
    """Messages through TCP connections, on the placement's interface where it names one.

    All MPIs go through libfabric's tcp provider, so that what is compared is the MPI and not its
    way to sockets, and because libfabric is also the way to Slingshot.
    """

    name = "tcp"
    title = "TCP"

    def supports(self, family: str, version: str) -> bool:
        """Return whether the release was seen to obey, or is newer than one that was."""
        return support.forced(self.name, family, version) is not None

    def profile(self, setup: Setup) -> Profile:
        """Return the family's settings.

        UNSUPPORTED for a family that does not use loopback. Ranks of one node reach each other by
        any interface's own address.
        """
        interface = setup.placement.interface
        path = support.need(self.name, setup)
        if interface == LOOPBACK and not path.lo:
            raise fail(
                Reason.UNSUPPORTED,
                f"{support.title_of(setup.family)} does not use the interface `lo` through "
                "libfabric",
                hint="leave the interface of the placement out, or name another",
            )
        pin = {} if interface is None else {"FI_TCP_IFACE": interface}
        return Profile(
            env=EnvPatch(set={**path.set, **pin}),
            expect="tcp",
            by_provider=True,
            inside=(Medium.TCP,),
            between=(Medium.TCP,),
        )

    def check(self, output: Output, case: Case) -> Check:
        """Return OK when the interface sent at least what was moved.

        What other interfaces sent counts against the arm only where it is what the interface
        lacks; else it is others' traffic, however slow the arm is.

        The kernel sends what goes to an address of the same node by loopback, whichever interface
        the address belongs to; so inside one node loopback counts as the interface.
        """
        found = traffic.counted(output, case)
        unseen = traffic.unseen("transport", found, case)
        if unseen is not None:
            return unseen
        fault = _fault(found, case.placement)
        return Check(
            name="transport",
            state=State.BAD if fault else State.OK,
            reason=Reason.WRONG_TRANSPORT.value if fault else "",
            evidence=f"{fault or 'TCP'}: {found.text}",
        )


def _fault(found: Traffic, placement: Placement) -> str | None:
    """Return what contradicts TCP on the placement's interface, in words."""
    interface, shared = placement.interface, len(placement.nodes) < len(placement.ranks)
    local = (LOOPBACK,) if shared else ()
    everywhere = {name for counts in found.sent.values() for name in counts} - {LOOPBACK}
    chosen = everywhere if interface is None else {interface}
    carried, between = found.on(*chosen, *local), found.on(*chosen)
    place = f"`{interface}`" if interface else "the interfaces"
    if carried < found.payload:
        return f"{place} sent less than was moved"
    if placement.locality is Locality.INTER and between <= traffic.NOISE:
        return f"{place} sent next to nothing between the nodes"
    if found.parts and _strayed(found, chosen, local):
        return f"other interfaces than {place} sent part of what was moved"
    return None


def _strayed(found: Traffic, chosen: Collection[str], local: tuple[str, ...]) -> bool:
    """Return whether others sent what the chosen interfaces lack, beyond a stray few."""
    moved = sum(part.payload for part in found.parts)
    lacking = stray = 0
    for part in found.parts:
        missing = max(0, part.payload - part.on(*chosen, *local))
        lacking += missing
        stray += min(missing, part.total() - part.on(*chosen, LOOPBACK))
    return lacking > moved * traffic.STRAY and 2 * stray > lacking
