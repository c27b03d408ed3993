"""What version nodes mean: the shipped table, and faults in one."""

from __future__ import annotations

import pytest

from stackproof.core import document
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects.known_releases import load_releases
from stackproof.inject.releases import nothing_known, number_of, parse_releases

GOOD = """
sources:
  map: {title: a map file, url: "https://example.org/a.map"}
  own: {title: our system, url: "https://example.org/os"}
systems:
  - names: [ours]
    glibc: [{release: "1", glibc: "2.5", source: own}]
libraries:
  - name: liba
    source: map
    nodes:
      - {node: A_1.9, release: "2.5"}
      - {node: A_1.10, release: "2.6"}
"""


def parsed(text):
    return parse_releases(document.parse(text, file="nodes.yaml"))


def test_the_shipped_table():
    known = load_releases()
    assert known.meaning("FABRIC_1.9") == "libfabric 2.5"
    assert known.meaning("LIBCXI_1.10") == "Slingshot host software 14.0.0"
    assert known.meaning("GLIBCXX_3.4.30") == "GCC 12.1"
    assert known.meaning("FABRIC_9.9") == ""
    assert known.newest(["FABRIC_1.9", "FABRIC_1.10", "FABRIC_1.1"]).startswith("FABRIC_1.10 (")
    # A higher number never means an older release of one library.
    for kind in ("FABRIC", "LIBCXI", "GLIBC", "GLIBCXX", "CXXABI"):
        nodes = [node for node in known.meanings if node.rpartition("_")[0] == kind]
        assert nodes == sorted(nodes, key=number_of)


@pytest.mark.parametrize(
    ("system", "glibc"),
    [
        ("SUSE Linux Enterprise Server 15 SP5", "2.31"),
        ("SLES15SP6", "2.38"),
        ("SLES 15-SP4 (COS 2.5)", "2.31"),
        ("HPE Cray OS on sles 15.3", "2.31"),
        ("openSUSE Leap 15.6", "2.38"),
        ("Red Hat Enterprise Linux 8.10 (Ootpa)", "2.28"),
        ("RHEL-9", "2.34"),
        ("Rocky Linux 9.3 (Blue Onyx)", "2.34"),
        ("CentOS Linux 7 (Core)", "2.17"),
        ("Debian GNU/Linux 12 (bookworm)", "2.36"),
        ("Ubuntu 22.04.3 LTS", "2.35"),
        ("Ubuntu 22.10", ""),
        ("SLES 15", ""),
        ("SLES 15 SP1", ""),
        ("SLES 15 SP5 and SP6", ""),
        ("RHEL 8 or later", ""),
        ("RHEL 8/9", ""),
        ("RHEL 80", ""),
        ("Debian 11 beside SLES 15 SP6", ""),
        ("Debian 11 beside SLES 15 SP5", "2.31"),
        ("Xubuntu 22.04", ""),
        ("Linux", ""),
        ("", ""),
    ],
)
def test_the_glibc_of_a_system(system, glibc):
    assert load_releases().glibc_of(system) == glibc
    assert nothing_known().glibc_of(system) == ""


def test_a_table():
    known = parsed(GOOD)
    assert known.meaning("A_1.10") == "liba 2.6"
    assert known.newest(["A_1.9", "liba.so.1", "A_1.10"]) == "A_1.10 (liba 2.6)"
    assert known.newest(["B_2"]) == "B_2"
    assert known.newest(["liba.so.1"]) == ""
    assert nothing_known().meaning("A_1.9") == ""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("source: map", "source: nowhere", Reason.INVALID_VALUE),
        ("source: own", "source: nowhere", Reason.INVALID_VALUE),
        ("node: A_1.9", "node: lower_1", Reason.INVALID_VALUE),
        ("release: ", "relase: ", Reason.UNKNOWN_KEY),
        ("name: liba", "name: 3", Reason.WRONG_TYPE),
    ],
)
def test_faults(old, new, reason):
    with pytest.raises(StackproofError) as caught:
        parsed(GOOD.replace(old, new))
    assert reason in {problem.reason for problem in caught.value.problems}
    assert all(problem.where and problem.where.line for problem in caught.value.problems)
