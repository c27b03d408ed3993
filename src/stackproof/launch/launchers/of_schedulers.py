"""Launchers of a scheduler, inside its job: Slurm's, Flux's, and HPE's PALS under PBS.

Their daemons start the nodes, so an agent plays no part. They can be told of as many ranks on each
node, in an order, and of one list of CPUs for all nodes; any other placement is refused with
`StackproofError` (UNSUPPORTED). Flux and PALS were never run: no machine with them was at hand, and
the tests have stand-ins that take their command lines.
"""

from __future__ import annotations

from itertools import groupby

from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.launch.launchers import request as requests
from stackproof.launch.launchers.request import Launcher, LaunchRequest
from stackproof.mpi import families
from stackproof.results.case import Placement


class _Uniform(Value):
    """A placement in the words of these launchers.

    `order` is `block` or `cyclic`, how consecutive ranks are dealt to the nodes; `cpus` are those
    of the ranks of each node, empty where none is named. `pmi` is how ranks find each other, empty
    for the site's default.
    """

    nodes: tuple[str, ...]
    count: int
    each: int
    order: str
    cpus: tuple[str, ...]
    pmi: str

    @property
    def turns(self) -> bool:
        """Return whether ranks are dealt to the nodes in turns, and not one to each."""
        return self.order == "cyclic" and self.each > 1


def _uniform(request: LaunchRequest, launcher: str, title: str, *, crowds: bool) -> _Uniform:
    """Return a request's placement; `crowds` says that the launcher can put two ranks on a CPU."""
    placement = request.placement
    if not placement.ranks or not request.program:
        requests.check(request)
    if any(request.own):
        raise _unsupported(placement, title, "its ranks have variables of their own")
    if request.oversubscribe and not crowds:
        raise _unsupported(placement, title, "it may have more ranks than cores")
    return _Uniform(
        nodes=placement.nodes,
        count=len(placement.ranks),
        each=len(placement.ranks) // len(placement.nodes),
        order=_order(placement, title),
        cpus=() if request.pinned else _cpus_of_a_node(placement, title),
        pmi=request.pmi or families.pmi_of(request.family, launcher) or "",
    )


def _srun_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line; option names are those of srun(1)."""
    job = _uniform(request, "srun", "srun", crowds=True)
    binding = f"map_cpu:{','.join(job.cpus)}" if job.cpus else "none"
    return (
        "srun", *((f"--mpi={job.pmi}",) if job.pmi else ()),
        f"--nodes={len(job.nodes)}", f"--ntasks={job.count}", f"--ntasks-per-node={job.each}",
        f"--nodelist={','.join(job.nodes)}", f"--distribution={job.order}",
        f"--cpu-bind={binding}", "--kill-on-bad-exit=1", "--export=ALL",
        *(("--overcommit",) if request.oversubscribe else ()),
        *(("--label",) if request.labelled else ()),
        *((f"--image={request.mounts}",) if request.mounts else ()),
        *request.options, *request.program,
    )  # fmt: skip


def _flux_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line of `flux run`, inside an instance that has the nodes.

    Written after flux-run(1) and flux-shell-options(7) of flux-core, and the page of the plug-in
    mpibind (LLNL), whose option shells without it pass over. GPUs are left to the ranks' own
    variables. Nodes are asked for as a whole, as Flux gives a task one core and no GPU otherwise.
    """
    job = _uniform(request, "flux", "flux", crowds=False)
    return (
        "flux", "run", f"--nodes={len(job.nodes)}", f"--ntasks={job.count}",
        "--exclusive", f"--requires=hosts:{','.join(job.nodes)}",
        *(("--taskmap=cyclic",) if job.turns else ()),
        *(("-o", f"pmi={job.pmi}") if job.pmi else ()),
        "-o", f"cpu-affinity={'map:' + ';'.join(job.cpus) if job.cpus else 'off'}",
        "-o", "gpu-affinity=off", "-o", "mpibind=off", "-o", "exit-on-error",
        *(("--label-io",) if request.labelled else ()),
        *request.program,
    )  # fmt: skip


def _pals_argv(request: LaunchRequest) -> tuple[str, ...]:
    """Return the command line of PALS's `mpiexec`, inside a job of PBS.

    Written after the user guides of ALCF (Polaris, Aurora). `--hosts` names the nodes, which get
    ranks in blocks.
    """
    job = _uniform(request, "pals", "PALS", crowds=False)
    if job.turns:
        why = "its ranks are dealt to the nodes in turns"
        raise _unsupported(request.placement, "PALS", why)
    return (
        "mpiexec", *((f"--pmi={job.pmi}",) if job.pmi else ()), "--envall",
        *(("-l",) if request.labelled else ()),
        "-n", str(job.count), "--ppn", str(job.each), "--hosts", ",".join(job.nodes),
        "--cpu-bind", f"list:{':'.join(job.cpus)}" if job.cpus else "none",
        *request.program,
    )  # fmt: skip


def _order(placement: Placement, title: str) -> str:
    nodes = [rank.node for rank in placement.ranks]
    names = sorted(placement.nodes)
    each, rest = divmod(len(nodes), len(names))
    if rest == 0 and nodes == [name for name in names for _ in range(each)]:
        return "block"
    if rest == 0 and nodes == names * each:
        return "cyclic"
    why = "its ranks are neither in equal blocks nor in turns, in the order of node names"
    raise _unsupported(placement, title, why)


def _cpus_of_a_node(placement: Placement, title: str) -> tuple[str, ...]:
    """Return the CPU of each rank of a node, the same on all; nothing where none is named."""
    key = sorted(placement.ranks, key=lambda rank: rank.node)
    maps = {
        tuple(rank.cpu for rank in group) for _, group in groupby(key, key=lambda rank: rank.node)
    }
    if len(maps) > 1:
        raise _unsupported(placement, title, "its CPUs differ from node to node")
    cpus = maps.pop()
    named = tuple(str(cpu) for cpu in cpus if cpu is not None)
    if named and len(named) < len(cpus):
        raise _unsupported(placement, title, "only some of its ranks name a CPU")
    return named


def _unsupported(placement: Placement, title: str, why: str) -> StackproofError:
    return fail(
        Reason.UNSUPPORTED,
        f"{title} cannot start the placement `{placement.name}`: {why}",
        hint="use the MPI's own launcher inside the allocation for this placement",
    )


LAUNCHERS = (
    Launcher(name="srun", argv=_srun_argv),
    Launcher(name="flux", argv=_flux_argv),
    Launcher(
        name="pals",
        argv=_pals_argv,
        variables=lambda request: {"PALS_CPU_BIND": "none"} if request.pinned else {},
    ),
)
