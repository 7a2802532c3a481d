"""A few forecasters as one: the average of their quantiles."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from forecast_unc._typing import Array
from forecast_unc.forecasting.forecast import Forecast
from forecast_unc.forecasting.persistence import save_model
from forecast_unc.forecasting.series import check_is_series

# With `widest`, narrower bands than so many times the next narrowest are overconfident. The next,
# not the median: where most members explode, the median says nothing.
_NARROWEST = 0.25
# "inverse_width": with 2 the bands of monthly and quarterly series get too narrow, with 1 members
# that are wide because they are unstable count too much. examples/benchmarks/README.md.
POWER = 1.5
# Rolling-origin validation: so many origins, half a horizon apart.
_N_ORIGINS = 3
# A horizon for it, at most this share of the series.
_LONGEST = 0.1


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
        Weight of each member; only the ratios count. "inverse_width" weights by 1 / width^1.5,
        with the mean width of the 95 % band over the steps of each forecast: the surer count
        more, a little less than in an inverse-variance average, since some are too sure.
        "validation" weights by 1 / CRPS^2 over three origins near the end of the series, with
        each member fitted once, before them; for long series, whose members differ. None weights
        all alike.
    widest : float, optional
        Leave a member out of a forecast where its 95 % bands are on average more than so many
        times as wide as the narrowest member's, and where it cannot forecast; and the narrowest
        of three or more, if it is narrower than a quarter of the next. Leave out,
        from then on, one that cannot take in what is observed later, such as a logarithm a zero.
        By default none is left out, and its error is that of the combination.

    Attributes
    ----------
    forecasters_ : list
        The fitted members.
    weights_ : ndarray
        Their weights, which add up to 1; for "inverse_width" those before the widths are known,
        all alike.
    refused_ : dict of int to str
        Members left out for good, by number, with the reason: those that cannot take in what
        is observed later, and of an automatic combination those that could not be fitted.

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
        forecasters: Sequence[Any],
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
        return self._fit(y, exog, y_std, refuse=False)

    def _fit_those_that_can(
        self, y: pd.Series, exog: pd.DataFrame | None, y_std: pd.Series | None
    ) -> Self:
        """Fit, and leave out what does not suit the series, unless nothing does."""
        return self._fit(y, exog, y_std, refuse=True)

    def _fit(
        self, y: pd.Series, exog: pd.DataFrame | None, y_std: pd.Series | None, refuse: bool
    ) -> Self:
        weights = self._checked_weights()
        check_is_series(y)
        inputs = _given(exog=exog, y_std=y_std)
        fitted, errors = {}, {}
        for number, forecaster in enumerate(self.forecasters):
            try:
                fitted[number] = clone(forecaster).fit(y, **inputs)
            except ValueError as error:
                if not refuse:
                    error.add_note(f"in member {number} of the combination, {forecaster!r}")
                    raise
                errors[number] = error
        if not fitted:
            raise errors[0]  # of the simplest
        if weights is None:
            assert not refuse
            weights = self._validated_weights(y, exog, y_std)
        weights = weights[list(fitted)]
        self.forecasters_ = list(fitted.values())
        self.weights_ = weights / weights.sum()
        self.refused_ = {number: str(error) for number, error in errors.items()}
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
        **options: Any,
    ) -> Forecast:
        """Joint forecast of the next values.

        Parameters
        ----------
        steps, exog, exog_cov
            As in `Forecaster.forecast`.
        **options
            Its keywords, such as ``propagation="naive"``, for every member.

        Returns
        -------
        Forecast
            See `Forecast.average`.
        """
        check_is_fitted(self, "forecasters_")
        inputs = _given(exog=exog, exog_cov=exog_cov)
        forecasts, weights, _ = self._those_that(
            lambda member: member.forecast(steps, **inputs, **options), weighted=True
        )
        return Forecast.average(forecasts, weights * self._shares_by_width(forecasts))

    @property
    def numbers_(self) -> list[int]:
        """Places of the fitted members in `forecasters`."""
        n = len(self.forecasters_) + len(self.refused_)
        return [number for number in range(n) if number not in self.refused_]

    def _those_that(
        self, can: Callable[[Any], Any], weighted: bool = False
    ) -> tuple[list[Any], Array, dict[int, str]]:
        """What the members return, their weights, and what the others said, by number.

        With `weighted` those without weight are not asked.
        """
        results, weights, errors = [], [], {}
        for number, member, weight in zip(
            self.numbers_, self.forecasters_, self.weights_, strict=True
        ):
            if weighted and weight == 0.0:
                continue
            try:
                results.append(can(member))
            except ValueError as error:
                if self.widest is None:
                    raise
                errors[number] = error
            else:
                weights.append(weight)
        if not any(weights):
            raise next(iter(errors.values()))  # of the simplest
        return results, np.array(weights), {n: str(e) for n, e in errors.items()}

    def _keep(self, members: list[Any], weights: Array, refused: dict[int, str]) -> None:
        """Go on with those members."""
        self.forecasters_, self.weights_ = members, weights / weights.sum()
        self.refused_ = self.refused_ | refused

    def _shares_by_width(self, forecasts: Sequence[Forecast]) -> Array:
        """Factor of each member's weight for the width of its bands, 0 to leave it out."""
        shares = np.ones(len(forecasts))
        if self.widest is None and not self._inverse_width:
            return shares
        widths = np.array([np.ptp(f.interval(0.95).to_numpy(), axis=1).mean() for f in forecasts])
        if self.widest is not None:
            if len(widths) > 2:
                shares[widths < _NARROWEST * np.sort(widths)[1]] = 0.0
            shares[widths > self.widest * widths[shares > 0].min()] = 0.0
        if self._inverse_width:
            least = widths[shares > 0].min()  # 0 if lost to roundoff: then it alone counts
            wider = widths > least
            shares[wider] *= (least / widths[wider]) ** POWER
        return shares

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
