"""Lasting effects of regressors: weights by least squares, columns and errors by Monte Carlo."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from forecast_unc import Forecaster
from forecast_unc.forecasting.horizon.types import Method
from forecast_unc.forecasting.models.autocorrelated import AutocorrelatedRegression
from forecast_unc.forecasting.models.exog_effects import ExogColumns, ExogEffects
from forecast_unc.forecasting.models.lagged import LaggedModel
from forecast_unc.forecasting.models.smoothing import SmoothingModel
from forecast_unc.series.history import Ahead

N, H = 200, 8
BENT = ExogColumns(1, ((-0.5, 1.0), ()))  # of two regressors: 2 lines, 2 hinges, 2 of a lag


def autoregression(rng, n=N, coefficient=0.9):
    noise = rng.standard_normal(n)
    for t in range(1, n):
        noise[t] += coefficient * noise[t - 1]
    return noise


def index(n=N):
    return pd.period_range("2000-01-03", periods=n, freq="D")


def slow(rng, n=N):
    """A regressor that stays where it is for long, as a temperature."""
    return 3.0 * autoregression(rng, n, 0.95)


def test_weights_are_those_of_least_squares_of_filtered_values(rng):
    X = np.column_stack([slow(rng), rng.standard_normal(N)])
    y = X @ [-2.0, 1.0] + autoregression(rng)
    regression = AutocorrelatedRegression(y, index(), (7,))
    found = regression.learn(X, [0, 1])
    season = np.eye(7)[np.arange(N) % 7]
    t = np.arange(max(regression.lags), N)

    def filtered(values):
        earlier = (
            w * values[t - lag] for lag, w in zip(regression.lags, regression.ar, strict=True)
        )
        return values[t] - sum(earlier)

    Z = np.hstack([filtered(X), season[t]])
    weights, residual, *_ = np.linalg.lstsq(Z, filtered(y), rcond=None)
    cov = residual[0] / (len(t) - 9) * np.linalg.inv(Z.T @ Z)[:2, :2]
    stds = np.sqrt(cov.diagonal())
    assert_allclose(found.mean, weights[:2], atol=0.2 * stds.max())
    assert_allclose(np.sqrt(found.cov.diagonal()), stds, rtol=0.1)
    assert np.abs(found.mean - [-2.0, 1.0]).max() < 4.0 * stds.max()


@pytest.mark.parametrize(
    ("effect", "bends", "lags"),
    [
        (lambda x: -2.0 * x, False, 0),
        (lambda x: -3.0 * np.minimum(x, 0.0), True, 0),
        (lambda x: -2.0 * x - 2.0 * np.append(x[:1], x[:-1]), False, 1),
    ],
)
def test_bends_and_lags_are_those_that_were_simulated(rng, effect, bends, lags):
    x = slow(rng)
    y = effect(x) + autoregression(rng)
    found = ExogEffects.learn(y, index(), x[:, None], 0, ())
    assert (bool(found.columns.bends[0]), found.columns.lags) == (bends, lags)
    later = slow(rng)
    shape = found.at(later[:, None]) - effect(later)
    inside = (later > x.min()) & (later < x.max())
    assert np.std(shape[inside]) < 0.15 * np.std(effect(later)[inside])


def test_every_third_value_tells_an_effect(rng):
    x = slow(rng)
    y = -2.0 * x + autoregression(rng)
    y[np.arange(N) % 3 > 0] = np.nan
    found = ExogEffects.learn(y, index(), x[:, None], 0, (7,))
    assert_allclose(found.weights[0], -2.0, atol=0.3)


@pytest.mark.parametrize("lasting", [True, False])
def test_the_evidence_tells_effects_that_last_from_those_that_build_up(rng, lasting):
    x, noise = slow(rng), rng.standard_normal(N)
    y = np.zeros(N)
    for t in range(1, N):
        y[t] = 0.9 * y[t - 1] + noise[t] + (-2.0 * (x[t] - 0.9 * x[t - 1]) if lasting else -x[t])
    found = ExogEffects.learn(y, index(), x[:, None], 0, ())
    assert (found.nats > 5.0) if lasting else (found.nats < -5.0)


def test_what_never_changes_has_no_effect_and_few_rows_none_at_all(rng):
    X = np.column_stack([slow(rng), np.ones(N)])
    found = ExogEffects.learn(X[:, 0] + autoregression(rng), index(), X, 0, ())
    assert found.weights[1] == 0.0
    assert not found.cov[1].any()
    few = ExogEffects.learn(rng.standard_normal(20), index(20), X[:20], 0, ())
    assert few.weights is None
    assert not few.at(X).any()
    assert not few.of_steps(np.ones(2), np.zeros(2))[0].any()


@pytest.mark.parametrize("offset", [1e3, 1e9])
def test_where_regressors_are_measured_from_does_not_matter(rng, offset):
    """A model that forgets a level by a tenth a step does not forget the mean of a column."""
    x = slow(rng, N + H)[:, None]
    y = -2.0 * x[:N, 0] + autoregression(rng)
    each = [(ExogEffects.learn(y, index(), one[:N], 0, ()), one) for one in (x, x + offset)]

    def carried(columns):
        return columns[-1] * 0.9 ** np.arange(1, H + 1)[:, None]

    first, second = (found.added(one[N:], None, one[:N], carried) for found, one in each)
    assert_allclose(second.mean, first.mean, atol=1e-5)
    assert_allclose(second.of_weights, first.of_weights, rtol=1e-3, atol=1e-9)
    steps = [found.of_steps(np.ones(1), one.mean(axis=0)) for found, one in each]
    assert_allclose(*steps, rtol=1e-5)


def test_columns_before_the_first_are_as_at_the_first():
    exog = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert_allclose(BENT.of(exog), [[0, 1, 0.5, 0, 0, 1], [2, 3, 2.5, 1, 0, 1]])
    assert_allclose(BENT.of(exog[1:], exog[:1]), BENT.of(exog)[1:])
    assert_allclose(BENT.changes(np.array([2.0, 1.0, 4.0]), np.zeros(2)),
                    [[2, 0, 1.5, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 4, 0]])  # fmt: skip


def test_moments_of_columns_are_those_of_draws(rng):
    """The mean of all, the covariance of lines and lags, and of hinges with their regressors."""
    root = 0.4 * rng.standard_normal((6, 6))
    exog, before = rng.standard_normal((3, 2)), rng.standard_normal((4, 2))
    mean, cov = BENT.moments(exog, root @ root.T, before)
    draws = exog + (rng.standard_normal((40_000, 6)) @ root.T).reshape(-1, 3, 2)
    drawn = np.array([BENT.of(one, before) for one in draws[:20_000]]).reshape(-1, 18)
    error = drawn.std(axis=0).max() / np.sqrt(len(drawn))
    assert_allclose(mean.ravel(), drawn.mean(axis=0), atol=6.0 * error)
    sampled = np.cov(drawn.T)
    lines = np.flatnonzero(np.tile([True, True, False, False, True, True], 3))
    for at in (np.ix_(lines, lines), np.ix_(lines, np.arange(18))):
        assert_allclose(cov[at], sampled[at], atol=0.05 * np.abs(sampled).max())
    known, nothing = BENT.moments(exog, np.zeros((6, 6)), before)
    assert_allclose(known, BENT.of(exog, before))
    assert not nothing.any()


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (2.0, 1.0), (1.0, None)])
def test_futures_share_the_errors_of_weights_and_those_of_the_same_covariance(rng, sizes):
    columns, exogs = ExogColumns(1, ((), ())), rng.standard_normal((2, 3, 2))
    root, of_weights = 0.4 * rng.standard_normal((6, 6)), 0.3 * rng.standard_normal((4, 4))
    weights, cov = rng.standard_normal(4), root @ root.T
    effects = ExogEffects(columns, np.zeros(4), weights, of_weights @ of_weights.T)
    covs = [None if size is None else size**2 * cov for size in sizes]
    before = rng.standard_normal((4, 2))
    drawn_weights = weights + rng.standard_normal((40_000, 4)) @ of_weights.T
    errors = (rng.standard_normal((2, 40_000, 6)) @ root.T).reshape(2, -1, 3, 2)
    added = []
    for at, (exog, size) in enumerate(zip(exogs, sizes, strict=True)):
        x = exog + (size or 0.0) * errors[0 if sizes[0] == sizes[1] else at]
        last = np.broadcast_to(before[-1], (len(x), 1, 2))
        z = np.concatenate([x, np.concatenate([last, x[:, :-1]], axis=1)], axis=2)
        added.append(np.einsum("nhd,nd->nh", z, drawn_weights))
    found = effects.added_jointly(exogs, covs, before, lambda past: np.zeros((3, past.shape[1])))
    drawn = np.cov(np.hstack(added).T)
    assert_allclose(found, drawn, atol=0.03 * drawn.diagonal().max())
    alone = effects.added(exogs[0], covs[0], before, lambda past: np.zeros((3, past.shape[1])))
    assert_allclose(found[:3, :3], alone.of_weights + alone.of_regressors)


@pytest.fixture(scope="module")
def load():
    """A load that falls by 2 with every degree, and a forecast of it from 200 days."""
    rng = np.random.default_rng(3)
    x = slow(rng, N + H)
    week = 5.0 * np.sin(np.arange(N + H) * 2.0 * np.pi / 7.0)
    y = pd.Series(100.0 + week - 2.0 * x + autoregression(rng, N + H), index(N + H), name="load")
    exog = pd.DataFrame({"degrees": x}, y.index)
    return Forecaster(random_state=0).fit(y[:N], exog[:N]), exog


def of_kind(model, kind, **fields):
    return next(
        one
        for one in model.models_
        if isinstance(one, kind)
        and one.transform.power is None
        and all(getattr(one.specification, name) == value for name, value in fields.items())
    )


def test_a_lasting_change_has_its_effect_at_once(load):
    model, exog = load
    base = model.forecast(H, exog[N:]).mean
    change = model.forecast(H, exog[N:] + 5.0).mean - base
    assert_allclose(change, -10.0, atol=2.0)
    found = model.effects().loc["degrees"]
    assert found["lower"] < -2.0 < found["upper"]
    assert found["effect"] == pytest.approx(-2.0, abs=0.3)
    assert any("lasting effects of the regressors" in str(one) for one in model.models_)


def test_models_that_differ_about_an_effect_are_named(load, monkeypatch):
    def effects(self, steps, at):
        effect = -9.0 if self.specification.exog_as == "lasting" else -4.0
        return np.full(len(steps), effect), np.full(len(steps), 0.01)

    def disagreements(model):
        return [note for note in model.choices_ if getattr(note, "kind", "") == "disagreement"]

    model, _ = load
    assert not disagreements(model)
    monkeypatch.setattr(LaggedModel, "effects", effects)
    (note,) = disagreements(model)
    assert note.places == (0,)


def lasting_models(model):
    yield of_kind(model, LaggedModel, exog_as="lasting", lags=(1, 2, 3, 4))
    yield of_kind(model, SmoothingModel)


def test_the_error_of_the_weights_is_that_of_forecasts_with_others(load):
    """Of levels without other effects, learned before: what a model carries on of them is in it."""
    model, exog = load
    for one in lasting_models(model):
        taken_out, history = one.taken_out, one.history
        ahead = Ahead(exog.index[N:], exog[N:].to_numpy(), None)
        effects = taken_out.exog
        unit = np.eye(len(effects.weights))[0]
        moved = replace(taken_out, exog=replace(effects, weights=effects.weights + 0.1 * unit))
        means = []
        for out in (taken_out, moved):
            recipe = one.recipe() | {"taken_out": out}
            if isinstance(one, SmoothingModel):  # by the node that the errors are of
                best, smoothing = np.argmax(one.smoothing.weights), one.smoothing
                fields = {"nodes": smoothing.nodes.take([best]), "weights": np.ones(1)}
                fields["variance"] = smoothing.variance[[best]]
                recipe["smoothing"] = replace(smoothing, **fields)
            else:
                levels = one.past.levels + taken_out.at(history.index, history.exog)
                past = one.past._replace(levels=levels - out.at(history.index, history.exog))
                means.append(
                    replace(one, past=past, taken_out=out).level_joint(ahead, Method()).mean
                )
                continue
            means.append(type(one).made(history, **recipe).level_joint(ahead, Method()).mean)
        response = (means[1] - means[0]) / 0.1
        certain = replace(taken_out, exog=replace(effects, cov=np.zeros_like(effects.cov)))
        sure = replace(one, taken_out=certain).level_joint(ahead, Method())
        only = replace(taken_out, exog=replace(effects, cov=np.outer(unit, unit)))
        wide = replace(one, taken_out=only).level_joint(ahead, Method())
        assert_allclose(wide.cov - sure.cov, np.outer(response, response), rtol=1e-6, atol=1e-9)


def test_paths_have_the_errors_of_weights_and_regressors(load):
    model, exog = load
    for one in lasting_models(model):
        ahead = Ahead(exog.index[N:], exog[N:].to_numpy(), 25.0 * np.eye(H))
        exact = one.level_joint(ahead, Method())
        paths = one.level_joint(ahead, Method("monte_carlo", True, 20_000, 0)).paths
        assert_allclose(np.cov(paths), exact.cov, atol=0.06 * exact.cov.max())
        assert_allclose(paths.mean(axis=1), exact.mean, atol=0.05 * np.sqrt(exact.cov.max()))


def test_uncertain_regressors_widen_by_their_effect(load):
    model, exog = load
    known = model.forecast(H, exog[N:])
    stds = pd.DataFrame(5.0, exog.index[N:], exog.columns)
    unsure = model.forecast(H, exog[N:], exog_std=stds)
    assert_allclose(unsure.std**2 - known.std**2, 100.0, rtol=0.4)
