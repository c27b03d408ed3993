"""Open MPI's launcher: PRRTE in version 5, ORTE before; one command line serves both."""

from __future__ import annotations

from collections import Counter

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import LaunchRequest


class Prte:
    """Open MPI's `mpiexec`."""

    name = "prte"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line.

        Each segment names its host with all slots that the job uses there, since version 4 does
        not add up what several segments name. Only variables of Open MPI itself reach other nodes
        by themselves, so that all are exported by name.
        """
        requests.check(request)
        slots = Counter(requests.host(request, rank.node) for rank in request.placement.ranks)
        exports = [word for name in sorted(request.environment) for word in ("-x", name)]
        crowd = ("--map-by", ":OVERSUBSCRIBE") if request.oversubscribe else ()
        label = ("--tag-output",) if request.labelled else ()
        ranks = [
            (
                "-n", str(segment.ranks),
                "--host", f"{segment.node}:{slots[segment.node]}",
                *segment.argv,
            )
            for segment in requests.segments(request)
        ]  # fmt: skip
        return (
            request.mpiexec or f"{request.prefix}/bin/mpiexec", "--bind-to", "none", *crowd,
            *label, *exports, *requests.joined(ranks),
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables and the launcher's own.

        The agent is named as a variable, since the option has another name in version 4. It need
        work only where the launcher runs, so the nodes' daemons must not start each other. Open
        MPI refuses to run as root without both of its variables for that. Inside a Slurm job it
        finds the nodes and srun by itself; `prted` (`orted` in version 4) is looked for on PATH.
        """
        extra: dict[str, str] = {}
        if request.helper_words:
            words = " ".join(request.helper_words)
            extra["PRTE_MCA_prte_launch_agent"] = f"{words} prted"
            extra["OMPI_MCA_orte_launch_agent"] = f"{words} orted"
        if request.agent is not None and not request.in_slurm_job:
            for prefix in ("PRTE_MCA_plm_ssh", "OMPI_MCA_plm_rsh"):
                extra[f"{prefix}_agent"] = request.agent
                extra[f"{prefix}_no_tree_spawn"] = "1"
        if request.as_root:
            extra["OMPI_ALLOW_RUN_AS_ROOT"] = "1"
            extra["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if request.oversubscribe:
            extra["OMPI_MCA_mpi_yield_when_idle"] = "1"
        return EnvPatch(set={**request.environment, **extra})
