"""Priors for the specifications of a kind of series, learned from a panel of them."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.forecasting.persistence.objects import load_object, save_object
from forecast_unc.forecasting.persistence.schema import Classes
from forecast_unc.regression.learned_prior import LearnedPrior


@dataclass(frozen=True, eq=False, repr=False)
class PooledPrior:
    """What many series say of the models of one of them; made by `learn_prior`.

    Parameters
    ----------
    kinds : dict of str to LearnedPrior
        By specification, as `choices_` describes it: lags, differences, transform, prior mean,
        calendar, and how many regressors.
    n_series : int
        Series that it was learned from: those that could be used.

    Examples
    --------
    >>> from forecast_unc import Forecaster, datasets, learn_prior
    >>> nile = datasets.load_nile()
    >>> prior = learn_prior([nile[i : i + 40] for i in range(30)], Forecaster(lags=1))
    >>> print(prior)  # doctest: +ELLIPSIS
    prior of 30 series
    lags 1, differences none, ...: 30 series, weights 0..., medians of l, a, tau, s ...
    """

    kinds: dict[str, LearnedPrior]
    n_series: int

    def __repr__(self) -> str:
        kinds = len(self.kinds)
        return f"PooledPrior({self.n_series} series, {kinds} specification{'s' * (kinds != 1)})"

    def __str__(self) -> str:
        lines = [f"prior of {self.n_series} series"]
        for kind, prior in self.kinds.items():
            parts = [f"{kind}: {prior.n_sets} series"]
            if prior.weights.any():
                parts.append(f"weights {_numbers(prior.weights)}")
            if prior.bias is not None:
                parts.append(f"drift {prior.bias[0]:.2f} +- {prior.bias[1]:.2f} stds")
            if prior.median is not None and prior.log_std is not None:
                parts.append(f"medians of l, a, tau, s {_numbers(np.exp(prior.median))}")
                parts.append(f"log-stds {_numbers(prior.log_std)}")
            lines.append(", ".join(parts))
        return "\n".join(lines)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a file, for :meth:`load`.

        Parameters
        ----------
        path : str or path
            File to write; see `Forecaster.save`.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        save_object(self, path, PRIOR_CLASSES)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read one that was saved; no code runs.

        Parameters
        ----------
        path : str or path
            A file written by :meth:`save`.

        Returns
        -------
        PooledPrior

        Raises
        ------
        ValueError
            If the file is of another kind, damaged, changed, or of a later format.
        OSError
            If there is none.
        """
        found: Self = load_object(path, PRIOR_CLASSES, (cls,), "PooledPrior.save")
        return found


PRIOR_CLASSES: Classes = {
    LearnedPrior: {"weights": "d", "median": "q", "log_std": "q"},
    PooledPrior: {},
}
"""What a file of `PooledPrior.save` may hold."""


def _numbers(values: Array) -> str:
    """Numbers as text, two decimals each."""
    return " ".join("-" if np.isnan(one) else f"{one:.2f}" for one in values)
