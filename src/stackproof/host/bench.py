"""Run a bench: every launch of the schedule, each result on disk before the next one starts.

A results folder can be continued: launches whose file is there are not repeated. It holds

    bench.json      what was compared, on what (`comparison.ResultsSpec`)
    spec.json       the specification and the images' digests: only the same ones may continue
    launches/       one measurement per launch, also of those that failed
    logs/           the output of launches that failed
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import stackproof
from stackproof import activate, checks, cluster, jobs, mountlist, noun
from stackproof.bench import Arm, BenchSpec
from stackproof.benchmarks import REGISTRY as PROGRAMS
from stackproof.case import Case, Placement
from stackproof.cluster import ClusterState
from stackproof.command import Command, Completed, EnvPatch
from stackproof.comparison import Arm as ResultArm
from stackproof.comparison import ResultsSpec
from stackproof.deployment import Deployment
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import cluster as clusters
from stackproof.host import files, mountexec
from stackproof.host.images import load_image, read_member
from stackproof.host.run import run, transcript
from stackproof.image import Image, ImageMount
from stackproof.jobs import Launch
from stackproof.launchers import REGISTRY as LAUNCHERS
from stackproof.launchers import LaunchRequest
from stackproof.measurement import Measurement
from stackproof.monitor import Event, Monitor
from stackproof.mountlist import MountRequest
from stackproof.mpis import REGISTRY as MPIS
from stackproof.transports import REGISTRY as TRANSPORTS

_TRIES = 2
"""How often a launch that failed is made: once more, then it is recorded as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyArm:
    """An arm whose images were read: what it mounts, sets and can run."""

    arm: Arm
    image: Image
    deployment: Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A specification made ready on this machine: arms by name, placements by name, cluster."""

    spec: BenchSpec
    arms: Mapping[str, ReadyArm]
    baseline: str
    null: str | None
    challengers: tuple[str, ...]
    placements: Mapping[str, Placement]
    state: ClusterState | None

    def launches(self) -> tuple[Launch, ...]:
        """Return the schedule."""
        return jobs.schedule(
            self.spec,
            {name: frozenset(ready.deployment.programs) for name, ready in self.arms.items()},
            tuple(self.placements),
        )


def prepare(spec: BenchSpec) -> Bench:
    """Read the images, find the nodes, and refuse at once what cannot work.

    Raises `StackproofError` with the problems of all arms at once.
    """
    state = _state(spec)
    placements = _placements(spec, state)
    ready: dict[str, ReadyArm] = {}
    problems: list[Problem] = []
    for arm in (spec.baseline, *spec.challengers):
        try:
            one = _ready(arm)
        except StackproofError as error:
            problems += error.problems
            continue
        if one.deployment.name in ready:
            problems.append(_same_name(one.deployment.name))
        ready[one.deployment.name] = one
    if problems:
        raise StackproofError(*problems)
    names = list(ready)
    baseline = names[0]
    null = f"{baseline}-again" if spec.null_arm else None
    if null:
        again = replace(ready[baseline].deployment, name=null)
        ready[null] = replace(ready[baseline], deployment=again)
    return Bench(
        spec=spec,
        arms=ready,
        baseline=baseline,
        null=null,
        challengers=tuple(names[1:]),
        placements=placements,
        state=state,
    )


def _same_name(name: str) -> Problem:
    return Problem(
        reason=Reason.INVALID_VALUE,
        message=f"two arms are called `{name}`",
        hint="give each arm a `name` of its own in the specification",
    )


def _state(spec: BenchSpec) -> ClusterState | None:
    """Return the cluster; needed as soon as a placement names more than this machine."""
    only_here = all(
        place == "intra-node" if isinstance(place, str) else place.nodes == (os.uname().nodename,)
        for place in spec.placements
    )
    found = clusters.status(spec.cluster)
    if found is None and only_here:
        return None
    return clusters.require(spec.cluster)


def _placements(spec: BenchSpec, state: ClusterState | None) -> dict[str, Placement]:
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    nodes = tuple(node.name for node in state.nodes) if state else (os.uname().nodename,)
    interface = state.nodes[0].interface if state else None
    found = {}
    for place in spec.placements:
        placement = (
            jobs.ready_placement(place, nodes, cpus, interface) if isinstance(place, str) else place
        )
        strangers = [node for node in placement.nodes if node not in nodes]
        if strangers:
            raise fail(
                Reason.NODE_UNREACHABLE,
                f"the placement `{placement.name}` names the node `{strangers[0]}`, "
                "which is not there",
                hint=f"the nodes are: {', '.join(nodes)}",
            )
        found[placement.name] = placement
    return found


def _ready(arm: Arm) -> ReadyArm:
    """Read an arm's images and turn them into a deployment."""
    wanted = mountlist.parse(arm.image)[0]
    image = replace(load_image(wanted.image), sha256=files.sha256(wanted.image))
    if image.mpi is None:
        raise fail(
            Reason.UNSUPPORTED,
            f"the image `{image.name}` does not say which MPI it has",
            where=Location(file=wanted.image),
            hint="build it with `stackproof build`",
        )
    name = arm.name or image.name
    deployment = activate.deployment(image, arm.view, name=name)
    if wanted.mount_point and wanted.mount_point != image.mount:
        raise fail(
            Reason.UNSUPPORTED,
            f"the image `{image.name}` was built for {image.mount}, not {wanted.mount_point}",
            hint="leave the mount point out",
            where=Location(file=wanted.image),
        )
    if arm.program_image:
        deployment = _with_program_image(deployment, arm.program_image)
    return ReadyArm(arm=arm, image=image, deployment=deployment)


