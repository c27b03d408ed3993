"""Options of `inject`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import Options, argument, flag, option, part, required

_PLACE = (
    "a program, a folder of programs, IMAGE[:MOUNT], or a container's image (oci:DIR[:TAG], an "
    "archive of `podman save`, a SIF file)"
)
_SHS = option(
    "RELEASE", "variant of an artefact; left out: the one that fits this machine's libcxi",
    default="",
)  # fmt: skip
_ACCEPT_UNKNOWN = flag("go on when the check cannot tell")


class ProgramOptions(Options):
    """Programs, and how they are started: variables as NAME=VALUE, folders for the loader.

    `root` is where they lie: a folder, or a container's image. `isa` is the level of the processors
    that they will run on, None for this machine's. Without programs it is the root's own command.
    """

    programs: tuple[str, ...] = ()
    library_path: str = option(
        "DIRS", "LD_LIBRARY_PATH that the programs are started with, without an injection",
        default="",
    )  # fmt: skip
    env: tuple[str, ...] = option(
        "NAME=VALUE", "a variable that they are started with: LD_LIBRARY_PATH, LD_PRELOAD, "
        "LD_AUDIT or PYTHONPATH",
    )  # fmt: skip
    root: str = option(
        "DIR|IMAGE", "root of the programs: a folder, oci:DIR[:TAG], an archive of `podman "
        "save`, or a SIF file", default="/",
    )  # fmt: skip
    isa: str | None = option(
        choices.LEVELS,
        "level of the processors that programs will run on; left out: this machine's",
    )


class CheckOptions(Options):
    """What starts the ranks, which share a user namespace, and what compiled the programs."""

    launcher: str = option(
        "NAME|FILE", f"what starts the ranks: {', '.join(choices.LAUNCHERS)}, or an mpiexec file",
        default="",
    )  # fmt: skip
    namespaces: str = option(
        choices.NAMESPACES, "which ranks share a user namespace, in containers without root",
        default="none",
    )  # fmt: skip
    compiled_with: str = option(
        "MPI-RELEASE", "what the programs were compiled with, `mpich-4.3.1`: a constant that is "
        "newer than the injected MPI may be in them; left out: the MPI that they find now",
        default="",
    )  # fmt: skip


class InjectCheckOptions(
    Options,
    run="inject.cli.check:run_check",
    text="say whether programs work with another MPI (or libfabric), and how",
):
    """Programs, what is put under them, and where they would run."""

    programs: tuple[str, ...] = argument(
        "PROGRAM", f"{_PLACE}; left out: the command of the image that --root names", default=()
    )
    replacement: str = option(
        "PREFIX", "what is to be injected: an MPI's prefix, one of `stackproof install`, a folder "
        "of libraries, one library, IMAGE[:MOUNT], or an artefact, of which every level is judged",
        words="--with", default="", must=True,
    )  # fmt: skip
    upgrade: tuple[str, ...] = option(
        "OLD NEW", "say which programs work with OLD and no longer with NEW", excludes="replacement"
    )
    place: CheckOptions = part(CheckOptions)
    tree: bool = flag("show who loads what")
    json: bool = flag("print the judgements as JSON")
    started: ProgramOptions = part(ProgramOptions)
    shs: str = _SHS


class ContainerOptions(Options):
    """What is put into a container, in which form, and what a hook does with it.

    `shs` and `level` choose from an artefact; `hook`, `on_mismatch` and `log` are for hooks alone.
    """

    replacement: str = required(
        "PREFIX", "the MPI's prefix; of an image one of `stackproof install`, or its mount point "
        "within `stackproof start IMAGE`", words="--with",
    )  # fmt: skip
    form: str = required(
        choices.CONTAINER_FORMS, "options of a tool, keys of an EDF, a CDI file, or a hook, which "
        "needs an artefact as PREFIX",
    )  # fmt: skip
    accept_unknown: bool = _ACCEPT_UNKNOWN
    output: str | None = option(
        "FILE", "the file; left out: print it", words="-o --output", output="injection"
    )
    started: ProgramOptions = part(ProgramOptions)
    level: str = option(
        ("mpi", "libfabric", "libcxi"), "what of an artefact is injected; left out: the highest "
        "that it has", default="",
    )  # fmt: skip
    hook: str = option("FILE", f"the hook program; left out: {choices.HOOK}", default=choices.HOOK)
    on_mismatch: str = option(
        ("fail", "skip"), "what the hook does with a container that the artefact does not fit",
        default="fail",
    )  # fmt: skip
    log: str = option("FILE", "where the hook says what it did", default="")
    shs: str = _SHS


class ContainerRequest(
    Options,
    run="inject.cli.check:run_container",
    text="write what puts another MPI into a container, for programs in it",
):
    """A container's programs, and what is put under them."""

    programs: tuple[str, ...] = argument("PROGRAM", "programs in the root")
    container: ContainerOptions = part(ContainerOptions)


