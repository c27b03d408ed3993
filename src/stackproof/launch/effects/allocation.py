"""Inside a Slurm job: which nodes it has, how a step is started on them, what ends one.

Steps are started by srun with an environment made here, not with the batch script's: variables such
as SLURM_DISTRIBUTION or SLURM_CPU_BIND of the job would change what the command line asks for.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import field

from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects.run import base_environment, failure, run
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.launch import slurm
from stackproof.launch.effects import task
from stackproof.results.case import Placement
from stackproof.site import topology as site_topology
from stackproof.site.topology import Topology

_ANSWER_S = 60.0
# What srun must know to find the allocation; all else is on its command line.
_KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JOB_ID")
TASK = (sys.executable, "-I", "-S", task.__file__)


class NodeReply(Value):
    """What a node said of itself: CPUs for tasks, and the boot of its kernel, empty if unknown.

    `topology` is its inside, with the GPUs that a task there may use.
    """

    cpus: tuple[int, ...]
    machine: str = ""
    topology: Topology = Topology(cores=())


class Allocation(Value):
    """The nodes of a running job.

    `nodes` maps names to the CPUs that ranks may have. `element` is the number in an array,
    `restarts` how often the job was put back into the queue, `pmi` what `srun --mpi` takes,
    `plugin` whether srun mounts images by itself (`--image`), `srun` its path. `one_machine` says
    that the nodes are namespaces of one kernel, so that equal numbers are one CPU. `topologies` are
    the insides of the nodes.
    """

    job: str
    nodes: Mapping[str, tuple[int, ...]]
    srun: str
    element: int = 0
    restarts: int = 0
    pmi: tuple[str, ...] = ()
    plugin: bool = False
    version: str = ""
    one_machine: bool = False
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def mpirun_patch(self, ranks_per_node: int) -> EnvPatch:
        """Return the change that makes the base environment that of an mpirun inside the job.

        These are the variables by which PRRTE and Hydra find the nodes of a job, with as many
        slots as are asked for: it is the placement that says how many ranks a node gets.
        """
        names = ",".join(self.nodes)
        told = {
            "SLURM_JOBID": self.job,
            "SLURM_NODELIST": names,
            "SLURM_JOB_NODELIST": names,
            "SLURM_NNODES": str(len(self.nodes)),
            "SLURM_JOB_NUM_NODES": str(len(self.nodes)),
            "SLURM_TASKS_PER_NODE": f"{ranks_per_node}(x{len(self.nodes)})",
        }
        return self.patch().then(EnvPatch(set=told))

    def patch(self) -> EnvPatch:
        """Return the change that makes the base environment that of srun.

        The job's TMPDIR need not exist on its other nodes.
        """
        return EnvPatch(set=dict(self.environment), unset=("TMPDIR",))


def enter() -> Allocation:
    """Return the allocation that this process runs in.

    Raises `StackproofError`: USAGE outside of a job, TOOL_MISSING without srun, NODE_UNREACHABLE
    when not every node answers.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job:
        raise fail(
            Reason.USAGE,
            "this is not inside a job of Slurm, Flux or PBS",
            hint="get one with salloc, or say `--on slurm` (`on: slurm` in SPEC) to submit one",
        )
    srun = shutil.which("srun", path=base_environment()["PATH"])
    if srun is None:
        raise fail(Reason.TOOL_MISSING, "`srun` is not on PATH inside the job")
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    bare = Allocation(job=job, nodes={}, srun=srun, environment=kept)
    names = _names(bare)
    seen = look(bare, names)
    silent = [name for name in names if name not in seen]
    if silent:
        raise lost(silent)
    machines = {seen[name].machine for name in names}
    one_machine = len(names) > 1 and len(machines) == 1 and machines != {""}
    return Allocation(
        job=job,
        nodes=_granted({name: seen[name].cpus for name in names}, one_machine=one_machine),
        one_machine=one_machine,
        topologies={name: seen[name].topology for name in names},
        srun=srun,
        element=int(os.environ.get(slurm.ELEMENT, "0")),
        restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        pmi=_words(_ask(bare, (srun, "--mpi=list"))),
        plugin="--image=" in _ask(bare, (srun, "--help")),
        version=(_ask(bare, (srun, "--version")).split() or [""])[-1],
        environment=kept,
    )


def look(allocation: Allocation, names: tuple[str, ...]) -> dict[str, NodeReply]:
    """Return the nodes that answer, with one CPU of each core that a task there may run on.

    What srun says of its own success is not believed: it exits with 0 when a node has died.
    """
    argv = (
        allocation.srun, f"--nodes={len(names)}", f"--ntasks={len(names)}", "--ntasks-per-node=1",
        f"--nodelist={','.join(names)}", "--mpi=none", "--cpu-bind=none", "--export=ALL",
        *TASK, "look",
    )  # fmt: skip
    done = _run(allocation, argv)
    found: dict[str, NodeReply] = {}
    for line in done.stdout.splitlines():
        try:
            data = json.loads(line)
            found[str(data["node"])] = NodeReply(
                cpus=tuple(map(int, data["cpus"])),
                machine=str(data.get("machine", "")),
                topology=_topology(data),
            )
        except (ValueError, TypeError, KeyError):  # a prologue of the site may print as well
            continue
    if done.timed_out:
        end_steps(allocation)
    return found


