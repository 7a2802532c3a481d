"""Rolling-origin backtest: what the forecasts would have been, and how good they were."""

from __future__ import annotations

import copy
import numbers
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from os import PathLike
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone

from forecast_unc import _checks, plot
from forecast_unc._checks import check_choice, check_whole, refusal
from forecast_unc._progress import tqdm
from forecast_unc._text import counted
from forecast_unc._typing import Array, Axes
from forecast_unc._warned import warn_once, with_warnings
from forecast_unc.distributions import scores
from forecast_unc.evaluation import folds
from forecast_unc.evaluation.folds import OWN_NAME, percent
from forecast_unc.evaluation.grouping import coverage_table
from forecast_unc.evaluation.report import backtest_card, write_report
from forecast_unc.evaluation.results import Groups
from forecast_unc.evaluation.significance import diebold_mariano
from forecast_unc.series.calendar import season_of
from forecast_unc.series.exog import check_aligned
from forecast_unc.series.times import regular_index
from forecast_unc.series.values import check_is_series

__all__ = ["OWN_NAME", "Backtest", "backtest"]

P = ParamSpec("P")
R = TypeVar("R")
# Scores that are averages of a loss, of the rows of a frame and the ends and coverage of the widest
# interval. That of RMSE is MSE, the squared error: the mean minimizes it, and the median MAE.
_LOSSES: dict[str, Callable[..., pd.Series[float] | Array]] = {
    "MAE": lambda rows, *_: (rows["actual"] - rows["median"]).abs(),
    "MSE": lambda rows, *_: (rows["actual"] - rows["mean"]) ** 2,
    "MASE": lambda rows, *_: (rows["actual"] - rows["median"]).abs() / rows["scale"],
    "sMAPE": lambda rows, *_: scores.smape(rows["actual"], rows["median"]),
    "CRPS": lambda rows, *_: rows["crps"],
    "NLPD": lambda rows, *_: rows["nlpd"],
    "MSIS": lambda rows, *band: scores.interval_score(rows["actual"], *band) / rows["scale"],
}


