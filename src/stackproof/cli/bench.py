"""`stackproof bench SPEC`: run baseline and challengers, interleaved, then say the verdicts."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stackproof import transports
from stackproof.bench import Arm, BenchSpec, parse_bench, parse_duration, parse_sizes
from stackproof.benchmarks import METRICS
from stackproof.case import Locality
from stackproof.cli import progress
from stackproof.cli.bench_plan import notes, plan_text, planned
from stackproof.comparison import MOST_LAUNCHES
from stackproof.document import schema
from stackproof.errors import Problem, Reason, StackproofError, fail
from stackproof.host import bench_job, signing
from stackproof.host.bench import Bench, prepare, run_bench
from stackproof.host.documents import load
from stackproof.host.results import LAUNCHES
from stackproof.monitor import Monitor
from stackproof.schedulers import REGISTRY

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


def run(args: argparse.Namespace) -> int:
    """Measure and, unless told otherwise, judge; exit code 0 for PASS, 8 for FAIL, else 9."""
    _refuse_mixtures(args)
    if args.sign:
        signing.require_key(args.sign)
    folder = Path(args.resume or args.output or "results")
    monitor = progress.monitor()
    if args.in_job:
        bench_job.work_in_job(folder, monitor)
        return 0
    spec = _changed(bench_job.load(folder) if args.resume else specification(args), args)
    if args.dry_run:
        return _dry_run(spec, folder, as_json=args.json)
    if args.cancel:
        job = bench_job.cancel(folder)
        said = "there is no job to end" if job is None else f"job `{job}` is ended"
        print(said, file=sys.stderr)
        return 0
    for text in notes(spec):
        print(f"note: {text}", file=sys.stderr)
    if REGISTRY[spec.on].queues:
        bench_job.run_as_job(spec, folder, monitor, command=tuple(sys.argv))
    else:
        _measure(prepare(spec), folder, monitor)
    if args.sign:
        signing.sign(folder, args.sign)
    if args.no_verdict:
        print(folder)
        return 0
    from stackproof.cli import compare  # noqa: PLC0415 - numpy only when there is a verdict

    code = compare.judge(folder, as_json=args.json)
    return compare.required(code) if args.require_pass else code


def _measure(bench: Bench, folder: Path, monitor: Monitor) -> None:
    """Make the launches; raises `StackproofError` (INTERRUPTED) that says how to go on."""
    try:
        run_bench(bench, folder, monitor, command=tuple(sys.argv))
    except KeyboardInterrupt:
        launches = bench.launches()
        there = {path.name for path in (folder / LAUNCHES).glob("*.json")}
        done = sum(launch.file_name in there for launch in launches)
        raise fail(
            Reason.INTERRUPTED,
            f"interrupted; {done} of {len(launches)} launches have results in `{folder}`",
            hint="the same command makes the others",
        ) from None


def _dry_run(spec: BenchSpec, folder: Path, *, as_json: bool) -> int:
    """Say what would run; of a batch job the script, whose nodes nobody knows yet."""
    if REGISTRY[spec.on].queues:
        print(bench_job.dry_run(spec, folder), end="")
        for text in notes(spec):
            print(f"note: {text}", file=sys.stderr)
        return 0
    plan = planned(prepare(spec), folder)
    print(json.dumps(plan, indent=2) if as_json else plan_text(plan), end="\n" if as_json else "")
    return 0


def _refuse_mixtures(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if args.no_verdict and args.require_pass:
        raise fail(Reason.USAGE, "`--no-verdict` and `--require-pass` exclude each other")
    if args.resume:
        fixed = {
            "SPEC": args.spec, "--baseline": args.baseline, "--challenger": args.challenger,
            "--launches": args.launches is not None, "--seed": args.seed is not None,
            "--placement": args.placement, "--transport": args.transport, "--ranks": args.ranks,
            "--cluster": args.cluster, "--on": args.on, "--sizes": args.sizes,
            "--benchmarks": args.benchmarks, "--quick": args.quick, "--output": args.output,
            "--until-decided": args.until_decided,
        }  # fmt: skip
        given = [name for name, value in fixed.items() if value]
        if given:
            raise fail(
                Reason.USAGE,
                f"{', '.join(given)} cannot be changed with --resume",
                hint="a results folder keeps its specification",
            )
    elif args.cancel or args.in_job:
        raise fail(Reason.USAGE, "say which results folder with --resume FOLDER")


def _changed(spec: BenchSpec, args: argparse.Namespace) -> BenchSpec:
    """Return the specification with the scheduler's options of the command line."""
    options = dict(spec.scheduler_options)
    for text in args.sbatch_option:
        name, _, value = text.partition("=")
        options[name] = value
    if (options or spec.allocations > 1) and not REGISTRY[spec.on].queues:
        raise fail(
            Reason.USAGE,
            "options of a scheduler, and several allocations, need one",
            hint="say `--on slurm` or `on: slurm`",
        )
    budget = spec.budget_s if args.budget is None else _seconds(args.budget)
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
    return replace(spec, scheduler_options=options, budget_s=budget)


