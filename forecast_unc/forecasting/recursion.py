"""One step of the recursion: the next level, jointly Gaussian with what it comes from.

The way to the origin (`filtering`) and the horizon (`propagation`) are made of such steps.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from forecast_unc._typing import Array
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.function_error import FunctionError
from forecast_unc.regression.posterior import Posterior, check_positive_variance

# Mean or std beyond this many times the largest change of the history is no forecast.
_DIVERGED = 1e6


class LevelMap:
    """The sparse linear maps between levels, inputs and changes.

    With c the coefficients of the difference polynomial, c_0 = 1, the lagged inputs and the
    next level are

        x_tj = (sum_i c_i y_(t - lag_j - i) - shift) / scale,
        y_t = scale f(x_t) + shift - sum_(i > 0) c_i y_(t - i).

    Covariances are kept in units of scale^2, where the coefficients are those of c.
    """

    def __init__(self, lags: tuple[int, ...], transform: Differencing) -> None:
        back, coefficients = transform.terms()
        self.depth = int(max(lags) + back[-1])  # levels that one step looks back
        self.lagged = np.add.outer(np.array(lags), back).ravel()  # (l q,), steps back
        self.combine: Array = block_diag(*[coefficients] * len(lags))  # (l, l q)
        self.own, self.carried = back[1:], coefficients[1:]  # (q - 1,)


class Recursion:
    """Moment matching step by step.

    Parameters
    ----------
    posterior : Posterior
        One-step model of the standardized change.
    maps : LevelMap
        What its inputs and the next level are made of.
    method : {"exact", "taylor"}
        Moments under an uncertain input.
    changes : ndarray
        Standardized changes of the history, NaN where missing; what is far beyond the largest
        has diverged.
    function : FunctionError, optional
        What the steps' errors of the function have in common, if it is one and the same.
    uncertain : int, default=0
        Number of regressors that are coordinates, the first ones.
    """

    def __init__(
        self,
        posterior: Posterior,
        maps: LevelMap,
        method: Literal["exact", "taylor"],
        changes: Array,
        function: FunctionError | None,
        uncertain: int = 0,
    ) -> None:
        self.posterior = posterior
        self.maps = maps
        self.method = method
        self.moments = posterior.moments if method == "exact" else posterior.taylor_moments
        # standardized: 1 is a usual change, if the last ones happen to be smaller
        self.limit = float(np.abs(changes[~np.isnan(changes)]).max(initial=1.0))
        self.function = function
        self.combine: Array = block_diag(maps.combine, np.eye(uncertain))

    def step(
        self,
        cov: Array,
        n: int,
        x: Array,
        at: NDArray[np.intp],
        levels: NDArray[np.intp],
        where: str,
        learned_from: bool = False,
    ) -> float:
        """Enter the next level as a coordinate, and return its standardized change's mean.

        Parameters
        ----------
        cov : ndarray
            Joint covariance of the coordinates; row and column n are filled in place.
        n : int
            Number of coordinates so far.
        x : ndarray of shape (d,)
            Mean input.
        at : ndarray of shape (q,)
            Coordinates that the first inputs are linear in; the other inputs are known.
        levels : ndarray of shape (m,)
            Coordinates of the last m >= p levels.
        where : str
            Where this is, for errors.
        learned_from : bool, default=False
            As for `FunctionError.next_step`.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If the forecast has diverged, or a variance is not positive.
        """
        maps, before = self.maps, cov[:n, :n]
        input_cov = self._input_cov(len(x), at, before)
        mean, var, slope = self.moments(x, input_cov)
        slope, added = _explainable(slope, input_cov, var - self.posterior.noise_var)
        weights = slope[: len(self.combine)] @ self.combine
        # Stein: Cov(z, y) = Cov(z, x) E[dy/dx], so no inverse of a singular Cov(x).
        cross = weights @ before[at]
        if self.function is not None:
            now = self.function.depth + self.function.step
            error = self.function.next_step(
                x,
                now - np.append(maps.lagged, maps.own),
                np.append(weights[: len(maps.lagged)], -maps.carried),
                added,
                learned_from,
            )
            shared = np.zeros(n)
            shared[levels] = error.cross[-len(levels) :]
            shared[np.diagonal(before) == 0.0] = 0.0
            cross += shared
            mean += error.mean
            var += 2.0 * float(weights @ shared[at]) - error.learned
        if not abs(mean) + np.sqrt(abs(var)) < _DIVERGED * self.limit:
            raise ValueError(
                f"steps must not outrun the model; got a forecast that has diverged {where}. "
                "Ask for fewer steps, take differences, or use other lags."
            )
        check_positive_variance(np.array([var]), self.posterior, self.method, f" {where}")
        own = levels[len(levels) - maps.own]
        taken = maps.carried @ before[own]  # Cov(carried . levels, z), of y = change - that
        cov[n, :n] = cov[:n, n] = cross - taken
        cov[n, n] = var - 2.0 * maps.carried @ cross[own] + taken[own] @ maps.carried
        return mean

    def _input_cov(self, d: int, at: NDArray[np.intp], cov: Array) -> Array:
        """Covariance (d, d) of an input that is linear in coordinates."""
        r = len(self.combine)
        input_cov = np.zeros((d, d))
        input_cov[:r, :r] = self.combine @ cov[np.ix_(at, at)] @ self.combine.T
        # A change between two levels may be far surer than they are: below roundoff it is known.
        known = np.diagonal(input_cov)[:r] <= 1e-13 * (self.combine**2 @ cov[at, at])
        input_cov[:r][known] = 0.0
        input_cov[:, :r][:, known] = 0.0
        return input_cov


def _explainable(slope: Array, cov: Array, latent_var: float) -> tuple[Array, float]:
    """A slope that explains no more than the function's variance, and what it leaves of it.

    Var[f] >= slope' S slope holds for the exact moments, and makes the joint a covariance.
    It may fail by roundoff where there is next to no noise, and in earnest for Taylor's
    moments, which need not belong to any distribution: there the slope is shortened.
    """
    explained = float(slope @ cov @ slope)
    room = max(latent_var, 0.0)
    if explained > room:
        slope, explained = slope * np.sqrt(room / explained), room
    return slope, room - explained
