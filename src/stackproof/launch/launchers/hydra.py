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

        The agent is given as an `rsh`: for an `ssh` hydra adds options of OpenSSH. Option names
        are those of `mpiexec -help` of MPICH 4.0 to 5.0.
        """
        requests.check(request)
        start = (
            ("-launcher", "fork")
            if request.agent is None
            else ("-launcher", "rsh", "-launcher-exec", request.agent)
        )
        hosts = ",".join(f"{node}:{count}" for node, count in requests.runs(request))
        label = ("-prepend-rank",) if request.labelled else ()
        ranks = [
            ("-n", str(segment.ranks), *segment.argv) for segment in requests.segments(request)
        ]
        return (
            f"{request.prefix}/bin/mpiexec", *start, "-genvall", *label, "-bind-to", "none",
            "-hosts", hosts, *requests.joined(ranks),
        )  # fmt: skip

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, which `-genvall` takes to every rank.

        Ranks that share a CPU sleep in turns with MPIR_CVAR_ENABLE_HEAVY_YIELD.
        """
        extra = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if request.oversubscribe else {}
        return EnvPatch(set={**request.environment, **extra})
