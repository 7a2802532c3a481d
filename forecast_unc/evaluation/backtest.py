"""Rolling-origin backtest: what the forecasts would have been, and how good they were."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone
from tqdm.auto import tqdm

from forecast_unc._checks import check_coverages, check_jobs, check_steps, check_whole, refusal
from forecast_unc.distributions import scores
from forecast_unc.evaluation import plot_backtest
from forecast_unc.evaluation.folds import (
    OWN_NAME,
    Contender,
    ExogFuture,
    Fold,
    Model,
    Plan,
    Request,
    contenders,
    fit_at,
    future_exog,
    percent,
    positions_of,
    run_block,
)
from forecast_unc.evaluation.report import write_report
from forecast_unc.evaluation.significance import diebold_mariano
from forecast_unc.series.calendar import season_of
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import regular_index
from forecast_unc.series.values import check_is_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["OWN_NAME", "Backtest", "backtest"]

P = ParamSpec("P")
R = TypeVar("R")
# Scores that are averages of a loss; that of RMSE is the squared error, MSE.
_LOSSES = ("MAE", "MSE", "MASE", "sMAPE", "CRPS", "NLPD", "MSIS", "energy")


@dataclass(frozen=True)
class Backtest:
    """Forecasts from many origins beside what happened.

    Parameters
    ----------
    frame : DataFrame
        One row a model, origin and step: ``model``, ``origin`` (last observed time),
        ``step`` (from the origin, so that the first is 1 + gap), ``time``, ``actual``,
        ``mean``, ``median``, ``std``, ``lower_95`` and ``upper_95`` for each coverage, ``crps``,
        ``nlpd``, ``pit``, ``scale`` (mean absolute seasonal difference of the training
        series, the unit of MASE and MSIS; NaN if that holds no season or never changes) and
        ``refit`` (whether the model was fitted at this origin).
    coverage : tuple of float
        Coverages of the intervals in `frame`.
    joint : DataFrame
        One row a model and origin: ``model``, ``origin``, ``refit`` and ``energy``, the energy
        score of 500 paths over the scored steps, those left out whose value is missing; NaN if
        all are, or if the forecast's covariance has a negative eigenvalue.
    seasonal_period : int or None
        Seasonal period of ``scale``, that of the M4 competition if the first training window is
        longer: a day of data by the hour or finer, 12 for monthly and 4 for quarterly data; else
        1. None if the series of a panel differ in it.
    id_col : str, optional
        Of a panel (`backtest_panel`) the column that names the series, the first in `frame` and
        `joint`; next to it is ``frequency``.
    failures : DataFrame
        Of a panel the series that could not be backtested: `id_col`, and ``error``, the reason.
    request : Request, optional
        Of one series, what was asked, and of which data: what `report` needs to forecast anew.
    """

    frame: pd.DataFrame
    coverage: tuple[float, ...]
    joint: pd.DataFrame
    seasonal_period: int | None
    id_col: str | None = None
    failures: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"error": []}))
    request: Request | None = None

    def __repr__(self) -> str:
        models, n = self.frame["model"].unique(), self.frame["origin"].nunique()
        first, last = self.frame["step"].min(), self.frame["step"].max()
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        origins = f"{n} origin{'s' * (n > 1)}"
        if self.id_col is not None:
            origins = f"{self._n_series()} series, {origins}"
        return f"Backtest({', '.join(map(str, models))}; {origins}, {steps})"

    def scores(self, by: str | Sequence[str] = "model") -> pd.DataFrame:
        """Scores averaged over the rows of each group; lower is better, except for coverage.

        Parameters
        ----------
        by : str or sequence of str, default="model"
            Columns of `frame` to group by: "model", "step", "origin", ["model", "step"]; of a
            panel also that of the ids and "frequency".

        Returns
        -------
        DataFrame
            MAE (of the median), RMSE (of the mean), CRPS (units of y), MASE, sMAPE (percent; both
            of the median), NLPD (nats), MSIS (mean scaled interval score at the widest
            coverage), ``energy`` (units of y; a score of whole paths, so not for groups by
            step), and ``coverage_95`` for each coverage, the share of values inside the
            interval. Steps whose value is missing are not scored; ``n`` counts those that are.
            A score that is undefined for another reason, such as a scale of NaN, is NaN for its
            group.
        """
        frame = self.frame
        keys = [by] if isinstance(by, str) or not np.iterable(by) else list(by)
        unknown = [key for key in keys if key not in frame]
        if unknown or not keys:
            got = repr(unknown[0]) if keys else "none"
            remedy = "Use 'model', 'step', 'origin' or several of them."
            raise refusal("by", "name columns of the backtest's frame", got, remedy)
        rows = self._losses()
        for level in self.coverage:
            lower, upper = (frame[f"{end}_{percent(level)}"] for end in ("lower", "upper"))
            rows[f"coverage_{percent(level)}"] = scores.coverage(frame["actual"], lower, upper)
        groups = [frame[key] for key in keys]
        table = _means(rows, groups, frame["actual"].notna())
        table["MSE"] **= 0.5
        table = table.rename(columns={"MSE": "RMSE"})
        if all(key in self.joint for key in keys):
            scored = self._observed()
            energy = _means(self.joint[["energy"]], [self.joint[key] for key in keys], scored)
            at = list(table.columns).index("MSIS") + 1
            table.insert(at, "energy", energy["energy"])
        table["n"] = frame["actual"].groupby(groups, sort=False, observed=True).count()
        return table

    def significance(
        self,
        score: str = "CRPS",
        reference: str | None = None,
        by: Literal["model", "step"] = "model",
        unit: Literal["origin", "series"] | None = None,
    ) -> pd.DataFrame:
        """Test whether the models' scores differ from the reference's by more than chance.

        The loss of an origin is its mean over the steps, and the test is that of Diebold and
        Mariano on one value an origin, with the small-sample correction of Harvey, Leybourne
        and Newbold and a long-run variance with as many lags as horizons overlap.

        The series of a panel give one value each, the mean over their origins, and the test has no
        lags: it holds for series that are independent of each other, however alike the origins of
        one are. Series with shocks in common need ``unit="origin"``.

        Parameters
        ----------
        score : str, default="CRPS"
            "MAE", "MSE" (the square of RMSE), "MASE", "sMAPE", "CRPS", "NLPD", "MSIS" or
            "energy".
        reference : str, optional
            Name of the model the others are compared with; by default ``forecast_unc``, the
            backtested forecaster.
        by : {"model", "step"}, default="model"
            One row a model, or one a model and step.
        unit : {"origin", "series"}, optional
            What gives one value; by default "series" for a panel. "origin" is the mean over all
            series at each origin, which they have to share, and the test is that of one series: it
            holds whatever the series have in common, and for these series alone.

        Returns
        -------
        DataFrame
            ``difference`` (mean of the model's score less the reference's: negative if the
            model is better), ``statistic``, ``p_value`` (two-sided, Student's t on n - 1
            degrees of freedom), ``n`` (origins, or series), ``lags`` (autocovariances in the
            variance) and ``kernel`` of that variance ("Bartlett" where that gives more than
            "rectangular"). A statistic is NaN if the difference is the same at every origin.

        Raises
        ------
        ValueError
            If a name is unknown, a score is NaN, or the origins are too few or too close.

        References
        ----------
        D. Harvey, S. Leybourne and P. Newbold, "Testing the equality of prediction mean squared
        errors", International Journal of Forecasting 13 (1997) 281-291,
        https://doi.org/10.1016/S0169-2070(96)00719-4
        """
        names = list(self.frame["model"].unique())
        reference = OWN_NAME if reference is None else reference
        allowed = _LOSSES if by == "model" else _LOSSES[:-1]
        scored = "Squared errors are 'MSE', and 'energy' is of whole paths, not of a step."
        for argument, value, rule, remedy in (
            ("by", by, ("model", "step"), "'step' tests each step by itself."),
            ("score", score, allowed, scored),
            ("reference", reference, names, "It is the name of a model of the backtest."),
        ):
            if value not in rule:
                must = f"be one of {', '.join(map(str, rule))}"
                raise refusal(argument, must, f"{value!r}", remedy)
        if len(names) < 2:
            remedy = 'Pass compare={"naive": "naive"} to backtest, for example.'
            raise refusal("significance", "have models to compare", f"{names[0]!r} alone", remedy)
        series = self.id_col is not None if unit is None else self._checked_unit(unit) == "series"
        table = self._scored_losses(score)
        parts: dict[Any, pd.DataFrame] = {None: table}
        if by == "step":
            parts = dict(iter(table.groupby("step", sort=False)))
        others = [name for name in names if name != reference]
        rows = {}
        for step, part in parts.items():
            losses = self._units(part, score, series)
            n, lags = len(losses), 0 if series else self._overlaps(losses.index, step)
            if series and n < 2:
                must = "have 2 series or more to compare over"
                raise refusal("significance", must, f"{n}", "Take unit='origin'.")
            if n < lags + 2:
                must = f"have {lags + 2} origins or more where the horizons of {lags + 1} overlap"
                remedy = "Take more origins, or set them further apart."
                raise refusal("significance", must, f"{n}", remedy)
            for name in others:
                test = diebold_mariano(losses[name], losses[reference], lags)
                rows[name, step] = {**test._asdict(), "n": n, "lags": lags}
        columns = ["difference", "statistic", "p_value", "n", "lags", "kernel"]
        index = pd.MultiIndex.from_product([others, list(parts)], names=["model", "step"])
        ordered = [rows[name, step] for name in others for step in parts]
        tests = pd.DataFrame(ordered, index, columns)
        return tests.droplevel("step") if by == "model" else tests

    def plot_errors(
        self, score: str = "CRPS", by: Literal["step", "origin"] = "step", ax: Axes | None = None
    ) -> Axes:
        """Draw a score by step or by origin, one line a model.

        Parameters
        ----------
        score : str, default="CRPS"
            Column of `scores`.
        by : {"step", "origin"}, default="step"
            See `plot.scores_by_step` and `plot.scores_by_origin`.
        ax : Axes, optional
            Where to draw; by default the current axes.

        Returns
        -------
        Axes
            The axes drawn on.
        """
        remedy = "'step' shows how errors grow, 'origin' when they were made."
        _check_choice("by", by, ("step", "origin"), remedy)
        draw = plot_backtest.scores_by_step if by == "step" else plot_backtest.scores_by_origin
        return draw(self, score, ax=ax)

    def plot_calibration(self, ax: Axes | None = None) -> Axes:
        """Draw observed against nominal coverage; see `plot.calibration`."""
        return plot_backtest.calibration(self, ax=ax)

    def plot_pit(self, ax: Axes | None = None) -> Axes:
        """Draw histograms of the probability integral transform; see `plot.pit`."""
        return plot_backtest.pit(self, ax=ax)

    def report(self, path: str | PathLike[str]) -> None:
        """Write a page of HTML with all that the backtest says, for a browser on any device.

        What was asked, the data, what was chosen and why, the forecast from the end of the series
        (from the last origin if there are regressors, as nobody knows the next ones), scores and
        their significance, calibration, and where the variance comes from. The forecaster is
        fitted once more for it. The page is one file that loads nothing else, from the network or
        elsewhere; a click on the head of a column sorts its table. That of a panel, or of a
        Backtest made by hand, has what follows from the scores alone.

        Parameters
        ----------
        path : str or path-like
            The file to write, one that is there is replaced; ``report.html``, for example.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_report(self, path)

    def _checked_unit(self, unit: str) -> str:
        """What gives one value of the test, or an error."""
        _check_choice("unit", unit, ("origin", "series"), "'series' is for a panel.")
        if self.id_col is None and unit == "series":
            must = "be 'origin' for a backtest of one series"
            raise refusal("unit", must, "'series'", "A panel has several (backtest_panel).")
        if self.id_col is not None and unit == "origin":
            pairs = self.frame[[self.id_col, "origin"]].drop_duplicates()
            shared = pairs["origin"].map(pairs["origin"].value_counts()) == self._n_series()
            if not shared.all():
                first = pairs[~shared].iloc[0]
                must = "be 'series' unless all series have the same origins"
                only = f"{first['origin']}, as {first[self.id_col]} has"
                remedy = "Pass origins= to backtest_panel."
                raise refusal("unit", must, f"'origin', and only some have {only}", remedy)
        return unit

    def _n_series(self) -> int:
        return 1 if self.id_col is None else int(self.frame[self.id_col].nunique())

    def _units(self, losses: pd.DataFrame, score: str, series: bool) -> pd.DataFrame:
        """Losses of the test, a row a unit and a column a model; origins in order of time."""
        if self.id_col is None:
            return losses.pivot_table(score, "origin", "model", "mean")
        unit = self.id_col if series else "origin"
        keys = list(dict.fromkeys([unit, self.id_col, "model"]))
        # every series counts the same, however many of its steps were scored
        means = losses.groupby(keys, observed=True)[score].mean().reset_index()
        return means.pivot_table(score, unit, "model", "mean", observed=True)

    def _losses(self) -> pd.DataFrame:
        """One loss a row of the frame and score; those of `joint` aside."""
        frame = self.frame
        widest = max(self.coverage)
        lower, upper = (frame[f"{end}_{percent(widest)}"] for end in ("lower", "upper"))
        # The mean minimizes the squared error, the median the absolute one.
        error = (frame["actual"] - frame["median"]).abs()
        interval = scores.interval_score(frame["actual"], lower, upper, widest)
        return pd.DataFrame(
            {
                "MAE": error,
                "MSE": (frame["actual"] - frame["mean"]) ** 2,
                "MASE": error / frame["scale"],
                "sMAPE": scores.smape(frame["actual"], frame["median"]),
                "CRPS": frame["crps"],
                "NLPD": frame["nlpd"],
                "MSIS": interval / frame["scale"],
            },
            index=frame.index,
        )

    def _scored_losses(self, score: str) -> pd.DataFrame:
        """Losses of one score where it could be scored, or an error where it is unknown."""
        if score == "energy":
            table = self.joint[self._observed()]
        else:
            table = self.frame.assign(**self._losses()[[score]])
            table = table[self.frame["actual"].notna()]
        if table[score].isna().any():
            first = table["origin"][table[score].isna()].iloc[0]
            got = f"NaN for {score!r} at origin {first}"
            raise refusal("score", "be known at every origin", got, "Take another score.")
        return table

    def _observed(self) -> pd.Series[bool]:
        """Whether any step of the origin was observed, for the rows of `joint`."""
        keys = ["origin"] if self.id_col is None else [self.id_col, "origin"]
        counts = self.frame.groupby(keys, observed=True)["actual"].count().rename("n")
        return self.joint[keys].join(counts, on=keys)["n"] > 0

    def _overlaps(self, origins: pd.Index[Any], step: int | None) -> int:
        """Most later origins that lie before the end of one's horizon, or of its given step."""
        rows = self.frame if step is None else self.frame[self.frame["step"] == step]
        ends = rows.groupby("origin")["time"].max().loc[origins]
        return int((origins.searchsorted(ends) - np.arange(len(origins)) - 1).max())


