"""Whether challengers are equal to the baseline: neither slower nor faster, as a swap asks."""

from __future__ import annotations

import pytest

from experiments import FAST, cells, experiment
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison, Verdict
from stackproof.core.value import replace
from stackproof.results.model import Results
from synthetic import SIZES, Noise


def equal(results: Results) -> Comparison:
    spec = replace(results.spec, equal=True)
    return compare(replace(results, spec=spec), FAST)


def test_equal_arms_are_equal() -> None:
    found = equal(experiment(slower={}))
    assert found.verdict is Verdict.PASS
    sentence = found.verdict_of("mpich").sentence
    assert sentence.startswith("Equal: mpich is as fast as impi, and no faster, within the margins")


@pytest.mark.parametrize(("factor", "word"), [(1.6, "slower"), (1 / 1.6, "faster")])
def test_an_arm_that_is_faster_is_as_unequal_as_one_that_is_slower(
    factor: float, word: str
) -> None:
    apart = {"mpich": {("inter-node", "latency"): dict.fromkeys(SIZES[:4], factor)}}
    found = equal(experiment(slower=apart))
    assert found.verdict is Verdict.FAIL
    failed = [cell for cell in cells(found, "mpich") if cell.verdict is Verdict.FAIL]
    assert [cell.size for cell in failed] == list(SIZES[:4])
    sentence = found.verdict_of("mpich").sentence
    assert sentence.startswith(f"Not equal, {word} at 4: mpich is as fast as impi, and no faster,")
    assert "differs at 4" in sentence


def test_without_the_question_faster_is_no_fault() -> None:
    apart = {"mpich": {("inter-node", "latency"): dict.fromkeys(SIZES, 0.5)}}
    found = compare(experiment(slower=apart), FAST)
    assert found.verdict_of("mpich").failed == 0


def test_at_the_margin_it_is_open_either_way() -> None:
    for factor in (1 / 0.9, 0.9):
        apart = {"mpich": {("inter-node", "latency"): dict.fromkeys(SIZES, factor)}}
        found = equal(experiment(slower=apart, noise=Noise(launch=0.03)))
        assert {cell.verdict for cell in cells(found, "mpich")} <= {
            Verdict.INCONCLUSIVE,
            Verdict.FAIL,
        }
        verdict = found.verdict_of("mpich")
        assert verdict.verdict is Verdict.INCONCLUSIVE
        assert verdict.sentence.startswith("Equal or not is open: ")


def test_too_few_launches_leave_it_open() -> None:
    found = equal(experiment(slower={}, blocks=3))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.verdict_of("mpich").sentence.startswith("Equal or not is open: ")
