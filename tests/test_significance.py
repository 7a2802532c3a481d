"""Diebold-Mariano against statsmodels, by brute force, by hand, and in simulated size."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import binomtest, t

from forecast_unc.evaluation.significance import diebold_mariano


def moving_average(rng, n, order):
    noise = rng.standard_normal((n + order, 2))
    return sum(noise[i : i + n] for i in range(order + 1)).T ** 2


@pytest.mark.parametrize("lags", [0, 1, 3, 5])
@pytest.mark.parametrize("kind", ["alike", "alternating"])
def test_statsmodels_with_the_small_sample_factor(rng, lags, kind):
    n, h = 30, lags + 1
    own, other = moving_average(rng, n, 6)
    if kind == "alternating":  # neighbors differ: the rectangular variance is too small
        own, other = own + 40 * (-1.0) ** np.arange(n), other
    test = diebold_mariano(own, other, lags)
    fits = {
        kernel: sm.OLS(own - other, np.ones(n)).fit(
            cov_type="HAC", cov_kwds={"maxlags": lags, "kernel": name, "use_correction": False}
        )
        for kernel, name in (("rectangular", "uniform"), ("Bartlett", "bartlett"))
    }
    # The covariance of a kernel that is not positive definite may be negative: no std.
    variances = {kernel: fit.cov_params()[0, 0] for kernel, fit in fits.items()}
    assert test.kernel == max(variances, key=variances.get)
    if lags:
        assert test.kernel == {"alike": "rectangular", "alternating": "Bartlett"}[kind]
    mean = (own - other).mean()
    factor = np.sqrt((n + 1 - 2 * h + h * (h - 1) / n) / n)
    expected = factor * mean / np.sqrt(variances[test.kernel])
    assert test.statistic == pytest.approx(expected, rel=1e-12)
    assert test.p_value == pytest.approx(2 * t.sf(abs(expected), n - 1), rel=1e-12)
    assert test.difference == pytest.approx(mean)


def test_brute_force_and_sign(rng):
    own, other = moving_average(rng, 25, 2)
    d = own - other
    e = d - d.mean()
    pairs = sum(e[i] * e[j] for i in range(25) for j in range(25) if abs(i - j) <= 2)
    factor = (25 + 1 - 6 + 6 / 25) / 25
    test = diebold_mariano(own, other, 2)
    assert test.kernel == "rectangular"
    assert test.statistic == pytest.approx(d.mean() * np.sqrt(factor) / np.sqrt(pairs / 25**2))
    back = diebold_mariano(other, own, 2)
    assert (back.statistic, back.p_value) == pytest.approx((-test.statistic, test.p_value))


def test_by_hand():
    # d = -1, 0, -1, -2: mean -1, e = 0, 1, 0, -1, gamma_0 = 1/2; S = -1 sqrt((4 - 1) / (1/2))
    test = diebold_mariano([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 4.0, 6.0], 0)
    assert test.statistic == pytest.approx(-np.sqrt(6))
    # with gamma_1 = 0 and h = 2, n + 1 - 2 h + h (h - 1) / n = 3/2
    test = diebold_mariano([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 4.0, 6.0], 1)
    assert test.statistic == pytest.approx(-np.sqrt(3))


def test_without_lags_it_is_the_paired_t_test(rng):
    from scipy.stats import ttest_rel

    own, other = rng.standard_normal((2, 12))
    expected = ttest_rel(own, other)
    test = diebold_mariano(own, other, 0)
    assert (test.statistic, test.p_value) == pytest.approx((expected.statistic, expected.pvalue))


def test_a_variance_that_is_not_positive_is_replaced():
    alternating = np.array([1.0, -1.0] * 6) + 0.1
    test = diebold_mariano(alternating, np.zeros(12), 1)
    assert 1 - 2 * 11 / 12 < 0  # gamma_0 + 2 gamma_1 would be negative
    assert test.kernel == "Bartlett"
    factor = 12 + 1 - 4 + 2 / 12
    assert test.statistic == pytest.approx(0.1 * np.sqrt(factor / (1 - 11 / 12)))


@pytest.mark.parametrize("order", [0, 2])
def test_size_is_near_nominal(rng, order):
    n_draws, n = 2000, 60
    rejected = sum(
        diebold_mariano(*moving_average(rng, n, order), order).p_value < 0.05
        for _ in range(n_draws)
    )
    # Exact without lags but for the shape of the losses; with lags up to 8 % at this length.
    low, high = (0.05, 0.05) if order == 0 else (0.05, 0.08)
    assert binomtest(rejected, n_draws, low, alternative="less").pvalue > 0.001
    assert binomtest(rejected, n_draws, high, alternative="greater").pvalue > 0.001


def test_losses_that_never_differ_have_no_statistic():
    loss = np.array([1.0, 2.0, 3.0])
    for other in (loss, loss + 1, loss * (1 + 1e-15)):
        test = diebold_mariano(loss, other, 1)
        assert np.isnan([test.statistic, test.p_value]).all()
        assert test.difference == pytest.approx((loss - other).mean())


@pytest.mark.parametrize(
    ("own", "other", "lags", "message"),
    [
        (
            [1.0, 2.0],
            [1.0, 3.0],
            1,
            "loss must hold at least 3 origins if .* of 2 overlap; got 2. ",
        ),
        ([1.0], [1.0], 0, "loss must hold at least 2 origins .*; got 1. Take more origins, or"),
        ([1.0, np.nan], [1.0, 3.0], 0, "loss and reference must be finite and of one shape"),
        ([1.0, 2.0], [1.0], 0, r"of one shape .*; got shapes \(2,\) and \(1,\). Leave out"),
        ([1.0, 2.0], [1.0, 3.0], -1, "lags must be a whole number, at least 0; got -1. 0 is for"),
    ],
)
def test_bad_arguments(own, other, lags, message):
    with pytest.raises(ValueError, match=message):
        diebold_mariano(own, other, lags)
