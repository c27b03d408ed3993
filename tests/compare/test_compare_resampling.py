"""Sign flips, exact intervals, step-down p-values, fits: against brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.compare import resampling


def against(rows, limit=0.0):
    """Return the p-values of "not below the limit"."""
    rows = np.asarray(rows, dtype=np.float64)
    return resampling.stepdown_p_values(rows, np.full(len(rows), limit))


def scores(row, at):
    return np.clip((row - at) / resampling.scales(row[None])[0], -1, 1)


def location(values, scale, sign):
    """Return where the cut-off differences balance, by halving; of several places the first."""
    values = sign * values
    low, high = min(values), max(values)
    for _ in range(60):
        middle = (low + high) / 2
        if np.clip((values - middle) / scale, -1, 1).sum() > 1e-9:
            low = middle
        else:
            high = middle
    return sign * (low + high) / 2


@pytest.mark.parametrize("blocks", [1, 2, 6, 13])
def test_few_blocks_have_every_sign_vector_or_its_negative(blocks):
    flips = resampling.sign_flips(blocks)
    both = {tuple(row) for row in np.vstack([flips, -flips])}
    assert len(flips) == 2 ** (blocks - 1)
    assert both == set(itertools.product((-1.0, 1.0), repeat=blocks))
    assert (flips[0] == 1).all()


@pytest.mark.parametrize(("blocks", "strength"), [(14, 5), (20, 5), (64, 5), (65, 3), (300, 3)])
def test_many_blocks_have_a_group_in_which_few_blocks_see_every_pattern(blocks, strength):
    flips = resampling.sign_flips(blocks)
    both = np.vstack([flips, -flips])
    assert both.shape == (8192, blocks)
    assert set(np.unique(both)) == {-1, 1}
    words = {row.tobytes() for row in both.astype(np.int8)}
    assert len(words) == 8192
    random = np.random.default_rng(blocks)
    for _ in range(50):  # a group: the product of two is one of them
        one, two = both[random.integers(0, 8192, 2)]
        assert (one * two).astype(np.int8).tobytes() in words
        chosen = both[:, random.choice(blocks, strength, replace=False)]
        _, counts = np.unique(chosen, axis=0, return_counts=True)
        assert counts.tolist() == [8192 // 2**strength] * 2**strength


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("blocks", [5, 6, 9])
def test_intervals_are_order_statistics_of_the_locations_of_all_subsets(blocks, seed):
    """Hartigan's typical values, found by making every subset."""
    row = np.random.default_rng([seed, blocks]).standard_t(3, blocks)
    scale = resampling.scales(row[None])[0]
    subsets = [
        row[list(chosen)]
        for size in range(1, blocks + 1)
        for chosen in itertools.combinations(range(blocks), size)
    ]
    (low,), (high,) = resampling.intervals(row[None], 0.025)
    # The empty set counts as one that is rejected by none.
    out = max(int(0.025 * 2**blocks), 1) - 1
    lows, highs = (sorted(location(one, scale, sign) for one in subsets) for sign in (1, -1))
    assert low == pytest.approx(lows[out], abs=2e-4 * scale)
    assert high == pytest.approx(highs[-1 - out], abs=2e-4 * scale)
    assert low <= resampling.centers(row[None])[0] <= high


def test_an_interval_ends_where_the_test_begins_to_reject():
    rows = np.random.default_rng(4).normal(0, 1, (50, 16))
    low, high = resampling.intervals(rows, 0.025)
    for row, bottom, top in zip(rows, low, high, strict=True):
        for sign, end in ((1, top), (-1, -bottom)):
            (beyond,), (inside,) = (
                against(sign * row[None], end + 1e-3),
                against(sign * row[None], end - 1e-3),
            )
            assert beyond <= 0.025 < inside


@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=1, max_size=12),
    st.floats(-3, 3),
    st.floats(0.1, 10),
)
def test_intervals_move_with_the_data_and_turn_with_the_sign(values, shift, factor):
    row = np.array([values])
    center, (low, high) = resampling.centers(row), resampling.intervals(row, 0.025)
    scale = max(1.0, float(np.abs(row).max())) * factor + abs(shift)
    assert min(values) <= low[0] + 1e-9
    assert low[0] - 1e-9 <= center[0] <= high[0] + 1e-9
    assert high[0] <= max(values) + 1e-9
    turned = resampling.intervals(-row, 0.025)
    assert turned[0][0] == pytest.approx(-high[0], abs=1e-3 * scale)
    moved = resampling.intervals(row * factor + shift, 0.025)
    assert moved[0][0] == pytest.approx(low[0] * factor + shift, abs=2e-3 * scale)


def test_equal_launches_have_an_interval_of_no_width():
    low, high = resampling.intervals(np.full((1, 10), 0.3), 0.025)
    assert low[0] == high[0] == resampling.centers(np.full((1, 10), 0.3))[0] == 0.3


