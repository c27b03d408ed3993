"""Slurm's srun, inside an allocation."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers import uniform
from stackproof.launch.launchers.request import LaunchRequest
from stackproof.mpi import families


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
        kind = request.pmi or families.pmi_of(request.family, self.name)
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
