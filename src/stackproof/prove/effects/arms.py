"""Prove an injection: three arms are judged, run and watched, and the two that run compared."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import field

from stackproof.bench import programs as bench_programs
from stackproof.bench import schedule
from stackproof.bench.effects import launching
from stackproof.bench.effects import nodes as bench_nodes
from stackproof.bench.effects import run as bench_run
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.program_spec import Program
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up
from stackproof.cluster.model import ClusterState
from stackproof.core import mountlist, noun
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects.run import transcript
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.mountlist import MountRequest
from stackproof.core.value import Value, replace
from stackproof.inject.effects import job, job_judge, named
from stackproof.inject.effects.job_judge import JUDGED
from stackproof.inject.effects.job_key import JobCase
from stackproof.inject.model import Effect, InjectionVerdict, Judgement
from stackproof.inject.replacement import Replacement
from stackproof.inject.tree import tree_of
from stackproof.inject.ways import inner_folders
from stackproof.launch import launchers
from stackproof.launch.effects import launch_folder
from stackproof.launch.launchers import LaunchRequest
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure
from stackproof.mpi import transports
from stackproof.mpi.transports import Libfabric, Setup
from stackproof.prove import model as prove_model
from stackproof.prove.effects import mounting, mpi, rank_maps
from stackproof.prove.effects.mpi import Provided
from stackproof.prove.model import INJECTED, OWN, WRONG, ArmProof, Prediction, Witnessed
from stackproof.prove.options import ProveRequest
from stackproof.results.case import Case, Placement, Rank

_TAIL_LINES = 40
_SIZES = (8, 65536, 1 << 20)
_ALL_RANKS = ("allreduce", "barrier")
_MEASURES_ALL = frozenset({schedule.CHECKING, "IMB-MPI1"})
_OWN_CHOICE = "auto"


class ProofArm(Value):
    """An arm made ready: what it mounts and sets, what starts it, and what was predicted.

    `env` is what the launcher gets, `rank_env` what the loader of a rank reads, for ranks alone;
    `transport` is empty where nothing is forced.
    """

    name: str
    provided: Provided
    mounts: tuple[MountRequest, ...]
    env: EnvPatch
    rank_env: Mapping[str, str]
    prediction: Prediction
    transport: str = ""


class ProofRun(Value):
    """Where arms run: placement, cluster, folder of results, and the program's path there.

    `variables` are set for every arm; `scratch` is for temporary files of launches on this machine.
    """

    wanted: ProveRequest
    program: str
    placement: Placement
    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    state: ClusterState | None = None
    scratch: str = ""


class Ready(Value):
    """All that is ready to be run: the stage and the arms by name."""

    stage: ProofRun
    arms: Mapping[str, ProofArm]


def prepare(wanted: ProveRequest, folder: Path) -> Ready:
    """Read and judge everything, and run nothing.

    Raises `StackproofError`: USAGE for a folder that holds something else, and what reading images,
    programs and clusters raises.
    """
    files.check_empty(folder)
    state = up.require(wanted.cluster) if wanted.cluster else None
    own = mpi.named(wanted.own) if wanted.own else mpi.found_by(wanted.command[0])
    if not own.launcher:
        raise fail(
            Reason.NO_MPI, f"there is no MPI in `{wanted.own}`", hint="--own names the program's"
        )
    # What the user sets for the loader is judged with the rest, behind what an MPI needs.
    variables = variables_of(wanted)
    loader = {name: value for name, value in variables.items() if name in JUDGED}
    rest = {name: value for name, value in variables.items() if name not in JUDGED}
    own = replace(own, env=EnvPatch(set=loader).then(own.env))
    view = _view_of(own)
    program = mpi.program_in(wanted.command[0], own, view)
    environment = own.env.apply({})
    closure, demand = mpi.demand_on(view, program, named.setting_of(environment))
    stage = ProofRun(
        wanted=wanted, program=program, placement=_placement(wanted, state), folder=folder,
        variables=rest, state=state,
    )  # fmt: skip
    other = mpi.named(wanted.replacement)
    _check_places(own, other)
    arms = {OWN: _own_arm(stage, own, closure, view)}
    arms[INJECTED] = _other_arm(stage, INJECTED, own, other)
    abi = demand.abi or ""
    wrong = mpi.named(wanted.wrong) if wanted.wrong else mpi.at_hand(abi)
    if wrong:
        _check_places(own, wrong)
        arms[WRONG] = _other_arm(stage, WRONG, own, wrong, names=demand.names)
    return Ready(stage=stage, arms=arms)


def variables_of(wanted: ProveRequest) -> dict[str, str]:
    """Return the variables for all arms; raises `StackproofError` (USAGE)."""
    found = {}
    for text in wanted.variables:
        name, sign, value = text.partition("=")
        if not (sign and name.isidentifier()):
            raise fail(Reason.USAGE, f"`{text}` is not NAME=VALUE")
        found[name] = value
    return found


def _check_places(own: Provided, other: Provided) -> None:
    """Raise `StackproofError` (MOUNT_POINT_CLASH) for two images in one place."""
    if own.part is None or other.part is None:
        return
    if own.part.described and other.part.described and own.part.point == other.part.point:
        raise fail(
            Reason.MOUNT_POINT_CLASH,
            f"two images at `{own.part.point}`: `{own.part.path}` and `{other.part.path}`",
            hint=f"mount the second at another folder: `{other.part.path}:/other`",
        )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise files.translate(error, folder) from error


def run_arm(stage: ProofRun, arm: ProofArm, monitor: Monitor) -> tuple[ArmProof, Completed]:
    """Run an arm with a witness at every rank, and return what happened.

    Raises `StackproofError` where its images were not mounted, so that no rank started.
    """
    monitor(Event(what="progress", name=arm.name, text=arm.provided.title))
    place = stage.folder / "ranks" / arm.name
    _make_folder(place)
    if stage.state:
        up.share(stage.state, _shared(stage, arm))
    settings = [f"{name}={value}" for name, value in arm.rank_env.items()]
    witness = (sys.executable, "-I", rank_maps.__file__, str(place), *settings, "--")
    # One command for all ranks: with a CPU for each they would be as many programs (MPI_APPNUM).
    free = tuple(replace(rank, cpu=None) for rank in stage.placement.ranks)
    together = replace(stage, placement=replace(stage.placement, ranks=free))
    done = launch(together, arm, (*witness, *words_of(stage, _first_case(stage))))
    files.write(stage.folder / "logs" / f"{arm.name}.log", transcript(done))
    ranks = tuple(
        noun.from_json(Witnessed, path.read_bytes(), file=str(path))
        for path in sorted(place.glob("*.json"))
    )
    if arm.mounts and not ranks:
        mounting.refuse_unmounted(done)
    text = done.stdout.decode(errors="replace")
    world, worlds = prove_model.worlds_of(text)
    expect = stage.wanted.expect
    loaded, missing, doubled = prove_model.compared(arm.prediction, ranks)
    made = ArmProof(
        name=arm.name,
        mpi=arm.provided.title,
        transport=arm.transport,
        prediction=arm.prediction,
        wanted_ranks=stage.wanted.ranks,
        argv=done.argv,
        environment={**arm.env.apply({}), **arm.rank_env},
        exit=None if done.timed_out else done.returncode,
        ranks=ranks,
        world=world,
        worlds=worlds,
        expected=re.search(expect, text) is not None if expect else None,
        output=_tail(done),
        files=loaded,
        missing=missing,
        doubled=doubled,
    )
    return made, done


def words_of(stage: ProofRun, case: Case | None) -> tuple[str, ...]:
    """Return the command line of one rank of the program."""
    if case is None:
        return (stage.program, *stage.wanted.command[1:])
    return bench_programs.REGISTRY[case.program].argv(stage.program, case)


def spec_of(stage: ProofRun) -> BenchSpec | None:
    """Return the bench that a known program is measured by, as long and as often as in any.

    None where the user says what the program does, or must.
    """
    name = posixpath.basename(stage.program)
    if name not in bench_programs.REGISTRY or stage.wanted.command[1:]:
        return None
    wanted = ("latency", "bandwidth") if len(stage.placement.ranks) == 2 else _ALL_RANKS
    return BenchSpec(
        baseline=Arm(name=OWN),
        challengers=(Arm(name=INJECTED),),
        programs=(Program(name=name),),
        benchmarks=wanted if name in _MEASURES_ALL else (),  # each of OSU's measures one thing
        sizes=_SIZES,
        placements=(stage.placement,),
        launches=stage.wanted.launches,
        timeout_s=stage.wanted.timeout_s,
    )


def case_of(stage: ProofRun, spec: BenchSpec, launch: Launch, transport: str = "") -> Case:
    """Return the case of a launch; raises `StackproofError` where the program cannot do it."""
    case = schedule.case_for(spec, launch, stage.placement, transport or _OWN_CHOICE)
    return replace(case, fabric=_fabric(stage))


def _first_case(stage: ProofRun) -> Case | None:
    """Return the short case of a known program for ranks that are watched and not timed."""
    spec = spec_of(stage)
    if spec is None:
        return None
    launch = Launch(
        order=0, block=0, arm=OWN, placement=stage.placement.name, program=spec.programs[0].name
    )
    short = replace(spec, validate=False, samples=3, seconds_per_size=0.01)
    return case_of(stage, short, launch)


def launch(stage: ProofRun, arm: ProofArm, words: Sequence[str]) -> Completed:
    """Start the ranks of an arm, each as `words`, and wait for them."""
    provided, state = arm.provided, stage.state
    request = LaunchRequest(
        prefix=provided.prefix,
        program=tuple(words),
        placement=stage.placement,
        agent=state.agent if state else None,
        environment=stage.variables,
        as_root=os.geteuid() == 0 or bool(state and state.rootless),
        oversubscribe=not stage.placement.timed,
    )
    launcher = launchers.REGISTRY[provided.launcher]
    patch = arm.env.then(launcher.environment(request))
    argv = (provided.mpiexec, *launcher.argv(request)[1:])
    if arm.mounts:
        patch = patch.then(EnvPatch(set={"STACKPROOF_MOUNTS": mountlist.render(arm.mounts)}))
        argv = (*mounting.start_words(arm.mounts), *argv)
    if state:
        argv = cluster_model.enter_argv(state, None, argv)
    # Programs read their input where they are started; nodes may lack the folder.
    cwd = "/" if state else os.getcwd()
    command = Command(argv=argv, env=patch, timeout_s=stage.wanted.timeout_s, cwd=cwd)
    done = launch_folder.run(command, "" if state else stage.scratch)
    if done.timed_out and state:
        up.end_processes(state)
    return done


def _shared(stage: ProofRun, arm: ProofArm) -> tuple[str, ...]:
    """Return what every node must see."""
    parts = [request.image for request in arm.mounts]
    folders = [arm.provided.part.path] if arm.provided.part else []
    program = [stage.program] if os.path.exists(stage.program) else []
    return (*bench_run.program_paths(), str(stage.folder), *parts, *folders, *program)


def _tail(done: Completed) -> str:
    text = (done.stdout + b"\n" + done.stderr).decode(errors="replace").strip()
    return "\n".join(text.splitlines()[-_TAIL_LINES:])


def _placement(wanted: ProveRequest, state: ClusterState | None) -> Placement:
    """Return the ranks in turn on all nodes, or all of them here."""
    nodes = [node.name for node in state.nodes] if state else [os.uname().nodename]
    cpus = bench_nodes.free_cpus()
    timed = wanted.ranks <= len(cpus)  # ranks that share a core cannot be timed
    pinned = cpus if timed else (None,) * wanted.ranks
    ranks = tuple(
        Rank(node=nodes[i * len(nodes) // wanted.ranks], cpu=pinned[i]) for i in range(wanted.ranks)
    )
    many = len({rank.node for rank in ranks}) > 1
    interface = state.nodes[0].interface if state and many else None
    name = "inter-node" if many else "intra-node"
    return Placement(name=name, ranks=ranks, interface=interface, timed=timed)


def _view_of(*provided: Provided) -> RootView:
    """Return the view that has the images of some MPIs in their places."""
    parts = [one.part for one in provided if one.part]
    return job_judge.view_of(parts)


def _own_arm(stage: ProofRun, own: Provided, closure: Closure, view: RootView) -> ProofArm:
    """Return the arm of the program's own MPI."""
    lines = tree_of(closure, ())
    transport, forced = _forced(stage, own, own, must=False)
    return ProofArm(
        name=OWN,
        provided=own,
        mounts=_mounts(own),
        env=own.env.then(forced),
        transport=transport,
        rank_env=_rank_env(own.env.apply({})),
        prediction=Prediction(
            reasons=tuple(f"`{edge.name}` is not found" for edge in closure.missing),
            files=_real(view, [line.path for line in lines if line.path]),
        ),
    )


