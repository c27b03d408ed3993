import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import families, transports
from stackproof.mpi.transports import Libfabric, Setup, support, traffic
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Disturbance, Output, RankFacts, Series, State
from stackproof.site.model import FabricType

COVERS = ("mpi/transports/kernel.py", "mpi/transports/lnx.py")

MB = 1_000_000
INTRA = Placement(name="intra", ranks=(Rank(node="a"), Rank(node="a")))
INTER = Placement(name="inter", ranks=(Rank(node="a"), Rank(node="b")), interface="eth0")
FREE = Placement(name="free", ranks=(Rank(node="a"), Rank(node="b")))
FOUR = Placement(name="four", ranks=tuple(Rank(node=node) for node in "aabb"), interface="eth0")


def output(*sent: tuple[str, dict[str, int]], payload: int = 100 * MB) -> Output:
    series = Series(
        benchmark="latency", size=payload // 100, unit="us", values=(1.0,) * 10, iterations=10
    )
    return Output(
        program="x",
        ranks=tuple(
            RankFacts(rank=number, host=host, tx_bytes=counts)
            for number, (host, counts) in enumerate(sent)
        ),
        series=(series,),
    )


def state(name: str, placement: Placement, *sent, fabric: str = "", **changes) -> State:
    case = Case(
        program="x", benchmarks=("latency",), sizes=(8,), placement=placement, transport=name,
        fabric=fabric,
    )  # fmt: skip
    return transports.get(name).check(output(*sent, **changes), case).state


QUIET = {"lo": 0, "eth0": 300, "eth1": 0}


def test_ranks_of_one_node_are_not_counted_twice():
    case = Case(program="x", benchmarks=("latency",), sizes=(8,), placement=INTER)
    told = output(("a", {"lo": 5}), ("a", {"lo": 7}), ("b", {"eth0": 1}))
    found = traffic.counted(told, case)
    assert found.sent == {"a": {"lo": 7}, "b": {"eth0": 1}}
    assert found.payload == 2 * 100 * MB  # there and back


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ((QUIET, QUIET), State.OK),
        (({"lo": 2 * 100 * MB}, QUIET), State.BAD),
        (({"lo": 0, "eth0": 210 * MB}, QUIET), State.BAD),
        (({"lo": 40 * MB}, QUIET), State.UNKNOWN),
        (({}, {}), State.UNKNOWN),
    ],
)
def test_shared_memory_leaves_the_interfaces_alone(sent, answer):
    assert state("shm", INTRA, *(("a", counts) for counts in sent)) is answer


@pytest.mark.parametrize(
    ("placement", "first", "second", "answer"),
    [
        pytest.param(INTER, {"eth0": 100 * MB}, {"eth0": 100 * MB}, State.OK, id="pinned"),
        pytest.param(INTER, {"eth1": 100 * MB}, {"eth1": 100 * MB}, State.BAD, id="other"),
        pytest.param(
            INTER,
            {"eth0": 90 * MB, "eth1": 40 * MB},
            {"eth0": 90 * MB, "eth1": 40 * MB},
            State.BAD,
            id="striped",
        ),
        pytest.param(INTER, QUIET, QUIET, State.BAD, id="bypassed-by-shared-memory"),
        pytest.param(INTER, {"lo": 200 * MB}, {"lo": 200 * MB}, State.BAD, id="loopback"),
        pytest.param(FREE, {"eth1": 100 * MB}, {"eth1": 100 * MB}, State.OK, id="any"),
        pytest.param(FREE, QUIET, QUIET, State.BAD, id="none"),
        pytest.param(INTER, {}, {}, State.UNKNOWN, id="not-counted"),
    ],
)
def test_tcp_between_nodes(placement, first, second, answer):
    assert state("tcp", placement, ("a", first), ("b", second)) is answer


def test_tcp_inside_a_node_goes_by_loopback():
    assert state("tcp", INTRA, ("a", {"lo": 200 * MB}), ("a", {"lo": 200 * MB})) is State.OK
    assert state("tcp", INTRA, ("a", QUIET), ("a", QUIET)) is State.BAD


def test_tcp_with_several_ranks_on_each_node_must_still_cross():
    inside = {"lo": 200 * MB, "eth0": 10}
    across = {"lo": 50 * MB, "eth0": 60 * MB}
    assert state("tcp", FOUR, ("a", inside), ("b", inside)) is State.BAD
    assert state("tcp", FOUR, ("a", across), ("b", across)) is State.OK


@pytest.mark.parametrize("name", ["shm", "tcp"])
def test_too_little_traffic_tells_nothing(name):
    placement = INTRA if name == "shm" else INTER
    assert state(name, placement, ("a", QUIET), ("b", QUIET), payload=1000) is State.UNKNOWN