def _with_program_image(deployment: Deployment, path: str) -> Deployment:
    """Add the programs that another image brings; they must be of the same ABI."""
    other = load_image(mountlist.parse(path)[0].image)
    if other.mpi is None or MPIS[other.mpi.family].abi != MPIS[deployment.mpi.family].abi:
        raise fail(
            Reason.UNSUPPORTED,
            f"programs of `{other.name}` cannot run on {MPIS[deployment.mpi.family].title}: "
            "their MPI has another binary interface",
            where=Location(file=path),
            hint="MPICH, Intel MPI and Cray MPICH share one; Open MPI has its own",
        )
    extra = {program.name: program.path for program in other.benchmarks}
    libraries = EnvPatch(prepend={"LD_LIBRARY_PATH": (f"{deployment.mpi.prefix}/lib",)})
    return replace(
        deployment,
        mounts=(*deployment.mounts, ImageMount(image=other.path, mount_point=other.mount)),
        programs={**extra, **deployment.programs},
        env=deployment.env.then(libraries),
    )


def run_bench(
    bench: Bench, folder: Path, monitor: Monitor, *, command: tuple[str, ...] = ()
) -> ResultsSpec:
    """Run every launch that is not done yet; return what `bench.json` says.

    Raises `StackproofError` when an arm's first launch fails (nothing after it would mean
    anything), and NO_RESULTS' kin as the checks find them. Later failures are recorded with the
    launch and shown in the report.
    """
    _claim(bench, folder)
    results = _results_spec(bench, command)
    files.write(folder / "bench.json", noun.to_json(results))
    if bench.state:
        clusters.share(bench.state, _paths(bench))
    plan = bench.launches()
    for launch in plan:
        target = folder / "launches" / launch.file_name
        if target.exists():
            continue
        monitor(
            Event(
                what="progress",
                name=f"block {launch.block}/{bench.spec.launches}",
                text=f"{launch.arm}, {launch.placement}, {launch.program}",
                done=launch.order + 1,
                total=len(plan),
            )
        )
        _run_launch(bench, launch, folder, monitor)
    monitor(Event(what="done", name="bench", text=f"{len(plan)} launches in {folder}"))
    return results


