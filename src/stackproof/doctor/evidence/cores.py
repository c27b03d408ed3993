"""Other processes on the cores of an arm while it was timed."""

from __future__ import annotations

from collections.abc import Sequence

from stackproof.core.value import replace
from stackproof.knowledge.evidence import Evidence
from stackproof.results.measurement import Measurement
from stackproof.results.model import Results

_SHARED_CORE = 0.2
"""Share of a core's time, taken by others, from which on a rank that polls is held up."""
_SHARED_OFTEN = 10
"""One rank of so many is enough for a core that is shared, and not only looked at by a daemon."""

_ORIGIN = "fact core-shared"


def of_cores(results: Results, arm: str) -> Evidence:
    """Return the share of others on an arm's cores, and on the baseline's where they were there.

    Then the disturbance alone does not tell why one of the two is slower.
    """
    base = results.spec.baseline
    evidence, other = (
        _of_launches([launch for launch in results.measurements if launch.arm == name])
        for name in (arm, base)
    )
    if arm == base or not (evidence.facts.get("core-shared") and other.facts.get("core-shared")):
        return evidence
    text = (
        f"{evidence.origins[_ORIGIN]}; so they did of {base}: the slower of the two loses more by "
        "it, as MPIs wait in different ways"
    )
    return replace(evidence, origins={_ORIGIN: text})


def _of_launches(launches: Sequence[Measurement]) -> Evidence:
    loads = [
        (launch, rank, rank.disturbance.other_load)
        for launch in launches
        for rank in launch.output.ranks
        if rank.disturbance is not None and rank.disturbance.other_load is not None
    ]
    if not loads:
        return Evidence()
    shared = [entry for entry in loads if entry[2] > _SHARED_CORE]
    text = f"{len(loads)} ranks of all launches"
    if shared:
        worst, rank, load = max(shared, key=lambda entry: entry[2])
        blocks = len({(launch.block, launch.case.placement.name) for launch, _, _ in shared})
        text = (
            f"others took {load:.0%} of CPU {rank.cpu} of {rank.host} in block {worst.block}, "
            f"{worst.case.placement.name}, and a core in {blocks} blocks"
        )
    many = len(shared) >= max(1, len(loads) // _SHARED_OFTEN)
    return Evidence(facts={"core-shared": many}, origins={_ORIGIN: text})
