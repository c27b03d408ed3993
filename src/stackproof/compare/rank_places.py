"""Where each rank was: what its placement wants of it, held against what the rank says itself."""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.compare.model import RankPlace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import RankFacts


def faults(facts: RankFacts, case: Case) -> list[str]:
    """Return in words what a rank says of itself that is not as its placement wants it."""
    if not 0 <= facts.rank < len(case.placement.ranks):
        return [f"rank {facts.rank} was not asked for"]
    rank = case.placement.ranks[facts.rank]
    found = []
    if not _there(facts, rank, case.placement):
        found.append(f"rank {facts.rank} ran on {facts.host}, not {rank.node}")
    if rank.cpu is not None and facts.cpus and facts.cpus != (rank.cpu,):
        cpus = ",".join(map(str, facts.cpus))
        found.append(f"rank {facts.rank} may run on CPU {cpus}, not only {rank.cpu}")
    if None not in {rank.numa, facts.numa} and rank.numa != facts.numa:
        found.append(f"rank {facts.rank} is at NUMA node {facts.numa}, not {rank.numa}")
    if case.placement.bound(rank) and facts.membind not in {None, rank.numa}:
        found.append(f"the memory of rank {facts.rank} is not bound to NUMA node {rank.numa}")
    if facts.devices is None:
        return found
    told = _told_gpu(facts, case.placement)
    if rank.gpu is not None and case.placement.gpus and told != str(rank.gpu):
        found.append(f"rank {facts.rank} sees the GPUs `{told or 'all'}`, not {rank.gpu}")
    if rank.nic.startswith("cxi") and "MPICH_OFI_NIC_MAPPING" not in facts.devices:
        nic = facts.devices.get("FI_CXI_DEVICE_NAME")
        if nic != rank.nic:
            found.append(f"rank {facts.rank} was told the NIC `{nic or 'any'}`, not {rank.nic}")
    return found


def shared_cpus(ranks: Sequence[RankFacts]) -> list[str]:
    """Return in words which ranks had one CPU together: times of these say nothing of an MPI."""
    first: dict[tuple[str, int], int] = {}
    for rank in ranks:
        if len(rank.cpus) == 1:
            first.setdefault((rank.host, rank.cpus[0]), rank.rank)
    return [
        f"rank {other} and rank {rank.rank} shared CPU {rank.cpus[0]} of {rank.host}"
        for rank in ranks
        if len(rank.cpus) == 1 and (other := first[rank.host, rank.cpus[0]]) != rank.rank
    ]


def place_of(facts: RankFacts, case: Case) -> RankPlace:
    """Return where a rank was, and what of that it told itself."""
    ranks, placement = case.placement.ranks, case.placement
    rank = ranks[facts.rank] if 0 <= facts.rank < len(ranks) else Rank(node="")
    devices = facts.devices or {}
    nics = {"FI_CXI_DEVICE_NAME", "MPICH_OFI_NIC_MAPPING"} & devices.keys()
    told = {
        "node": _there(facts, rank, placement),
        "core": rank.cpu is not None and facts.cpus == (rank.cpu,),
        "NUMA": rank.numa is not None and facts.numa == rank.numa,
        "memory": placement.bound(rank) and facts.membind == rank.numa,
        "NIC": rank.nic.startswith("cxi") and bool(nics),
        "GPU": rank.gpu is not None and _told_gpu(facts, placement) == str(rank.gpu),
    }
    wrong = faults(facts, case)
    return RankPlace(
        rank=facts.rank,
        host=facts.host,
        cpu=facts.cpu,
        cpus=facts.cpus,
        numa=rank.numa if facts.numa is None else facts.numa,
        nic=rank.nic,
        gpu=rank.gpu,
        verified=() if wrong else tuple(name for name, is_so in told.items() if is_so),
        wrong=tuple(wrong),
    )


def _there(facts: RankFacts, rank: Rank, placement: Placement) -> bool:
    """Return whether a rank is on its node; where only this machine was named, anywhere is."""
    same = facts.host.partition(".")[0] == rank.node.partition(".")[0]
    return same or placement.nodes == ("localhost",)


def _told_gpu(facts: RankFacts, placement: Placement) -> str | None:
    name = "CUDA_VISIBLE_DEVICES" if placement.gpus == "cuda" else "HIP_VISIBLE_DEVICES"
    return (facts.devices or {}).get(name)
