"""What each rank is told of the NIC and the GPU that it is to use: variables, by its placement.

CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER: CUDA C++ Programming Guide, "CUDA Environment
Variables"; HIP_VISIBLE_DEVICES: ROCm documentation, "GPU isolation techniques"; FI_CXI_DEVICE_NAME:
fi_cxi(7); MPICH_OFI_NIC_POLICY and MPICH_OFI_NIC_MAPPING: intro_mpi(3) of Cray MPICH.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.mpi.families import REGISTRY
from stackproof.results.case import Placement, Rank

OF_GPUS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES")
"""What chooses a GPU; all else of a rank's variables chooses its NIC."""

LINKS = "FI_LNX_PROV_LINKS"
"""What libfabric's lnx joins: each NIC with shared memory, and `|` between them."""


def rank_variables(
    placement: Placement, family: str, settings: Mapping[str, str]
) -> tuple[dict[str, str], ...]:
    """Return what each rank has for itself, nothing where its placement chose no device.

    `settings` are the variables that all ranks have; what the user set of these stays.
    """
    found = []
    for rank in placement.ranks:
        own = _gpu(rank, placement.gpus)
        if rank.nic.startswith("cxi"):
            own |= _nic(rank, placement, family, settings)
        found.append({name: text for name, text in own.items() if name not in settings})
        if LINKS in own:
            found[-1][LINKS] = own[LINKS]
    return tuple(found)


def _gpu(rank: Rank, kind: str) -> dict[str, str]:
    if rank.gpu is None or not kind:
        return {}
    if kind == "cuda":
        return {"CUDA_VISIBLE_DEVICES": str(rank.gpu), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"HIP_VISIBLE_DEVICES": str(rank.gpu)}


def _nic(
    rank: Rank, placement: Placement, family: str, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that give a rank its NIC; some MPIs open all and choose by a map."""
    known = REGISTRY.get(family)
    if known and known.nic_variables:
        mapping = _mapping(rank, placement)
        return {name: text.replace("{map}", mapping) for name, text in known.nic_variables.items()}
    links = [part for part in settings.get(LINKS, "").split("|") if part.endswith(f":{rank.nic}")]
    return {"FI_CXI_DEVICE_NAME": rank.nic, **({LINKS: links[0]} if links else {})}


def _mapping(rank: Rank, placement: Placement) -> str:
    """Return which ranks of a node use which of its NICs, by their numbers there: `0:0,1;1:2,3`."""
    users: dict[str, list[int]] = {}
    local = [one for one in placement.ranks if one.node == rank.node]
    for number, one in enumerate(local):
        users.setdefault(one.nic.removeprefix("cxi"), []).append(number)
    return ";".join(f"{nic}:{','.join(map(str, users[nic]))}" for nic in sorted(users))
