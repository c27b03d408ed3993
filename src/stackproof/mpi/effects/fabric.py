"""What a transport depends on, looked up: the machine's fabric, and an image's libfabric."""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.image.effects import image_file, tree
from stackproof.mpi.transports import Libfabric, Memory, libfabric_of, without_by_bill
from stackproof.mpi.transports.profile import INFINIBAND, SLINGSHOT

CXI = "/sys/class/cxi"
"""Where the driver of Slingshot-11 shows the NICs."""
LINKS = "/sys/class/infiniband"
"""Where the kernel shows NICs with verbs, and which of their ports speak InfiniBand."""
XPMEM = "/dev/xpmem"
"""The device of the kernel module xpmem."""
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


def seen_here() -> str:
    """Return what joins this machine to others (`site.FabricType`) as its NICs show it, or nothing.

    Ethernet is never said: a machine whose NICs the kernel does not show may have others. A port
    that runs Ethernet, as RoCE does, is none of InfiniBand.
    """
    found = of_this_machine()[0]
    if found:
        return found
    for path in sorted(Path(LINKS).glob("*/ports/*/link_layer")):
        try:
            if path.read_text(encoding="ascii", errors="replace").strip() == "InfiniBand":
                return INFINIBAND
        except OSError:  # taken away meanwhile
            continue
    return ""


def has_xpmem() -> bool:
    """Return whether this machine's kernel lets processes map each other's memory by XPMEM."""
    return os.path.exists(XPMEM)


def libfabric_of_image(path: str) -> Libfabric:
    """Return the libfabric in an image (a file, or a folder with its tree), by its bill.

    Raises `StackproofError` when the image cannot be read.
    """
    return libfabric_of(_bill(path))


def mpi_without(path: str, family: str) -> frozenset[Memory]:
    """Return the GPUs that the MPI in an image was built without, by the image's bill.

    Raises `StackproofError` when the image cannot be read.
    """
    return without_by_bill(_bill(path), family)


def _bill(path: str) -> str:
    if os.path.isdir(path):
        return tree.read_tree_member(path, BILL)
    return image_file.read_member(path, BILL).decode(errors="replace")
