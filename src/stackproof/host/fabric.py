"""What a transport depends on, looked up: the machine's fabric, and an image's libfabric."""

from __future__ import annotations

import os

from stackproof.host import imagefile, imagetree
from stackproof.site import FabricType
from stackproof.transports import Libfabric, libfabric_of

_CXI = "/sys/class/cxi"
_BILL = "meta/bom.cdx.json"


def of_this_machine() -> tuple[FabricType | None, int]:
    """Return Slingshot-11 and the number of NICs where there are any, else None and 0.

    A login node without a NIC may well be a Slingshot machine's.
    """
    try:
        nics = [name for name in os.listdir(_CXI) if name.startswith("cxi")]
    except OSError:
        return None, 0
    return (FabricType.SLINGSHOT_11, len(nics)) if nics else (None, 0)


def libfabric_of_image(path: str) -> Libfabric:
    """Return the libfabric in an image (a file, or a folder with its tree), by its bill.

    Raises `StackproofError` when the image cannot be read.
    """
    if os.path.isdir(path):
        return libfabric_of(imagetree.read_tree_member(path, _BILL))
    return libfabric_of(imagefile.read_member(path, _BILL).decode(errors="replace"))
