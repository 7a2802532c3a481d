"""Seasonal ARIMA with regressors, its orders found by a small search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np

from forecast_unc._checks import check_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, aicc, quiet

# Seasons up to this are states of the ARIMA, longer ones Fourier terms.
_LONGEST_STATE = 12
# Of p, q, P and Q, one down and up: the seasonal ones first, then both of a pair.
_UNITS = ((0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1), (1, 0, 0, 0), (0, 1, 0, 0), (1, 1, 0, 0))
_MOVES = [tuple(i * order for order in unit) for unit in _UNITS for i in (-1, 1)]


class _Orders(NamedTuple):
    """Orders of a seasonal ARIMA, and whether it has a constant or, differenced, a drift."""

    p: int
    d: int
    q: int
    P: int
    D: int
    Q: int
    drift: bool


class SARIMAX(Baseline):
    r"""Regression with seasonal ARIMA errors, its orders found by a small search.

    Differences are chosen first: a seasonal one where the season's strength exceeds 0.64, then
    plain ones, two at most, while the KPSS test rejects stationarity at 5 %. The orders follow by
    stepwise descent of the corrected Akaike criterion. The covariance is that of the fitted state
    space, so that missing values at the origin widen it:

    .. math:: \Sigma_{tu} = Z T^{u-t} P_t Z^\top, \quad u \ge t, \qquad
        P_{t+1} = T P_t T^\top + R Q R^\top

    Without them it is the :math:`\psi`-weights' of the ARIMA.

    Parameters
    ----------
    seasonal_period : int, optional
        Observations in a season; 1 for none. None takes the shortest that the frequency of the
        index suggests and that fits into the series twice. A season longer than 12 enters as
        Fourier terms: a state space of 24 lags took 4 s a fit of 700 values.
    max_order : int, default=2
        Largest order of the two plain polynomials; more finds longer memories, at a cost.
    max_seasonal_order : int, default=1
        Largest order of the two seasonal ones.

    Attributes
    ----------
    order_ : tuple of int
        (p, d, q).
    seasonal_order_ : tuple of int
        (P, D, Q, m).
    drift_ : bool
        Whether a constant (undifferenced) or a linear trend (differenced once) is in the model.
    n_harmonics_ : int
        Number of Fourier pairs.
    noise_std_ : float
        Standard deviation of a one-step error, in units of y.
    converged_ : bool
        Whether the likelihood of the model chosen reached its maximum.

    Notes
    -----
    Candidates are compared on the differenced series, which is quicker; the one chosen is fitted
    again to the undifferenced one, where missing values cost nothing but themselves. What
    statsmodels warns of is recorded in ``converged_``.

    References
    ----------
    R. J. Hyndman, Y. Khandakar, "Automatic time series forecasting: the forecast package for R",
    Journal of Statistical Software 27 (2008), https://doi.org/10.18637/jss.v027.i03

    Examples
    --------
    >>> from forecast_unc import baselines, datasets
    >>> baselines.SARIMAX().fit(datasets.load_nile()).order_
    (1, 1, 1)
    """

    takes_exog: ClassVar[bool] = True
    _takes_missing: ClassVar[bool] = True

    def __init__(
        self,
        seasonal_period: int | None = None,
        *,
        max_order: int = 2,
        max_seasonal_order: int = 1,
    ) -> None:
        self.seasonal_period = seasonal_period
        self.max_order = max_order
        self.max_seasonal_order = max_seasonal_order

    def _least(self) -> int:
        (p, d, q), (P, D, Q, m) = self.order_, self.seasonal_order_
        return d + D * m + max(p + P * m, q + Q * m) + 1

    def _learn(self, values: Array, exog: Array) -> float:
        check_whole("max_order", self.max_order, 0, "2 is enough for most series.")
        check_whole("max_seasonal_order", self.max_seasonal_order, 0, "1 is enough for most.")
        self._center, self._unit = float(np.nanmean(values)), float(np.nanstd(values))
        self._exog_center, self._exog_unit = exog.mean(axis=0), exog.std(axis=0)
        flat = ~(self._exog_unit > 1e-12 * np.abs(exog).max(axis=0, initial=0.0))
        if flat.any():
            got = f"column {self.exog_columns_[int(flat.argmax())]!r} constant"
            remedy = "Leave it out: the model has a constant of its own."
            raise refusal("exog", "vary", got, remedy)
        z, period = (values - self._center) / self._unit, self.seasonal_period_
        self._m = m = period if 1 < period <= _LONGEST_STATE else 0
        with quiet():
            self.n_harmonics_ = 0 if m or period == 1 else self._harmonics(z, exog)
            rest = _residuals(z, self._design(0, exog))
            D = int(m > 0 and len(z) >= 3 * m and _seasonal_strength(rest, m) > 0.64)
            d = _unit_roots(rest[m:] - rest[:-m] if D else rest)
            self._orders, start = self._search(z, exog, d, D)
            model = self._model(z, 0, exog, self._orders)
            fit = model.fit(start, disp=False, maxiter=100, cov_type="none")
        p, d, q, P, D, Q, self.drift_ = self._orders
        self.order_, self.seasonal_order_ = (p, d, q), (P, D, Q, m)
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
            criteria.append(aicc(-0.5 * n * np.log(np.nanmean(rest**2)), X.shape[1] + 2, n))
        return int(np.argmin(criteria))

    def _design(self, start: int, exog: Array, orders: _Orders | None = None) -> Array:
        """Constant or trend, season and regressors from a time counted from the fit, (n, k)."""
        times = start + np.arange(len(exog))
        columns = []
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
            order=(orders.p, orders.d, orders.q),
            seasonal_order=(orders.P, orders.D, orders.Q, self._m),
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
                    value = aicc(fit.llf, len(params), n)
                    fits[orders] = value if np.isfinite(value) else np.inf, params
                except (ValueError, np.linalg.LinAlgError):  # no start, or more lags than values
                    fits[orders] = np.inf, np.empty(0)
            return fits[orders][0]

        top, most = self.max_order, self.max_seasonal_order if self._m else 0
        drift = d + D < 2
        starts = [
            _Orders(p, d, q, min(P, most), D, min(Q, most), drift)
            for p, q, P, Q in ((0, 0, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (2, 2, 1, 1))
            if max(p, q) <= top
        ]
        best, moved = min(starts, key=criterion), True
        while moved:
            moved = False
            for orders in _neighbors(best, top, most):
                if criterion(orders) < criterion(best):
                    best, moved = orders, True
                    break
        if not np.isfinite(criterion(best)):
            got = f"{len(z)}, with which none could be fitted"
            remedy = "Give more data, fewer regressors or a shorter seasonal_period."
            raise refusal("y", "have enough values for an ARIMA", got, remedy)
        return best, fits[best][1]

    def _joint(self, steps: int, exog: Array) -> tuple[Array, Array]:
        start = self._offset
        z = (self._values - self._center) / self._unit
        with quiet():
            model = self._model(z, start, self._exog, self._orders)
            state = model.filter(self._params, return_ssm=True)
        T, Z, R = (part[:, :, 0] for part in (state.transition, state.design, state.selection))
        shocks = R @ state.state_cov[:, :, 0] @ R.T
        P = state.predicted_state_cov[:, :, -1]
        rows = np.empty((steps, T.shape[0]))  # Z T^j
        rows[0] = Z[0]
        for j in range(1, steps):
            rows[j] = rows[j - 1] @ T
        cov = np.empty((steps, steps))
        for t in range(steps):
            cov[t, t:] = cov[t:, t] = rows[: steps - t] @ (P @ Z[0])
            P = T @ P @ T.T + shocks
        X = self._design(start + len(z), exog, self._orders)
        mean = rows @ state.predicted_state[:, -1] + X @ self._params[: X.shape[1]]
        return self._center + self._unit * mean, self._unit**2 * cov


def _residuals(z: Array, X: Array) -> Array:
    """What a regression with a constant leaves over, (n,); missing values stay so."""
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
    rest = np.nanvar(detrended - season[phases]) / np.nanvar(detrended)
    return float(1 - rest)


def _unit_roots(z: Array) -> int:
    """Number of differences, at most two, until the KPSS test takes the series for stationary."""
    from statsmodels.tsa.stattools import kpss

    z = z[np.isfinite(z)]
    for d in (0, 1):
        # the number of lags of R's ndiffs
        if not kpss(np.diff(z, d), nlags=int(3 * np.sqrt(len(z)) / 13))[1] < 0.05:
            return d
    return 2


def _neighbors(orders: _Orders, top: int, most: int) -> Iterator[_Orders]:
    """Candidates one move away: an order, both of a pair, or the drift."""
    p, d, q, P, D, Q, drift = orders
    for dp, dq, dP, dQ in _MOVES:
        new = _Orders(p + dp, d, q + dq, P + dP, D, Q + dQ, drift)
        inside = max(new.p, new.q) <= top and max(new.P, new.Q) <= most
        if inside and min(new.p, new.q, new.P, new.Q) >= 0:
            yield new
    if d + D < 2:
        yield orders._replace(drift=not drift)
