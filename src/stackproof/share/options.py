"""Options of `image`: labels, signatures, and what speaks with a registry."""

from __future__ import annotations

from stackproof.core.options import Options, argument, flag, option, part

_REMOTE = "[NS::]LABEL"
_WHOLE = "NS::LABEL"
_JSON = flag("print what was done as JSON")
_TAKEN = flag("take the label from another image, which `history` keeps")


class ImageAddOptions(
    Options,
    run="share.cli.image:run_add",
    text="give an image a label, and put it into your repository",
):
    """An image and its label."""

    label: str = argument(
        "LABEL", "name/version:tag@system%%uarch; without system that of CLUSTER_NAME, or `here`; "
        "without uarch what the image was built for",
    )  # fmt: skip
    image: str = argument("IMAGE", "an image file, or a label that it has already")
    move: bool = flag("take the file away from where it is, once it is there")
    force: bool = flag("give the label to this image though another has it")
    json: bool = flag("print the record as JSON")


class ImageRemoveOptions(
    Options,
    run="share.cli.image:run_rm",
    text="take labels away; an image goes with its last one",
):
    """Labels that go."""

    labels: tuple[str, ...] = argument(
        "LABEL", "a label, in full unless a terminal is asked; an id or a digest takes all labels "
        "of the image",
    )  # fmt: skip
    yes: bool = flag("do not ask: each label is then given in full, or by id")
    json: bool = flag("print what went as JSON")


class ImageCheckOptions(
    Options,
    run="share.cli.image:run_fsck",
    text="check your repository: files that are gone, changed, unfinished or without label",
):
    """How the repository is checked."""

    digests: bool = flag("also read every image, and compare its SHA-256")
    repair: bool = flag("forget labels whose image is gone, and delete what ended commands left")
    json: bool = flag("print what is wrong as JSON")


class ImageSignOptions(
    Options,
    run="share.cli.trust:run_sign",
    text="sign an image with a key of ssh: its content, metadata, label, date and verdicts",
):
    """An image, what it is signed as, and the key."""

    image: str = argument("IMAGE", "a label, or an image file")
    key: str | None = option(
        "FILE", "a private key of ssh, or the public one of a key that an agent holds (default: "
        "the first of ~/.ssh)",
    )  # fmt: skip
    label: str | None = option("LABEL", "sign it as this, with all five parts; needed for a file")
    namespace: str = option("NAME", "sign it for this namespace of a registry", default="")
    json: bool = flag("print what was signed as JSON")


class ImageVerifyOptions(
    Options,
    run="share.cli.trust:run_verify",
    text="say who signed an image, whether it is still what was signed, and what this site's "
    "policy makes of it",
):
    """Images whose signatures are looked at."""

    images: tuple[str, ...] = argument(
        "IMAGE", "labels, or image files; with --record none: look again at all that were "
        "recorded", default=(),
    )  # fmt: skip
    signers: str | None = option(
        "FILE", "whose keys are whose, as ssh-keygen(1) has it (default: "
        "/etc/stackproof/allowed_signers, else ~/.ssh/allowed_signers)",
    )  # fmt: skip
    record: bool = flag(
        "as root: write down that the image may be mounted, for stackproof-mount and the plug-in "
        "for Slurm"
    )
    json: bool = flag("print what was found as JSON")


class RemoteOptions(Options):
    """An address in the place of the variable's; certificates, and who the user is, as files."""

    registry: str = option(
        "ADDRESS", "the registry, such as registry.example.org/images (default: "
        "STACKPROOF_REGISTRY)", default="",
    )  # fmt: skip
    certificates: str = option(
        "FILE", "certificate authorities to believe as well (default: the system's alone)",
        words="--ca", default="",
    )  # fmt: skip
    token: str = option(
        "PATH", "a file with a token, or a folder with a file TOKEN (default: what `podman login` "
        "or `docker login` keep)", default="",
    )  # fmt: skip
    username: str = option("NAME", "whose token it is (default: your login)", default="")


class ImageFindOptions(
    Options, run="share.cli.remote:run_find", text="list the images of a registry"
):
    """The beginning of a label, and whether a list is believed."""

    label: str = argument(
        _REMOTE, "a label, or its first parts; the namespace is `deploy` if left out", default=""
    )
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    fresh: bool = flag("ask for every tag, and believe no list")
    known: bool = flag(
        "ask nobody: what it had when it was last listed from here; without a label, of all "
        "namespaces", excludes="fresh",
    )  # fmt: skip
    names: bool = flag("print the labels alone, one a line")


class ImagePullOptions(
    Options,
    run="share.cli.remote:run_pull",
    text="bring an image of a registry into your repository",
):
    """An image that is brought here."""

    label: str = argument(_REMOTE, "a label that means one image, an id or a digest")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    force: bool = flag("give the label to this image though another has it")


class ImageHistoryOptions(
    Options,
    run="share.cli.remote:run_history",
    text="list the images that a label of a registry has been of",
):
    """A label that has a past."""

    label: str = argument(_WHOLE, "a label that means one image")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON


class ImagePushOptions(
    Options, run="share.cli.remote:run_push", text="put an image into a registry, with its meta"
):
    """An image that is brought into a registry."""

    image: str = argument("IMAGE", "an image file, or a label of your repository")
    label: str = argument(_WHOLE, "where to; of an image with a label `NS::` is enough")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    force: bool = _TAKEN


class ImageCopyOptions(
    Options,
    run="share.cli.remote:run_copy",
    text="give an image of a registry a label in another namespace",
):
    """Two labels of an image."""

    source: str = argument(_WHOLE, "a label that means one image")
    target: str = argument(_WHOLE, "where to; parts that are left out are the source's")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    force: bool = _TAKEN


class ImageDeleteOptions(
    Options,
    run="share.cli.remote:run_delete",
    text="delete an image of a registry, with all that is attached to it",
):
    """An image that goes."""

    label: str = argument(_WHOLE, "the label, in full")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    force: bool = flag("also where the image has further labels: they go, too")


class ImageRollbackOptions(
    Options,
    run="share.cli.remote:run_rollback",
    text="make a label of a registry that of a former image again",
):
    """A label, and the image that it had."""

    label: str = argument(_WHOLE, "the label, in full")
    remote: RemoteOptions = part(RemoteOptions)
    json: bool = _JSON
    to: str = option(
        "ID", "an id, a digest or a time of `history` (default: the image before)", default=""
    )


ACTIONS = {
    "add": ImageAddOptions,
    "rm": ImageRemoveOptions,
    "fsck": ImageCheckOptions,
    "sign": ImageSignOptions,
    "verify": ImageVerifyOptions,
}
REMOTE_ACTIONS = {
    "find": ImageFindOptions,
    "pull": ImagePullOptions,
    "history": ImageHistoryOptions,
    "push": ImagePushOptions,
    "copy": ImageCopyOptions,
    "delete": ImageDeleteOptions,
    "rollback": ImageRollbackOptions,
}
