"""What launchers of a scheduler can say of a placement: as many ranks on each node, in an order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.results.case import Placement


def order(placement: Placement, launcher: str) -> str:
    """Return `block` or `cyclic`: how consecutive ranks are dealt to the nodes.

    Raises `StackproofError` (UNSUPPORTED) for a placement that is neither.
    """
    nodes = [rank.node for rank in placement.ranks]
    names = sorted(placement.nodes)
    each, rest = divmod(len(nodes), len(names))
    if rest == 0 and nodes == [name for name in names for _ in range(each)]:
        return "block"
    if rest == 0 and nodes == names * each:
        return "cyclic"
    raise unsupported(
        placement,
        launcher,
        "its ranks are neither in equal blocks nor in turns, in the order of node names",
    )


def cpus_of_a_node(placement: Placement, launcher: str) -> tuple[str, ...]:
    """Return the CPU of each rank of a node, the same on all; nothing where none is named.

    Raises `StackproofError` (UNSUPPORTED) where they differ, or only some ranks name one.
    """
    key = sorted(placement.ranks, key=lambda rank: rank.node)
    maps = {
        tuple(rank.cpu for rank in group) for _, group in groupby(key, key=lambda rank: rank.node)
    }
    if len(maps) > 1:
        raise unsupported(placement, launcher, "its CPUs differ from node to node")
    cpus = maps.pop()
    named = tuple(str(cpu) for cpu in cpus if cpu is not None)
    if named and len(named) < len(cpus):
        raise unsupported(placement, launcher, "only some of its ranks name a CPU")
    return named


def check_own(placement: Placement, launcher: str, own: Sequence[Mapping[str, str]]) -> None:
    """Raise `StackproofError` (UNSUPPORTED) where ranks have variables of their own."""
    if any(own):
        raise unsupported(placement, launcher, "its ranks have variables of their own")


def unsupported(placement: Placement, launcher: str, why: str) -> StackproofError:
    """Return the error that says what a launcher cannot say."""
    return fail(
        Reason.UNSUPPORTED,
        f"{launcher} cannot start the placement `{placement.name}`: {why}",
        hint="use the MPI's own launcher inside the allocation for this placement",
    )