def _seconds(text: str) -> float:
    """Return how long `20m`, `90s` or `1h` is; raises `StackproofError` (USAGE)."""
    try:
        return parse_duration(text)
    except ValueError:
        hint = "for example 90s, 20m or 1h"
        raise fail(Reason.USAGE, f"--budget is `{text}`", hint=hint) from None


def specification(args: argparse.Namespace) -> BenchSpec:
    """Return the specification that the command line names or is.

    Raises `StackproofError` (USAGE, and what a file that is none raises).
    """
    if args.spec:
        short = ("baseline", "challenger", "transport", "ranks", "benchmarks", "sizes", "quick")
        given = [f"--{name}" for name in short if getattr(args, name)]
        if given:
            raise fail(
                Reason.USAGE,
                f"a specification already says what {', '.join(given)} would",
                hint="write it into the specification, or leave SPEC out and give --baseline",
            )
        spec = parse_bench(load(args.spec), folder=os.path.dirname(os.path.abspath(args.spec)))
    elif args.baseline:
        spec = BenchSpec(
            baseline=_arm(args.baseline),
            challengers=_challengers(args),
            **_short_form(args),
        )
    else:
        raise fail(
            Reason.USAGE,
            "nothing to measure",
            hint="give a specification, or --baseline IMAGE --challenger IMAGE",
        )
    return replace(spec, **_changes(args))


def _short_form(args: argparse.Namespace) -> dict[str, Any]:
    """Return what is measured without a specification; raises `StackproofError` (USAGE)."""
    found: dict[str, Any] = dict(_QUICK) if args.quick else {}
    if args.benchmarks:
        names = list(dict.fromkeys(args.benchmarks.split(",")))
        if unknown := [name for name in names if name not in METRICS]:
            near = difflib.get_close_matches(unknown[0], METRICS, n=1)
            raise fail(
                Reason.USAGE,
                f"there is no benchmark `{unknown[0]}`",
                hint=(f"did you mean `{near[0]}`? " if near else "")
                + f"there are: {', '.join(METRICS)}",
            )
        found["benchmarks"] = tuple(names)
    if args.sizes:
        try:
            found["sizes"] = parse_sizes(args.sizes)
        except ValueError:
            raise fail(
                Reason.USAGE,
                f"--sizes is {args.sizes}; these are no message sizes",
                hint="for example `--sizes 8,64KiB,1MiB`, or `--sizes 8..1MiB` for all powers of "
                "two between, the smaller one first",
            ) from None
    return found


