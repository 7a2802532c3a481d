"""Priors learned from a panel: each part against what made the data, or another computation."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.base import clone

from forecast_unc import (
    Combination,
    Forecaster,
    GPRegressor,
    PooledPrior,
    datasets,
    forecast_panel,
    learn_prior,
)
from forecast_unc.forecasting.persistence.archive import parse_archive, read_bytes, write_archive
from forecast_unc.regression.learned_prior import (
    LEAST_SETS,
    LearnedPrior,
    learned_prior,
    linear_rows,
    pooled_weights,
)
from tests.members import on_lags


def sets_of(mean, cov, n_sets, n, seed=0, noise=0.5):
    """Inputs and targets of data sets whose weights are drawn from N(mean, cov)."""
    rng = np.random.default_rng(seed)
    for _ in range(n_sets):
        X = rng.standard_normal((n, len(mean)))
        w = rng.multivariate_normal(mean, cov)
        yield X, X @ w + noise * rng.standard_normal(n)


def walks(n_series=LEAST_SETS, n=40, phi=0.6, seed=0):
    """Series whose changes are autoregressive, with the same coefficient."""
    rng = np.random.default_rng(seed)
    index = pd.RangeIndex(n)
    for _ in range(n_series):
        change = np.zeros(n)
        for t in range(1, n):
            change[t] = phi * change[t - 1] + rng.standard_normal()
        yield pd.Series(change.cumsum(), index)


def regression(n=25, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal([0.5, -1.0], 1.0, (n, 2))
    return X, X @ [0.6, -0.2] + 0.3 * rng.standard_normal(n) + 0.4


class TestLinearPart:
    def test_mean_and_covariance_of_the_weights_are_found(self):
        mean, cov = np.array([0.7, -0.3]), np.array([[0.04, 0.01], [0.01, 0.09]])
        n_sets = 600
        sets = [
            linear_rows(X, y, np.ones(2, bool), False) for X, y in sets_of(mean, cov, n_sets, 40)
        ]
        found, spread = pooled_weights(sets)
        error = np.sqrt((np.diagonal(cov) + 0.25 / 40) / n_sets)
        assert (np.abs(found - mean) < 4 * error).all()
        # standard deviations of sample variances: variance sqrt(2 / n), with what a set leaves
        assert (
            np.abs(np.diagonal(spread) - np.diagonal(cov))
            < 4 * (cov[1, 1] + 0.01) * np.sqrt(2 / n_sets)
        ).all()

    def test_they_maximize_the_marginal_likelihood(self):
        """With the noise known: N(y | X m, X S X' + s^2 I), by a general optimizer."""
        data = list(sets_of([0.5], [[0.09]], 12, 15, seed=3))
        sets = [linear_rows(X, y, np.ones(1, bool), False) for X, y in data]
        mean, cov = pooled_weights(sets)

        def cost(p):
            total = 0.0
            for (X, y), s2 in zip(data, np.exp(p[2:]), strict=True):
                K = np.exp(p[1]) * X @ X.T + s2 * np.eye(len(y))
                rest = y - X[:, 0] * p[0]
                total += 0.5 * (rest @ np.linalg.solve(K, rest) + np.linalg.slogdet(K)[1])
            return total

        start = np.r_[0.0, np.log(0.04), np.full(12, np.log(0.25))]
        best = minimize(cost, start, method="BFGS", options={"gtol": 1e-6}).x
        # expectation maximization stops after 50 steps
        assert_allclose(mean, best[0], atol=2e-3)
        assert_allclose(cov, np.exp(best[1]), rtol=0.05)

    def test_a_constant_and_other_inputs_are_taken_out(self):
        X, y = regression()
        others = np.column_stack([np.ones(len(y)), X[:, 1]])
        rows = linear_rows(X, y, np.array([True, False]), True)
        full = np.linalg.lstsq(np.column_stack([X[:, :1], others]), y)[0]
        assert_allclose(rows.product / rows.gram[0, 0], full[:1], rtol=1e-10)
        rest = y - np.column_stack([X[:, :1], others]) @ full
        assert_allclose(rows.square - rows.product @ full[:1], rest @ rest, rtol=1e-9)
        assert rows.dof == len(y) - 2

    def test_units_of_a_set_do_not_count(self):
        data = list(sets_of([0.5, 0.1], 0.02 * np.eye(2), LEAST_SETS, 20))
        plain, scaled = (
            pooled_weights([linear_rows(f * X, f * y, np.ones(2, bool), False) for X, y in data])
            for f in (1.0, 1e4)
        )
        assert_allclose(plain[0], scaled[0], rtol=1e-8)

    def test_a_drift_is_that_of_the_sets(self):
        rng = np.random.default_rng(0)
        true = rng.normal(0.5, 0.3, 400)
        sets = [
            linear_rows(
                np.zeros((30, 1)), 7.0 * (m + rng.standard_normal(30)), np.zeros(1, bool), True
            )
            for m in true
        ]
        mean, std = learned_prior("shrunk", sets, np.zeros(1, bool)).bias
        assert abs(mean - 0.5) < 4 * 1.25 * np.sqrt((0.09 + 1 / 30) / 400)
        assert abs(std - 0.3) < 0.05

    def test_beside_weights_no_drift_is_learned(self):
        data = sets_of([0.5], [[0.01]], LEAST_SETS, 20)
        sets = [linear_rows(X, y, np.ones(1, bool), False) for X, y in data]
        prior = learned_prior("shrunk", sets, np.ones(1, bool))
        assert prior.bias is None
        assert_allclose(prior.weights, 0.75 * pooled_weights(sets)[0])


class TestGaussianProcess:
    """A process with a learned prior is the plain one of what the prior mean leaves."""

    weights = np.array([0.5, -0.1])

    @pytest.mark.parametrize("bias", ["free", "shrunk", None])
    def test_weights_are_a_prior_mean(self, bias):
        X, y = regression()
        new = np.array([[0.3, -2.0], [4.0, 1.0]])
        own = LearnedPrior("shrunk", self.weights, 50)
        pooled = GPRegressor(prior=own, bias=bias, tol=1e-12).fit(X, y)
        # measured from the means, but for the process without a bias
        middle = 0.0 if bias is None else X.mean(axis=0)
        rest = GPRegressor(prior="shrunk", bias=bias, tol=1e-12).fit(
            X, y - (X - middle) @ self.weights
        )
        mean, std = pooled.predict(new, return_std=True)
        expected, spread = rest.predict(new, return_std=True)
        assert_allclose(mean, expected + (new - middle) @ self.weights, rtol=1e-4)
        assert_allclose(std, spread, rtol=1e-4)

    def test_the_mean_of_a_bias_is_in_stds_of_the_targets(self):
        X, y = regression()
        zero = LearnedPrior("shrunk", np.zeros(2), 50, bias=(0.4, 0.2))
        found = GPRegressor(prior=zero, bias="shrunk", groups=(-1, -1), lengthscales=1e3).fit(X, y)
        for n in (1, 3, len(y)):  # by hand: N(mean, std^2) for the level, others all but nothing
            conditioned = found.condition(X[:n], y[:n])
            scale, s = y.std(), found.noise_std_
            a = found.amplitude_
            # the covariance of the level, and of the almost constant part
            K = (0.2 * scale) ** 2 + a**2 * np.exp(
                -0.5 * ((X[:n, None] - X[None, :n]) ** 2).sum(axis=2) / 1e6
            )
            k = (0.2 * scale) ** 2 + a**2 * np.exp(-0.5 * ((X[:n] - X[0]) ** 2).sum(axis=1) / 1e6)
            b = np.linalg.solve(K + s**2 * np.eye(n), y[:n] - 0.4 * scale)
            assert_allclose(conditioned.predict(X[:1]), 0.4 * scale + k @ b, rtol=1e-6)

    def test_medians_and_stds_take_the_place_of_the_tables(self):
        X, y = regression()
        log_std = np.full(5, 1e-3)
        median = np.log([2.0, 3.0, 0.7, 0.4, 0.3])
        prior = LearnedPrior("weak", np.zeros(2), 40, None, median, log_std)
        gp = GPRegressor(prior=prior).fit(X, y)
        input_scale, scale = X.std(axis=0), y.std()
        assert_allclose(gp.lengthscales_ / input_scale, [2.0, 3.0], rtol=1e-2)
        assert_allclose(gp.amplitude_ / scale, 0.7, rtol=1e-2)
        assert_allclose(gp.noise_std_ / scale, 0.3, rtol=1e-2)

    def test_what_was_not_learned_is_that_of_the_base(self):
        X, y = regression()
        unknown = np.full(5, np.nan)
        prior = LearnedPrior("shrunk", np.zeros(2), 40, None, unknown, unknown)
        own, base = (GPRegressor(prior=one).fit(X, y) for one in (prior, "shrunk"))
        assert_allclose(own.predict(X), base.predict(X), rtol=1e-8)

    def test_mode_and_variance_are_those_of_the_log_posterior(self):
        """Variances against the inverse of a Hessian by differences of the value alone."""
        X, y = regression(60)
        gp = GPRegressor(noise_std=0.3, tol=1e-14).fit(X, y)
        mode, var = gp.log_hyperparameters(X, y)
        assert np.isnan(mode[-1])
        assert np.isnan(var[-1])
        assert_allclose(np.exp(mode[:2]), gp.lengthscales_ / X.std(axis=0), rtol=1e-8)

        def value(x):
            theta = np.exp(x)
            Z, t = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
            d2 = (((Z[:, None] - Z[None]) / theta[:2]) ** 2).sum(axis=2)
            K = theta[2] ** 2 * np.exp(-0.5 * d2) + theta[3] ** 2 * Z @ Z.T + 1.0
            K += (0.3 / y.std()) ** 2 * np.eye(len(t))
            nll = 0.5 * (t @ np.linalg.solve(K, t) + np.linalg.slogdet(K)[1])
            return nll + 0.5 * (((x - median) / 1.5) ** 2).sum()

        median = np.log([2 * np.sqrt(2), 2 * np.sqrt(2), 0.5, 0.5])
        h, q, x = 1e-3, 4, mode[:-1]
        steps = h * np.eye(q)
        hessian = [
            [
                (value(x + a + b) - value(x + a - b) - value(x - a + b) + value(x - a - b))
                / (4 * h**2)
                for b in steps
            ]
            for a in steps
        ]
        assert_allclose(var[:-1], np.diagonal(np.linalg.inv(hessian)), rtol=0.02)

    def test_sharpened_is_mean_and_spread(self):
        modes = np.array([[0.0, np.nan], [1.0, np.nan], [2.0, np.nan]])
        prior = LearnedPrior("weak", np.zeros(1), 3).sharpened(modes, np.full((3, 2), 0.5))
        assert_allclose(prior.median, [1.0, np.nan])
        assert_allclose(prior.log_std, [np.sqrt(0.5 + 2 / 3), np.nan])
        narrow = LearnedPrior("weak", np.zeros(1), 2).sharpened(np.zeros((2, 1)), np.zeros((2, 1)))
        assert narrow.log_std[0] == 0.2

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            (
                {"prior": LearnedPrior("weak", np.zeros(3), 40)},
                "prior must be learned from data with 2",
            ),
            (
                {"prior": LearnedPrior("weak", np.zeros(2), 40), "noisy_inputs": "nigp"},
                "prior must be 'weak', 'shrunk' or None with noisy_inputs",
            ),
            ({"prior": "learned"}, "prior must be 'weak', 'shrunk' or None"),
        ],
    )
    def test_priors_that_do_not_suit_are_refused(self, given, message):
        X, y = regression()
        with pytest.raises(ValueError, match=message):
            GPRegressor(**given).fit(X, y)

    def test_it_survives_clone_and_condition(self):
        X, y = regression()
        gp = clone(GPRegressor(prior=LearnedPrior("shrunk", self.weights, 50))).fit(X, y)
        assert_allclose(gp.condition(X, y).predict(X), gp.predict(X), rtol=1e-9)
        shorter = gp.condition(X[:10], y[:10])
        leading = gp.leading_means(X, y, [10])
        assert_allclose(leading(X[12:13]), shorter.posterior_.mean(X[12:13]), rtol=1e-8)


