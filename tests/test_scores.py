import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from forecast_unc._checks import check_coverages
from forecast_unc.distributions import scores

ACTUAL = np.array([-3.0, -0.4, 0.0, 0.7, 12.0])
MEAN, STD = 0.3, 1.7
LOWER, UPPER = -2.0, 2.5

number = st.floats(-10, 10, allow_subnormal=False)
positive = st.floats(0.1, 10)


def crps_by_definition(y, mean, std):
    normal = stats.norm(mean, std)
    below, _ = integrate.quad(lambda t: normal.cdf(t) ** 2, -np.inf, y, epsabs=1e-12)
    above, _ = integrate.quad(lambda t: normal.sf(t) ** 2, y, np.inf, epsabs=1e-12)
    return below + above


def quantile_loss(y, quantile, level):
    return np.where(y >= quantile, level * (y - quantile), (1 - level) * (quantile - y))


def test_crps_is_its_integral():
    expected = [crps_by_definition(y, MEAN, STD) for y in ACTUAL]
    np.testing.assert_allclose(scores.crps(ACTUAL, MEAN, STD), expected, rtol=1e-7)


def test_crps_without_spread_is_the_absolute_error():
    np.testing.assert_allclose(scores.crps(ACTUAL, MEAN, 1e-12), abs(ACTUAL - MEAN), atol=1e-11)


def test_nlpd_and_pit_are_those_of_the_normal_distribution():
    normal = stats.norm(MEAN, STD)
    np.testing.assert_allclose(scores.nlpd(ACTUAL, MEAN, STD), -normal.logpdf(ACTUAL), rtol=1e-13)
    np.testing.assert_allclose(scores.pit(ACTUAL, MEAN, STD), normal.cdf(ACTUAL), rtol=1e-13)


def test_nlpd_stays_finite_far_from_the_mean():
    assert scores.nlpd(1e3, 0.0, 1.0) == pytest.approx(5e5 + 0.5 * math.log(2 * math.pi))


def test_interval_score_is_the_quantile_loss_of_its_ends():
    coverage = 0.8
    loss = quantile_loss(ACTUAL, LOWER, 0.1) + quantile_loss(ACTUAL, UPPER, 0.9)
    np.testing.assert_allclose(
        scores.interval_score(ACTUAL, LOWER, UPPER, coverage), 2 / (1 - coverage) * loss, rtol=1e-12
    )


def test_crps_is_the_interval_score_over_all_coverages():
    # CRPS = 2 int_0^1 (quantile loss) dq; in pairs of quantiles, int_0^1 a/2 IS(1 - a) da.
    def integrand(alpha, y):
        reach = stats.norm.isf(alpha / 2) * STD
        return alpha / 2 * scores.interval_score(y, MEAN - reach, MEAN + reach, 1 - alpha)

    for y in ACTUAL:
        integral, _ = integrate.quad(integrand, 0, 1, args=(y,), limit=200)
        assert integral == pytest.approx(scores.crps(y, MEAN, STD), rel=1e-5)


def test_coverage_counts_the_ends_as_inside():
    y = [LOWER - 1e-9, LOWER, 0.0, UPPER, UPPER + 1e-9]
    np.testing.assert_array_equal(scores.coverage(y, LOWER, UPPER), [0, 1, 1, 1, 0])


@pytest.mark.parametrize(
    ("lower_is_better", "of_the_truth"),
    [
        (scores.crps, 1 / math.sqrt(math.pi)),
        (scores.nlpd, 0.5 * math.log(2 * math.pi * math.e)),
        (
            lambda y, mean, std: scores.interval_score(y, mean - 2 * std, mean + 2 * std, 0.9545),
            2 * stats.norm.pdf(2) * 2 / 0.0455,
        ),
    ],
    ids=["crps", "nlpd", "interval_score"],
)
def test_the_true_distribution_scores_best(lower_is_better, of_the_truth):
    n = 20_000
    actual = stats.norm.ppf((np.arange(n) + 0.5) / n)  # midpoint rule under N(0, 1)

    def expected(mean, std):
        return lower_is_better(actual, mean, std).mean()

    truth = expected(0.0, 1.0)
    assert truth == pytest.approx(of_the_truth, rel=1e-3)
    for mean, std in [(0.5, 1.0), (-0.5, 1.0), (0.0, 0.6), (0.0, 1.6), (0.3, 1.3)]:
        assert expected(mean, std) > truth + 1e-2


