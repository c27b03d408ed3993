"""Ranks placed by the insides of nodes, as the documentation of these machines says."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refusal
from stackproof.bench import schedule
from stackproof.core.document import schema
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.launch import launchers, layout
from stackproof.launch.effects import allocation
from stackproof.launch.launchers import LaunchRequest
from stackproof.results.case import Placement, Rank
from stackproof.site import topology
from stackproof.site.hwloc import parse_hwloc
from stackproof.site.topology import Core, Device, Topology
from topologies import NAMES, node

KINDS = [by.value for by in layout.By]
PLACES = [
    (name, place) for name in NAMES for place in node(name).data["places"]
]  # fmt: skip


def laid_out(name: str, inside: Topology, cpus: tuple[int, ...], **more) -> Placement:
    nodes = {f"n{number}": cpus for number in range(1, layout.parse_layout(name).nodes + 1)}
    known = dict.fromkeys(nodes, inside)
    return schedule.laid_out(name, nodes, "hsn0", topologies=known, **more)


@pytest.mark.parametrize(("machine", "name"), PLACES)
@pytest.mark.parametrize("source", ["sysfs", "hwloc"])
def test_ranks_are_where_the_machine_says(machine: str, name: str, source: str) -> None:
    there = node(machine)
    inside = there.topology() if source == "sysfs" else parse_hwloc(there.xml().encode())
    placement = laid_out(name, inside, there.allowed)
    assert [[r.cpu, r.numa, r.nic, r.gpu] for r in placement.ranks] == there.data["places"][name]
    assert placement.gpus == there.data.get("gpu", "")


def test_there_are_the_machines_of_the_field() -> None:
    assert len(NAMES) >= 8
    for name in NAMES:
        assert node(name).data["sources"], name


@pytest.mark.parametrize("name", NAMES)
def test_both_readers_see_the_same_node(name: str) -> None:
    there = node(name)
    seen, told = there.topology(), parse_hwloc(there.xml().encode())
    assert seen.cores == told.cores
    assert [(one.name, one.numa, one.number) for one in seen.nics + seen.gpus] == [
        (one.name, one.numa, one.number) for one in told.nics + told.gpus
    ]
    assert len(json.dumps(there.gathered())) < 20_000  # a line of every node


def test_a_second_node_has_the_same_ranks_and_turns_are_by_nodes() -> None:
    there = node("lumi-g")
    both = laid_out("2x8-by-gpu", there.topology(), there.allowed)
    first, second = both.ranks[:8], both.ranks[8:]
    assert [rank.cpu for rank in first] == [rank.cpu for rank in second]
    assert {rank.node for rank in first} == {"n1"}
    turns = laid_out("2x2-by-node", there.topology(), there.allowed)
    assert [(rank.node, rank.cpu) for rank in turns.ranks] == [
        ("n1", 1), ("n2", 1), ("n1", 2), ("n2", 2)
    ]  # fmt: skip
    assert turns.interface == "hsn0"


def test_packed_fills_a_part_before_the_next() -> None:
    there = node("lumi-c")
    packed = laid_out("1x18-by-numa-packed", there.topology(), there.allowed)
    assert [rank.numa for rank in packed.ranks] == [0] * 16 + [1] * 2
    spread = laid_out("1x18-by-numa", there.topology(), there.allowed)
    assert [rank.numa for rank in spread.ranks] == [*range(8), *range(8), 0, 1]
    blocks = laid_out("1x8-by-gpu-packed", node("alps-gh200").topology(), (*range(288),))
    assert [rank.gpu for rank in blocks.ranks] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [rank.cpu for rank in blocks.ranks] == [0, 1, 72, 73, 144, 145, 216, 217]


def test_on_one_machine_the_nodes_have_other_cores() -> None:
    there = node("alps-zen2")
    found = laid_out("2x2-by-core", there.topology(), (0, 1, 2, 3), one_machine=True)
    assert [rank.cpu for rank in found.ranks] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "machine", "cpus", "said"),
    [
        ("1x9-by-l3", "lumi-g", (1, 2, 3), "needs 9 cores on each node; `n1` has 3"),
        ("1x2-by-core", "lumi-g", (1, 65), "needs 2 cores on each node; `n1` has 1"),
        ("1x2-by-gpu", "lumi-c", (0, 1), "`n1` shows no GPU"),
    ],
)
def test_what_a_node_does_not_have_is_refused(name, machine, cpus, said) -> None:
    error = refusal(laid_out, name, node(machine).topology(), cpus)
    assert error.reason is Reason.UNSUPPORTED
    assert said in str(error)


def test_gpus_that_are_hidden_get_no_rank() -> None:
    there = node("alps-gh200")
    some = topology.seen(there.topology(), {"CUDA_VISIBLE_DEVICES": "1,3"})
    ranks = laid_out("1x2-by-gpu", some, there.allowed).ranks
    assert [(rank.cpu, rank.gpu, rank.nic) for rank in ranks] == [(72, 1, "cxi2"), (216, 3, "cxi1")]
    none = topology.seen(there.topology(), {"CUDA_VISIBLE_DEVICES": ""})
    with pytest.raises(StackproofError, match="`n1` shows no GPU") as error:
        laid_out("1x2-by-gpu", none, there.allowed)
    assert "`gpus-per-node`" in str(error.value)


def test_nodes_that_say_nothing_and_too_few_nodes() -> None:
    with pytest.raises(StackproofError, match="does not tell its cores"):
        laid_out("1x2-by-core", Topology(cores=()), (0, 1))
    with pytest.raises(StackproofError, match="does not tell which l3"):
        laid_out("1x2-by-l3", Topology(cores=(Core(cpus=(0,)), Core(cpus=(1,)))), (0, 1))
    with pytest.raises(StackproofError, match="needs 3 nodes; there are 1"):
        schedule.laid_out("3x1-by-core", {"n": (0,)}, None, topologies={})


def test_threads_of_one_core_are_refused_for_ranks_of_ones_own() -> None:
    there = node("lumi-c")
    own = Placement(name="own", ranks=(Rank(node="n1", cpu=0), Rank(node="n1", cpu=128)))
    problems = schedule._sharing(own, {"n1": there.topology()})
    assert [one.reason for one in problems] == [Reason.UNSUPPORTED]
    assert "CPUs 0, 128 of `n1`, which are threads of one core" in problems[0].message
    fine = Placement(name="own", ranks=(Rank(node="n1", cpu=0), Rank(node="n1", cpu=1)))
    assert schedule._sharing(fine, {"n1": there.topology()}) == []


def test_devices_without_a_numa_node_divide_what_is_local() -> None:
    cores = tuple(Core(cpus=(n,), numa=0, socket=0, l3=n // 2) for n in range(4))
    nics = tuple(Device(name=f"cxi{n}", number=n, cpus=(0, 1, 2, 3)) for n in range(2))
    found = laid_out("1x4-by-core", Topology(cores=cores, nics=nics), (0, 1, 2, 3))
    assert [rank.nic for rank in found.ranks] == ["cxi0", "cxi0", "cxi1", "cxi1"]


def test_memory_is_bound_where_the_name_says_so() -> None:
    there = node("lumi-c")
    bound = laid_out("1x2-by-socket-membind", there.topology(), there.allowed)
    assert (bound.membind, [bound.bound(rank) for rank in bound.ranks]) == (True, [True, True])
    plain = laid_out("1x2-by-socket", there.topology(), there.allowed)
    assert [plain.bound(rank) for rank in plain.ranks] == [False, False]
    request = LaunchRequest(prefix="/", program=("p",), placement=bound, binder=("bind",))
    assert " taskset -c 0 bind 0 -- p : " in " ".join(launchers.get("hydra").argv(request))
    assert " bind 4 -- p" in " ".join(launchers.get("hydra").argv(request))
    words = " ".join(allocation.task_words(bound, "", {}, {}))
    assert words.endswith(" run --cpus 0,64 --memory 0,4 --")
    assert "--memory" not in allocation.task_words(plain, "", {}, {})


def test_names_are_those_of_the_schema() -> None:
    anyof = schema("bench")["$defs"]["placements"]["items"]["anyOf"]
    assert anyof[1]["pattern"] == layout.PATTERN
    assert schema("bench")["$defs"]["placement"]["properties"]["by"]["enum"] == KINDS
    for by in KINDS:
        for packed in (False, True):
            name = layout.layout_name("2x4", by, packed=packed)
            wanted = layout.Layout(nodes=2, each=4, by=layout.By(by), packed=packed)
            assert layout.parse_layout(name) == wanted
            bound = layout.layout_name("2x4", by, packed=packed, membind=True)
            assert layout.parse_layout(bound) == replace(wanted, membind=True)
    for bad in (
        "2x4-by-",
        "2x4-by-l2",
        "2x4-packed",
        "0x1",
        "2x4-by-l3-spread\n",
        "",
        "2x4-membind",
        "2x4-by-l3-membind-packed",
    ):
        with pytest.raises(ValueError, match="not a layout"):
            layout.parse_layout(bad)


@pytest.mark.battery
@given(
    machine=st.sampled_from(NAMES),
    by=st.sampled_from(KINDS),
    packed=st.booleans(),
    each=st.integers(1, 40),
)
def test_no_two_ranks_share_a_core_and_devices_are_shared_evenly(machine, by, packed, each) -> None:
    there = node(machine)
    inside = there.topology()
    name = layout.layout_name(f"1x{each}", by, packed=packed)
    lacking = {"gpu": not inside.gpus, "nic": not inside.nics}
    if len(there.allowed) < each or lacking.get(by):
        with pytest.raises(StackproofError):
            laid_out(name, inside, there.allowed)
        return
    ranks = laid_out(name, inside, there.allowed).ranks
    cores = [inside.core_of(rank.cpu) for rank in ranks]
    assert len({core.cpus for core in cores}) == each
    assert all(rank.cpu in there.allowed for rank in ranks)
    assert [rank.numa for rank in ranks] == [core.numa for core in cores]
    if by == "gpu":
        counts = [sum(rank.gpu == gpu.number for rank in ranks) for gpu in inside.gpus]
        assert max(counts) - min(counts) <= 1


def test_a_layout_is_a_shape_like_others() -> None:
    assert schedule.shape("3x4-by-l3-packed") == (3, 4)
    assert re.fullmatch(layout.PATTERN, "4x8")
