"""What a comparison says of a solver's launches: the same system, and which exchange is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from experiments import changed, output, until
from stackproof.compare import halo
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison, Verdict
from stackproof.core.value import replace
from stackproof.results.measurement import Disturbance, Measurement, Series
from stackproof.results.model import Results
from synthetic import INTRA, Plan, simulate

HISTORY = tuple(0.5**k for k in range(1, 30))
OTHER = (*HISTORY[:4], HISTORY[4] * (1 + 1e-9), *HISTORY[5:])
SAME = (*HISTORY[:4], HISTORY[4] * (1 + 1e-12), *HISTORY[5:])
BASE, NULL = "impi", "impi again"
Which = Callable[[Measurement], tuple[float, ...]]


def right(_: Measurement) -> tuple[float, ...]:
    return HISTORY


def solved(
    slower: Mapping[str, float] | None = None, history: Which = right, *, null: str | None = NULL
) -> Results:
    """Return launches in which indexed takes so many times as long as pack, by arm."""
    random = np.random.default_rng(7)
    plan = Plan(challengers=("mpich",), placements=(INTRA,), null=null, sizes=(8,), samples=1)

    def solve(one: Measurement) -> Measurement:
        indexed, packed = 10.0 * np.exp(random.normal(0, 0.03, 2))
        values = {"halo_pack": packed, "halo_indexed": indexed * (slower or {}).get(one.arm, 1.0)}
        found = tuple(
            Series(
                benchmark=name, size=0, unit="us", values=(float(value),), iterations=2,
                residuals=history(one),
            )
            for name, value in values.items()
        )  # fmt: skip
        case = replace(one.case, program="stackproof-solver", benchmarks=tuple(values))
        return replace(one, case=case, output=replace(one.output, series=found))

    return changed(simulate(plan, 3), solve)


def said(comparison: Comparison, arm: str) -> tuple[str, str]:
    """Return level and text of what is said of an arm's exchanges."""
    (note,) = (n for n in comparison.notes if n.text.startswith(f"a halo exchange of {arm} "))
    return note.level, note.text


def test_slow_datatypes_are_found_where_they_are_and_nowhere_else() -> None:
    comparison = compare(solved({"mpich": 3.0}))
    level, text = said(comparison, "mpich")
    assert level == "warning"
    assert "the fastest way first: pack" in text
    assert "times as long as packed by the program (95 % interval 2.9" in text
    assert text.endswith("datatypes are slow with this MPI, so pack")
    level, text = said(comparison, BASE)
    assert level == "note"
    assert "datatypes are slow" not in text
    assert "indexed) it takes 0.98 times" in text
    assert not any(NULL in note.text for note in comparison.notes if "halo" in note.text)
    assert comparison.verdict_of("mpich").verdict is Verdict.FAIL


@pytest.mark.parametrize(("times", "level"), [(1.4, "note"), (1.7, "warning"), (0.4, "note")])
def test_the_whole_interval_must_lie_above_the_threshold(times: float, level: str) -> None:
    assert said(compare(solved({"mpich": times})), "mpich")[0] == level


def test_launches_that_something_disturbed_make_no_warning() -> None:
    results = solved({"mpich": 3.0})

    def disturbed(one: Measurement) -> Measurement:
        first, *others = one.output.ranks
        busy = Disturbance(wall_s=1.0, run_queue_wait_s=0.5)
        return output(ranks=(replace(first, disturbance=busy), *others))(one)

    for blocks, level in ((range(1, 5), "warning"), (range(1, 9), "note")):
        here = {("mpich", block) for block in blocks}
        hit = changed(results, disturbed, lambda one, here=here: (one.arm, one.block) in here)
        got, text = said(compare(hit), "mpich")
        assert got == level
        assert ("not borne out by launches that nothing disturbed" in text) is (level == "note")


def test_few_launches_have_no_interval() -> None:
    results = solved({"mpich": 3.0})
    level, text = said(compare(until(results, 3)), "mpich")
    assert level == "note"
    assert "interval" not in text


def test_rounding_is_the_same_system_and_all_launches_count() -> None:
    results = solved(history=lambda one: SAME if one.arm == "mpich" else HISTORY)
    assert halo.check_residuals(results) is results
    assert compare(results).discarded == ()


def test_a_launch_with_other_residuals_never_counts_and_its_arm_fails() -> None:
    results = solved(history=lambda o: OTHER if (o.arm, o.block) == ("mpich", 4) else HISTORY)
    comparison = compare(results)
    (lost,) = (one for one in comparison.discarded if one.what == "launch")
    assert (lost.arm, lost.block, lost.reason) == ("mpich", 4, "validation-failed")
    assert "halo_pack: residual 5 is 0.03125000003" in lost.evidence
    assert "and 0.03125 in most launches" in lost.evidence
    assert comparison.verdict_of("mpich").verdict is Verdict.FAIL


@pytest.mark.parametrize("wrong", ["mpich", BASE])
def test_an_arm_that_always_solves_another_system_is_told_from_the_baseline(wrong: str) -> None:
    """Without the null arm it is one against one: the baseline is believed."""
    results = solved(history=lambda one: OTHER if one.arm == wrong else HISTORY, null=None)
    bad = {one.arm for one in halo.check_residuals(results).measurements if not one.usable}
    assert bad == {"mpich"}


def test_a_history_that_ends_early_is_another() -> None:
    results = solved(history=lambda one: HISTORY[:3] if one.arm == "mpich" else HISTORY)
    texts = {c.evidence for m in halo.check_residuals(results).measurements for c in m.checks[-1:]}
    assert "halo_pack: residual 4 is none, and 0.0625 in most launches of the same system" in texts


def test_results_of_other_programs_are_left_alone() -> None:
    results = simulate(Plan(blocks=5), 1)
    assert halo.check_residuals(results) is results
    assert not any("halo" in note.text for note in compare(results).notes)
