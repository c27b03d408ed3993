"""Options of `run`, `start`, `activate` and `inspect`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import Options, argument, flag, option, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MpiOptions(Options):
    """Which MPI the programs of a job get, and the path that it takes; both as they are by default.

    `inject` is an image, a folder or a library; `site` says which machine the job will run on.
    """

    inject: str | None = option(
        "IMAGE[:MOUNT]|FOLDER", "put the MPI of this image or folder, or its libfabric, under the "
        "programs; refused when `inject check` would say that it fails",
    )  # fmt: skip
    accept_unknown: bool = flag("with --inject: go on when the check cannot tell")
    transport: str | None = option(
        "NAME", "make the image's MPI use this path: auto, shm, tcp, cxi, lnx, or matched for cxi "
        "with the settings of the vendor's MPI",
    )  # fmt: skip
    memory: str = option(
        ("host", "cuda", "rocm"), "where the buffers of messages lie: the MPI is told what it "
        "needs for those of a GPU, and one that is known to take none is refused (default: host)",
        default="host",
    )  # fmt: skip
    site: str | None = option(
        "SITE", "with --transport: whose fabric it is, a site's name or file (default: this "
        "machine)",
    )  # fmt: skip

    @property
    def path(self) -> str | None:
        """The transport; for buffers of a GPU the MPI's own choice where none is named."""
        return self.transport or ("auto" if self.memory != "host" else None)


class ViewOptions(Options):
    """Views of images, as VIEW or NAME:VIEW; each image has its default view without names."""

    view: tuple[str, ...] = option(
        "V[,V]", "views to use, as VIEW or NAME:VIEW; without it each image's default view"
    )
    no_view: bool = flag("leave the environment as it is")
    allow_variable: tuple[str, ...] = option(
        "NAME[,NAME]", "let views change this variable too, which programs outside of the image "
        "may obey (default: those in STACKPROOF_ALLOW_VARIABLES)",
    )  # fmt: skip

    @property
    def views(self) -> Sequence[str] | None:
        """The names of the views, None where the environment stays as it is."""
        return None if self.no_view else [name for text in self.view for name in text.split(",")]

    def permit(self, environment: Mapping[str, str]) -> frozenset[str]:
        """Return the variables that views may change beside the usual ones."""
        from stackproof.image import view_variables  # noqa: PLC0415 - data alone is read for help

        return view_variables.read_permitted(environment, self.allow_variable)

    def refuse(self) -> None:
        """Raise `StackproofError` (USAGE) for views that are named and not wanted, or no names."""
        wrong = [text for text in self.allow_variable if not text or "=" in text]
        if wrong or (self.view and self.no_view):
            from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - users wait

            if wrong:
                hint = "name it alone: --allow-variable NAME"
                raise fail(Reason.USAGE, f"`{wrong[0]}` is no name of a variable", hint=hint)
            raise fail(Reason.USAGE, "`--view` and `--no-view` exclude each other")


class StartOptions(ViewOptions, run="mount.cli.start:run"):
    """Images, `IMAGE[:MOUNT][,…]`, and how a job is to see them.

    `how` is a name in `mount/effects/methods.py` or `auto`.
    """

    images: str = argument(
        "IMAGE[:MOUNT][,IMAGE…]", "image files and where to mount them; without MOUNT, where the "
        "image was built for",
    )  # fmt: skip
    how: str = option(
        ("auto", "kernel", "helper", "fuse"), "how to mount: by the kernel (as root), by the "
        "site's stackproof-mount or by squashfuse; auto takes the first that is allowed",
        default="auto",
    )  # fmt: skip
    join: str = option(
        ("auto", "yes", "no"), "use the mounts of another process of yours that has the same "
        "images; auto: for ranks of an MPI job, so that all of a node share one mount and can "
        "reach each other", default="auto",
    )  # fmt: skip
    mpi: MpiOptions = part(MpiOptions)
    verbose: bool = flag("say on stderr how it is mounted")


class RunOptions(
    StartOptions,
    run="mount.cli.run:run",
    usage="stackproof run IMAGE[:MOUNT][,IMAGE…] [OPTION…] -- COMMAND [ARGUMENT…]",
    epilog="exit codes: those of the command; 127 when it is not found, 126 when it cannot be "
    "executed; 2, 3, 4 and 6 as everywhere when it was not started",
):
    """Images, and the command that sees them."""

    rest: tuple[str, ...] = argument("COMMAND", "what to run", rest=True, between=True, must=True)


class ActivateOptions(ViewOptions, run="mount.cli.activate:run"):
    """Images, and how what must be mounted and set is printed."""

    images: str = argument(
        "IMAGE[:MOUNT][,IMAGE…]", "image files and where they will be mounted; "
        f"`{choices.NO_IMAGES}` undoes an earlier activation",
    )  # fmt: skip
    no_view: bool = flag("set no variables of views")
    mpi: MpiOptions = part(MpiOptions)
    keep: bool = flag("add to the views of the session or job around, which are undone otherwise")
    json: bool = flag("print it as JSON")
    null: bool = flag("print it for programs", words="-0 --null", excludes="json")


class InspectOptions(
    Options,
    run="mount.cli.inspect:run",
    text="show what an image holds, as the verb `inspect`",
):
    """An image, and what is looked at."""

    image: str = argument("IMAGE", "an image file, or its label")
    json: bool = flag("print what is known as JSON")
    digest: bool = flag("read the whole file and print its SHA-256 too")
    verify: str | None = option(
        "SHA256", "read the whole file, and fail when it is not what was built: by this digest, "
        "or by IMAGE.sha256, which `build` writes; default: damaged data is not searched for",
        bare="",
    )  # fmt: skip
    tree: str | None = option(
        "SHA256", "unpack the image, and fail when its tree is not what the image records, or "
        "has not this digest: that of a tree is one whatever packed it", bare="",
    )  # fmt: skip
    needs: bool = flag(
        "unpack the image, and show what it needs of a machine instead: the newest glibc that a "
        "file asks for, libraries that it does not bring, processors"
    )
    site: str | None = option(
        "SITE", "with --needs: say what of that a machine lacks (exit code 8), or its file does "
        "not tell (9); left out: nothing is compared",
    )  # fmt: skip
    signers: str | None = option(
        "FILE", "whose keys are whose, for what is beside the image (default: as of `image verify`)"
    )


IMAGE_ACTIONS = {"inspect": InspectOptions}
