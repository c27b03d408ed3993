"""Arguments of `image sign` and `image verify`."""

from __future__ import annotations

import argparse


def add_to(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the two actions."""
    text = (
        "sign an image with a key of ssh, or of cosign: its content, metadata, label, date and "
        "documents"
    )
    sign = actions.add_parser("sign", help=text, description=text)
    sign.add_argument("image", metavar="IMAGE", help="a label, or an image file")
    by = sign.add_mutually_exclusive_group()
    by.add_argument(
        "--key", metavar="FILE", help="a private key of ssh, or the public one of a key that an "
        "agent holds (default: the first of ~/.ssh)",
    )  # fmt: skip
    by.add_argument(
        "--cosign", metavar="KEY", help="a private key of cosign, or the address of one in a "
        "service that cosign knows, as awskms:///alias/images (default: --key)",
    )  # fmt: skip
    sign.add_argument(
        "--label", metavar="LABEL", help="sign it as this, with all five parts; needed for a file"
    )
    sign.add_argument(
        "--namespace", metavar="NAME", default="", help="sign it for this namespace of a registry"
    )
    sign.add_argument("--json", action="store_true", help="print what was signed as JSON")
    sign.set_defaults(run="share.cli.trust:run_sign")

    text = (
        "say who signed an image, whether it is still what was signed, and what this site's policy "
        "makes of it"
    )
    verify = actions.add_parser("verify", help=text, description=text)
    verify.add_argument(
        "images", nargs="*", metavar="IMAGE", help="labels, or image files; with --record none: "
        "look again at all that were recorded",
    )  # fmt: skip
    verify.add_argument(
        "--signers", metavar="FILE", help="whose keys are whose, as ssh-keygen(1) has it (default: "
        "/etc/stackproof/allowed_signers, else ~/.ssh/allowed_signers)",
    )  # fmt: skip
    verify.add_argument(
        "--record", action="store_true", help="as root: write down that the image may be mounted, "
        "for stackproof-mount and the plug-in for Slurm",
    )  # fmt: skip
    verify.add_argument("--json", action="store_true", help="print what was found as JSON")
    verify.set_defaults(run="share.cli.trust:run_verify")
