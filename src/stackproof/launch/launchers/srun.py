"""Slurm's srun, inside an allocation."""

from __future__ import annotations

from itertools import groupby

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import LaunchRequest
from stackproof.results.case import Placement

# The process management interface each family's library speaks: Open MPI 5 only PMIx (Open MPI
# documentation, "Launching with Slurm"), MPICH and Intel MPI PMI-2, Cray MPICH Slurm's own plugin.
PMI = {"openmpi": "pmix", "mpich": "pmi2", "intel-mpi": "pmi2", "cray-mpich": "cray_shasta"}


class Srun:
    """Slurm's own launcher; nodes are started by its daemons, so the agent plays no part."""

    name = "srun"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line; without a family the site's default for `--mpi` stays.

        Option names are those of srun(1). Raises `StackproofError` (UNSUPPORTED) for a placement
        that is neither in blocks of equal size nor in turns, and for CPUs that differ from node
        to node (one map of CPUs holds for all nodes) unless the program pins itself.
        """
        placement = request.placement
        if not placement.ranks or not request.program:
            requests.check(request)
        if any(request.own):
            raise _unsupported(placement, "its ranks have variables of their own")
        nodes = placement.nodes
        kind = request.pmi or PMI.get(request.family)
        pmi = (f"--mpi={kind}",) if kind else ()
        images = (f"--image={request.mounts}",) if request.mounts else ()
        binding = "none" if request.pinned else _binding(placement)
        label = ("--label",) if request.labelled else ()
        crowd = ("--overcommit",) if request.oversubscribe else ()
        return (
            "srun", *pmi,
            f"--nodes={len(nodes)}", f"--ntasks={len(placement.ranks)}",
            f"--ntasks-per-node={len(placement.ranks) // len(nodes)}",
            f"--nodelist={','.join(nodes)}", f"--distribution={_distribution(placement)}",
            f"--cpu-bind={binding}", "--kill-on-bad-exit=1", "--export=ALL", *crowd, *label,
            *images, *request.program,
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `--export=ALL` takes to every rank."""
        return EnvPatch(set=dict(request.environment))


def _distribution(placement: Placement) -> str:
    nodes = [rank.node for rank in placement.ranks]
    names = sorted(placement.nodes)
    each, rest = divmod(len(nodes), len(names))
    if rest == 0 and nodes == [name for name in names for _ in range(each)]:
        return "block"
    if rest == 0 and nodes == names * each:
        return "cyclic"
    raise _unsupported(
        placement, "its ranks are neither in equal blocks nor in turns, in the order of node names"
    )


def _binding(placement: Placement) -> str:
    key = sorted(placement.ranks, key=lambda rank: rank.node)
    maps = {
        tuple(rank.cpu for rank in group) for _, group in groupby(key, key=lambda rank: rank.node)
    }
    if len(maps) > 1:
        raise _unsupported(placement, "its CPUs differ from node to node")
    cpus = maps.pop()
    named = [str(cpu) for cpu in cpus if cpu is not None]
    if not named:
        return "none"
    if len(named) < len(cpus):
        raise _unsupported(placement, "only some of its ranks name a CPU")
    return f"map_cpu:{','.join(named)}"


def _unsupported(placement: Placement, why: str) -> StackproofError:
    return fail(
        Reason.UNSUPPORTED,
        f"srun cannot start the placement `{placement.name}`: {why}",
        hint="use the MPI's own launcher inside the allocation for this placement",
    )
