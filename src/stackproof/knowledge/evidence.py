"""The evidence noun: what is known of a job and its machine, with where each piece comes from.

Rules are decided on it and on nothing else, so that evidence from one machine gives the same
answers on another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core import harmless, limits, secrets
from stackproof.core.value import Value, replace

LONGEST_LOG = limits.LOG_KEPT.bytes
"""Characters of a log that are kept, half of them from its end."""

LONGEST_LINE = limits.LINE_KEPT.bytes
"""Characters of one line of a log that are kept: patterns of rules are looked for in a line."""

FactValue = str | bool | float | tuple[str, ...]


class Evidence(Value):
    """What is known; what is missing is not known.

    `versions` maps a component to its exact version. `variables` is the environment of the job,
    None when it is not known. `logs` maps a name to what the job printed, and `line_numbers` to the
    numbers of its lines where some were left out. `partial` names those
    of `variables`, `logs` and facts (`fact uses`) that are not whole: what is not in them may still
    be there. `origins`
    says where a piece comes from, under `version libfabric`, `variable FI_PROVIDER`, `fact gpu`.
    """

    SCHEMA: ClassVar[str] = "stackproof/evidence/1"

    versions: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] | None = None
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    line_numbers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    partial: tuple[str, ...] = ()
    taken: str = ""

    def origin(self, kind: str, name: str) -> str:
        """Return the origin of a piece, in words; empty when nobody said."""
        return self.origins.get(f"{kind} {name}", "")


class Pieces:
    """Evidence that is being put together: each piece with its origin, nothing for None."""

    def __init__(self, origin: str = "") -> None:
        self._origin = origin
        self._versions: dict[str, str] = {}
        self._facts: dict[str, FactValue] = {}
        self._origins: dict[str, str] = {}

    def version(self, component: str, value: str | None, origin: str = "") -> None:
        """Take the version of a component."""
        if value:
            self._versions[component] = value
            self._origins[f"version {component}"] = origin or self._origin

    def fact(self, name: str, value: FactValue | None, origin: str = "") -> None:
        """Take a fact."""
        if value is not None and value != ():
            self._facts[name] = value
            self._origins[f"fact {name}"] = origin or self._origin

    def evidence(
        self,
        variables: Mapping[str, str] | None = None,
        origin: str = "",
        *,
        partial: tuple[str, ...] = (),
    ) -> Evidence:
        """Return all pieces, with variables and their origin if these are known."""
        return Evidence(
            versions=self._versions,
            variables=variables,
            facts=self._facts,
            origins={**self._origins, **{f"variable {name}": origin for name in variables or ()}},
            partial=partial,
        )


class FactKind(Value):
    """A fact that rules may ask for: what it is, what would tell it, and its values, if few.

    `form` is that of a number, or of a list of them, in words; empty for other facts.
    """

    name: str
    description: str
    told_by: str
    values: tuple[str, ...] = ()
    form: str = ""


NUMBER = "a number, such as 2"
NUMBERS = "whole numbers with commas between, such as 9,11"
_MPIS = ("openmpi", "mpich", "intel-mpi", "cray-mpich", "mvapich")
_TRUTH = "true false"
_ANY = ""


def _fact_kind(name: str, kind: str, description: str, told_by: str) -> FactKind:
    form = kind if kind in {NUMBER, NUMBERS} else ""
    values = () if form else tuple(kind.split())
    return FactKind(name=name, description=description, told_by=told_by, values=values, form=form)


FACTS: Mapping[str, FactKind] = {
    row[0]: _fact_kind(*row)
    for row in (
        ("mpi", " ".join(_MPIS), "family of the MPI",
         "an image, or `--fact mpi=openmpi`"),
        ("transport", "auto cxi lnx shm tcp ofi ucx verbs psm2 psm3",
         "transport that was asked for", "results, or `--fact transport=lnx`"),
        ("memory", "host device", "where buffers lie: host or device",
         "results, or `--fact memory=device`"),
        ("placement", "intra-node inter-node", "intra-node or inter-node",
         "results, or `--fact placement=inter-node`"),
        ("launcher", "srun mpirun mpiexec pals", "what starts ranks: srun, mpirun, mpiexec, pals",
         "`--fact launcher=srun`"),
        ("scheduler", "slurm pbs lsf flux none", "what hands out nodes",
         "a site, or `--fact scheduler=slurm`"),
        ("fabric", "slingshot-11 infiniband ethernet none", "what joins the nodes",
         "a site, or `--fact fabric=slingshot-11`"),
        ("gpu", "cuda rocm level-zero none", "what GPUs are programmed with: cuda, rocm, none",
         "a site, or `--fact gpu=cuda`"),
        ("node", _ANY, "kind of node: gh200", "a site, or `--fact node=gh200`"),
        ("uses", _ANY, "what of MPI the program uses", "`--fact uses=one-sided,probe`"),
        ("ended", "ok hang crash killed cancelled node-lost",
         "how the job ended: ok, hang, crash, killed, cancelled, node-lost",
         "results, or `--fact ended=hang`"),
        ("nested-launcher", _TRUTH, "mpirun runs inside of srun, as a command line says",
         "`--log FILE`"),
        ("discarded", _ANY, "why launches count in no comparison, by the reasons of `bench`",
         "results of a bench"),
        ("failed", _TRUTH, "a line of a log says that something came to an end", "`--log FILE`"),
        ("went-on", _TRUTH, "the program printed on after the last complaint of the log",
         "`--log FILE`"),
        ("signal", NUMBERS, "numbers of the signals that ended ranks", "`--log FILE`"),
        ("provider", _ANY, "provider of libfabric that was used",
         "`--log FILE`, or `FI_LOG_LEVEL=info`"),
        ("cut-short", _TRUTH, "what the job printed stops before the program's end",
         "results, or `--log FILE`"),
        ("wrong-bytes", NUMBER, "received bytes that were not those that were sent",
         "results, or `--log FILE`, of a benchmark that validates"),
        ("worlds", NUMBER, "how many programs thought that they are rank 0", "results of a bench"),
        ("nodes", NUMBER, "number of nodes", "`--fact nodes=2`"),
        ("jobs-on-node", NUMBER, "how many mpiexec run on a node", "`--fact jobs-on-node=1`"),
        ("nics-per-node", NUMBER, "NICs of a node", "a site, or `--fact nics-per-node=4`"),
        ("pmi", _ANY, "what srun is told with --mpi", "results, or `--fact pmi=pmix`"),
        ("pmix-loads", _TRUTH, "Slurm's PMIx plug-in finds its library",
         "a machine with Slurm, or `srun --mpi=pmix true`"),
        ("slurm-pmix", NUMBERS, "first numbers of the PMIx of Slurm's plug-ins",
         "a machine with Slurm, or `--probe`"),
        ("pmix-majors-differ", _TRUTH, "PMIx of the MPI and of Slurm differ in the first number",
         "an image on a machine with Slurm, or `srun --mpi=list` and `pmix_info`"),
        ("exclusive", _TRUTH, "the job has its nodes alone", "`scontrol show job`"),
        ("single-node-vni", _TRUTH, "Slurm gives steps on one node a network number",
         "`scontrol show config`, SwitchParameters"),
        ("network-options", _ANY, "options of --network",
         "the srun line, `--fact network-options=…`"),
        ("cxi-device", _TRUTH, "the machine has a cxi device", "`ls /sys/class/cxi`"),
        ("cxi-provider", _TRUTH, "libfabric has the cxi provider", "an image, or `fi_info -l`"),
        ("ofi-support", _TRUTH, "the MPI was built with libfabric", "an image, or `ompi_info`"),
        ("container", _TRUTH, "the program runs in a container", "`--fact container=true`"),
        ("builds", _ANY, "what is being built", "`--fact builds=libcxi`"),
        ("fuse2", _TRUTH, "FUSE 2 is there for compiling", "`pkg-config --exists fuse`"),
        ("fuse3", _TRUTH, "FUSE 3 is there for compiling", "`pkg-config --exists fuse3`"),
        ("fabric-symbols-missing", _TRUTH,
         "libfabric or libcxi lacks versions of symbols that are asked for",
         "an image, or `--program FILE`"),
        ("libraries-missing", _TRUTH, "a library that the program or the MPI needs is nowhere",
         "an image, or `--program FILE` and the job's environment: `--env FILE`"),
        ("interface-missing", _TRUTH, "a variable names an interface that the machine lacks",
         "this machine and `--env FILE`"),
        ("names-no-longer-read", _TRUTH, "a variable is set that this release does not read",
         "the environment of the job and the release of the MPI"),
        ("own-provider-list", _TRUTH,
         "a list of providers of the MPI itself names one of another fabric",
         "the environment of the job: `--env FILE`"),
        ("names-misspelt", _TRUTH, "a variable has almost the name of one that is read",
         "the environment of the job: `--env FILE`"),
        ("values-unknown", _TRUTH, "a variable has a value that it cannot have",
         "the environment of the job: `--env FILE`"),
        ("values-quoted", _TRUTH, "quotes are a part of the value of a variable",
         "the environment of the job: `--env FILE`"),
        ("suffix-not-read", _TRUTH,
         "a size in a variable has a suffix that its reader does not know",
         "the environment of the job: `--env FILE`"),
        ("core-shared", _TRUTH, "a rank shared its core with another process",
         "results of a bench"),
        ("ranks-bound", _TRUTH, "each rank stays in one NUMA node",
         "results, or `--fact ranks-bound=false`"),
        ("memlock-kib", NUMBER, "memory that a process may lock, in KiB",
         "doctor in a job, or `--fact memlock-kib=64` (`ulimit -l` there)"),
        ("sibling-memory", _TRUTH, "a process may read the memory of its sibling",
         "this machine, or `--fact sibling-memory=false`"),
        ("cpe-libraries-match", _TRUTH, "libraries are those of the loaded module",
         "`--program FILE`, or `MPICH_VERSION_DISPLAY=1`"),
        ("xpmem-built", _TRUTH, "the MPI was built for XPMEM", "an image, or `--program FILE`"),
        ("xpmem-device", _TRUTH, "the machine has /dev/xpmem", "`ls /dev/xpmem`"),
        ("gtl-linked", _TRUTH, "Cray's library for GPUs is linked", "`--program FILE`"),
        ("share-of-link", NUMBER, "best bandwidth between nodes over what the link carries",
         "results up to 256 KiB, and a site that says its link"),
        ("both-ways-over-one-way", NUMBER,
         "bandwidth of both directions over that of one, between nodes",
         "results of both benchmarks up to 256 KiB"),
        ("small-message-rate-lnx-over-cxi", NUMBER,
         "message rate of lnx over that of cxi up to 1 KiB", "results of both transports"),
        ("device-over-host-bandwidth", NUMBER, "bandwidth of device over host memory at 4 MiB",
         "results of both memories"),
    )
}  # fmt: skip
"""Every fact that a rule may ask for.

