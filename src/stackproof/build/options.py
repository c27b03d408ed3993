"""Options of `check`, `plan`, `build` and others on recipes, and of what builds leave behind."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import Options, argument, flag, option, part, required

SITE = option(
    "SITE", "site file, name of a shipped site, or folder of a cluster configuration as "
    "Stackinator has it; default: this machine",
)  # fmt: skip
FACT = option(
    "NAME=VALUE", "a fact that conditions of the recipe ask for, in the place of what the site "
    "says (architecture=aarch64, gpu=cuda)",
)  # fmt: skip
SWAP = option(
    "PACKAGE=NAME[@VERSION]", "another package, or version, in the place of the recipe's, such as "
    "mpi=mpich@5.0.2; `plan` says how deep that goes: inject, splice or rebuild", words="--with",
)  # fmt: skip
WITH_SOURCE = option("PACKAGE=URL|FILE", "build a package from this source file (EasyBuild, Spack)")
WITH_PATCH = option("PACKAGE=FILE", "change a package's source by this patch (EasyBuild, Spack)")


class RecipeOptions(Options):
    """What recipe is meant, for which machine, and where its sources are.

    `rpms` is the folder of a vendor's packages or a pack of Guix. `swap`, `with_source` and
    `with_patch` are words that change a package of it, as of `--with`.
    """

    recipe: str = argument(
        "RECIPE", "recipe file (YAML), folder of a Stackinator recipe, or name of a shipped "
        "recipe (`stackproof recipe ls`)",
    )  # fmt: skip
    site: str | None = SITE
    fact: tuple[str, ...] = FACT
    swap: tuple[str, ...] = SWAP
    with_source: tuple[str, ...] = WITH_SOURCE
    with_patch: tuple[str, ...] = WITH_PATCH
    mirror: str | None = option(
        "FILE|DIR", "mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror "
        "create`, or for EasyBuild any that has the source files",
    )  # fmt: skip
    rpms: str | None = option(
        "DIR|PACK", "folder with the RPMs of a vendor's MPI, for recipes with `engine: vendor`; "
        "tarball or SquashFS image of `guix pack`, for those with `engine: guix`; default: the "
        "folder that the recipe names, the machine's own Guix", words="--from",
    )  # fmt: skip
    choose: tuple[str, ...] = option(
        "AXIS=CHOICE", "one combination of the recipe's matrix; once for each axis"
    )
    matrix: bool = flag("every combination of the recipe's matrix", excludes="choose")


class BuildOptions(Options):
    """Where a build works, and with what; of `mirror` and `floor` more is said elsewhere."""

    jobs: int | None = option("N", "processes at once; default: all cores", least=1)
    in_memory: str = option(
        choices.YES_NO, "where the build tree lies; auto: in /dev/shm when there is room",
        default="auto",
    )  # fmt: skip
    build_dir: str | None = option("DIR", "folder for the build tree, instead of memory")
    on: str = option(
        choices.SCHEDULERS, "slurm: install the packages on nodes that Slurm gives, or on those of "
        "the job around", default="local",
    )  # fmt: skip
    nodes: int | None = option("N", "with --on slurm: how many nodes; default: 1", least=1)
    cluster: str | None = option("NAME", "with --on slurm: cluster of this machine to ask")
    srun_option: tuple[str, ...] = option(
        "NAME[=VALUE]", "an option of srun, such as partition=debug; NAME=no takes a default "
        "away; may be given several times",
    )  # fmt: skip
    pass_env: tuple[str, ...] = option(
        "NAME", "variable that the recipe's hooks get; may be given several times"
    )
    mirror: str | None = None
    floor: str | None = None


class RecipeCheckOptions(Options, run="build.cli.check:run"):
    """What is checked; `offline` asks no package index."""

    recipe: RecipeOptions = part(RecipeOptions)
    offline: bool = flag("do not ask the package index whether versions exist")
    json: bool = flag("print problems and notes as JSON")


class PlanOptions(Options, run="build.cli.plan:run"):
    """What is planned; `explain` is a key whose origin is wanted instead, `graph` a chart."""

    recipe: RecipeOptions = part(RecipeOptions)
    explain: str | None = option(
        "KEY", "instead of the plan, show which file set a value and what it took the place of: "
        "`environments.tools.specs`, `packages`, `facts.gpu`",
    )  # fmt: skip
    graph: str | None = option(
        ("dot",), "instead of the plan, a chart of what is built on what, as text for Graphviz: "
        "`dot -Tsvg` makes a picture of it; default: the plan", excludes="explain",
    )  # fmt: skip
    output: str | None = option(
        "FILE", "with --graph: the file of the chart; default: print it", words="-o --output",
        output="graph",
    )  # fmt: skip
    json: bool = flag("print stack, lock and steps as JSON")


class BuildRequest(Options, run="build.cli.build:run"):
    """What is to be built, where and how."""

    recipe: RecipeOptions = part(RecipeOptions)
    floor: str | None = option(
        "glibc=RELEASE", "the oldest C library that the image is to run with, such as "
        "glibc=2.31: a build fails that has a file which needs a newer one, and names it (left "
        "out: none is asked for)",
    )  # fmt: skip
    output: str | None = option(
        "FILE", "image to write; default: NAME.squashfs", words="-o --output", output="image"
    )
    update: bool = flag("make a new lock even if the old one is valid")
    locked: bool = flag("fail instead of making or changing a lock")
    stop_after: str | None = option(("lock",), "end when the lock is there, build nothing")
    json: bool = flag("print the result as JSON")
    build: BuildOptions = part(BuildOptions, "builds from source")


class BuildShellOptions(
    Options,
    run="build.cli.shell:run",
    usage="stackproof shell BUILD [--network] [-- COMMAND [ARGUMENT…]]",
    epilog="exit codes: those of the command; 127 when it is not found",
):
    """A build, and the command that is run in its sandbox."""

    build: str = argument(
        "BUILD", "name or id of a build (or how it begins), its folder, or an image that it made"
    )
    network: bool = flag("let the shell use the network of this machine")
    rest: tuple[str, ...] = argument("COMMAND", "what to run; default: bash", rest=True)


class MirrorOptions(
    Options,
    run="build.cli.mirror:run_create",
    text="bring all sources of a locked stack, and the clones it needs, into one folder",
):
    """The folder that is filled, and for which recipes."""

    folder: str = argument("DIR", "new or existing mirror; its files stay")
    recipe: RecipeOptions = part(RecipeOptions)
    json: bool = flag("print the result as JSON")


class ImageListOptions(
    Options,
    run="build.cli.image_ls:run",
    text="list images: those with labels, or those of a folder",
):
    """Which images are listed, and how."""

    places: tuple[str, ...] = argument(
        "IMAGE|FOLDER", "a label, or its first parts; a folder, or a file (default: all labels)",
        default=(),
    )  # fmt: skip
    builds: bool = flag("also those that builds left in the cache")
    names: bool = flag("print the labels alone, one a line")
    json: bool = flag("print the list as JSON")


class PruneOptions(
    Options,
    run="build.cli.image_prune:run",
    text="delete what nobody needs: images without label, interrupted builds in memory, and what "
    "ended commands left; with --all the cache too; never what a running stackproof uses",
    short="delete what is not used",
):
    """What is to be deleted."""

    dry_run: bool = flag("say what would go, delete nothing")
    every: bool = flag("also builds and the rest of the cache", words="--all")
    json: bool = flag("print what went as JSON")


class ContainerfileOptions(
    Options,
    run="build.cli.image:run",
    text="write a Containerfile (Dockerfile) that makes the tree of a locked recipe",
):
    """What the Containerfile is of; `output` is the file."""

    recipe: RecipeOptions = part(RecipeOptions)
    output: str | None = option(
        "FILE", "the file; default: print it", words="-o --output", output="containerfile"
    )
    folder: str | None = option(
        "DIR", "write a folder for a builder, new or empty: a short Containerfile, and for each "
        "component a script and its files (default: one file that has all in it)",
    )  # fmt: skip
    base: str = required("IMAGE", "base image with its digest, NAME[:TAG]@sha256:DIGEST")
    builder_base: str | None = option(
        "IMAGE", "base image of the stage that builds, also with its digest; default: that of "
        "--base",
    )  # fmt: skip
    view: str | None = option("NAME", "view to set; default: the recipe's default")
    package: tuple[str, ...] = option(
        "NAME", "package of the base's archive for the image; may be given several times"
    )
    builder_package: tuple[str, ...] = option(
        "NAME", "package of the base's archive for the stage of tools; may be given several times"
    )


class EdfOptions(
    Options,
    run="build.cli.image_edf:run",
    text="write an environment definition (EDF), with which `srun --environment=FILE` starts a job "
    "in a container",
):
    """What the job's container holds, and what it gets besides; `image` names the container."""

    target: str = argument(
        "RECIPE|IMAGE", "a recipe, of which `image containerfile` made the container; an image of "
        "ours, which is mounted into one; or the image of a container: a SquashFS file, or "
        "REGISTRY#NAME:TAG",
    )  # fmt: skip
    output: str | None = option(
        "FILE", "the file; default: print it", words="-o --output", output="edf"
    )
    image: str | None = option(
        "IMAGE", "the container that is started, a SquashFS file or [REGISTRY#]NAME[:TAG]; needed "
        "for a recipe and for an image of ours (default: RECIPE|IMAGE itself)",
    )  # fmt: skip
    mount: tuple[str, ...] = option(
        "SOURCE[:PLACE[:FLAGS]]", "a folder that the job sees, such as ${SCRATCH}; may be given "
        "several times (default: none)",
    )  # fmt: skip
    workdir: str | None = option("DIR", "where the job begins; default: as the image has it")
    env: tuple[str, ...] = option(
        "NAME=VALUE", "a variable of the job; may be given several times (default: those of the "
        "view)",
    )  # fmt: skip
    annotation: tuple[str, ...] = option(
        "KEY=VALUE", "an annotation, such as com.hooks.aws_ofi_nccl.enabled=true; may be given "
        "several times (default: com.hooks.cxi.enabled=true)",
    )  # fmt: skip
    device: tuple[str, ...] = option(
        "DEVICE", "a name of CDI or a path, or none; may be given several times (default: the "
        "GPUs, where there is a kind of them)",
    )  # fmt: skip
    gpu: str | None = option(
        ("cuda", "rocm"), "the kind of GPUs of the nodes; default: as in the recipe"
    )
    view: str | None = option("NAME", "view to set; default: the default one")
    site: str | None = SITE
    fact: tuple[str, ...] = FACT
    swap: tuple[str, ...] = SWAP


MIRROR_ACTIONS = {"create": MirrorOptions}
IMAGE_ACTIONS = {
    "ls": ImageListOptions,
    "prune": PruneOptions,
    "containerfile": ContainerfileOptions,
    "edf": EdfOptions,
}
