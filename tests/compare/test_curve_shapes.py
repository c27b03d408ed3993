"""Rules on curves: what they say of the published curves, and of curves made for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from stackproof.compare.curve_shapes import RULES, look
from stackproof.core.value import replace
from stackproof.knowledge.effects.load import load_curves, load_knowledge
from stackproof.knowledge.reference_curves import BufferPlace, ReferenceCurve
from stackproof.knowledge.shape_curve import ShapeCurve
from stackproof.results.case import Locality
from stackproof.results.model import ComparedArm, ResultsSpec

KNOWLEDGE = load_knowledge(settings=False)
LINK = 25000.0  # MB/s in one direction of the NIC that all these machines have


def from_reference(curve: ReferenceCurve, link: float) -> ShapeCurve:
    """Return a published curve to be looked at; all of them are of Slingshot-11 machines."""
    return ShapeCurve(
        arm=curve.id,
        benchmark=curve.benchmark,
        placement=curve.locality.value,
        locality=curve.locality,
        memory=curve.memory,
        values={point.size: point.value for point in curve.points},
        ranks=curve.ranks,
        link=link,
        slingshot=True,
        windowed=curve.method == "window",
    )


PUBLISHED = [from_reference(curve, LINK) for curve in load_curves()]
WITHOUT_CXI = "alps-gh200-openmpi-without-cxi-inter"
MPICH = "alps-gh200-mpich-4-3-1"
OLIVIA = "olivia-gh200-openmpi-2025-inter-device"

# What holds on the published curves: everything, and nothing else.
EXPECTED = {
    "S01": {(f"{WITHOUT_CXI}-host-bandwidth", None), (f"{WITHOUT_CXI}-device-bandwidth", None)},
    "S03": {
        ("olivia-cpu-openmpi-2025-inter-host-bibandwidth", None),
        (f"{OLIVIA}-bibandwidth", None),
        ("adastra-openmpi-inter-host-bandwidth", None),
        (f"{MPICH}-inter-host-bandwidth", None),
        (f"{MPICH}-inter-device-bandwidth", None),
        ("alps-gh200-openmpi-cxi-inter-host-bandwidth", None),
        ("alps-gh200-openmpi-cxi-inter-device-bandwidth", None),
        ("olivia-gh200-openmpi-2026-inter-device-bibandwidth", None),
        ("olivia-gh200-cray-mpich-9-1-inter-device-bibandwidth", None),
    },
    "S05": {
        (f"{OLIVIA}-bibandwidth", 256),
        (f"{OLIVIA}-latency", 256),
        (f"{MPICH}-inter-device-bandwidth", 256),
    },
    "S06": {(f"{OLIVIA}-bibandwidth", 8192)},
    "S07": {
        ("olivia-cpu-openmpi-2025-inter-host-latency", 128),
        ("olivia-gh200-openmpi-2026-inter-device-latency", 128),
        ("olivia-gh200-cray-mpich-9-1-inter-device-latency", 128),
    },
    "S08": {(f"{MPICH}-intra-host-bandwidth", 65536)},
    "S09": {(f"{MPICH}-intra-host-bandwidth", 262144)},
    "S11": {(f"{MPICH}-intra-device-bandwidth", None)},
    "S13": {(f"{WITHOUT_CXI}-host-bandwidth", 8)},
    "S14": {(f"{MPICH}-intra-host-bandwidth", 16), (f"{WITHOUT_CXI}-device-bandwidth", 512)},
    "S16": {
        (f"{OLIVIA}-latency", 256),
        (f"{WITHOUT_CXI}-host-alltoall", 65536),
        (f"{WITHOUT_CXI}-device-alltoall", 32),
        (f"{WITHOUT_CXI}-device-alltoall", 65536),
    },
    "S19": {
        (f"{WITHOUT_CXI}-host-alltoall", 1048576),
        (f"{WITHOUT_CXI}-device-alltoall", 1048576),
    },
}  # fmt: skip


def curve(values: dict[int, float], **given: Any) -> ShapeCurve:
    plain: dict[str, Any] = {
        "arm": "a", "benchmark": "bandwidth", "placement": "p", "locality": Locality.INTER,
        "memory": BufferPlace.HOST, "link": LINK, "slingshot": True,
    }  # fmt: skip
    return ShapeCurve(values=values, **{**plain, **given})


def ids(*curves: ShapeCurve) -> list[str]:
    return [mark.rule.id for mark in look(curves, KNOWLEDGE)]


def rising(upto: int = 23, *, best: float = 24000.0, first: float = 1.0) -> dict[int, float]:
    """Return a healthy curve: a cost for each message, then the link."""
    return {2**k: 1 / (1 / (first * 2**k) + 1 / best) for k in range(upto)}


def test_every_rule_is_looked_at() -> None:
    assert {rule.id for rule in KNOWLEDGE.curve_rules} == RULES


@pytest.mark.parametrize("rule", sorted(RULES))
def test_published_curves_raise_no_false_alarm(rule: str) -> None:
    marks = look(PUBLISHED, KNOWLEDGE)
    found = {(mark.arm, mark.size) for mark in marks if mark.rule.id == rule}
    assert found == EXPECTED.get(rule, set())


def test_published_curves_inside_a_node_go_through_the_nic() -> None:
    names = [f"alps-gh200-openmpi-cxi-{place}-host-bandwidth" for place in ("inter", "intra")]
    pair = [replace(one, arm="a") for one in PUBLISHED if one.arm in names]
    assert [(m.rule.id, m.placement) for m in look(pair, KNOWLEDGE) if m.rule.id == "S10"] == [
        ("S10", "intra-node")
    ]


def test_a_healthy_curve_is_healthy() -> None:
    assert ids(curve(rising())) == ["S03"]


def test_without_a_limit_nothing_is_said_of_it() -> None:
    assert ids(curve(rising(best=500.0), link=None)) == []
    assert ids(curve(rising(best=500.0))) == ["S01"]


def test_rules_of_the_nic_are_for_that_nic() -> None:
    slow = rising(first=0.1)
    assert "S13" in ids(curve(slow))
    assert "S13" not in ids(curve(slow, slingshot=None))


def test_a_short_curve_is_not_far_below_the_link() -> None:
    assert ids(curve(rising(12))) == []


def test_locality_is_what_the_placement_says() -> None:
    assert ids(curve(rising(best=3000.0), locality=Locality.INTRA)) == []


def test_a_part_of_the_link() -> None:
    assert ids(curve(rising(best=14000.0))) == ["S02"]


@pytest.mark.parametrize(("rate", "bits"), [(119.0, 1), (1180.0, 10), (11900.0, 100)])
def test_the_rate_of_a_link_that_is_built_is_named(rate: float, bits: int) -> None:
    (mark,) = [m for m in look([curve(rising(best=rate))], KNOWLEDGE) if m.rule.id == "S21"]
    assert f"a link of {bits} Gbit/s" in mark.seen
    assert "S21" not in ids(curve(rising(best=rate), link=1.05 * rate))  # as it is meant to be


def test_tcp_that_was_asked_for_is_said_to_have_been() -> None:
    marks = look([curve(rising(best=119.0), transport="tcp")], KNOWLEDGE)
    (mark,) = [one for one in marks if one.rule.id == "S01"]
    assert "as asked: it was forced on tcp" in mark.seen


def test_the_other_direction_of_a_link_is_seen_by_both_together() -> None:
    """A link of 10 Gbit/s one way and 1 Gbit/s the other: one-way tests see nothing of it."""
    one = curve(rising(best=1180.0), link=1250.0)
    both = replace(one, benchmark="bibandwidth", values=rising(best=238.0))
    marks = [mark for mark in look([one, both], KNOWLEDGE) if mark.rule.id == "S22"]
    assert ["the other way carries about 119 MB/s" in mark.seen for mark in marks] == [True]
    good = replace(both, values=rising(best=2200.0))
    assert not [mark for mark in look([one, good], KNOWLEDGE) if mark.rule.id in {"S22", "S17"}]


def test_a_sag() -> None:
    values = rising()
    values[4 << 20] *= 0.85
    assert ids(curve(values)) == ["S04"]
    # 97 % of the best is what any curve has; and what one launch of three lacks is its own spread.
    values[4 << 20] = 0.96 * max(values.values())
    assert "S04" not in ids(curve(values))
    values[4 << 20] *= 0.8
    best = max(values, key=lambda size: values[size])
    launches = {best: (1.0, 1.0, 1.0), 4 << 20: (0.5, 0.8, 0.95)}
    assert "S04" not in ids(curve(values, launches=launches))
    assert "S04" in ids(curve(values, launches={**launches, 4 << 20: (0.5, 0.8, 0.85)}))


def test_gpus_below_their_link() -> None:
    values = rising(best=80000.0)
    device = {"locality": Locality.INTRA, "memory": BufferPlace.DEVICE}
    assert ids(curve(values, gpu_link=150000.0, **device)) == ["S12"]
    assert ids(curve(values, gpu_link=100000.0, **device)) == []


def test_what_falls_in_every_launch_is_no_noise() -> None:
    values = {64: 100.0, 128: 90.0, 256: 180.0}
    thrice = {size: (value,) * 3 for size, value in values.items()}
    assert "S15" in ids(curve(values, launches=thrice))
    assert "S15" not in ids(curve(values))
    once = {64: (100.0, 80.0, 101.0), 128: (90.0, 90.0, 90.0), 256: (180.0,) * 3}
    assert "S15" not in ids(curve(values, launches=once))


def test_one_launch_shows_nothing_that_must_be_seen_again() -> None:
    values = {64: 5.0, 128: 2.0}
    given = {"benchmark": "latency", "locality": Locality.INTRA}
    assert ids(curve(values, **given)) == ["S16"]  # published, taken as it stands
    once = {size: (value,) for size, value in values.items()}
    assert ids(curve(values, launches=once, **given)) == []
    thrice = {size: (value,) * 3 for size, value in values.items()}
    assert ids(curve(values, launches=thrice, **given)) == ["S16"]


def test_launches_that_differ() -> None:
    values = rising()
    shaky = {65536: (100.0, 150.0, 60.0), 131072: (100.0, 101.0, 99.0)}
    marks = look([curve(values, launches=shaky)], KNOWLEDGE)
    assert [(mark.rule.id, mark.size) for mark in marks] == [("S03", None), ("S18", 65536)]


def test_both_directions_bring_no_more_than_one() -> None:
    one = curve(rising())
    both = curve(rising(best=26000.0), benchmark="bibandwidth")
    assert "S17" in ids(one, both)
    assert "S17" not in ids(one, replace(both, arm="b"))


def test_arms_that_are_the_same() -> None:
    one = curve(rising(), library="Open MPI v5.0.8")
    other = replace(one, arm="b")
    assert "S20" in ids(one, other)
    assert "S20" not in ids(one, replace(other, library="Open MPI v5.0.9"))
    assert "S20" not in ids(one, replace(other, values=rising(best=24500.0)))
    meant = replace(one, meant="openmpi 5.0.8")
    assert "S20" in ids(meant, replace(other, meant="mpich 5.0.2"))
    assert "S20" not in ids(meant, replace(other, meant="openmpi 5.0.8"))


def test_what_arms_were_meant_to_load() -> None:
    ompi, mpich = ({"family": name, "version": "5.0.8"} for name in ("openmpi", "mpich"))
    spec = ResultsSpec(
        name="x",
        baseline="a",
        challengers=("b", "c", "d"),
        null="a again",
        arms={
            "a": ComparedArm(mpi=ompi),
            "a again": ComparedArm(mpi=ompi),
            "b": ComparedArm(mpi=ompi, transport="tcp"),
            "c": ComparedArm(mpi=mpich),
        },
    )
    assert {arm: spec.meant_mpi(arm) for arm in ("a again", "b", "c", "d")} == {
        "a again": "openmpi 5.0.8",
        "b": "openmpi 5.0.8",
        "c": "mpich 5.0.8",
        "d": "arm d",
    }
    bare = replace(spec, arms={})
    assert bare.meant_mpi("a again") == bare.meant_mpi("a") == "arm a"


def test_curves_without_sizes_are_passed_over() -> None:
    assert ids(curve({}), curve({0: 3.0})) == []
