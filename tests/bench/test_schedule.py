"""The schedule: blocks, shuffles, placements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from stackproof.bench.schedule import (
    ALL_RANKS,
    case_for,
    placement_for,
    placements_for,
    ready_placement,
    schedule,
    transport_for,
)
from stackproof.bench.spec import Arm, BenchSpec, Program
from stackproof.core.errors import Reason
from stackproof.results.case import Locality, Placement, Rank
from stackproof.results.metrics import CORE

BOTH = frozenset({"stackproof-bench", "IMB-MPI1"})
NATIVE = frozenset({"stackproof-bench"})


def spec(**more: object) -> BenchSpec:
    return BenchSpec(baseline=Arm(image="/a.squashfs"), **more)  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_every_block_has_every_arm_once(seed: int, launches: int) -> None:
    arms = {"base": NATIVE, "null": NATIVE, "ours": NATIVE}
    plan = schedule(spec(seed=seed, launches=launches), arms)
    assert [launch.order for launch in plan] == list(range(len(plan)))
    for block in range(launches + 1):
        for placement in ("intra-node", "inter-node"):
            names = [x.arm for x in plan if x.block == block and x.placement == placement]
            assert sorted(names) == ["base", "null", "ours"]


def test_the_order_is_shuffled_and_repeats_with_its_seed() -> None:
    arms = {"base": NATIVE, "null": NATIVE, "ours": NATIVE}
    first = schedule(spec(seed=1, placements=("intra-node",)), arms)
    assert first == schedule(spec(seed=1, placements=("intra-node",)), arms)
    assert first != schedule(spec(seed=2, placements=("intra-node",)), arms)
    orders = {tuple(x.arm for x in first if x.block == block) for block in range(11)}
    assert len(orders) > 2


def test_a_program_runs_only_on_arms_that_can() -> None:
    plan = schedule(
        spec(programs=(Program(name="stackproof-bench"), Program(name="IMB-MPI1"))),
        {"base": BOTH, "open": NATIVE},
    )
    assert {x.arm for x in plan if x.program == "IMB-MPI1"} == {"base"}
    assert len({launch.file_name for launch in plan}) == len(plan)


def test_ready_placements() -> None:
    intra = ready_placement("intra-node", {"node1": (0, 1), "node2": (0, 1)}, "eth0")
    assert intra.locality is Locality.INTRA
    assert [rank.cpu for rank in intra.ranks] == [0, 1]
    assert intra.interface is None
    inter = ready_placement("inter-node", {"node1": (0, 1), "node2": (0, 1)}, "eth0")
    assert inter.nodes == ("node1", "node2")
    assert inter.interface == "eth0"


@pytest.mark.parametrize(
    ("nodes", "cpus"),
    [
        pytest.param({"a": (0, 1), "b": (0, 1)}, (0, 1), id="nodes-may-be-one-machine"),
        pytest.param({"a": (0,), "b": (1,)}, (0, 1), id="each-node-its-core"),
        pytest.param({"a": (0,), "b": (0,)}, (0, 0), id="two-machines-of-one-core"),
        pytest.param({"a": (4, 5), "b": (2, 3)}, (4, 2), id="any-numbers"),
    ],
)
def test_ranks_on_two_nodes_have_a_cpu_of_their_own(nodes, cpus) -> None:
    found = ready_placement("inter-node", nodes, None)
    assert tuple(rank.cpu for rank in found.ranks) == cpus


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("inter-node", {"node1": (0, 1)}),
        ("inter-node", {"node1": (0, 1), "node2": ()}),
        ("intra-node", {"node1": (0,)}),
        ("intra-node", {}),
    ],
)
def test_never_oversubscribed(name: str, nodes: dict[str, tuple[int, ...]]) -> None:
    assert refusal(ready_placement, name, nodes, None).reason is Reason.UNSUPPORTED


def test_a_placement_of_ones_own_names_nodes_or_counts_them() -> None:
    nodes = {"nid007": (0,), "nid012": (0,)}
    wanted = Placement(name="own", ranks=(Rank(node="@2", cpu=0), Rank(node="nid007", cpu=0)))
    assert placement_for(wanted, nodes, "hsn0").nodes == ("nid012", "nid007")
    for stranger in ("@3", "@0", "nid001"):
        other = Placement(name="own", ranks=(Rank(node=stranger),))
        assert refusal(placement_for, other, nodes, None).reason is Reason.NODE_UNREACHABLE
    assert placement_for("inter-node", nodes, "hsn0").interface == "hsn0"


@given(st.integers(1, 5), st.integers(0, 7))
def test_allocations_share_whole_blocks_and_each_warms_up(allocations: int, more: int) -> None:
    arms = {"base": NATIVE, "ours": NATIVE}
    launches = allocations + more
    wish = spec(launches=launches, allocations=allocations, placements=("inter-node",))
    plan = schedule(wish, arms)
    assert [launch.order for launch in plan] == list(range(len(plan)))
    assert len(plan) == 2 * (allocations + launches)
    for block in range(1, launches + 1):
        assert {x.allocation for x in plan if x.block == block} == {(block - 1) % allocations}
    for allocation in range(allocations):
        mine = [x.block for x in plan if x.allocation == allocation]
        assert mine[:2] == [0, 0]
        assert abs(len(mine) // 2 - 1 - launches // allocations) <= 1


def test_transport_follows_the_placement_unless_said_otherwise() -> None:
    intra = ready_placement("intra-node", {"n": (0, 1)}, None)
    assert transport_for(intra, {}) == "shm"
    assert transport_for(intra, {"intra-node": "tcp"}) == "tcp"


def test_the_warm_up_validates_all_and_the_others_a_sample() -> None:
    plan = schedule(spec(launches=1, placements=("intra-node",)), {"base": NATIVE})
    placement = ready_placement("intra-node", {"n": (0, 1)}, None)
    cases = [case_for(spec(launches=1), launch, placement, "shm") for launch in plan]
    assert [(case.validate, case.spot_check) for case in cases] == [(True, False), (False, True)]
    assert {case.timing for case in cases} == {"synchronised"}
    assert cases[0].sizes[-1] == 4 << 20
    quiet = spec(launches=1, validate=False)
    cases = [case_for(quiet, launch, placement, "shm") for launch in plan]
    assert not any(case.validate or case.spot_check for case in cases)


def test_a_program_may_have_benchmarks_of_its_own() -> None:
    wish = spec(launches=1, programs=(Program(name="IMB-MPI1", benchmarks=("latency",)),))
    placement = ready_placement("intra-node", {"n": (0, 1)}, None)
    case = case_for(wish, schedule(wish, {"base": BOTH})[0], placement, "shm")
    assert case.benchmarks == ("latency",)


MANY = {"n1": (0, 1, 2, 3), "n2": (0, 1, 2, 3)}


def test_a_grid_puts_ranks_in_blocks_with_a_cpu_each() -> None:
    (grid,) = placements_for(spec(placements=("2x2",)), MANY, "eth0", one_machine=True)
    assert [(rank.node, rank.cpu) for rank in grid.ranks] == [
        ("n1", 0), ("n1", 1), ("n2", 2), ("n2", 3),
    ]  # fmt: skip
    assert (grid.name, grid.interface, grid.timed) == ("2x2", "eth0", True)
    (one,) = placements_for(spec(placements=("1x4",)), MANY, "eth0")
    assert (one.locality, one.interface) == (Locality.INTRA, None)
    (full,) = placements_for(spec(placements=("2x4",)), MANY, "eth0")  # two real machines
    assert [rank.cpu for rank in full.ranks] == [0, 1, 2, 3, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("entry", "one_machine"),
    [
        pytest.param("1x5", False, id="more-than-the-node-has"),
        pytest.param("2x4", True, id="nodes-that-are-one-machine"),
        pytest.param("3x1", False, id="more-nodes"),
        pytest.param(Placement(name="own", ranks=(Rank(node="n1"),) * 5), False, id="own"),
        pytest.param(
            Placement(name="own", ranks=(Rank(node="n1"),) * 3 + (Rank(node="n2"),) * 2),
            True,
            id="own-on-one-machine",
        ),
    ],
)
def test_more_ranks_than_cpus_are_not_timed(entry: str | Placement, one_machine: bool) -> None:
    error = refusal(placements_for, spec(placements=(entry,)), MANY, None, one_machine=one_machine)
    assert error.reason is Reason.UNSUPPORTED
    if entry != "3x1":
        wish = spec(placements=("intra-node",), validated=(entry,))
        checked = placements_for(wish, MANY, None, one_machine=one_machine)[-1]
        assert not checked.timed
        assert {rank.cpu for rank in checked.ranks} == {None}


def test_what_is_only_validated_is_run_once_with_its_check_and_by_who_checks() -> None:
    programs = (Program(name="stackproof-bench"), Program(name="IMB-MPI1"))
    wish = spec(placements=("2x1",), validated=("2x8",), launches=3, programs=programs)
    plan = schedule(wish, {"base": BOTH, "ours": NATIVE})
    checked = [launch for launch in plan if launch.placement == "2x8"]
    assert {(x.block, x.arm, x.program) for x in checked} == {
        (0, "base", "stackproof-bench"), (0, "ours", "stackproof-bench"),
    }  # fmt: skip
    placement = placements_for(wish, MANY, None)[-1]
    case = case_for(wish, checked[0], placement, "tcp")
    assert (case.validate, case.samples) == (True, 1)
    assert case.benchmarks == tuple(name for name in ALL_RANKS if name in CORE)


@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"validated": ("2x8",), "validate": False}, id="nothing-is-checked"),
        pytest.param(
            {"validated": ("2x8",), "programs": (Program(name="IMB-MPI1"),)}, id="nobody-checks"
        ),
        pytest.param({"placements": ("2x2",), "benchmarks": ("latency",)}, id="of-two-ranks"),
    ],
)
def test_placements_at_which_nothing_could_run(wish: dict[str, object]) -> None:
    error = refusal(placements_for, spec(**wish), MANY, None)
    assert {problem.reason for problem in error.problems} == {Reason.UNSUPPORTED}


def test_an_arm_runs_where_it_is_to_run() -> None:
    wish = spec(placements=("intra-node", "1x4", "inter-node"), launches=1)
    plan = schedule(wish, {"base": NATIVE, "shm": NATIVE}, {"shm": ("intra-node",)})
    assert {x.placement for x in plan if x.arm == "shm"} == {"intra-node", "1x4"}
    assert {x.placement for x in plan if x.arm == "base"} == {"intra-node", "1x4", "inter-node"}
    exact = schedule(wish, {"base": NATIVE, "shm": NATIVE}, {"shm": ("1x4",)})
    assert {x.placement for x in exact if x.arm == "shm"} == {"1x4"}


def test_a_transport_of_a_locality_holds_for_its_grids() -> None:
    grid = ready_placement("2x2", MANY, None)
    assert transport_for(grid, {"inter-node": "lnx"}) == "lnx"
    assert transport_for(grid, {"inter-node": "lnx", "2x2": "auto"}) == "auto"
    assert transport_for(grid, {"intra-node": "lnx"}) == "tcp"
