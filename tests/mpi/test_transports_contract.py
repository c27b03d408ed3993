"""What every transport keeps."""

import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import families, transports
from stackproof.mpi.transports import Libfabric, Profile, Setup
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Output, State
from stackproof.site.model import FabricType

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


@each_transport
def test_registered_under_its_name(name):
    assert transports.get(name).name == name
    assert transports.get(name).title


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
        not transport.supports(family, setup.version)
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


def test_an_empty_profile_changes_nothing():
    assert Profile().env.apply({"A": "1"}) == {"A": "1"}


@each_transport
def test_unknown_family_is_supported_by_auto_alone(name):
    assert transports.get(name).supports("lam", "7.1") is (name == "auto")


@each_transport
def test_a_check_of_nothing_is_never_bad(name):
    case = Case(program="x", benchmarks=(), sizes=(), placement=PLACEMENTS["inter"])
    check = transports.get(name).check(Output(program="x"), case)
    assert check.name == "transport"
    assert check.state is not State.BAD
    assert check.evidence
