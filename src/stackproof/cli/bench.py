"""`stackproof bench SPEC`: run baseline and challengers, interleaved, then say the verdicts."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from stackproof.bench import Arm, BenchSpec, parse_bench
from stackproof.cli import progress
from stackproof.document import schema
from stackproof.errors import Reason, fail
from stackproof.host.bench import prepare, run_bench
from stackproof.host.documents import load


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
    parser.add_argument("--cluster", metavar="NAME", help="cluster of this machine to run on")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER",
        help="results folder; an interrupted bench continues in it (default: results)",
    )  # fmt: skip
    parser.add_argument(
        "--no-verdict", action="store_true", help="only measure; `stackproof compare` judges later"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure and, unless told otherwise, judge; exit code 8 when a verdict is FAIL."""
    spec = _spec(args)
    folder = Path(args.output or "results")
    run_bench(prepare(spec), folder, progress.monitor(), command=tuple(sys.argv))
    if args.no_verdict:
        print(folder)
        return 0
    from stackproof.cli import compare  # noqa: PLC0415 - numpy only when there is a verdict

    return compare.judge(folder, as_json=args.json)


def _spec(args: argparse.Namespace) -> BenchSpec:
    if args.spec:
        if args.baseline or args.challenger:
            raise fail(
                Reason.USAGE,
                "a specification already names the baseline and the challengers",
                hint="give either SPEC or --baseline and --challenger",
            )
        spec = parse_bench(load(args.spec), folder=os.path.dirname(os.path.abspath(args.spec)))
    elif args.baseline:
        spec = BenchSpec(
            baseline=Arm(image=os.path.abspath(args.baseline)),
            challengers=tuple(Arm(image=os.path.abspath(path)) for path in args.challenger),
        )
    else:
        raise fail(
            Reason.USAGE,
            "nothing to measure",
            hint="give a specification, or --baseline IMAGE --challenger IMAGE",
        )
    limits = schema("bench")["properties"]
    changes: dict[str, object] = {}
    for key in ("launches", "seed"):
        value, lowest, highest = getattr(args, key), *_range(limits[key])
        if value is not None and not lowest <= value <= highest:
            raise fail(
                Reason.USAGE,
                f"--{key} is {value}; it must be between {lowest} and {highest}",
                hint=limits[key]["description"],
            )
    if args.launches is not None:
        changes["launches"] = args.launches
    if args.seed is not None:
        changes["seed"] = args.seed
    if args.cluster is not None:
        changes["cluster"] = args.cluster
    if args.placement:
        changes["placements"] = tuple(args.placement)
    return replace(spec, **changes)  # type: ignore[arg-type]


def _range(node: dict[str, Any]) -> tuple[int, int]:
    return node["minimum"], node["maximum"]
