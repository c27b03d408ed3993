"""The numbers behind a comparison, against SciPy and against themselves done the slow way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stackproof import resampling


@given(st.integers(1, 14), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_bootstrap_medians_are_the_medians_of_the_resamples(blocks, sizes, seed):
    values = np.random.default_rng(seed).lognormal(size=(sizes, blocks))
    counts = resampling.resample_counts(blocks, 30, seed)
    found = resampling.bootstrap_medians(values, counts)
    for resample in range(30):
        drawn = np.repeat(np.arange(blocks), counts[:, resample])
        assert len(drawn) == blocks
        np.testing.assert_allclose(found[:, resample], np.median(values[:, drawn], axis=1))


def test_bootstrap_medians_with_ties():
    values = np.array([[2.0, 1.0, 2.0, 2.0]])
    counts = np.array([[1], [2], [0], [1]], dtype=np.int16)
    assert resampling.bootstrap_medians(values, counts)[0, 0] == 1.5


def test_resamples_depend_on_seed_and_blocks_alone():
    one = resampling.resample_counts(10, 50, 3)
    np.testing.assert_array_equal(one, resampling.resample_counts(10, 50, 3))
    assert (one != resampling.resample_counts(10, 50, 4)).any()
    assert (one.sum(axis=0) == 10).all()


def test_interval_agrees_with_scipy():
    random = np.random.default_rng(5)
    left, right = random.lognormal(0, 0.1, 15), random.lognormal(0.1, 0.1, 15)
    counts = resampling.resample_counts(15, 20_000, 1)
    ratio = resampling.bootstrap_medians(right[None], counts) / resampling.bootstrap_medians(
        left[None], counts
    )
    low, high = resampling.percentile_interval(ratio, 0.95)
    theirs = stats.bootstrap(
        (left, right),
        lambda a, b, axis: np.median(b, axis=axis) / np.median(a, axis=axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        random_state=np.random.default_rng(9),
        vectorized=True,
    ).confidence_interval
    assert low[0] == pytest.approx(theirs.low, rel=0.01)
    assert high[0] == pytest.approx(theirs.high, rel=0.01)


def test_all_sign_vectors_once_when_few():
    flips = resampling.sign_flips(6, 100, 1)
    assert len({tuple(row) for row in flips}) == len(flips) == 64
    assert (flips[0] == 1).all()


def test_random_sign_vectors_when_many():
    flips = resampling.sign_flips(20, 1000, 1)
    assert flips.shape == (1000, 20)
    assert (flips[0] == 1).all()
    assert set(np.unique(flips)) == {-1, 1}
    np.testing.assert_array_equal(flips, resampling.sign_flips(20, 1000, 1))


@pytest.mark.parametrize("seed", range(5))
def test_one_size_is_the_exact_randomisation_test(seed):
    row = np.random.default_rng(seed).normal(-0.3, 1, (1, 10))
    found = resampling.stepdown_p_values(row, resampling.sign_flips(10, 1024, 1))
    reach = 2 * np.median(np.abs(row[0]))
    theirs = stats.permutation_test(
        (np.clip(row[0], -reach, reach),),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        alternative="less",
        n_resamples=np.inf,
        vectorized=True,
    ).pvalue
    assert found[0] == pytest.approx(theirs)


def test_one_wild_launch_does_not_hide_a_difference():
    row = np.array([-1.0, -1.1, -0.9, -1.2, -1.0, -1.05, -0.95, -1.1, -1.0, 30.0])
    flips = resampling.sign_flips(10, 1024, 1)
    assert resampling.stepdown_p_values(row[None], flips)[0] < 0.05


def test_sizes_that_say_the_same_cost_nothing():
    row = np.random.default_rng(1).normal(-2, 0.5, 10)
    flips = resampling.sign_flips(10, 1024, 1)
    alone = resampling.stepdown_p_values(row[None], flips)
    many = resampling.stepdown_p_values(np.tile(row, (20, 1)), flips)
    np.testing.assert_allclose(many, alone[0])


def test_adjusted_is_never_below_unadjusted_and_keeps_the_order():
    rows = np.random.default_rng(2).normal(-0.4, 1, (12, 10))
    flips = resampling.sign_flips(10, 1024, 1)
    adjusted = resampling.stepdown_p_values(rows, flips)
    plain = np.array([resampling.stepdown_p_values(row[None], flips)[0] for row in rows])
    assert (adjusted >= plain - 1e-12).all()
    assert (np.diff(adjusted[np.argsort(plain, kind="stable")]) >= -1e-12).all()


def test_family_wise_error_is_held_at_the_boundary():
    """23 sizes, some sharing noise, none worse: at most 5 % of families may show a false alarm."""
    random = np.random.default_rng(3)
    flips = resampling.sign_flips(10, 1024, 1)
    alarms = 0
    for _ in range(400):
        rows = random.standard_t(3, (23, 10)) + random.normal(0, 1, 10)
        alarms += (resampling.stepdown_p_values(rows, flips) <= 0.05).any()
    assert alarms <= stats.binom.ppf(0.9999, 400, 0.05)


def test_sizes_without_observations_get_no_p_value():
    rows = np.array([[np.nan] * 6, [-1.0, -2, -3, -1.5, -2.5, np.nan]])
    found = resampling.stepdown_p_values(rows, resampling.sign_flips(6, 100, 1))
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1 / 32)
    assert np.isnan(resampling.stepdown_p_values(rows[:1], resampling.sign_flips(6, 64, 1))).all()


def test_equal_arms_are_no_evidence():
    found = resampling.stepdown_p_values(np.zeros((1, 10)), resampling.sign_flips(10, 1024, 1))
    assert found[0] == 1.0


def test_tukey():
    values = np.array([10.0, 11, 12, 13, 14, 30])
    assert resampling.tukey_outliers(values).tolist() == [False] * 5 + [True]
    assert not resampling.tukey_outliers(np.array([3.0])).any()


def test_line():
    sizes = [1.0, 10, 100, 1000]
    assert resampling.line(sizes, [2 + 0.5 * s for s in sizes]) == pytest.approx((2, 0.5))
    assert resampling.line([4.0, 4.0], [1.0, 1.1]) is None


def test_crossing():
    assert resampling.crossing([1, 2, 4, 8], [1, 2, 4, 8], 4) == pytest.approx(4)
    assert resampling.crossing([0, 1, 4], [0, 1, 16], 4) == pytest.approx(2)
    assert resampling.crossing([1, 2], [5, 6], 4) is None


def test_normal_quantile():
    assert resampling.normal_quantile(0.025) == pytest.approx(1.959964, abs=1e-5)
