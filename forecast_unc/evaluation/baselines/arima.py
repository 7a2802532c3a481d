"""Regression with seasonal ARIMA errors."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np

from forecast_unc._checks import check_whole, refusal
from forecast_unc._typing import Array
from forecast_unc.evaluation.baselines.baseline import Baseline, accumulated, aicc, quiet

# One down and up: Q, P, both, p, q, both, the drift.
_UNITS = ((5,), (3,), (3, 5), (0,), (2,), (0, 2), (6,))
_MOVES = [sign * np.isin(range(7), unit) for unit in _UNITS for sign in (-1, 1)]


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
class SARIMAX(Baseline):
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
        remedy = "1 is enough for most."
        self._most = check_whole("max_order", self.max_order, 0, "2 is enough for most series.")
        self._most_seasonal = check_whole("max_seasonal_order", self.max_seasonal_order, 0, remedy)
        self._center, self._unit = float(np.nanmean(values)), float(np.nanstd(values))
        self._exog_center, self._exog_unit = exog.mean(axis=0), exog.std(axis=0)
        flat = ~(self._exog_unit > 1e-12 * np.abs(exog).max(axis=0, initial=0.0))
        if flat.any():
            got = f"column {self.exog_columns_[int(flat.argmax())]!r} constant"
            raise refusal("exog", "vary", got, "Leave it out: the model has a constant of its own.")
        z, period = (values - self._center) / self._unit, self.seasonal_period_
        self._m = m = period if 1 < period <= 12 else 0  # of longer seasons Fourier terms
        with quiet():
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
            criteria.append(aicc(-0.5 * n * np.log(np.nanmean(rest**2)), X.shape[1] + 2, n))
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
                    value = aicc(fit.llf, len(params), n)
                    fits[orders] = value if np.isfinite(value) else np.inf, params
                except (ValueError, np.linalg.LinAlgError):  # no start, or more lags than values
                    fits[orders] = np.inf, np.empty(0)
            return fits[orders][0]

        top, most = self._most, self._most_seasonal if self._m else 0
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
        z = (self.history_.y - self._center) / self._unit
        with quiet():
            model = self._model(z, self._offset, self.history_.exog, self._orders)
            state = model.filter(self._params, return_ssm=True)
        T, Z, R = (part[:, :, 0] for part in (state.transition, state.design, state.selection))
        # Z T^j, (h, k)
        rows = np.array(list(accumulate(range(1, steps), lambda row, _: row @ T, initial=Z[0])))
        weights = np.concatenate([[0.0], (rows @ R[:, 0])[:-1]])  # the first step has P alone
        cov = rows @ state.predicted_state_cov[:, :, -1] @ rows.T
        cov += accumulated(weights, state.state_cov[0, 0, 0])
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
