"""Reasons to doubt, and facts to repeat: noise, fits, differences, paths, checks, machine."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from stackproof.compare.model import ArmLaunch, Comparison, Curve, Panel
from stackproof.core.numbers import percent_text, size_text, value_text
from stackproof.core.value import Value
from stackproof.report.tables import cell_word, curve_label
from stackproof.report.words import DASH, limit_text
from stackproof.results.measurement import Check, RankFacts, State
from stackproof.results.model import ComparedArm, ResultsSpec
from stackproof.results.path import MessagePaths, Route, Statement, Topic
from stackproof.site.sysfs import cpu_text

Rows = Sequence[Sequence[str]]


def list_regimes(comparison: Comparison) -> Rows:
    """Return the geometric means by range of sizes."""
    return [
        (
            _place(comparison, panel.curve),
            judgement.arm,
            regime.name,
            f"{regime.ratio:.3f}",
            f"{regime.low:.3f} to {regime.high:.3f}",
        )
        for panel in comparison.panels
        for judgement in panel.judgements
        for regime in judgement.regimes
    ]


def _place(comparison: Comparison, curve: Curve) -> str:
    return f"{curve_label(comparison, curve)}, {curve.placement}"


def list_noise(comparison: Comparison) -> Rows:
    """Return by how much the null arm differs from the baseline, by curve."""
    rows = []
    for panel in comparison.panels:
        null = panel.judgement(comparison.spec.null or "")
        ratios = [(abs(c.ratio - 1), c) for c in (null.cells if null else ()) if c.ratio]
        if not ratios or null is None:
            continue
        worst, cell = max(ratios, key=lambda pair: pair[0])
        failed = sum(cell.verdict.value == "FAIL" for cell in null.cells)
        rows.append(
            (
                _place(comparison, panel.curve),
                percent_text(median(difference for difference, _ in ratios)),
                percent_text(worst),
                size_text(cell.size) if panel.curve.sized else DASH,
                percent_text(comparison.margins[panel.curve.kind]),
                str(failed),
            )
        )
    return rows


class Outliers(Value):
    """The medians of launches that lie outside Tukey's fences, and the number of all medians."""

    total: int
    values: int
    rows: Rows


def list_outliers(comparison: Comparison) -> Outliers:
    """Return the outliers, which stayed in, by curve and arm."""
    rows = []
    total = values = 0
    for panel in comparison.panels:
        for arm in panel.arms:
            blocks = Counter(block for point in arm.points for block in point.outliers)
            values += sum(len(point.values) for point in arm.points)
            total += blocks.total()
            if blocks:
                at = ", ".join(f"{block} ({n} sizes)" for block, n in sorted(blocks.items()))
                rows.append((_place(comparison, panel.curve), arm.arm, str(blocks.total()), at))
    return Outliers(total=total, values=values, rows=rows)


def list_fits(comparison: Comparison) -> Rows:
    """Return Hockney's parameters and the best bandwidth against the limit."""
    rows = []
    for panel in comparison.panels:
        for arm in panel.arms:
            best = max((p.percent_of_limit or 0 for p in arm.points), default=0)
            fit = arm.fit
            if fit is None:
                continue
            rows.append(
                (
                    _place(comparison, panel.curve),
                    arm.arm,
                    DASH if fit.t0_us is None else f"{value_text(fit.t0_us)} µs",
                    DASH if fit.bandwidth is None else f"{value_text(fit.bandwidth)} MB/s",
                    DASH if fit.half_size is None else size_text(round(fit.half_size)),
                    DASH if panel.limit is None else f"{value_text(panel.limit)} MB/s",
                    f"{limit_text(best)} %" if best else DASH,
                )
            )
    return rows


def leave_out_empty(head: Sequence[str], rows: Rows) -> tuple[list[str], Rows]:
    """Return a table without the columns in which no row has anything."""
    kept = [at for at in range(len(head)) if any(row[at] not in {DASH, ""} for row in rows)]
    return [head[at] for at in kept], [[row[at] for at in kept] for row in rows]


def list_limit_sources(comparison: Comparison) -> Iterable[str]:
    """Return the source of each limit of a link, with its placement."""
    return dict.fromkeys(
        f"{panel.curve.placement}: {panel.limit_source}"
        for panel in comparison.panels
        if panel.limit_source
    )


class SettingRows(Value):
    """Settings with their value by arm, None where it is not set."""

    differ: Sequence[tuple[str, Sequence[str | None]]]
    equal: Sequence[tuple[str, Sequence[str | None]]]


