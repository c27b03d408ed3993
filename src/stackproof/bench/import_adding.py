"""The problems of adding launches to results that were imported before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stackproof.core.errors import Location, Problem, Reason
from stackproof.results.measurement import Measurement
from stackproof.results.model import Results

FILE = "imported from"
"""The fact of a launch that says which output it is from."""


def adding_problems(
    before: Results, launches: Iterable[Measurement], fabric: str
) -> Iterator[Problem]:
    """Yield the problems of adding launches to results, each once.

    `fabric` is that of the site that they were made on, empty when not known.
    """
    if before.problems or any(FILE not in one.host_facts for one in before.measurements):
        yield Problem(
            reason=Reason.USAGE,
            message="these results were not imported, or cannot be read whole",
            hint="import into a folder of its own",
        )
        return
    yield from dict.fromkeys(_clashes(before, launches))
    known = before.spec.host.get("fabric", fabric)
    if fabric and known != fabric:
        names = " and ".join(f"`{name}`" for name in sorted((fabric, known)))
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the sites have different fabrics: {names}",
            hint="import results of another machine into a folder of their own",
        )


def _clashes(before: Results, launches: Iterable[Measurement]) -> Iterator[Problem]:
    """Yield the launches that are there already, or took another path than those of their arm."""
    paths = {(m.arm, m.case.placement.name, m.case.program): m for m in before.measurements}
    seen = {(m.arm, m.case.placement.name, m.output.series) for m in before.measurements}
    for launch in launches:
        arm, name, path = launch.arm, launch.case.placement.name, launch.case.transport
        other = paths.get((arm, name, launch.case.program))
        if other is not None and other.case.transport != path:
            message = (
                f"`{arm}` has the transport `{other.case.transport}` at `{name}`, not `{path}`"
            )
            hint = "give each path an arm of its own with --arm"
        elif (arm, name, launch.output.series) in seen:
            message = f"the same table is among the launches of `{arm}` at `{name}` already"
            hint = "give each output once"
        else:
            continue
        where = Location(file=launch.host_facts[FILE])
        yield Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)