def _paths(bench: Bench) -> tuple[str, ...]:
    """Return what the nodes must see: the images, this Python and this package."""
    images = {mount.image for ready in bench.arms.values() for mount in ready.deployment.mounts}
    package = os.path.dirname(os.path.abspath(stackproof.__file__))
    return (*sorted(images), sys.prefix, sys.base_prefix, package)


def _claim(bench: Bench, folder: Path) -> None:
    """Take a results folder, or make sure that it belongs to the same specification."""
    identity = noun.to_json(
        {
            "spec": noun.to_data(bench.spec),
            "images": {name: ready.image.sha256 for name, ready in bench.arms.items()},
        }
    )
    marker = folder / "spec.json"
    if marker.exists():
        if marker.read_text() != identity:
            raise fail(
                Reason.USAGE,
                f"`{folder}` holds results of another specification or of other images",
                hint="choose another folder with -o, or remove it",
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise fail(
            Reason.USAGE, f"`{folder}` is not empty and holds no results", hint="choose another -o"
        )
    files.write(marker, identity)


def _results_spec(bench: Bench, command: tuple[str, ...]) -> ResultsSpec:
    spec = bench.spec
    limits: dict[str, dict[str, object]] = {}
    rate = bench.state.rate_mb_s if bench.state else None
    for name, placement in bench.placements.items():
        if rate is not None and len(placement.nodes) > 1:
            limits[name] = {"MB/s": rate, "source": "the rate that the cluster's links were given"}
    return ResultsSpec(
        name=spec.name,
        baseline=bench.baseline,
        challengers=bench.challengers,
        null=bench.null,
        margins=dict(spec.margins),
        launches=spec.launches,
        seed=spec.seed,
        created=_now(),
        arms={name: _result_arm(ready) for name, ready in bench.arms.items()},
        host=_host_facts(bench.state),
        limits=limits,
        command=command,
        stackproof=stackproof.__version__,
        versions={"python": platform.python_version()},
    )


def _result_arm(ready: ReadyArm) -> ResultArm:
    facts = ready.deployment.mpi
    return ResultArm(
        image=ready.image.path,
        image_sha256=ready.image.sha256,
        lock_digest=ready.image.lock_digest,
        mpi={"family": facts.family, "version": facts.version},
        recipe=_recipe_text(ready.image),
        lock=read_member(ready.image.path, "meta/lock.json"),
        view=ready.arm.view or ready.image.default_view,
        transport=", ".join(f"{k}: {v}" for k, v in ready.arm.transports.items()) or None,
        env=dict(ready.arm.env),
        rate=ready.arm.rate,
    )


def _recipe_text(image: Image) -> str:
    return read_member(image.path, "meta/recipe/*")


def _host_facts(state: ClusterState | None) -> dict[str, str]:
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    uname = os.uname()
    facts = {
        "cpu": model,
        "cpus": str(len(os.sched_getaffinity(0))),
        "kernel": f"{uname.sysname} {uname.release}",
        "machine": uname.machine,
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
    }
    if state:
        facts["cluster"] = f"{len(state.nodes)} nodes in network namespaces of one machine"
        facts["link rate"] = state.spec.rate or "not limited"
        facts["link delay"] = state.spec.delay or "none added"
    return facts


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _run_launch(bench: Bench, launch: Launch, folder: Path, monitor: Monitor) -> None:
    """Make one launch, again if it fails, and keep what came of it."""
    for attempt in range(_TRIES):
        measurement, done = measure(bench, launch)
        problem = checks.first_failure(measurement.checks, done.stderr)
        if problem is None:
            files.write(folder / "launches" / launch.file_name, noun.to_json(measurement))
            return
        log = folder / "logs" / f"{Path(launch.file_name).stem}-{attempt + 1}.log"
        files.write(log, transcript(done))
        problem = replace(
            problem,
            message=f"{launch.arm}, {launch.placement}: {problem.message}",
            hint=f"{problem.hint + '; ' if problem.hint else ''}the output is in `{log}`",
        )
        if attempt + 1 < _TRIES:
            monitor(Event(what="note", name="again", text=problem.message))
            name = f"{Path(launch.file_name).stem}-failed{attempt + 1}.json"
            files.write(folder / "launches" / name, noun.to_json(measurement))
        elif launch.block == 0:
            raise StackproofError(problem)
        else:
            monitor(Event(what="failed", name="launch", text=problem.message))
            files.write(folder / "launches" / launch.file_name, noun.to_json(measurement))


def measure(bench: Bench, launch: Launch) -> tuple[Measurement, Completed]:
    """Make one launch and judge it; the link is given the arm's own rate while it runs."""
    ready = bench.arms[launch.arm]
    placement = bench.placements[launch.placement]
    transport = jobs.transport_for(placement, ready.arm.transports)
    case = jobs.case_for(bench.spec, launch, placement, transport)
    command, patch = launch_command(bench, ready, case)
    planted = ready.arm.rate if len(placement.nodes) > 1 else None
    started = _now()
    try:
        if planted and bench.state:
            clusters.set_link(bench.state, rate=planted, delay=bench.state.spec.delay)
        done = run(command)
    finally:
        if planted and bench.state:
            clusters.set_link(bench.state, rate=bench.state.spec.rate, delay=bench.state.spec.delay)
    if done.timed_out and bench.state:
        clusters.end_processes(bench.state)
    output = PROGRAMS[case.program].parse(done.stdout, case)
    facts = ready.deployment.mpi
    measurement = Measurement(
        arm=launch.arm,
        block=launch.block,
        order=launch.order,
        case=case,
        output=output,
        checks=checks.judge(
            output, case, mpi_family=facts.family, mpi_version=facts.version, completed=done
        ),
        argv=command.argv,
        env=dict(sorted(patch.apply({}).items())),
        started=started,
        seconds=done.seconds,
        image_sha256=ready.image.sha256,
        host_facts={"load": f"{os.getloadavg()[0]:.2f}"},
    )
    return measurement, done


def launch_command(bench: Bench, ready: ReadyArm, case: Case) -> tuple[Command, EnvPatch]:
    """Return the command of one launch and the environment patch that the deployment makes.

    The launcher runs on the cluster's head (or here) with the images mounted; the agent mounts
    them once on each node, so that all ranks of a node share one namespace.
    """
    deployment, state = ready.deployment, bench.state
    family = deployment.mpi.family
    # What the loader reads is for the ranks alone: the launcher and the programs that start it on
    # a node would load it as well, some of them before the image is mounted.
    loader = {key: value for key, value in ready.arm.env.items() if key.startswith("LD_")}
    program = PROGRAMS[case.program].argv(deployment.programs[case.program], case)
    request = LaunchRequest(
        prefix=deployment.mpi.prefix,
        program=(*_setting(loader), *program),
        placement=case.placement,
        agent=state.agent if state else None,
        environment={k: v for k, v in ready.arm.env.items() if k not in loader},
        as_root=os.geteuid() == 0 or bool(state and state.rootless),
    )
    launcher = LAUNCHERS[deployment.mpi.launcher]
    mounts = mountlist.render(
        [MountRequest(image=m.image, mount_point=m.mount_point) for m in deployment.mounts]
    )
    patch = (
        deployment.env.then(
            TRANSPORTS[case.transport].patch(family, deployment.mpi.version, case.placement)
        )
        .then(launcher.environment(request))
        .then(EnvPatch(set={"STACKPROOF_MOUNTS": mounts}))
    )
    argv = (sys.executable, "-I", "-S", mountexec.__file__, mounts, "--", *launcher.argv(request))
    if state:
        argv = cluster.enter_argv(state, None, argv)
    return Command(argv=argv, env=patch, timeout_s=case.timeout_s, cwd="/"), patch


def _setting(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words before a program that set variables for it alone; none for none."""
    return ("env", *(f"{key}={value}" for key, value in variables.items())) if variables else ()
