"""Options of `bench` and `import`."""

from __future__ import annotations

from stackproof.build import options as build_options
from stackproof.core import choices
from stackproof.core.options import (
    REQUIRE_PASS,
    WAIT_FOR_QUIET,
    Options,
    argument,
    flag,
    option,
    required,
)

_BATCH = "as a batch job"


class BenchOptions(Options, run="bench.cli.bench:run"):
    """What `stackproof bench` is asked for, in its own words; `stackproof bench --help` has them.

    `spec` is a file. Without it `baseline` and `challengers` are `[NAME=]IMAGE`, and `transports`,
    `ranks`, `benchmarks` and `sizes` lists with commas. What is None or empty is not said, and the
    specification's own holds. `resume` is a results folder that keeps what it was begun with.

    Of the topic `spec` is what a specification says, of `short` what makes one unnecessary.
    """

    spec: str | None = argument("SPEC", "bench specification (YAML)", default=None, topic="spec")
    baseline: str | None = option(
        "[NAME=]IMAGE", "the baseline, without SPEC: an image, a recipe, whose image is built "
        "then, pack:DIR, prefix:DIR, module:NAME[,NAME], vendor, or container:REF@/MPI; NAME is "
        "what tables say", topic="short",
    )  # fmt: skip
    challengers: tuple[str, ...] = option(
        "[NAME=]IMAGE", "a challenger, without SPEC; may be given several times",
        words="--challenger", topic="short",
    )  # fmt: skip
    launches: int | None = option("N", "launches per arm and placement (default: 10)", topic="spec")
    until_decided: bool = flag(
        "look at the results while they come in, and make launches only for points that are still "
        "open; --launches is then the most per arm (default: 40)", topic="spec",
    )  # fmt: skip
    budget: str | None = option(
        "TIME", "with --until-decided: stop when the timed launches have taken so long in all, "
        "such as 20m or 1h; probes and the launches before them, which only check bytes, are "
        "not counted (default: no limit)",
    )  # fmt: skip
    wait_for_quiet: str | None = WAIT_FOR_QUIET
    no_give_up: bool = flag(
        "go on where other programs disturb nearly every launch, so that nothing will be decided "
        "(default: end after a minute or two of that, with the verdict INCONCLUSIVE)"
    )
    seed: int | None = option(
        "N", "seed of the order of launches (default: 20260101)", topic="spec"
    )
    placements: tuple[str, ...] = option(
        "PLACEMENT", "only this placement: intra-node, inter-node, nodes by ranks on each such "
        "as 2x8, or by parts of the nodes such as 2x8-by-gpu or 4x16-by-l3-packed, with `-membind` "
        "for memory of the rank's own NUMA node only; may be given several times "
        "(default: as SPEC has them)", words="--placement", topic="spec",
    )  # fmt: skip
    transports: str | None = option(
        "NAME[,NAME]", "paths that the challengers are forced on, without SPEC; with several, "
        "each challenger becomes as many arms; `shm` runs within one node only",
        words="--transport", topic="short",
    )  # fmt: skip
    ranks: str | None = option(
        "N[,N]", "numbers of ranks, without SPEC: beside 2, collectives and the message rate run "
        "over as many; more ranks than CPUs are checked and not timed", topic="short",
    )  # fmt: skip
    benchmarks: str | None = option(
        "NAME[,NAME]", f"only these, without SPEC: {', '.join(choices.BENCHMARKS)}", topic="short"
    )
    programs: tuple[str, ...] = option(
        choices.PROGRAMS, "only this program, without SPEC: IMB-MPI1 and OSU are those that the "
        "arms bring, by `programs` of their recipes; may be given several times (default: "
        "stackproof-bench)", words="--program", topic="short",
    )  # fmt: skip
    sizes: str | None = option(
        "SIZE[,SIZE]", "only these message sizes, without SPEC: `8,64KiB,1MiB`, or all powers "
        "of two between two, `8..1MiB` (default: 0..4MiB)", topic="short",
    )  # fmt: skip
    memory: str | None = option(
        "KIND[,KIND]", "where message buffers lie, without SPEC: host, cuda or rocm; with two "
        "kinds, of the first and of the second rank (default: host)", topic="short",
    )  # fmt: skip
    quick: bool = flag(
        "a first answer in minutes, without SPEC: latency and bandwidth at 8 B, 1 KiB, 64 KiB and "
        "1 MiB, in short launches, and within this machine alone where no cluster is up; "
        "--benchmarks, --sizes and --placement still say otherwise", topic="short",
    )  # fmt: skip
    swapped: tuple[str, ...] = option(
        "PACKAGE=NAME[@VERSION]", "measure the recipe that the baseline is once more with another "
        "package, such as mpi=mpich, and say whether the two are equal; several words are one "
        "swap", words="--swap",
    )  # fmt: skip
    equal: bool = flag(
        "ask whether challengers are neither slower nor faster than the baseline: PASS is then "
        "equal, and FAIL not equal", topic="spec",
    )  # fmt: skip
    swap: tuple[str, ...] = build_options.SWAP
    with_source: tuple[str, ...] = build_options.WITH_SOURCE
    with_patch: tuple[str, ...] = build_options.WITH_PATCH
    dry_run: bool = flag(
        "measure nothing: check everything, say what would run and about how long it takes; of a "
        "batch job print its script"
    )
    topology: str | None = option(
        "FILE", "with --dry-run: place ranks on nodes like that of this XML (`lstopo --of xml`)"
    )
    cluster: str | None = option("NAME", "cluster of this machine to run on", topic="spec")
    output: str | None = option(
        "FOLDER", "results folder; an interrupted bench continues in it (default: results)",
        words="-o --output", topic="spec",
    )  # fmt: skip
    no_verdict: bool = flag("only measure; `stackproof compare` judges later")
    require_pass: bool = REQUIRE_PASS
    json: bool = flag("print the comparison as JSON")
    on: str | None = option(
        choices.BENCH_ON, "slurm: submit a batch job, and exit with 9, as nothing is decided yet; "
        "allocation: use the nodes of the Slurm job that this command runs in, by salloc or in a "
        "script of your own", topic="spec", group=_BATCH,
    )  # fmt: skip
    scheduler_options: tuple[str, ...] = option(
        "NAME[=VALUE]", "an option of sbatch, such as partition=debug; NAME=no takes a default "
        "away; may be given several times", words="--sbatch-option", group=_BATCH,
    )  # fmt: skip
    resume: str | None = option(
        "FOLDER", "continue what was begun in this results folder, without SPEC: have the "
        "launches made that have no result, and judge", group=_BATCH,
    )  # fmt: skip
    # for the job's own script: not a way for people to start anything
    in_job: bool = flag("", group=_BATCH)


