"""`stackproof bench SPEC`: run baseline and challengers, interleaved, then say the verdicts."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stackproof import transports
from stackproof.bench import Arm, BenchSpec, parse_bench
from stackproof.case import Locality
from stackproof.cli import progress
from stackproof.document import schema
from stackproof.errors import Problem, Reason, StackproofError, fail
from stackproof.host import bench_job
from stackproof.host.bench import prepare, run_bench
from stackproof.host.documents import load
from stackproof.schedulers import REGISTRY

# Transports that no placement with several nodes can have.
_ONE_NODE = frozenset({"shm"})


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("spec", nargs="?", metavar="SPEC", help="bench specification (YAML)")
    parser.add_argument("--baseline", metavar="IMAGE", help="image of the baseline, without SPEC")
    parser.add_argument(
        "--challenger", metavar="IMAGE", action="append", default=[],
        help="image of a challenger, without SPEC; may be given several times",
    )  # fmt: skip
    parser.add_argument("--launches", type=int, metavar="N", help="launches per arm and placement")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of order and bootstrap")
    parser.add_argument(
        "--placement", action="append", choices=("intra-node", "inter-node"),
        help="only this placement; may be given twice",
    )  # fmt: skip
    parser.add_argument(
        "--transport", metavar="NAME[,NAME]",
        help="paths that the challengers are forced on, without SPEC; with several, each "
        "challenger becomes as many arms; `shm` runs within one node only",
    )  # fmt: skip
    parser.add_argument(
        "--ranks", metavar="N[,N]",
        help="numbers of ranks, without SPEC: beside 2, collectives and the message rate run over "
        "as many; more ranks than CPUs are checked and not timed",
    )  # fmt: skip
    parser.add_argument("--cluster", metavar="NAME", help="cluster of this machine to run on")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER",
        help="results folder; an interrupted bench continues in it (default: results)",
    )  # fmt: skip
    parser.add_argument(
        "--no-verdict", action="store_true", help="only measure; `stackproof compare` judges later"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    _add_scheduling(parser)
    parser.set_defaults(run=run)


def _add_scheduling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("as a batch job")
    group.add_argument(
        "--on", choices=tuple(REGISTRY),
        help="slurm: hand a job in and wait for it; each launch is a step of the job",
    )  # fmt: skip
    group.add_argument(
        "--sbatch-option", metavar="NAME[=VALUE]", action="append", default=[],
        help="an option of sbatch, such as partition=debug; NAME=no takes a default away; may be "
        "given several times",
    )  # fmt: skip
    group.add_argument(
        "--dry-run", action="store_true", help="print the job's script and hand nothing in"
    )
    group.add_argument(
        "--resume", metavar="FOLDER",
        help="continue what was begun in this results folder, without SPEC: wait for its job, or "
        "have the launches made that have no result",
    )  # fmt: skip
    group.add_argument("--cancel", action="store_true", help="with --resume: end the job instead")
    # For the job's own script: not a way for people to start anything.
    group.add_argument("--in-job", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Measure and, unless told otherwise, judge; exit code 8 when a verdict is FAIL."""
    _refuse_mixtures(args)
    folder = Path(args.resume or args.output or "results")
    monitor = progress.monitor()
    if args.in_job:
        bench_job.work_in_job(folder, monitor)
        return 0
    spec = _changed(bench_job.load(folder) if args.resume else specification(args), args)
    if args.dry_run:
        print(bench_job.dry_run(spec, folder), end="")
        return 0
    if args.cancel:
        job = bench_job.cancel(folder)
        said = "there is no job to end" if job is None else f"job `{job}` is ended"
        print(said, file=sys.stderr)
        return 0
    if REGISTRY[spec.on].queues:
        bench_job.run_as_job(spec, folder, monitor, command=tuple(sys.argv))
    else:
        run_bench(prepare(spec), folder, monitor, command=tuple(sys.argv))
    if args.no_verdict:
        print(folder)
        return 0
    from stackproof.cli import compare  # noqa: PLC0415 - numpy only when there is a verdict

    return compare.judge(folder, as_json=args.json)


def _refuse_mixtures(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if args.resume:
        fixed = {
            "SPEC": args.spec, "--baseline": args.baseline, "--challenger": args.challenger,
            "--launches": args.launches is not None, "--seed": args.seed is not None,
            "--placement": args.placement, "--transport": args.transport, "--ranks": args.ranks,
            "--cluster": args.cluster, "--on": args.on,
            "--output": args.output,
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
    return replace(spec, scheduler_options=options)


def specification(args: argparse.Namespace) -> BenchSpec:
    """Return the specification that the command line names or is.

    Raises `StackproofError` (USAGE, and what a file that is none raises).
    """
    if args.spec:
        if args.baseline or args.challenger or args.transport or args.ranks:
            raise fail(
                Reason.USAGE,
                "a specification already names the baseline and the challengers, their "
                "transports and the placements",
                hint="give either SPEC or --baseline, --challenger, --transport and --ranks",
            )
        spec = parse_bench(load(args.spec), folder=os.path.dirname(os.path.abspath(args.spec)))
    elif args.baseline:
        spec = BenchSpec(
            baseline=Arm(image=os.path.abspath(args.baseline)),
            challengers=_challengers(args),
        )
    else:
        raise fail(
            Reason.USAGE,
            "nothing to measure",
            hint="give a specification, or --baseline IMAGE --challenger IMAGE",
        )
    return replace(spec, **_changes(args))


def _challengers(args: argparse.Namespace) -> tuple[Arm, ...]:
    """Return an arm for each challenger, or for each of its transports when several are named.

    Raises `StackproofError` (USAGE, and UNSUPPORTED for an unknown transport).
    """
    paths = [os.path.abspath(path) for path in args.challenger]
    if not args.transport:
        return tuple(Arm(image=path) for path in paths)
    names = list(dict.fromkeys(args.transport.split(",")))
    _require_transports(names)
    if not paths:
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
        Arm(
            image=path,
            name=f"{Path(path).stem}-{name}" if len(names) > 1 else "",
            transports=dict.fromkeys(inside if name in _ONE_NODE else places, name),
            placements=inside if name in _ONE_NODE and len(places) > 1 else (),
        )
        for path in paths
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
        "launches": args.launches,
        "seed": args.seed,
        "cluster": args.cluster,
        "on": args.on,
        **_over_ranks(args),
    }
    return {key: value for key, value in changes.items() if value is not None}


def _range(node: dict[str, Any]) -> tuple[int, int]:
    return node["minimum"], node["maximum"]
