"""Hydra as MPICH has it."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import LaunchRequest


class Hydra:
    """MPICH's `mpiexec`; the host list names a node again for each run of ranks on it."""

    name = "hydra"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line.

        Option names are those of `mpiexec -help` of MPICH 4.0 to 5.0.
        """
        requests.check(request)
        start = requests.bootstrap(request, "-launcher")
        hosts = ",".join(f"{node}:{count}" for node, count in requests.runs(request))
        label = ("-prepend-rank",) if request.labelled else ()
        ranks = [
            ("-n", str(segment.ranks), *segment.argv) for segment in requests.segments(request)
        ]
        return (
            request.mpiexec or f"{request.prefix}/bin/mpiexec", *start, "-genvall", *label,
            "-bind-to", "none", "-hosts", hosts, *requests.joined(ranks),
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `-genvall` takes to every rank.

        Ranks that share a CPU sleep in turns with MPIR_CVAR_ENABLE_HEAVY_YIELD. What
        HYDRA_LAUNCHER_EXTRA_ARGS holds, Hydra writes between srun's options and its proxy; it lets
        srun bind that as it likes, and with it all ranks of the node, unless srun is told not to.
        """
        extra = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if request.oversubscribe else {}
        if request.in_slurm_job:
            extra["SLURM_CPU_BIND"] = "none"
        if request.helper_words:
            extra["HYDRA_LAUNCHER_EXTRA_ARGS"] = " ".join(request.helper_words)
        return EnvPatch(set={**request.environment, **extra})
