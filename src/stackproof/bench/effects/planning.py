"""What a results folder is made for, and what it says of itself and of its machine."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import stackproof
from stackproof.bench import schedule as schedules
from stackproof.bench.effects import arms as bench_arms
from stackproof.bench.effects import compiled_programs, deciding, launching
from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.mpi.effects import fabric
from stackproof.results.case import Placement
from stackproof.results.effects import record
from stackproof.results.measurement import Measurement
from stackproof.results.model import ASKED, LAUNCHES, SET_ASIDE, ResultsSpec

_LONGEST_CUT = dt.timedelta(hours=1)
"""A block that was cut longer ago is made again: its launches belong to one time."""


def with_work(spec: BenchSpec, arms: Arms) -> Arms:
    """Return arms with every program of a specification, compiled where they do not bring it.

    Raises what `compiled_programs.with_programs` and `schedule` raise.
    """
    arms = compiled_programs.with_programs(arms, spec.programs)
    schedule(spec, arms)
    return arms


def schedule(spec: BenchSpec, arms: Arms) -> tuple[Launch, ...]:
    """Return every launch of a specification in order.

    Raises `StackproofError` (NOTHING_RAN) for an arm, a program or a placement that has none:
    programs with sources must be compiled already.
    """
    where = {name: ready.arm.placements for name, ready in arms.by_name.items()}
    launches = schedules.schedule(spec, arms.programs, where)
    if problems := tuple(_idle(spec, arms, launches)):
        raise StackproofError(*problems)
    return launches


def _idle(spec: BenchSpec, arms: Arms, launches: Sequence[Launch]) -> Iterator[Problem]:
    timed = [launch for launch in launches if launch.block]
    names = {launch.arm for launch in timed}
    programs = {launch.program for launch in timed}
    placements = {launch.placement for launch in timed}
    for program in dict.fromkeys(one.name for one in spec.programs if one.name not in programs):
        yield _problem(
            f"no arm would run `{program}`",
            f"the arms have: {', '.join(sorted(set().union(*arms.programs.values()))) or 'none'}; "
            "`source` names what a program is compiled from",
        )
    for entry in spec.placements if programs else ():
        if schedules.name_of(entry) not in placements:
            yield _problem(
                f"no arm would run at `{schedules.name_of(entry)}`",
                "leave it out of `placements`, or name it for an arm",
            )
    for name in (arms.baseline, *arms.challengers) if programs else ():
        if name not in names:
            yield _problem(
                f"`{name}` would run nothing",
                f"it has: {', '.join(sorted(arms.programs[name])) or 'no program'}; and it runs "
                f"at: {', '.join(arms.by_name[name].arm.placements) or 'all placements'}",
            )


def _problem(message: str, hint: str) -> Problem:
    return Problem(reason=Reason.NOTHING_RAN, message=message, hint=hint)


def require_launches(launches: Sequence[Launch], folder: Path) -> None:
    """Raise `StackproofError` (NOTHING_RAN) where no launch that is compared has a result."""
    if not any((folder / LAUNCHES / one.file_name).exists() for one in launches if one.block):
        raise fail(
            Reason.NOTHING_RAN,
            f"no launch was timed in `{folder}`",
            hint=f"give it more time with `stackproof bench --resume {folder} --budget DURATION`",
        )


def identity(spec: BenchSpec, arms: Arms) -> str:
    """Return the text by which a results folder knows its specification and its images.

    How a scheduler was asked for nodes is no part of it, nor the budget: more time may be asked
    for to continue.
    """
    return noun.to_json(
        {
            "spec": noun.to_data(replace(spec, scheduler_options={}, budget_s=None)),
            "images": {name: ready.image.sha256 for name, ready in arms.by_name.items()},
            **compiled_programs.identity(arms, spec.programs),
        }
    )


def claim(spec: BenchSpec, arms: Arms, folder: Path) -> None:
    """Take a results folder, or make sure that it belongs to the same specification."""
    record.refuse_links(folder)
    marker, text = folder / ASKED, identity(spec, arms)
    if marker.exists():
        if files.read_bounded(marker, limits.RESULTS) != text.encode():
            raise fail(
                Reason.USAGE,
                f"`{folder}` holds results of another specification or of other images",
                detail=_describe_differences(folder, spec),
                hint="choose another folder with -o, or remove it",
            )
        return
    files.check_empty(folder)
    files.write(marker, text)


def _describe_differences(folder: Path, spec: BenchSpec) -> str | None:
    """Return the arms of a results folder and those asked for; None where they are the same."""
    with contextlib.suppress(StackproofError):  # another version may have written it
        there, here = (
            " with ".join(f"`{arm.asked}`" for arm in (each.baseline, *each.challengers))
            for each in (load_spec(folder), spec)
        )
        return f"it compares {there}, and not {here}" if there != here else None
    return None


def load_spec(folder: Path) -> BenchSpec:
    """Return the specification that a results folder was made for.

    Raises `StackproofError` (FILE_MISSING and what a broken file raises).
    """
    record.refuse_links(folder)
    marker = folder / ASKED
    try:
        text = files.read_bounded(marker, limits.RESULTS)
    except StackproofError as error:
        raise fail(
            Reason.FILE_MISSING,
            f"`{folder}` is not a results folder that can be continued: no `{ASKED}`",
            where=Location(file=os.fspath(marker)),
            hint="give the folder that `stackproof bench` was writing",
        ) from error
    whole = noun.from_json(dict[str, Any], text, file=os.fspath(marker))
    return noun.from_data(BenchSpec, whole.get("spec"), file=os.fspath(marker))


def set_aside(
    placements: Mapping[str, Placement], launches: Sequence[Launch], folder: Path
) -> None:
    """Move the launches of a block that was cut, on other nodes or long ago, out of the results.

    Arms of one block are compared with each other, so all of them must have run on the same
    nodes, one after the other. Whole blocks stay as they are.
    """
    groups: dict[tuple[int, str, str], list[Path]] = {}
    for launch in launches:
        key = (launch.block, launch.placement, launch.program)
        groups.setdefault(key, []).append(folder / LAUNCHES / launch.file_name)
    for (_, name, _), paths in groups.items():
        done = [path for path in paths if path.exists()]
        if not done or len(done) == len(paths):
            continue
        here = placements[name].nodes
        made = [record.load_launch(path) for path in done]
        if any(one.case.placement.nodes != here or _long_ago(one) for one in made):
            for path in done:
                path.rename(free_name(folder / SET_ASIDE, path.name))


def _long_ago(one: Measurement) -> bool:
    """Return whether a launch is too old to be compared with one that is made now."""
    began = dt.datetime.fromisoformat(one.started)
    return dt.datetime.now(dt.UTC) - began > _LONGEST_CUT


def free_name(folder: Path, name: str) -> Path:
    """Return a path for a file that replaces none: a block may be cut several times."""
    folder.mkdir(exist_ok=True)
    path, number = folder / name, 1
    while path.exists():
        number += 1
        path = folder / f"{Path(name).stem}-{number}.json"
    return path


def results_spec(
    spec: BenchSpec,
    arms: Arms,
    place: LaunchNodes,
    placements: Mapping[str, Placement],
    command: tuple[str, ...],
) -> ResultsSpec:
    """Return the content of `bench.json` for a bench."""
    rate = place.rate_mb_s
    links: dict[str, dict[str, object]] = {}
    for name, placement in placements.items():
        if rate is not None and len(placement.nodes) > 1:
            links[name] = {"MB/s": rate, "source": "the rate that the cluster's links were given"}
    return ResultsSpec(
        name=spec.name,
        baseline=arms.baseline,
        challengers=arms.challengers,
        null=arms.null,
        margins=dict(spec.margins),
        launches=spec.launches,
        looks=deciding.looks_of(spec),
        equal=spec.equal,
        seed=spec.seed,
        created=launching.now(),
        arms={name: bench_arms.compared(ready) for name, ready in arms.by_name.items()},
        host=facts_of(place),
        limits=links,
        command=command,
        stackproof=stackproof.__version__,
        versions={"python": platform.python_version()},
    )


def machine() -> dict[str, str]:
    """Return the facts of the machine that compared launches must share."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    uname = os.uname()
    return {"cpu": model, "kernel": f"{uname.sysname} {uname.release}", "machine": uname.machine}


def facts_of(place: LaunchNodes) -> dict[str, str]:
    """Return the facts of the machine for the results."""
    # In a job this is one of its nodes; those of a cluster on one machine use none of its NICs.
    joined = "" if place.one_machine else fabric.seen_here()
    return {
        **({"fabric": joined} if joined else {}),
        **machine(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "load at start": " ".join(f"{value:.2f}" for value in os.getloadavg()),
        **place.facts,
    }
