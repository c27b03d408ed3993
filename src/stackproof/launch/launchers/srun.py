"""Slurm's srun, inside an allocation."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers import uniform
from stackproof.launch.launchers.request import LaunchRequest

# The process management interface each family's library speaks: Open MPI 5 only PMIx (Open MPI
# documentation, "Launching with Slurm"), MPICH and Intel MPI PMI-2, Cray MPICH Slurm's own plugin.
PMI = {"openmpi": "pmix", "mpich": "pmi2", "intel-mpi": "pmi2", "cray-mpich": "cray_shasta"}

# Slurm reads 1024 bytes of a request of PMI-1 and takes the rest for another one (MAX_READLINE in
# src/plugins/mpi/pmi2/pmi1.c), and MPICH sends UCX's addresses in values of up to 1022.
SHORT_ADDRESSES = {"mpich": {"UCX_ADDRESS_VERSION": "v2"}}
"""What keeps a family's addresses short, as the plug-in sets it for images (native/spank/pmi.c)."""


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
        uniform.check_own(placement, "srun", request.own)
        nodes = placement.nodes
        kind = request.pmi or PMI.get(request.family)
        pmi = (f"--mpi={kind}",) if kind else ()
        images = (f"--image={request.mounts}",) if request.mounts else ()
        cpus = () if request.pinned else uniform.cpus_of_a_node(placement, "srun")
        binding = f"map_cpu:{','.join(cpus)}" if cpus else "none"
        label = ("--label",) if request.labelled else ()
        crowd = ("--overcommit",) if request.oversubscribe else ()
        return (
            "srun", *pmi,
            f"--nodes={len(nodes)}", f"--ntasks={len(placement.ranks)}",
            f"--ntasks-per-node={len(placement.ranks) // len(nodes)}",
            f"--nodelist={','.join(nodes)}", f"--distribution={uniform.order(placement, 'srun')}",
            f"--cpu-bind={binding}", "--kill-on-bad-exit=1", "--export=ALL", *crowd, *label,
            *images, *request.options, *request.program,
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `--export=ALL` takes to every rank."""
        return EnvPatch(set=dict(request.environment))