def _challengers(args: argparse.Namespace) -> tuple[Arm, ...]:
    """Return an arm for each challenger, or for each of its transports when several are named.

    Raises `StackproofError` (USAGE, and UNSUPPORTED for an unknown transport).
    """
    arms = [_arm(text) for text in args.challenger]
    if not args.transport:
        return tuple(arms)
    names = list(dict.fromkeys(args.transport.split(",")))
    _require_transports(names)
    if not arms:
        raise fail(
            Reason.USAGE,
            "there is no challenger to force on a transport",
            hint="the baseline runs as it is by default; name a challenger with --challenger",
        )
    places = args.placement or [locality.value for locality in Locality]
    inside = tuple(place for place in places if place == Locality.INTRA)
    if not inside and (alone := [name for name in names if name in _ONE_NODE]):
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{alone[0]}` is for ranks of one node, and no placement asked for is",
            hint="add --placement intra-node, or name another transport",
        )
    return tuple(
        replace(
            arm,
            name=f"{arm.name or Path(arm.image).stem}-{name}" if len(names) > 1 else arm.name,
            transports=dict.fromkeys(inside if name in _ONE_NODE else places, name),
            placements=inside if name in _ONE_NODE and len(places) > 1 else (),
        )
        for arm in arms
        for name in names
    )


def _arm(text: str) -> Arm:
    """Return the arm that `[NAME=]IMAGE` means; a file that is called so is an image without NAME.

    Raises `StackproofError` (USAGE) for a name that no specification could have.
    """
    name, mark, image = text.partition("=")
    if not mark or "/" in name or os.path.exists(text):
        return Arm(image=os.path.abspath(text))
    if not re.search(schema("bench")["$defs"]["arm"]["properties"]["name"]["pattern"], name):
        raise fail(
            Reason.USAGE,
            f"`{name}` cannot be the name of an arm",
            hint="it has letters, digits and `.`, `_`, `+`, `-`, as in new=mpich.squashfs",
        )
    return Arm(image=os.path.abspath(image), name=name)


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


def _over_ranks(args: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return the placements for `--ranks`, those with more ranks than CPUs to be validated only.

    The nodes here are namespaces of this machine; those of a scheduler are looked at in the job.
    """
    if not args.ranks:
        return {"placements": tuple(args.placement)} if args.placement else {}
    try:
        counts = sorted({2, *(int(text) for text in args.ranks.split(","))})
    except ValueError:
        counts = []
    places = args.placement or [locality.value for locality in Locality]
    between = Locality.INTER.value in places
    wrong = [n for n in counts if n < 2 or (between and n % 2)]
    if not counts or wrong:
        raise fail(
            Reason.USAGE,
            f"--ranks is {args.ranks}; it must be numbers of ranks from 2 on"
            + (", even ones for two nodes" if between else ""),
            hint="for example --ranks 2,4,8",
        )
    queues = bool(args.on) and REGISTRY[args.on].queues
    room = max(counts) if queues else max(2, len(os.sched_getaffinity(0)))
    few = tuple(n for n in counts if n <= room)
    many = tuple(n for n in counts if n > room)
    if many:
        print(
            f"note: {', '.join(map(str, many))} ranks are more than the {room} CPUs here: what "
            "they receive is checked, and nothing of it is timed",
            file=sys.stderr,
        )
    return {"placements": _grids(places, few), "validated": _grids(places, many)}


def _grids(places: Sequence[str], counts: Sequence[int]) -> tuple[str, ...]:
    return tuple(
        place if count == 2 else f"1x{count}" if place == Locality.INTRA else f"2x{count // 2}"
        for place in places
        for count in counts
    )


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line says in the place of the specification."""
    limits = schema("bench")["properties"]
    for key in ("launches", "seed"):
        value, lowest, highest = getattr(args, key), *_range(limits[key])
        if value is not None and not lowest <= value <= highest:
            raise fail(
                Reason.USAGE,
                f"--{key} is {value}; it must be between {lowest} and {highest}",
                hint=limits[key]["description"],
            )
    changes = {
        "launches": args.launches or (MOST_LAUNCHES if args.until_decided else None),
        "until_decided": args.until_decided or None,
        "seed": args.seed,
        "cluster": args.cluster,
        "on": args.on,
        **_over_ranks(args),
    }
    return {key: value for key, value in changes.items() if value is not None}


def _range(node: dict[str, Any]) -> tuple[int, int]:
    return node["minimum"], node["maximum"]
