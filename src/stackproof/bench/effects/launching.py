"""One launch: its command, by the MPI's launcher or as a step of a Slurm job, and its outcome."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stackproof.bench import programs as bench_programs
from stackproof.bench import schedule
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.ready import ReadyArm, mount_list
from stackproof.bench.schedule import Launch
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.compare import launch_checks
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects.run import base_environment
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.launch import devices, launchers
from stackproof.launch.effects import allocation as allocations
from stackproof.launch.effects import launch_folder
from stackproof.launch.launchers import LaunchRequest
from stackproof.launch.launchers import request as requests
from stackproof.mount.effects import mount_exec
from stackproof.mpi import families, transports
from stackproof.mpi.effects import fabric
from stackproof.mpi.transports import Memory, Profile, Setup
from stackproof.results.case import Case, Placement
from stackproof.results.measurement import Check, Measurement, Output
from stackproof.site.model import FabricType

SRUN, MPIRUN = "srun", "mpirun"
"""What an arm's `launcher` may be: Slurm's, or the one that comes with the MPI."""

AGENT_MOUNTS = "STACKPROOF_MOUNTS"
"""The mount list for the agent of a cluster (`stackproof.cluster.effects.agent`)."""
SLURM_WIRE = "SLURM_STACKPROOF_MOUNTS"
"""The mount list for Slurm's plug-in, of every step started with it (native/spank/names.h)."""


DRIVERS = {
    Memory.CUDA.value: ("libcuda.so.1",),
    Memory.ROCM.value: ("libamdhip64.so", *(f"libamdhip64.so.{number}" for number in (7, 6, 5))),
}
"""The libraries by which our program reaches a GPU (`programs/csrc/gpu.c`)."""


def now() -> str:
    """Return the time as UTC ISO 8601, in seconds."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def measure(
    place: LaunchNodes, ready: ReadyArm, launch: Launch, case: Case
) -> tuple[Measurement, Completed]:
    """Make one launch and judge it; the link is given the arm's own rate while it runs."""
    started = now()
    done, command, patch = run_once(place, ready, case)
    env = patch.apply({})
    output, checks = read_output(ready, case, done, env)
    measurement = Measurement(
        arm=launch.arm,
        block=launch.block,
        order=launch.order,
        case=case,
        output=output,
        checks=checks,
        argv=command.argv,
        env=dict(sorted(env.items())),
        started=started,
        seconds=done.seconds,
        image_sha256=ready.image.sha256,
        host_facts=_facts(place, ready, case),
    )
    return measurement, done


def read_output(
    ready: ReadyArm, case: Case, done: Completed, env: Mapping[str, str]
) -> tuple[Output, tuple[Check, ...]]:
    """Return what a launch printed, and its checks; `env` is the environment of its ranks."""
    output = bench_programs.REGISTRY[case.program].parse(done.stdout, case)
    facts = ready.deployment.mpi
    # A deployment may name more folders than its program needs, the arm's own `env` may not.
    own = ready.arm.env.get("LD_LIBRARY_PATH", "")
    return output, launch_checks.judge(
        output,
        case,
        mpi_family=facts.family,
        mpi_version=facts.version,
        completed=done,
        loader={"LD_PRELOAD": env.get("LD_PRELOAD", ""), "LD_LIBRARY_PATH": own},
    )


def run_once(
    place: LaunchNodes, ready: ReadyArm, case: Case, *, labelled: bool = False
) -> tuple[Completed, Command, EnvPatch]:
    """Run one launch, and end what a launch that took too long left on the nodes.

    Returns how it ended, with its command and the patch that makes its ranks' environment.
    """
    command, patch = launch_command(place, ready, case, labelled=labelled)
    planted = ready.arm.rate if len(case.placement.nodes) > 1 else None
    state = place.state
    try:
        if planted and state:
            up.set_link(state, rate=planted, delay=state.spec.delay)
        here = not (state or place.allocation or place.job or ready.contained)
        done = launch_folder.run(command, place.scratch if here else "")
    finally:
        if planted and state:
            up.set_link(state, rate=state.spec.rate, delay=state.spec.delay)
    if done.timed_out:
        _clean_up(place)
    return done, command, patch


def launch_command(
    place: LaunchNodes, ready: ReadyArm, case: Case, *, labelled: bool = False
) -> tuple[Command, EnvPatch]:
    """Return the command of one launch, and the patch that makes the environment of its ranks.

    `labelled` asks for the rank before each line of output.
    """
    patch = ready.deployment.env.then(profile_of(place, ready, case).env)
    if place.job or (place.allocation and starter(place, ready) == SRUN):
        return _scheduled(place, ready, case, patch, labelled=labelled)
    return _mpiexec(place, ready, case, patch, labelled=labelled)