Beside its name stand its values, if it can have few: a wrong one would leave rules out without a
word.
"""

_KEPT = re.compile(
    r"^(?:FI_|OMPI_|PMIX_|PRTE_|OPAL_|MPIR?_|MPICH_|I_MPI_|UCX_|HYDRA_|PALS_|SLINGSHOT_|CXI_|NCCL_|GLOO_"
    r"|SLURM_(?:MPI|NETWORK|GPU|CPU|NNODES|NTASKS|JOB_NUM|STEP_NUM|DISTRIBUTION|GPUS)"
    r"|(?:CRAY|PE)_MPICH_VERSION$|CRAY_LD_LIBRARY_PATH$|MV2_|PSM[23X]?_|HFI_|PMI_|MVP_|OPX_"
    r"|CUDA_VISIBLE|HIP_VISIBLE|ROCR_VISIBLE|HSA_|OMP_|LD_LIBRARY_PATH$|LD_PRELOAD$)"
)


def relevant(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have to do with MPI; none of them may hold a secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if _KEPT.match(name) and not _holds_secret(name, value)
    }


def _holds_secret(name: str, value: str) -> bool:
    """Return true for a variable that goes by its name, or by what its value looks like."""
    line = f"{name}={value}"
    return bool(secrets.kind_of(name)) or secrets.without_secrets(line) != line


_LONG = re.compile(rf"(?<![^\r\n])[^\r\n]{{{LONGEST_LINE + 1},}}")
_VERY_LONG = re.compile(rf"(?<![^\r\n])[^\r\n]{{{4 * LONGEST_LINE + 1},}}")


def redacted(text: str) -> str:
    """Return a log without values that look like secrets, and no longer than a log may be."""
    # A key has several lines, so it is taken out before lines are; what names a secret may stand in
    # the middle of a long line, which goes last.
    text = shortened(secrets.without_long_secrets(text))
    return _LONG.sub(_ends, secrets.without_secrets(text))


def shortened(text: str) -> str:
    """Return the beginning and the end of a log, and of its very long lines."""
    if len(text) > LONGEST_LOG:
        half = LONGEST_LOG // 2
        text = f"{text[:half]}\n{text[1 - half :]}"
    return _VERY_LONG.sub(lambda match: harmless.shorten(match[0], 4 * LONGEST_LINE), text)


def _ends(match: re.Match[str]) -> str:
    return harmless.shorten(match[0], LONGEST_LINE)


def merged(first: Evidence, second: Evidence) -> Evidence:
    """Return both together; where they disagree the second one counts."""
    variables = first.variables
    if second.variables is not None:
        variables = {**(first.variables or {}), **second.variables}
    whole = {
        name
        for name in ("variables", "logs")
        for one in (first, second)
        if (one.variables is not None if name == "variables" else one.logs)
        and name not in one.partial
    }
    known_now = {f"fact {name}" for name in second.facts} - {*second.partial}
    partial = {*first.partial, *second.partial} - whole - known_now
    return replace(
        first,
        versions={**first.versions, **second.versions},
        variables=variables,
        facts={**first.facts, **second.facts},
        logs={**first.logs, **second.logs},
        line_numbers={**first.line_numbers, **second.line_numbers},
        origins={**first.origins, **second.origins},
        partial=tuple(sorted(partial)),
        taken=second.taken or first.taken,
    )