@dataclass(frozen=True)
class Backtest:
    """Forecasts from many origins beside what happened.

    Parameters
    ----------
    frame : DataFrame
        One row a model, origin and step: ``model``, ``origin`` (last observed time), ``step`` (from
        the origin: the first is 1 + gap), ``time``, ``actual``, ``mean``, ``median``, ``std``,
        ``lower_95`` and ``upper_95`` for each coverage, ``crps``, ``nlpd``, ``pit``, ``scale``
        (mean absolute seasonal difference of the training series, the unit of MASE and MSIS) and
        ``refit`` (whether the model was fitted there).
    coverages : tuple of float
        Coverages of the intervals in `frame`.
    joint : DataFrame
        One row a model and origin: ``model``, ``origin``, ``refit`` and ``energy``, the energy
        score of 500 paths over the steps observed; NaN if there are none.
    seasonal_period : int or None
        Season of ``scale``: a day of data by the hour or finer, 12 for monthly, 4 for quarterly
        data, if the first training window is longer; else 1. None if the series of a panel differ.
    id_col, failures : str and DataFrame, optional
        Of a panel (`backtest_panel`) the column that names the series, the first in `frame` and
        `joint`, next to which is ``frequency``; and the series that could not be backtested, with
        the reason, ``error``.
    request : Request, optional
        Of one series, what was asked, and of which data: what `report` needs to forecast anew.
    regressors : DataFrame, optional
        Of a panel, its regressors at the times of the rows of `frame`.
    """

    frame: pd.DataFrame
    coverages: tuple[float, ...]
    joint: pd.DataFrame
    seasonal_period: int | None
    id_col: str | None = None
    failures: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"error": []}))
    request: folds.Request | None = None
    regressors: pd.DataFrame | None = None

    def __repr__(self) -> str:
        models, n = self.frame["model"].unique(), self.frame["origin"].nunique()
        first, last = self.frame["step"].min(), self.frame["step"].max()
        steps = f"step {first}" if first == last else f"steps {first} to {last}"
        series = "" if self.id_col is None else f"{self.frame[self.id_col].nunique()} series, "
        named = ", ".join(map(str, models))
        return f"Backtest({named}; {series}{counted(n, 'origin')}, {steps})"

    _repr_html_ = backtest_card  # in a notebook

    def scores(self, by: str | Sequence[str] = "model") -> pd.DataFrame:
        """Scores averaged over the rows of each group; lower is better, except for coverage.

        ``by`` is a column of `frame`, or several: "model", "step", "origin", ["model", "step"]; of
        a panel also that of the ids and "frequency".

        The columns are MAE, MASE, sMAPE (percent; all three of the median), RMSE (of the mean),
        CRPS (units of y), NLPD (nats), MSIS (mean scaled interval score at the widest coverage),
        ``energy`` (units of y; of whole paths, so not by step), ``coverage_95`` for each coverage,
        the share of values inside, and ``n``, the values scored: those not missing. Where one of
        them has no score, its group has NaN; but in a panel MASE and MSIS are means over the series
        that have a unit, as they changed before.
        """
        frame = self.frame
        keys = [by] if isinstance(by, str) or not np.iterable(by) else list(by)
        unknown = [key for key in keys if not isinstance(key, Hashable) or key not in frame]
        if unknown or not keys:
            got = repr(unknown[0]) if keys else "none"
            remedy = "Use 'model', 'step', 'origin' or several of them."
            raise refusal("by", "name columns of the backtest's frame", got, remedy)
        rows, groups = self._losses(), [frame[key] for key in keys]
        for level in self.coverages:
            inside = scores.coverage(frame["actual"], *self._band(level))
            rows[f"coverage_{percent(level)}"] = inside
        scored = frame["actual"].notna()
        table = _means(rows, groups, scored)
        if self.id_col is not None:
            scaled = ["MASE", "MSIS"]
            table[scaled] = _means(rows[scaled], groups, scored & (frame["scale"] > 0.0))
        table["MSE"] **= 0.5
        table = table.rename(columns={"MSE": "RMSE"})
        if all(key in self.joint for key in keys):
            paths = [self.joint[key] for key in keys]
            energy = _means(self.joint[["energy"]], paths, self._observed())["energy"]
            table.insert(len(_LOSSES), "energy", energy)
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

        The test of Diebold and Mariano on one value an origin, its mean loss over the steps, with
        the small-sample correction of Harvey, Leybourne and Newbold and a long-run variance with
        as many lags as horizons overlap. The series of a panel give one value each, the mean over
        their origins, without lags: that holds for series independent of each other.

        ``score`` is one of `scores`, with "MSE" in place of RMSE, its root, and no coverage;
        ``reference`` is the model the others are compared with, by default ``forecast_unc``, the
        backtested one; ``by`` asks for one row a model, or one a model and step. ``unit`` is what
        gives one value, by default "series" for a panel. "origin", the mean over the series at it,
        holds whatever these have in common; all need the same origins.

        A ValueError says if a name is unknown, a score is NaN, or the origins are too few or too
        close (Harvey, Leybourne and Newbold, International Journal of Forecasting 13 (1997)
        281-291, https://doi.org/10.1016/S0169-2070(96)00719-4).

        Returns
        -------
        DataFrame
            ``difference`` (mean of the model's score less the reference's: negative if the model is
            better), ``statistic`` (NaN if the difference is the same at every origin), ``p_value``
            (two-sided, Student's t on n - 1 degrees of freedom), ``n`` (origins, or series),
            ``lags`` (autocovariances in the variance) and ``kernel`` of that variance ("Bartlett"
            where that gives more than "rectangular").
        """
        names = list(self.frame["model"].unique())
        reference = OWN_NAME if reference is None else reference
        check_choice("by", by, ("model", "step"), "'step' tests each step by itself.")
        remedy = "Squared errors are 'MSE', and 'energy' is of whole paths, not of a step."
        allowed = [*_LOSSES, "energy"] if by == "model" else list(_LOSSES)
        check_choice("score", score, allowed, remedy)
        check_choice("reference", reference, names, "It is the name of a model of the backtest.")
        if len(names) < 2:
            remedy = 'Pass compare={"naive": "naive propagation"} to backtest, for example.'
            raise refusal("significance", "have models to compare", f"{names[0]!r} alone", remedy)
        series, table = self._has_series_for_units(unit), self._scored_losses(score)
        ids = [] if self.id_col is None else [self.id_col]
        keys = [*ids, "model"] if series else ["origin", *ids, "model"]
        parts: Any = [(None, table)] if by == "model" else table.groupby("step", sort=False)
        others = [name for name in names if name != reference]
        rows = []
        for step, part in parts:
            # A row a unit and a column a model; origins in order of time. Every series counts the
            # same, however many of its steps were scored.
            means = part.groupby(keys, observed=True)[score].mean().reset_index()
            losses = means.pivot_table(score, keys[0], "model", "mean", observed=True)
            n, lags = len(losses), 0
            if not series:  # most later origins before the end of one's horizon, or of its step
                ahead = self.frame if step is None else self.frame[self.frame["step"] == step]
                ends = ahead.groupby("origin")["time"].max().loc[losses.index]
                lags = int((losses.index.searchsorted(ends) - np.arange(n) - 1).max())
            if series and n < 2:
                must = "have 2 series or more to compare over"
                raise refusal("significance", must, f"{n}", "Take unit='origin'.")
            if n < lags + 2:
                must = f"have {lags + 2} origins or more where the horizons of {lags + 1} overlap"
                remedy = "Take more origins, or set them further apart."
                raise refusal("significance", must, f"{n}", remedy)
            for name in others:
                test = diebold_mariano(losses[name], losses[reference], lags)
                rows.append({"model": name, "step": step, "lags": lags, "n": n, **test._asdict()})
        rows.sort(key=lambda row: others.index(row["model"]))
        tests = pd.DataFrame(rows).set_index("model" if by == "model" else ["model", "step"])
        return tests[["difference", "statistic", "p_value", "n", "lags", "kernel"]]

    def coverage(
        self, by: Groups = None, unit: Literal["origin", "series"] | None = None
    ) -> pd.DataFrame:
        r"""Shares of values that the intervals held in each group, with standard errors and tests.

        Bands that are right on average may be wrong where it matters: at some hours, at high
        levels.

        Parameters
        ----------
        by : str, callable or sequence of these, optional
            What groups the values: "hour", "weekday", "month" or "hour_of_week" (0 is Monday's
            first) of their times; "level", the low, middle and high third of each model's medians
            (of the forecasts: by what was observed later, the outer thirds of a right forecast
            hold too little); a column of `frame`, such as "step", or of the regressors; or a
            function of the times of all rows, ``lambda times: times.hour // 6``; of several each
            combination that occurs is a group. None, the default, takes all together. Values whose
            label is missing are left out.
        unit : {"origin", "series"}, optional
            What correlates values. By default those of one origin are correlated, where horizons
            overlap those of all origins within two of their lengths; in a panel those of one
            series, unless `by` has the column of the series.

        Returns
        -------
        DataFrame
            Indexed by model, what `by` names and nominal ``coverage``: ``held`` (share inside),
            ``std_error``, ``n`` (values), ``n_effective``, ``p_value`` (of the hypothesis that the
            group holds the nominal coverage; one of 24 hours is below .05 by chance, so
            multiply by their number) and ``p_equal`` (that all groups of the model hold the same
            share).

        Notes
        -----
        n values in m units, N_u in unit u, tell as much as so many independent ones:

        .. math::

            n_{\mathrm{eff}} = \frac{n}{1 + \rho (\sum_u N_u^2 / n - 1)}, \quad
            \rho = \frac{\frac{m}{m-1} \sum_u E_u^2 - \sum e^2 + c}
            {s \sum_u N_u (N_u - 1) + c},

        with e the residuals from the share held, s their mean square, E_u their sums over units,
        and c that of one unit more, of n / m values of the nominal variance that move together: few
        origins tell little of their correlation. The denominator of :math:`n_{\mathrm{eff}}` is the
        design effect [1]_ [2]_. ``p_value`` is of the exact binomial test of so many values,
        two-sided. ``std_error`` counts two values more as held and two as not, so it is never 0
        [3]_. ``p_equal`` is of Pearson's chi-square over its mean under correlation [1]_, with the
        F distribution and degrees of freedom of Huynh and Feldt [4]_. With one unit all but
        ``held`` and ``n`` are NaN. At 5 % the tests reject 6 % of right intervals or less, with 2
        to 60 origins of 24 correlated steps: with 60 about 4 %, with 5 about 1 %
        (examples/benchmarks/conditional.py).

        A value on an end of its interval, of a count or at a bound, is held, and counts as the
        nominal coverage in the tests: one end may have a large probability.

        References
        ----------
        .. [1] J. N. K. Rao, A. J. Scott, Journal of the American Statistical Association 76 (1981)
           221-230, https://doi.org/10.1080/01621459.1981.10477633
        .. [2] E. L. Korn, B. I. Graubard, Survey Methodology 24 (1998) 193-201.
        .. [3] A. Agresti, B. A. Coull, The American Statistician 52 (1998) 119-126,
           https://doi.org/10.1080/00031305.1998.10480550
        .. [4] H. Huynh, L. S. Feldt, Journal of Educational Statistics 1 (1976) 69-82,
           https://doi.org/10.3102/10769986001001069
        """
        return coverage_table(self, by, None if unit is None else self._has_series_for_units(unit))

    def plot_errors(
        self, score: str = "CRPS", by: Literal["step", "origin"] = "step", ax: Axes | None = None
    ) -> Axes:
        """Draw a score by step or origin, as `plot.scores_by_step`, `plot.scores_by_origin` do."""
        remedy = "'step' shows how errors grow, 'origin' when they were made."
        check_choice("by", by, ("step", "origin"), remedy)
        draw = plot.scores_by_step if by == "step" else plot.scores_by_origin
        return draw(self, score, ax=ax)

    plot_calibration, plot_coverage = plot.calibration, plot.coverage
    plot_pit, plot = plot.pit, plot.origins

    def report(self, path: str | PathLike[str]) -> None:
        """Write a page of HTML with all that the backtest says to `path`, which it replaces.

        One file that loads nothing else: what was asked, the data, what was chosen and why, the
        forecast from the end of the series (with regressors from the last origin), for which the
        forecaster is fitted once more, scores and their significance, calibration, and where the
        variance comes from. The page of a panel, or of a Backtest made by hand, has what follows
        from the scores alone.
        """
        write_report(self, path)

    def _has_series_for_units(self, unit: str | None) -> bool:
        """Whether a series, not an origin, gives one value of the test, or an error."""
        if unit is None:
            return self.id_col is not None
        check_choice("unit", unit, ("origin", "series"), "'series' is for a panel.")
        if self.id_col is None and unit == "series":
            must = "be 'origin' for a backtest of one series"
            raise refusal("unit", must, "'series'", "A panel has several (backtest_panel).")
        if self.id_col is not None and unit == "origin":
            pairs = self.frame[[self.id_col, "origin"]].drop_duplicates()
            counts = pairs["origin"].map(pairs["origin"].value_counts())
            alone = pairs[counts < pairs[self.id_col].nunique()]
            if len(alone):
                must = "be 'series' unless all series have the same origins"
                only = f"{alone['origin'].iloc[0]}, as {alone[self.id_col].iloc[0]} has"
                remedy = "Pass origins= to backtest_panel."
                raise refusal("unit", must, f"'origin', and only some have {only}", remedy)
        return unit == "series"

    def _band(self, level: float) -> tuple[pd.Series[float], pd.Series[float]]:
        return self.frame[f"lower_{percent(level)}"], self.frame[f"upper_{percent(level)}"]

    def _losses(self) -> pd.DataFrame:
        """One loss a row of the frame and score; those of `joint` aside."""
        widest = max(self.coverages)
        band = (*self._band(widest), widest)
        losses = {name: loss(self.frame, *band) for name, loss in _LOSSES.items()}
        return pd.DataFrame(losses, index=self.frame.index)

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


def _means(rows: pd.DataFrame, keys: list[pd.Series[Any]], scored: pd.Series[bool]) -> pd.DataFrame:
    missing = rows.isna() & scored.to_numpy()[:, None]
    how: dict[str, Any] = {"by": keys, "sort": False, "observed": True}
    return rows.groupby(**how).mean().mask(missing.groupby(**how).any())


def with_n_origins(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which takes the number of origins by its former name, `n_origins`, too."""

    @wraps(function)
    def renamed(*args: P.args, **kwargs: P.kwargs) -> R:
        if {"n_origins", "origins"} <= kwargs.keys():
            raise refusal("n_origins", "be left out beside origins", "both", "Pass origins alone.")
        if "n_origins" in kwargs:
            kwargs["origins"] = kwargs.pop("n_origins")
        return function(*args, **kwargs)

    return renamed


@with_n_origins
def backtest(
    forecaster: folds.Model,
    y: pd.Series[float],
    steps: int,
    *,
    exog: pd.DataFrame | None = None,
    exog_future: folds.ExogFuture | None = None,
    origins: int | Sequence[Any] | pd.Index[Any] = 10,
    step: int | None = None,
    refit: bool | int = True,
    window: Literal["expanding", "rolling"] = "expanding",
    gap: int = 0,
    compare: Mapping[str, folds.Model | str] | None = None,
    coverage: Sequence[float] = (0.5, 0.8, 0.95),
    n_jobs: int | None = None,
    progress: bool = False,
    time: Hashable | None = None,
    target: Hashable | None = None,
) -> Backtest:
    """Forecast from many origins of a series, each time with only what was known there.

    Parameters
    ----------
    forecaster : Forecaster
        Fitted anew, as a clone. Its rows are called ``forecast_unc``. Any model with ``fit`` and
        ``forecast`` will do, see ``evaluation.folds.Model``.
    y : Series
        The whole series; what lies after an origin is only used to score. Missing values are
        not scored, and are left to the models to accept or refuse.
    steps : int
        Steps that are scored from every origin.
    exog : DataFrame, optional
        Regressors with the index of y. Without `exog_future` their values over the horizon are
        taken as known at the origin, which flatters models if they were forecast themselves.
    exog_future : callable, optional
        ``exog_future(origin, times)`` returns what was forecast at `origin` of the regressors at
        `times`, the ``gap + steps`` times that follow: a DataFrame, or it and its uncertainty (a
        DataFrame of stds or a covariance), passed as ``exog_cov`` to models that take it.
    origins : int or sequence of index labels, default=10
        How many, the last of which is the latest that leaves `steps` values to score; or the
        origins themselves (last observed times). Their number is taken as ``n_origins``, too.
    step : int, optional
        Observations between origins given by number; by default `steps`, without an overlap.
    refit : bool or int, default=True
        Fit at every origin (True), at the first alone (False), or at every k-th (int). Between fits
        a model takes in new values with the parameters of its fit, by ``update`` or else ``apply``;
        one with neither is fitted at every origin. Later fits start from what the first one has
        learned where the model can (`Forecaster.refit`).
    window : {"expanding", "rolling"}, default="expanding"
        Fit on everything up to the origin, or on as many values as at the first origin; an update
        drops no values but those beyond a forecaster's ``max_train``.
    gap : int, default=0
        Steps after the origin that are forecast but not scored, for data that arrive late.
    compare : mapping of str to Model or str, optional
        Further models by name, on the same folds: any with ``fit`` and ``forecast``, given
        regressors if it takes them, or the name of another propagation of the fitted forecaster,
        ``"exact"`` or ``"naive propagation"``; ``baselines.Naive()`` is the last value.
    coverage : sequence of float, default=(0.5, 0.8, 0.95)
        Coverages of the intervals, in (0, 1).
    n_jobs : int, optional
        Parallel jobs, as in joblib; folds that share a fit stay in one. The result does not depend
        on it.
    progress : bool, default=False
        Show a progress bar.
    time, target : hashable, optional
        Names of the columns of times and of values, if y is a frame that has others beside.

    Returns
    -------
    Backtest

    Examples
    --------
    >>> from forecast_unc import Forecaster, backtest, datasets
    >>> nile, compare = datasets.load_nile(), {"naive": "naive propagation"}
    >>> result = backtest(Forecaster(lags=2), nile, steps=3, origins=4, compare=compare)
    >>> result.scores()["n"].to_dict()
    {'forecast_unc': 12, 'naive': 12}
    """
    check_arguments(steps, origins, step, refit, window, gap)
    steps, gap, n_jobs = int(steps), int(gap), _checks.check_jobs(n_jobs)
    step, coverage = steps if step is None else step, _checks.check_coverages(coverage)
    models, y = folds.contenders(forecaster, compare), check_is_series(y, "y", time, target)
    index, unit = regular_index(y.index, "y"), y.attrs.get("unit")
    y = y.set_axis(index)  # with its frequency set: short slices need not infer it
    if exog_future is not None and not callable(exog_future):
        remedy, got = "Pass a function of an origin and the times after it.", type(exog_future)
        raise refusal("exog_future", "be callable", got.__name__, remedy, TypeError)
    if exog is not None:
        exog = check_aligned(exog, index, "y").set_axis(index)
    elif exog_future is not None:
        remedy = "The models learn from past regressors."
        raise refusal("exog", "be given with exog_future", "None", remedy)
    positions = folds.positions_of(origins, step, index, gap + steps)
    season = season_of(index) if positions[0] + 1 > season_of(index) else 1
    plan = folds.Plan(y, exog, steps, gap, season, coverage)
    starts = [at - positions[0] if window == "rolling" else 0 for at in positions]
    at = [plan.fold(*pair, exog_future) for pair in zip(positions, starts, strict=True)]
    every = len(positions) if refit is False else int(refit)
    names = [OWN_NAME, *(compare or {})]
    frame, joint = (
        pd.concat(tables).sort_values(
            "model", key=lambda of: of.map(names.index), kind="stable", ignore_index=True
        )
        for tables in zip(*_run(models, at, every, plan, n_jobs, progress), strict=True)
    )
    if unit is not None:
        frame.attrs["unit"] = unit
    compared = {
        name: f"propagation {model}" if isinstance(model, str) else repr(model)
        for name, model in (compare or {}).items()
    }
    own = replace(models[0], model=clone(forecaster, safe=False))  # as it was asked, for good
    request = folds.Request(plan, own, compared, at, refit, window)
    return Backtest(frame, coverage, joint, season, request=request)


def check_arguments(
    steps: int,
    origins: object,
    step: int | None,
    refit: bool | int,
    window: str,
    gap: int,
) -> None:
    """Raise unless the arguments of `backtest` that do not depend on the series are valid."""
    _checks.check_steps(steps)
    check_whole("gap", gap, 0, "0 scores the first step on.")
    check_choice("window", window, ("expanding", "rolling"), "'rolling' drops old values.")
    if isinstance(origins, numbers.Number):
        check_whole("origins", origins, 1, "10 is a good start.")
        check_whole("step", steps if step is None else step, 1, "By default it is steps.")
    if not isinstance(refit, bool):
        remedy = "True fits at every origin, False at the first alone."
        check_whole("refit", refit, 1, remedy, "refit")


def _run(
    models: list[folds.Contender],
    at: list[folds.Fold],
    every: int,
    plan: folds.Plan,
    n_jobs: int | None,
    progress: bool,
) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Rows of the frame and of the joint scores, a job for the `every` folds that share a fit."""
    shared = []
    for model in models:
        size = every if {"update", "apply"} & model.can else 1
        shared.append([at[i : i + size] for i in range(0, len(at), size)])
    # All start from the first fit, not each from the one before: then they are parallel, and the
    # same whatever the number of jobs.
    warm = [i for i, model in enumerate(models) if "refit" in model.can and len(shared[i]) > 1]
    fits = Parallel(n_jobs=n_jobs)(delayed(with_warnings)(plan.fit, models[i], at[0]) for i in warm)
    first = {i: model for i, (model, _) in zip(warm, fits, strict=True)}
    warned = [one for _, those in fits for one in those]
    tasks = []
    for i, (model, (block, *rest)) in enumerate(zip(models, shared, strict=True)):
        fitted = copy.deepcopy(first.get(i))  # its first block changes it
        run = delayed(with_warnings)
        tasks.append(run(plan.block, model, block, fitted))
        tasks += [run(plan.block, model, block, None, first.get(i)) for block in rest]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    blocks = tqdm(results, total=len(tasks), disable=not progress, desc="backtest")
    parts = []
    for block, those in blocks:
        parts += block
        warned += those
    warn_once(warned)
    return parts
