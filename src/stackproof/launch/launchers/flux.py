"""Flux's launcher: `flux run`, inside an instance of Flux."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers import uniform
from stackproof.launch.launchers.request import LaunchRequest
from stackproof.mpi import families


class Flux:
    """`flux run`, inside an instance that has the nodes.

    Written after flux-run(1) and flux-shell-options(7) of flux-core, and the page of the plug-in
    mpibind (LLNL), whose option shells without it pass over; never run: no machine with Flux was at
    hand. The tests have a stand-in that takes this command line.
    """

    name = "flux"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line.

        One map of CPUs holds for all nodes; GPUs are left to the ranks' own variables. Nodes are
        asked for as a whole, since Flux gives a task one core and no GPU otherwise. Raises
        `StackproofError` (UNSUPPORTED) for a placement that is neither in blocks of equal size nor
        in turns.
        """
        placement = request.placement
        if not placement.ranks or not request.program:
            requests.check(request)
        uniform.check_own(placement, "flux", request.own)
        if request.oversubscribe:
            raise uniform.unsupported(placement, "flux", "it may have more ranks than cores")
        nodes = placement.nodes
        cpus = () if request.pinned else uniform.cpus_of_a_node(placement, "flux")
        turns = uniform.order(placement, "flux") == "cyclic" and len(placement.ranks) > len(nodes)
        kind = request.pmi or families.pmi_of(request.family, self.name)
        return (
            "flux", "run", f"--nodes={len(nodes)}", f"--ntasks={len(placement.ranks)}",
            "--exclusive", f"--requires=hosts:{','.join(nodes)}",
            *(("--taskmap=cyclic",) if turns else ()),
            *(("-o", f"pmi={kind}") if kind else ()),
            "-o", f"cpu-affinity={'map:' + ';'.join(cpus) if cpus else 'off'}",
            "-o", "gpu-affinity=off", "-o", "mpibind=off", "-o", "exit-on-error",
            *(("--label-io",) if request.labelled else ()),
            *request.program,
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `flux run` takes along as they are."""
        return EnvPatch(set=dict(request.environment))