def _other_arm(
    stage: ProofRun, name: str, own: Provided, other: Provided, names: Sequence[str] = ()
) -> ProofArm:
    """Return an arm with another MPI; `names` are those that a wrong one is forced under."""
    if other.part is None:
        raise ValueError("what is injected was named")
    parts = [own.part] if own.part else []
    case = JobCase(parts, other.part, own.env.apply({}), programs=[stage.program])
    links = stage.folder / "links" / name
    examined = job_judge.examine(case, str(links))
    judgement = examined.judgements[0]
    if judgement.way.rpath and judgement.verdict is not InjectionVerdict.FAILS:
        raise fail(
            Reason.UNSUPPORTED,
            f"no variable reaches `{stage.program}`: its DT_RPATH comes first",
            hint="make a copy with `stackproof inject apply --wrapper`, and prove that one",
        )
    made = dict(examined.job.links)
    env = own.env.then(examined.job.env)
    rank_env = _rank_env(env.apply({}))
    main = examined.replacement.mains[0] if examined.replacement.mains else None
    if judgement.verdict is InjectionVerdict.FAILS and names and main:
        # As somebody would who goes by names alone: under each name that the program asks for.
        made |= dict.fromkeys(names, main.path)
        inner = inner_folders(examined.replacement)
        before = rank_env.get("LD_LIBRARY_PATH", "")
        folders = (str(links), *examined.replacement.folders, *inner, before)
        # It must fail for what it is, not for want of what would lead it to its own files.
        rank_env = {
            **rank_env,
            **{name: value for name, value in other.env.set.items() if name not in JUDGED},
            "LD_LIBRARY_PATH": ":".join(filter(None, folders)),
        }
    if made:
        _make_folder(links)
        for link, target in made.items():
            (links / link).symlink_to(target)
    provided = other if other.launcher else replace(
        other, launcher=own.launcher, mpiexec=own.mpiexec, prefix=own.prefix, facts=own.facts
    )  # fmt: skip
    transport, forced = _forced(stage, provided, other, must=name == INJECTED)
    return ProofArm(
        name=name,
        provided=provided,
        mounts=(*_mounts(own), *_mounts(other)),
        env=env.then(forced),
        transport=transport,
        rank_env=rank_env,
        prediction=replace(
            _prediction(judgement, examined.view),
            marks=_marks(examined.replacement, judgement.abi, examined.view),
        ),
    )


