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
from forecast_unc.distributions.marginals import Spread
from forecast_unc.distributions.prediction import PastSteps, Prediction
from forecast_unc.forecasting.choose.specification import Averaging
from forecast_unc.forecasting.models.smoothing_filter import least_std

Ask = Callable[[int], Prediction]
"""A model's prediction of the first so many steps."""

Predictions = Sequence[Prediction | None]
"""Those of several models, up to where each diverges: None where it has no first step."""

ScoreFactors = Callable[[Predictions, Flags], Array]
"""Factors (k, h) of the weights of k predictions, by scores; 0 where one does not count (k, h)."""

# Mean over median of a lognormal of log std 2: beyond, the mean is that of a tail. The largest
# ratio of std to band of 270 short lognormal series falls from 1.4e5 to 4.
_TAIL = float(np.exp(2.0))
# Of steps far from the past: widths and the distance of the last value in stds of the series,
# fewest values, and what changes may grow by in twice the time (1.4 for a walk, 2 for a trend).
# A median beyond the values by less than their range may be right: of bursts it was.
_WIDE, _AMONG, _LONG, _HARDLY = 2.0, 3.0, 100, 1.2


def average(
    rule: Averaging,
    asks: Sequence[Ask],
    weights: Array,
    steps: int,
    *,
    references: Sequence[Ask] = (),
    can_look_ahead: bool = True,
    change_widths: Array | None = None,
    score_factors: ScoreFactors | None = None,
) -> Averaged:
    """The average of members with votes `weights` (k,), times factors by width and by score.

    `references`: the members' exact forecasts, from which factors are taken, if not from `asks`.
    `change_widths`: widths of 95 % of the series' own changes (steps,), the unit of `rule.widest`.
    Where members cannot look ahead, factors are taken from the steps so far.
    """
    voters = [int(i) for i in np.flatnonzero(weights > 0)]  # others are not asked
    ahead = rule.look_ahead if can_look_ahead else 1
    horizon = max(steps, ahead)
    several = len(voters) > 1
    exact, errors = until_diverged([(references or asks)[i] for i in voters], horizon)
    forecasts: Predictions = [None if one is None else one.first(steps) for one in exact]
    if references:
        forecasts, errors = until_diverged([asks[i] for i in voters], steps)
    _check_reach(rule, forecasts, steps, errors)
    votes = np.repeat(weights[voters, None], horizon, axis=1)
    shares = votes * _within(exact, horizon)
    if several and (rule.by_width or rule.widest is not None):
        shares *= shares_by_width(rule, exact, horizon, ahead, change_widths)
    if several and score_factors is not None:
        shares *= score_factors(exact, shares > 0.0)
    reached = _within(forecasts, steps)
    usable = reached
    if several and references and rule.widest is not None:
        usable = ~unstable(forecasts, exact, steps, rule.widest)
    used = shares[:, :steps] * usable
    # steps that no member with a share reaches use the votes
    used = np.where(used.any(axis=0), used, votes[:, :steps] * reached)
    pooled_steps = pooled(rule, forecasts, used, voters)
    shares = shares[:, : int(shares.any(axis=0).sum())]
    own, weight = horizon == steps and not references, np.zeros((len(asks), steps))
    weight[voters] = used / used.sum(axis=0)
    return Averaged(pooled_steps, exact, shares, own, rule, weight)


def _check_reach(
    rule: Averaging, forecasts: Predictions, steps: int, errors: dict[int, ValueError]
) -> None:
    """Raise if a forecast diverges and none may be dropped, or if none reaches the last step."""
    reach = _lengths(forecasts)
    if rule.widest is None and reach.min() < steps:
        raise errors[int((reach < steps).argmax())]  # of the simplest
    if reach.max() < steps:
        raise errors[int(reach.argmax())]  # of the step that none gets beyond


