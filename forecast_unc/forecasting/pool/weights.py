"""Weights over the forecasts of several models: by the step, never by the horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from forecast_unc._typing import Array, Flags, Positions
from forecast_unc.distributions import prediction
from forecast_unc.distributions.joint import Diverged
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.forecasting.choose.specification import Averaging
from forecast_unc.forecasting.models.smoothing_filter import least_std

Ask = Callable[[int], Prediction]
"""A model's prediction of the first so many steps."""

Predictions = Sequence[Prediction | None]
"""Those of several models, up to where each diverges: None where it has no first step."""

Worth = Callable[[Predictions, Flags], Array]
"""Factors (k, h) of the weights of k predictions, of those that count at each step (k, h)."""

# Mean over median of a lognormal of log std 2: beyond, the mean is that of a tail. The largest
# ratio of std to band of 270 short lognormal series falls from 1.4e5 to 4.
_TAIL = float(np.exp(2.0))


def average(
    rule: Averaging,
    asks: Sequence[Ask],
    weights: Array,
    steps: int,
    *,
    references: Sequence[Ask] = (),
    can_look_ahead: bool = True,
    yardstick: Array | None = None,
    worth: Worth | None = None,
) -> Averaged:
    """The average of members with these weights (k,), and the widths of `references`, if any.

    Where members cannot look ahead weights are taken from the steps so far. `yardstick`: widths
    of 95 % (steps,) that say what explodes; `worth`: further factors of the weights.
    """
    places = [int(i) for i in np.flatnonzero(weights > 0)]  # others are not asked
    ahead = rule.look_ahead if can_look_ahead else 1
    horizon = max(steps, ahead)
    source = references or asks
    judged, errors = until_diverged([source[i] for i in places], horizon)
    forecasts: Predictions = [None if f is None else f.first(steps) for f in judged]
    if references:
        forecasts, errors = until_diverged([asks[i] for i in places], steps)
    reach = _lengths(forecasts)
    if rule.widest is None and reach.min() < steps:
        raise errors[int((reach < steps).argmax())]  # of the simplest
    if reach.max() < steps:
        raise errors[int(reach.argmax())]  # of the step that none gets beyond
    given = np.repeat(weights[places, None], horizon, axis=1)
    shares = given * _within(judged, horizon)
    if len(places) > 1 and (rule.by_width or rule.widest is not None):
        shares *= shares_by_width(rule, judged, horizon, ahead, yardstick)
    if len(places) > 1 and worth is not None:
        shares *= worth(judged, shares > 0.0)
    within = _within(forecasts, steps)
    if references and rule.widest is not None and len(places) > 1:
        within &= ~_unstable(forecasts, judged, steps, rule.widest)
    used = shares[:, :steps] * within
    # steps that no judged member reaches use the given weights
    used = np.where(used.any(axis=0), used, given[:, :steps] * _within(forecasts, steps))
    made, own = pooled(rule, forecasts, used, places), horizon == steps and not references
    shares = shares[:, : int(shares.any(axis=0).sum())]
    return Averaged(made, judged, shares, own, rule)


def average_past(
    rule: Averaging,
    found: Sequence[PastSteps | None],
    weights: Array,
    yardstick: Array | None = None,
    worth: Worth | None = None,
) -> PastSteps | None:
    """The average at each time of the members that forecast it, by their widths there alone.

    `yardstick`: the width of 95 % of one step (1,) that says what explodes; `worth`: further
    factors of the weights.
    """
    kept = [i for i, (f, w) in enumerate(zip(found, weights, strict=True)) if f and w > 0.0]
    if not kept:
        return None
    members = [one for i in kept if (one := found[i]) is not None]
    at, forecasts = members[0].places, [one.prediction for one in members]
    shares = np.array([weights[i] * one.known for i, one in zip(kept, members, strict=True)])
    if len(kept) > 1 and (rule.by_width or rule.widest is not None):
        limit = None if yardstick is None else np.repeat(yardstick, len(at))
        at_once = replace(rule, look_ahead=1)
        factors = shares * shares_by_width(at_once, forecasts, len(at), 1, limit, for_good=False)
        if worth is not None:
            every = [None if one is None else one.prediction for one in found]
            counts = np.zeros((len(found), len(at)), dtype=np.bool_)
            counts[kept] = factors > 0.0
            factors *= worth(every, counts)[kept]
        shares = np.where(factors.any(axis=0), factors, shares)
    known = np.asarray(shares.any(axis=0))
    shares[:, ~known] = 1.0  # whatever stands there is not known
    return PastSteps(at, pooled(rule, forecasts, shares), known)


def shares_by_width(
    rule: Averaging,
    forecasts: Predictions,
    horizon: int,
    ahead: int,
    yardstick: Array | None = None,
    for_good: bool = True,
) -> Array:
    """Factors (k, h) of the weights of members that reach step `ahead`; 0: dropped `for_good`."""
    widths, tails = _widths_and_tails(forecasts, horizon)
    reach = _lengths(forecasts)
    ahead = min(ahead, int(reach.max()))  # if none gets there, as far as one does
    counts = _within(forecasts, horizon) & (reach >= ahead)[:, None]
    shares = counts.astype(np.float64)
    means = _trailing_means(widths, rule.look_ahead, ahead)
    if rule.widest is not None:
        own = means.min(axis=0, where=counts, initial=np.inf)
        limit = rule.widest * (own if yardstick is None else yardstick[:horizon])
        away = tails | (means > limit)
        calm = counts & ~(np.logical_or.accumulate(away, axis=1) if for_good else away)
        least = np.where(counts, means, np.inf).argmin(axis=0)
        nobody = ~calm.any(axis=0)  # then the narrowest
        calm[least[nobody], nobody] = counts[least[nobody], nobody]
        shares = calm.astype(np.float64)
    if rule.by_width:
        least = np.where(shares > 0, means, np.inf).min(axis=0)
        wider = means > least  # one lost to roundoff has width 0: then it alone counts
        shares *= np.divide(least, means, out=np.ones_like(means), where=wider)
    return shares