def _marks(replacement: Replacement, wanted: str, view: RootView) -> tuple[str, ...]:
    """Return the files that show a replacement in the memory of a rank, without links."""
    main = replacement.main_for(wanted)
    return _real(view, [main.path] if main else sorted(replacement.names.values()))


def _prediction(judgement: Judgement, view: RootView) -> Prediction:
    against = (Effect.FAILS, Effect.CANNOT_TELL)
    reasons = [finding.message for finding in judgement.findings if finding.effect in against]
    links = judgement.way.links
    paths = [links.get(line.path, line.path) for line in judgement.tree if line.path]
    # Of what fails there is nothing to say which files it would load.
    files = () if judgement.verdict is InjectionVerdict.FAILS else _real(view, paths)
    return Prediction(verdict=judgement.verdict, reasons=tuple(reasons), files=files)


def _real(view: RootView, paths: Sequence[str]) -> tuple[str, ...]:
    """Return paths as /proc/PID/maps shows them: without links."""
    found = [view.resolve(path) for path in paths]
    return tuple(dict.fromkeys(one[0] for one in found if one))


def _rank_env(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in JUDGED if name in environment}


def _mounts(provided: Provided) -> tuple[MountRequest, ...]:
    part = provided.part
    if part is None or part.described is None:
        return ()
    return (MountRequest(image=part.path, mount_point=part.point),)