def average_past(
    rule: Averaging,
    members: Sequence[PastSteps | None],
    weights: Array,
    change_width: Array | None = None,
    score_factors: ScoreFactors | None = None,
) -> PastSteps | None:
    """The average at each past time of the members that forecast it, by their widths at that time.

    `weights`: votes (k,); `change_width`: width of 95 % of the series' changes of one step, (1,).
    """
    voters = [i for i, one in enumerate(members) if one is not None and weights[i] > 0.0]
    if not voters:
        return None
    present = [one for i in voters if (one := members[i]) is not None]
    times, forecasts = present[0].places, [one.prediction for one in present]
    votes = np.array([weights[i] * one.known for i, one in zip(voters, present, strict=True)])
    shares = votes
    if len(voters) > 1 and (rule.by_width or rule.widest is not None):
        by_time = replace(rule, look_ahead=1)
        unit = None if change_width is None else np.repeat(change_width, len(times))
        shares = votes * shares_by_width(by_time, forecasts, len(times), 1, unit, for_good=False)
        if score_factors is not None:
            # scores are of all members, in their order
            counts = np.zeros((len(members), len(times)), dtype=np.bool_)
            counts[voters] = shares > 0.0
            predictions = [None if one is None else one.prediction for one in members]
            shares *= score_factors(predictions, counts)[voters]
        shares = np.where(shares.any(axis=0), shares, votes)
    known = np.asarray(shares.any(axis=0))
    shares[:, ~known] = 1.0  # the values there are marked as not known
    return PastSteps(times, pooled(rule, forecasts, shares), known)


def shares_by_width(
    rule: Averaging,
    forecasts: Predictions,
    horizon: int,
    ahead: int,
    change_widths: Array | None = None,
    for_good: bool = True,
) -> Array:
    """Factors (k, h) of the weights of members that reach step `ahead`; 0: dropped `for_good`."""
    widths, reach = band_widths(forecasts, horizon), _lengths(forecasts)
    ahead = min(ahead, int(reach.max()))  # if none gets there, as far as one does
    counts = _within(forecasts, horizon) & (reach >= ahead)[:, None]
    shares = counts.astype(np.float64)
    means = _trailing_means(widths, rule.look_ahead, ahead)
    if rule.widest is not None:
        own = means.min(axis=0, where=counts, initial=np.inf)
        limit = rule.widest * (own if change_widths is None else change_widths[:horizon])
        away = _tails(forecasts, horizon) | (means > limit)
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
    used: Array  # (n, h), weights of all n members in the prediction

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


def far_from_past(y: Array, spread: Spread) -> Flags:
    """Next steps (h,) far wider than all values of a series that stays in a range, or far from it.

    Such a series is long, its changes over so many steps are hardly larger than those over half as
    many, and its last value is among the others.
    """
    known = y[~np.isnan(y)]
    mean, std = float(known.mean()), float(known.std())
    low, high = known.min(), known.max()
    beyond = np.maximum(low - spread.median, spread.median - high)
    far = (spread.scale > _WIDE * std) | (beyond > high - low)
    is_short = len(known) < _LONG or std <= least_std(y)  # or constant
    if not far.any() or is_short or abs(known[-1] - mean) > _AMONG * std:
        return np.zeros_like(far)
    widths, steps = np.append(0.0, own_changes(y, len(far))), np.arange(1, len(far) + 1)
    return np.asarray(far & (widths[steps] <= _HARDLY * widths[steps // 2]))


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


def unstable(
    forecasts: Predictions,
    references: Predictions,
    steps: int,
    widest: float,
) -> Flags:
    """True (k, steps) from where one ends, is `widest` times as wide as exactly, or all tail."""
    widths, limits = band_widths(forecasts, steps), band_widths(references, steps)
    reached = _within(forecasts, steps)
    wide = (widths > widest * limits) | _tails(forecasts, steps)
    away = ~reached | (_within(references, steps) & wide)
    return np.asarray(np.logical_or.accumulate(away, axis=1))


def _tails(forecasts: Predictions, steps: int) -> Flags:
    """Whether the mean of each step is all tail, (k, steps)."""
    tails = np.zeros((len(forecasts), steps), dtype=np.bool_)
    for forecast, tail in zip(forecasts, tails, strict=True):
        if forecast is not None:
            first = forecast.first(steps)
            median = first.joint.q.spread.median
            tail[: len(first)] = (first.joint.mean > _TAIL * median) & (median > 0)
    return tails


def band_widths(forecasts: Predictions, steps: int) -> Array:
    """Widths of the 95 % bands (k, steps) without bounds; 0 beyond the end of a forecast.

    At a bound a band is narrow without being precise.
    """
    widths = np.zeros((len(forecasts), steps))
    for forecast, width in zip(forecasts, widths, strict=True):
        if forecast is not None:
            first = forecast.first(steps)
            width[: len(first)] = first.joint.width(0.95)
    return widths


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
