"""Priors for the specifications of a kind of series, learned from a panel of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from forecast_unc._typing import Array
from forecast_unc.regression.learned_prior import LearnedPrior

_FORMAT = "forecast_unc prior 1"


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
        """Write it to a file, as JSON, for :meth:`load`.

        Parameters
        ----------
        path : str or path
            File to write.
        """
        kinds = {kind: _plain(prior) for kind, prior in self.kinds.items()}
        stored = {"format": _FORMAT, "n_series": self.n_series, "kinds": kinds}
        Path(path).write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

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
            If the file is of another kind.
        """
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if stored["format"] != _FORMAT:
                raise ValueError(stored["format"])
            kinds = {str(kind): _prior(own) for kind, own in stored["kinds"].items()}
            return cls(kinds, int(stored["n_series"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"path must name a file written by PooledPrior.save; got {path}. Save it first."
            ) from error


def _numbers(values: Array) -> str:
    """Numbers as text, two decimals each."""
    return " ".join("-" if np.isnan(one) else f"{one:.2f}" for one in values)


def _plain(prior: LearnedPrior) -> dict[str, Any]:
    """A prior as JSON has it; NaN is null."""
    return {
        "base": prior.base,
        "weights": prior.weights.tolist(),
        "n_sets": prior.n_sets,
        "bias": prior.bias,
        **{
            name: None if values is None else [None if np.isnan(x) else float(x) for x in values]
            for name, values in (("median", prior.median), ("log_std", prior.log_std))
        },
    }


def _prior(stored: dict[str, Any]) -> LearnedPrior:
    """The prior from what JSON has."""
    weights, median, log_std = (
        None if stored[name] is None else np.array(stored[name], dtype=np.float64)
        for name in ("weights", "median", "log_std")
    )
    if stored["base"] not in ("weak", "shrunk") or weights is None or weights.ndim != 1:
        raise ValueError(stored["base"])
    bias = None
    if stored["bias"] is not None:
        mean, std = map(float, stored["bias"])
        bias = mean, std
    return LearnedPrior(stored["base"], weights, int(stored["n_sets"]), bias, median, log_std)