def test_energy_score_by_hand():
    # (5 + 0) / 2 - (0 + 5 + 5 + 0) / 8
    assert scores.energy_score([0.0, 0.0], [[3.0, 4.0], [0.0, 0.0]]) == 1.25
    assert scores.energy_score([1.0, 2.0], [[1.0, 2.0]]) == 0.0


def test_energy_score_is_its_double_sum(rng):
    y, x = rng.normal(size=3), rng.normal(size=(40, 3))
    between = np.linalg.norm(x[:, None] - x[None], axis=2)
    expected = np.linalg.norm(x - y, axis=1).mean() - between.sum() / (2 * 40**2)
    assert scores.energy_score(y, x) == pytest.approx(expected, rel=1e-12)


def test_energy_score_of_one_step_is_the_crps():
    # Quantiles in place of draws: the empirical distribution is then as near as n = 2000 allows.
    n = 2000
    x = stats.norm.ppf((np.arange(n) + 0.5) / n, MEAN, STD)[:, None]
    for y in ACTUAL:
        assert scores.energy_score([y], x) == pytest.approx(scores.crps(y, MEAN, STD), rel=2e-3)


def test_energy_score_sees_the_correlation(rng):
    cov = np.array([[1.0, 0.9], [0.9, 1.0]])
    actual = rng.multivariate_normal([0, 0], cov, size=400)
    joint = rng.multivariate_normal([0, 0], cov, size=300)
    independent = rng.standard_normal((300, 2))
    difference = [
        scores.energy_score(y, independent) - scores.energy_score(y, joint) for y in actual
    ]
    assert np.mean(difference) > 3 * np.std(difference) / math.sqrt(len(difference))


def test_naive_scale_and_mase_by_hand():
    history = [1.0, 5.0, 2.0, 9.0, 4.0]
    assert scores.naive_scale(history) == (4 + 3 + 7 + 5) / 4
    assert scores.naive_scale(history, 2) == (1 + 4 + 2) / 3
    np.testing.assert_allclose(
        scores.mase([3.0, 8.0, 1.0], [3.0, 1.0, 8.0], history, 2), [0.0, 3.0, 3.0]
    )


def test_naive_scale_leaves_out_what_is_missing():
    assert scores.naive_scale([1.0, np.nan, 2.0, 9.0]) == 7.0


def test_smape_runs_from_0_to_200():
    np.testing.assert_allclose(
        scores.smape([100.0, 0.0, 5.0, 0.0, 3.0], [300.0, 1.0, 5.0, 0.0, -3.0]),
        [100.0, 200.0, 0.0, 0.0, 200.0],
    )
    np.testing.assert_array_equal(scores.smape([np.inf, -np.inf], mean=[1.0, -2.0]), 200.0)


@pytest.mark.parametrize(
    "score",
    [
        lambda y: scores.crps(y, MEAN, STD),
        lambda y: scores.nlpd(y, MEAN, STD),
        lambda y: scores.pit(y, MEAN, STD),
        lambda y: scores.interval_score(y, LOWER, UPPER, 0.9),
        lambda y: scores.coverage(y, LOWER, UPPER),
        lambda y: scores.mase(y, MEAN, [1.0, 2.0]),
        lambda y: scores.smape(y, MEAN),
        lambda y: [scores.energy_score([value], [[0.0], [1.0]]) for value in y],
    ],
    ids=["crps", "nlpd", "pit", "interval_score", "coverage", "mase", "smape", "energy_score"],
)
def test_what_was_not_observed_has_no_score(score):
    values = np.asarray(score(np.array([1.0, np.nan, 2.0])))
    np.testing.assert_array_equal(np.isnan(values), [False, True, False])