class TestLearning:
    def test_coefficients_of_a_panel_are_found(self):
        prior = learn_prior(walks(60), Forecaster(lags=2, differences=1))
        (kind,) = prior.kinds
        assert kind.startswith("lags 1-2, differences (1,)")
        weights = prior.kinds[kind].weights / 0.75
        # an autoregression from 40 values is biased by about -(1 + 4 phi) / n
        assert_allclose(weights, [0.6, 0.0], atol=0.12)
        assert prior.kinds[kind].n_sets == prior.n_series == 60

    def test_a_short_series_is_forecast_like_the_others(self):
        """With 8 values of its own the changes go on as those of the panel do."""
        prior = learn_prior(walks(60), Forecaster(lags=1, differences=1))
        scores = []
        for y in (y for seed in (9, 10, 11) for y in walks(25, n=14, seed=seed)):
            known, actual = y[:-6], y[-6:]
            models = [Forecaster(lags=1, differences=1, prior=one) for one in (None, prior)]
            ahead = [model.fit(known).forecast(6) for model in models]
            scores.append([one.score(actual)["crps"].mean() for one in ahead])
        # by .07; with absolute errors the difference is a fraction of its standard error
        plain, pooled = np.mean(scores, axis=0)
        assert pooled < plain

    def test_the_forecaster_says_what_it_takes(self):
        prior = learn_prior(walks(), Forecaster(lags=1, differences=1))
        y = next(walks(1, seed=5))
        own = Forecaster(lags=1, differences=1, prior=prior).fit(y)
        assert "prior of 30 series" in own.choices_[-1]
        other = Forecaster(lags=3, prior=prior).fit(y)
        assert "no prior for its kind" in other.choices_[-1]
        plain = Forecaster(lags=3).fit(y)
        pd.testing.assert_series_equal(other.forecast(3).mean, plain.forecast(3).mean)

    def test_the_automatic_choice_takes_one_for_each_kind(self):
        panel = [y + 30 + 0.2 * np.arange(len(y)) for y in walks(32)]
        prior = learn_prior(panel)
        assert len(prior.kinds) >= 2
        assert any(one.bias is not None for one in prior.kinds.values())
        model = Forecaster(prior=prior).fit(panel[0])
        learned = [m.regressor.prior for m in on_lags(model)]
        assert all(isinstance(one, LearnedPrior) for one in learned)
        ahead = model.forecast(5)
        assert np.isfinite(ahead.std).all()
        assert "drift" in str(prior)
        assert "weights" in str(prior)

    def test_series_that_cannot_be_fitted_are_left_out(self):
        panel = [*walks(), pd.Series([1.0, 2.0, 4.0])]
        prior = learn_prior(panel, Forecaster(lags=2, differences=1))
        assert prior.n_series == LEAST_SETS
        assert {one.n_sets for one in prior.kinds.values()} == {LEAST_SETS}

    def test_updates_and_rolling_errors_keep_the_prior(self):
        prior = learn_prior(walks(), Forecaster(lags=1, differences=1))
        y = next(walks(1, n=60, seed=5))
        model = Forecaster(lags=1, differences=1, prior=prior, calibrate=True)
        longer = clone(model).fit(y[:50]).update(y[50:])
        assert np.isfinite(longer.forecast(4).std).all()

    def test_jobs_do_not_count(self):
        one, two = (
            learn_prior(walks(), Forecaster(lags=1, differences=1), n_jobs=n) for n in (1, 2)
        )
        for kind, prior in one.kinds.items():
            assert_allclose(prior.weights, two.kinds[kind].weights, rtol=1e-10)
            assert_allclose(prior.median, two.kinds[kind].median, rtol=1e-6)

    def test_callers_data_stay(self):
        panel = list(walks())
        before = [y.copy() for y in panel]
        forecaster = Forecaster(lags=1, differences=1)
        learn_prior(panel, forecaster)
        for y, kept in zip(panel, before, strict=True):
            pd.testing.assert_series_equal(y, kept)
        assert forecaster.prior is None


