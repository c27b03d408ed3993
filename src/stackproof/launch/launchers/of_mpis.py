"""Launchers that come with an MPI: Hydra of MPICH and of Intel MPI, and Open MPI's."""

from __future__ import annotations

from collections import Counter

from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import Launcher, LaunchRequest


def _hydra_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line of MPICH's `mpiexec`.

    The host list names a node again for each run of ranks on it. Option names are those of
    `mpiexec -help` of MPICH 4.0 to 5.0.
    """
    requests.check(request)
    start = requests.bootstrap(request, "-launcher")
    hosts = ",".join(f"{node}:{count}" for node, count in requests.runs(request))
    label = ("-prepend-rank",) if request.labelled else ()
    ranks = [("-n", str(segment.ranks), *segment.argv) for segment in requests.segments(request)]
    return (
        request.mpiexec or f"{request.prefix}/bin/mpiexec", *start, "-genvall", *label,
        "-bind-to", "none", "-hosts", hosts, *requests.joined(ranks),
    )  # fmt: skip


def _hydra_variables(request: LaunchRequest) -> dict[str, str]:
    """Return the variables: ranks that share a CPU sleep in turns."""
    extra = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} if request.oversubscribe else {}
    return extra | _helper_variables(request, "HYDRA_LAUNCHER_EXTRA_ARGS")


def _intel_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line; option names are those of `mpiexec.hydra -help` 2021.18.

    It merges equal names in a host list, so that ranks would not follow the placement; each
    segment names its host instead.
    """
    requests.check(request)
    start = requests.bootstrap(request, "-bootstrap")
    label = ("-prepend-rank",) if request.labelled else ()
    ranks = [
        ("-n", str(segment.ranks), "-host", segment.node, *segment.argv)
        for segment in requests.segments(request)
    ]
    program = request.mpiexec or f"{request.prefix}/bin/mpiexec.hydra"
    return (program, *start, "-genvall", *label, *requests.joined(ranks))


def _intel_variables(request: LaunchRequest) -> dict[str, str]:
    """Return the variables, with the pinning by the library itself off.

    I_MPI_PIN and I_MPI_THREAD_YIELD are described in the Intel MPI Library Developer Reference; 2
    makes a waiting rank give its CPU away.
    """
    extra = {"I_MPI_THREAD_YIELD": "2"} if request.oversubscribe else {}
    extra |= _helper_variables(request, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS")
    return {"I_MPI_PIN": "off", **extra}


def _helper_variables(request: LaunchRequest, variable: str) -> dict[str, str]:
    """Return the variables that a Hydra needs to start its proxies inside a Slurm job.

    Hydra writes what `variable` holds between srun's options and its proxy. It lets srun bind that
    as it likes, and with it all ranks of the node, unless srun is told not to.
    """
    extra = {"SLURM_CPU_BIND": "none"} if request.in_slurm_job else {}
    if request.helper_words:
        extra[variable] = " ".join(request.helper_words)
    return extra


def _prte_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line of PRRTE in version 5, and of ORTE before.

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


def _prte_variables(request: LaunchRequest) -> dict[str, str]:
    """Return the variables of the launcher itself.

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
    return extra


LAUNCHERS = (
    Launcher(name="hydra", argv=_hydra_argv, variables=_hydra_variables),
    Launcher(name="intel-hydra", argv=_intel_argv, variables=_intel_variables),
    Launcher(name="prte", argv=_prte_argv, variables=_prte_variables),
)
