"""A few forecasters as one: the average of their quantiles."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal, Protocol, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import check_whole
from forecast_unc._random import one_seed
from forecast_unc._typing import Array
from forecast_unc.distributions.forecast import Forecast
from forecast_unc.forecasting.averaging import Ask, Averaging
from forecast_unc.forecasting.persistence import save_model
from forecast_unc.forecasting.recursion import Propagation
from forecast_unc.series.values import check_is_series

# Rolling-origin validation: so many origins, half a horizon apart.
_N_ORIGINS = 3
# A horizon for it, at most this share of the series.
_LONGEST = 0.1


class Member(Protocol):
    """What a combination asks of a member; nothing need be inherited."""

    def fit(self, y: pd.Series[Any], /) -> Any:
        """Learn from a series, in place."""
        ...

    def update(self, y_new: pd.Series[Any], /) -> Any:
        """Take in what followed, in place, by making new state: a copy must not follow."""
        ...

    def apply(self, y: pd.Series[Any], /) -> Any:
        """Return the fitted member at the end of another series."""
        ...

    def forecast(self, steps: int, /, **options: Any) -> Forecast:
        """Return the forecast of the next steps."""
        ...


class Combination(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Several forecasters, their quantiles averaged.

    Of normal forecasts the average has the average mean and the average std; the correlations
    between the steps are those of the averaged covariance. The average of a few different
    specifications is better than each of them nearly everywhere, and safer than a choice.

    Parameters
    ----------
    forecasters : sequence of Forecaster
        The members; cloned, never modified. Baselines and other models with the same methods
        will do.
    weights : sequence of float, "inverse_width", "validation" or None, default=None
        Weight of each member; only the ratios count. "inverse_width" weights by 1 / width^1.5 at
        each step, with the mean width of the 95 % band over the 4 steps up to it, or the first 4:
        narrow bands count more, a little less than in an inverse-variance average, since some are
        overconfident.
        "validation" weights by 1 / CRPS^2 over three origins near the end of the series, with
        each member fitted once, before them; for long series, whose members differ. None weights
        all alike.
    widest : float, optional
        Drop a member at the steps at which it is more than so many times as wide as the narrowest
        member, and from the step on at which its mean is that of a tail (more than 7.4 medians) or
        it diverges; and the narrowest of three or more where it is narrower than a quarter of the
        next. Refuse one that cannot take in what is observed later, such as
        a logarithm a zero. By default none is dropped, and its error is that of the combination.

    Attributes
    ----------
    forecasters_ : list
        The fitted members.
    weights_ : ndarray
        Their weights, which add up to 1; for "inverse_width" those before the widths are known,
        all alike. Those that were used are in the `members` of a forecast.
    refused_ : dict of int to str
        Members that could not take in what was observed later, by number, with the reason.

    Examples
    --------
    >>> from forecast_unc import Combination, Forecaster, datasets
    >>> nile = datasets.load_nile()
    >>> both = Combination([Forecaster(lags=3), Forecaster(lags=1, differences=1)]).fit(nile)
    >>> both.forecast(5).interval(0.9).shape
    (5, 2)
    """

    def __init__(
        self,
        forecasters: Sequence[Member],
        weights: Sequence[float] | Literal["inverse_width", "validation"] | None = None,
        *,
        widest: float | None = None,
    ) -> None:
        self.forecasters = forecasters
        self.weights = weights
        self.widest = widest

    def fit(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Fit every member to a series.

        Parameters
        ----------
        y, exog, y_std
            As in `Forecaster.fit`.

        Returns
        -------
        Combination
        """
        weights = self._checked_weights()
        check_is_series(y)
        inputs = _given(exog=exog, y_std=y_std)
        fitted = []
        for number, forecaster in enumerate(self.forecasters):
            try:
                fitted.append(clone(forecaster).fit(y, **inputs))
            except ValueError as error:
                error.add_note(f"in member {number} of the combination, {forecaster!r}")
                raise
        if weights is None:
            weights = self._validated_weights(y, exog, y_std)
        self.refused_: dict[int, str] = {}
        self._keep(fitted, weights, {})
        return self

    def update(
        self, y_new: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """Take in the values that followed, with the same hyper-parameters and weights.

        Parameters
        ----------
        y_new, exog, y_std
            As in `Forecaster.update`.

        Returns
        -------
        Combination
        """
        check_is_fitted(self, "forecasters_")
        inputs = _given(exog=exog, y_std=y_std)
        # on copies, so that an error leaves all as they were
        self._keep(*self._those_that(lambda member: copy.copy(member).update(y_new, **inputs)))
        return self

    def apply(
        self, y: pd.Series, exog: pd.DataFrame | None = None, y_std: pd.Series | None = None
    ) -> Self:
        """The fitted members at the end of another series, with nothing learned anew.

        Parameters
        ----------
        y, exog, y_std
            As in `Forecaster.apply`.

        Returns
        -------
        Combination
            A new one; this one is unchanged.
        """
        check_is_fitted(self, "forecasters_")
        inputs = _given(exog=exog, y_std=y_std)
        applied = copy.copy(self)
        applied._keep(*self._those_that(lambda member: member.apply(y, **inputs)))
        return applied

    def forecast(
        self,
        steps: int,
        exog: pd.DataFrame | None = None,
        exog_cov: pd.DataFrame | Array | None = None,
        *,
        propagation: Propagation = "exact",
        **options: Any,
    ) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        steps, exog, exog_cov
            As in `Forecaster.forecast`.
        propagation : {"exact", "taylor", "mixture", "monte_carlo", "naive", "auto"}
            As in `Forecaster.forecast`; members that are none have "exact" alone.
        **options
            Its other keywords, for every member.

        Returns
        -------
        Forecast
            See `Forecast.average`. Widths that decide are those of the members' default forecasts,
            whatever the options.

        Raises
        ------
        ValueError
            If a member cannot forecast, or does not have an option.
        """
        check_is_fitted(self, "forecasters_")
        check_whole("steps", steps, 1, "1 is the next value.")
        if propagation != "exact":
            options["propagation"] = propagation
        if "random_state" in options:  # one generator for all would depend on the horizon
            options["random_state"] = one_seed(options["random_state"])
        given = _given(exog=exog, exog_cov=exog_cov, exog_std=options.pop("exog_std", None))

        def asks(**options: Any) -> list[Ask]:
            def ask(member: Member, first: int) -> Forecast:
                cut = _first_steps(given, first, steps)
                return member.forecast(first, **cut, **options)._named(repr(member))

            return [partial(ask, member) for member in self.forecasters_]

        averaging = Averaging(self._inverse_width, self.widest)
        references = asks() if options else []
        return averaging.average(
            asks(**options),
            self.weights_,
            steps,
            references=references,
            can_look_ahead=not given,
        ).forecast

    @property
    def numbers_(self) -> list[int]:
        """Places of the fitted members in `forecasters`."""
        n = len(self.forecasters_) + len(self.refused_)
        return [number for number in range(n) if number not in self.refused_]

    def _those_that(
        self, make: Callable[[Member], Member]
    ) -> tuple[list[Member], Array, dict[int, str]]:
        """What is made of the members, their weights, and what the others said, by number."""
        results, weights, errors = [], [], {}
        for number, member, weight in zip(
            self.numbers_, self.forecasters_, self.weights_, strict=True
        ):
            try:
                results.append(make(member))
                weights.append(weight)
            except ValueError as error:
                if self.widest is None:
                    raise
                errors[number] = error
        if not any(weights):
            raise next(iter(errors.values()))  # of the simplest
        return results, np.array(weights), {n: str(e) for n, e in errors.items()}

    def _keep(self, members: list[Member], weights: Array, refused: dict[int, str]) -> None:
        """Take these members and their weights, and note those refused."""
        self.forecasters_, self.weights_ = members, weights / weights.sum()
        self.refused_ = self.refused_ | refused

    @property
    def _inverse_width(self) -> bool:
        return isinstance(self.weights, str) and self.weights == "inverse_width"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted combination to a file, for `load_model`.

        Parameters
        ----------
        path : str or path
            File to write; a pickle, so load it only from a source you trust, and with the
            same version of the package.
        """
        check_is_fitted(self, "forecasters_")
        save_model(self, path)

    def _checked_weights(self) -> Array | None:
        """Weights of the members, None for those of validation, or an error."""
        members = self.forecasters
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise ValueError(
                f"forecasters must be a sequence of at least one forecaster; got {members!r}. "
                "Pass [Forecaster(...), Forecaster(...)]."
            )
        for member in members:
            if isinstance(member, type) or not (
                hasattr(member, "fit") and hasattr(member, "forecast")
            ):
                raise TypeError(
                    f"forecasters must hold models with fit and forecast; got {member!r}. "
                    "Pass Forecaster(...)."
                )
        if self.widest is not None and not (
            isinstance(self.widest, (int, float, np.number)) and self.widest > 1
        ):
            raise ValueError(
                f"widest must be greater than 1; got {self.widest!r}. Use None to keep all members."
            )
        if self.weights is None or self._inverse_width:
            return np.ones(len(members))
        if isinstance(self.weights, str):
            if self.weights != "validation":
                raise ValueError(
                    "weights must be numbers, 'inverse_width', 'validation' or None; got "
                    f"{self.weights!r}. None weights all members alike."
                )
            return None
        weights = np.asarray(self.weights)
        if np.issubdtype(weights.dtype, np.number):
            weights = weights.astype(np.float64)
        if (
            weights.dtype != np.float64
            or weights.shape != (len(members),)
            or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any())
        ):
            raise ValueError(
                f"weights must be {len(members)} numbers, none negative and not all 0; got "
                f"{self.weights!r}. None weights all members alike."
            )
        return weights

    def _validated_weights(
        self, y: pd.Series, exog: pd.DataFrame | None, y_std: pd.Series | None
    ) -> Array:
        """1 / CRPS^2 of each member over the last origins, fitted before the first of them."""
        steps = max(1, min(24, int(_LONGEST * len(y))))
        cuts = [len(y) - steps - i * max(1, steps // 2) for i in reversed(range(_N_ORIGINS))]
        loss = []
        for forecaster in self.forecasters:
            model = clone(forecaster)
            total = 0.0
            for cut in cuts:
                past = {k: v.iloc[:cut] for k, v in _given(exog=exog, y_std=y_std).items()}
                if cut == cuts[0]:
                    model.fit(y.iloc[:cut], **past)
                now = model.apply(y.iloc[:cut], **past)
                future = {} if exog is None else {"exog": exog.iloc[cut : cut + steps]}
                forecast = now.forecast(steps, **future)
                crps = forecast.score(y.iloc[cut : cut + steps])["crps"].mean()
                total += 0.0 if np.isnan(crps) else float(crps)  # nothing was observed there
            loss.append(total)
        best = min(loss)
        return np.array([(best / value) ** 2 if value > 0 else 1.0 for value in loss])


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