def list_settings(comparison: Comparison) -> SettingRows:
    """Return the settings that differ between the arms, and those that are equal."""
    rows = [
        (name, [values.get(arm) for arm in comparison.arms])
        for name, values in _settings(comparison)
    ]
    return SettingRows(
        differ=[row for row in rows if len(set(row[1])) > 1],
        equal=[row for row in rows if len(set(row[1])) == 1],
    )


def _settings(comparison: Comparison) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Yield every setting: its name and its value by arm."""
    specs = comparison.spec.arms
    facts: dict[str, dict[str, str]] = {}
    for arm in comparison.arms:
        spec = specs.get(arm)
        if spec is None:
            continue
        values: dict[str, object] = {
            **{f"MPI {key}": value for key, value in spec.mpi.items()},
            "image": spec.image,
            "image SHA-256": spec.image_sha256,
            "lock digest": spec.lock_digest,
            "view": spec.view,
            "transport asked for": spec.transport,
            "link rate of this arm": spec.rate,
        }
        for key, value in values.items():
            if value:
                facts.setdefault(key, {})[arm] = _plain(value)
    yield from facts.items()
    yield from _launch_settings(comparison.launches)


def _launch_settings(launches: Iterable[ArmLaunch]) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Yield the settings that launches set and saw; once where it is the same at all placements."""
    found: dict[str, dict[tuple[str, str], dict[str, str]]] = {}
    for launch in launches:
        place = (launch.placement, launch.program)
        seen = {
            "MPI library (as it reports)": launch.mpi_library.split("\n")[0],
            "libraries in the process": ", ".join(launch.libraries),
            "benchmark version": launch.program_version,
            **{f"environment {key}": value for key, value in sorted(launch.env.items())},
        }
        for key, value in seen.items():
            if value:
                found.setdefault(key, {}).setdefault(place, {})[launch.arm] = value
    for key, by_place in found.items():
        variants = list(by_place.values())
        if all(variant == variants[0] for variant in variants):
            yield key, variants[0]
            continue
        for (placement, program), values in sorted(by_place.items()):
            yield f"{key} ({placement}, {program})", values


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def list_shared_programs(comparison: Comparison) -> list[str]:
    """Return the programs of benchmarks that several programs have at a placement."""
    groups = _group_programs(comparison)
    return list(dict.fromkeys(panel.curve.program for group in groups for panel in group))


def compare_programs(comparison: Comparison, programs: Sequence[str]) -> Rows:
    """Return each challenger's ratios at each point that two programs or more measured."""
    rows = []
    for group in _group_programs(comparison):
        by_program = {panel.curve.program: panel for panel in group}
        curve = group[0].curve
        for arm in comparison.spec.challengers:
            for size in sorted({size for panel in group for size in panel.points(arm)}):
                ratios = [_ratio_of(comparison, by_program.get(p), arm, size) for p in programs]
                if sum(text != DASH for text in ratios) > 1:
                    at = size_text(size) if curve.sized else DASH
                    rows.append((curve.title, curve.placement, at, arm, *ratios))
    return rows


def _group_programs(comparison: Comparison) -> list[list[Panel]]:
    groups: dict[tuple[str, str], list[Panel]] = {}
    for panel in comparison.panels:
        groups.setdefault((panel.curve.placement, panel.curve.benchmark), []).append(panel)
    return [group for group in groups.values() if len({one.curve.program for one in group}) > 1]


def _ratio_of(comparison: Comparison, panel: Panel | None, arm: str, size: int) -> str:
    cell = panel.cell(arm, size) if panel is not None else None
    if panel is None or cell is None:
        return DASH
    points = (panel.points(name).get(size) for name in (comparison.spec.baseline, arm))
    values = " and ".join(DASH if one is None else value_text(one.median) for one in points)
    return f"{cell_word(cell)} ({values} {panel.curve.unit})"


# --- paths and checks -----------------------------------------------------------------------

MOST_ROWS = 200
"""So many rows are shown of what one probe found."""

_FEW_PAIRS = 4

_TOPICS = {
    Topic.LAYER: "layer of the MPI",
    Topic.CARRIER: "carrier",
    Topic.PROVIDER: "provider of libfabric",
    Topic.OPENED: "opened by libfabric",
    Topic.DEVICE: "interface or NIC",
    Topic.LINK: "link of lnx",
    Topic.SENT: "messages by part of lnx",
    Topic.COPY: "copies inside a node",
    Topic.VERSION: "release",
    Topic.FALLBACK: "falling back",
}


