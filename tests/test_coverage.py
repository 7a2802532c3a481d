"""Bands of differenced series, simulated: as often right as they say, and not wider than need be.

The true model's bands follow from its psi-weights, written down here from its definition. Ours hold
the function uncertainty that few values leave as well.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import binom, norm

from forecast_unc import Forecaster, GPRegressor

STEPS = 12
RIGHT = GPRegressor()


class Process(NamedTuple):
    """A process driven by standard normal noise, and the forecaster with its differences."""

    simulate: Callable[[np.random.Generator, int], np.ndarray]
    psi: np.ndarray  # (STEPS,), response of the level to the noise
    forecaster: Forecaster


def walk(drift):
    return lambda rng, n: np.cumsum(drift + rng.standard_normal(n))


def autoregression(rng, n):
    """ARIMA(1, 1, 0): changes that follow 0.5 times the one before."""
    noise = rng.standard_normal(n + 100)
    changes = np.zeros(n + 100)
    for t in range(1, n + 100):
        changes[t] = 0.5 * changes[t - 1] + noise[t]
    return np.cumsum(changes[100:])


def airline(rng, n):
    """SARIMA(0, 1, 1)(0, 1, 1)12 with moving averages 0.4 and 0.6."""
    e = rng.standard_normal(n + 13)
    y = np.zeros(n + 13)
    for t in range(13, n + 13):
        noise = e[t] - 0.4 * e[t - 1] - 0.6 * e[t - 12] + 0.24 * e[t - 13]
        y[t] = y[t - 1] + y[t - 12] - y[t - 13] + noise
    return y[13:]


PROCESSES = {
    "walk": Process(walk(0.0), np.ones(STEPS), Forecaster(RIGHT, lags=1, differences=1)),
    "drift": Process(walk(0.5), np.ones(STEPS), Forecaster(RIGHT, lags=1, differences=1)),
    "autoregression": Process(
        autoregression,
        np.cumsum(0.5 ** np.arange(STEPS)),
        Forecaster(RIGHT, lags=2, differences=1),
    ),
    "noise": Process(
        lambda rng, n: rng.standard_normal(n), np.eye(1, STEPS)[0], Forecaster(RIGHT, lags=1)
    ),
    "airline": Process(
        airline,
        np.r_[1.0, np.full(STEPS - 1, 0.6)],  # 1 - 0.4 from the first change on
        Forecaster(RIGHT, lags=13, differences=(1, 12)),
    ),
}


class Outcome(NamedTuple):
    """One row a series; columns are the steps and, last, their sum."""

    z: np.ndarray  # normal scores of what happened
    width: np.ndarray  # the forecast's std in those of the true model's


def simulate(process, forecaster, n, n_series, seed, level=0.0):
    rng = np.random.default_rng(seed)
    response = np.tril(process.psi[np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS)))])
    response = np.vstack([response, response.sum(axis=0)])  # the last row is that of the sum
    true = np.sqrt((response**2).sum(axis=1))
    index = pd.date_range("2000-01-01", periods=n + STEPS, freq="MS")
    z, width = [], []
    for _ in range(n_series):
        y = pd.Series(level + process.simulate(rng, n + STEPS), index)
        forecast = forecaster.fit(y[:n]).forecast(STEPS)
        total = forecast.aggregate("sum")
        sum_ = pd.Series([y[n:].sum()], total.index)
        z.append(ndtri(np.append(forecast.cdf(y[n:]), total.cdf(sum_))))
        width.append(np.append(forecast.std, total.std) / true)
    return Outcome(np.array(z), np.array(width))


@functools.cache
def of_right_differences(name, n, n_series):
    process = PROCESSES[name]
    return simulate(process, process.forecaster, n, n_series, seed=[1, n])


def check_coverage(outcome, deficit=0.0):
    """Within the central 99.9 % of a binomial distribution, less a deficit."""
    n_series = len(outcome.z)
    for coverage in (0.8, 0.95):
        inside = (np.abs(outcome.z) < norm.ppf((1 + coverage) / 2)).mean(axis=0)
        least = binom.ppf(0.0005, n_series, coverage - deficit) / n_series
        most = binom.ppf(0.9995, n_series, coverage) / n_series
        assert inside.min() >= least, f"{coverage}: {inside.round(3)} below {least:.3f}"
        assert inside.max() <= most, f"{coverage}: {inside.round(3)} above {most:.3f}"


def test_the_weights_are_those_of_the_processes():
    """The same noise but for one unit at one time: the difference is the response."""
    for name, process in PROCESSES.items():

        class Shocked:
            def standard_normal(self, size, shock=0.0):
                return np.eye(1, size, size - STEPS)[0]

        class Calm:
            def standard_normal(self, size):
                return np.zeros(size)

        response = process.simulate(Shocked(), 60) - process.simulate(Calm(), 60)
        np.testing.assert_allclose(response[-STEPS:], process.psi, rtol=1e-12, err_msg=name)
        assert not response[:-STEPS].any()


# Widths are means over the series, in those of the true model. With an uncertain drift the least
# of them is sqrt(1 + steps / n), 1.06 at step 12 of 100 values. The airline model is no
# autoregression, and the 13 coefficients that stand for it are learned from 94 rows.
@pytest.mark.parametrize(
    ("name", "n", "n_series", "widest"),
    [
        ("walk", 100, 40, 1.1),
        pytest.param("drift", 80, 40, 1.1, marks=pytest.mark.slow),
        ("autoregression", 120, 20, 1.15),
        pytest.param("airline", 120, 25, 1.4, marks=pytest.mark.slow),
    ],
)
def test_bands_of_the_right_differences(name, n, n_series, widest):
    outcome = of_right_differences(name, n, n_series)
    check_coverage(outcome)
    width = outcome.width.mean(axis=0)
    assert width.max() < widest, width.round(2)
    assert width.min() > (0.9 if name == "airline" else 0.95), width.round(2)


@pytest.mark.parametrize(
    ("name", "n_series", "widest"),
    [
        ("walk", 8, 1.25),
        pytest.param("drift", 25, 1.3, marks=pytest.mark.slow),
        pytest.param("airline", 15, 1.3, marks=pytest.mark.slow),
    ],
)
def test_bands_of_the_automatic_choice(name, n_series, widest):
    outcome = simulate(PROCESSES[name], Forecaster(), 100, n_series, seed=2, level=200.0)
    check_coverage(outcome)
    width = outcome.width.mean(axis=0)
    # .85 of eight walks, .88 of the airline's sum of twelve steps, whose coverage holds
    assert 0.8 < width.min() <= width.max() < widest, width.round(2)


def test_bands_of_noise_are_no_walk():
    """The walks among the members lend the average 1.8 times the width, its sum 3.8 times."""
    outcome = simulate(PROCESSES["noise"], Forecaster(), 60, 8, seed=5, level=200.0)
    check_coverage(outcome._replace(z=outcome.z[:, :-1]))
    width = outcome.width.mean(axis=0)
    assert 0.8 < width[:-1].min() <= width[:-1].max() < 1.3, width.round(2)
    assert width[-1] < 2.5, width.round(2)


def test_bands_that_forget_what_is_carried_over_are_found():
    """The check is no formality: point forecasts integrated, or every step's std taken anew."""
    outcome = of_right_differences("walk", 100, 40)
    steps = np.append(np.sqrt(np.arange(1, STEPS + 1)), 1.0)
    with pytest.raises(AssertionError, match="below"):
        check_coverage(outcome._replace(z=outcome.z * steps))
    with pytest.raises(AssertionError, match="above"):
        check_coverage(outcome._replace(z=outcome.z / steps))


# At n = 100 the hyper-parameters, whose uncertainty no band holds, cost the autoregression up to
# 3 %. The automatic choice shrinks it and looks for a season (docs/theory/averages.md).
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "automatic", "n", "n_series", "deficit", "widest"),
    [
        ("walk", False, 100, 600, 0.0, 1.1),
        ("drift", False, 60, 300, 0.0, 1.15),
        ("autoregression", False, 100, 300, 0.03, 1.1),
        ("autoregression", False, 250, 100, 0.0, 1.1),
        ("airline", False, 120, 200, 0.03, 1.4),
        ("walk", True, 100, 100, 0.0, 1.2),
        ("drift", True, 100, 100, 0.0, 1.35),
        ("autoregression", True, 100, 200, 0.03, 1.25),
        ("airline", True, 120, 50, 0.0, 1.3),
    ],
)
def test_bands_of_many_series(name, automatic, n, n_series, deficit, widest):
    process = PROCESSES[name]
    forecaster = Forecaster() if automatic else process.forecaster
    outcome = simulate(process, forecaster, n, n_series, seed=[4, n], level=200.0)
    check_coverage(outcome, deficit)
    width = outcome.width.mean(axis=0)
    assert 0.8 < width.min() <= width.max() < widest, width.round(2)
