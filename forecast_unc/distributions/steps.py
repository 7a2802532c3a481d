"""The times and the joint distribution of steps: what a forecast is made of."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from forecast_unc._typing import Array
from forecast_unc.distributions.aggregation import score_correlations
from forecast_unc.distributions.check import Paths
from forecast_unc.distributions.checked import check_positive, check_symmetric, frozen
from forecast_unc.distributions.component import Component
from forecast_unc.distributions.diverged import Diverged
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.distributions.normal_mixture import NormalMixture
from forecast_unc.distributions.parts import (
    Deferred,
    check_parts,
    mapped_parts,
    stretched,
)
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.series.values import numeric_values

RANK_TOLERANCE = 1e-10
"""A negative eigenvalue of the correlations within this fraction of the largest is roundoff."""


class Steps:
    """Times and joint distribution of h steps, and how they came about."""

    __slots__ = (
        "_averaged",
        "_before",
        "_cor",
        "_cov",
        "_index",
        "_marginals",
        "_mean",
        "_mixture",
        "_model",
        "_name",
        "_parts",
        "_paths",
        "_propagation",
        "_sampler",
    )

    def __init__(
        self,
        index: pd.Index[Any],
        mean: ArrayLike,
        cov: ArrayLike,
        *,
        parts: Mapping[str, ArrayLike] | None = None,
        name: Any = None,
        transform: PowerTransform | None = None,
        paths: ArrayLike | None = None,
        mixture: NormalMixture | None = None,
    ) -> None:
        if not isinstance(index, pd.Index):
            raise TypeError(
                f"index must be a pandas Index; got {type(index).__name__}. "
                "Pass pd.RangeIndex(n) for n steps without a date."
            )
        h = len(index)
        if h == 0:
            raise ValueError("index must hold a time; got none. Forecast at least one step.")
        self._index = index.copy()
        later = np.asarray(index[1:] > index[:-1])
        if not later.all():
            at = int(later.argmin())
            raise ValueError(
                f"index must increase; got {self._label(at + 1)} after {self._label(at)}. "
                "Sort the times and drop repeated ones."
            )
        self._name = name
        center = frozen("mean", mean, (h,))
        spread = frozen("cov", cov, (h, h))
        check_positive(spread, self._label)
        std = np.sqrt(spread.diagonal())
        scale = np.outer(std, std)  # the product of variances can overflow
        check_symmetric("cov", spread, scale)
        checked: Mapping[str, Array] | None = None
        if parts is not None:
            checked = parts if isinstance(parts, Deferred) else check_parts(parts, scale)
        if transform is None:
            transform = PowerTransform()
        elif not isinstance(transform, PowerTransform):
            raise TypeError(
                f"transform must be a PowerTransform or None; got {transform!r}. "
                "For a logarithm pass PowerTransform(0.0)."
            )
        plain = transform.power is None
        scale_map, offset = PowerTransform(transform.power), np.full(h, transform.lower)
        component, cor = Component(np.ones(h), scale_map, center, std), spread / scale
        if mixture is not None:
            component = Component(component.weight, scale_map, *mixture.shape())
            cor = score_correlations(
                Marginals([replace(component, transform=PowerTransform())]), spread
            )
        marginals = Marginals([component], None if plain else offset)
        self._settle(marginals, cor, (center, spread) if plain else None)
        self._mixture = mixture if plain else None
        if checked is not None and not plain:
            # The same shares of the variance in units of y.
            stretch = np.outer(self._std / std, self._std / std)
            checked = Deferred(partial(stretched, checked, stretch))
        self._parts = checked
        if paths is not None:
            paths = frozen("paths", paths, (h, *np.shape(paths)[-1:]))
        self._paths: Array | None = paths
        self._made(None, None)

    def __len__(self) -> int:
        return len(self._mean)

    def __repr__(self) -> str:
        steps = f"{len(self)} step" + "s" * (len(self) > 1)
        return f"Forecast(name={self._name!r}, {self._label(0)} to {self._label(-1)}, {steps})"

    @property
    def index(self) -> pd.Index[Any]:
        """Times of the steps."""
        return self._index.copy()  # an Index is immutable, but for its name

    @property
    def name(self) -> Any:
        """Name of the series."""
        return self._name

    @property
    def propagation(self) -> str | tuple[str, ...] | None:
        """How uncertainty was propagated: of an average a tuple, one a member, if not all alike.

        None if the forecast was not made by a model of this package.
        """
        return self._propagation

    @property
    def model(self) -> str | None:
        """The model that made it, as text: that of ``models_`` of the forecaster.

        None of an average, or if no model of this package did; among the members of a `Combination`
        such a forecast has the name of its forecaster.
        """
        return self._model

    @property
    def mean(self) -> pd.Series[float]:
        """Mean of each step, in units of y: the point forecast."""
        return self._series(self._mean)

    @property
    def median(self) -> pd.Series[float]:
        """Median of each step, in units of y; of a normal distribution, its mean."""
        return self._series(self._quantile(np.zeros(1))[:, 0])

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step, in units of y."""
        return self._series(self._std)

    @property
    def var(self) -> pd.Series[float]:
        """Variance of each step, in squared units of y."""
        return self._series(self._cov.diagonal())

    @property
    def cov(self) -> pd.DataFrame:
        """Joint covariance, steps by steps, in squared units of y."""
        return pd.DataFrame(self._cov.copy(), index=self.index, columns=self.index)

    @property
    def paths(self) -> pd.DataFrame | None:
        """Sample paths of the model, steps by paths, in units of y; None if it drew none.

        A forecast by ``propagation="monte_carlo"`` has them.
        """
        return None if self._paths is None else pd.DataFrame(self._paths.copy(), index=self.index)

    def _made(
        self,
        propagation: str | tuple[str, ...] | None,
        paths: Paths | None,
        model: str | None = None,
    ) -> Self:
        """Note how it was made, before anyone else sees it."""
        self._propagation, self._sampler, self._model = propagation, paths, model
        self._averaged: tuple[tuple[Self, Array], ...] = ()
        self._before: Self | None = None
        return self

    def _named(self, model: str) -> Self:
        """It with the name of a model, if it has none."""
        if self._model is not None:
            return self
        named = copy.copy(self)
        named._model = model
        return named

    def _spread(self) -> tuple[Array, Array]:
        """Median and half the distance of the quantiles at z = -1 and 1, (h,); std if normal."""
        low, center, high = self._quantile(np.array([-1.0, 0.0, 1.0])).T
        return center, 0.5 * (high - low)

    @property
    def _std(self) -> Array:
        return np.sqrt(self._cov.diagonal())

    def _series(self, values: Array) -> pd.Series[float]:
        return pd.Series(values.copy(), index=self.index, name=self._name)

    def _quantile(self, z: Array) -> Array:
        """Quantiles (h, n) at n normal scores."""
        return self._marginals.quantile(z[None])

    def _label(self, position: int) -> str:
        return time_label(self._index, position)

    def _at_steps(self, name: str, given: pd.Series[float]) -> Array:
        """Values of a series at the steps, (h,)."""
        values = numeric_values(given, name)
        if not given.index.is_unique:
            first = given.index[given.index.duplicated()][0]
            raise ValueError(f"{name} must hold each time once; got {first} twice. Keep one value.")
        at = given.index.get_indexer(self._index)
        if (at < 0).any():
            raise ValueError(
                f"{name} must hold each of the forecast's times; got no "
                f"{self._label(int((at < 0).argmax()))}. Pass NaN for what was not observed."
            )
        return np.asarray(values[at])

    def _eigen(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the correlations, or an error if one is negative."""
        values, vectors = np.linalg.eigh(self._cor)
        if values[0] < -RANK_TOLERANCE * values[-1]:
            raise ValueError(
                f"cov must have no negative eigenvalue; got {values[0]:.3g} against a largest of "
                f"{values[-1]:.3g} (of the correlations), so no path can be drawn. "
                "Fewer steps, or more noise, condition it better."
            )
        return values, vectors

    @classmethod
    def _of(
        cls,
        index: pd.Index[Any],
        marginals: Marginals,
        cor: Array,
        name: Any,
        moments: tuple[Array, Array] | None = None,
    ) -> Self:
        """Forecast of given marginals and correlations of their normal scores, without parts."""
        forecast = cls.__new__(cls)
        forecast._index, forecast._name = index.copy(), name
        forecast._parts = forecast._paths = forecast._mixture = None
        forecast._settle(marginals, cor, moments)
        return forecast._made(None, None)

    def _settle(
        self, marginals: Marginals, cor: Array, moments: tuple[Array, Array] | None
    ) -> None:
        """Set the marginals of the steps and their moments, which may be known already."""
        self._marginals, self._cor = marginals, cor
        self._mean, self._cov = moments or (marginals.mean(), marginals.covariance(cor))
        # Up to the diagonal: a step is not to blame for the covariance with a later one.
        finite = np.isfinite(self._mean) & np.isfinite(np.tril(self._cov)).all(axis=1)
        fails = ~finite | (self._cov.diagonal() <= 0)
        if fails.any():
            at = int(fails.argmax())
            low, high = marginals.quantile(np.array([[-2.0, 2.0]]))[at]
            raise Diverged(
                f"cov must leave each step a positive, finite variance; got none at "
                f"{self._label(at)}, where 95 % of y lie from {low:.3g} to {high:.3g}. The "
                "transformed forecast has diverged, or is certain to be at its bound: ask for "
                "fewer steps, difference the transformed series, or use no transform or bound; if "
                "its values are this large, divide the series by a constant.",
                step=at + 1,
            )
        for array in (self._cor, self._mean, self._cov):
            array.setflags(write=False)

    def _mapped_parts(self, matrix: Array) -> Mapping[str, Array] | None:
        """Parts of ``matrix @ y``, if those of y are known."""
        return None if self._parts is None else Deferred(partial(mapped_parts, self._parts, matrix))

    def _mapped_paths(self, matrix: Array) -> Array | None:
        """Paths of ``matrix @ y``, if those of y are kept."""
        return None if self._paths is None else matrix @ self._paths


def time_label(index: pd.Index[Any], position: int) -> str:
    """The time of a step, for a message."""
    return str(index.astype(str)[position])
