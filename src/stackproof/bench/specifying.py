"""The options of a bench, as words, to the specification that they mean."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stackproof.bench import schedule
from stackproof.bench.amounts import duration_given, parse_sizes
from stackproof.bench.options import BenchOptions
from stackproof.bench.program_spec import programs_of
from stackproof.bench.spec import Arm, BenchSpec, memory_of
from stackproof.compare.model import MOST_LAUNCHES
from stackproof.core.document import schema
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.launch import layout
from stackproof.mpi import transports
from stackproof.results.case import Locality
from stackproof.results.metrics import CORE

# Transports that no placement with several nodes can have.
_ONE_NODE = frozenset({"shm"})

# Of each cost one size: per message, protocol, per byte. Short launches, since there are many.
_QUICK: Mapping[str, Any] = {
    "benchmarks": ("latency", "bandwidth"),
    "sizes": (8, 1 << 10, 64 << 10, 1 << 20),
    "samples": 10,
    "seconds_per_size": 0.01,
    "window": 16,
}


def wait_s(options: BenchOptions) -> float | None:
    """Return the seconds to wait for a quiet machine; raises `StackproofError` (USAGE)."""
    text = options.wait_for_quiet
    return None if text is None else duration_given("--wait-for-quiet", text)


def folder_of(options: BenchOptions) -> Path:
    """Return the results folder."""
    return Path(options.resume or options.output or "results")


def refuse_changes(options: BenchOptions) -> None:
    """Raise `StackproofError` (USAGE) where a folder that is continued would become another."""
    given = options.given("spec", "short")
    if options.resume and given:
        raise fail(
            Reason.USAGE,
            f"{', '.join(given)} cannot be changed with --resume",
            hint="a results folder keeps its specification",
        )


def refuse_short_form(options: BenchOptions) -> None:
    """Raise `StackproofError` (USAGE) where options say what a specification says already."""
    if given := options.given("short"):
        raise fail(
            Reason.USAGE,
            f"a specification already says what {', '.join(given)} would",
            hint="write it into the specification, or leave SPEC out and give --baseline",
        )


def may_stay_here(options: BenchOptions) -> bool:
    """Return true for a short form that names no placement, cluster or job to run on."""
    elsewhere = (options.spec, options.placements, options.cluster, options.on, options.topology)
    return not any(elsewhere)


def scheduled(spec: BenchSpec, options: BenchOptions) -> BenchSpec:
    """Return the specification with the options for its scheduler, and its budget.

    Raises `StackproofError` (USAGE).
    """
    named = dict(spec.scheduler_options)
    for text in options.scheduler_options:
        name, _, value = text.partition("=")
        named[name] = value
    if (named or spec.allocations > 1) and not spec.is_submitted:
        raise fail(
            Reason.USAGE,
            "options of a scheduler, and several allocations, need one",
            hint="say `--on slurm` or `on: slurm`",
        )
    if wait_s(options) is not None and spec.is_submitted:
        raise fail(
            Reason.USAGE,
            "`--wait-for-quiet` is for launches on this machine, and a job waits in its queue",
            hint="leave it out; ask for nodes of your own with `--sbatch-option exclusive`",
        )
    budget = spec.budget_s if options.budget is None else duration_given("--budget", options.budget)
    if budget is not None and not spec.until_decided:
        raise fail(
            Reason.USAGE,
            "a budget is for launches that are made until enough is decided",
            hint="say `--until-decided` too",
        )
    if spec.until_decided and spec.allocations > 1:
        raise fail(
            Reason.USAGE,
            "launches until all is decided are made in one allocation",
            hint="say `allocations: 1`, or leave `--until-decided` out",
        )
    return replace(spec, scheduler_options=named, budget_s=budget)


def short_form(options: BenchOptions) -> dict[str, Any]:
    """Return the specification that the options alone make; raises `StackproofError` (USAGE)."""
    found: dict[str, Any] = dict(_QUICK) if options.quick else {}
    if options.benchmarks:
        names = list(dict.fromkeys(options.benchmarks.split(",")))
        if unknown := [name for name in names if name not in CORE]:
            near = difflib.get_close_matches(unknown[0], CORE, n=1)
            raise fail(
                Reason.USAGE,
                f"there is no benchmark `{unknown[0]}`",
                hint=(f"did you mean `{near[0]}`? " if near else "")
                + f"there are: {', '.join(CORE)}",
            )
        found["benchmarks"] = tuple(names)
    if options.programs:
        names = found.get("benchmarks", ())
        found["programs"] = tuple(
            program
            for name in options.programs
            for program in programs_of({"name": name}, names, "")
        )
    if options.sizes:
        try:
            found["sizes"] = parse_sizes(options.sizes)
        except ValueError:
            raise fail(
                Reason.USAGE,
                f"--sizes is {options.sizes}; these are no message sizes",
                hint="for example `--sizes 8,64KiB,1MiB`, or `--sizes 8..1MiB` for all powers of "
                "two between, the smaller one first",
            ) from None
    if options.memory:
        kinds = options.memory.split(",")
        if len(kinds) > 2 or not set(kinds) <= set(transports.Memory):
            raise fail(
                Reason.USAGE,
                f"--memory is {options.memory}; it must be where both sides' buffers lie",
                hint=f"one of {', '.join(transports.Memory)}, or two of them as in host,cuda",
            )
        found["memory"] = memory_of(kinds)
    return found


def challengers(arms: Sequence[Arm], options: BenchOptions) -> tuple[Arm, ...]:
    """Return an arm for each challenger, or for each of its transports when several are named.

    Raises `StackproofError` (USAGE, and UNSUPPORTED for an unknown transport).
    """
    if not options.transports:
        return tuple(arms)
    names = list(dict.fromkeys(options.transports.split(",")))
    _require_transports(names)
    if not arms:
        raise fail(
            Reason.USAGE,
            "there is no challenger to force on a transport",
            hint="the baseline runs as it is by default; name a challenger with --challenger",
        )
    places = _places(options)
    inside = tuple(place for place in places if schedule.shape(place)[0] == 1)
    if not inside and (alone := [name for name in names if name in _ONE_NODE]):
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{alone[0]}` is for ranks of one node, and no placement asked for is",
            hint="add --placement intra-node, or name another transport",
        )
    return tuple(
        replace(
            arm,
            name=f"{arm.name or arm.label}-{name}" if len(names) > 1 else arm.name,
            transports=dict.fromkeys(inside if name in _ONE_NODE else places, name),
            placements=inside if name in _ONE_NODE and len(places) > 1 else (),
        )
        for arm in arms
        for name in names
    )


def _require_transports(names: Sequence[str]) -> None:
    """Raise `StackproofError` (UNSUPPORTED) with every name that is no transport."""
    problems: list[Problem] = []
    for name in names:
        try:
            transports.get(name)
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)


def _places(options: BenchOptions) -> tuple[str, ...]:
    """Return the placements, each once; raises `StackproofError` (USAGE) with all that are none."""
    ready = tuple(locality.value for locality in Locality)
    names = tuple(dict.fromkeys(options.placements)) or ready
    problems = [
        Problem(
            reason=Reason.USAGE,
            message=f"--placement is `{name}`, which is no placement",
            hint=_placement_hint(name, ready),
        )
        for name in names
        if name not in ready and not layout.is_layout(name)
    ]
    if problems:
        raise StackproofError(*problems)
    return names


def _placement_hint(text: str, ready: Sequence[str]) -> str:
    """Return the meant word, and all words that there are."""
    shape = re.match(r"[1-9]\d{0,3}x[1-9]\d{0,3}(?=-|$)", text)
    known = [*ready, *(layout.names_of(shape[0]) if shape else ())]
    near = difflib.get_close_matches(text, known, n=1)
    return (f"did you mean `{near[0]}`? " if near else "") + (
        f"there are: {', '.join(ready)}; NODESxRANKS such as 2x8; and NODESxRANKS-by-PART, with "
        f"`-packed` and `-membind` behind it or not, where PART is one of {', '.join(layout.By)}"
    )


def _room(options: BenchOptions, cpus: int) -> float:
    """Return the largest number of ranks that are timed."""
    return math.inf if options.on == "slurm" else max(2, cpus)


def _rank_counts(options: BenchOptions) -> list[int]:
    """Return the numbers of ranks, with 2; empty where the text is no list of numbers."""
    try:
        return sorted({2, *(int(text) for text in (options.ranks or "2").split(","))})
    except ValueError:
        return []


def untimed_note(options: BenchOptions, cpus: int) -> str:
    """Return the numbers of ranks that are too many for this machine, empty for none."""
    many = [number for number in _rank_counts(options) if number > _room(options, cpus)]
    if not many:
        return ""
    return (
        f"{', '.join(map(str, many))} ranks are more than the {max(2, cpus)} CPUs here: what "
        "they receive is checked, and nothing of it is timed"
    )


def _over_ranks(options: BenchOptions, cpus: int) -> dict[str, tuple[str, ...]]:
    """Return the placements for `--ranks`, those with more ranks than CPUs to be validated only.

    The nodes here are namespaces of this machine; those of a scheduler are looked at in the job.
    """
    places = _places(options)
    if not options.ranks:
        return {"placements": places} if options.placements else {}
    counts = _rank_counts(options)
    if shapes := [place for place in places if place not in {*Locality}]:
        raise fail(
            Reason.USAGE,
            f"--placement {shapes[0]} says its number of ranks, and so does --ranks",
            hint="leave --ranks out, or say --placement intra-node or inter-node",
        )
    between = Locality.INTER.value in places
    wrong = [n for n in counts if n < 2 or (between and n % 2)]
    if not counts or wrong:
        raise fail(
            Reason.USAGE,
            f"--ranks is {options.ranks}; it must be numbers of ranks from 2 on"
            + (", even ones for two nodes" if between else ""),
            hint="for example --ranks 2,4,8",
        )
    room = _room(options, cpus)
    few = tuple(n for n in counts if n <= room)
    many = tuple(n for n in counts if n > room)
    return {"placements": _grids(places, few), "validated": _grids(places, many)}


def _grids(places: Sequence[str], counts: Sequence[int]) -> tuple[str, ...]:
    return tuple(
        place if count == 2 else f"1x{count}" if place == Locality.INTRA else f"2x{count // 2}"
        for place in places
        for count in counts
    )


def changes(options: BenchOptions, cpus: int) -> dict[str, Any]:
    """Return the words of the options in the place of the specification; raises USAGE.

    `cpus` are those of this machine, which more ranks cannot be timed on.
    """
    limits = schema("bench")["properties"]
    for key in ("launches", "seed"):
        value, lowest, highest = getattr(options, key), *_range(limits[key])
        if value is not None and not lowest <= value <= highest:
            raise fail(
                Reason.USAGE,
                f"--{key} is {value}; it must be between {lowest} and {highest}",
                hint=limits[key]["description"],
            )
    said = {
        "launches": options.launches or (MOST_LAUNCHES if options.until_decided else None),
        "until_decided": options.until_decided or None,
        "equal": options.equal or None,
        "seed": options.seed,
        "cluster": options.cluster,
        "on": options.on,
        **_over_ranks(options, cpus),
    }
    return {key: value for key, value in said.items() if value is not None}


def _range(node: dict[str, Any]) -> tuple[int, int]:
    return node["minimum"], node["maximum"]