def _fabric(stage: ProofRun) -> str:
    """Return the fabric of the nodes (`site.FabricType`), empty where it is not known."""
    return launching.fabric_of(LaunchNodes(nodes={}, state=stage.state))


def _forced(
    stage: ProofRun, provided: Provided, below: Provided, *, must: bool
) -> tuple[str, EnvPatch]:
    """Return the transport, empty for none, and what forces it, with the user's variables.

    `below` is what brings libfabric, where it does. A transport that was named must be had by what
    is injected (`must`); the other arms may lack it, and then have what is usual, if they can.
    Where the MPI's release is not known nothing is forced. The preload is for ranks alone.
    """
    rest = EnvPatch(set=dict(stage.variables), unset=("LD_PRELOAD",))
    facts = provided.facts
    if facts is None:
        return "", rest
    setup = Setup(
        family=facts.family,
        version=facts.version,
        placement=stage.placement,
        libfabric=job.libfabric_of(below.part) if below.part else Libfabric(),
        fabric=_fabric(stage),
        launcher=facts.launcher,
    )
    usual = "shm" if len(stage.placement.nodes) == 1 else "tcp"
    for name in filter(None, (stage.wanted.transport, usual)):
        try:
            return name, transports.get(name).profile(setup).env.then(rest)
        except StackproofError:
            if must and name == stage.wanted.transport:
                raise
    return "", rest
