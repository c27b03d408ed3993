"""Sizes at which an MPI or the NIC changes its way, by what the runs set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stackproof.compare.model import ArmLaunch, Comparison, Panel
from stackproof.core.value import Value
from stackproof.knowledge.reference_curves import BufferPlace, memory_of
from stackproof.results.case import Locality
from stackproof.site.model import FabricType

COMMAND_BYTES = 192
"""What a command of the Slingshot-11 NIC carries itself (shs-cassini-headers)."""

_GET_MIN = ("FI_CXI_RDZV_GET_MIN", 2049)


class _Threshold(Value, kw_only=False):
    """A variable that holds a size at which an MPI changes its way; None is any memory."""

    title: str
    locality: Locality
    memory: BufferPlace | None = None


_THRESHOLDS: Mapping[str, _Threshold] = {
    "FI_CXI_RDZV_THRESHOLD": _Threshold("eager limit of cxi", Locality.INTER),
    "FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD": _Threshold(
        "copies of the CPU", Locality.INTER, BufferPlace.DEVICE
    ),
    "MPIR_CVAR_CH4_OFI_EAGER_THRESHOLD": _Threshold("eager limit of MPICH", Locality.INTER),
    "MPIR_CVAR_CH4_IPC_XPMEM_P2P_THRESHOLD": _Threshold("XPMEM", Locality.INTRA, BufferPlace.HOST),
    "MPIR_CVAR_CH4_IPC_CMA_P2P_THRESHOLD": _Threshold("CMA", Locality.INTRA, BufferPlace.HOST),
    "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD": _Threshold(
        "GPU to GPU", Locality.INTRA, BufferPlace.DEVICE
    ),
    "MPICH_SMP_SINGLE_COPY_SIZE": _Threshold("single copy", Locality.INTRA, BufferPlace.HOST),
    "MPICH_GPU_IPC_THRESHOLD": _Threshold("GPU to GPU", Locality.INTRA, BufferPlace.DEVICE),
    "FI_SHM_MAX_GDRCOPY_SIZE": _Threshold("GDRCopy", Locality.INTRA, BufferPlace.DEVICE),
}


def lines_of(comparison: Comparison, panel: Panel) -> list[tuple[int, str]]:
    """Return the sizes at which something changes on a panel, and what, by what the runs set.

    A variable that is not set gives no line: its default is not known for sure.
    """
    curve = panel.curve
    if not curve.sized:
        return []
    found: dict[tuple[int, str], None] = {}
    between = curve.locality == Locality.INTER
    if between and comparison.spec.host.get("fabric") == FabricType.SLINGSHOT_11:
        found[COMMAND_BYTES, "command of the NIC"] = None
    for launch in comparison.launches:
        if (launch.placement, launch.program) == (curve.placement, curve.program):
            for size, text in _set_by(launch, curve.locality):
                found[size, text] = None
    return sorted(found)


def _set_by(launch: ArmLaunch, locality: str) -> Iterator[tuple[int, str]]:
    memory = memory_of(launch.host_facts)
    for name, threshold in _THRESHOLDS.items():
        value = launch.env.get(name, "")
        if not value.isdecimal() or threshold.locality != locality:
            continue
        if threshold.memory not in {None, memory}:
            continue
        size = int(value)
        if name == "FI_CXI_RDZV_THRESHOLD":
            least = launch.env.get(_GET_MIN[0], "")
            size += int(least) if least.isdecimal() else _GET_MIN[1]
        if size > 0:
            yield size, threshold.title
