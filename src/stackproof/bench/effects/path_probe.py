"""Probe runs: before anything is timed, each arm says at each placement which path it takes.

What a probe found is stored beside the results, in `probes/`; an interrupted bench uses it again
where images, variables, command line and placement are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.bench import path_verdict, schedule
from stackproof.bench.effects import launching
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.path_verdict import Probed
from stackproof.bench.programs.osu import OSU_TESTS
from stackproof.bench.ready import ReadyArm
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.compare import launch_checks
from stackproof.core import limits, noun
from stackproof.core.command import Completed
from stackproof.core.effects import files
from stackproof.core.effects.run import transcript
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import Value, replace
from stackproof.launch.launchers import labels
from stackproof.mpi import families, path_logs
from stackproof.results.case import Case, Placement
from stackproof.results.model import PROBES
from stackproof.results.path import MessagePaths, Statement

_PROGRAM = "stackproof-bench"
"""The program that tells most of its ranks; another one where an arm does not have it."""
_LONGEST_S = 60.0
# OSU's programs repeat by themselves for minutes on a busy machine; 20 times is their own number
# for large messages of a bandwidth.
_FEW_REPEATS = ("-i", "20")
_SIZES = (8, 64 << 10, 1 << 20)
_ALL_PAIRS = "alltoall"
"""Two ranks meet in `latency`; more of them all meet in this."""
_FEW_RANKS = 8
_MANY_RANKS = 1024
"""Ranks above which all of them exchange no large messages, and none at all."""
_NOT_ASKED = frozenset({"validation", "results", "transport"})
"""Checks of a launch that say nothing of a probe, or that its verdict on the path contains."""


class Probing(Value):
    """Where and for what probes are made; `allocation` is the number of the job's element."""

    spec: BenchSpec
    arms: Arms
    place: LaunchNodes
    folder: Path
    monitor: Monitor
    allocation: int = 0


def probe_all(
    probing: Probing, wanted: Sequence[Launch], placements: Mapping[str, Placement]
) -> dict[tuple[str, str], MessagePaths]:
    """Return what the probe of each arm and placement of these launches found.

    Raises `StackproofError` with every contradiction, and every arm that cannot be run, at once;
    when a node is lost, without going on.
    """
    found: dict[tuple[str, str], MessagePaths] = {}
    problems: list[Problem] = []
    known: dict[str, MessagePaths] = {}
    arms = probing.arms
    first = {(launch.arm, launch.placement): launch for launch in reversed(wanted)}
    # The null arm last: it is the baseline once more, so that it has the same probe.
    for key in sorted(first, key=lambda key: (key[0] == arms.null, first[key].order)):
        if key[0] == arms.null and (arms.baseline, key[1]) not in found:
            continue
        try:
            one = _probed(probing, first[key], placements[key[1]], known)
        except StackproofError as error:
            if error.reason is Reason.NODE_UNREACHABLE:
                raise  # the next ones would wait for the same node
            problems += error.problems
            continue
        known[one.identity] = found[key] = one
        problem = path_verdict.problem_of(one)
        if problem is not None and key[0] != arms.null:
            problems.append(problem)
    if problems:
        raise StackproofError(*problems)
    return found


def _probed(
    probing: Probing, wanted: Launch, placement: Placement, known: Mapping[str, MessagePaths]
) -> MessagePaths:
    """Return the stored probe if it still holds, else a new one, which is stored.

    Raises `StackproofError` when it cannot be run; what is stored then says why.
    """
    ready, name = probing.arms.by_name[wanted.arm], wanted.arm
    program = _PROGRAM if _PROGRAM in ready.deployment.programs else wanted.program
    launch = replace(wanted, order=0, block=0, program=program)
    case = _case(probing, ready, launch, placement)
    identity = _identity(probing.place, ready, case)
    path = probing.folder / PROBES / f"{name}-{placement.name}-{probing.allocation}.json"
    stored = _stored(path, identity) or known.get(identity)
    if stored is None:
        text = f"{name}, {placement.name}, {case.transport}"
        probing.monitor(Event(what="progress", name="probe", text=text))
        stored, problem = _made(probing, ready, launch, case)
        if problem is not None:
            files.write(path, noun.to_json(stored))
            raise StackproofError(problem)
    found = replace(stored, arm=name, identity=identity)
    files.write(path, noun.to_json(found))
    return found


def _case(probing: Probing, ready: ReadyArm, launch: Launch, placement: Placement) -> Case:
    """Return the case of a probe: few messages, but enough to be seen on an interface."""
    ranks = len(placement.ranks)
    all_pairs = (_ALL_PAIRS,) if 2 < ranks <= _MANY_RANKS else ()
    known = schedule.PROGRAM_BENCHMARKS[launch.program]
    osu = launch.program in {test.program for test in OSU_TESTS.values()}
    spec = replace(
        probing.spec,
        programs=tuple(replace(program, benchmarks=()) for program in probing.spec.programs),
        benchmarks=("latency", *all_pairs) if "latency" in known else known[:1],
        sizes=_SIZES if ranks <= _FEW_RANKS and not osu else _SIZES[:-1],
        samples=2,
        seconds_per_size=0.002,
        validate=False,
        timeout_s=min(probing.spec.timeout_s, _LONGEST_S),
    )
    transport = schedule.transport_for(placement, ready.arm.transports)
    case = schedule.case_for(spec, launch, placement, transport)
    options = _FEW_REPEATS if osu else case.options
    return replace(case, fabric=launching.fabric_of(probing.place), options=options)