class ImportOptions(Options, run="bench.cli.import_:run"):
    """Files of one placement, as `[ARM=]FILE`, and what is known of how they were measured.

    `output` is the results folder, to which `add` adds. `ranks`, `nodes` and `distribution` are
    those of `import_places.ImportSetup`, `site` one whose link limit counts between nodes.
    """

    files: tuple[str, ...] = argument(
        "[ARM=]FILE", "output of OSU (5.9 to 7.5) or IMB-MPI1 (2018 to 2021.11); "
        "the n-th table of a benchmark in an arm goes with the n-th of the others; `-` is standard "
        "input",
    )  # fmt: skip
    output: str = required("FOLDER", "results folder to write", words="-o --output")
    placement: str = required(
        choices.PLACEMENTS, "where the ranks of these runs were; it is not read off the numbers"
    )
    memory: str = option(
        choices.BUFFERS, "where the message buffers were (default: host)",
        default=choices.BUFFERS[0],
    )  # fmt: skip
    ranks: int | None = option(
        "N", "all ranks of these runs, needed for collectives of OSU, which do not print it; "
        "tests that say themselves that fewer took part keep their own number",
    )  # fmt: skip
    nodes: int | None = option(
        "N", "nodes that all ranks were on, as many on each (default: 1, or 2 for inter-node)"
    )
    distribution: str | None = option(
        choices.DISTRIBUTIONS, "how ranks were dealt to several nodes: a node filled before the "
        "next, or in turn; needed for tests of IMB in which other processes waited, which are left "
        "out without it",
    )  # fmt: skip
    arm: str = option(
        "NAME", f"the arm of files that name none (default: {choices.IMPORTED})",
        default=choices.IMPORTED,
    )  # fmt: skip
    add: bool = flag(
        "add to results that were imported before; further tables of an arm become further launches"
    )
    baseline: str | None = option("ARM", "the arm to compare with (default: first)")
    name: str = option("NAME", "name of the results (default: import)", default="import")
    site: str | None = option("SITE", "site whose link limit counts between nodes")
    transport: str = option(
        "NAME", "the path that these runs were forced on, such as lnx; arms by different paths "
        "are compared in the report's section on transports", default="auto",
    )  # fmt: skip
