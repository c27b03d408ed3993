"""What a transport depends on, looked up: the machine's fabric, and an image's libfabric."""

from __future__ import annotations

import os

from stackproof.host import imagefile, imagetree
from stackproof.transports import Libfabric, libfabric_of
from stackproof.transports.setup import SLINGSHOT

CXI = "/sys/class/cxi"
"""Where the driver of Slingshot-11 shows the NICs."""
BILL = "meta/bom.cdx.json"
"""The bill of materials, in an image or a tree."""


def of_this_machine() -> tuple[str, int]:
    """Return Slingshot-11 and the number of NICs where there are any, else nothing and 0.

    A login node without a NIC may well be a Slingshot machine's.
    """
    try:
        nics = [name for name in os.listdir(CXI) if name.startswith("cxi")]
    except OSError:
        return "", 0
    return (SLINGSHOT, len(nics)) if nics else ("", 0)


def libfabric_of_image(path: str) -> Libfabric:
    """Return the libfabric in an image (a file, or a folder with its tree), by its bill.

    Raises `StackproofError` when the image cannot be read.
    """
    if os.path.isdir(path):
        return libfabric_of(imagetree.read_tree_member(path, BILL))
    return libfabric_of(imagefile.read_member(path, BILL).decode(errors="replace"))
