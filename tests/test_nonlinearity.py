"""Evidence of a bend against a line, and what the choice makes of it."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from forecast_unc import Forecaster
from forecast_unc.series import nonlinearity
from forecast_unc.series.nonlinearity import bend, evidence_of_logarithm


def path(step, n, seed, start=0.3):
    """The last n values of a map with noise."""
    rng, values = np.random.default_rng(seed), [start] * 3
    for _ in range(n + 50):
        values.append(step(values, rng.standard_normal()))
    return np.array(values[-n:])


def logistic(past, e):
    return float(np.clip(3.7 * past[-1] * (1.0 - past[-1]) + 0.03 * e, 0.001, 0.999))


def chebyshev(past, e):
    """A map that folds five times, sixth polynomial: its correlations are all 0."""
    return float(np.clip(np.cos(6.0 * np.arccos(past[-1])) + 0.03 * e, -0.999, 0.999))


def bistable(past, e):
    return 2.4 * np.sin(past[-1]) + 0.3 * past[-2] + 0.3 * e


def three_lags(past, e):
    return 0.9 * np.tanh(2 * past[-1]) - 0.8 * np.sin(1.5 * past[-2]) + np.cos(past[-3]) + 0.2 * e


def autoregression(past, e):
    return 1.2 * past[-1] - 0.5 * past[-2] + e


def walk(past, e):
    return past[-1] + e


def likeliest(cov, target):
    """Log density of a normal target at the likeliest scale of its covariance."""
    var = target @ np.linalg.solve(cov, target) / len(target)
    return multivariate_normal(cov=var * cov).logpdf(target)


def test_it_is_the_best_evidence_of_each_kind(monkeypatch):
    """Against densities at the likeliest scale, with kernels written out."""
    monkeypatch.setattr(nonlinearity, "_MOST_ROWS", 60)
    y = path(bistable, 100, 0)
    rows = [y[t - 12 : t + 1] for t in range(40, 100)]
    targets = np.array([row[-1] for row in rows])
    center, scale = targets.mean(), targets.std()
    z = (np.array(rows) - center) / scale
    past, target, n = z[:, -2::-1], z[:, -1], len(z)
    line = [[1.0 + sum(a[i] * b[i] / (i + 1) ** 2 for i in range(12)) for b in past] for a in past]
    line, unit = np.array(line), np.eye(n)
    straight = max(likeliest(w * line + unit, target) for w in (0.1, 1.0, 10.0, 100.0, 1000.0))
    bent = -np.inf
    for k in (1, 2, 3):
        square = np.array([[np.mean((a[:k] - b[:k]) ** 2) for b in past] for a in past])
        for length in (0.25, 0.5, 1.0, 2.0):
            for noise in (1e-3, 1e-2, 0.1, 0.5):
                cov = np.exp(-square / (2 * length**2)) + 0.1 * line + noise * unit
                bent = max(bent, likeliest(cov, target))
    found = bend(y)
    assert found.nats == pytest.approx(bent - straight, rel=1e-6)
    assert found.stride == 1


@pytest.mark.parametrize("step", [logistic, bistable, three_lags, chebyshev])
@pytest.mark.parametrize("n", [100, 300])
def test_maps_show_it(step, n):
    assert min(bend(path(step, n, seed)).nats for seed in range(3)) > 35.0


def slow_swing(past, e):
    """An autoregression whose swings take 60 steps: of values apart a line is as good."""
    return 1.98 * past[-1] - 0.99 * past[-2] + e


@pytest.mark.parametrize("step", [autoregression, walk, slow_swing])
def test_lines_do_not(step):
    assert max(bend(path(step, n, s)).nats for n in (100, 300) for s in range(6)) < 10.0


def roessler(n, steps_a_turn):
    """The first coordinate of Roessler's flow, of which so many values are a turn."""
    state, values, dt = np.array([1.0, 1.0, 0.0]), [], 6.0 / 600
    for i in range(600 // steps_a_turn * (n + 200)):
        if i % (600 // steps_a_turn) == 0:
            values.append(state[0])
        x, y, z = state
        state = state + dt * np.array([-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)])
    return np.array(values[-n:])


def test_of_a_curve_that_is_sampled_finely_some_values_are_left_out():
    """Of adjacent ones a line of twelve lags knows the next as well; of those apart it does not."""
    y = roessler(900, 100)
    found = bend(y)
    assert found.stride > 4
    assert found.nats > 100.0
    coarse = bend(y[(len(y) - 1) % found.stride :: found.stride])
    assert coarse.nats == pytest.approx(found.nats, rel=1e-9)
    model = Forecaster(random_state=0).fit(pd.Series(y))
    lags = [
        one.specification.lags for one in model.models_ if getattr(one.specification, "bend", 0)
    ]
    assert tuple(1 + found.stride * i for i in range(6)) in lags
    assert len(lags) == 3


def ricker(past, e):
    """Logarithms of a population that grows until it is too large, with noise of its rate."""
    return past[-1] + 2.6 - np.exp(past[-1]) + 0.1 * e


def test_evidence_of_the_logarithm_is_that_of_densities_of_the_same_values(monkeypatch):
    """Against densities in units of the values, with the best of all kernels written out."""
    monkeypatch.setattr(nonlinearity, "_MOST_ROWS", 60)
    monkeypatch.setattr(nonlinearity, "_LENGTHS", (1.0,))
    monkeypatch.setattr(nonlinearity, "_BENDING", (1,))
    logs = path(ricker, 100, 0)

    def best(levels, jacobian):
        rows = np.array([levels[t - 12 : t + 1] for t in range(40, 100)])
        center, scale = rows[:, -1].mean(), rows[:, -1].std()
        past, target = (rows[:, -2::-1] - center) / scale, rows[:, -1] - center
        line = 1.0 + (past / np.arange(1, 13)) @ (past / np.arange(1, 13)).T
        function = np.exp(-((past[:, :1] - past[:, 0]) ** 2) / 2) + 0.1 * line
        each = [likeliest(function + v * np.eye(60), target) for v in (1e-3, 1e-2, 0.1, 0.5)]
        return max(each) - jacobian[40:].sum()

    expected = best(logs, logs) - best(np.exp(logs), np.zeros(100))
    assert evidence_of_logarithm(np.exp(logs)) == pytest.approx(expected, rel=1e-6)


def test_members_are_of_logarithms_where_the_evidence_is():
    def powers(y):
        models = Forecaster(random_state=0).fit(pd.Series(y)).models_
        return {
            one.specification.transform for one in models if getattr(one.specification, "bend", 0)
        }

    y = path(ricker, 150, 1)
    assert evidence_of_logarithm(np.exp(y)) > 50.0
    assert powers(np.exp(y)) == {"log"}
    assert evidence_of_logarithm(y + 10.0) < 0.0
    assert powers(y + 10.0) == powers(y) == {None}


def test_units_do_not_matter_and_gaps_cost_their_rows():
    y = path(bistable, 120, 1)
    assert bend(1e6 * y - 3e6).nats == pytest.approx(bend(y).nats, rel=1e-6)
    y[60] = np.nan
    assert bend(y).nats > 35.0


@pytest.mark.parametrize("y", [np.zeros(5), np.ones(200), np.full(200, np.nan), np.arange(40.0)])
def test_without_rows_or_changes_there_is_none(y):
    assert bend(y).nats == 0.0


@pytest.mark.parametrize(("step", "noise"), [(logistic, 0.03), (bistable, 0.3)])
def test_the_choice_finds_the_dynamics_of_a_map(step, noise):
    """Without it the first step of the bistable map is 4.6 times as wide as the noise."""
    y = pd.Series(path(step, 300, 5))
    model = Forecaster(random_state=0).fit(y)
    found = [note for note in model.choices_ if note.kind == "nonlinear"]
    assert len(found) == 1
    assert found[0].places[0] > 100.0
    bends = np.array([getattr(one.specification, "bend", 0.0) > 0.0 for one in model.models_])
    assert bends.sum() == 2
    assert model.weights_[bends].sum() > 0.8
    ahead = model.forecast(4)
    assert ahead.std.iloc[0] < 1.5 * noise
    plain = Forecaster(random_state=0).fit(pd.Series(path(autoregression, 300, 5)))
    assert not [note for note in plain.choices_ if note.kind == "nonlinear"]