def test_past_the_kernel_between_nodes_is_the_nic():
    busy = {"eth0": 100 * MB}
    for name in ("cxi", "matched", "lnx"):
        fabric = "slingshot-11"
        assert state(name, INTER, ("a", QUIET), ("b", QUIET), fabric=fabric) is State.OK
        assert state(name, INTER, ("a", busy), ("b", busy), fabric=fabric) is State.BAD
        some = ("a", {"eth0": 40 * MB})
        assert state(name, INTER, some, ("b", QUIET), fabric=fabric) is State.UNKNOWN
        assert state(name, INTER, ("a", {}), fabric=fabric) is State.UNKNOWN


def test_inside_a_node_the_nic_cannot_be_told_from_shared_memory():
    assert state("cxi", INTRA, ("a", QUIET), ("a", QUIET)) is State.UNKNOWN
    assert state("cxi", INTRA, ("a", {"lo": 200 * MB}), ("a", QUIET)) is State.BAD


def test_lnx_uses_shared_memory_inside_and_tcp_between_nodes_of_ethernet():
    busy = {"eth0": 100 * MB}
    assert state("lnx", INTRA, ("a", QUIET), ("a", QUIET)) is State.OK
    assert state("lnx", INTRA, ("a", {"lo": 200 * MB}), ("a", QUIET)) is State.BAD
    assert state("lnx", INTER, ("a", busy), ("b", busy), fabric="ethernet") is State.OK
    assert state("lnx", INTER, ("a", QUIET), ("b", QUIET), fabric="ethernet") is State.BAD
    # Of four ranks on two nodes pairs of one node rightly stay off the interfaces.
    assert state("lnx", FOUR, ("a", QUIET), ("b", QUIET), fabric="ethernet") is State.UNKNOWN


def test_auto_accepts_every_path_and_shows_it():
    case = Case(program="x", benchmarks=("latency",), sizes=(8,), placement=INTER)
    check = transports.get("auto").check(output(("a", {"eth1": 5 * MB})), case)
    assert check.state is State.OK
    assert "eth1 5.0 MB" in check.evidence


@pytest.mark.parametrize(
    ("name", "family", "version", "placement"),
    [
        ("tcp", "mpich", "3.4.3", INTER),
        ("shm", "mpich", "3.4.3", INTRA),
        ("shm", "openmpi", "4.1.8", INTRA),
        ("tcp", "cray-mpich", "8.1.28", INTER),
        ("shm", "cray-mpich", "8.1.28", INTRA),
        ("shm", "mpich", "5.0.2", INTER),
        ("tcp", "openmpi", "5.0.11", Placement(name="lo", ranks=INTRA.ranks, interface="lo")),
    ],
)
def test_what_cannot_be_forced_is_unsupported_with_a_way_out(name, family, version, placement):
    with pytest.raises(StackproofError) as caught:
        transports.get(name).profile(Setup(family=family, version=version, placement=placement))
    assert caught.value.reason is Reason.UNSUPPORTED
    assert caught.value.problems[0].hint


@pytest.mark.parametrize("family", ["openmpi", "mpich", "intel-mpi"])
def test_tcp_pins_the_interface_only_where_one_is_named(family):
    version = {"intel-mpi": "2021.18.1"}.get(family, "5.0")
    tcp = transports.get("tcp")
    pinned = tcp.profile(Setup(family=family, version=version, placement=INTER))
    free = tcp.profile(Setup(family=family, version=version, placement=FREE))
    assert pinned.env.set["FI_TCP_IFACE"] == "eth0"
    assert "FI_TCP_IFACE" not in free.env.set


@pytest.mark.parametrize(
    ("version", "found"),
    [("5.0.11", (5, 0, 11)), ("5.0.1.post1", (5, 0, 1)), ("5.1rc1", (5, 1)), ("", ()), ("x", ())],
)
def test_numbers_of_a_version(version, found):
    assert support.numbers(version) == found


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (34_447_794, "34.4 MB"),
                        (5_200_000_000, "5.2 GB")]
)  # fmt: skip
def test_amounts_are_decimal(count, text):
    assert traffic.amount(count) == text


def _parts(name: str, placement: Placement, *counts: dict[str, int], waits: float) -> State:
    """Answer for an arm that takes `waits` times as long, and so moves less in the same time.

    `counts` are the bytes that others sent on each node during each part of 20 ms.
    """
    sizes = (65536, 1 << 20)
    series = tuple(
        Series(
            benchmark="latency", size=size, unit="us", values=(1.0,) * 20,
            iterations=int(20 * 65536 / size / waits) or 1,
        )
        for size in sizes
    )  # fmt: skip
    ranks = tuple(
        RankFacts(
            rank=number, host=rank.node, tx_bytes={name: 50 * count for name, count in more.items()},
            parts={f"latency {size}": more for size in sizes},
            disturbance=Disturbance(wall_s=0.04),
        )
        for number, (rank, more) in enumerate(zip(placement.ranks, counts, strict=True))
    )  # fmt: skip
    case = Case(
        program="x", benchmarks=("latency",), sizes=sizes, placement=placement, transport=name
    )
    return transports.get(name).check(Output(program="x", series=series, ranks=ranks), case).state


