"""Launches to how each arm was launched, for the reader who wants to repeat it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from stackproof.compare import rank_places
from stackproof.compare.model import ArmLaunch
from stackproof.results.measurement import Check, Measurement


def arm_launches(measurements: Iterable[Measurement]) -> tuple[ArmLaunch, ...]:
    """Return the launches of each arm at each placement with each program."""
    groups: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for m in sorted(measurements, key=lambda m: (m.order, m.started)):
        groups[m.case.placement.name, m.case.program, m.arm].append(m)
    return tuple(_launch(group) for _, group in sorted(groups.items()))


def _launch(group: Sequence[Measurement]) -> ArmLaunch:
    first = next((m for m in group if m.usable), group[0])
    checks: dict[Check, None] = {}
    for measurement in group:
        checks.update(dict.fromkeys(measurement.checks))
    ranks = tuple(rank_places.place_of(rank, first.case) for rank in first.output.ranks)
    return ArmLaunch(
        arm=first.arm,
        placement=first.case.placement.name,
        program=first.case.program,
        count=len(group),
        argv=first.argv,
        env=dict(first.env),
        mpi_library=first.output.mpi_library,
        program_version=first.output.program_version,
        ranks=ranks,
        checks=tuple(checks),
        libraries=tuple(sorted({path for rank in first.output.ranks for path in rank.libraries})),
        host_facts=dict(first.host_facts),
        clock=dict(first.output.clock),
    )
