"""Rolling-origin backtest: what the forecasts would have been, and how good they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from tqdm.auto import tqdm

from forecast_unc.evaluation import plot
from forecast_unc.forecasting import scores
from forecast_unc.forecasting.forecaster import Forecaster
from forecast_unc.forecasting.propagation import PROPAGATIONS
from forecast_unc.forecasting.series import (
    check_aligned,
    check_is_series,
    format_time,
    regular_index,
)
from forecast_unc.regression.standardize import check_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The name of the backtested forecaster itself among those it is compared with.
OWN_NAME = "forecast_unc"


@dataclass(frozen=True)
class Backtest:
    """Forecasts from many origins beside what happened.

    Parameters
    ----------
    frame : DataFrame
        One row a model, origin and step: ``model``, ``origin`` (last observed time),
        ``step`` (from the origin, so that the first is 1 + gap), ``time``, ``actual``,
        ``mean``, ``std``, ``lower_95`` and ``upper_95`` for each coverage, ``crps``,
        ``nlpd``, ``pit``, ``scale`` (mean absolute seasonal difference of the training
        series, the unit of MASE and MSIS) and ``refit`` (whether the model was fitted at
        this origin).
    coverage : tuple of float
        Coverages of the intervals in `frame`.
    """

    frame: pd.DataFrame
    coverage: tuple[float, ...]

    def __repr__(self) -> str:
        models, n = self.frame["model"].unique(), self.frame["origin"].nunique()
        first, last = self.frame["step"].min(), self.frame["step"].max()
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        return f"Backtest({', '.join(map(str, models))}; {n} origin{'s' * (n > 1)}, {steps})"

    def scores(self, by: str | Sequence[str] = "model") -> pd.DataFrame:
        """Scores averaged over the rows of each group; lower is better but for coverage.

        Parameters
        ----------
        by : str or sequence of str, default="model"
            Columns of `frame` to group by: "model", "step", "origin", ["model", "step"].

        Returns
        -------
        DataFrame
            MAE, RMSE, CRPS (units of y), MASE, sMAPE (percent), NLPD (nats), MSIS (mean
            scaled interval score at the widest coverage), and ``coverage_95`` for each
            coverage, the share of values inside the interval. Steps whose value is
            missing are not scored; ``n`` counts those that are.
        """
        frame = self.frame
        error = frame["actual"] - frame["mean"]
        widest = max(self.coverage)
        lower, upper = (frame[f"{end}_{_percent(widest)}"] for end in ("lower", "upper"))
        rows = pd.DataFrame(
            {
                "MAE": error.abs(),
                "RMSE": error**2,
                "MASE": error.abs() / frame["scale"],
                "sMAPE": scores.smape(frame["actual"], frame["mean"]),
                "CRPS": frame["crps"],
                "NLPD": frame["nlpd"],
                "MSIS": scores.interval_score(frame["actual"], lower, upper, widest)
                / frame["scale"],
            },
            index=frame.index,
        )
        for level in self.coverage:
            lower, upper = (frame[f"{end}_{_percent(level)}"] for end in ("lower", "upper"))
            rows[f"coverage_{_percent(level)}"] = scores.coverage(frame["actual"], lower, upper)
        keys = [by] if isinstance(by, str) or not np.iterable(by) else list(by)
        unknown = [key for key in keys if key not in frame]
        if unknown or not keys:
            raise ValueError(
                "by must name columns of the backtest's frame; "
                f"got {repr(unknown[0]) if keys else 'none'}. "
                "Use 'model', 'step', 'origin' or several of them."
            )
        groups = rows.groupby([frame[key] for key in keys], sort=False)
        table = groups.mean()
        table["RMSE"] **= 0.5
        table["n"] = groups["MAE"].count()
        return table

    def plot_errors(self, score: str = "CRPS", ax: Axes | None = None) -> Axes:
        """Draw a score by step, one line a model; see `plot.scores_by_step`."""
        return plot.scores_by_step(self, score, ax=ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """Draw observed against nominal coverage; see `plot.calibration`."""
        return plot.calibration(self, ax=ax)

    def plot_pit(self, ax: Axes | None = None) -> Axes:
        """Draw histograms of the probability integral transform; see `plot.pit`."""
        return plot.pit(self, ax=ax)


def backtest(
    forecaster: Forecaster,
    y: pd.Series[float],
    steps: int,
    *,
    exog: pd.DataFrame | None = None,
    n_origins: int = 10,
    origins: Sequence[Any] | pd.Index[Any] | None = None,
    step: int | None = None,
    refit: bool | int = True,
    window: Literal["expanding", "rolling"] = "expanding",
    gap: int = 0,
    compare: Mapping[str, Forecaster | str] | None = None,
    seasonal_period: int = 1,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    n_jobs: int | None = None,
    progress: bool = False,
) -> Backtest:
    """Forecast from many origins of a series, each time with only what was known there.

    Parameters
    ----------
    forecaster : Forecaster
        Fitted anew, as a clone; it need not be fitted. Its rows are called
        ``forecast_unc``.
    y : Series
        The whole series; what lies after an origin is only used to score.
    steps : int
        Steps that are scored from every origin.
    exog : DataFrame, optional
        Regressors with the index of y; their values over the horizon are taken as known.
    n_origins : int, default=10
        Number of origins; the last is the latest that leaves `steps` values to score.
    origins : sequence of index labels, optional
        The origins themselves (last observed times), instead of `n_origins` and `step`.
    step : int, optional
        Observations between origins; by default `steps`, so that horizons do not overlap.
    refit : bool or int, default=True
        Fit at every origin (True), at the first alone (False), or at every k-th (int).
        Between fits the model is applied to the longer history: hyper-parameters, scale and
        posterior stay, and one factorization serves all origins.
    window : {"expanding", "rolling"}, default="expanding"
        Train on everything up to the origin, or on as many values as at the first origin.
    gap : int, default=0
        Steps after the origin that are forecast but not scored, for data that arrive late.
    compare : mapping of str to Forecaster or str, optional
        Further models by name, on the same folds: forecasters, or names of a propagation
        ("naive", "taylor", "monte_carlo", "exact") of the same fitted forecaster.
    seasonal_period : int, default=1
        Seasonal period m of the scale in MASE and MSIS.
    coverage : sequence of float, default=(0.5, 0.8, 0.95)
        Coverages of the intervals, in (0, 1).
    n_jobs : int, optional
        Parallel jobs, as in joblib; each runs BLAS on one thread.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    Backtest

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it must be, or the series is too short for the origins.

    Examples
    --------
    >>> from forecast_unc import Forecaster, backtest, datasets
    >>> model = Forecaster(lags=2)
    >>> nile = datasets.load_nile()
    >>> result = backtest(model, nile, steps=3, n_origins=4, compare={"naive": "naive"})
    >>> result.scores()["n"].to_dict()
    {'forecast_unc': 12, 'naive': 12}
    """
    check_whole("steps", steps, 1, "1 is the next value.")
    check_whole("gap", gap, 0, "0 scores the first step on.")
    if window not in ("expanding", "rolling"):
        raise ValueError(
            f"window must be 'expanding' or 'rolling'; got {window!r}. "
            "'rolling' forgets old values."
        )
    coverage = scores.check_coverages(coverage)
    if compare is not None and not isinstance(compare, Mapping):
        raise TypeError(
            f"compare must be a mapping of names to forecasters; got {type(compare).__name__}. "
            'Pass {"naive": "naive"}, for example.'
        )
    if n_jobs == 0 or not isinstance(n_jobs, int | np.integer | None):
        raise ValueError(
            f"n_jobs must be None or a whole number other than 0; got {n_jobs!r}. "
            "-1 takes all processors."
        )
    index = regular_index(check_is_series(y).index, "y")
    y = y.set_axis(index)  # with its frequency set: short slices need not infer it
    if exog is not None:
        check_aligned(exog, index, "y")
        exog = exog.set_axis(index)
    if origins is None:
        check_whole("n_origins", n_origins, 1, "10 is a good start.")
        check_whole("step", steps if step is None else step, 1, "By default it is steps.")
        positions = _spaced_origins(len(y), steps + gap, n_origins, steps if step is None else step)
    else:
        positions = _given_origins(index, origins, steps + gap)
    every = len(positions) if refit is False else 1 if refit is True else refit
    check_whole("refit", every, 1, "True fits at every origin, False at the first alone.")

    folds = [
        _Fold(position, position - positions[0] if window == "rolling" else 0, i % every == 0)
        for i, position in enumerate(positions)
    ]
    blocks = [folds[i : i + every] for i in range(0, len(folds), every)]
    threads = None if n_jobs is None or effective_n_jobs(n_jobs) == 1 else 1
    tasks = [
        delayed(_run_block)(
            model, names, block, y, exog, steps, gap, seasonal_period, coverage, threads
        )
        for model, names in _contenders(forecaster, compare)
        for block in blocks
    ]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    rows = list(tqdm(results, total=len(tasks), disable=not progress, desc="backtest"))
    frame = pd.concat([part for block in rows for part in block], ignore_index=True)
    order = {name: i for i, name in enumerate([OWN_NAME, *(compare or {})])}
    frame = frame.sort_values("model", key=lambda names: names.map(order), kind="stable")
    frame = frame.reset_index(drop=True)
    if "unit" in y.attrs:
        frame.attrs["unit"] = y.attrs["unit"]
    return Backtest(frame, coverage)


@dataclass(frozen=True)
class _Fold:
    origin: int  # position of the last observed value
    start: int  # position of the first value of the training window
    refit: bool


def _spaced_origins(n: int, horizon: int, n_origins: int, step: int) -> list[int]:
    last = n - 1 - horizon
    first = last - (n_origins - 1) * step
    if first < 0:
        raise ValueError(
            f"y must have more than {horizon + (n_origins - 1) * step} values for {n_origins} "
            f"origins, {step} apart, with {horizon} steps after the last; got {n}. Take fewer "
            "origins, or a smaller step."
        )
    return list(range(first, last + 1, step))


def _given_origins(index: pd.Index[Any], origins: Any, horizon: int) -> list[int]:
    labels = scores.check_several("origins", origins, "times of y", "[time] for one")
    positions = [int(i) for i in index.get_indexer(pd.Index(list(labels)))] if labels else []
    for label, position in zip(labels, positions, strict=True):
        if position < 0:
            raise ValueError(
                f"origins must be times of y; got {label}, which is not. Use y.index[...]."
            )
        if position > len(index) - 1 - horizon:
            raise ValueError(
                f"origins must leave {horizon} values to score; got {label}, with "
                f"{len(index) - 1 - position}. The latest is {format_time(index, -1 - horizon)}."
            )
    if not positions or any(b <= a for a, b in pairwise(positions)):
        raise ValueError(
            f"origins must be ascending times of y, at least one; got {list(labels)}. Sort them."
        )
    return positions


def _contenders(
    forecaster: Forecaster, compare: Mapping[str, Forecaster | str] | None
) -> list[tuple[Forecaster, list[tuple[str, str | None]]]]:
    """Each forecaster with the names and propagations that share its fit."""
    own: list[tuple[str, str | None]] = [(OWN_NAME, None)]
    others: list[tuple[Forecaster, list[tuple[str, str | None]]]] = []
    for name, model in (compare or {}).items():
        if name == OWN_NAME:
            raise ValueError(
                f"compare must not use the name {OWN_NAME!r}; got it twice. "
                "It is the forecaster itself."
            )
        if isinstance(model, str) and model in PROPAGATIONS:
            own.append((name, model))
        elif not isinstance(model, str) and hasattr(model, "forecast"):
            others.append((model, [(name, None)]))
        else:
            raise ValueError(
                f"compare must hold forecasters or one of {', '.join(PROPAGATIONS)}; got {model!r} "
                f"for {name!r}. Spell the propagation as in Forecaster.forecast."
            )
    return [(forecaster, own), *others]


def _run_block(
    forecaster: Forecaster,
    names: list[tuple[str, str | None]],
    folds: list[_Fold],
    y: pd.Series[float],
    exog: pd.DataFrame | None,
    steps: int,
    gap: int,
    seasonal_period: int,
    coverage: tuple[float, ...],
    threads: int | None,
) -> list[pd.DataFrame]:
    """Rows of the folds that share one fit, the first fold's."""
    parts = []
    fitted = clone(forecaster)
    for fold in folds:
        # Nothing of the series after the origin is visible below this line but for scoring.
        known = slice(fold.start, fold.origin + 1)
        past = y.iloc[known]
        past_exog = None if exog is None else exog.iloc[known]
        horizon = slice(fold.origin + 1, fold.origin + 1 + gap + steps)
        future_exog = None if exog is None else exog.iloc[horizon]
        try:
            with threadpool_limits(threads):
                if fold.refit:
                    fitted.fit(past, past_exog)
                    model = fitted
                else:
                    model = fitted.apply(past, past_exog)
                scale = scores.naive_scale(past, seasonal_period)
                forecasts = {
                    name: model.forecast(
                        gap + steps, future_exog, **({"propagation": kind} if kind else {})
                    )
                    for name, kind in names
                }
        except ValueError as error:
            error.add_note(f"while forecasting from origin {format_time(y.index, fold.origin)}")
            raise
        actual = y.iloc[horizon]
        for name, forecast in forecasts.items():
            score = forecast.score(actual)
            part = {
                "model": name,
                "origin": y.index[fold.origin],
                "step": np.arange(1, gap + steps + 1),
                "time": forecast.index,
                "actual": actual.to_numpy(dtype=np.float64),
                "mean": forecast.mean.to_numpy(),
                "std": forecast.std.to_numpy(),
            }
            for level in coverage:
                band = forecast.interval(level)
                part[f"lower_{_percent(level)}"] = band["lower"].to_numpy()
                part[f"upper_{_percent(level)}"] = band["upper"].to_numpy()
            for column in ("crps", "nlpd", "pit"):
                part[column] = score[column].to_numpy()
            parts.append(pd.DataFrame(part | {"scale": scale, "refit": fold.refit}).iloc[gap:])
    return parts


def _percent(level: float) -> str:
    return f"{100 * level:g}"
