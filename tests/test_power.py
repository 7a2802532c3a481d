import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from forecast_unc.distributions.power import PowerTransform, _censored_loss

POWERS = [None, 0.0, 1e-9, 0.1, 0.5, 1.0]
exponents = st.just(0.0) | st.floats(1e-9, 1)
powers = st.none() | exponents


@given(power=powers, y=st.floats(1e-3, 1e3))
def test_inverse_undoes_forward(power, y):
    transform = PowerTransform(power)
    assert transform.inverse(transform.forward(y)) == pytest.approx(y, rel=1e-9)


def test_box_cox_is_its_definition():
    y = np.array([0.2, 1.0, 7.0])
    np.testing.assert_allclose(PowerTransform(0.3).forward(y), (y**0.3 - 1) / 0.3, rtol=1e-13)
    np.testing.assert_allclose(PowerTransform(1e-9).forward(y), np.log(y), rtol=3e-8)
    np.testing.assert_array_equal(PowerTransform(0.0).forward(y), np.log(y))
    np.testing.assert_array_equal(PowerTransform().forward(y), y)


@given(power=exponents, x=st.lists(st.floats(-1e4, 50), min_size=2))
def test_values_are_never_negative_and_increase(power, x):
    y = PowerTransform(power).inverse(np.sort(x))
    assert (y >= 0).all()
    assert (np.diff(y) >= 0).all()


def test_below_the_boundary_lies_zero():
    transform = PowerTransform(0.5)
    np.testing.assert_array_equal(transform.inverse([-1e9, -2.1, -2.0]), 0.0)
    np.testing.assert_array_equal(transform.slope([-1e9, -2.1]), 0.0)
    np.testing.assert_array_equal(PowerTransform(1.0).slope([-1.1, -0.9]), [0.0, 1.0])
    np.testing.assert_array_equal(transform.forward([-1.0, 0.0]), [-np.inf, -2.0])
    np.testing.assert_array_equal(PowerTransform(0.0).forward([-1.0, 0.0]), -np.inf)


@pytest.mark.parametrize("power", POWERS)
def test_slope_is_that_of_the_inverse(power):
    x, d = np.array([-0.9, 0.0, 2.0]), 1e-6
    transform = PowerTransform(power)
    difference = (transform.inverse(x + d) - transform.inverse(x - d)) / (2 * d)
    np.testing.assert_allclose(transform.slope(x), difference, rtol=1e-8)


def test_missing_values_stay_missing():
    for power in POWERS:
        transform = PowerTransform(power)
        transform.check(np.array([1.0, np.nan]))
        assert np.isnan(transform.forward([np.nan])).all()
        assert np.isnan(transform.inverse([np.nan])).all()


@pytest.mark.parametrize("power", [0.15, 0.5, 0.8])
def test_fit_is_scipys_maximum_whatever_the_unit(power, rng):
    y = PowerTransform(power).inverse(rng.normal(10, 3, size=300))
    y = y[y > 0]
    _, expected = stats.boxcox(y)
    assert 0 < expected < 1
    assert PowerTransform.fit(y).power == pytest.approx(expected, abs=1e-4)
    gaps = np.append(1e6 * y, np.nan)
    assert PowerTransform.fit(gaps).power == pytest.approx(expected, abs=1e-4)


def test_fit_stops_at_the_ends(rng):
    z = rng.normal(size=200)
    assert stats.boxcox(1 / (5 + z))[1] < 0
    assert PowerTransform.fit(1 / (5 + z)) == PowerTransform(0.0)
    assert stats.boxcox(np.sqrt(4 + z))[1] > 1
    assert PowerTransform.fit(np.sqrt(4 + z)) == PowerTransform(1.0)


def test_messages():
    for power in (-0.1, 1e-300, 2, "log"):
        with pytest.raises(ValueError, match=r"power must be None, 0 or from 1e-9 to 1; got "):
            PowerTransform(power)
    y = np.array([3.0, np.nan, 0.0, -1.0])
    with pytest.raises(
        ValueError, match=r"y must be positive for a log transform; got 0 at c\. Use no transform"
    ):
        PowerTransform(0.0).check(y, "abcd".__getitem__)
    with pytest.raises(
        ValueError, match=r"y must be nonnegative for a sqrt transform; got -1 at position 3\. "
    ):
        PowerTransform(0.5).check(y)
    assert PowerTransform().check(y) is None
    with pytest.raises(ValueError, match=r"y must be nonnegative for a Box-Cox .* got -1 at posi"):
        PowerTransform.fit(y)
    with pytest.raises(ValueError, match=r"y must hold different values .* got 2 throughout\. "):
        PowerTransform.fit(np.array([2.0, 2.0]))
    with pytest.raises(ValueError, match=r"y must hold different values .* got none\. "):
        PowerTransform.fit(np.array([np.nan]))


@pytest.mark.parametrize(("power", "n_at"), [(0.3, 3), (0.7, 10), (1.4, 25)])
def test_censored_likelihood_is_that_of_a_direct_search(power, n_at, rng):
    """Of normals: -log N(x; m, s^2), and -log Phi((end - m) / s) of what lies at the bound."""
    y = rng.gamma(2.0, 3.0, 40)
    scaled = y / np.exp(np.log(y).mean())
    x = (scaled**power - 1.0) / power

    def loss(parameters):
        mu, s = parameters[0], np.exp(parameters[1])
        inside = 0.5 * ((x - mu) / s) ** 2 + np.log(s)
        return inside.sum() - n_at * stats.norm.logcdf((-1.0 / power - mu) / s)

    start = [x.mean(), np.log(x.std())]
    tight = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 4000}
    expected = minimize(loss, start, method="Nelder-Mead", options=tight).fun
    assert _censored_loss(power, y, n_at) == pytest.approx(expected, rel=1e-8)
