"""Paths by the kernel alone: the MPI's own choice, shared memory inside one node, and TCP."""

from __future__ import annotations

from collections.abc import Collection

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, fail
from stackproof.mpi.families import REGISTRY
from stackproof.mpi.transports import support, traffic
from stackproof.mpi.transports.profile import Profile, Setup
from stackproof.mpi.transports.support import Transport
from stackproof.mpi.transports.traffic import LOOPBACK, Traffic
from stackproof.results.case import Case, Locality, Placement
from stackproof.results.measurement import State
from stackproof.results.path import Medium


def _profile_auto(setup: Setup) -> Profile:
    """Return the pins for TCP of libfabric, UCX and the MPI itself; a pin chooses no path.

    Without that, Open MPI and MPICH spread messages over all interfaces that they find, also over
    a management network.
    """
    interface = setup.placement.interface
    if interface is None:
        return Profile()
    pins = {"FI_TCP_IFACE": interface, "UCX_NET_DEVICES": interface}
    if setup.family in REGISTRY:
        pins |= dict.fromkeys(REGISTRY[setup.family].interface_variables, interface)
    return Profile(env=EnvPatch(set=pins))


AUTO = Transport(name="auto", title="the MPI's own choice", profile=_profile_auto)


def _profile_shm(setup: Setup) -> Profile:
    """Return the family's settings; UNSUPPORTED for a placement with more than one node."""
    placement = setup.placement
    settings = support.need("shm", setup).set
    if placement.locality is Locality.INTER:
        raise fail(
            Reason.UNSUPPORTED,
            f"the placement `{placement.name}` has {len(placement.nodes)} nodes, which share "
            "no memory",
            hint="use the transport `tcp`, `cxi`, `lnx` or `auto` for it",
        )
    expect = settings.get("FI_PROVIDER", "")
    return Profile(env=EnvPatch(set=settings), expect=expect, inside=(Medium.MEMORY,))


def judge_shm(found: Traffic, _: Case) -> tuple[State, str]:
    """Return OK when next to nothing left by any interface, loopback included.

    BAD when in every part they sent all that it moved, as an MPI does that took the network.
    What is less is others' traffic, by its own measure and not by the arm's: a slow arm must
    not lose more launches to it than a fast one.
    """
    if found.is_quiet(found.off()):
        return State.OK, "shared memory"
    if found.carried_everywhere():
        return State.BAD, "the messages went through the network"
    return State.UNKNOWN, "there was other traffic"


SHM = Transport(name="shm", title="shared memory", profile=_profile_shm, judge=judge_shm)


def _profile_tcp(setup: Setup) -> Profile:
    """Return the family's settings, on the placement's interface where it names one.

    All MPIs go through libfabric's tcp provider, so that what is compared is the MPI and not its
    way to sockets, and because libfabric is also the way to Slingshot. UNSUPPORTED for a family
    that does not use loopback: ranks of one node reach each other by any interface's own address.
    """
    interface = setup.placement.interface
    path = support.need("tcp", setup)
    if interface == LOOPBACK and not path.lo:
        raise fail(
            Reason.UNSUPPORTED,
            f"{support.title_of(setup.family)} does not use the interface `lo` through libfabric",
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


def judge_tcp(found: Traffic, case: Case) -> tuple[State, str]:
    """Return OK when the interface sent at least what was moved, also between ranks of one node.

    What other interfaces sent counts against the arm only where it is what the interface
    lacks; else it is others' traffic, however slow the arm is.

    The kernel sends what goes to an address of the same node by loopback, whichever interface
    the address belongs to; so inside one node loopback counts as the interface.
    """
    fault = _fault(found, case.placement)
    return (State.BAD, fault) if fault else (State.OK, "TCP")


TCP = Transport(name="tcp", title="TCP", profile=_profile_tcp, judge=judge_tcp)


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