def test_a_missing_pair_is_as_if_it_had_never_been():
    rows = np.random.default_rng(1).normal(0, 1, (3, 10))
    holes = np.insert(rows, [3, 7], np.nan, axis=1)
    np.testing.assert_allclose(
        resampling.intervals(rows, 0.025), resampling.intervals(holes, 0.025), atol=1e-3
    )
    np.testing.assert_allclose(against(rows - 1), against(holes - 1))
    one = np.full((1, 5), np.nan)
    one[0, 2] = 4.0
    assert [end[0] for end in resampling.intervals(one, 0.025)] == [4.0, 4.0]


@pytest.mark.battery
@pytest.mark.parametrize("blocks", [5, 10, 20])
def test_intervals_hold_the_truth_as_often_as_they_say(blocks):
    random = np.random.default_rng(blocks)
    inside = []
    for draw in (random.normal, random.laplace):
        low, high = resampling.intervals(draw(size=(2000, blocks)), 0.025)
        inside.append(((low <= 0) & (high >= 0)).mean())
    assert all(0.93 <= share <= 0.965 for share in inside), inside


@pytest.mark.parametrize("seed", range(5))
def test_one_size_is_the_exact_randomisation_test(seed):
    """Fisher's: the share of all 1024 sign vectors that leave as little as what was seen."""
    row = np.random.default_rng(seed).normal(-0.3, 1, 10)
    cut = scores(row, 0.0)
    sums = [float(np.dot(signs, cut)) for signs in itertools.product((1, -1), repeat=10)]
    share = sum(one <= sums[0] + 1e-9 for one in sums) / len(sums)
    assert against(row[None])[0] == pytest.approx(share)


def test_many_blocks_agree_with_all_swaps():
    row = np.random.default_rng(7).normal(-0.4, 1, 18)
    cut = scores(row, 0.0)
    sums = np.array([0.0])
    for value in cut:
        sums = np.concatenate([sums + value, sums - value])
    assert against(row[None])[0] == pytest.approx((sums <= cut.sum() + 1e-9).mean(), abs=0.006)


def test_one_wild_launch_does_not_hide_a_difference():
    row = np.array([-1.0, -1.1, -0.9, -1.2, -1.0, -1.05, -0.95, -1.1, -1.0, 30.0])
    assert against(row[None])[0] < 0.05
    assert resampling.intervals(row[None], 0.025)[1][0] < -0.8


def test_sizes_that_say_the_same_cost_nothing():
    row = np.random.default_rng(1).normal(-2, 0.5, 10)
    np.testing.assert_allclose(against(np.tile(row, (20, 1))), against(row[None])[0])


def test_adjusted_is_never_below_unadjusted_and_keeps_the_order():
    rows = np.random.default_rng(2).normal(-0.4, 1, (12, 10))
    adjusted = against(rows)
    plain = np.array([against(row[None])[0] for row in rows])
    assert (adjusted >= plain - 1e-12).all()
    assert (np.diff(adjusted[np.argsort(plain, kind="stable")]) >= -1e-12).all()


def test_family_wise_error_is_held_at_the_boundary():
    """23 sizes, some sharing noise, none worse: at most 5 % of families may show a false alarm."""
    random = np.random.default_rng(3)
    alarms = 0
    for _ in range(400):
        rows = random.standard_t(3, (23, 10)) + random.normal(0, 1, 10)
        alarms += (against(rows) <= 0.05).any()
    # More than that many happen once in ten thousand times where each has a chance of 5 %.
    chances = [math.comb(400, k) * 0.05**k * 0.95 ** (400 - k) for k in range(alarms)]
    assert sum(chances) < 0.9999


def test_sizes_without_observations_get_no_p_value():
    rows = np.array([[np.nan] * 6, [-1.0, -2, -3, -1.5, -2.5, np.nan]])
    found = against(rows)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1 / 32)
    assert np.isnan(against(rows[:1])).all()


def test_equal_arms_are_no_evidence():
    found = against(np.zeros((1, 10)))
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


@pytest.mark.parametrize(
    ("tail", "value"),
    [
        (0.5, 0.0),
        (0.9, -1.2815515655446004),
        (0.025, 1.9599639845400545),
        (0.001, 3.090232306167813),
        (1e-10, 6.361340902404056),
    ],
)
def test_normal_quantile(tail, value):
    """Tabulated values, to more digits than any size needs."""
    assert resampling.normal_quantile(tail) == pytest.approx(value, rel=1e-13, abs=1e-13)


def test_below_is_where_the_interval_ends():
    random = np.random.default_rng(5)
    rows = random.normal(0.02, 0.03, (200, 12))
    _, high = resampling.intervals(rows, 0.01)
    limits = random.normal(0.03, 0.03, 200)
    clear = np.abs(high - limits) > 1e-4
    assert (resampling.below(rows, limits, 0.01) == (high < limits))[clear].all()
