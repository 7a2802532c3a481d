"""Standard models to compare with, each with the joint covariance of its steps.

They fit, forecast, update and apply as a `Forecaster` does, and so run on the same folds in
``backtest(compare={"ets": baselines.ETS()})``. Parameters are estimated by statsmodels and then
treated as known: no interval holds their estimation error. Definitions, covariances, sources:
theory/smoothing.md.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from importlib import import_module
from itertools import accumulate, product
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.linalg import solve_triangular, toeplitz
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc import _checks
from forecast_unc._checks import RandomState, check_whole, generator, refusal
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.models.smoothing_filter import least_std
from forecast_unc.series.calendar import seasonal_periods
from forecast_unc.series.history import History
from forecast_unc.series.times import InterpolatedWarning
from forecast_unc.series.values import check_is_series, check_varies, is_constant

__all__ = ["ETS", "SARIMAX", "AutoReg", "Drift", "Naive", "SeasonalNaive", "Theta"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in each unit of an index
# One down and up: Q, P, both, p, q, both, the drift.
_UNITS = ((5,), (3,), (3, 5), (0,), (2,), (0, 2), (6,))
_MOVES = [sign * np.isin(range(7), unit) for unit in _UNITS for sign in (-1, 1)]


@dataclass(eq=False, repr=False)
class _Baseline(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Common part of the baselines: checks, history, and its place in time since the fit."""

    takes_exog: ClassVar[bool] = False
    _takes_missing: ClassVar[bool] = False
    _takes_constants: ClassVar[bool] = False  # with the least std of a constant

    seasonal_period: int | None = None

    _least = 1  # number of values that a forecast with fitted parameters needs
    _offset: int = field(init=False)  # steps from the start of the fit to that of the history
    _earlier: Array = field(init=False)  # the first values of those steps, as far as known

    def _learn(self, values: Array, exog: Array) -> float:
        """Estimate the parameters; the std of a one-step error, in units of y."""
        raise NotImplementedError

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        """Mean (h,) and covariance (h, h) of the next steps, in units of y."""
        raise NotImplementedError

    def fit(
        self,
        y: pd.Series[float] | pd.DataFrame,
        exog: pd.DataFrame | None = None,
        *,
        time: Hashable | None = None,
        target: Hashable | None = None,
    ) -> Self:
        """Estimate the model's parameters; return it.

        `y`, `exog`, `time` and `target` as in `Forecaster.fit`; regressors are for SARIMAX and
        AutoReg. AutoReg, ETS and Theta learn from missing values that are interpolated linearly,
        with an ``InterpolatedWarning``, but for those before the first value and after the last;
        the others leave them missing.
        """
        history = self._checked(History.checked, check_is_series(y, "y", time, target), exog)
        learned_from = self._observed(history)
        values, known = learned_from.y, history.y[~np.isnan(history.y)]
        if len(known) < 10:
            remedy = "Fewer are not enough to estimate the errors of a forecast."
            raise refusal("y", "have at least 10 values", f"{len(known)}", remedy)
        constant = self._takes_constants and is_constant(known)
        if not constant:
            check_varies(values)
        n, m = len(values), self.seasonal_period
        if m is None:
            m = next((one for one in seasonal_periods(history.index) if 2 * one <= n), 1)
        check_whole("seasonal_period", m, 1, "1 is no season.")
        if 2 * m > n:
            must = f"have at least {2 * m} values for a seasonal_period of {m}"
            raise refusal("y", must, f"{n}", "Give two whole seasons, or 1 for none.")
        self.seasonal_period_ = int(m)
        self._history, self._offset, self._earlier = history, 0, np.empty(0)
        self.exog_columns_, self.converged_ = history.columns, True
        learned = self._learn(values, learned_from.exog)
        self.noise_std_ = least_std(known) if constant else learned
        if not self.noise_std_ > 1e-12 * np.abs(known).max():
            got = f"a series that {type(self).__name__} predicts exactly"
            remedy = "It needs no intervals, or has a large offset to be subtracted."
            raise refusal("y", "leave an error to learn from", got, remedy)
        return self

    def update(self, y_new: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Take in what followed, in place; `y_new` and `exog` as in `Forecaster.update`."""
        check_is_fitted(self)
        self._history = self._checked(
            self._history.followed_by, check_is_series(y_new, "y_new"), exog, "y_new"
        )
        return self

    def apply(self, y: pd.Series[float], exog: pd.DataFrame | None = None) -> Self:
        """Return the fitted model at the end of another stretch of the series, a new one.

        `y` has the frequency of the fit and begins with it or later: states, phases of the season
        and trends are counted from the start of the fit. `exog` as in `Forecaster.apply`.
        """
        check_is_fitted(self)
        history = self._checked(self._history.alike, check_is_series(y), exog)
        known = int((~np.isnan(history.y)).sum())
        if known < self._least:
            must = f"have at least {self._least} values for the fitted {type(self).__name__}"
            raise refusal("y", must, f"{known}", "Give more history.")
        later = _steps_between(self._history.index, history.index)
        if later is None or self._offset + later < 0:
            first = self._history.time(0)
            must = f"have the frequency of the fit and begin with it or later, at {first} or after"
            raise refusal("y", must, history.time(0), "Fit anew for another series.")
        applied = copy.copy(self)
        applied._offset += later
        applied._earlier = self._since_fit(applied._offset)
        applied._history = history
        return applied

    def _since_fit(self, stop: int | None = None) -> Array:
        """Values from the start of the fit on, NaN between the earlier ones and the history."""
        unknown = np.full(self._offset - len(self._earlier), np.nan)
        return np.concatenate([self._earlier, unknown, self._history.y])[:stop]

    def forecast(self, steps: int, exog: pd.DataFrame | None = None, **options: Any) -> Forecast:
        """Joint forecast of the next values; `steps` and `exog` as in `Forecaster.forecast`.

        Its other `options` are refused: a `Combination` passes them to every member.
        """
        check_is_fitted(self)
        for name, value in options.items():
            must = f"be left out for {type(self).__name__}"
            remedy = "A choice of propagation and uncertain regressors are for Forecasters."
            raise refusal(name, must, f"{value!r}", remedy, TypeError)
        _checks.check_steps(steps)
        self._check_takes_exog(exog)
        ahead = self._history.future(steps, exog)
        model = copy.copy(self)
        model._history = self._observed(self._history)
        n = len(model._history.y)
        known, late = self._history.exog[n:], len(self._history.y) - n  # steps after the last value
        mean, cov = model._joint(late + steps, np.vstack([known, ahead.exog]))
        return Forecast(ahead.index, mean[late:], cov[late:, late:], name=self._history.name)

    def _checked(
        self, made: Callable[..., History], y: object, exog: object, name: str = "y"
    ) -> History:
        """The history of a series, or an error where it holds what the model does not take."""
        self._check_takes_exog(exog)
        history = made(y, exog)
        known = ~np.isnan(history.y)
        if self._takes_missing or not known.any():
            return history
        history, at = history.part(int(known.argmax())), np.flatnonzero(known)
        at -= at[0]
        within = np.interp(np.arange(len(history.y)), at, history.y[at], right=np.nan)
        if len(at) <= at[-1]:
            said = f"missing values are interpolated for {type(self).__name__}, whose intervals "
            warnings.warn(f"{said}may be too narrow", InterpolatedWarning, stacklevel=3)
        return replace(history, y=within)

    def _observed(self, history: History) -> History:
        """The history that a model learns and forecasts from, to its last value if need be."""
        return history if self._takes_missing else history.to_last_value()

    def _check_takes_exog(self, exog: object) -> None:
        if exog is not None and not self.takes_exog:
            must, got = f"be None for {type(self).__name__}", f"a {type(exog).__name__}"
            raise refusal("exog", must, got, "It takes no regressors; AutoReg and SARIMAX do.")


class SeasonalNaive(_Baseline):
    r"""The last season again; without a season the last value (a random walk).

    The errors accumulate over the seasons: :math:`\psi_j = 1` where the period divides j, else 0;
    over those without a value before the forecast, too.

    Fitted, ``seasonal_period_`` is the period in use, ``noise_std_`` the root mean square of the
    seasonal differences.

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice.
    """

    _takes_missing: ClassVar[bool] = True
    _takes_constants: ClassVar[bool] = True

    def _learn(self, values: Array, exog: Array) -> float:
        self._least = m = self.seasonal_period_
        squares = (values[m:] - values[:-m]) ** 2
        if np.isnan(squares).all():
            must = f"have two values that are {m} steps apart"
            raise refusal("y", must, "none", "Give a longer history.")
        return float(np.sqrt(np.nanmean(squares)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        y, m = self._history.y, self.seasonal_period_
        phase, seasons = np.arange(steps) % m, -(-len(y) // m)
        table = np.pad(y, (seasons * m - len(y), 0), constant_values=np.nan).reshape(-1, m)[::-1]
        known = ~np.isnan(table)
        if (first := _checks.first_true(~known.any(axis=0))) is not None:
            must = f"have a value at each of the {m} steps of the season"
            got = f"none at that of {self._history.time(len(y) - m + first)}"
            raise refusal("y", must, got, "Give a longer history.")
        missed = known.argmax(axis=0)[phase]  # seasons without a value before the forecast
        var, same = self.noise_std_**2, phase[:, None] == phase
        cov = _accumulated((phase == 0).astype(np.float64), var) + var * missed * same
        return table[missed, phase], cov


@dataclass(eq=False, repr=False)
class Naive(SeasonalNaive):
    r"""The last value again: a random walk, whose errors accumulate.

    Its ``noise_std_`` is the root mean square of the changes, in units of y.
    """

    seasonal_period: int | None = field(default=1, init=False)


@dataclass(eq=False, repr=False)
class Drift(_Baseline):
    r"""The last value and the mean change since the first: a random walk with a drift.

    The drift is as uncertain as a mean of n changes:
    :math:`\mathrm{Cov}_{ij} = \sigma^2 (\min(i, j) + i j / n)`, steps counted from the last value.

    ``drift_`` is the mean change, ``noise_std_`` the standard deviation of the changes, in units of
    y.
    """

    _takes_missing: ClassVar[bool] = True
    _takes_constants: ClassVar[bool] = True

    seasonal_period: int | None = field(default=1, init=False)

    def _learn(self, values: Array, exog: Array) -> float:
        at = np.flatnonzero(~np.isnan(values))
        gaps, changes = np.diff(at), np.diff(values[at])
        self._n = int(at[-1] - at[0])
        self.drift_ = float(changes.sum() / self._n)
        squares = (changes - self.drift_ * gaps) ** 2 / gaps
        return float(np.sqrt(squares.sum() / (len(gaps) - 1)))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        y = self._history.y
        last = int(np.flatnonzero(~np.isnan(y))[-1])
        step = len(y) - 1.0 - last + np.arange(1.0, steps + 1.0)
        shape = np.minimum.outer(step, step) + np.outer(step, step) / self._n
        return y[last] + self.drift_ * step, self.noise_std_**2 * shape


@dataclass(eq=False, repr=False)
class AutoReg(_Baseline):
    r"""Autoregression by least squares, its order chosen by a criterion.

    Fitted, ``lags_`` is the order, ``coef_`` has the coefficients of lags 1 to p, and
    ``noise_std_`` is the std of a one-step error.

    Parameters
    ----------
    lags : {"aic", "bic", "hqic"} or int, default="aic"
        Criterion that chooses the order p, or p itself. "bic" chooses lower ones.
    trend : {"n", "c", "t", "ct"}, default="c"
        No constant, a constant, a linear trend, or both.
    seasonal : bool, default=False
        Whether every phase of the season has its own constant.
    seasonal_period : int, optional
        As of `SeasonalNaive`; below 60 the search goes up to one lag more, if data suffice.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.AutoReg().fit(datasets.load_sunspots()).lags_
    9
    """

    takes_exog: ClassVar[bool] = True

    lags: Literal["aic", "bic", "hqic"] | int = "aic"
    _: KW_ONLY
    trend: Literal["n", "c", "t", "ct"] = "c"
    seasonal: bool = False
    seasonal_period: int | None = None

    def _learn(self, values: Array, exog: Array) -> float:
        from statsmodels.tsa import ar_model

        _checks.check_choice("trend", self.trend, ("c", "n", "t", "ct"))
        n, X = len(values), self._design(0, exog)
        # Beside a constant an offset changes nothing but the condition of the equations.
        self._center = float(values.mean()) if "c" in self.trend else 0.0
        values, k = values - self._center, X.shape[1]
        regressors = X if k else None
        room = (n - k - 2) // 3  # three equations for each lag
        if room < 1:
            must = f"have at least {k + 5} values for {k} regressors, seasons and trends counted"
            raise refusal("y", must, f"{n}", "Give more data, or fewer of them.")
        lags: Any = self.lags
        if lags in ("aic", "bic", "hqic"):
            # Schwert's rule, and a season where least squares on so many lags is still cheap
            season = self.seasonal_period_ + 1 if self.seasonal_period_ < 60 else 0
            most = min(int(max(10 * np.log10(n), season)), room)
            with _quiet():
                order = ar_model.ar_select_order(values, most, ic=lags, trend="n", exog=regressors)
            lags = max(order.ar_lags or [0])
        check_whole("lags", lags, 0, "'aic', 'bic' and 'hqic' choose the number.")
        if lags > room:
            must = f"be at most {room} for {n} values"
            raise refusal("lags", must, f"{lags}", "Give more data, or fewer lags.")
        with _quiet():
            fit = ar_model.AutoReg(values, lags, trend="n", exog=regressors).fit()
        self.lags_ = self._least = int(lags)
        self.coef_, self._beta = np.split(np.asarray(fit.params, dtype=np.float64), [lags])
        return float(np.sqrt(fit.sigma2))

    def _design(self, start: int, exog: Array) -> Array:
        """Constant, time, season and regressors from a time counted from the fit, (n, k)."""
        times, m = start + np.arange(len(exog)), self.seasonal_period_
        columns: list[Any] = [np.ones(len(times))] if "c" in self.trend else []
        columns += [times + 1.0] if "t" in self.trend else []
        if self.seasonal and m > 1:
            phases = range(1 if "c" in self.trend else 0, m)
            columns += [(times % m == phase).astype(np.float64) for phase in phases]
        return np.column_stack([*columns, exog])

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        from scipy.signal import lfilter, lfiltic  # kept out of the import: .1 s

        y = self._history.y
        level = self._design(self._offset + len(y), exog) @ self._beta
        past = (y - self._center)[len(y) - self.lags_ :][::-1]
        b, a = np.ones(1), np.concatenate([[1.0], -self.coef_])
        path, _ = lfilter(b, a, level, zi=lfiltic(b, a, past))
        weights = lfilter(b, a, np.eye(1, steps)[0])
        return self._center + path, _accumulated(weights, self.noise_std_**2)


class _Form(NamedTuple):
    error: str
    trend: str
    season: str

    def __str__(self) -> str:
        return f"ETS({self.error},{self.trend},{self.season})"


@dataclass(eq=False, repr=False)
class ETS(_Baseline):
    r"""Exponential smoothing, its form chosen by the corrected Akaike criterion.

    The forms: additive errors with no or additive season; where y > 0, also multiplicative errors
    with no or multiplicative season; each with no, additive or damped trend. Variances are exact;
    with a multiplicative season the covariance is that of 10,000 simulated paths.

    Fitted, ``form_`` has the error ("A" or "M"), trend ("N", "A" or "Ad") and season ("N", "A" or
    "M"), the dicts ``aicc_`` the criterion of the best three forms and ``params_`` ``alpha``,
    ``beta``, ``gamma`` and ``phi``; ``noise_std_`` is the std of a one-step error (if
    multiplicative, at the mean of y), ``converged_`` whether the likelihood reached its maximum.

    Parameters
    ----------
    seasonal_period : int, optional
        As of `SeasonalNaive`.
    random_state : int, numpy.random.Generator or None, default=0
        Seed of the simulated paths; an int gives the same forecast every time.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> print(baselines.ETS().fit(datasets.load_nile()).form_)
    ETS(M,N,N)
    """

    random_state: RandomState = field(default=0, kw_only=True)

    def _learn(self, values: Array, exog: Array) -> float:
        m = self.seasonal_period_
        pairs = [("A", "N"), ("A", "A"), ("M", "N"), ("M", "M")][: 4 if (values > 0).all() else 2]
        pairs = [(e, s) for e, s in pairs if m > 1 or s == "N"]
        forms = [_Form(e, trend, s) for (e, s), trend in product(pairs, ("N", "A", "Ad"))]
        start = "heuristic" if len(values) >= 10 + 2 * (m // 2) else "estimated"
        rough = {form: _fit_ets(values, form, m, start)[0] for form in forms}
        best = sorted(forms, key=rough.__getitem__)[:3]
        full = {form: _fit_ets(values, form, m, "estimated") for form in best}
        self.aicc_ = {form: criterion for form, (criterion, *_) in full.items()}
        self.form_ = min(self.aicc_, key=self.aicc_.__getitem__)
        return self._keep(*full[self.form_][1:])

    def _keep(self, fit: Any, shift: float, unit: float) -> float:
        """Parameters and initial state of a fit in full, in units of y."""
        m, season = self.seasonal_period_, np.zeros(self.seasonal_period_)
        found = dict(zip(fit.model.param_names, np.asarray(fit.params, dtype=float), strict=True))
        smoothing = [found.get(f"smoothing_{of}", 0.0) for of in ("level", "trend", "seasonal")]
        self.params_ = dict(zip(("alpha", "beta", "gamma"), smoothing, strict=True))
        self.params_["phi"] = found.get("damping_trend", 1.0)
        if self.form_.season != "N":  # initial_seasonal.0 is the latest
            season = np.array([found[f"initial_seasonal.{m - 1 - i}"] for i in range(m)])
        self._start = (
            shift + unit * found["initial_level"],
            unit * found.get("initial_trend", 0.0),
            season if self.form_.season == "M" else unit * season,
        )
        self.converged_ = bool(fit.mle_retvals["converged"])
        spread = float(np.sqrt(fit.scale))
        self._spread = spread * unit if self.form_.error == "A" else spread
        return spread * unit  # of a multiplicative form, the unit is the mean

    def _state(self) -> tuple[float, float, Array]:
        """Level, trend and the seasons of the next m steps at the end of the history."""
        alpha, beta, gamma, phi = self.params_.values()
        (level, trend, start), m = self._start, self.seasonal_period_
        season, values = start.copy(), self._since_fit()
        for t, y in enumerate(values):
            base, old = level + phi * trend, season[t % m]
            multiplicative = self.form_.season == "M"
            error = 0.0 if np.isnan(y) else y - (base * old if multiplicative else base + old)
            shock = error / old if multiplicative else error
            level, trend = base + alpha * shock, phi * trend + beta * shock
            if not multiplicative:
                season[t % m] += gamma * error
            elif not np.isnan(y):
                # y over the new level, with which statsmodels estimates, and not over the old one
                season[t % m] += gamma / (1 - alpha) * (y / level - old)
        return level, trend, np.roll(season, -(len(values) % m))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        alpha, beta, gamma, phi = self.params_.values()
        (level, trend, season), m, ahead = self._state(), self.seasonal_period_, np.arange(steps)
        damped = np.cumsum(phi ** (ahead + 1.0))  # phi + ... + phi^h
        base = level + damped * trend
        if self.form_.season == "M":
            return base * season[ahead % m], self._simulated(level, trend, season, steps)
        mean = base + season[ahead % m]
        weights = np.ones(steps)  # Hyndman et al. (6.1)
        weights[1:] = alpha + beta * damped[:-1] + gamma * (ahead[1:] % m == 0)
        var: Any = self._spread**2
        if self.form_.error == "M":  # times E[mu_t^2], to which earlier errors add
            earlier = toeplitz(np.append(0.0, var * weights[1:] ** 2), np.zeros(steps))
            var = var * solve_triangular(np.eye(steps) - earlier, mean**2, lower=True)
        return mean, _accumulated(weights, var)

    def _simulated(self, level: float, trend: float, season: Array, steps: int) -> Array:
        alpha, beta, gamma, phi = self.params_.values()
        errors = self._spread * generator(self.random_state).standard_normal((steps, 10_000))
        l, b = np.full(10_000, level), np.full(10_000, trend)
        s, paths = np.tile(season[:, None], (1, 10_000)), np.empty_like(errors)
        for t, e in enumerate(errors):
            base, phase = l + phi * b, t % len(s)
            paths[t] = base * s[phase] * (1 + e)
            l, b = base * (1 + alpha * e), phi * b + beta * base * e
            s[phase] *= 1 + gamma * e
        return np.atleast_2d(np.cov(paths))


def _fit_ets(y: Array, form: _Form, m: int, initialization: str) -> tuple[float, Any, float, float]:
    """Criterion in units of y, and a fit by statsmodels to (y - shift) / unit, with these two."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    seasonal, relative = form.season != "N", form.error == "M"
    # Multiplicative forms know no shift; the others stop at their start on an offset of 1e8.
    shift, unit = (0.0, y.mean()) if relative else (y.mean(), y.std())
    with _quiet():
        model = ETSModel(
            (y - shift) / unit,
            error="mul" if relative else "add",
            trend=None if form.trend == "N" else "add",
            damped_trend=form.trend == "Ad",
            seasonal={"N": None, "A": "add", "M": "mul"}[form.season],
            seasonal_periods=m if seasonal else None,
            initialization_method=initialization,
        )
        fit = model.fit(disp=False)
    # initial states are counted, whether they were estimated or not
    k = 3 + 2 * (form.trend != "N") + (form.trend == "Ad") + (m + 1) * seasonal
    criterion = _aicc(float(fit.llf) - len(y) * np.log(unit), k, len(y))
    return criterion, fit, float(shift), float(unit)


class Theta(_Baseline):
    r"""The Theta method: a seasonally adjusted series smoothed with half its trend as drift.

    A season is adjusted for if the autocorrelation at its lag is significant at 10 %. The mean is
    that of statsmodels' ``ThetaModel``. Its intervals are not: they take
    :math:`1 + (\alpha - 1)^2` for :math:`\alpha^2`, and the noise before seasonal adjustment.

    Fitted, ``alpha_``, ``slope_`` and ``noise_std_`` are the smoothing constant, the slope of a
    line and the std of a one-step error of the adjusted series; ``season_``, (m,), is the season
    from the first value of the fit on, ``multiplicative_`` whether it is of factors (y > 0).

    Parameters
    ----------
    seasonal_period : int, optional
        As of `SeasonalNaive`.
    """

    def _learn(self, values: Array, exog: Array) -> float:
        from statsmodels.tsa.forecasting.theta import ThetaModel

        m = self.seasonal_period_
        model = ThetaModel(values, period=m, deseasonalize=m > 1)
        with _quiet():
            fit = model.fit()
            self.slope_, self.alpha_ = (float(value) for value in np.asarray(fit.params))
            season = np.asarray(fit.forecast_components(m)["seasonal"])
        self.multiplicative_ = model.method.startswith("mul")
        self.season_ = np.roll(season, len(values) % m)
        _, errors = self._smooth(values)
        return float(np.sqrt(errors[1:] @ errors[1:] / (len(values) - 3)))  # alpha, slope known

    def _smooth(self, values: Array) -> tuple[float, Array]:
        """Level at the end, and the one-step errors, (n,), of the seasonally adjusted series."""
        season = self.season_[np.arange(len(values)) % self.seasonal_period_]
        adjusted = values / season if self.multiplicative_ else values - season
        level, errors = float(adjusted[0]), np.zeros(len(values))
        for t in range(1, len(values)):
            drift = 0.5 * self.slope_ * self._memory(t)
            error = adjusted[t] - level - drift
            errors[t] = 0.0 if np.isnan(error) else error
            level += self.alpha_ * (errors[t] + drift)
        return level, errors

    def _memory(self, n: int) -> float:
        """Steps by which the level of smoothing n values lags behind a line."""
        return (1 - (1 - self.alpha_) ** n) / self.alpha_ if self.alpha_ > 0 else float(n)

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        values, ahead = self._since_fit(), np.arange(steps)
        level, _ = self._smooth(values)
        season = self.season_[(len(values) + ahead) % self.seasonal_period_]
        mean = level + 0.5 * self.slope_ * (ahead + self._memory(len(values)))
        cov = _accumulated(np.where(ahead > 0, self.alpha_, 1.0), self.noise_std_**2)
        if self.multiplicative_:
            return mean * season, cov * np.outer(season, season)
        return mean + season, cov


class _Orders(NamedTuple):
    """Orders of a seasonal ARIMA, and 1 if it has a constant or, differenced, a drift."""

    p: int
    d: int
    q: int
    P: int
    D: int
    Q: int
    drift: int


@dataclass(eq=False, repr=False)
class SARIMAX(_Baseline):
    r"""Regression with seasonal ARIMA errors, its orders found by a small search.

    Differences are chosen first: a seasonal one where the season's strength exceeds 0.64, then
    plain ones, two at most, while the KPSS test rejects stationarity at 5 %. The orders follow by
    stepwise descent of the corrected Akaike criterion, on the differenced series. Missing values
    are not filled.

    Fitted, ``order_`` is (p, d, q), ``seasonal_order_`` (P, D, Q, m), ``drift_`` whether there is a
    constant (undifferenced) or a linear trend, ``n_harmonics_`` the number of Fourier pairs;
    ``noise_std_`` and ``converged_`` are as of `ETS`.

    Parameters
    ----------
    seasonal_period : int, optional
        As of `SeasonalNaive`. A season longer than 12 enters as Fourier terms: a state space of 24
        lags took 4 s a fit of 700 values.
    max_order : int, default=2
        Largest order of the two plain polynomials; more finds longer memories, at a cost.
    max_seasonal_order : int, default=1
        Largest order of the two seasonal ones.

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.SARIMAX().fit(datasets.load_nile()).order_
    (1, 1, 1)
    """

    takes_exog: ClassVar[bool] = True
    _takes_missing: ClassVar[bool] = True

    _: KW_ONLY
    max_order: int = 2
    max_seasonal_order: int = 1

    def _learn(self, values: Array, exog: Array) -> float:
        check_whole("max_order", self.max_order, 0, "2 is enough for most series.")
        check_whole("max_seasonal_order", self.max_seasonal_order, 0, "1 is enough for most.")
        self._center, self._unit = float(np.nanmean(values)), float(np.nanstd(values))
        self._exog_center, self._exog_unit = exog.mean(axis=0), exog.std(axis=0)
        flat = ~(self._exog_unit > 1e-12 * np.abs(exog).max(axis=0, initial=0.0))
        if flat.any():
            got = f"column {self.exog_columns_[int(flat.argmax())]!r} constant"
            raise refusal("exog", "vary", got, "Leave it out: the model has a constant of its own.")
        z, period = (values - self._center) / self._unit, self.seasonal_period_
        self._m = m = period if 1 < period <= 12 else 0  # of longer seasons Fourier terms
        with _quiet():
            self.n_harmonics_ = 0 if m or period == 1 else self._harmonics(z, exog)
            rest = _residuals(z, self._design(0, exog))
            D = int(m > 0 and len(z) >= 3 * m and _seasonal_strength(rest, m) > 0.64)
            d = _unit_roots(rest[m:] - rest[:-m] if D else rest)
            self._orders, start = self._search(z, exog, d, D)
            model = self._model(z, 0, exog, self._orders)
            fit = model.fit(start, disp=False, maxiter=100, cov_type="none")
        p, d, q, P, D, Q, drift = self._orders
        self.order_, self.seasonal_order_, self.drift_ = (p, d, q), (P, D, Q, m), bool(drift)
        self._least = d + D * m + max(p + P * m, q + Q * m) + 1
        self._params = np.asarray(fit.params, dtype=np.float64)
        self.converged_ = bool(fit.mle_retvals["converged"])
        return float(np.sqrt(self._params[-1])) * self._unit

    def _harmonics(self, z: Array, exog: Array) -> int:
        """Number of Fourier pairs, at most 10, by the criterion of a regression of differences."""
        criteria = []
        for k in range(min(10, (self.seasonal_period_ - 1) // 2) + 1):
            self.n_harmonics_ = k
            X = np.diff(self._design(0, exog), axis=0)
            rest = _residuals(np.diff(z), X)
            n = int(np.isfinite(rest).sum())
            criteria.append(_aicc(-0.5 * n * np.log(np.nanmean(rest**2)), X.shape[1] + 2, n))
        return int(np.argmin(criteria))

    def _design(self, start: int, exog: Array, orders: _Orders | None = None) -> Array:
        """Constant or trend, season and regressors from a time counted from the fit, (n, k)."""
        times, columns = start + np.arange(len(exog)), []
        if orders is not None and orders.drift:
            columns.append(times / 100 if orders.d + orders.D else np.ones(len(times)))
        for k in range(1, self.n_harmonics_ + 1):
            angle = 2 * np.pi * k * times / self.seasonal_period_
            columns += [np.sin(angle), np.cos(angle)]
        return np.column_stack([*columns, (exog - self._exog_center) / self._exog_unit])

    def _model(
        self, z: Array, start: int, exog: Array, orders: _Orders, simple: bool = False
    ) -> Any:
        from statsmodels.tsa.statespace import sarimax

        X = self._design(start, exog, orders)
        return sarimax.SARIMAX(
            z,
            exog=X if X.size else None,
            order=orders[:3],
            seasonal_order=(*orders[3:6], self._m),
            simple_differencing=simple,
            use_exact_diffuse=not simple,  # an approximate one leaves roundoff of 1e6 eps
        )

    def _search(self, z: Array, exog: Array, d: int, D: int) -> tuple[_Orders, Array]:
        """Orders of the least criterion downhill from four starts, and their parameters."""
        n = int(np.isfinite(z).sum()) - d - D * self._m
        fits: dict[_Orders, tuple[float, Array]] = {}

        def criterion(orders: _Orders) -> float:
            if orders not in fits:
                try:
                    model = self._model(z, 0, exog, orders, simple=True)
                    fit = model.fit(disp=False, maxiter=50, cov_type="none")
                    params = np.asarray(fit.params, dtype=np.float64)
                    value = _aicc(fit.llf, len(params), n)
                    fits[orders] = value if np.isfinite(value) else np.inf, params
                except (ValueError, np.linalg.LinAlgError):  # no start, or more lags than values
                    fits[orders] = np.inf, np.empty(0)
            return fits[orders][0]

        top, most = self.max_order, self.max_seasonal_order if self._m else 0
        highest = (top, d, top, most, D, most, int(d + D < 2))
        starts = [
            _Orders(p, d, q, min(P, most), D, min(Q, most), highest[-1])
            for p, q, P, Q in ((0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (2, 2, 1, 1))
            if max(p, q) <= top
        ]
        better: _Orders | None = min(starts, key=criterion)
        while better is not None:
            best, value = better, criterion(better)
            moved = (np.add(best, move) for move in _MOVES)
            inside = (new for new in moved if ((new >= 0) & (new <= highest)).all())
            near = (_Orders(*new.tolist()) for new in inside)
            better = next((orders for orders in near if criterion(orders) < value), None)
        if not np.isfinite(value):
            got = f"{len(z)}, with which none could be fitted"
            remedy = "Give more data, fewer regressors or a shorter seasonal_period."
            raise refusal("y", "have enough values for an ARIMA", got, remedy)
        return best, fits[best][1]

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        z = (self._history.y - self._center) / self._unit
        with _quiet():
            model = self._model(z, self._offset, self._history.exog, self._orders)
            state = model.filter(self._params, return_ssm=True)
        T, Z, R = (part[:, :, 0] for part in (state.transition, state.design, state.selection))
        # Z T^j, (h, k)
        rows = np.array(list(accumulate(range(1, steps), lambda row, _: row @ T, initial=Z[0])))
        weights = np.concatenate([[0.0], (rows @ R[:, 0])[:-1]])  # the first step has P alone
        cov = rows @ state.predicted_state_cov[:, :, -1] @ rows.T
        cov += _accumulated(weights, state.state_cov[0, 0, 0])
        X = self._design(self._offset + len(z), exog, self._orders)
        mean = rows @ state.predicted_state[:, -1] + X @ self._params[: X.shape[1]]
        return self._center + self._unit * mean, self._unit**2 * 0.5 * (cov + cov.T)


def _residuals(z: Array, X: Array) -> Array:
    """Residuals of a regression with a constant, (n,); missing values stay so."""
    X = np.column_stack([np.ones(len(z)), X])
    known = np.isfinite(z)
    return np.asarray(z - X @ np.linalg.lstsq(X[known], z[known], rcond=None)[0])


def _seasonal_strength(z: Array, m: int) -> float:
    """Share of the variance around a moving average that seasonal means explain, from 0 to 1."""
    window = np.ones(m + 1 - m % 2)
    if m % 2 == 0:
        window[[0, -1]] = 0.5
    known = np.isfinite(z).astype(np.float64)
    total = np.convolve(np.where(known, z, 0.0), window, "valid")
    half = len(window) // 2
    detrended = z[half : len(z) - half] - total / np.convolve(known, window, "valid")
    phases = np.arange(len(detrended)) % m
    season = np.array([np.nanmean(detrended[phases == phase]) for phase in range(m)])
    return float(1 - np.nanvar(detrended - season[phases]) / np.nanvar(detrended))


def _unit_roots(z: Array) -> int:
    """Number of differences, at most two, until the KPSS test takes the series for stationary."""
    from statsmodels.tsa.stattools import kpss

    z = z[np.isfinite(z)]
    for d in (0, 1):
        # the number of lags of R's ndiffs
        if not kpss(np.diff(z, d), nlags=int(3 * np.sqrt(len(z)) / 13))[1] < 0.05:
            return d
    return 2


def _accumulated(weights: Array, var: float | Array) -> Array:
    """Covariance (h, h) of errors that are sums of one-step errors with the weights psi."""
    psi = toeplitz(weights, np.zeros(len(weights)))
    return np.asarray((psi * var) @ psi.T)


def _aicc(log_likelihood: float, k: int, n: int) -> float:
    """Corrected Akaike criterion of k parameters; infinite where n values are too few for them."""
    return 2 * k - 2 * log_likelihood + 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else np.inf


@contextmanager
def _quiet() -> Iterator[None]:
    """Statsmodels on one BLAS thread, its warnings left to `converged_`."""
    # On two threads the Kalman filter's tiny products took 22 times as long (busy machine).
    with warnings.catch_warnings(), np.errstate(all="ignore"), blas_threads(0):
        import_module("statsmodels.tools.sm_exceptions")  # sets filters, hence before ours
        warnings.simplefilter("ignore")
        yield


def _steps_between(first: pd.Index[Any], second: pd.Index[Any]) -> int | None:
    """Steps from the start of an index to another's of its frequency; None on another grid."""
    one: Any = first[:1]
    other: Any = second[:1]
    freq: Any = getattr(first, "freq", None)
    if getattr(first, "tz", None) != getattr(second, "tz", None):
        return None
    if isinstance(first, pd.RangeIndex):
        distance, step = other[0] - one[0], first.step
    elif isinstance(first, pd.PeriodIndex):
        distance, step = other[0].ordinal - one[0].ordinal, freq.n
    elif isinstance(freq, pd.offsets.Day | pd.offsets.Tick):
        if isinstance(freq, pd.offsets.Day):  # of 23 to 25 hours where the clock changes
            one, other = one.tz_localize(None), other.tz_localize(None)
        # As Python's whole numbers: a Timedelta ends at 292 years.
        start, end = (int(index.asi8[0]) * _NANOSECONDS[index.unit] for index in (one, other))
        distance, step = end - start, freq.nanos
    else:  # of business hours or longer steps
        a, b = sorted((one[0], other[0]))
        grid = pd.date_range(a, b, freq=freq)
        if not len(grid) or grid[-1] != b:
            return None
        distance, step = (len(grid) - 1) * (1 if a == one[0] else -1), 1
    steps, rest = divmod(distance, step)
    return None if rest else int(steps)