def _identity(place: LaunchNodes, ready: ReadyArm, case: Case) -> str:
    """Return the digest of all that a probe depends on; another one each time without image."""
    command, patch = launching.launch_command(place, ready, case)
    data = {
        "image": ready.image.sha256 or launching.now(),
        "mounts": [(mount.image, mount.mount_point) for mount in ready.deployment.mounts],
        "argv": command.argv,
        "env": patch.apply({}),
        "placement": noun.to_data(case.placement),
        "transport": case.transport,
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _stored(path: Path, identity: str) -> MessagePaths | None:
    """Return the stored probe if it is of the same kind and found no fault."""
    try:
        text = files.read_bounded(path, limits.SAID, hint="no probe writes as much")
        found = noun.from_json(MessagePaths, text, file=os.fspath(path))
    except StackproofError:
        return None
    holds = found.identity == identity and path_verdict.problem_of(found) is None
    return found if holds and not found.quiet else None


def _made(
    probing: Probing, ready: ReadyArm, launch: Launch, case: Case
) -> tuple[MessagePaths, Problem | None]:
    """Make a probe; where it fails, once more without the settings that make the MPI talk.

    With it comes why that failed as well: no launch could be any better.
    """
    place = probing.place
    talking = families.probe_of(ready.deployment.mpi.family)
    loud = talking.settings if talking else {}
    log = probing.folder / "logs" / f"probe-{launch.arm}-{launch.placement}.log"
    first, problem = _once(place, ready, launch, case, settings=loud, log=log)
    if problem is None or path_verdict.problem_of(first) is not None:
        return first, None  # of one that failed after all on another path, the path says more
    probing.monitor(Event(what="note", name="probe again", text=problem.message))
    aside = log.with_suffix(".quiet.log")
    second, again = _once(place, ready, launch, case, settings={}, log=aside)
    if again is None:
        return replace(second, quiet=problem.message), None
    launching.check_nodes(place, case)
    hints = path_verdict.hints(launching.profile_of(place, ready, case), second.env)
    said = f"; the arm or its view sets {hints}" if hints else ""
    failed = replace(first, checks=second.checks, quiet=problem.message)
    return failed, replace(
        again,
        message=f"{launch.arm}, {launch.placement}: {again.message}{said}",
        hint=f"{again.hint + '; ' if again.hint else ''}the output is in `{log}`",
    )


def _once(
    place: LaunchNodes,
    ready: ReadyArm,
    launch: Launch,
    case: Case,
    *,
    settings: Mapping[str, str],
    log: Path,
) -> tuple[MessagePaths, Problem | None]:
    """Make one launch with settings, its output in a log; return what it showed.

    With it comes why it was none that could tell; the log stays only then, or where it took
    another path.
    """
    facts, started = ready.deployment.mpi, launching.now()
    # What the arm sets itself stays: a variable of its own may be what is looked for.
    talking = replace(ready, arm=replace(ready.arm, env={**settings, **ready.arm.env}))
    done, command, patch = launching.run_once(place, talking, case, labelled=True)
    launcher = launching.starter(place, ready)
    plain = replace(
        done, stdout=_plain(launcher, done.stdout), stderr=_plain(launcher, done.stderr)
    )
    output, found = launching.read_output(ready, case, plain, patch.apply({}))
    probed = Probed(
        family=facts.family,
        case=case,
        profile=launching.profile_of(place, ready, case),
        env=_variables(place, ready, case),
        statements=_statements(facts.family, launcher, done),
        output=output,
    )
    unjudged = MessagePaths(
        arm=launch.arm,
        placement=case.placement,
        transport=case.transport,
        family=facts.family,
        version=facts.version,
        launcher=launcher,
        identity="",
        started=started,
        seconds=done.seconds,
        argv=command.argv,
        settings=settings,
        checks=tuple(one for one in found if one.name not in _NOT_ASKED),
    )
    paths = path_verdict.judged(unjudged, probed)
    problem = launch_checks.first_failure(paths.checks, plain.stderr)
    if problem is not None or path_verdict.problem_of(paths) is not None:
        files.write(log, transcript(done))
    return paths, problem


def _variables(place: LaunchNodes, ready: ReadyArm, case: Case) -> dict[str, str]:
    """Return what a launch sets, without what makes the MPI talk."""
    _, patch = launching.launch_command(place, ready, case)
    return dict(sorted(patch.apply({}).items()))


def _plain(launcher: str, output: bytes) -> bytes:
    return labels.joined(launcher, output.decode(errors="replace")).encode()


def _statements(family: str, launcher: str, done: Completed) -> tuple[Statement, ...]:
    probe = families.probe_of(family)
    if probe is None:
        return ()
    text = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    return path_logs.read(probe.rules, labels.split(launcher, text))