class TestPanel:
    FORECASTER = Forecaster(lags=1, differences=1)

    def frame(self, n_series=LEAST_SETS):
        return pd.concat(
            pd.DataFrame({"unique_id": i, "ds": y.index, "y": y.to_numpy()})
            for i, y in enumerate(walks(n_series))
        )

    def test_pooling_is_learning_and_forecasting(self):
        frame = self.frame()
        learned = learn_prior(walks(), self.FORECASTER)
        pooled, given, plain = (
            forecast_panel(frame, self.FORECASTER, 3, pool=pool)
            for pool in ("hyperparameters", learned, None)
        )
        pd.testing.assert_frame_equal(pooled, given)
        own = Forecaster(lags=1, differences=1, prior=learned).fit(next(walks(1))).forecast(3)
        assert_allclose(pooled["forecast_unc"][:3], own.mean, rtol=1e-10)
        assert not np.allclose(pooled["forecast_unc"], plain["forecast_unc"])

    def test_a_series_that_fails_takes_no_part(self):
        bad = pd.DataFrame({"unique_id": "bad", "ds": [0, 1, 5], "y": [1.0, 2.0, 3.0]})
        frame = pd.concat([bad, self.frame().astype({"unique_id": object})])
        with pytest.warns(UserWarning, match=r"1 of 31 series .*'bad'"):
            found = forecast_panel(frame, self.FORECASTER, 2, pool="hyperparameters")
        assert found["error"].notna().tolist() == [True] + [False] * 2 * LEAST_SETS

    def test_of_nothing_is_nothing(self):
        found = forecast_panel(self.frame()[:0], self.FORECASTER, 2, pool="hyperparameters")
        assert len(found) == 0

    def test_regressors_are_part_of_the_kind(self):
        frame = self.frame()
        frame["x"] = np.sin(frame["ds"])
        ids = frame["unique_id"].unique()
        ahead = pd.DataFrame({"unique_id": ids, "ds": 40, "x": 0.5})
        found = forecast_panel(frame, self.FORECASTER, 1, exog=ahead, pool="hyperparameters")
        assert found["error"].isna().all()

    @pytest.mark.parametrize(
        ("forecaster", "pool", "error", "message"),
        [
            (Forecaster(lags=1), "weights", ValueError, "pool must be 'hyperparameters', a Pooled"),
            (
                Combination([Forecaster(lags=1)]),
                "hyperparameters",
                TypeError,
                "forecaster must be a",
            ),
            (Forecaster(lags=2), PooledPrior, ValueError, "pool must be"),
        ],
    )
    def test_bad_input(self, forecaster, pool, error, message):
        with pytest.raises(error, match=message):
            forecast_panel(self.frame(), forecaster, 1, pool=pool)