def sort_probes(comparison: Comparison) -> list[MessagePaths]:
    """Return the answers of the probes, sorted by placement and arm."""
    order = {arm: number for number, arm in enumerate(comparison.arms)}
    return sorted(
        comparison.paths, key=lambda probe: (probe.placement.name, order.get(probe.arm, len(order)))
    )


def pairs_text(route: Route) -> str:
    """Return the first pairs of ranks that a route is of, and how many there are."""
    few = ", ".join(f"{rank}{DASH}{peer}" for rank, peer in route.pairs[:_FEW_PAIRS])
    return f"{few}, … ({len(route.pairs)} pairs)" if len(route.pairs) > _FEW_PAIRS else few


def topic_text(statement: Statement) -> str:
    """Return the topic of a statement, and to whom messages go."""
    whom = statement.locality if statement.peer is None else f"rank {statement.peer}"
    return f"{_TOPICS[statement.topic]} to {whom}" if whom else _TOPICS[statement.topic]


def list_ranks(ranks: Sequence[RankFacts]) -> Rows:
    """Return the host and CPUs of ranks, and the shared memory that they had mapped."""
    return [
        (
            str(rank.rank),
            rank.host,
            ", ".join(map(str, rank.cpus)) or DASH,
            _segments(rank.shared),
        )
        for rank in ranks[:MOST_ROWS]
    ]


def _segments(shared: Iterable[str]) -> str:
    """Return the names of segments; those that differ in a random part counted together."""
    names = (name.removesuffix(" (deleted)").rpartition("/")[2][:9] for name in shared)
    counts = sorted(Counter(names).items())
    return ", ".join(f"{stem}… ({n})" if n > 1 else f"{stem}…" for stem, n in counts) or DASH


def list_libraries(ranks: Sequence[RankFacts]) -> Rows:
    """Return each library with its build-id and the ranks that have it mapped."""
    mapped: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        for path in rank.libraries:
            mapped.setdefault((path, rank.build_ids.get(path, "")), []).append(rank.rank)
    every = {rank.rank for rank in ranks}
    return [
        (path, identity or "none", "all" if set(who) == every else ", ".join(map(str, who)))
        for (path, identity), who in sorted(mapped.items())
    ]


def list_checks(comparison: Comparison) -> list[tuple[Check, ArmLaunch, int]]:
    """Return the worst answer to each check, its launch, and how many more answers there are."""
    order = (State.BAD, State.UNKNOWN, State.OK)
    rows = []
    for launch in comparison.launches:
        by_name: dict[str, list[Check]] = {}
        for check in launch.checks:
            by_name.setdefault(check.name, []).append(check)
        for checks in by_name.values():
            worst = min(checks, key=lambda check: order.index(check.state))
            rows.append((worst, launch, len(checks) - 1))
    return rows


# --- provenance -----------------------------------------------------------------------------


def list_machine_facts(spec: ResultsSpec) -> Rows:
    """Return the machine and the versions."""
    facts = {
        **{f"machine: {key}": _plain(value) for key, value in spec.host.items()},
        **{f"version: {key}": _plain(value) for key, value in spec.versions.items()},
        "version: stackproof": spec.stackproof,
        "measured": spec.created,
    }
    return [fact for fact in facts.items() if fact[1]]


def identify_arm(arm: ComparedArm) -> Rows:
    """Return the image or the folder of an arm, with digests."""
    image = arm.kind == "image"
    facts = {
        **({} if image else {"asked for": f"{arm.kind}: {arm.asked}"}),
        ("image" if image else "folder"): arm.image,
        ("image SHA-256" if image else "digest"): arm.image_sha256,
        **arm.found,
        "lock digest": arm.lock_digest,
        "MPI": " ".join(map(_plain, arm.mpi.values())),
        "view": arm.view or "",
    }
    return [fact for fact in facts.items() if fact[1]]


def command_text(launch: ArmLaunch) -> str:
    """Return the command line of a launch, for a shell."""
    env = "".join(f"{key}={shlex.quote(value)} \\\n" for key, value in sorted(launch.env.items()))
    return f"{env}{shlex.join(launch.argv)}"


def list_rank_places(comparison: Comparison) -> Rows:
    """Return the place that each rank reported."""
    return [
        (
            launch.placement,
            launch.arm,
            launch.program,
            str(rank.rank),
            rank.host,
            _number(rank.cpu),
            cpu_text(rank.cpus) or DASH,
            _number(rank.numa),
            rank.nic or DASH,
            _number(rank.gpu),
            "; ".join(rank.wrong) or ", ".join(rank.verified) or DASH,
        )
        for launch in comparison.launches
        for rank in launch.ranks
    ]


def _number(number: int | None) -> str:
    return DASH if number is None else str(number)