def _with_n_origins(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which takes the number of origins by its former name, `n_origins`, too."""

    @wraps(function)
    def renamed(*args: P.args, **kwargs: P.kwargs) -> R:
        if "n_origins" in kwargs:
            kwargs.setdefault("origins", kwargs.pop("n_origins"))
        return function(*args, **kwargs)

    return renamed


@_with_n_origins
def backtest(
    forecaster: Model,
    y: pd.Series[float],
    steps: int,
    *,
    exog: pd.DataFrame | None = None,
    exog_future: ExogFuture | None = None,
    origins: int | Sequence[Any] | pd.Index[Any] = 10,
    step: int | None = None,
    refit: bool | int = True,
    window: Literal["expanding", "rolling"] = "expanding",
    gap: int = 0,
    compare: Mapping[str, Model | str] | None = None,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    n_jobs: int | None = None,
    progress: bool = False,
) -> Backtest:
    """Forecast from many origins of a series, each time with only what was known there.

    Parameters
    ----------
    forecaster : Forecaster
        Fitted anew, as a clone; it need not be fitted. Its rows are called
        ``forecast_unc``. Anything with ``fit`` and ``forecast`` will do, see `Model`.
    y : Series
        The whole series; what lies after an origin is only used to score. Missing values are
        not scored, and are left to the models to accept or refuse.
    steps : int
        Steps that are scored from every origin.
    exog : DataFrame, optional
        Regressors with the index of y. Without `exog_future` their values over the horizon are
        taken as known at the origin, which flatters models if they were forecast themselves.
    exog_future : callable, optional
        ``exog_future(origin, times)`` returns what was forecast, at the time `origin`, of the
        regressors at `times`, the ``gap + steps`` times that follow: a DataFrame, or it and its
        uncertainty, a DataFrame of stds or a covariance, which is passed to
        ``forecast(steps, exog, exog_cov=...)`` of models that take it. Called once an origin;
        `exog` is then not read beyond it.
    origins : int or sequence of index labels, default=10
        How many, the last of which is the latest that leaves `steps` values to score; or the
        origins themselves (last observed times). Their number is taken as ``n_origins``, too.
    step : int, optional
        Observations between so many origins; by default `steps`, so that horizons do not overlap.
    refit : bool or int, default=True
        Fit at every origin (True), at the first alone (False), or at every k-th (int). Between fits
        a model takes in the values observed since, with the parameters of its fit, by its method
        ``update``; one that has ``apply`` alone keeps what it has learned and is moved on. A model
        with neither is fitted at every origin. The fits after the first one
        start from its hyper-parameters where the model can (`Forecaster.refit`): to have each
        search from scratch, hide the method in a class with ``fit`` and ``forecast`` alone.
    window : {"expanding", "rolling"}, default="expanding"
        Fit on everything up to the origin, or on as many values as at the first origin. An
        update drops no values, except those beyond a forecaster's ``max_train``: in a rolling
        window the training data grow from one fit to the next, and start anew there.
    gap : int, default=0
        Steps after the origin that are forecast but not scored, for data that arrive late.
    compare : mapping of str to Model or str, optional
        Further models by name, on the same folds: anything with ``fit`` and ``forecast``, or
        names of a propagation ("naive", "taylor", "mixture", "monte_carlo", "exact", "auto") of
        the same fitted forecaster. A model that takes no regressors is given none.
    coverage : sequence of float, default=(0.5, 0.8, 0.95)
        Coverages of the intervals, in (0, 1).
    n_jobs : int, optional
        Parallel jobs, as in joblib; folds that share a fit stay in one. BLAS runs on one thread
        in any case, so that the result does not depend on it.
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
    >>> result = backtest(model, nile, steps=3, origins=4, compare={"naive": "naive"})
    >>> result.scores()["n"].to_dict()
    {'forecast_unc': 12, 'naive': 12}
    >>> result.significance("CRPS").loc["naive", "n"].item()
    4
    """
    step = steps if step is None else step
    check_arguments(steps, origins, step, refit, window, gap, compare, n_jobs)
    coverage = check_coverages(coverage)
    models = contenders(forecaster, compare)
    y = check_is_series(y)
    index = regular_index(y.index, "y")
    unit = y.attrs.get("unit")
    y = y.set_axis(index)  # with its frequency set: short slices need not infer it
    exog = _checked_exog(exog, exog_future, index)
    positions = positions_of(origins, step, index, gap + steps)
    season = season_of(index)
    seasonal_period = season if positions[0] + 1 > season else 1
    plan = Plan(y, exog, steps, gap, seasonal_period, coverage)
    folds = [
        Fold(
            position,
            position - positions[0] if window == "rolling" else 0,
            *future_exog(exog, exog_future, index, position, plan.horizon),
        )
        for position in positions
    ]
    every = len(positions) if refit is False else 1 if refit is True else refit
    parts = _run(models, folds, every, plan, n_jobs, progress)
    names = [OWN_NAME, *(compare or {})]
    frame, joint = (_joined(tables, names) for tables in zip(*parts, strict=True))
    if unit is not None:
        frame.attrs["unit"] = unit
    compared = {
        name: f"propagation {model}" if isinstance(model, str) else repr(model)
        for name, model in (compare or {}).items()
    }
    own = replace(models[0], model=clone(models[0].model, safe=False))  # as it was asked, for good
    request = Request(plan, own, compared, folds, refit, window)
    return Backtest(frame, coverage, joint, seasonal_period, request=request)


def check_arguments(
    steps: int,
    origins: object,
    step: int | None,
    refit: bool | int,
    window: str,
    gap: int,
    compare: object,
    n_jobs: int | None,
) -> None:
    """Raise unless the arguments of `backtest` that do not depend on the series are valid."""
    check_steps(steps)
    check_whole("gap", gap, 0, "0 scores the first step on.")
    _check_choice("window", window, ("expanding", "rolling"), "'rolling' drops old values.")
    if compare is not None and not isinstance(compare, Mapping):
        must = "be a mapping of names to forecasters"
        remedy = 'Pass {"naive": "naive"}, for example.'
        raise refusal("compare", must, type(compare).__name__, remedy, TypeError)
    check_jobs(n_jobs)
    if isinstance(origins, numbers.Number):
        check_whole("origins", origins, 1, "10 is a good start.")
        check_whole("step", steps if step is None else step, 1, "By default it is steps.")
    if not isinstance(refit, bool):
        check_whole("refit", refit, 1, "True fits at every origin, False at the first alone.")


def _check_choice(name: str, value: object, allowed: Sequence[str], remedy: str) -> None:
    if value not in allowed:
        raise refusal(name, f"be {' or '.join(map(repr, allowed))}", f"{value!r}", remedy)


def _checked_exog(
    exog: pd.DataFrame | None, exog_future: ExogFuture | None, index: pd.Index[Any]
) -> pd.DataFrame | None:
    """The regressors on the index of the series, or an error."""
    if exog_future is not None and not callable(exog_future):
        remedy = "Pass a function of an origin and the times after it."
        got = type(exog_future).__name__
        raise refusal("exog_future", "be callable", got, remedy, TypeError)
    if exog is not None:
        return check_aligned(exog, index, "y").set_axis(index)
    if exog_future is not None:
        remedy = "The models learn from past regressors."
        raise refusal("exog", "be given with exog_future", "None", remedy)
    return None


def _run(
    models: list[Contender],
    folds: list[Fold],
    every: int,
    plan: Plan,
    n_jobs: int | None,
    progress: bool,
) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of the frame and of the joint scores, a job for the `every` folds that share a fit."""
    shared_by = []
    for model in models:
        size = every if model.can.update or model.can.apply else 1
        shared_by.append([folds[i : i + size] for i in range(0, len(folds), size)])
    # All start from the first fit, not each from the one before: then they are parallel, and the
    # same whatever the number of jobs.
    warm = [i for i, model in enumerate(models) if model.can.refit and len(shared_by[i]) > 1]
    fits = Parallel(n_jobs=n_jobs)(delayed(fit_at)(models[i], folds[0], plan) for i in warm)
    first, tasks = dict(zip(warm, fits, strict=True)), []
    for i, (model, shared) in enumerate(zip(models, shared_by, strict=True)):
        earlier = first.get(i)
        fitted = copy.deepcopy(earlier)  # its first block changes it
        tasks.append(delayed(run_block)(model, shared[0], plan, fitted))
        tasks += [delayed(run_block)(model, block, plan, None, earlier) for block in shared[1:]]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    blocks = tqdm(results, total=len(tasks), disable=not progress, desc="backtest")
    return [part for block in blocks for part in block]


def _joined(tables: Sequence[pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """One table, the models in the order of their names."""
    rows = pd.concat(tables, ignore_index=True)
    order = rows["model"].map(names.index)
    return rows.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)


def _means(rows: pd.DataFrame, keys: list[pd.Series[Any]], scored: pd.Series[bool]) -> pd.DataFrame:
    """Means by group over the rows that could be scored; NaN where one of them is."""
    missing = rows.isna() & scored.to_numpy()[:, None]
    how: dict[str, Any] = {"by": keys, "sort": False, "observed": True}
    return rows.groupby(**how).mean().mask(missing.groupby(**how).any())
