"""What version nodes mean: the shipped table, and faults in one."""

from __future__ import annotations

import pytest

from stackproof.core import document
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects.named import load_releases
from stackproof.inject.releases import nothing_known, number_of, parse_releases

GOOD = """
sources:
  map: {title: a map file, url: "https://example.org/a.map"}
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
    assert set(known.sources) == set(known.meanings)
    # A higher number never means an older release of one library.
    for kind in ("FABRIC", "LIBCXI", "GLIBC", "GLIBCXX", "CXXABI"):
        nodes = [node for node in known.meanings if node.rpartition("_")[0] == kind]
        assert nodes == sorted(nodes, key=number_of)


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
