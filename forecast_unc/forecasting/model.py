"""One specification fitted on one history: what forecasts are made by. Immutable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from forecast_unc._random import RandomState, one_seed
from forecast_unc._threads import blas_threads
from forecast_unc._typing import Array
from forecast_unc.distributions.diverged import Diverged
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.differencing import Differencing
from forecast_unc.forecasting.embedding import complete_rows, interpolated, lag_embedding
from forecast_unc.forecasting.explosive import Training, bounded
from forecast_unc.forecasting.noises import NoiseChoice, NoisyRows
from forecast_unc.forecasting.propagation import Joint, propagate
from forecast_unc.forecasting.recursion import (
    Future,
    LevelMap,
    Method,
    OneStepModel,
    Past,
    Propagation,
)
from forecast_unc.forecasting.sampling import sample_paths
from forecast_unc.forecasting.specification import MIN_ROWS, Specification, check_length
from forecast_unc.regression.regressor import KernelRegressor
from forecast_unc.series.calendar import calendar_inputs
from forecast_unc.series.history import Ahead, History

# Levels whose range or changes are a smaller share of their size are all the same.
_ROUNDOFF = 1e-12
# Least paths of the check that "auto" goes by.
_CHECK_SAMPLES = 500


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A specification fitted on a history, at the end of that history or of another.

    Parameters
    ----------
    specification : Specification
        What was fitted.
    history : History
        Where forecasts start: the series up to the origin.
    transform : PowerTransform
        The nonlinear transform from values to levels.
    differencing : Differencing
        Differences, shift and scale from levels to what the regressor sees.
    regressor : KernelRegressor
        The fitted one-step model.
    n_rows : int
        Rows that its posterior rests on.
    past : Past
        The history on the scale of the levels.
    one_step : OneStepModel
        The posterior, of levels with the prior mean. Kept, as it caches what exact moments need: to
        make it anew cost O(n^3) a forecast.
    noise : NoiseChoice
        Which kinds of noise it has.
    """

    specification: Specification
    history: History
    transform: PowerTransform
    differencing: Differencing
    regressor: KernelRegressor
    n_rows: int
    past: Past
    one_step: OneStepModel
    noise: NoiseChoice

    @classmethod
    def fit(
        cls, specification: Specification, history: History, earlier: Self | None = None
    ) -> Self:
        """Learn the one-step model of a specification from a history.

        Parameters
        ----------
        specification : Specification
            Its regressor is cloned.
        history : History
            The series.
        earlier : FittedModel, optional
            One whose hyper-parameters the search starts from.

        Returns
        -------
        FittedModel
            Its specification has another linear part than the one given, and says so, if that
            would run away; see `explosive.bounded`.

        Raises
        ------
        ValueError
            If the series is too short, does not vary or cannot be transformed.
        """
        transform, past, differencing = _standardized(specification, history)
        rows = _noisy_rows(specification, differencing, past)
        regressor = clone(specification.regressor)
        if earlier is not None:
            regressor = regressor.starting_from(earlier.regressor)
        regressor, noise = rows.learn(regressor, specification.noise)
        if specification.noise == "process":
            regressor, why = bounded(regressor, _training(specification, differencing, past, rows))
            if why:
                specification = replace(
                    specification, regressor=clone(regressor), why=f"{specification.why}; {why}"
                )
        one_step = _one_step(specification, differencing, regressor)
        n_rows = len(rows.y)
        return cls(
            specification,
            history,
            transform,
            differencing,
            regressor,
            n_rows,
            past,
            one_step,
            noise,
        )

    def extend(self, history: History) -> Self:
        """The same hyper-parameters with the posterior of a longer history.

        Parameters
        ----------
        history : History
            This model's and what followed.

        Returns
        -------
        FittedModel
            A new one.

        Raises
        ------
        ValueError
            If the values that came cannot be transformed or learned from.
        """
        moved = self._with_history(history)
        rows = _noisy_rows(self.specification, self.differencing, moved.past)
        regressor = rows.condition(self.regressor)
        one_step = _one_step(self.specification, self.differencing, regressor)
        return replace(moved, regressor=regressor, n_rows=len(rows.y), one_step=one_step)

    def at(self, history: History) -> Self:
        """The same model at the end of another history, with nothing learned.

        Parameters
        ----------
        history : History
            Of the same kind of series.

        Returns
        -------
        FittedModel
            A new one, which shares the posterior.

        Raises
        ------
        ValueError
            If the series is too short for a step, or cannot be transformed.
        """
        moved = self._with_history(history)
        spec, n = self.specification, len(history.y)
        if n < spec.depth:
            raise ValueError(
                f"y must have at least {spec.depth} values for lags up to {max(spec.lags)} and "
                f"differences {spec.differences}; got {n}. Give more history."
            )
        past = moved.past._replace(learned=self._learned_from(history))
        return replace(moved, past=past)

    def forecast(self, ahead: Ahead, method: Method | None = None) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        ahead : Ahead
            The steps and their regressors, of `History.future`.
        method : Method, optional
            How uncertainty is propagated; by default exactly, or if the regressor has no closed
            form by "taylor". "auto" takes that default, "mixture" or "monte_carlo", whichever
            the check of the default says; the forecast says which.

        Returns
        -------
        Forecast

        Raises
        ------
        Diverged
            If the forecast diverges, with the step at which it does.
        """
        closed = Method("exact" if self.regressor.posterior_.closed_form else "taylor")
        if method is None:
            method = closed
        elif method.propagation == "auto":
            return self._by_check(ahead, method, closed)
        future = self.future(ahead)
        with blas_threads(self.n_rows):
            joint = propagate(self.one_step, self.past, future, method)
        return forecast_of(self, ahead, joint, method.propagation)

    def future(self, ahead: Ahead) -> Future:
        """Regressors and inputs from the calendar of the steps."""
        inputs = _inputs(self.specification, ahead.exog, ahead.index)
        return Future(inputs, ahead.exog_cov)

    def _by_check(self, ahead: Ahead, method: Method, closed: Method) -> Forecast:
        """The closed form's forecast if its check is silent, or by what its verdict says."""
        seed = one_seed(method.random_state)
        forecast = self.forecast(ahead, closed)
        verdict = forecast.check(max(method.n_samples, _CHECK_SAMPLES), seed).verdict
        if verdict == forecast.propagation:
            return forecast
        kind: Propagation = "mixture" if verdict == "mixture" else "monte_carlo"
        return self.forecast(ahead, method._replace(propagation=kind, random_state=seed))

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y, each of one function."""
        future = self.future(ahead)
        method = Method("monte_carlo", True, n_samples, random_state)
        with blas_threads(self.n_rows):
            paths = sample_paths(self.one_step, self.past, future, method)
        return self.transform.inverse(paths)

    def __str__(self) -> str:
        last = "last " if self.n_rows == self.specification.max_train else ""
        power = self.transform.power if self.specification.transform == "boxcox" else None
        return f"{self.specification.described(power)}, {last}{self.n_rows} rows"

    @property
    def unit(self) -> float:
        """Units of y in one of the stds of the regressor, at the median of the series."""
        return self.differencing.scale * slope_at_median(self.transform, self.past.levels)

    @property
    def depth(self) -> int:
        """Values that a step looks back."""
        return self.one_step.depth

    @property
    def starts_known(self) -> bool:
        """Whether the values that the next step looks back at were observed without error."""
        last = slice(len(self.past.levels) - self.one_step.depth, None)
        return not (np.isnan(self.past.levels[last]).any() or self.past.stds[last].any())

    def from_known(self) -> Self:
        """The same model with missing values interpolated, and all taken for exact."""
        past = self.past._replace(
            levels=interpolated(self.past.levels), stds=np.zeros_like(self.past.stds)
        )
        return replace(self, past=past)

    def training_rows(self) -> tuple[NDArray[np.intp], Array, Array]:
        """Times (n,) of the targets, inputs (n, d) and targets (n,) that this has learned from.

        They are those of its own history: not after :meth:`at`.
        """
        return _rows(self.specification, self.differencing, self.past)

    def noisy_rows(self) -> NoisyRows:
        """The rows that this has learned from, with the errors that they share."""
        return _noisy_rows(self.specification, self.differencing, self.past)

    def learned(self) -> dict[str, Any]:
        """What the regressor learned: its noise, evidence and search, where it has them."""
        names = (
            "noise_std_",
            "observation_std_",
            "log_evidence_",
            "n_iter_",
            "converged_",
            "nodes_",
        )
        found = ((name, getattr(self.regressor, name, None)) for name in names)
        return {name: value for name, value in found if value is not None}

    def _learned_from(self, history: History) -> NDArray[np.bool_]:
        """Which values of a history the posterior has learned from."""
        places = self.history.index.get_indexer(history.index)
        same: NDArray[np.bool_] = (places >= 0) & (self.history.y[places] == history.y)
        return same if self.past.learned is None else same & self.past.learned[places]

    def _with_history(self, history: History) -> Self:
        """The same model before another history, whose values are checked."""
        self.transform.check(history.y, history.time)
        past = _past(self.specification, self.transform, history)
        return replace(self, history=history, past=past)


class Sampled(Protocol):
    """A model that sample paths can be drawn of."""

    @property
    def history(self) -> History:
        """The series up to the origin."""
        ...

    @property
    def transform(self) -> PowerTransform:
        """The nonlinear transform from values to levels."""
        ...

    def sample_paths(self, ahead: Ahead, n_samples: int, random_state: RandomState) -> Array:
        """Sample paths (n_samples, h) in units of y."""
        ...


@dataclass(frozen=True, eq=False)
class ModelPaths:
    """Sample paths of a fitted model: what its forecasts are checked against.

    Parameters
    ----------
    model : Sampled
        The model.
    ahead : Ahead
        The steps and their regressors.
    """

    model: Sampled
    ahead: Ahead

    def __call__(self, n_samples: int, random_state: RandomState) -> Array:
        """Paths (n_samples, h); see `FittedModel.sample_paths`."""
        return self.model.sample_paths(self.ahead, n_samples, random_state)


def forecast_of(model: Sampled, ahead: Ahead, joint: Joint, propagation: str) -> Forecast:
    """The forecast of a model whose levels have this joint distribution.

    Parameters
    ----------
    model : Sampled
        Where it starts.
    ahead : Ahead
        The steps.
    joint : Joint
        Of the levels.
    propagation : str
        How it was made.

    Returns
    -------
    Forecast

    Raises
    ------
    Diverged
        If it is beyond a float in units of the series.
    """
    forecast = Forecast(
        ahead.index,
        joint.mean,
        joint.cov,
        parts=joint.parts,
        name=model.history.name,
        transform=None if model.transform.power is None else model.transform,
        paths=None if joint.paths is None else _in_units(joint.paths, model.transform),
        mixture=joint.mixture,
    )
    return forecast._made(propagation, ModelPaths(model, ahead), str(model))


def _in_units(levels: Array, transform: PowerTransform) -> Array:
    """Sample paths (h, n) in units of y; an error if one is beyond a float."""
    paths = transform.inverse(levels)
    wrong = ~np.isfinite(paths).all(axis=1)
    if wrong.any():
        step = int(wrong.argmax()) + 1
        raise Diverged(
            f"paths must be finite in units of y; got inf at step {step}. The transformed "
            "forecast diverges: ask for fewer steps, or use no transform.",
            step=step,
        )
    return paths


def _standardized(
    specification: Specification, history: History
) -> tuple[PowerTransform, Past, Differencing]:
    """The transform of a history, its levels, and their standardized differences."""
    _check_rows(specification, history)
    transform = fitted_transform(specification.transform, specification.origin, history)
    past = _past(specification, transform, history)
    differencing = Differencing.fit(past.levels, specification.differences)
    if differencing.scale <= _ROUNDOFF * np.nanmax(np.abs(past.levels)):
        raise ValueError(
            "differences must leave some variation; got a constant series after differencing "
            f"at lags {specification.differences}. Take fewer differences."
        )
    if not specification.centered:
        differencing = replace(differencing, shift=0.0)
    return transform, past, differencing


def _one_step(
    specification: Specification, differencing: Differencing, regressor: KernelRegressor
) -> OneStepModel:
    """The one-step model of a fitted regressor; an error if it cannot have the prior mean."""
    posterior = regressor.posterior_
    if specification.anchor is not None:
        posterior = posterior.plus_input(specification.anchor)
    return OneStepModel(posterior, specification.lags, differencing)


def _check_rows(specification: Specification, history: History) -> None:
    """Raise unless a history leaves rows to learn from, and not too many."""
    lags, differences = specification.lags, specification.differences
    check_length(len(history.y), max(lags), differences)
    complete = complete_rows(history.y, lags, differences)
    n_complete = int(complete.sum())
    if n_complete < MIN_ROWS:
        raise ValueError(
            f"y must leave at least {MIN_ROWS} complete training rows for lags up to "
            f"{max(lags)} and differences {differences}; got {n_complete} of "
            f"{len(complete)}, the others touch missing values. Use fewer lags, or some that "
            "miss the gaps, such as (2, 4) if every other value is missing."
        )
    most = specification.regressor.most_rows
    other = ", or ReducedRankGPRegressor()" if specification.noise == "process" else ""
    if specification.max_train is None and most is not None and n_complete > most:
        raise ValueError(
            f"max_train must be given for more than {most} training rows; got {n_complete}, of "
            f"which {type(specification.regressor).__name__} would keep matrices of "
            f"{8e-9 * n_complete**2:.2g} GB, at a time that grows with their cube. Pass "
            f"max_train={most} or fewer to learn from the last rows{other}."
        )


def fitted_transform(kind: str | None, origin: float, history: History) -> PowerTransform:
    """The nonlinear transform of a history, checked.

    Parameters
    ----------
    kind : {None, "log", "sqrt", "boxcox"}
        Which.
    origin : float
        What values are measured from.
    history : History
        The series.

    Returns
    -------
    PowerTransform

    Raises
    ------
    ValueError
        If a value cannot be transformed.
    """
    powers = {None: None, "log": 0.0, "sqrt": 0.5, "boxcox": 1.0}
    transform = PowerTransform(powers[kind], origin)
    transform.check(history.y, history.time)
    if kind == "boxcox":
        transform = PowerTransform.fit(history.y, origin)
    levels = transform.forward(history.y)
    size, least = np.nanmax(np.abs(levels)), np.nanmin(levels)
    if transform.power and np.nanmax(levels) - least <= _ROUNDOFF * size:
        raise ValueError(
            f"y must be larger for a {kind} transform, after which all its values are the same to "
            f"12 digits; got {np.nanmax(history.y):g} at most. Multiply the series by a constant."
        )
    return transform


def slope_at_median(transform: PowerTransform, levels: Array) -> float:
    """Slope of the series in its levels where it is at its median."""
    return float(transform.slope(np.nanmedian(levels)))


def _past(specification: Specification, transform: PowerTransform, history: History) -> Past:
    """A history on the scale of the levels, with the inputs from the calendar.

    A std s becomes g(y + s) - g(y): s g'(y) while s is small, and finite where y is near 0.
    """
    values, stds = history.y, history.stds
    levels = transform.forward(values)
    if transform.power is not None and stds.any():
        stds = np.where(np.isnan(levels), stds, transform.forward(values + stds) - levels)
    return Past(levels, stds, _inputs(specification, history.exog, history.index))


def _inputs(specification: Specification, exog: Array, index: pd.Index[Any]) -> Array:
    """Regressors and inputs from the calendar, (len(index), k)."""
    calendar = calendar_inputs(index, specification.calendar, specification.periods)
    return np.hstack([exog, calendar])


def _noisy_rows(specification: Specification, differencing: Differencing, past: Past) -> NoisyRows:
    """Training rows with the errors that they share."""
    times, X, target = _rows(specification, differencing, past)
    maps, stds = LevelMap(specification.lags, differencing), past.stds / differencing.scale
    return NoisyRows(X, target, times, maps, specification.anchor, stds)


def _rows(
    specification: Specification, differencing: Differencing, past: Past
) -> tuple[NDArray[np.intp], Array, Array]:
    """Times of the targets, training rows and targets: the last complete ones."""
    z = differencing.forward(past.levels)
    X, target = lag_embedding(z, specification.lags, past.exog[len(past.levels) - len(z) :])
    rows = np.flatnonzero(~(np.isnan(X).any(axis=1) | np.isnan(target)))
    if specification.max_train:
        rows = rows[-specification.max_train :]
    X, target = X[rows], target[rows]
    anchor = specification.anchor
    times = len(past.levels) - len(z) + max(specification.lags) + rows
    return times, X, target if anchor is None else target - X[:, anchor]


def _training(
    specification: Specification, differencing: Differencing, past: Past, rows: NoisyRows
) -> Training:
    """The training rows and the changes that they are made of."""
    first = rows.times[0] - max(specification.lags)
    changes = differencing.forward(past.levels)[first - len(past.levels) :]
    exog = past.exog[first:]
    return Training(rows.X, rows.y, changes, exog, specification.lags, specification.anchor)
