"""Forecasts of series with many values at their bound: moved before it, so that the mean stays."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from forecast_unc import Forecast, Forecaster, load_model
from forecast_unc.distributions.power import PowerTransform

INDEX = pd.period_range("2024-01", periods=3, freq="M")
MEAN, STD = np.array([1.0, 0.6, 3.0]), np.array([2.0, 1.0, 1.5])
COR = np.array([[1.0, 0.7, 0.4], [0.7, 1.0, 0.6], [0.4, 0.6, 1.0]])
COV = COR * np.outer(STD, STD)
LOWER = 0.25
LEVELS = [0.01, 0.2, 0.5, 0.9, 0.999]


def normal(mean=MEAN, cov=COV, **kwargs):
    return Forecast(INDEX, mean, cov, **kwargs)


def mixed():
    """An identity, a logarithm and a root, of which the identity goes below the bound."""
    log = Forecast(INDEX, [0.0, -1.0, 1.0], 0.2 * COR, transform=PowerTransform(0.0))
    root = Forecast(INDEX, [0.5, -1.5, 1.0], COR, transform=PowerTransform(0.5))
    return Forecast.average([normal(), log, root], [0.6, 0.2, 0.2])


KINDS = {
    "normal": normal,
    "heavy tails": lambda: normal().recalibrated([1.0, 1.2, 0.9], dof=4.0),
    "conformal": lambda: normal().conformal([[0.3, 0.8, 1.5, 1.6]] * 3),
    "average": mixed,
}


@pytest.fixture(params=KINDS, ids=str)
def free(request):
    return KINDS[request.param]()


@pytest.fixture
def kept(free):
    return free.censored(LOWER, keep_moments=True)


def censored_moments(mean, std, lower, upper=np.inf):
    """Mean and variance of z ~ N(mean, std^2) moved into the bounds, by adaptive quadrature."""
    z, end = stats.norm(mean, std), min(mean + 12 * std, upper)

    def moment(power):
        within = integrate.quad(lambda x: (x - lower) ** power * z.pdf(x), lower, end, epsabs=1e-13)
        return within[0] + (end - lower) ** power * z.sf(end)

    first, second = moment(1), moment(2)
    return lower + first, second - first**2


# The distribution


@pytest.mark.parametrize("latent", [(-2.5, 2.0), (0.0, 1.0), (0.7, 0.3), (6.0, 2.0)])
def test_a_normal_is_found_from_the_moments_of_its_censored_values(latent):
    mean, var = censored_moments(*latent, LOWER)
    ahead = Forecast(INDEX[:1], [mean], [[var]]).censored(LOWER, keep_moments=True)
    assert mean > LOWER + 0.2 * np.sqrt(var)  # else it would be raised
    expected = np.maximum(stats.norm(*latent).ppf(LEVELS), LOWER)
    np.testing.assert_allclose(ahead.quantile(LEVELS).iloc[0], expected, rtol=1e-6)
    zero = ahead.cdf(LOWER).item()
    assert 2 * ahead.score(pd.Series(LOWER, INDEX[:1]))["pit"].item() == pytest.approx(zero)
    assert zero == pytest.approx(stats.norm(*latent).cdf(LOWER), rel=1e-6)


def test_moments_stay_as_they_are(free, kept):
    np.testing.assert_allclose(kept.mean, free.mean, rtol=1e-9)
    np.testing.assert_allclose(kept.std, free.std, rtol=1e-8)
    assert (free.censored(LOWER).mean > free.mean + 0.001).all()
    # and are those of the quantiles, by the midpoint rule
    edges = np.linspace(-8.0, 8.0, 20_001)
    p, z = np.diff(stats.norm.cdf(edges)), 0.5 * (edges[1:] + edges[:-1])
    quantiles = kept.quantile(stats.norm.cdf(z)).to_numpy()
    assert quantiles.min() == LOWER
    np.testing.assert_allclose(quantiles @ p, free.mean, rtol=1e-5)


UPPER = 2.5


@pytest.mark.parametrize("latent", [(-2.5, 2.0), (0.7, 0.3), (2.2, 1.0), (1.0, 30.0)])
def test_a_normal_is_found_from_its_moments_between_two_bounds(latent):
    mean, var = censored_moments(*latent, LOWER, UPPER)
    free = Forecast(INDEX[:1], [mean], [[var]])
    ahead = free.censored(LOWER, upper=UPPER, keep_moments=True)
    expected = np.clip(stats.norm(*latent).ppf(LEVELS), LOWER, UPPER)
    np.testing.assert_allclose(ahead.quantile(LEVELS).iloc[0], expected, rtol=1e-6)
    np.testing.assert_allclose([ahead.mean.item(), ahead.var.item()], [mean, var], rtol=1e-9)


@pytest.mark.parametrize(
    ("upper", "mean", "std"), [(2.5, 1.0, 1.0), (1.0, 0.3, 0.4), (1.5, 0.3, 0.5), (1e150, 1.0, 1.0)]
)
def test_moments_stay_between_two_bounds(upper, mean, std):
    free = Forecast(INDEX[:1], [mean], [[std**2]])
    kept = free.censored(0.0, upper=upper, keep_moments=True)
    np.testing.assert_allclose([kept.mean.item(), kept.std.item()], [mean, std], rtol=1e-9)


def test_moments_between_two_bounds_are_those_of_paths(free):
    free, kept = (f.first(3) for f in (free, free.censored(LOWER, upper=6.0, keep_moments=True)))
    most = np.sqrt(0.99 * (free.mean - LOWER) * (6.0 - free.mean))
    np.testing.assert_allclose(kept.mean, free.mean, rtol=1e-9)
    np.testing.assert_allclose(kept.std, np.minimum(free.std, most), rtol=1e-8)
    paths = kept.sample(40_000, random_state=3)
    assert (paths.min(axis=None), paths.max(axis=None)) == (LOWER, 6.0)
    np.testing.assert_allclose(paths.mean(axis=1), free.mean, atol=0.05)
    np.testing.assert_allclose(paths.std(axis=1), kept.std, rtol=0.03)


@pytest.mark.parametrize("upper", [1e12])
def test_an_upper_bound_out_of_reach_changes_nothing(free, kept, upper):
    both = free.censored(LOWER, upper=upper, keep_moments=True)
    np.testing.assert_allclose(both.quantile(LEVELS), kept.quantile(LEVELS), rtol=1e-9)


@pytest.mark.parametrize("std", [0.47, 50.0])
def test_a_variance_that_two_bounds_do_not_allow_is_lowered(std):
    """The largest of mean .3 in (0, 1) is .3 * .7, with nothing between the bounds."""
    free = Forecast(INDEX[:1], [0.3], [[std**2]])
    kept = free.censored(0.0, upper=1.0, keep_moments=True)
    assert kept.mean.item() == pytest.approx(0.3, rel=1e-9)
    assert kept.var.item() == pytest.approx(0.99 * 0.3 * 0.7, rel=1e-8)
    # a mean at a bound is moved by a fifth of the std, or 4 % of the distance
    for mean, at in ((-2.0, 0.04), (0.02, 0.04), (1.0, 0.96)):
        free = Forecast(INDEX[:1], [mean], [[std**2]])
        kept = free.censored(0.0, upper=1.0, keep_moments=True)
        assert kept.mean.item() == pytest.approx(at, rel=1e-9)
        assert kept.var.item() == pytest.approx(0.99 * at * (1.0 - at), rel=1e-8)


def test_a_mean_at_an_upper_bound_is_lowered_below_it():
    free = Forecast(INDEX[:1], [3.0], [[1.0]])
    kept = free.censored(-np.inf, upper=2.5, keep_moments=True)
    np.testing.assert_allclose([kept.mean.item(), kept.std.item()], [2.3, 1.0], rtol=1e-9)


def test_moments_stay_between_the_end_of_a_logarithm_and_a_bound():
    free = Forecast(INDEX, [0.0, -1.0, 1.0], 0.2 * COR, transform=PowerTransform(0.0))
    kept = free.censored(-np.inf, upper=4.0, keep_moments=True)
    np.testing.assert_allclose(kept.mean, free.mean, rtol=1e-9)
    np.testing.assert_allclose(kept.std, free.std, rtol=1e-8)
    ends = kept.quantile([1e-9, 1 - 1e-9]).to_numpy()
    assert ends.min() >= 0.0
    assert ends.max() == 4.0


def test_correlations_of_the_scores_stay(free, kept):
    np.testing.assert_array_equal(kept._joint.cor, free._joint.cor)
    paths = kept.sample(40_000, random_state=3).to_numpy()
    error = kept.std.to_numpy() / np.sqrt(paths.shape[1])
    np.testing.assert_array_less(abs(paths.mean(axis=1) - free.mean) / error, 4.5)


def test_a_bound_out_of_reach_changes_nothing(free):
    far = free.censored(-1e12, keep_moments=True)
    np.testing.assert_allclose(far.quantile(LEVELS), free.quantile(LEVELS), rtol=1e-12)
    pd.testing.assert_frame_equal(far.cov, free.cov)
    assert free.censored(-np.inf, keep_moments=True) is free


def test_steps_out_of_reach_stay_beside_others():
    free = normal([1.0, 20.0, 0.4])
    ahead = free.censored(LOWER, keep_moments=True)
    np.testing.assert_allclose(
        ahead.quantile(LEVELS).iloc[1], free.quantile(LEVELS).iloc[1], rtol=1e-12
    )
    np.testing.assert_allclose(ahead.mean, [1.0, 20.0, LOWER + 0.2 * 1.5], rtol=1e-9)


@pytest.mark.parametrize("mean", [-50.0, LOWER, LOWER + 0.19])
def test_a_mean_at_the_bound_is_raised_above_it(mean):
    free = Forecast(INDEX[:1], [mean], [[1.0]])
    ahead = free.censored(LOWER, keep_moments=True)
    assert ahead.mean.item() == pytest.approx(LOWER + 0.2, rel=1e-9)
    assert ahead.std.item() == pytest.approx(1.0, rel=1e-8)


def test_the_first_steps_are_the_shorter_forecast(free, kept):
    short = free.first(2).censored(LOWER, keep_moments=True)
    np.testing.assert_allclose(short.quantile(LEVELS), kept.quantile(LEVELS).iloc[:2], rtol=1e-9)
    np.testing.assert_allclose(short.cov, kept.cov.iloc[:2, :2], rtol=1e-9)


@settings(max_examples=4)
@given(shift=st.floats(-100, 100), scale=st.floats(0.1, 10))
def test_units_of_the_series_do_not_matter(shift, scale):
    ahead = normal().censored(LOWER, keep_moments=True)
    other = normal(shift + scale * MEAN, scale**2 * COV)
    other = other.censored(shift + scale * LOWER, keep_moments=True)
    expected = shift + scale * ahead.quantile(LEVELS)
    np.testing.assert_allclose(other.quantile(LEVELS), expected, rtol=1e-7, atol=1e-7)


def test_sums_have_the_moments_of_the_paths(kept):
    total = kept.aggregate("sum")
    assert total.mean.item() == pytest.approx(kept.mean.sum(), rel=1e-9)
    assert total.var.item() == pytest.approx(kept.cov.to_numpy().sum(), rel=1e-8)
    assert total.quantile(1e-9).item() >= 3 * LOWER * (1 - 1e-12)


def test_what_comes_after_moves_with_the_steps(rng):
    noise = 0.5 * COV
    paths = rng.multivariate_normal(MEAN, COV, size=4000).T
    free = normal(parts={"noise": noise, "function_own": COV - noise}, paths=paths)
    kept = free.censored(LOWER, keep_moments=True)
    np.testing.assert_allclose(kept.decompose().sum(axis=1), kept.var, rtol=1e-9)
    # paths of the normal itself: 4.5 standard errors of their mean
    error = 4.5 * STD / np.sqrt(4000)
    np.testing.assert_array_less(abs(kept.paths.mean(axis=1) - MEAN), error)
    assert kept.paths.to_numpy().min() == LOWER
    plain = normal().censored(LOWER, keep_moments=True)
    rest = kept.condition(pd.Series([2.0], index=INDEX[:1]))
    z = stats.norm.ppf(plain.score(pd.Series(2.0, index=INDEX))["pit"].iloc[0])
    for t, p in ((1, 0.5), (2, 0.9)):
        rho = COR[0, t]
        score = rho * z + np.sqrt(1 - rho**2) * stats.norm.ppf(p)
        expected = plain.quantile(stats.norm.cdf(score)).iloc[t]
        assert rest.quantile(p).iloc[t - 1] == pytest.approx(expected, rel=1e-6)


# Forecasters


def demand(n=150, share=0.3, seed=4):
    """Kilograms sold on days of which most have none."""
    rng = np.random.default_rng(seed)
    sold = (rng.random(n) < share) * rng.gamma(2.0, 5.0, n).round(1)
    return pd.Series(sold, index=pd.period_range("2024-01-01", periods=n, freq="D"))


@pytest.fixture(scope="module")
def sales():
    return demand()


@pytest.fixture(scope="module")
def model(sales):
    return Forecaster().fit(sales)


def chance_of_zero(ahead):
    return ahead.cdf(0.0)


def lower_line(model):
    return next(line for line in model.choices_ if line.startswith("lower"))


def test_forecasts_of_many_zeros_keep_their_mean(sales, model):
    """That before the bound is the mean of the series; the bound would raise it by a third."""
    ahead, free = model.forecast(7), Forecaster(lower=-np.inf).fit(sales).forecast(7)
    np.testing.assert_allclose(ahead.mean, free.mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.std, free.std, rtol=1e-6)
    raised = free.censored(0.0)
    assert (raised.mean > 1.15 * ahead.mean).all()
    assert (chance_of_zero(ahead) > chance_of_zero(raised) + 0.15).all()
    share = (sales == 0).mean()
    assert abs(chance_of_zero(ahead) - share).mean() < 0.2
    assert f"; {share:.0%} are at it, so that forecasts keep their mean" in lower_line(model)


def test_an_upper_bound_is_the_mirror_of_a_lower_one(rng):
    index = pd.period_range("2024-01-01", periods=160, freq="D")
    y = pd.Series(rng.normal(0.0, 0.2, 160).clip(0.0), index=index)
    low = Forecaster(lags=2, lower=0, outliers="keep").fit(y)
    high = Forecaster(lags=2, upper=1, lower=-np.inf, outliers="keep").fit(1.0 - y)
    # the pieces of the mixtures are no mirror images
    np.testing.assert_allclose(high.forecast(4).mean, 1.0 - low.forecast(4).mean, rtol=1e-4)
    np.testing.assert_allclose(high.forecast(4).std, low.forecast(4).std, rtol=1e-3)
    share = f"{(y == 0.0).mean():.0%} are at it, so that forecasts keep their mean"
    assert f"upper 1: as given; {share}" in high.choices_
    assert f"lower 0: as given; {share}" in low.choices_


def test_shares_with_many_zeros_and_some_ones_keep_their_mean(rng):
    index = pd.period_range("2024-01-01", periods=160, freq="D")
    shares = pd.Series(rng.normal(0.0, 0.7, 160).clip(0.0, 1.0), index=index)
    ahead = Forecaster(lags=2, lower=0, upper=1).fit(shares).forecast(7)
    free = Forecaster(lags=2).fit(shares).forecast(7)
    np.testing.assert_allclose(ahead.mean, free.mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.std, free.std, rtol=1e-6)
    assert abs(ahead.prob(lower=0.999999).mean() - (shares == 1.0).mean()) < 0.05


def test_where_zeros_are_fewer_quantiles_stay(rng):
    index = pd.period_range("2015-01", periods=72, freq="M")
    counts = pd.Series(rng.poisson(1.5, 72).astype(float), index=index)
    model, free = (Forecaster(lags=2, lower=low).fit(counts) for low in (0.0, None))
    assert 0.1 < (counts == 0).mean() < 0.4
    expected = free.forecast(4).quantile(LEVELS).clip(0.0)
    np.testing.assert_allclose(model.forecast(4).quantile(LEVELS), expected)
    assert lower_line(model) == "lower 0: as given"


@pytest.mark.parametrize("propagation", ["exact", "mixture", "monte_carlo"])
def test_a_bound_that_was_given_is_treated_alike(sales, propagation):
    arguments = {"propagation": propagation, "n_samples": 200, "random_state": 0}
    moved = sales - 5.0
    model, free = (Forecaster(lags=2, lower=low).fit(moved) for low in (-5.0, None))
    ahead, before = model.forecast(5, **arguments), free.forecast(5, **arguments)
    assert lower_line(model).startswith("lower -5: as given; ")
    np.testing.assert_allclose(ahead.mean, before.mean, rtol=1e-6)
    np.testing.assert_allclose(ahead.std, before.std, rtol=1e-6)
    assert ahead.quantile(1e-6).min() >= -5.0
    assert ahead.sample(50, 0).to_numpy().min() >= -5.0
    if propagation == "monte_carlo":
        assert ahead.paths.to_numpy().min() == -5.0
        error = 4.5 * ahead.std / np.sqrt(200)
        np.testing.assert_array_less(abs(ahead.paths.mean(axis=1) - ahead.mean), error)


def test_the_first_steps_of_a_forecaster_are_its_shorter_forecast(model):
    short, long = model.forecast(3), model.forecast(12)
    np.testing.assert_allclose(short.quantile(LEVELS), long.quantile(LEVELS)[:3], rtol=1e-7)


def test_what_follows_decides_anew(sales):
    rare = Forecaster(lags=2, lower=0.0).fit(sales)
    index = sales.index[-1] + 1 + np.arange(150)
    later = pd.Series(np.arange(150) % 7 + 20.0, index=pd.PeriodIndex(index))
    assert rare.ensemble_.keeps_moments
    for after in (rare.update(later), rare.apply(later)):
        assert not after.ensemble_.keeps_moments
        assert lower_line(after) == "lower 0: as given"


def test_a_saved_model_keeps_the_mean_too(model, tmp_path):
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert lower_line(again) == lower_line(model)
    pd.testing.assert_frame_equal(
        again.forecast(5).quantile(LEVELS), model.forecast(5).quantile(LEVELS)
    )


def test_after_a_root_there_is_nothing_to_move(sales):
    """Its quantiles are at the bound where they end, and the bound raises no mean."""
    model, free = (
        Forecaster(lags=2, transform="sqrt", lower=low).fit(sales) for low in (0.0, None)
    )
    expected = free.forecast(4).quantile(LEVELS)
    np.testing.assert_allclose(model.forecast(4).quantile(LEVELS), expected, rtol=1e-9)
