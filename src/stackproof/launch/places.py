"""The share of each rank of a node: CPUs, memory, NIC and GPU; and a script that says so."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import stackproof
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value
from stackproof.launch import devices
from stackproof.launch.layout import is_layout, parse_layout, share_cpus
from stackproof.results.case import Placement
from stackproof.site.sysfs import cpu_text
from stackproof.site.topology import Topology

LOCAL_RANKS = (
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID",
    "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
)  # fmt: skip
"""Where launchers tell a rank its number on its node, Slurm last: others run inside its jobs.

PRRTE, Hydra (MPICH and Intel MPI), PALS (ALCF user guides), Flux (flux-environment(7)), MVAPICH2,
Slurm (srun(1)).
"""


class NodeShare(Value):
    """The share of a rank: its CPUs, the NUMA node of its memory (None: any), variables."""

    cpus: tuple[int, ...]
    numa: int | None = None
    memory: int | None = None
    variables: Mapping[str, str] = {}


def local_rank(environment: Mapping[str, str]) -> int:
    """Return the number of this rank on its node; raises `StackproofError` (USAGE)."""
    for name in LOCAL_RANKS:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    raise fail(
        Reason.USAGE,
        f"no launcher tells which rank of its node this is, by {', '.join(LOCAL_RANKS)}",
        hint="start it by one: `srun -n 4 stackproof site place PLACEMENT -- COMMAND`",
    )


def share_node(
    name: str,
    topology: Topology,
    cpus: Sequence[int],
    mpi: str | None,
    environment: Mapping[str, str],
) -> tuple[NodeShare, ...]:
    """Return the share of each rank of a node, in the order of their numbers there.

    `cpus` are those that ranks may have, `mpi` the family whose variables choose a NIC, None for
    none of them. Raises `StackproofError`: INVALID_VALUE for what is no placement by parts of
    nodes, UNSUPPORTED where the node has not enough cores, none of the parts, or does not tell.
    """
    if not is_layout(name):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{name}` is no placement by the parts of a node",
            hint="say NODESxRANKS-by-PART, such as 1x4-by-gpu or 2x8-by-numa-membind",
        )
    layout = parse_layout(name)
    ranks = share_cpus(name, layout, topology, tuple(cpus))
    kind = topology.gpus[0].kind if topology.gpus else ""
    placement = Placement(name=name, ranks=tuple(rank for rank, _ in ranks), gpus=kind)
    links = {key: environment[key] for key in (devices.LINKS,) if key in environment}
    per_rank = devices.rank_variables(placement, mpi or "", links)
    return tuple(
        NodeShare(
            cpus=own,
            numa=rank.numa,
            memory=rank.numa if layout.membind else None,
            variables={
                key: text for key, text in variables.items() if mpi or key in devices.OF_GPUS
            },
        )
        for (rank, own), variables in zip(ranks, per_rank, strict=True)
    )


def place_of(shares: Sequence[NodeShare], number: int, name: str) -> NodeShare:
    """Return the place of a rank; raises `StackproofError` (INVALID_VALUE) for one too many."""
    if number < len(shares):
        return shares[number]
    raise fail(
        Reason.INVALID_VALUE,
        f"the placement `{name}` has {len(shares)} ranks on each node, and this is number "
        f"{number + 1} there",
        hint="start as many ranks on each node as the placement says",
    )


def render_script(name: str, shares: Sequence[NodeShare]) -> str:
    """Return a script for bash: each rank becomes its words with what it gets.

    It needs taskset, numactl where memory is bound, and nothing of stackproof.
    """
    rank = "".join(f"${{{variable}:-" for variable in LOCAL_RANKS) + "}" * len(LOCAL_RANKS)
    cases = []
    for number, place in enumerate(shares):
        binder = f"taskset -c {cpu_text(place.cpus)}"
        if place.memory is not None:
            binder += f" numactl --membind={place.memory}"
        words = [f"export {key}={shlex.quote(text)};" for key, text in place.variables.items()]
        cases.append(f'  {number}) {" ".join([*words, "exec", binder])} "$@" ;;')
    return "\n".join([
        "#!/bin/bash",
        f"# {name}, as stackproof {stackproof.__version__} has it. Start ranks by this:",
        f"# srun -n {len(shares)} SCRIPT PROGRAM [ARGUMENT...]",
        f'case "{rank}" in',
        *cases,
        f'  *) echo "$0: not one of {len(shares)} ranks that a launcher started" >&2; exit 2 ;;',
        "esac",
        "",
    ])  # fmt: skip