def profile_of(place: LaunchNodes, ready: ReadyArm, case: Case) -> Profile:
    """Return the profile of a launch; raises `StackproofError` (UNSUPPORTED)."""
    return _profile(place, ready, case.placement, case.transport, case.memory)


def starter(place: LaunchNodes, ready: ReadyArm) -> str:
    """Return the launcher that starts an arm's ranks, a name in `stackproof.launch.launchers`.

    Inside a Slurm job that is srun where it speaks what the MPI does, else the MPI's own mpirun, as
    sites without PMIx in their Slurm start Open MPI; an arm that names one has that one. Inside a
    job of Flux or PBS it is theirs, outside of any the MPI's own.
    """
    if place.job:
        return place.job.launcher
    own = SRUN if ready.step else ready.deployment.mpi.launcher
    wanted, allocation = ready.arm.launcher, place.allocation
    if allocation is None or (wanted == MPIRUN and own != SRUN):
        return own
    if wanted or ready.arm.pmi or own == SRUN:
        return SRUN
    kind = families.pmi_of(ready.deployment.mpi.family, SRUN)
    return SRUN if kind is None or kind in allocation.pmi else own


def launcher_problems(arms: Arms, place: LaunchNodes) -> list[Problem]:
    """Return the arms whose ranks could not be started, or would not find each other.

    Without this each of the latter would start as the only one of its world.
    """
    found = []
    for name, ready in arms.by_name.items():
        mpi, wanted, allocation = ready.deployment.mpi, ready.arm.launcher, place.allocation
        kind = ready.arm.pmi or families.pmi_of(mpi.family, SRUN)
        if place.job and (wanted or ready.step):
            said = f"{place.job.scheduler} starts ranks by {place.job.launcher}, and `{name}` "
            found.append((f"{said}needs srun or an mpirun", "leave the arm's `launcher` out"))
        elif allocation is None and ready.step:
            said = f"`{name}` is started by srun, a part of which `{ready.arm.runtime}` is"
            found.append((f"{said}, and this is no Slurm job", "say `on: slurm`"))
        elif allocation is None and wanted == SRUN:
            said = f"`{name}` is to be started by srun, and this is no Slurm job"
            found.append((said, "say `on: slurm`, or leave the arm's `launcher` out"))
        elif wanted == MPIRUN and mpi.launcher == SRUN:
            said = f"`{name}` is to be started by an mpirun, and {mpi.family} has none of its own"
            found.append((said, "leave the arm's `launcher` out"))
        elif allocation and starter(place, ready) == SRUN and kind and kind not in allocation.pmi:
            said = f"`{name}` is to be started with `srun --mpi={kind}`, which this Slurm does not"
            hint = f"it has: {', '.join(allocation.pmi)}; choose one with the arm's `pmi`"
            more = "" if mpi.launcher == SRUN else ", or say `launcher: mpirun`"
            found.append((f"{said} have", hint + more))
    return [Problem(reason=Reason.UNSUPPORTED, message=said, hint=hint) for said, hint in found]


def transport_problems(
    arms: Arms, place: LaunchNodes, placements: Sequence[Placement], memory: tuple[str, ...] = ()
) -> list[Problem]:
    """Return the arms that cannot be forced on the transport that they are to use, and why.

    `memory` is where buffers lie, as in `results.case.Case`.
    """
    found: dict[Problem, None] = {}
    for name, ready in arms.by_name.items():
        for placement in placements:
            if not schedule.runs_at(ready.arm.placements, placement):
                continue
            transport = schedule.transport_for(placement, ready.arm.transports)
            try:
                _profile(place, ready, placement, transport, memory)
            except StackproofError as error:
                found |= {
                    replace(one, message=f"{name}, {placement.name}: {one.message}"): None
                    for one in error.problems
                    if name != arms.null
                }
    return list(found)


def memory_problems(arms: Arms, memory: tuple[str, ...]) -> list[Problem]:
    """Return the arms whose ranks find no driver of a GPU, where buffers lie on one."""
    kinds = [kind for kind in dict.fromkeys(memory) if kind != Memory.HOST]
    return [
        replace(problem, message=f"{name}: {problem.message}")
        for name, ready in arms.by_name.items()
        for kind in kinds
        if name != arms.null and (problem := ready.hidden(DRIVERS[kind]))
    ]


