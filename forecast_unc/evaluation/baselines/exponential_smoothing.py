"""Exponential smoothing and the Theta method, both with a state since the start of the fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular, toeplitz

from forecast_unc._checks import RandomState, generator, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, aicc, quiet


class _Smoothing(Baseline):
    """A baseline whose forecast needs all values since the start of the fit."""

    _earlier: Array  # those before the history, (offset,); forecasts where none were observed

    def _values(self) -> Array:
        return np.concatenate([self._earlier, self._observed(self.history_).y])

    def _mean(self, steps: int) -> Array:
        """Mean (h,) of the next steps."""
        raise NotImplementedError

    def _carry(self, before: Self) -> None:
        values = before._values()
        if len(values) < self._offset:
            values = np.append(values, before._mean(self._offset - len(values)))
        self._earlier = values[: self._offset]


class _Form(NamedTuple):
    error: str
    trend: str
    season: str

    def __str__(self) -> str:
        return f"ETS({self.error},{self.trend},{self.season})"

    def model(self, values: Array, period: int, initialization: str, **initial: Any) -> Any:
        """The model of statsmodels for values in units of the fit."""
        from statsmodels.tsa.exponential_smoothing.ets import ETSModel

        return ETSModel(
            values,
            error={"A": "add", "M": "mul"}[self.error],
            trend=None if self.trend == "N" else "add",
            damped_trend=self.trend == "Ad",
            seasonal={"N": None, "A": "add", "M": "mul"}[self.season],
            seasonal_periods=None if self.season == "N" else period,
            initialization_method=initialization,
            **initial,
        )


class _Fit(NamedTuple):
    """Results of statsmodels for (y - shift) / unit, and the criterion in units of y."""

    criterion: float
    results: Any
    shift: float
    unit: float


@dataclass(eq=False, repr=False)
class ETS(_Smoothing):
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
        """Keep the form of the least criterion; the std of a one-step error, in units of y.

        All forms are fitted from a rough start, the best three of them again from an estimated one.
        """
        m = self.seasonal_period_
        # of error and season; multiplicative ones where y > 0
        pairs = [("A", "N"), ("A", "A"), ("M", "N"), ("M", "M")][: 4 if (values > 0).all() else 2]
        pairs = [(error, season) for error, season in pairs if m > 1 or season == "N"]
        trends = ("N", "A", "Ad")
        forms = [_Form(error, trend, s) for (error, s), trend in product(pairs, trends)]
        start = "heuristic" if len(values) >= 10 + 2 * (m // 2) else "estimated"
        rough = {form: _fit_ets(values, form, m, start).criterion for form in forms}
        best = sorted(forms, key=rough.__getitem__)[:3]
        fits = {form: _fit_ets(values, form, m, "estimated") for form in best}
        self.aicc_ = {form: fit.criterion for form, fit in fits.items()}
        form = min(self.aicc_, key=self.aicc_.__getitem__)
        return self._keep(form, fits[form])

    def _keep(self, form: _Form, fit: _Fit) -> float:
        """Parameters and initial state of a fit; the std of a one-step error, in units of y."""
        results, model = fit.results, fit.results.model
        self.form_ = form
        self._earlier = np.empty(0)
        self._shift, self._unit = fit.shift, fit.unit
        names = [name for name in model.param_names if not name.startswith("initial")]
        values = np.asarray(results.params, dtype=np.float64)[: len(names)]
        learned = dict(zip(names, values.tolist(), strict=True))
        self.params_ = {
            "alpha": learned["smoothing_level"],
            "beta": learned.get("smoothing_trend", 0.0),
            "gamma": learned.get("smoothing_seasonal", 0.0),
            "phi": learned.get("damping_trend", 1.0),
        }
        self._smoothing = values
        states = [f"initial_{name}" for name in model.state_names]
        self._initial = {name: getattr(results, name) for name in states}
        self.converged_ = bool(results.mle_retvals["converged"])
        self._spread = float(np.sqrt(results.scale))
        return self._spread * fit.unit  # of a multiplicative form, the unit is the mean

    def _carry(self, before: Self) -> None:
        super()._carry(before)
        n, m = len(self._values()), self.seasonal_period_
        if self.form_.season != "N" and n < m:  # statsmodels has no states before
            must = f"end a season of {m} values after the start of the fit, or later"
            raise refusal("y", must, f"{n} values", "Give more history.")

    def _state(self) -> Any:
        """Results of statsmodels with the parameters of the fit at the end of the history."""
        values = (self._values() - self._shift) / self._unit
        with quiet():
            model = self.form_.model(values, self.seasonal_period_, "known", **self._initial)
            return model.smooth(self._smoothing)

    def _mean(self, steps: int) -> Array:
        return self._shift + self._unit * np.reshape(self._state().forecast(steps), steps)

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        if self.form_.season == "M":
            return self._mean(steps), self._unit**2 * self._simulated(steps)
        alpha, beta, gamma, phi = self.params_.values()
        mean, ahead = self._mean(steps), np.arange(1, steps)
        weights = np.ones(steps)  # Hyndman et al. (6.1)
        weights[1:] = (
            alpha + beta * np.cumsum(phi**ahead) + gamma * (ahead % self.seasonal_period_ == 0)
        )
        if self.form_.error == "A":
            return mean, accumulated(weights, self.noise_std_**2)
        # sigma^2 times E[mu_t^2], to which earlier errors add
        var = self._spread**2
        earlier = toeplitz(np.append(0.0, var * weights[1:] ** 2), np.zeros(steps))
        squares = solve_triangular(np.eye(steps) - earlier, mean**2, lower=True)
        return mean, accumulated(weights, var * squares)

    def _simulated(self, steps: int) -> Array:
        """Covariance (h, h) of simulated paths, in units of the fit."""
        errors = self._spread * generator(self.random_state).standard_normal((steps, 10_000))
        state = self._state()
        parts = [  # of which each takes a twentieth of the memory
            state.simulate(steps, anchor="end", repetitions=500, random_errors=part)
            for part in np.split(errors, 20, axis=1)
        ]
        return np.atleast_2d(np.cov(np.hstack(parts)))


def _fit_ets(y: Array, form: _Form, period: int, initialization: str) -> _Fit:
    # Multiplicative forms know no shift; the others stop at their start on an offset of 1e8.
    shift, unit = (0.0, y.mean()) if form.error == "M" else (y.mean(), y.std())
    with quiet():
        results = form.model((y - shift) / unit, period, initialization).fit(disp=False)
    # initial states are counted, whether they were estimated or not
    k = 3 + 2 * (form.trend != "N") + (form.trend == "Ad") + (period + 1) * (form.season != "N")
    criterion = aicc(float(results.llf) - len(y) * np.log(unit), k, len(y))
    return _Fit(criterion, results, float(shift), float(unit))


class Theta(_Smoothing):
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

        self._earlier = np.empty(0)
        m = self.seasonal_period_
        model = ThetaModel(values, period=m, deseasonalize=m > 1)
        with quiet():
            fit = model.fit()
            self.slope_, self.alpha_ = (float(value) for value in np.asarray(fit.params))
            season = np.asarray(fit.forecast_components(m)["seasonal"])
        self.multiplicative_ = model.method.startswith("mul")
        self.season_ = np.roll(season, len(values) % m)
        levels = self._levels(values)
        steps = np.arange(1, len(values))
        errors = self._adjusted(values)[1:] - levels[:-1] - 0.5 * self.slope_ * self._memory(steps)
        return float(np.sqrt(errors @ errors / (len(values) - 3)))  # alpha, slope known

    def _adjusted(self, values: Array) -> Array:
        season = self._season(0, len(values))
        return values / season if self.multiplicative_ else values - season

    def _levels(self, values: Array) -> Array:
        """Level after each value, (n,), that of simple smoothing of the adjusted series."""
        from scipy.signal import lfilter  # kept out of the import: .1 s

        adjusted, keep = self._adjusted(values), 1 - self.alpha_
        levels, _ = lfilter([self.alpha_], [1.0, -keep], adjusted, zi=[keep * adjusted[0]])
        return np.asarray(levels)

    def _memory(self, n: Any) -> Any:
        """Steps by which the level of smoothing n values lags behind a line."""
        return (1 - (1 - self.alpha_) ** n) / self.alpha_ if self.alpha_ > 0 else n

    def _season(self, n: int, steps: int) -> Array:
        """Season of the steps after n values, (h,)."""
        return self.season_[(n + np.arange(steps)) % self.seasonal_period_]

    def _mean(self, steps: int) -> Array:
        values = self._values()
        n = len(values)
        lag = self._memory(n) + np.arange(steps)
        mean = self._levels(values)[-1] + 0.5 * self.slope_ * lag
        season = self._season(n, steps)
        return np.asarray(mean * season if self.multiplicative_ else mean + season)

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        cov = accumulated(np.where(np.arange(steps) > 0, self.alpha_, 1.0), self.noise_std_**2)
        if self.multiplicative_:
            season = self._season(len(self._values()), steps)
            cov = cov * np.outer(season, season)
        return self._mean(steps), cov
