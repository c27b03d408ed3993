"""Reference curves: what ships is what was published."""

from __future__ import annotations

import pytest

from stackproof.core import document, noun
from stackproof.core.effects import shipped
from stackproof.knowledge.effects.load import load_curves
from stackproof.knowledge.reference_curves import BufferPlace, ReferenceCurve, Role
from stackproof.results.case import Locality
from stackproof.results.metrics import METRICS
from stackproof.site.model import parse_site

CURVES = {curve.id: curve for curve in load_curves()}
COUNTS = {
    "olivia-cpu": 45, "olivia-gh200": 138, "adastra": 14, "alps-gh200": 314,
}  # fmt: skip


def value(curve: str, size: int) -> float:
    return next(point.value for point in CURVES[curve].points if point.size == size)


def test_counts() -> None:
    assert len(CURVES) == 24
    for machine, count in COUNTS.items():
        points = [p for c in CURVES.values() if c.machine == machine for p in c.points]
        assert len(points) == count, machine
    assert {curve.machine for curve in CURVES.values()} == set(COUNTS)
    rows = [
        row
        for path in (shipped.root("knowledge") / "reference-curves").glob("*.csv")
        for row in path.read_text().splitlines()[1:]
    ]
    assert len(rows) == sum(COUNTS.values())  # no row without a curve of the index


@pytest.mark.parametrize(
    ("curve", "size", "expected"),
    [
        ("olivia-cpu-openmpi-2025-inter-host-bibandwidth", 4194304, 46609.10),
        ("olivia-cpu-openmpi-2025-inter-host-latency", 1, 1.66),
        ("olivia-cpu-openmpi-2025-inter-host-latency", 2097152, 90.79),
        ("olivia-gh200-openmpi-2025-inter-device-bibandwidth", 4096, 1020.24),
        ("olivia-gh200-openmpi-2025-inter-device-bibandwidth", 8192, 16477.70),
        ("olivia-gh200-openmpi-2025-inter-device-latency", 128, 12.45),
        ("olivia-gh200-openmpi-2025-inter-device-latency", 256, 3.76),
        ("adastra-openmpi-inter-host-latency", 4194304, 179.23),
        ("adastra-openmpi-inter-host-bandwidth", 4194304, 23401.37),
        ("alps-gh200-mpich-4-3-1-intra-host-bandwidth", 262144, 64046.90),
        ("alps-gh200-mpich-4-3-1-intra-host-bandwidth", 4194304, 23906.16),
        ("alps-gh200-mpich-4-3-1-inter-host-bandwidth", 4194304, 24037.14),
        ("alps-gh200-mpich-4-3-1-intra-device-bandwidth", 4194304, 115214.94),
        ("alps-gh200-mpich-4-3-1-inter-device-bandwidth", 256, 227.08),
        ("alps-gh200-openmpi-cxi-inter-host-alltoall", 1, 12.46),
        ("olivia-gh200-openmpi-2026-inter-device-latency", 8, 2.32),
        ("olivia-gh200-cray-mpich-9-1-inter-device-bibandwidth", 4194304, 45029.99),
    ],
)
def test_published_values(curve: str, size: int, expected: float) -> None:
    assert value(curve, size) == expected


@pytest.mark.parametrize("curve", CURVES.values(), ids=lambda curve: curve.id)
def test_every_curve_is_said_completely(curve: ReferenceCurve) -> None:
    assert curve.unit == METRICS[curve.benchmark].unit
    assert curve.source.url
    assert curve.tool_version
    assert (curve.locality is Locality.INTRA) == (curve.nodes == 1)
    assert all(float(point.printed) == point.value > 0 for point in curve.points)
    sizes = [point.size for point in curve.points]
    assert sizes == sorted(set(sizes)) != []
    assert noun.from_json(ReferenceCurve, noun.to_json(curve)) == curve
    shipped.find("sites", curve.machine)


def test_the_curve_above_the_nics_limit_is_within_a_node() -> None:
    """No curve between nodes exceeds what the machine's NIC can carry."""
    for curve in CURVES.values():
        path = shipped.find("sites", curve.machine)
        fabric = parse_site(document.parse(path.read_bytes(), file=str(path))).fabric
        limit = {
            "bandwidth": fabric.limit_mb_s, "bibandwidth": fabric.bidirectional_limit_mb_s,
        }.get(curve.benchmark)  # fmt: skip
        if limit and curve.locality is Locality.INTER:
            assert max(point.value for point in curve.points) < limit
    within = CURVES["alps-gh200-mpich-4-3-1-intra-host-bandwidth"]
    assert max(point.value for point in within.points) > 25_000
    assert within.locality is Locality.INTRA
    assert "NIC" in str(within.note)


def test_curves_of_a_fault_are_marked() -> None:
    faults = {curve.id for curve in CURVES.values() if curve.role is Role.COUNTEREXAMPLE}
    assert faults == {curve for curve in CURVES if "without-cxi" in curve}
    assert len(faults) == 4


def test_ping_pong_is_not_taken_for_a_window() -> None:
    methods = {curve.method for curve in CURVES.values() if curve.tool.startswith("IMB")}
    assert methods == {"ping-pong"}
    assert {c.method for c in CURVES.values() if c.tool == "osu_bw"} == {"window"}
    (repetitions,) = {
        tuple(point.repetitions for point in curve.points)
        for curve in CURVES.values()
        if curve.machine == "adastra"
    }
    assert repetitions == (640, 320, 160, 80, 40, 20, 10)


def test_device_memory_is_told_from_host_memory() -> None:
    devices = [curve.id for curve in CURVES.values() if curve.memory is BufferPlace.DEVICE]
    assert all("-device-" in name for name in devices)
    assert len(devices) == 13


def test_limits_are_valid_and_agree_with_the_curves_and_the_sites() -> None:
    path = shipped.find("knowledge", "limits.yaml")
    limits = document.parse(path.read_bytes(), file=str(path))
    assert document.problems(limits, "limits") == ()
    names = [limit["id"] for limit in limits.data["limits"]]
    assert len(names) == len(set(names))
    used: set[str] = set()
    for limit in limits.data["limits"]:
        used |= set(limit["sources"])
        best = max if limit["bound"] == "most" else min
        for seen in limit.get("observed", []):
            curve = CURVES[seen["curve"]]
            assert best(point.value for point in curve.points) == seen["value"]
            assert curve.unit == limit["unit"]
            ends = (seen["value"], limit["value"])
            assert ends == tuple(sorted(ends, reverse=limit["bound"] == "least"))
        for machine in limit.get("machines", []):
            shipped.find("sites", machine)
    assert used == set(limits.data["sources"])
    by_name = {limit["id"]: limit["value"] for limit in limits.data["limits"]}
    path = shipped.find("sites", "alps-gh200")
    alps = parse_site(document.parse(path.read_bytes(), file=str(path)))
    assert alps.fabric.limit_mb_s == by_name["slingshot-11-nic"]
    assert alps.fabric.bidirectional_limit_mb_s == by_name["slingshot-11-nic-both-ways"]
    assert alps.partitions["gh200"].gpu_pair_limit_mb_s == by_name["gh200-pair"]
    assert alps.fabric.step_sizes[0].bytes == by_name["cassini-immediate-data"]
