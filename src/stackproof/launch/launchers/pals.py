"""PALS, HPE's launcher under PBS: `mpiexec` of the Parallel Application Launch Service."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers import uniform
from stackproof.launch.launchers.request import LaunchRequest
from stackproof.mpi import families


class Pals:
    """PALS's `mpiexec`, inside a job of PBS.

    Written after the user guides of ALCF (Polaris, Aurora) and never run: no machine with PALS was
    at hand. The tests have a stand-in that takes this command line.
    """

    name = "pals"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line.

        `--hosts` names the nodes, which get `--ppn` ranks each in blocks; one list of CPUs holds
        for every node. Raises `StackproofError` (UNSUPPORTED) for any other placement.
        """
        placement = request.placement
        if not placement.ranks or not request.program:
            requests.check(request)
        uniform.check_own(placement, "PALS", request.own)
        if uniform.order(placement, "PALS") == "cyclic" and len(placement.ranks) > len(
            placement.nodes
        ):
            raise uniform.unsupported(
                placement, "PALS", "its ranks are dealt to the nodes in turns"
            )
        if request.oversubscribe:
            raise uniform.unsupported(placement, "PALS", "it may have more ranks than cores")
        cpus = uniform.cpus_of_a_node(placement, "PALS")
        kind = request.pmi or families.pmi_of(request.family, self.name)
        return (
            "mpiexec", *((f"--pmi={kind}",) if kind else ()), "--envall",
            *(("-l",) if request.labelled else ()),
            "-n", str(len(placement.ranks)),
            "--ppn", str(len(placement.ranks) // len(placement.nodes)),
            "--hosts", ",".join(placement.nodes),
            "--cpu-bind", "none" if request.pinned or not cpus else f"list:{':'.join(cpus)}",
            *request.program,
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `--envall` takes to every rank."""
        extra = {"PALS_CPU_BIND": "none"} if request.pinned else {}
        return EnvPatch(set={**request.environment, **extra})