@pytest.mark.parametrize("waits", [1.0, 1.03, 1.2, 3.0])
def test_traffic_of_others_discards_no_arm_however_slow_it_is(waits):
    """125 MB/s on a link of the node for the whole launch is more than a slow arm moves."""
    others = {"eth0": 2_500_000, "lo": 0}
    assert _parts("shm", INTRA, others, others, waits=waits) is State.UNKNOWN


@pytest.mark.parametrize("waits", [1.0, 1.2, 3.0])
def test_traffic_of_others_by_another_interface_is_not_a_second_path(waits):
    own = {"eth0": 20 * 20 * 65536, "eth1": 2_500_000}
    assert _parts("tcp", INTER, own, own, waits=waits) is State.OK


def test_messages_by_two_interfaces_are_a_second_path():
    half = {"eth0": 20 * 20 * 65536 // 2, "eth1": 20 * 20 * 65536 // 2}
    assert _parts("tcp", INTER, half, half, waits=1.0) is State.BAD


def test_an_mpi_that_takes_the_network_shows_in_every_part():
    own = {"lo": 2 * 20 * 20 * 65536}
    assert _parts("shm", INTRA, own, own, waits=1.0) is State.BAD


# --------------------------------------------------------------------------------------------------
# What every transport keeps.

VERSIONS = {
    "openmpi": "5.0.11",
    "mpich": "5.0.2",
    "intel-mpi": "2021.18.1",
    "cray-mpich": "8.1.28",
    "mvapich": "4.1",
}
PLACEMENTS = {
    "intra": Placement(name="intra", ranks=(Rank(node="a"), Rank(node="a"))),
    "inter": Placement(name="inter", ranks=(Rank(node="a"), Rank(node="b")), interface="eth0"),
}
each_transport = pytest.mark.parametrize("name", list(transports.REGISTRY))


def can(name, family, version):
    """Return whether a release of a family can be forced to a transport."""
    paths = {"matched": ("cxi", "matched"), "auto": ()}.get(name, (name,))
    return name == "auto" or any(support.forced(path, family, version) for path in paths)


def test_unknown_transport_is_unsupported():
    with pytest.raises(StackproofError) as caught:
        transports.get("pigeon")
    assert caught.value.reason is Reason.UNSUPPORTED


def test_every_family_is_in_the_table_of_this_test():
    assert set(VERSIONS) == set(families.REGISTRY)


FABRICS = ["", FabricType.SLINGSHOT_11.value, FabricType.ETHERNET.value]
CAN_ALL = Libfabric(version="2.5.1", providers=frozenset({"lnx", "shm", "cxi", "tcp", "rxm"}))
WITHOUT_SLINGSHOT = {"cxi", "matched"}


@each_transport
@pytest.mark.parametrize("family", list(VERSIONS))
@pytest.mark.parametrize("placement", list(PLACEMENTS))
@pytest.mark.parametrize("fabric", FABRICS)
def test_a_profile_or_an_error_that_says_which_can(name, family, placement, fabric):
    transport = transports.get(name)
    setup = Setup(
        family=family, version=VERSIONS[family], placement=PLACEMENTS[placement],
        libfabric=CAN_ALL, fabric=fabric, xpmem=False,
    )  # fmt: skip
    cannot = (
        not can(name, family, setup.version)
        or (name == "shm" and placement == "inter")
        or (name == "lnx" and fabric == FabricType.ETHERNET)  # this libfabric cannot, 2.1 can
        or (name in WITHOUT_SLINGSHOT and fabric == FabricType.ETHERNET)
    )
    if cannot:
        with pytest.raises(StackproofError) as caught:
            transport.profile(setup)
        assert caught.value.reason is Reason.UNSUPPORTED
        assert caught.value.problems[0].hint
        return
    profile = transport.profile(setup)
    assert not profile.env.unset
    assert not profile.env.prepend
    assert all(value for value in profile.env.set.values())
    assert not profile.notes
    # A forced path has settings; only the MPI's own choice may have none.
    assert profile.env.set or name == "auto"
    assert transport.profile(setup) == profile


@each_transport
def test_a_check_of_nothing_is_never_bad(name):
    case = Case(program="x", benchmarks=(), sizes=(), placement=PLACEMENTS["inter"])
    check = transports.get(name).check(Output(program="x"), case)
    assert check.name == "transport"
    assert check.state is not State.BAD
    assert check.evidence
