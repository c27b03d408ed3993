"""What a launcher is asked to start, and what all launchers do with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import groupby

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.results.case import Placement, Rank

THIS_MACHINE = "localhost"
"""The host name that a launcher without an agent is given."""


class LaunchRequest(Value):
    """One job.

    `prefix` is the folder of the MPI (`bin/mpiexec` below it, unless `mpiexec` is the path of
    another one), `program` the argv of one rank,
    `environment` the variables that every rank on every node must see, `own` what each rank has for
    itself (in rank order, empty for nothing), `agent` the path of the
    program that starts a command on a node (None: all ranks are here). `as_root` says that the
    launcher runs as user 0, which Open MPI refuses unless it is told to go on. `family` is the
    name of the MPI in `stackproof.mpi.families`, needed where one launcher serves several.
    `oversubscribe` allows two ranks on one CPU; they then yield instead of polling, which costs
    latency. `labelled` puts the rank before each line that it writes (`launch.launchers.labels`
    takes that apart).

    `binder` are the words that bind memory, before the number of a NUMA node and `--`, for a
    placement that asks for it.

    `in_slurm_job` says that the nodes are those of the Slurm job that the launcher runs in, whose
    srun starts its helpers on them; `helper_words` are then put before each helper, to mount what
    it and its ranks are in.

    Of use to Slurm's launcher alone: `pmi` is how ranks find each other, None for what the family
    speaks; `mounts` a list of images (`stackproof.core.mountlist`) that its plug-in mounts for the
    ranks, empty for none; `pinned` says that the program pins itself to the placement's CPUs;
    `options` are more options, as those of plug-ins that put tasks into containers.
    """

    prefix: str
    program: tuple[str, ...]
    placement: Placement
    mpiexec: str = ""
    agent: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    own: tuple[Mapping[str, str], ...] = ()
    as_root: bool = False
    family: str = ""
    oversubscribe: bool = False
    labelled: bool = False
    binder: tuple[str, ...] = ()
    in_slurm_job: bool = False
    helper_words: tuple[str, ...] = ()
    pmi: str | None = None
    mounts: str = ""
    pinned: bool = False
    options: tuple[str, ...] = ()


class Launcher(Value):
    """One way to start the ranks of a job.

    `argv` returns the command line: rank r of the job runs on the node of rank r of the placement,
    pinned to its CPU. It raises `StackproofError` (INVALID_VALUE, UNSUPPORTED) when that cannot be
    said to this launcher. `variables` are those that the launcher needs itself.
    """

    name: str
    argv: Callable[[LaunchRequest], tuple[str, ...]]
    variables: Callable[[LaunchRequest], dict[str, str]] = lambda _: {}

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the variables for the launcher, which takes the request's to every rank."""
        return EnvPatch(set={**request.environment, **self.variables(request)})


class Segment(Value):
    """Consecutive ranks of one node with one command line."""

    node: str
    ranks: int
    argv: tuple[str, ...]


def check(request: LaunchRequest) -> None:
    """Raise `StackproofError` (INVALID_VALUE) with everything no launcher can do."""
    found = []
    ranks = request.placement.ranks
    if not ranks:
        found.append(_problem("the placement has no ranks", "name at least one rank"))
    if not request.program:
        found.append(_problem("there is no program to start", "name one"))
    if ":" in request.program:
        found.append(
            _problem(
                "an argument of the program is `:`, which launchers take as the end of it",
                "give that argument in another way",
            )
        )
    if not request.in_slurm_job and request.agent is None and len(request.placement.nodes) > 1:
        found.append(
            _problem(
                f"the placement `{request.placement.name}` has {len(request.placement.nodes)} "
                "nodes, and there is nothing to start ranks on other nodes with",
                "start a cluster, or use a placement with one node",
            )
        )
    found += [
        _problem(
            f"there is a blank in `{word}`, and the launcher divides what starts its helpers there",
            "give the image, and this program, paths without blanks; or start the ranks by srun",
        )
        for word in request.helper_words
        if any(letter.isspace() for letter in word)
    ]
    if not request.oversubscribe:
        found += _crowded(ranks)
    if found:
        raise StackproofError(*found)


def _crowded(ranks: tuple[Rank, ...]) -> list[Problem]:
    counts = Counter((rank.node, rank.cpu) for rank in ranks if rank.cpu is not None)
    return [
        _problem(
            f"{count} ranks are pinned to CPU {cpu} of `{node}`",
            "give each rank a CPU of its own; ranks that share one wait for each other's turns",
        )
        for (node, cpu), count in counts.items()
        if count > 1
    ]


def _problem(message: str, hint: str) -> Problem:
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint)


def segments(request: LaunchRequest) -> tuple[Segment, ...]:
    """Return the job as segments in rank order; neighbours that do not differ are one."""
    ranks = request.placement.ranks
    wants = [
        (rank.node, (*setting(own), *pin(rank.cpu), *_bind(request, rank), *request.program))
        for rank, own in zip(ranks, request.own or [{}] * len(ranks), strict=True)
    ]
    return tuple(
        Segment(node=host(request, node), ranks=len(list(same)), argv=argv)
        for (node, argv), same in groupby(wants)
    )


def runs(request: LaunchRequest) -> tuple[tuple[str, int], ...]:
    """Return nodes in rank order with how many consecutive ranks each has."""
    return tuple(
        (host(request, node), len(list(same)))
        for node, same in groupby(rank.node for rank in request.placement.ranks)
    )


def host(request: LaunchRequest, node: str) -> str:
    """Return the name under which the launcher reaches a node."""
    return node if request.agent is not None or request.in_slurm_job else THIS_MACHINE


def bootstrap(request: LaunchRequest, option: str) -> tuple[str, ...]:
    """Return the words that tell a Hydra how its helpers get to their nodes.

    An agent is given as an `rsh`: for an `ssh` Hydra adds options of OpenSSH.
    """
    if request.in_slurm_job:
        return (option, "slurm")
    if request.agent is None:
        return (option, "fork")
    return (option, "rsh", f"{option}-exec", request.agent)


def setting(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words before a program that set variables for it alone; none for none."""
    return ("env", *(f"{key}={value}" for key, value in variables.items())) if variables else ()


def pin(cpu: int | None) -> tuple[str, ...]:
    """Return the words before a program that keep it on one CPU; none for None."""
    return () if cpu is None else ("taskset", "-c", str(cpu))


def _bind(request: LaunchRequest, rank: Rank) -> tuple[str, ...]:
    """Return the words before a program that bind its memory; none where that is not asked for."""
    return (*request.binder, str(rank.numa), "--") if request.placement.bound(rank) else ()


def joined(parts: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the segments of an MPMD command line with `:` between them."""
    words: list[str] = []
    for part in parts:
        words += [":", *part] if words else part
    return tuple(words)
