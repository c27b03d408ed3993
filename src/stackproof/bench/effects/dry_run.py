"""`bench --dry-run`: what would be measured, where, and about how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stackproof.bench import schedule
from stackproof.bench.amounts import DEFAULT_SIZES
from stackproof.bench.effects.deciding import budget_of
from stackproof.bench.effects.run import Bench, pace_in
from stackproof.bench.pace import Pace, probes_s, shape_text
from stackproof.bench.spec import BenchSpec
from stackproof.compare import looks
from stackproof.compare.model import DEFAULT_MARGINS
from stackproof.core import noun
from stackproof.core.numbers import duration_text, percent_text, size_text
from stackproof.results.metrics import METRICS
from stackproof.results.model import RECOMMENDED_LAUNCHES


def planned(bench: Bench, folder: Path) -> dict[str, Any]:
    """Return what would be measured as data: arms, placements, launches, seconds.

    Launches that have a result in the folder are not made again. Raises `StackproofError` for a
    program that cannot do what is asked of it.
    """
    spec, arms = bench.spec, bench.arms
    launches = bench.launches()
    pace = pace_in(bench, launches, folder)
    missing = [one for one in launches if one.order not in pace.taken]
    return {
        "name": spec.name,
        "arms": [
            {
                "name": name,
                "role": _role(bench, name),
                "kind": ready.arm.kind,
                "image": ready.image.path,
                "found": dict(ready.found),
                "mpi": f"{ready.deployment.mpi.family} {ready.deployment.mpi.version}",
                "transports": {
                    place.name: schedule.transport_for(place, ready.arm.transports)
                    for place in bench.placements.values()
                    if schedule.runs_at(ready.arm.placements, place)
                },
            }
            for name, ready in arms.by_name.items()
        ],
        "placements": [
            {
                "name": place.name,
                "ranks": [noun.to_data(rank) for rank in place.ranks],
                "gpus": place.gpus,
                "timed": place.timed,
                "programs": _programs(bench, place.name),
            }
            for place in bench.placements.values()
        ],
        "sizes": list(spec.sizes or DEFAULT_SIZES),
        "margins": {**DEFAULT_MARGINS, **spec.margins},
        "schedule": shape_text(launches),
        "launches": len(launches),
        "launches_left": len(missing),
        "seconds": _at_most(pace, budget_of(folder, spec)),
        "looks": _looks(bench, folder),
        "notes": notes(spec),
    }


def _at_most(pace: Pace, budget_s: float | None) -> float:
    """Return about how long probes and launches take that are left, seconds."""
    missing = [one for one in pace.launches if one.order not in pace.taken]
    return round(pace.left_within(budget_s) + probes_s(missing), 1)


def _looks(bench: Bench, folder: Path) -> dict[str, Any] | None:
    """Return after how many launches it is looked, and how long it takes until the first time."""
    spec = bench.spec
    if not spec.until_decided:
        return None
    after = looks.planned(spec.launches)
    first = [one for one in bench.launches() if one.block <= after[0]]
    seconds = _at_most(pace_in(bench, first, folder), budget_of(folder, spec))
    return {"after": list(after), "seconds_to_first": seconds}


def _role(bench: Bench, name: str) -> str:
    if name == bench.arms.null:
        return "null"
    return "baseline" if name == bench.arms.baseline else "challenger"


def _programs(bench: Bench, placement: str) -> dict[str, list[str]]:
    """Return the benchmarks of each program at a placement."""
    found: dict[str, list[str]] = {}
    for launch in bench.launches():
        if launch.placement == placement and launch.program not in found:
            case = schedule.case_for(bench.spec, launch, bench.placements[placement], "auto")
            found[launch.program] = list(case.benchmarks)
    return found


def notes(spec: BenchSpec) -> list[str]:
    """Return what to know of a specification before it is measured."""
    found = [] if spec.launches >= RECOMMENDED_LAUNCHES else [_few(spec.launches)]
    if spec.until_decided:
        found.append(_look_words(spec))
    if not spec.null_arm:
        found.append("without a null arm the noise of this machine stays unknown")
    if _one_way(spec):
        found.append(
            "`bandwidth` sends one way only: a slow way back between nodes is seen by `bibandwidth`"
        )
    return found


def _one_way(spec: BenchSpec) -> bool:
    """Return whether links are loaded in one direction and never in the other."""
    asked = {*spec.benchmarks, *(name for program in spec.programs for name in program.benchmarks)}
    nodes = [
        schedule.shape(entry)[0] if isinstance(entry, str) else len(entry.nodes)
        for entry in spec.placements
    ]
    return "bandwidth" in asked and "bibandwidth" not in asked and max(nodes, default=1) > 1


def _look_words(spec: BenchSpec) -> str:
    *most, last = looks.planned(spec.launches)
    after = f"{', '.join(map(str, most))} and {last}" if most else f"{last}"
    ends = (
        f"; no block is begun that would go beyond {duration_text(spec.budget_s)} of timed "
        "launches in all, beside which come the probes and the launches that only check bytes"
        if spec.budget_s is not None
        else ""
    )
    return (
        f"after {after} launches per arm it is looked what is decided, and only what is open is "
        f"measured further{ends}"
    )


def _few(launches: int) -> str:
    """Return what so few launches mean for a verdict."""
    from stackproof.compare.judge import FEWEST_BLOCKS  # noqa: PLC0415 - numpy, for few launches alone

    if launches < FEWEST_BLOCKS:
        said = (
            "1 launch per arm decides" if launches == 1 else f"{launches} launches per arm decide"
        )
        return (
            f"{said} nothing: no pattern of so few is rarer than "
            f"chance; take {RECOMMENDED_LAUNCHES}"
        )
    return (
        f"{launches} launches per arm are judged only with `stackproof compare --minimum-launches "
        f"{launches}`; {RECOMMENDED_LAUNCHES} are recommended"
    )


_MOST_SHOWN = 64
"""Rows of a table of ranks; `--json` has all."""


def _rank_table(ranks: Sequence[dict[str, Any]]) -> list[str]:
    """Return a row for each rank that is pinned: its node, core, NUMA node, NIC and GPU."""
    if all(rank["cpu"] is None for rank in ranks):
        return []
    keys = ("node", "cpu", "numa", "nic", "gpu")
    titles = ("rank", "node", "core", "NUMA", "NIC", "GPU")
    rows = [
        [str(number), *("" if rank[key] is None else str(rank[key]) for key in keys)]
        for number, rank in enumerate(ranks[:_MOST_SHOWN])
    ]
    shown = [place for place in range(len(titles)) if any(row[place] for row in rows)]
    table = [[row[place] for place in shown] for row in (titles, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "    " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in table
    ]
    rest = len(ranks) - len(rows)
    return [line.rstrip() for line in lines] + ([f"    and {rest} more"] if rest > 0 else [])


def plan_text(plan: dict[str, Any]) -> str:
    """Return the same as text."""
    lines = [plan["name"], ""]
    width = max(len(arm["name"]) for arm in plan["arms"])
    for arm in plan["arms"]:
        paths = ", ".join(f"{place}: {path}" for place, path in arm["transports"].items())
        lines.append(f"  {arm['role']:10}  {arm['name']:{width}}  {arm['mpi']}  {paths}")
    lines.append("")
    for place in plan["placements"]:
        hosts = [rank["node"] for rank in place["ranks"]]
        nodes = ", ".join(f"{hosts.count(n)} on {n}" for n in dict.fromkeys(hosts))
        untimed = "" if place["timed"] else " (checked, not timed)"
        lines.append(f"  {place['name']}: ranks {nodes}{untimed}")
        lines += _rank_table(place["ranks"])
        lines += [
            f"    {program}: {', '.join(METRICS[one].title for one in benchmarks)}"
            for program, benchmarks in place["programs"].items()
        ]
    sizes = [size_text(size) for size in plan["sizes"]]
    shown = ", ".join(sizes if len(sizes) <= 8 else (*sizes[:3], "…", sizes[-1]))
    margins = ", ".join(f"{kind} {percent_text(part)}" for kind, part in plan["margins"].items())
    left = plan["launches_left"]
    ready = "" if left == plan["launches"] else f" ({plan['launches'] - left} have results)"
    about = f"about {duration_text(plan['seconds'])}"
    if plan["looks"]:
        first = duration_text(plan["looks"]["seconds_to_first"])
        about = f"about {first} until the first look, {duration_text(plan['seconds'])} at most"
    lines += [
        "",
        f"  {len(sizes)} sizes: {shown}",
        f"  margins: {margins}",
        f"  {plan['schedule']}{ready}",
        f"  {about}; nothing was measured" if left
        else "  every launch has a result; nothing is left to measure",
        *(f"note: {text}" for text in plan["notes"]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