class TestBadInput:
    @pytest.mark.parametrize(
        ("forecaster", "error", "message"),
        [
            ("auto", TypeError, "forecaster must be a Forecaster; got str"),
            (Forecaster(GPRegressor()), ValueError, "forecaster must have the default regressor"),
            (
                Forecaster(lags=2, noise="both"),
                ValueError,
                "forecaster must have the default regressor",
            ),
        ],
    )
    def test_of_learning(self, forecaster, error, message):
        with pytest.raises(error, match=message):
            learn_prior(walks(), forecaster)

    def test_too_few(self):
        flat = [pd.Series(np.ones(40))] * LEAST_SETS
        with pytest.raises(ValueError, match=r"series must hold 30 .* got 35 series, and 5 with"):
            learn_prior([*walks(5), *flat], Forecaster(lags=1))

    def test_a_bad_series_is_named_by_its_position(self):
        bad = next(walks(1)).replace(0.0, np.inf)
        bad.iloc[3] = np.inf
        with pytest.raises(ValueError, match=r"series must .* position 30 of which: y must be fin"):
            learn_prior([*walks(), bad], Forecaster(lags=1))

    @pytest.mark.parametrize("given", [next(walks(1)), pd.DataFrame({"y": [1.0]}), {"a": 1}])
    def test_not_a_list(self, given):
        with pytest.raises(TypeError, match=r"series must be a list of Series; got "):
            learn_prior(given)

    def test_two_priors(self):
        forecaster = Forecaster(lags=1, prior=PooledPrior({}, 30))
        with pytest.raises(ValueError, match=r"forecaster must have no prior where one is"):
            learn_prior(walks(), forecaster)

    @pytest.mark.parametrize("given", [{"regressor": GPRegressor()}, {"noise": "observation"}])
    def test_of_forecasting(self, given):
        prior = PooledPrior({}, 30)
        with pytest.raises(ValueError, match="prior must be None with a"):
            Forecaster(lags=2, prior=prior, **given).fit(datasets.load_nile())

    def test_another_type(self):
        with pytest.raises(TypeError, match=r"prior must be a PooledPrior or None; got str"):
            Forecaster(lags=2, prior="weak").fit(datasets.load_nile())


