"""Weights over the forecasts of several models: by the step, never by the horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecast_unc._typing import Array
from forecast_unc.forecasting.diverged import Diverged
from forecast_unc.forecasting.forecast import Forecast

Ask = Callable[[int], Forecast]
"""A model's forecast of the first so many steps."""

# Narrower bands than so many times the next narrowest are overconfident. The next,
# not the median: where most members explode, the median says nothing.
_NARROWEST = 0.25
# With 2 the bands of monthly and quarterly series get too narrow, with 1 members
# that are wide because they are unstable count too much. examples/benchmarks/README.md.
POWER = 1.5
# A mean so many times the median (a lognormal of log std 2) is one of a tail, not of the series.
_SKEWED = float(np.exp(2.0))


@dataclass(frozen=True)
class Averaging:
    """How the quantiles of several forecasts are averaged.

    The width of a forecast at a step is that of its 95 % band, averaged over the steps so far: a
    weight depends on the step, never on how many steps are asked for.

    Parameters
    ----------
    by_width : bool, default=False
        Weight by 1 / width^1.5.
    widest : float, optional
        From the step on at which its width is more than so many times that of the narrowest, its
        mean has left the median far behind or it diverges, a forecast is dropped; and the
        narrowest of three or more where it is narrower than a quarter of the next. Without it none
        is dropped, and an error is that of the average.
    """

    by_width: bool = False
    widest: float | None = None

    def average(
        self, asks: Sequence[Ask], weights: Array, steps: int, references: Sequence[Ask] = ()
    ) -> Forecast:
        """The averaged forecast.

        Parameters
        ----------
        asks : sequence of callable
            The forecasts of the k members.
        weights : ndarray of shape (k,)
            Their weights before the widths are known, at least one positive. Those without weight
            are not asked.
        steps : int
            Steps to forecast.
        references : sequence of callable, optional
            The forecasts that widths are taken from; by default those averaged.

        Returns
        -------
        Forecast

        Raises
        ------
        ValueError
            If no member can forecast, or with `widest` of None one cannot.
        """
        asked = [i for i, weight in enumerate(weights) if weight > 0]
        if len(asked) == 1:
            return asks[asked[0]](steps)
        forecasts, errors = self._as_far_as_they_go([asks[i] for i in asked], steps)
        kept = [i for i, forecast in zip(asked, forecasts, strict=True) if forecast is not None]
        averaged = [forecast for forecast in forecasts if forecast is not None]
        reach = max(map(len, averaged), default=0)
        if reach < steps:
            # of the simplest, or of the step that none gets beyond
            raise errors[0] if not reach else Diverged(str(errors[0]), reach + 1)
        shares = np.zeros((len(averaged), steps))
        for share, forecast in zip(shares, averaged, strict=True):
            share[: len(forecast)] = 1.0
        shares *= weights[kept, None]
        if self.by_width or self.widest is not None:
            judged = averaged
            if references:
                found, _ = self._as_far_as_they_go([references[i] for i in kept], steps)
                judged = [f for f in found if f is not None]
            shares = shares * self.shares(judged, steps)
        return Forecast.average(averaged, shares)

    def shares(self, forecasts: Sequence[Forecast], steps: int) -> Array:
        """Factor of each weight at each step, (k, h); 0 where the forecast is dropped."""
        widths = np.full((len(forecasts), steps), np.inf)
        skewed = np.ones((len(forecasts), steps), dtype=bool)
        for i, forecast in enumerate(forecasts):
            band, h = forecast.interval(0.95).to_numpy(), len(forecast)
            widths[i, :h] = np.cumsum(band[:, 1] - band[:, 0]) / np.arange(1, h + 1)
            ratio = forecast.mean.to_numpy() > _SKEWED * forecast.median.to_numpy()
            skewed[i, :h] = ratio & (forecast.median.to_numpy() > 0)
        kept = np.isfinite(widths)
        if self.widest is not None:
            kept = self._sane(widths, skewed)
        if not self.by_width:
            return kept.astype(np.float64)
        least = np.where(kept, widths, np.inf).min(axis=0)
        wider = widths > least  # one lost to roundoff has width 0: then it alone counts
        ratio = np.divide(least, widths, out=np.ones_like(widths), where=wider)
        return np.where(kept, ratio**POWER, 0.0)

    def _sane(self, widths: Array, skewed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which forecasts count at each step, (k, h); dropped once is dropped for good."""
        assert self.widest is not None
        kept = np.isfinite(widths)
        calm = kept & ~np.logical_or.accumulate(skewed, axis=1)
        kept = np.where(calm.any(axis=0), calm, kept)
        if len(widths) > 2:
            kept &= widths >= _NARROWEST * np.sort(widths, axis=0)[1]
        least = np.where(kept, widths, np.inf).min(axis=0)
        return kept & (widths <= self.widest * least)

    def _as_far_as_they_go(
        self, asks: Sequence[Ask], steps: int
    ) -> tuple[list[Forecast | None], list[ValueError]]:
        """Each forecast up to the step at which it diverges, and what was said of the others."""
        found: list[Forecast | None] = []
        errors: list[ValueError] = []
        for ask in asks:
            forecast = None
            try:
                forecast = ask(steps)
            except ValueError as error:
                if self.widest is None:
                    raise
                errors.append(error)
                if isinstance(error, Diverged) and error.step > 1:
                    forecast = ask(error.step - 1)
            found.append(forecast)
        return found, errors
