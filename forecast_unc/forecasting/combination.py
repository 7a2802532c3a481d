"""A few forecasters as one: the average of their quantiles."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import as_float, check_steps, numbers, one_seed, refusal
from forecast_unc._notes import Note
from forecast_unc._typing import Array, Positions
from forecast_unc.distributions.forecast import Forecast, forecast_of, prediction_of
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.distributions.scenarios import OfMembers, Scenarios
from forecast_unc.forecasting import saving
from forecast_unc.forecasting.choose.specification import Averaging
from forecast_unc.forecasting.forecaster import Forecaster, Uncertainties, check_scenarios
from forecast_unc.forecasting.horizon.types import Propagation
from forecast_unc.forecasting.past import Scored
from forecast_unc.forecasting.pool.backcast import AskPast
from forecast_unc.forecasting.pool.pool import those_that_can
from forecast_unc.forecasting.pool.weights import Ask, average, average_past
from forecast_unc.series.history import History
from forecast_unc.series.values import check_is_series


@dataclass(eq=False, repr=False)
class Combination(Scored):
    """Several forecasters, their quantiles averaged.

    Of normal forecasts the average has the average mean and the average std. The average of a few
    different specifications is better than each nearly everywhere, and safer than a choice.

    Parameters
    ----------
    forecasters : sequence of Forecaster
        The members, all with the same `open`; cloned, never modified. Baselines will do, and other
        models with `fit`, `apply`, `forecast` and an `update` that assigns new attributes instead
        of changing arrays or lists, so that a shallow copy made before stays as it was.
    weights : sequence of float, "inverse_width", "validation" or None, default=None
        Weight of each member; only the ratios count. "inverse_width" takes 1 / width of the
        95 % bands over the 4 steps up to each; "validation" 1 / CRPS^2 over three origins near the
        end, each member fitted once, before them: for long series. None weights all alike.
    widest : float, optional
        Above 1. A member is dropped from the step on at which it is more than so many times as wide
        as the narrowest, diverges or has a mean of more than 7.4 medians, and if it cannot take in
        what is observed later. By default none is: its error is raised.

    Attributes
    ----------
    forecasters_ : list
        The fitted members.
    weights_ : ndarray
        Their weights before the widths are known, which add up to 1. The weights of a forecast are
        in its `members`.
    refused_ : dict of int to str
        Members that could not take in what was observed later, by number, with the reason.
    numbers_ : list of int
        Places of the fitted members in `forecasters`.

    Examples
    --------
    >>> from forecast_unc import Combination, Forecaster, datasets
    >>> nile = datasets.load_nile()
    >>> both = Combination([Forecaster(lags=3), Forecaster(lags=1, differences=1)]).fit(nile)
    >>> both.forecast(5).interval(0.9).shape
    (5, 2)
    """

    forecasters: Sequence[Any]
    weights: Sequence[float] | Literal["inverse_width", "validation"] | None = None
    _: KW_ONLY
    widest: float | None = None

    forecasters_: list[Any] = field(init=False)
    weights_: Array = field(init=False)
    refused_: dict[int, str] = field(init=False)

    def fit(
        self,
        y: pd.Series | pd.DataFrame,
        exog: pd.DataFrame | None = None,
        y_std: pd.Series | None = None,
        *,
        time: Hashable | None = None,
        target: Hashable | None = None,
    ) -> Self:
        """Fit every member to a series.

        `y`, `exog`, `y_std`, `time` and `target` as in `Forecaster.fit`.
        """
        weights, fitted = self._checked_weights(), []
        y, inputs = check_is_series(y, "y", time, target), _given(exog=exog, y_std=y_std)
        for number, forecaster in enumerate(self.forecasters):
            try:
                fitted.append(clone(forecaster).fit(y, **inputs))
            except ValueError as error:
                error.add_note(f"in member {number} of the combination, {forecaster!r}")
                raise
        if weights is None:
            weights = self._validated_weights(y, inputs)
        self.forecasters_ = fitted
        self.weights_ = weights / weights.sum()
        self.refused_ = {}
        return self

    def update(
        self, y_new: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Take in what followed; `y_new`, `exog` and `y_std` as in `Forecaster.update`."""
        inputs = _given(exog=exog, y_std=y_std)
        # on copies, so that an error leaves all as they were
        self._replace(lambda member: copy.copy(member).update(y_new, **inputs))
        return self

    def apply(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """A new one at the end of another series; `y`, `exog`, `y_std` as in `Forecaster.apply`."""
        inputs, applied = _given(exog=exog, y_std=y_std), copy.copy(self)
        applied._replace(lambda member: member.apply(y, **inputs))
        return applied

    def forecast(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_cov: pd.DataFrame | Array | None = None,
        *,
        propagation: Propagation = "auto",
        **options: Any,
    ) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        steps, exog, exog_cov
            As in `Forecaster.forecast`.
        propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
            As in `Forecaster.forecast`; a baseline has "auto" alone.
        **options
            Other keywords of `Forecaster.forecast`, for every member; a baseline refuses them.

        Returns
        -------
        Forecast
            See `Forecast.average`. The widths for `weights` and `widest` are those of the members'
            default forecasts, or of exact ones where these are asked for.
        """
        check_is_fitted(self, "forecasters_")
        steps = check_steps(steps)
        if propagation != "auto":
            options["propagation"] = propagation
        if "random_state" in options:  # one generator for all would depend on the horizon
            options["random_state"] = one_seed(options["random_state"])
        given = _given(exog=exog, exog_cov=exog_cov, exog_std=options.pop("exog_std", None))

        times: list[pd.Index[Any]] = []

        def asks(**options: Any) -> list[Ask]:
            def ask(member: Any, first: int) -> Prediction:
                cut = _first_steps(given, first, steps)
                forecast: Forecast = member.forecast(first, **cut, **options)
                times.append(forecast.index)
                made = prediction_of(forecast)
                return replace(made, model=made.model or repr(member))

            return [partial(ask, member) for member in self.forecasters_]

        averaged = average(
            self._averaging,
            asks(**options),
            self.weights_,
            steps,
            references=[] if not options or propagation == "exact" else asks(),
            can_look_ahead=not given,
        )
        return forecast_of(max(times, key=len), averaged.prediction)

    def scenarios(
        self,
        exog: Mapping[str, pd.DataFrame],
        steps: int,
        exog_cov: Uncertainties = None,
        *,
        exog_std: Uncertainties = None,
        propagation: Propagation = "auto",
        **options: Any,
    ) -> Scenarios:
        """Joint forecasts of the next values under different futures of the regressors.

        Each is that of `forecast`. A difference is the average of the members' differences, with
        the weights of `forecast`, or where these differ from one scenario to the other, the root of
        their product. What a member leaves unknown is shared as in `Forecaster.scenarios`.

        Parameters
        ----------
        exog, steps, exog_cov, exog_std
            As in `Forecaster.scenarios`.
        propagation, **options
            As in `forecast`.

        Returns
        -------
        Scenarios

        Raises
        ------
        TypeError
            If a member is a baseline, or another model without scenarios.
        """
        check_is_fitted(self, "forecasters_")
        for member in self.forecasters_:
            if not isinstance(member, Forecaster | Combination):
                must, got = "be Forecasters, or Combinations of them", type(member).__name__
                remedy = "What another model leaves unknown is in no two scenarios the same."
                raise refusal("forecasters", f"{must}, for scenarios", got, remedy, TypeError)
        steps = check_steps(steps)
        check_scenarios(exog, self.history_, steps, exog_std, exog_cov)
        if propagation != "auto":
            options["propagation"] = propagation
        if "random_state" in options:
            options["random_state"] = one_seed(options["random_state"])
        members = _ScenariosOfMembers(
            self.forecasters_,
            steps,
            {
                name: _given(exog=frame, exog_std=_of(exog_std, name), exog_cov=_of(exog_cov, name))
                for name, frame in exog.items()
            },
        )
        averaged = [
            average(
                self._averaging,
                members.asks(name, **options),
                self.weights_,
                steps,
                references=[] if not options or propagation == "exact" else members.asks(name),
                can_look_ahead=False,
            )
            for name in exog
        ]
        longest = members.longest(bool(options))
        weights = np.array([one.used[list(longest)] for one in averaged])
        index = max((one[name].index for one in longest.values() for name in exog), key=len)
        joints = [one.prediction.joint for one in averaged]
        forecasts = [forecast_of(index, one.prediction) for one in averaged]
        apart = OfMembers(joints, [one.apart for one in longest.values()], weights)
        return Scenarios(dict(zip(exog, forecasts, strict=True)), apart)

    @property
    def history_(self) -> History:
        """The series up to the origin, as the first member knows it."""
        return self._known_members()[0].history_

    def _past_steps(self) -> AskPast:
        """One-step forecasts of the past by their places in the series, for :meth:`fitted`."""
        members = [one._past_steps() for one in self._known_members()]

        def ask(at: Positions) -> PastSteps | None:
            return average_past(self._averaging, [ask(at) for ask in members], self.weights_)

        return ask

    def _known_members(self) -> list[Forecaster | Combination]:
        """The fitted members, which have to be the package's own."""
        check_is_fitted(self, "forecasters_")
        own = []
        for member in self.forecasters_:
            if not isinstance(member, Forecaster | Combination):
                must = "be Forecasters, or Combinations of them, for one-step forecasts of the past"
                got, remedy = type(member).__name__, "Leave it out, or use backtest."
                raise refusal("forecasters", f"{must} and scores", got, remedy, TypeError)
            own.append(member)
        return own

    @property
    def open(self) -> Hashable | None:
        """The regressor that tells closed times, of every member, or None."""
        members = self.forecasters
        return _open_of(members[0]) if isinstance(members, Sequence) and members else None

    @property
    def numbers_(self) -> list[int]:
        """Places of the fitted members in `forecasters`."""
        n = len(self.forecasters_) + len(self.refused_)
        return sorted({*range(n)} - {*self.refused_})

    @property
    def choices_(self) -> list[Note]:
        """The weight of each member, what it is, and what it chose."""
        check_is_fitted(self, "forecasters_")
        weights = "all alike" if self.weights is None else self.weights
        lines = [Note("weights", f"weights: {weights}")]
        for weight, member in zip(self.weights_, self.forecasters_, strict=True):
            lines.append(Note("weight", f"weight {weight:.2f}: {member!r}"))
            lines += getattr(member, "choices_", [])
        for at, why in self.refused_.items():
            lines.append(Note("refused", f"refused: member {at}; {why}"))
        return lines

    def _replace(self, make: Callable[[Any], Any]) -> None:
        """Take what is made of the members, and note those of which nothing could be made."""
        check_is_fitted(self, "forecasters_")
        made, errors = those_that_can(self.forecasters_, make)
        weights = self.weights_[list(made)]
        if errors and (self.widest is None or not weights.any()):
            raise next(iter(errors.values()))  # of the simplest
        refused = {self.numbers_[place]: str(error) for place, error in errors.items()}
        self.forecasters_, self.weights_ = list(made.values()), weights / weights.sum()
        self.refused_ = self.refused_ | refused

    @property
    def _averaging(self) -> Averaging:
        by_width = isinstance(self.weights, str) and self.weights == "inverse_width"
        return Averaging(by_width, self.widest)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted combination to a file `path`, for `load_model`: see `Forecaster.save`.

        A TypeError also if a member is a baseline, or a model of one's own.
        """
        saving.save(self, path, (Forecaster, Combination))

    def _checked_weights(self) -> Array | None:
        """Weights of the members, None for those of validation, or an error."""
        members = self.forecasters
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            must = "be a sequence of at least one forecaster"
            remedy = "Pass [Forecaster(...), Forecaster(...)]."
            raise refusal("forecasters", must, repr(members), remedy)
        for member in members:
            model = hasattr(member, "fit") and hasattr(member, "forecast")
            if isinstance(member, type) or not model:
                must = "hold models with fit and forecast"
                raise refusal("forecasters", must, repr(member), "Pass Forecaster(...).", TypeError)
        opens = list(dict.fromkeys(repr(_open_of(member)) for member in members))
        if len(opens) > 1:
            must, got = "have the same `open`, or none", " beside ".join(opens)
            remedy = "A closed step is 0 for certain only if it is for every member."
            raise refusal("forecasters", must, got, remedy)
        if self.widest is not None and not as_float(self.widest) > 1:
            remedy = "Use None to keep all members."
            raise refusal("widest", "be greater than 1", repr(self.widest), remedy)
        n, must = len(members), "be numbers, 'inverse_width', 'validation' or None"
        if self.weights is None or self._averaging.by_width:
            return np.ones(n)
        if isinstance(self.weights, str) and self.weights == "validation":
            return None
        if not isinstance(self.weights, str):
            must = f"be {n} numbers, none negative and not all 0"
            with suppress(TypeError):  # of what is no numbers
                weights = numbers("weights", self.weights)
                positive = np.isfinite(weights).all() and weights.any() and (weights >= 0).all()
                if positive and weights.shape == (n,):
                    return weights
        raise refusal("weights", must, repr(self.weights), "None weights all members alike.")

    def _validated_weights(self, y: pd.Series, inputs: dict[str, Any]) -> Array:
        """1 / CRPS^2 of each member over the last origins, fitted before the first of them."""
        # three origins half a horizon apart, a horizon at most a tenth of the series
        steps, loss = max(1, min(24, int(0.1 * len(y)))), []
        cuts = [len(y) - steps - i * max(1, steps // 2) for i in (2, 1, 0)]
        for forecaster in self.forecasters:
            model, total = clone(forecaster), 0.0
            for cut in cuts:
                past = {name: value.iloc[:cut] for name, value in inputs.items()}
                if cut == cuts[0]:
                    model.fit(y.iloc[:cut], **past)
                after = slice(cut, cut + steps)
                future = {"exog": inputs["exog"].iloc[after]} if "exog" in inputs else {}
                forecast = model.apply(y.iloc[:cut], **past).forecast(steps, **future)
                # NaN where nothing was observed
                total += float(np.nansum(forecast.score(y.iloc[after])["crps"].mean()))
            loss.append(total)
        return np.array([(min(loss) / value) ** 2 if value > 0 else 1.0 for value in loss])


def load_model(path: str | PathLike[str]) -> Forecaster | Combination:
    """Read a model written by ``Forecaster.save`` or ``Combination.save``; no code of a file runs.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Forecaster or Combination
        Fitted, with the forecasts of the model that was saved, to nine digits and more.

    Raises
    ------
    ValueError, OSError
        If the file is of another kind, damaged, changed, or of another format; or there is none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from forecast_unc import Forecaster, datasets, load_model
    >>> model = Forecaster(lags=2).fit(datasets.load_nile())
    >>> with TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/nile.npz")
    ...     again = load_model(f"{folder}/nile.npz")
    >>> bool((again.forecast(3).mean / model.forecast(3).mean - 1).abs().max() < 1e-9)
    True
    """
    found: Forecaster | Combination = saving.load(path, (Forecaster, Combination))
    return found


def _open_of(member: Any) -> Hashable | None:
    """The regressor that tells a member closed times, or None."""
    return member.open if isinstance(member, Forecaster | Combination) else None


@dataclass
class _ScenariosOfMembers:
    """Scenarios of the members of a combination, each made once for so many steps."""

    forecasters: Sequence[Any]
    steps: int
    given: Mapping[str, dict[str, Any]]  # regressors and their uncertainty, by scenario
    made: dict[tuple[int, bool, int], Scenarios] = field(default_factory=dict)

    def asks(self, name: str, **options: Any) -> list[Ask]:
        """What is asked of each member for a scenario."""
        return [partial(self._ask, n, name, options) for n in range(len(self.forecasters))]

    def longest(self, has_options: bool) -> dict[int, Scenarios]:
        """Those of most steps of each member that was asked, with options or without."""
        asked = sorted(key for key in self.made if key[1] == has_options)
        return {number: self.made[number, has_options, first] for number, _, first in asked}

    def _ask(self, number: int, name: str, options: dict[str, Any], first: int) -> Prediction:
        key, member = (number, bool(options), first), self.forecasters[number]
        if key not in self.made:
            cut = {name: _first_steps(one, first, self.steps) for name, one in self.given.items()}
            by_name = {
                word: {name: one[word] for name, one in cut.items() if word in one}
                for word in ("exog", "exog_std", "exog_cov")
            }
            self.made[key] = member.scenarios(steps=first, **by_name, **options)
        one = prediction_of(self.made[key][name])
        return replace(one, model=one.model or repr(member))


def _of(uncertainties: Uncertainties, name: str) -> Any:
    """That of a scenario."""
    return uncertainties.get(name) if isinstance(uncertainties, Mapping) else uncertainties


def _given(**inputs: Any) -> dict[str, Any]:
    """The inputs that were given: a member need not know the others."""
    return {name: value for name, value in inputs.items() if value is not None}


def _first_steps(given: dict[str, Any], first: int, steps: int) -> dict[str, Any]:
    """The regressors and their uncertainty, of the first steps alone."""
    if first == steps:
        return given
    exog, cut = given.get("exog"), {}
    size = 0 if exog is None else exog.size
    for name, value in given.items():
        square = np.shape(value) == (size, size)  # all columns of step 1, then of step 2
        rows = first * size // steps if square else first
        at = (slice(rows), slice(rows)) if square else slice(rows)
        cut[name] = value.iloc[at] if isinstance(value, pd.DataFrame) else value[at]
    return cut
