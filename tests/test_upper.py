"""Bounds above: a forecast that is never above 100 is one of -y that is never below -100."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from forecast_unc import Forecast, Forecaster, load_model
from forecast_unc.forecasting.choose import choice

H = 3
INDEX = pd.RangeIndex(H)
COR = np.array([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]])
MEAN, STD, TOP = np.array([80.0, 95.0, 60.0]), np.array([20.0, 25.0, 15.0]), 100.0
NORMAL = Forecast(INDEX, MEAN, np.outer(STD, STD) * COR)
KINDS = {
    "normal": lambda f: f,
    "average": lambda f: Forecast.average([f, f.recalibrated([2.0, 1.0, 1.5], dof=4.0)]),
}


@pytest.fixture(params=KINDS)
def pair(request):
    """Bounded above; turned, bounded below and turned again."""
    kind = KINDS[request.param]
    return kind(NORMAL).censored(-np.inf, upper=TOP), -kind(-NORMAL).censored(-TOP)


def test_distributions_are_those_of_the_mirror(pair):
    above, mirror = pair
    np.testing.assert_allclose(above.mean, mirror.mean, rtol=1e-9)
    np.testing.assert_allclose(above.cov, mirror.cov, rtol=1e-7, atol=1e-7)
    q = [0.001, 0.2, 0.5, 0.7, 0.95]
    np.testing.assert_allclose(above.quantile(q), mirror.quantile(q), rtol=1e-9)
    np.testing.assert_allclose(above.cdf([40.0, 99.0, 100.0]), mirror.cdf([40.0, 99.0, 100.0]))
    for y in (50.0, 100.0, 120.0):
        found, expected = (one.score(pd.Series(y, INDEX)) for one in pair)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    pd.testing.assert_frame_equal(above.atoms, mirror.atoms, rtol=1e-7)


def test_questions_are_those_of_the_mirror(pair):
    above, mirror = pair
    for known in (100.0, 70.0):
        observed = pd.Series([known], INDEX[:1])
        found, expected = (one.condition(observed) for one in pair)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-7)
        np.testing.assert_allclose(found.quantile(0.7), expected.quantile(0.7), rtol=1e-7)
    for how in ("max", "min"):
        np.testing.assert_allclose(
            above.aggregate(how).quantile([0.1, 0.5]),
            mirror.aggregate(how).quantile([0.1, 0.5]),
            atol=0.6,
        )
    total = above.aggregate("sum")
    np.testing.assert_allclose(total.mean, above.mean.sum(), rtol=1e-9)
    assert total.quantile(0.9999).item() <= 300.0 + 1e-9
    turned = 100.0 - above
    np.testing.assert_allclose(turned.quantile(0.3), 100.0 - above.quantile(0.7), rtol=1e-9)
    np.testing.assert_allclose((2.0 * above).quantile(0.999), 200.0)
    assert (above[:2].quantile(0.999) == 100.0).all()


def test_between_two_bounds():
    both = NORMAL.censored(50.0, upper=TOP)
    x = both.sample(200_000, random_state=0).to_numpy()
    np.testing.assert_allclose(both.mean, x.mean(axis=1), rtol=0.005)
    np.testing.assert_allclose(both.std, x.std(axis=1), rtol=0.01)
    np.testing.assert_allclose(both.cov.iloc[0, 1], np.cov(x)[0, 1], rtol=0.03)
    atoms = both.atoms
    low, high = stats.norm.cdf((50.0 - MEAN) / STD), stats.norm.sf((TOP - MEAN) / STD)
    np.testing.assert_allclose(atoms["probability"], np.column_stack([low, high]).ravel())
    largest = both.aggregate("max")
    assert largest.prob(lower=99.999).item() == pytest.approx(
        (x.max(axis=0) == TOP).mean(), abs=0.01
    )
    kept = both.censored(50.0, upper=90.0)
    assert (kept.quantile(0.99) == 90.0).all()


@pytest.mark.parametrize(
    ("bounds", "end"),
    [((34.0, np.inf), 0), ((30.0, np.inf), 0), ((29.0, 33.0), -1)],
    ids=str,
)
def test_sums_state_what_lies_at_their_bounds(bounds, end, rng):
    mean, cor = (
        np.array([33.0, 34.0, 35.0, 36.0]),
        0.8 ** np.abs(np.subtract.outer(range(4), range(4))),
    )
    ahead = Forecast(pd.RangeIndex(4), mean, 4.0 * cor).censored(bounds[0], upper=bounds[1])
    paths = np.clip(rng.multivariate_normal(mean, 4.0 * cor, 200_000), *bounds).sum(axis=1)
    for sign in (1, -1):
        total, drawn = sign * ahead.aggregate("sum"), sign * paths
        value = sign * 4.0 * bounds[end]
        expected = (np.abs(drawn - value) < 1e-9).mean()
        error = 4.0 * np.sqrt(max(expected, 1e-5) / len(paths)) + 1e-3
        stated = total.atoms.set_index("value")["probability"]
        assert stated.get(value, 0.0) == pytest.approx(expected, abs=error)
        q = np.array([0.02, 0.1, 0.3, 0.6, 0.9, 0.99])
        assert total.quantile(q).to_numpy()[0] == pytest.approx(
            np.quantile(drawn, q), abs=0.05 * paths.std()
        )
        # the cdf is that of the paths, atoms and what lies between them
        x = np.quantile(drawn, q) + 1e-9
        assert total.cdf(x).to_numpy()[0] == pytest.approx(
            stats.ecdf(drawn).cdf.evaluate(x), abs=5e-3
        )


def test_bounds_that_cannot_be(rng):
    with pytest.raises(ValueError, match="upper must be a number above 5"):
        NORMAL.censored(5.0, upper=5.0)
    with pytest.raises(ValueError, match="upper must be a number above -inf; got 'x'"):
        NORMAL.censored(-np.inf, upper="x")
    y = pd.Series(rng.normal(50.0, 20.0, 40))
    with pytest.raises(ValueError, match="upper must be at least every value of y; got 60"):
        Forecaster(upper=60.0).fit(y)
    with pytest.raises(ValueError, match="upper must be a number above 3"):
        Forecaster(lower=3.0, upper=2.0).fit(y)


@pytest.fixture
def shares(rng):
    walk = np.cumsum(rng.normal(0.05, 0.3, 60)) + 2.0
    index = pd.period_range("2010-01", periods=60, freq="M")
    return pd.Series(100.0 / (1.0 + np.exp(-walk)), index)


def test_a_forecaster_keeps_its_bound(shares, tmp_path):
    model = Forecaster(upper=100).fit(shares[:50])
    assert "upper 100: as given" in model.choices_
    ahead = model.forecast(12)
    assert (ahead.quantile(0.999) <= 100.0).all()
    assert (Forecaster().fit(shares[:50]).forecast(12).quantile(0.999) > 100.0).any()
    assert (model.fitted().interval(0.99)["upper"].dropna() <= 100.0).all()
    model.save(tmp_path / "model")
    assert (load_model(tmp_path / "model").forecast(12).quantile(0.999) <= 100.0).all()
    with pytest.raises(ValueError, match="upper must be at least every value of y"):
        model.update(shares[50:] + 100.0)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([0.2, 0.4, 0.1, 0.9, 0.3], "all lie between 0 and 1, as shares do"),
        (
            [1.0, 3.0, 250.0, 20.0, 2.5],
            "none is below 0, and the largest is 250 times the smallest",
        ),
        ([2.0, 30.0, 11.0, 8.0, 21.0], "whole numbers, none below 0"),
        ([0.0, 0.0, 3.5, 1.0, 2.0], "some values are 0 and none is below"),
        ([-1.0, 30.0, 25.0, 28.0, 21.0], None),
        ([5.5, 30.0, 11.0, 8.0, 21.0], None),
    ],
)
def test_zero_is_a_bound_of_what_is_never_negative(values, why):
    model = Forecaster().fit(pd.Series(np.tile(values, 4)))
    lines = [line for line in model.choices_ if line.startswith("lower")]
    assert len(lines) == (why is not None)
    assert all(line.startswith(f"lower 0: {why}") for line in lines)
    if why:
        assert (model.forecast(5).quantile(0.001) >= 0.0).all()


def test_rounding_below_zero_is_the_bound():
    """As the power of a turbine: -2.5 of up to 3,600."""
    rng = np.random.default_rng(0)
    y = np.clip(1500.0 * np.sin(np.arange(240) / 7.0) + 300.0 * rng.standard_normal(240), 0.0, None)
    y[np.flatnonzero(y == 0.0)[[20, 70]]] = -1.5, -0.5
    assert choice.never_below(y) == "2 of 240 values are below 0, by rounding"
    assert choice.never_below(y).places == (-1.5,)
    for other in (y - 1.0, np.where(y > 0, y, -0.5), np.where(y == -1.5, -9.0, y), y[y != 0.0]):
        assert not choice.never_below(other)
    model = Forecaster().fit(pd.Series(y))
    (line,) = (line for line in model.choices_ if line.startswith("lower"))
    assert line.startswith("lower -1.5: ")
    assert (model.forecast(5).quantile(0.0001) >= -1.5).all()


@pytest.mark.parametrize("top", [100.0])
def test_shares_of_which_some_are_whole_are_named(top):
    rng = np.random.default_rng(4)
    y = pd.Series(np.minimum(top * rng.normal(0.95, 0.05, 80), top))
    n = (y == top).sum()
    said = f"at {top:g}: {n} values, and none is above; if none can be, give upper={top:g}"
    assert Forecaster().fit(y).notes_ == [said]
    assert Forecaster(upper=top).fit(y).notes_ == []
    assert Forecaster().fit(y.clip(upper=0.99 * top)).notes_ == []
    assert Forecaster().fit(y - 0.5).notes_ == []
    assert Forecaster(outliers="keep").fit((y == top) * top).notes_ == []  # two-valued
