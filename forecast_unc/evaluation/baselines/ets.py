"""Exponential smoothing with the joint covariance of its state space."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from forecast_unc._checks import RandomState, generator
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, aicc, quiet


class _Form(NamedTuple):
    """Form of an exponential smoothing: error, trend, season."""

    error: str
    trend: str
    season: str

    def __str__(self) -> str:
        return f"ETS({self.error},{self.trend},{self.season})"


class ETS(Baseline):
    r"""Exponential smoothing, its form chosen by the corrected Akaike criterion.

    The forms: additive errors with no or additive season; where y > 0, also multiplicative errors
    with no or multiplicative season; each with no, additive or damped trend. With level l, trend b,
    season s and :math:`\mu_t = l_{t-1} + \phi b_{t-1} + s_{t-m}` (times :math:`s_{t-m}` if it is
    multiplicative), the weights of the linear forms are

    .. math:: \psi_j = \alpha + \beta (\phi + \dots + \phi^j) + \gamma [j \bmod m = 0]

    and the variance of a one-step error is :math:`s^2` (additive) or :math:`s^2 E[\mu_t^2]`
    (multiplicative), both exact. With a multiplicative season the covariance is that of 10,000
    simulated paths.

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice.
    random_state : int, numpy.random.Generator or None, default=0
        Seed of the simulated paths; an int gives the same forecast every time.

    Attributes
    ----------
    form_ : tuple of str
        Error ("A" or "M"), trend ("N", "A" or "Ad") and season ("N", "A" or "M").
    aicc_ : dict
        Criterion of the forms that were fitted in full.
    params_ : dict
        ``alpha``, ``beta``, ``gamma`` and ``phi``.
    noise_std_ : float
        Standard deviation of a one-step error, in units of y; with multiplicative errors at the
        mean of y.
    converged_ : bool
        Whether the likelihood of the form chosen reached its maximum.

    Notes
    -----
    All forms are fitted with initial states from a heuristic first, and the best three then in
    full, with initial states estimated.

    References
    ----------
    R. J. Hyndman, A. B. Koehler, J. K. Ord, R. D. Snyder, "Forecasting with Exponential Smoothing",
    Springer 2008, chapter 6, https://doi.org/10.1007/978-3-540-71918-2

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> print(baselines.ETS().fit(datasets.load_nile()).form_)
    ETS(M,N,N)
    """

    def __init__(
        self, seasonal_period: int | None = None, *, random_state: RandomState = 0
    ) -> None:
        self.seasonal_period = seasonal_period
        self.random_state = random_state

    def _learn(self, values: Array, exog: Array) -> float:
        m = self.seasonal_period_
        pairs = [("A", "N"), *([("A", "A")] if m > 1 else [])]
        if (values > 0).all():
            pairs += [("M", "N"), *([("M", "M")] if m > 1 else [])]
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
        self.params_ = {
            "alpha": found["smoothing_level"],
            "beta": found.get("smoothing_trend", 0.0),
            "gamma": found.get("smoothing_seasonal", 0.0),
            "phi": found.get("damping_trend", 1.0),
        }
        multiplicative = self.form_.season == "M"
        if self.form_.season != "N":  # initial_seasonal.0 is the latest
            season = np.array([found[f"initial_seasonal.{m - 1 - i}"] for i in range(m)])
        self._start = (
            shift + unit * found["initial_level"],
            unit * found.get("initial_trend", 0.0),
            season if multiplicative else unit * season,
        )
        self.converged_ = bool(fit.mle_retvals["converged"])
        spread = float(np.sqrt(fit.scale))
        self._spread = spread * unit if self.form_.error == "A" else spread
        return spread * unit  # of a multiplicative form, the unit is the mean

    def _state(self) -> tuple[float, float, Array]:
        """Level, trend and the seasons of the next m steps at the end of the history."""
        alpha, beta, gamma, phi = self.params_.values()
        multiplicative = self.form_.season == "M"
        (level, trend, start), m = self._start, self.seasonal_period_
        season = start.copy()
        for t, y in enumerate(self._since_fit()):
            base, old = level + phi * trend, season[t % m]
            error = 0.0 if np.isnan(y) else y - (base * old if multiplicative else base + old)
            shock = error / old if multiplicative else error
            level, trend = base + alpha * shock, phi * trend + beta * shock
            if not multiplicative:
                season[t % m] += gamma * error
            elif not np.isnan(y):
                # y over the new level, with which statsmodels estimates, and not over the old one
                season[t % m] += gamma / (1 - alpha) * (y / level - old)
        return level, trend, np.roll(season, -(len(self._since_fit()) % m))

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        alpha, beta, gamma, phi = self.params_.values()
        (level, trend, season), m = self._state(), self.seasonal_period_
        ahead = np.arange(steps)
        damped = np.cumsum(phi ** (ahead + 1.0))  # phi + ... + phi^h
        base = level + damped * trend
        if self.form_.season == "M":
            return base * season[ahead % m], self._simulated(level, trend, season, steps)
        mean = base + season[ahead % m]
        weights = np.ones(steps)  # Hyndman et al. (6.1)
        weights[1:] = alpha + beta * damped[:-1] + gamma * (ahead[1:] % m == 0)
        var = np.full(steps, self._spread**2)
        if self.form_.error == "M":
            second = np.zeros(steps)  # E[mu_t^2]
            for t in range(steps):
                past = (weights[1 : t + 1][::-1] ** 2) @ second[:t]
                second[t] = mean[t] ** 2 + self._spread**2 * past
            var *= second
        return mean, accumulated(weights, var)

    def _simulated(self, level: float, trend: float, season: Array, steps: int) -> Array:
        alpha, beta, gamma, phi = self.params_.values()
        rng = generator(self.random_state)
        errors = self._spread * rng.standard_normal((steps, 10_000))
        l, b = np.full(10_000, level), np.full(10_000, trend)
        s = np.tile(season[:, None], (1, 10_000))
        paths = np.empty_like(errors)
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
    with quiet():
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
    criterion = aicc(float(fit.llf) - len(y) * np.log(unit), k, len(y))
    return criterion, fit, float(shift), float(unit)