def fabric_of(place: LaunchNodes) -> str:
    """Return the fabric of the nodes (`site.FabricType`), empty where it is not known.

    Nodes of a cluster on this machine are joined by Ethernet, and this machine without Slingshot
    is taken for one that has no more.
    """
    found = "" if place.state else fabric.of_this_machine()[0]
    if not found and (place.state or not (place.allocation or place.job)):
        return FabricType.ETHERNET.value
    return found


def _profile(
    place: LaunchNodes,
    ready: ReadyArm,
    placement: Placement,
    transport: str,
    memory: tuple[str, ...],
) -> Profile:
    """Return the profile of an arm; raises `StackproofError` (UNSUPPORTED)."""
    facts = ready.deployment.mpi
    device = next((Memory(kind) for kind in memory if kind != Memory.HOST), Memory.HOST)
    setup = Setup(
        family=facts.family,
        version=facts.version,
        placement=placement,
        libfabric=ready.libfabric,
        fabric=fabric_of(place),
        nics=fabric.of_this_machine()[1],
        memory=device,
        without=_without(ready) if memory else frozenset(),
        xpmem=None if place.allocation or place.job else fabric.has_xpmem(),
        launcher=starter(place, ready),
        in_slurm_job=place.allocation is not None,
    )
    return transports.profile_of(transport, setup)


def _without(ready: ReadyArm) -> frozenset[Memory]:
    """Return the GPUs that an arm's MPI is known to take no buffers of; another MPI may be in it.

    UCX may carry them below an Open MPI that knows of none, where it is told to.
    """
    if ready.foreign:
        return frozenset()
    family = ready.deployment.mpi.family
    if bill := ready.documents.get(os.path.basename(fabric.BILL)):
        return transports.without_by_bill(bill, family)
    if ready.arm.inject or ready.arm.env.get("OMPI_MCA_pml") == "ucx" or not ready.image.path:
        return frozenset()
    return fabric.mpi_without(ready.image.path, family)


def _mpiexec(
    place: LaunchNodes, ready: ReadyArm, case: Case, patch: EnvPatch, *, labelled: bool
) -> tuple[Command, EnvPatch]:
    """Return the command of the MPI's own launcher.

    The launcher runs on the cluster's head (or here) with the images mounted; the agent mounts
    them once on each node, so that all ranks of a node share one namespace. Inside a Slurm job the
    plug-in does that for what the launcher starts by srun, else words before its helpers.
    """
    deployment, state, allocation = ready.deployment, place.state, place.allocation
    mounts = mount_list(deployment)
    by_words = bool(allocation and mounts and not allocation.plugin)
    # What the loader reads is for the ranks alone: the launcher and the programs that start it on
    # a node would load it as well, some of them before the image is mounted.
    loader = {key: value for key, value in ready.arm.env.items() if key.startswith("LD_")}
    program = bench_programs.REGISTRY[case.program].argv(deployment.programs[case.program], case)
    request = LaunchRequest(
        prefix=deployment.mpi.prefix,
        mpiexec=deployment.mpiexec,
        program=(*deployment.wrapped, *requests.setting(loader), *program),
        placement=case.placement,
        own=_own(ready, case, patch),
        agent=state.agent if state else None,
        environment={k: v for k, v in ready.arm.env.items() if k not in loader},
        as_root=os.geteuid() == 0 or bool(state and state.rootless),
        oversubscribe=not case.placement.timed,
        labelled=labelled,
        in_slurm_job=allocation is not None,
        helper_words=allocations.task_words(None, mounts, {}, {}) if by_words else (),
        binder=(*allocations.TASK, "run", "--memory"),
    )
    launcher = launchers.REGISTRY[starter(place, ready)]
    patch = patch.then(launcher.environment(request))
    argv = launcher.argv(request)
    if mounts:
        told = SLURM_WIRE if allocation else AGENT_MOUNTS
        patch = patch.then(EnvPatch(set={} if by_words else {told: mounts}))
        start = (sys.executable, "-I", "-S", mount_exec.__file__, "--own-shm", mounts, "--")
        argv = (*start, *argv)
    if state:
        argv = cluster_model.enter_argv(state, None, argv)
    env = patch
    if allocation:
        each = max(Counter(rank.node for rank in case.placement.ranks).values())
        env = allocation.mpirun_patch(each).then(patch)
    command = Command(argv=argv, env=env, timeout_s=case.timeout_s, cwd="/")
    return command, patch.then(EnvPatch(set=dict(ready.arm.env)))  # what the ranks see