@given(y=number, mean=number, std=positive, shift=number, scale=positive)
def test_scores_follow_the_unit_of_y(y, mean, std, shift, scale):
    def moved(value):
        return shift + scale * value

    low, high = mean - std, mean + 2 * std
    new = (moved(y), moved(mean), scale * std)
    close = {"rtol": 1e-7, "atol": 1e-9}
    np.testing.assert_allclose(scores.crps(*new), scale * scores.crps(y, mean, std), **close)
    np.testing.assert_allclose(
        scores.nlpd(*new), scores.nlpd(y, mean, std) + math.log(scale), **close
    )
    np.testing.assert_allclose(scores.pit(*new), scores.pit(y, mean, std), **close)
    np.testing.assert_allclose(
        scores.interval_score(moved(y), moved(low), moved(high), 0.9),
        scale * scores.interval_score(y, low, high, 0.9),
        **close,
    )
    history = np.array([1.0, 4.0, 2.0])
    np.testing.assert_allclose(
        scores.mase(moved(y), moved(mean), moved(history)), scores.mase(y, mean, history), **close
    )
    paths = np.array([[low, mean], [high, mean], [mean, low]])
    np.testing.assert_allclose(
        scores.energy_score([moved(y), moved(0.0)], moved(paths)),
        scale * scores.energy_score([y, 0.0], paths),
        **close,
    )
    # A ratio scale has no shift.
    np.testing.assert_allclose(
        scores.smape(scale * y, scale * mean), scores.smape(y, mean), **close
    )