def _topology(data: Mapping[str, Any]) -> Topology:
    """Return the inside of a node in what it said, without GPUs that a task is not given."""
    told = data.get("gpus")
    variables = told if isinstance(told, Mapping) else {}
    found = site_topology.parse_topology(data.get("topology"))
    return site_topology.seen(found, {str(name): str(text) for name, text in variables.items()})


def lost(names: list[str]) -> StackproofError:
    """Return the error for nodes of the allocation from which no answer came."""
    said = ", ".join(f"`{name}`" for name in names)
    return fail(
        Reason.NODE_UNREACHABLE,
        f"no answer from the job's nodes {said}",
        hint="continue when the nodes are back, or on others",
    )


def end_steps(allocation: Allocation) -> None:
    """Kill what still runs on the nodes for a step whose srun was ended.

    srun asks its tasks politely, and Slurm waits KillWait seconds for them; the next launch must
    not run beside them.
    """
    listed = _run(allocation, slurm.steps_argv(allocation.job))
    argv = slurm.kill_steps_argv(listed.stdout)
    if argv:
        _run(allocation, argv)


def task_words(
    placement: Placement | None,
    mounts: str,
    base: Mapping[str, str],
    wanted: Mapping[str, str],
    own: Sequence[Mapping[str, str]] = (),
    *,
    rank: str = "",
) -> tuple[str, ...]:
    """Return the words before a program that make a task of a step ready for it.

    `placement` is None for what pins itself. `base` is the environment that the launcher has,
    `wanted` that of the program, `own` what each rank has for itself: no value of these has a
    comma. `rank` names the variable with the number of a task, where the launcher is not srun.
    """
    words = ["--rank", rank] if rank else []
    ranks = placement.ranks if placement else ()
    pinned = [str(place.cpu) for place in ranks if place.cpu is not None]
    words += ["--cpus", ",".join(pinned)] if pinned and len(pinned) == len(ranks) else []
    numa = [str(place.numa) for place in ranks if placement and placement.bound(place)]
    words += ["--memory", ",".join(numa)] if numa else []
    words += ["--mounts", mounts] if mounts else []
    for name in sorted({name for variables in own for name in variables}):
        words += ["--each", name, ",".join(variables.get(name, "") for variables in own)]
    for name in sorted(set(base) - set(wanted)):
        words += ["--unset", name]
    words += [f"{k}={v}" for k, v in sorted(wanted.items()) if base.get(k) != v]
    return (*TASK, "run", *words, "--")


def _granted(
    seen: Mapping[str, tuple[int, ...]], *, one_machine: bool
) -> dict[str, tuple[int, ...]]:
    """Return as many of the CPUs that each node shows as the job has there.

    Where Slurm does not confine tasks they see all CPUs of a node, and may start no more of them
    than CPUs were asked for. On `one_machine` each node begins with another CPU.
    """
    granted = slurm.cpus_per_node(os.environ.get("SLURM_JOB_CPUS_PER_NODE", ""))
    most = dict(zip(seen, granted, strict=False))
    found = {}
    for number, (name, cpus) in enumerate(seen.items()):
        first = number % len(cpus) if one_machine and cpus else 0
        turned = cpus[first:] + cpus[:first] if len(cpus) > most.get(name, len(cpus)) else cpus
        found[name] = turned[: most.get(name)]
    return found


def _names(allocation: Allocation) -> tuple[str, ...]:
    nodelist = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST", "")
    return tuple(_ask(allocation, ("scontrol", "show", "hostnames", nodelist)).split())


def _ask(allocation: Allocation, argv: tuple[str, ...]) -> str:
    command = Command(argv=argv, env=allocation.patch(), timeout_s=_ANSWER_S, cwd="/")
    done = run(command)
    if done.returncode != 0:
        raise failure(command, done, log=None, reason=Reason.JOB_FAILED)
    # `srun --mpi=list` writes to standard error.
    return (done.stdout + done.stderr).decode(errors="replace")


def _words(text: str) -> tuple[str, ...]:
    """Return the names in the answer of `srun --mpi=list`, one in each line or after a colon."""
    lines = text.replace("specific pmix plugin versions available:", "\n").splitlines()
    told = [line.replace(",", " ").split() for line in lines if not line.rstrip().endswith("...")]
    return tuple(dict.fromkeys(word for words in told for word in words))


def _run(allocation: Allocation, argv: tuple[str, ...]) -> Completed:
    return run(Command(argv=argv, env=allocation.patch(), timeout_s=_ANSWER_S, cwd="/"))
