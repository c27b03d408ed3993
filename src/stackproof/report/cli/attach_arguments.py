"""Arguments of `image attach`."""

from __future__ import annotations

import argparse


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action."""
    text = (
        "put documents beside an image, which go with it to registries: its bill of materials and "
        "provenance, verdicts, reports, files"
    )
    attach = actions.add_parser("attach", help=text, description=text)
    attach.add_argument("image", metavar="IMAGE", help="a label, or an image file")
    attach.add_argument(
        "documents", nargs="*", metavar="FILE|RESULTS", help="a file as it is; of a results folder "
        "that `bench` wrote the verdict and the report (left out: the bill of materials of the "
        "image, and its provenance by the lock inside)",
    )  # fmt: skip
    attach.add_argument(
        "--builder", metavar="URI", default="", help="who answers for the machine that built it, "
        "as an address, for the provenance (default: urn:stackproof:builder, which says nobody)",
    )  # fmt: skip
    attach.add_argument(
        "--sign", metavar="KEY", default="", help="sign these documents for this image with a key "
        "of ssh; `image sign` signs the image with all of them (default: nobody signs them)",
    )  # fmt: skip
    attach.add_argument("--force", action="store_true", help="replace documents of the same names")
    attach.add_argument("--json", action="store_true", help="print what was attached as JSON")
    attach.set_defaults(run="report.cli.attach:run")
