"""Two kinds of noise: what errors the rows of lagged values share, and which noise they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.forecasting.recursion import LevelMap
from forecast_unc.regression.errors_in_variables import (
    ErrorKind,
    ErrorsInVariablesGP,
)
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.regressor import KernelRegressor, LeadingMeans
from forecast_unc.regression.shared_errors import SharedErrors

Noise = Literal["process", "observation", "both", "auto"]
NOISES: tuple[str, ...] = get_args(Noise)

# "auto" leaves the noise of the process only for so many nats: half of what the evidence of a noise
# that is not there exceeds by chance in one of twenty series (chi^2 of one parameter), doubled,
# since the evidence is that of an expansion.
MARGIN = 4.0


@dataclass(frozen=True)
class NoiseChoice:
    """What noise a model has, and the log evidence of each kind that was compared."""

    kind: str
    log_evidence: dict[str, float]

    def __str__(self) -> str:
        if len(self.log_evidence) < 2:
            return f"{self.kind}: given"
        pairs = (f"{kind} {value:.1f}" for kind, value in self.log_evidence.items())
        return f"{self.kind}: log evidence {', '.join(pairs)}; process unless {MARGIN:g} less"


class NoisyRows:
    """Training rows of lagged values, and the errors that they share.

    The observation of time t is level_t + e_t. With c the coefficients of the difference
    polynomial, the error of a change is sum_i c_i e_(t - i), in units of the scale.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    y : ndarray of shape (n,)
        Targets.
    times : ndarray of int of shape (n,)
        Times of the targets.
    maps : LevelMap
        What inputs and changes are made of.
    anchor : int or None
        The lagged input that is taken off the target.
    stds : ndarray
        Known stds of e by time, in units of the scale.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        times: NDArray[np.intp],
        maps: LevelMap,
        anchor: int | None,
        stds: Array,
    ) -> None:
        self.X, self.y, self.times = X, y, times
        self._maps, self._anchor, self._stds = maps, anchor, stds

    @cached_property
    def _touched(self) -> NDArray[np.intp]:
        """Times of the observations that the rows are made of, (N,)."""
        back = np.concatenate([[0], self._maps.own, self._maps.lagged])
        return np.unique(self.times[:, None] - back)

    @cached_property
    def errors(self) -> SharedErrors:
        """The errors that the rows share."""
        maps, anchor, times = self._maps, self._anchor, self.times
        back, weights = np.append(0, maps.own), np.append(1.0, maps.carried)
        if anchor is not None:
            used = np.flatnonzero(maps.combine[anchor])
            back = np.append(back, maps.lagged[used])
            weights = np.append(weights, -maps.combine[anchor, used])
        targets, inputs = times[:, None] - back, times[:, None] - maps.lagged
        return SharedErrors(
            np.searchsorted(self._touched, targets),
            weights,
            np.searchsorted(self._touched, inputs),
            maps.combine,
            self._stds[self._touched] ** 2,
        )

    def learn(
        self, regressor: KernelRegressor, noise: Noise
    ) -> tuple[KernelRegressor, NoiseChoice]:
        """Fit a regressor with the noise that is asked for, or that the evidence shows.

        Parameters
        ----------
        regressor : KernelRegressor
            Not fitted; for another noise than that of the process a GPRegressor.
        noise : {"process", "observation", "both", "auto"}
            As of `Forecaster`.

        Returns
        -------
        regressor : KernelRegressor
            The same one, fitted, or with two kinds of noise.
        choice : NoiseChoice
        """
        plain = regressor.fit(self.X, self.y)
        if noise == "process" or not isinstance(plain, GPRegressor):
            return plain, NoiseChoice("process", {})
        kinds: tuple[ErrorKind, ...] = ("observation", "both") if noise == "auto" else (noise,)
        fits: dict[str, GPRegressor] = {
            kind: ErrorsInVariablesGP.learn(plain, self.X, self.y, self.errors, kind)
            for kind in kinds
        }
        best = max(fits, key=lambda kind: fits[kind].log_evidence_)
        if noise == "auto":
            fits = {"process": plain, **fits}
            if fits[best].log_evidence_ < plain.log_evidence_ + MARGIN:
                best = "process"
        evidences = {kind: fit.log_evidence_ for kind, fit in fits.items()}
        return fits[best], NoiseChoice(best, evidences)

    def condition(self, regressor: KernelRegressor) -> KernelRegressor:
        """A fitted regressor with the same hyper-parameters and these rows."""
        if isinstance(regressor, ErrorsInVariablesGP):
            return regressor.condition_errors(self.X, self.y, self.errors)
        return regressor.condition(self.X, self.y)

    def leading(
        self, regressor: KernelRegressor, counts: Sequence[int]
    ) -> tuple[LeadingMeans, Array]:
        """Predictive means and the errors' means by time, given the first rows alone.

        Parameters
        ----------
        regressor : KernelRegressor
            Fitted on these rows.
        counts : sequence of int
            How many of the first rows each mean rests on.

        Returns
        -------
        means : callable
            As of `KernelRegressor.leading_means`.
        errors : ndarray of shape (k, n_levels)
            In units of the scale; 0 without a noise of the observations.
        """
        errors = np.zeros((len(counts), len(self._stds)))
        if not isinstance(regressor, ErrorsInVariablesGP):
            return regressor.leading_means(self.X, self.y, counts), errors
        means, found = regressor.leading(self.X, self.y, self.errors, counts)
        errors[:, self._touched] = found
        return means, errors
