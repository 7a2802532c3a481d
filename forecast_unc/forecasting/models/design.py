"""Training rows of levels, the errors that they share, and the kind of noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from forecast_unc._typing import Array, Positions
from forecast_unc.forecasting.choose.specification import Noise
from forecast_unc.forecasting.horizon.differencing import LevelMap
from forecast_unc.regression.errors_in_variables import ErrorKind, ErrorsInVariablesGP, SharedErrors
from forecast_unc.regression.estimator import KernelRegressor, LeadingMeans
from forecast_unc.regression.gp import GPRegressor

# "auto" leaves the noise of the process only for so many nats: half of what the evidence of a noise
# that is not there exceeds by chance in one of twenty series (chi^2 of one parameter), doubled,
# since the evidence is that of an expansion.
MARGIN = 4.0


@dataclass(frozen=True)
class NoiseChoice:
    """Kind of noise of a model, and the log evidence of each kind that was compared."""

    kind: str
    log_evidence: dict[str, float]

    def __str__(self) -> str:
        if len(self.log_evidence) < 2:
            return f"{self.kind}, as given"
        pairs = (f"{kind} {value:,.1f}" for kind, value in self.log_evidence.items())
        rule = f"process unless another has {MARGIN:g} more"
        return f"{self.kind}, by log evidence (nats): {', '.join(pairs)}; {rule}"


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Training rows, and the errors that they share: of a change sum_i c_i e_(t - i)."""

    X: Array  # (n, d)
    y: Array  # (n,)
    times: Positions  # (n,), of the targets
    maps: LevelMap
    anchor: int | None  # the lagged input that is taken off the target
    stds: Array  # of e by time, as far as they are known; in units of the scale
    noise: Array | None = None  # (n,), stds of the noise in units of the posterior's; None: all 1

    @cached_property
    def _touched(self) -> Positions:
        """Times of the observations that the rows are made of, (N,)."""
        return np.unique(self.times[:, None] - self.maps.touched)

    @cached_property
    def errors(self) -> SharedErrors:
        """The errors that the rows share."""
        maps = self.maps
        anchor = self.anchor
        times = self.times
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
            self.stds[self._touched] ** 2,
        )

    @property
    def _noise_given(self) -> dict[str, Any]:
        """What regressors that take the noise of rows are given of it."""
        return {} if self.noise is None else {"relative_noise": self.noise}

    def learn(
        self, regressor: KernelRegressor, noise: Noise
    ) -> tuple[KernelRegressor, NoiseChoice]:
        """A regressor fitted with the noise that is asked for, or that the evidence shows."""
        plain = regressor.fit(self.X, self.y, **self._noise_given)
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
        return regressor.condition(self.X, self.y, **self._noise_given)

    def leading(
        self, regressor: KernelRegressor, counts: Sequence[int]
    ) -> tuple[LeadingMeans, Array]:
        """Means given the first rows alone, and those of e by time, (k, n_levels), over scale."""
        errors = np.zeros((len(counts), len(self.stds)))
        if not isinstance(regressor, ErrorsInVariablesGP):
            return regressor.leading_means(self.X, self.y, counts, **self._noise_given), errors
        means, found = regressor.leading(self.X, self.y, self.errors, counts)
        errors[:, self._touched] = found
        return means, errors
