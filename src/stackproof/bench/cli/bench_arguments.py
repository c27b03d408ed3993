"""Arguments of `bench`."""

from __future__ import annotations

import argparse

from stackproof.build.cli import stacks_arguments
from stackproof.core import choices
from stackproof.core.cli import parsing


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("spec", nargs="?", metavar="SPEC", help="bench specification (YAML)")
    parser.add_argument(
        "--baseline", metavar="[NAME=]IMAGE",
        help="the baseline, without SPEC: an image, a recipe, whose image is built then, "
        "pack:DIR, prefix:DIR, module:NAME[,NAME], vendor, or container:REF@/MPI; NAME is what "
        "tables say",
    )  # fmt: skip
    parser.add_argument(
        "--challenger", metavar="[NAME=]IMAGE", action="append", default=[],
        help="a challenger, without SPEC; may be given several times")  # fmt: skip
    parser.add_argument(
        "--launches", type=int, metavar="N", help="launches per arm and placement (default: 10)"
    )
    parser.add_argument(
        "--until-decided", action="store_true",
        help="look at the results while they come in, and make launches only for points that are "
        "still open; --launches is then the most per arm (default: 40)",
    )  # fmt: skip
    parser.add_argument(
        "--budget", metavar="TIME",
        help="with --until-decided: stop when the timed launches have taken so long in all, such "
        "as 20m or 1h; probes and the launches before them, which only check bytes, are not "
        "counted (default: no limit)",
    )  # fmt: skip
    _add_busy(parser)
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the order of launches (default: 20260101)"
    )
    parser.add_argument(
        "--placement", action="append", metavar="PLACEMENT",
        help="only this placement: intra-node, inter-node, nodes by ranks on each such as 2x8, or "
        "by parts of the nodes such as 2x8-by-gpu or 4x16-by-l3-packed; may be given several times",
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
    _add_short_form(parser)
    _add_swap(parser)
    _add_dry_run(parser)
    parser.add_argument("--cluster", metavar="NAME", help="cluster of this machine to run on")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER",
        help="results folder; an interrupted bench continues in it (default: results)",
    )  # fmt: skip
    parser.add_argument(
        "--no-verdict", action="store_true", help="only measure; `stackproof compare` judges later"
    )
    parsing.add_require_pass(parser)
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")
    _add_scheduling(parser)
    parser.set_defaults(run="bench.cli.bench:run")


def _add_busy(parser: argparse.ArgumentParser) -> None:
    """Add what is done on a busy machine."""
    parsing.add_wait_for_quiet(parser)
    parser.add_argument(
        "--no-give-up", action="store_true",
        help="go on where other programs disturb nearly every launch, so that nothing will be "
        "decided (default: end after a minute or two of that, with the verdict INCONCLUSIVE)",
    )  # fmt: skip


def _add_swap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--swap", dest="swapped", metavar="PACKAGE=NAME[@VERSION]", action="append", default=[],
        help="measure the recipe that the baseline is once more with another package, such as "
        "mpi=mpich, and say whether the two are equal; several words are one swap",
    )  # fmt: skip
    parser.add_argument(
        "--equal", action="store_true",
        help="ask whether challengers are neither slower nor faster than the baseline: PASS is "
        "then equal, and FAIL not equal",
    )  # fmt: skip
    stacks_arguments.add_swap_arguments(parser)


def _add_dry_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true",
        help="measure nothing: check everything, say what would run and about how long it takes; "
        "of a batch job print its script",
    )  # fmt: skip
    parser.add_argument(
        "--topology", metavar="FILE",
        help="with --dry-run: place ranks on nodes like that of this XML (`lstopo --of xml`)",
    )  # fmt: skip


def _add_short_form(parser: argparse.ArgumentParser) -> None:
    """Add what makes a bench without a specification shorter."""
    parser.add_argument(
        "--benchmarks", metavar="NAME[,NAME]",
        help=f"only these, without SPEC: {', '.join(choices.BENCHMARKS)}",
    )  # fmt: skip
    parser.add_argument(
        "--sizes", metavar="SIZE[,SIZE]",
        help="only these message sizes, without SPEC: `8,64KiB,1MiB`, or all powers of two between "
        "two, `8..1MiB` (default: 0..4MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--memory", metavar="KIND[,KIND]",
        help="where message buffers lie, without SPEC: host, cuda or rocm; with two kinds, of the "
        "first and of the second rank (default: host)",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true",
        help="a first answer in minutes, without SPEC: latency and bandwidth at 8 B, 1 KiB, 64 KiB "
        "and 1 MiB, in short launches; --benchmarks and --sizes still say otherwise",
    )  # fmt: skip


def _add_scheduling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("as a batch job")
    group.add_argument(
        "--on", choices=choices.BENCH_ON,
        help="slurm: hand a job in and wait for it; allocation: use the nodes of the Slurm job "
        "that this command runs in, by salloc or in a script of your own",
    )  # fmt: skip
    group.add_argument(
        "--sbatch-option", metavar="NAME[=VALUE]", action="append", default=[],
        help="an option of sbatch, such as partition=debug; NAME=no takes a default away; may be "
        "given several times",
    )  # fmt: skip
    group.add_argument(
        "--resume", metavar="FOLDER",
        help="continue what was begun in this results folder, without SPEC: wait for its job, or "
        "have the launches made that have no result",
    )  # fmt: skip
    group.add_argument(
        "--sign", metavar="KEY",
        help="sign the results with a key of ssh (ssh-keygen -Y), so that nobody can change them "
        "unseen; with --resume also later",
    )  # fmt: skip
    group.add_argument("--cancel", action="store_true", help="with --resume: end the job instead")
    # For the job's own script: not a way for people to start anything.
    group.add_argument("--in-job", action="store_true", help=argparse.SUPPRESS)
