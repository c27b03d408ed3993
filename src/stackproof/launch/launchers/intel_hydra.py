"""Hydra as Intel MPI has it: other options, and an order of hosts of its own."""

from __future__ import annotations

from stackproof.core.command import EnvPatch
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import LaunchRequest


class IntelHydra:
    """Intel MPI's `mpiexec.hydra`.

    It merges equal names in a host list, so that ranks would not follow the placement; each
    segment names its host instead.
    """

    name = "intel-hydra"

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line; option names are those of `mpiexec.hydra -help` 2021.18."""
        requests.check(request)
        start = requests.bootstrap(request, "-bootstrap")
        label = ("-prepend-rank",) if request.labelled else ()
        ranks = [
            ("-n", str(segment.ranks), "-host", segment.node, *segment.argv)
            for segment in requests.segments(request)
        ]
        program = request.mpiexec or f"{request.prefix}/bin/mpiexec.hydra"
        return (program, *start, "-genvall", *label, *requests.joined(ranks))

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the request's variables, with the pinning by the library itself off.

        I_MPI_PIN and I_MPI_THREAD_YIELD are described in the Intel MPI Library Developer
        Reference; 2 makes a waiting rank give its CPU away. As for Hydra, what it writes between
        srun's options and its proxy has a variable, I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS.
        """
        extra = {"I_MPI_THREAD_YIELD": "2"} if request.oversubscribe else {}
        if request.in_slurm_job:
            extra["SLURM_CPU_BIND"] = "none"
        if request.helper_words:
            words = " ".join(request.helper_words)
            extra["I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS"] = words
        return EnvPatch(set={**request.environment, "I_MPI_PIN": "off", **extra})
