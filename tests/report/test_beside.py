"""Two results beside each other: which of their ratios differ, and what they have not in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from inprocess import stackproof
from reportsamples import SLOW, comparison_of
from stackproof.compare.model import Comparison
from stackproof.core.errors import StackproofError
from stackproof.core.value import replace
from stackproof.report.beside import beside_text, other_arms, rows_of
from synthetic import Plan, simulate, write_results


@pytest.fixture(scope="module")
def slow() -> Comparison:
    return comparison_of(challengers=("mpich",), benchmarks=("latency",), slower=SLOW)


@pytest.fixture(scope="module")
def fast() -> Comparison:
    return comparison_of(challengers=("mpich",), benchmarks=("latency",), slower={}, blocks=12)


def test_ratios_differ_where_their_intervals_do_not_meet(
    slow: Comparison, fast: Comparison
) -> None:
    rows = rows_of(slow, fast)
    assert {(row.arm, row.placement) for row in rows} >= {("mpich", "inter-node")}
    planted = {
        row.size
        for row in rows
        if row.placement == "inter-node" and row.arm == "mpich" and row.differ
    }
    assert planted >= {8, 1024}
    assert not any(row.differ for row in rows_of(slow, slow))
    text = beside_text(slow, fast, ("on-nodes", "in-slurm"))
    (line,) = [
        one
        for one in text.splitlines()
        if one.split()[:5] == ["inter-node", "latency", "mpich", "8", "B"]
    ]
    assert line.endswith("differ")
    assert "FAIL" in line
    assert "pass" in line
    differing = sum(row.differ for row in rows)
    assert f"{differing} of {len(rows)} ratios differ" in text


def test_what_they_have_not_in_common_is_told(slow: Comparison, fast: Comparison) -> None:
    arms = {
        name: replace(arm, image_sha256="0" * 64) if name == "mpich" else arm
        for name, arm in fast.spec.arms.items()
    }
    other = replace(fast, spec=replace(fast.spec, arms=arms))
    assert other_arms(slow, fast) == ()
    assert other_arms(slow, other) == ("mpich",)
    assert "note: mpich is not the same bytes in both" in beside_text(slow, other, ("a", "b"))
    with pytest.raises(StackproofError, match="no arm in common"):
        rows_of(slow, replace(fast, panels=()))


def test_the_command_ends_as_the_worse_of_both(tmp_path: Path) -> None:
    plan = Plan(challengers=("mpich",), benchmarks=("latency",), sizes=(8,), blocks=11)
    one = write_results(simulate(plan), tmp_path / "one")
    two = write_results(simulate(replace(plan, slower=SLOW)), tmp_path / "two")
    for first, *beside in ((two,), (one, "--beside", two), (two, "--beside", one)):
        done = stackproof("compare", first, *beside)
        assert done.returncode == 8
        assert "latency" in done.stdout
    assert stackproof("compare", one).returncode != 8
    done = stackproof("compare", one, "--beside", two, "--json")
    assert (done.returncode, "exclude each other" in done.stderr) == (2, True)
    assert stackproof("compare", one, "--beside", tmp_path / "gone").returncode != 0