class TestFiles:
    def test_a_saved_prior_is_the_same(self, tmp_path):
        prior = learn_prior(walks(), Forecaster(lags=2, differences=1))
        prior.save(tmp_path / "prior")
        loaded = PooledPrior.load(tmp_path / "prior")
        assert str(loaded) == str(prior)
        assert repr(loaded) == "PooledPrior(30 series, 1 specification)"
        y = next(walks(1, seed=4))
        pd.testing.assert_series_equal(
            *(
                Forecaster(lags=2, differences=1, prior=one).fit(y).forecast(4).std
                for one in (prior, loaded)
            )
        )

    @pytest.mark.parametrize("text", ["", "{}", '{"format": "forecast_unc prior 1"}'])
    def test_other_files_are_refused(self, tmp_path, text):
        path = tmp_path / "prior"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"path must name a file written by PooledPrior.save"):
            PooledPrior.load(path)

    @pytest.mark.parametrize("change", [{"base": "other"}, {"weights": None}, {"bias": [1]}])
    def test_tampered_files_are_refused(self, tmp_path, change):
        path = tmp_path / "prior"
        PooledPrior({"lags 1": LearnedPrior("weak", np.zeros(1), 30, (0.1, 0.2))}, 30).save(path)
        content, arrays = parse_archive(read_bytes(path))
        content["objects"][0]["fields"] |= change
        write_archive(path, content, arrays)
        with pytest.raises(ValueError, match=r"path must name a file .* whose content is not that"):
            PooledPrior.load(path)