def pooled(
    rule: Averaging,
    forecasts: Predictions,
    shares: Array,
    places: Sequence[int] = (),
) -> Prediction:
    """The average, with shares (k, h) that are 0 beyond the end of a forecast."""
    h, kept = shares.shape[1], [i for i, one in enumerate(forecasts) if one is not None]
    members = [f.first(h) for f in forecasts if f is not None]
    numbers = [places[i] + 1 if places else i + 1 for i in kept]
    return prediction.average(members, shares[kept], rule.disagreement, numbers)


@dataclass(frozen=True, eq=False)
class Averaged:
    """An averaged prediction, and what its weights were taken from."""

    prediction: Prediction  # of the steps asked for
    members: Predictions  # the exact ones, with the steps looked ahead
    shares: Array  # (k, h), their weights
    own: bool  # the prediction is the average of these members
    rule: Averaging

    @cached_property
    def reference(self) -> Prediction:
        """The average of the members, to where the last with weight ends."""
        if self.own:
            return self.prediction
        used = self.shares * _within(self.members, self.shares.shape[1])
        return pooled(self.rule, self.members, used[:, : int(used.any(axis=0).sum())])


def own_changes(y: Array, steps: int) -> Array:
    """Widths of 95 % (steps,) of the series' own changes over 1, 2, ... steps, never narrower.

    Beyond half of the series by the root of the steps, as a random walk; of a constant, which
    smoothing gives a std, by that.
    """
    half, least = max(len(y) // 2, 1), least_std(y)
    widths = np.zeros(steps)
    for step in range(1, steps + 1):
        at = min(step, half)
        change = y[at:] - y[:-at]
        known = ~np.isnan(change)
        size = max(np.sqrt(np.mean(change[known] ** 2)), least) if known.any() else 0.0
        widths[step - 1] = 2.0 * ndtri(0.975) * size * np.sqrt(step / at)
    return np.asarray(np.maximum.accumulate(widths))


def until_diverged(asks: Sequence[Ask], steps: int) -> tuple[Predictions, dict[int, ValueError]]:
    """Each forecast up to the step at which it diverges, and why others end there, by place."""
    found = list[Prediction | None]()
    errors: dict[int, ValueError] = {}
    for place, ask in enumerate(asks):
        forecast, reach = None, steps
        while forecast is None and reach > 0:
            try:
                forecast = ask(reach)
            except ValueError as error:
                errors[place] = error
                # a shorter one may fail at an earlier step, for another reason (0: before all)
                reach = min(reach, error.step) - 1 if isinstance(error, Diverged) else 0
        found.append(forecast)
    return found, errors


def _unstable(
    forecasts: Predictions,
    references: Predictions,
    steps: int,
    widest: float,
) -> Flags:
    """True (k, steps) from where a forecast is `widest` times as wide as its exact one, or tail."""
    widths, tails = _widths_and_tails(forecasts, steps)
    limits, _ = _widths_and_tails(references, steps)
    both = _within(forecasts, steps) & _within(references, steps)
    away = both & ((widths > widest * limits) | tails)
    return np.asarray(np.logical_or.accumulate(away, axis=1))


def _widths_and_tails(forecasts: Predictions, steps: int) -> tuple[Array, Flags]:
    """Widths of the 95 % bands, 0 beyond the end, and whether the mean is all tail, (k, steps)."""
    widths = np.zeros((len(forecasts), steps))
    tails = np.zeros(widths.shape, dtype=np.bool_)
    for forecast, width, tail in zip(forecasts, widths, tails, strict=True):
        if forecast is not None:
            first = forecast.first(steps)
            h = len(first)
            # at a bound a band is narrow without being precise
            width[:h] = first.joint.width(0.95)
            median = first.joint.q.spread[0]
            tail[:h] = (first.joint.mean > _TAIL * median) & (median > 0)
    return widths, tails


def _within(forecasts: Predictions, steps: int) -> Flags:
    """Steps that each forecast has, (k, steps)."""
    return np.asarray(np.arange(steps) < _lengths(forecasts)[:, None])


def _lengths(forecasts: Predictions) -> Positions:
    """Steps of each forecast, (k,)."""
    return np.array([0 if f is None else len(f) for f in forecasts])


def _trailing_means(widths: Array, window: int, ahead: int) -> Array:
    """Means (k, h) over the `window` steps up to each step, before step `ahead` up to that one."""
    sums = np.pad(np.cumsum(widths, axis=1), ((0, 0), (1, 0)))
    end = np.maximum(np.arange(1, widths.shape[1] + 1), min(ahead, widths.shape[1]))
    start = np.maximum(end - window, 0)
    return np.asarray((sums[:, end] - sums[:, start]) / (end - start))
