"""What options can be, as words. The tests compare them with the families that they stand for."""

from __future__ import annotations

PLACEMENTS = ("intra-node", "inter-node")
BUFFERS = ("host", "device")
DISTRIBUTIONS = ("block", "cyclic")
SCHEDULERS = ("local", "slurm")
BENCH_ON = ("local", "allocation", "slurm")
TRANSPORTS = ("auto", "shm", "tcp", "cxi", "matched", "lnx")
BENCHMARKS = (
    "latency", "bandwidth", "bibandwidth", "message_rate", "allreduce", "alltoall", "allgather",
    "bcast", "barrier",
)  # fmt: skip
PROGRAMS = ("stackproof-bench", "stackproof-solver", "IMB-MPI1", "OSU")
MARGINS = ("latency", "bandwidth", "rate", "collective")
LAUNCHERS = (
    "hydra", "intel-hydra", "prte", "orterun", "srun:pmi2", "srun:pmix", "srun:cray_shasta",
    "flux:simple", "flux:pmix", "flux:cray-pals", "pals", "pals:pmix",
)  # fmt: skip
NAMESPACES = ("none", "per-node", "per-rank")
CONTAINER_FORMS = (
    "apptainer", "podman", "docker", "enroot", "ch-run", "edf", "cdi", "podman-hook", "oci-hook",
)  # fmt: skip
LEVELS = ("x86-64-v1", "x86-64-v2", "x86-64-v3", "x86-64-v4")
YES_NO = ("auto", "yes", "no")

MOST_NODES = 32
NODE_CPUS = 4
HOOK = "/usr/libexec/stackproof/stackproof-oci-hook"
ARTEFACT_FOLDER = "/opt/stackproof"
NO_IMAGES = "none"
IMPORTED = "imported"
SHELLS = ("bash", "zsh", "fish")
