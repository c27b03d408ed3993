"""Arguments of `inject`."""

from __future__ import annotations

import argparse

from stackproof.core import choices
from stackproof.core.cli.parsing import add_output
from stackproof.inject.cli import apply_arguments, artefact_arguments, hook_arguments


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--target",
        metavar="FACTS",
        help="the machine that programs will run on, where that is another one: the name or file "
        "of a site, or a manifest that was written there; left out: this machine",
    )


_PLACE = (
    "a program, a folder of programs, IMAGE[:MOUNT], a container's image (oci:DIR[:TAG], an "
    "archive of `podman save`, a SIF file), or a manifest"
)


def configure(
    parser: argparse.ArgumentParser,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Add the verb's actions and their arguments; return what further actions are added to."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "say whether programs work with another MPI (or libfabric), and how"
    check = actions.add_parser("check", help=text, description=text)
    _configure_check(check)

    text = "write what an MPI or programs provide and need, for checks on another machine"
    manifest = actions.add_parser("manifest", help=text, description=text)
    manifest.add_argument("place", metavar="PLACE", help=f"an MPI's prefix, {_PLACE}")
    add_output(
        manifest, "manifest", "-o", "--output", metavar="FILE", help="the file; left out: print it"
    )
    _add_setting(manifest)
    manifest.set_defaults(run="inject.cli.check:run_manifest")

    text = "write what puts another MPI into a container, for programs in it"
    container = actions.add_parser("container", help=text, description=text)
    _configure_container(container)
    text = "put another MPI under programs: into EESSI's override folder, or by start scripts"
    apply = actions.add_parser("apply", help=text, description=text)
    apply_arguments.configure_apply(apply)
    text = "make an artefact of libfabric, libcxi, xpmem or an MPI, to be injected anywhere"
    artefact = actions.add_parser("artefact", help=text, description=text)
    artefact_arguments.configure_artefact(artefact)
    text = "put back what was there before the last `inject apply`"
    undo = actions.add_parser("undo", help=text, description=text)
    apply_arguments.configure_undo(undo)
    return actions


def _configure_check(check: argparse.ArgumentParser) -> None:
    text = f"{_PLACE}; left out: the command of the image that --root names"
    check.add_argument("programs", metavar="PROGRAM", nargs="*", help=text)
    target = check.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--with",
        dest="replacement",
        metavar="PREFIX",
        help="what is to be injected: an MPI's prefix, a folder of libraries, one library, "
        "IMAGE[:MOUNT], a manifest, or an artefact, of which every level is judged",
    )
    target.add_argument(
        "--upgrade",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="say which programs work with OLD and no longer with NEW",
    )
    check.add_argument(
        "--launcher",
        metavar="NAME|FILE",
        default="",
        help=f"what starts the ranks: {', '.join(choices.LAUNCHERS)}, or an mpiexec file",
    )
    check.add_argument(
        "--namespaces",
        choices=choices.NAMESPACES,
        default="none",
        help="which ranks share a user namespace, in containers without root",
    )
    check.add_argument("--tree", action="store_true", help="show who loads what, for every program")
    check.add_argument("--json", action="store_true", help="print the judgements as JSON")
    _add_setting(check)
    artefact_arguments.add_variant(check)
    add_target(check)
    check.set_defaults(run="inject.cli.check:run_check")


def _configure_container(container: argparse.ArgumentParser) -> None:
    container.add_argument("programs", metavar="PROGRAM", nargs="+", help="programs in the root")
    container.add_argument(
        "--with",
        dest="replacement",
        metavar="PREFIX",
        required=True,
        help="the MPI's prefix, a folder; of an image within `stackproof start IMAGE`",
    )
    container.add_argument(
        "--form",
        choices=choices.CONTAINER_FORMS,
        required=True,
        help="options of a tool, keys of an EDF, a CDI file, or a hook, which needs an artefact "
        "as PREFIX",
    )
    container.add_argument(
        "--accept-unknown", action="store_true", help="go on when the check cannot tell"
    )
    add_output(
        container,
        "injection",
        "-o",
        "--output",
        metavar="FILE",
        help="the file; left out: print it",
    )
    _add_setting(container)
    hook_arguments.configure_hook(container)
    container.set_defaults(run="inject.cli.check:run_container")


def _add_setting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--library-path",
        metavar="DIRS",
        default="",
        help="LD_LIBRARY_PATH that the programs are started with, without an injection",
    )
    parser.add_argument(
        "--env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a variable that they are started with: LD_LIBRARY_PATH, LD_PRELOAD or LD_AUDIT",
    )
    parser.add_argument(
        "--root",
        metavar="DIR|IMAGE",
        default="/",
        help="root of the programs: a folder, oci:DIR[:TAG], an archive of `podman save`, or a "
        "SIF file",
    )
    parser.add_argument(
        "--isa",
        choices=choices.LEVELS,
        help="level of the processors that programs will run on; left out: this machine's",
    )