def test_arguments_broadcast_and_stay_untouched():
    y, mean, std = np.zeros((2, 3)), np.zeros(3), np.ones((2, 1))
    before = [a.copy() for a in (y, mean, std)]
    assert scores.crps(y, mean, std).shape == (2, 3)
    assert scores.coverage(y, mean - 1, mean + 1).shape == (2, 3)
    for now, then in zip((y, mean, std), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("score", [scores.crps, scores.nlpd, scores.pit])
@pytest.mark.parametrize("std", [0.0, -1.0])
def test_std_must_be_positive(score, std):
    with pytest.raises(ValueError, match=rf"std must be positive; got {std} at position 1\. "):
        score([0.0, 0.0], 0.0, [1.0, std])


def test_nan_in_the_forecast_is_an_error():
    with pytest.raises(ValueError, match=r"std must not be NaN; got NaN at position 0\. "):
        scores.crps([0.0], 0.0, [np.nan])
    with pytest.raises(ValueError, match=r"mean must not be NaN; got NaN at position \(1, 0\)\. "):
        scores.smape([[0.0], [0.0]], [[1.0], [np.nan]])
    with pytest.raises(ValueError, match=r"lower must not be NaN; got NaN at position 1\. "):
        scores.coverage([0.0, 0.0], [0.0, np.nan], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"samples must not be NaN; "):
        scores.energy_score([0.0], [[np.nan]])


@pytest.mark.parametrize("coverage", [95, 0, 1, -0.5, float("nan")])
def test_coverage_must_be_a_fraction(coverage):
    message = (
        rf"coverage must lie strictly between 0 and 1; got {coverage}\. "
        r"For a 95 % interval pass 0\.95\."
    )
    with pytest.raises(ValueError, match=message):
        scores.interval_score(0.0, -1.0, 1.0, coverage)


def test_interval_must_not_be_upside_down():
    with pytest.raises(
        ValueError, match=r"upper must not be below lower; got -1\.0 below 1\.0 at position 0\. "
    ):
        scores.interval_score([0.0], [1.0], [-1.0], 0.9)


@pytest.mark.parametrize("samples", [[0.0, 1.0], [[0.0]], np.empty((0, 2))])
def test_samples_must_be_paths_in_rows(samples):
    with pytest.raises(ValueError, match=r"samples must be of shape \(n, h\) for actual of shape"):
        scores.energy_score([0.0, 0.0], samples)


def test_history_must_give_a_scale():
    with pytest.raises(ValueError, match=r"history must hold two values 12 steps apart; got 3 val"):
        scores.naive_scale([1.0, 2.0, 3.0], 12)
    with pytest.raises(ValueError, match=r"history must change over 1 steps; got 2 differences"):
        scores.mase([1.0], [1.0], [4.0, 4.0, 4.0])
    with pytest.raises(ValueError, match=r"history must be one series, of shape \(n,\); got shape"):
        scores.naive_scale([[1.0, 2.0]])


@pytest.mark.parametrize("period", [0, -1, 1.5])
def test_seasonal_period_must_be_a_positive_whole_number(period):
    with pytest.raises(
        ValueError, match=f"seasonal_period must be a positive whole number; got {period}"
    ):
        scores.naive_scale([1.0, 2.0, 3.0], period)


@pytest.mark.parametrize("coverage", ["0.9", None, [0.9]])
def test_coverage_must_be_a_number(coverage):
    with pytest.raises(TypeError, match=r"coverage must be a number; got .*\. For a 95 % interval"):
        scores.interval_score(0.0, -1.0, 1.0, coverage)


def test_coverages_are_a_sequence_of_fractions():
    assert check_coverages(level for level in (0.5, np.float32(0.25))) == (0.5, 0.25)
    for one in (0.9, "0.9", None):
        with pytest.raises(
            TypeError, match=r"coverage must be a sequence of fractions; got .*\. Pass \(0\.9,\)"
        ):
            check_coverages(one)
    with pytest.raises(ValueError, match=r"coverage must hold a fraction; got none\. "):
        check_coverages([])
    with pytest.raises(ValueError, match=r"coverage must lie strictly between 0 and 1; got 95\. "):
        check_coverages((0.5, 95))


def test_the_module_lists_scores_alone():
    functions = ["coverage", "crps", "energy_score", "interval_score", "mase", "naive_scale"]
    assert [name for name in dir(scores) if name[0] != "_"] == [*functions, "nlpd", "pit", "smape"]


@pytest.mark.parametrize(
    "score",
    [
        lambda y: scores.crps(y, 0.0, 1.0),
        lambda y: scores.interval_score(y, 0.0, 1.0, 0.9),
        lambda y: scores.energy_score(y, [[0.0], [1.0]]),
        lambda y: scores.mase(y, 0.0, [1.0, 2.0]),
        lambda y: scores.smape(y, 0.0),
    ],
)
def test_strings_are_no_values(score):
    for y in ("a", ["1.0"], [[1.0], [1.0, 2.0]]):
        with pytest.raises(TypeError, match=r"actual must be numbers; got .* Pass an array of fl"):
            score(y)


@pytest.mark.parametrize(
    ("score", "arguments", "names", "got"),
    [
        (scores.crps, ([1, 2], [1], [1, 2, 3]), "actual, mean and std", "(2,), (1,), (3,)"),
        (scores.nlpd, ([1, 2], 1, [1, 2, 3]), "actual, mean and std", "(2,), (), (3,)"),
        (scores.pit, ([1, 2], 1, [1, 2, 3]), "actual, mean and std", "(2,), (), (3,)"),
        (scores.coverage, (1, [1, 2], [1, 2, 3]), "actual, lower and upper", "(), (2,), (3,)"),
        (
            scores.interval_score,
            ([1, 2, 3], [1, 2], [3, 4], 0.9),
            "actual, lower and upper",
            "(3,), (2,), (2,)",
        ),
        (scores.mase, ([1, 2], [1, 2, 3], [1, 2]), "actual and mean", "(2,), (3,)"),
        (scores.smape, ([1, 2], [1, 2, 3]), "actual and mean", "(2,), (3,)"),
    ],
)
def test_shapes_that_do_not_go_together(score, arguments, names, got):
    message = f"{names} must have shapes that go together; got {got}. Pass as many entries of each"
    with pytest.raises(ValueError, match=re.escape(message)):
        score(*arguments)
