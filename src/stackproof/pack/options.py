"""Options of `pack` and `install`."""

from __future__ import annotations

from stackproof.build import options as build_options
from stackproof.core.options import Options, argument, flag, option, required


class PackOptions(Options, run="pack.cli.pack:run"):
    """What is packed, how it is written, and what is shown of it."""

    image: str = argument("IMAGE|RECIPE", "an image or its label, or a recipe as `build` takes it")
    programs: tuple[str, ...] = argument(
        "PROGRAM", "program for `bin/`, of the image or of this machine; default: all of the view, "
        "and the benchmarks", default=(),
    )  # fmt: skip
    output: str | None = option(
        "FILE|DIR", "where it is written; left out only with --explain", words="-o --output",
        output="pack",
    )  # fmt: skip
    format: str | None = option(
        ("dir", "tar.zst", "tar.gz", "squashfs", "oci"), "oci is an image for containers, a "
        "folder, or one file where the output ends with `.tar`; default: by the name of the "
        "output, tar.zst, tar.gz, squashfs, oci, oci.tar, else dir",
    )  # fmt: skip
    view: str | None = option("NAME", "view to set; default: the image's default")
    entry: tuple[str, ...] = option(
        "NAME=PROGRAM", "`bin/NAME` starts this program; may be given several times"
    )
    symlink: tuple[str, ...] = option(
        "LINK=TARGET", "a link in the pack to a path in the pack, or in its MPI's folder; a tar "
        "archive has `/LINK` beside the pack's folder, so that `/bin=bin` gives `./bin/PROGRAM` "
        "where it is unpacked; may be given several times", words="-S --symlink",
    )  # fmt: skip
    provenance: str = option(
        ("beside", "inside", "none"), "where what it was made of is written: "
        "OUTPUT.provenance.json, meta/provenance.json in it, or not at all (default: beside)",
        default="beside",
    )  # fmt: skip
    tier: int | None = option(
        (0, 1), "0: nothing is mounted to run it, and what cannot be moved is a fault; 1: the "
        "stack is mounted where it was built for, once on each node; default: 0 where that will do",
    )  # fmt: skip
    explain: bool = flag("show what would be moved and how, every text, and write nothing")
    json: bool = flag("print the provenance as JSON")
    site: str | None = build_options.SITE
    fact: tuple[str, ...] = build_options.FACT
    swap: tuple[str, ...] = build_options.SWAP
    with_source: tuple[str, ...] = build_options.WITH_SOURCE
    with_patch: tuple[str, ...] = build_options.WITH_PATCH


class InstallOptions(Options, run="pack.cli.install:run"):
    """An image and the prefix that it goes to; without an image, the version before comes back."""

    image: str | None = argument(
        "IMAGE", "an image file, or its label; not with --undo", default=None
    )
    to: str = required(
        "PREFIX", "the folder that it is found at: a link to a version beside it, in `.stackproof`"
    )
    view: str | None = option(
        "NAME", "whose programs are found in PREFIX/bin; default: the default view"
    )
    undo: bool = flag("let PREFIX be what it was before its version")
    json: bool = flag("print what was done as JSON")