class ApplyOptions(
    Options,
    run="inject.cli.apply:run_apply",
    text="put another MPI under programs: into EESSI's override folder, or by start scripts",
):
    """Programs, what is put under them, and where: EESSI's folder, or a folder of start scripts.

    `site` takes EESSI's folder from the environment, and has the site's hook set what the MPI is
    told, and `settings` (NAME=VALUE). `family`, `compiler` and `accelerator` are EasyBuild's names,
    for EESSI alone. `level` and `shs` choose what of an artefact is taken; of anything else,
    `libfabric` takes that alone.
    """

    programs: tuple[str, ...] = argument("PROGRAM", "programs that it is for")
    replacement: str = required(
        "PREFIX", "the MPI's prefix, libfabric's, or one of `stackproof install`; for EESSI also "
        "an image of `stackproof build`, or an artefact, which jobs do not need afterwards",
        words="--with",
    )  # fmt: skip
    eessi: str | None = option(
        "DIR", "fill EESSI's override folder below host_injections/VERSION/software/linux/CPU",
        must=True,
    )  # fmt: skip
    site: bool = flag(
        "fill the override folder of the EESSI that is set up here ($EESSI_SOFTWARE_PATH), and "
        "write the site's Lmod hook, which sets what the MPI must be told", excludes="eessi",
        words="--eessi-here",
    )  # fmt: skip
    wrapper: str | None = option(
        "DIR", "make a folder with scripts that start them", excludes="eessi"
    )
    family: str = option("NAME", "EasyBuild's name of the MPI, if not its own", default="")
    compiler: str = option("NAME", "for example: GCC", default="")
    accelerator: str = option("NAME", "for example: CUDA-12.6.0", default="")
    settings: tuple[str, ...] = option(
        "NAME=VALUE", "with --eessi-here: another variable that the hook sets where the MPI's "
        "module is loaded", words="--set",
    )  # fmt: skip
    level: str = option(
        ("mpi", "libfabric"), "what is injected: `libfabric` leaves programs their MPI; left "
        "out: the MPI, if any", default="",
    )  # fmt: skip
    shs: str = _SHS
    isa: str | None = option(choices.LEVELS, "level of the processors; left out: this machine's")
    accept_unknown: bool = _ACCEPT_UNKNOWN
    dry_run: bool = flag("change nothing: say what would be")
    json: bool = flag("print what was done as JSON")


class ArtefactOptions(
    Options,
    run="inject.cli.artefact:run_artefact",
    text="make an artefact of libfabric, libcxi, xpmem or an MPI, to be injected anywhere",
):
    """Prefixes that become the variants of an artefact, with a release (`shs`) for each or none."""

    prefixes: tuple[str, ...] = argument(
        "PREFIX", "what it is made of: a prefix with libfabric, libcxi, xpmem or an MPI, or "
        "IMAGE[:MOUNT]; several ones become variants, with a `--shs` for each",
    )  # fmt: skip
    output: str = required("FILE|DIR", "NAME.squashfs, or a folder", words="-o --output")
    name: str | None = option("NAME", "its name; left out: that of the output")
    place: str | None = option(
        "DIR", f"where containers see it; left out: {choices.ARTEFACT_FOLDER}/NAME"
    )
    shs: tuple[str, ...] = option(
        "RELEASE", "release of the Slingshot host software that a prefix is for"
    )
    isa: str | None = option(choices.LEVELS, "level of the processors; left out: here")
    json: bool = flag("print what was made as JSON")


class UndoOptions(
    Options,
    run="inject.cli.apply:run_undo",
    text="put back what was there before the last `inject apply`",
):
    """The place of an injection."""

    place: str = argument("PLACE", "the folder that `inject apply` printed")


ACTIONS = {
    "check": InjectCheckOptions,
    "container": ContainerRequest,
    "apply": ApplyOptions,
    "artefact": ArtefactOptions,
    "undo": UndoOptions,
}