def _scheduled(
    place: LaunchNodes, ready: ReadyArm, case: Case, patch: EnvPatch, *, labelled: bool
) -> tuple[Command, EnvPatch]:
    """Return the command of srun, or of the launcher of Flux, or of PALS under PBS.

    Variables are set in the tasks, for the program alone: these launchers are programs of the
    site's, which must not load an image's libraries nor read what is meant for an MPI. Images are
    mounted by Slurm where it has the plug-in for that, else by the tasks, once per node. Where srun
    itself puts tasks into a container, nothing of this machine runs in there but the program: srun
    pins it, and `env` of the container sets its variables. Raises `StackproofError` (UNSUPPORTED)
    for a placement that the launcher cannot say.
    """
    allocation, job, deployment = place.allocation, place.job, ready.deployment
    launcher, mounts = launchers.REGISTRY[starter(place, ready)], mount_list(deployment)
    known = families.REGISTRY.get(deployment.mpi.family)
    short = known.pmi_variables.get(SRUN, {}) if known and mounts and allocation else {}
    patch = EnvPatch(set=short).then(patch).then(EnvPatch(set=dict(ready.arm.env)))
    own, outer = _own(ready, case, patch), EnvPatch(set=dict(job.environment) if job else {})
    outer = allocation.patch() if allocation else outer
    program = bench_programs.REGISTRY[case.program].argv(deployment.programs[case.program], case)
    more: dict[str, Any] = {"own": own, "options": ready.step}
    ahead = requests.setting(patch.apply({}))
    if not ready.step:
        base = outer.apply(base_environment())
        plugin = allocation is not None and allocation.plugin
        more = {"pinned": True, "mounts": mounts if plugin else ""}
        ahead = allocations.task_words(
            case.placement, "" if plugin else mounts, base, patch.apply(base), own,
            rank=job.rank if job else "",
        )  # fmt: skip
    request = LaunchRequest(
        prefix=deployment.mpi.prefix,
        program=(*ahead, *deployment.wrapped, *program),
        placement=case.placement,
        family=deployment.mpi.family,
        pmi=ready.arm.pmi,
        oversubscribe=not case.placement.timed,
        labelled=labelled,
        **more,
    )
    path = job.program if job else allocation.srun if allocation else ""
    env = outer.then(launcher.environment(request))
    argv = (path, *launcher.argv(request)[1:])
    return Command(argv=argv, env=env, timeout_s=case.timeout_s, cwd="/"), patch


def _own(ready: ReadyArm, case: Case, patch: EnvPatch) -> tuple[dict[str, str], ...]:
    """Return what each rank is told of its NIC and GPU; the arm's own variables win."""
    settings = {**patch.apply({}), **ready.arm.env}
    return devices.rank_variables(case.placement, ready.deployment.mpi.family, settings)


def check_nodes(place: LaunchNodes, case: Case) -> None:
    """After a launch that failed: raise `StackproofError` when nodes of the job were lost.

    A launch that a dying node spoiled says nothing of its arm, and neither would the next ones.
    """
    if place.allocation is None:
        return
    seen = allocations.look(place.allocation, tuple(place.nodes))
    silent = [name for name in case.placement.nodes if name not in seen]
    if silent:
        raise allocations.lost(silent)


def _clean_up(place: LaunchNodes) -> None:
    if place.state:
        up.end_processes(place.state)
    if place.allocation:
        allocations.end_steps(place.allocation)


def _facts(place: LaunchNodes, ready: ReadyArm, case: Case) -> dict[str, str]:
    deployment = ready.deployment
    facts = {"load": f"{os.getloadavg()[0]:.2f}", "launcher": starter(place, ready)}
    if case.memory:
        facts["memory"] = BufferPlace.DEVICE.value
    if not deployment.mounts:
        facts["image"] = ready.found.get("tier") or "a plain folder; nothing is mounted"
    elif place.allocation or place.job:
        tasks = place.job or starter(place, ready) == SRUN
        how = "the tasks" if tasks else "the launcher's helpers"
        if place.allocation and place.allocation.plugin:
            how = "Slurm's plug-in (srun --image)"
        facts["image"] = f"mounted by {how}"
    if place.job:
        facts["job"] = place.job.job
    if place.allocation:
        facts["job"] = place.allocation.job
        facts["restarts"] = str(place.allocation.restarts)
    return facts
