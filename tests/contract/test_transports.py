"""What every transport keeps."""

import pytest

from stackproof import mpis, transports
from stackproof.case import Case, Placement, Rank
from stackproof.errors import Reason, StackproofError
from stackproof.measurement import Output, State

VERSIONS = {
    "openmpi": "5.0.11",
    "mpich": "5.0.2",
    "intel-mpi": "2021.18.1",
    "cray-mpich": "8.1.28",
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
    assert set(VERSIONS) == set(mpis.REGISTRY)


@each_transport
@pytest.mark.parametrize("family", list(VERSIONS))
@pytest.mark.parametrize("placement", list(PLACEMENTS))
def test_a_patch_or_an_error_that_says_which_can(name, family, placement):
    transport = transports.get(name)
    version, where = VERSIONS[family], PLACEMENTS[placement]
    if not transport.supports(family, version) or (name == "shm" and placement == "inter"):
        with pytest.raises(StackproofError) as caught:
            transport.patch(family, version, where)
        assert caught.value.reason is Reason.UNSUPPORTED
        assert caught.value.problems[0].hint
        return
    patch = transport.patch(family, version, where)
    assert not patch.unset
    assert not patch.prepend
    assert all(value for value in patch.set.values())
    # A forced path has settings; only the MPI's own choice may have none.
    assert patch.set or name == "auto"


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
