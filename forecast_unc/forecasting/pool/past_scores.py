r"""Weights by what each model's distributions were worth at origins inside the series.

The weight of a model at step h is in proportion to

.. math::

    \frac{1}{s_h^3}, \qquad
    s_h = \frac{\sigma_h / \sqrt{\pi} + m \, \overline{\mathrm{CRPS}}_h}{1 + m}, \qquad
    m = k / h

with the mean CRPS of its normal forecasts, of the width that they had there, over the steps from
h // 2 (or 1) to h and the origins in the last k values, recent ones counting more (the same origins
and steps for all models). What a model expects of itself, :math:`\sigma_h / \sqrt{\pi}`, counts as
one error more: m of them do not overlap. So a series without origins has weights by the width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from forecast_unc._typing import Array, Flags
from forecast_unc.distributions.scores import crps
from forecast_unc.forecasting.models.smoothing_filter import least_std
from forecast_unc.forecasting.pool.backcast import (
    Noises,
    Rolling,
    RollingSpreads,
    recent_means,
    rolling_spreads,
)
from forecast_unc.forecasting.pool.weights import Predictions, ScoreFactors, band_widths

# Powers from 3 to 6 have CRPS of 484 series within .2 % of each other; MSIS increases with it.
_POWER = 3.0
# Errors that the expected one counts as: with 0.5 CRPS is .4 % higher, with 2 and 4 that of series
# which fall in a straight line 1.3 and 1.9 times as high.
_EXPECTED = 1.0
# A model with so many times the score of the best is left out, if so many errors say so: on maps, a
# trace of a linear model adds its disagreement to the band; CRPS -1.0 %, MSIS -3 %; on 484 series
# the same. With fewer errors MSIS of those of years, quarters and weeks is 1 to 3 % higher.
_HOPELESS, _FEWEST = 2.0, 8.0
_CRPS = 1.0 / np.sqrt(np.pi)  # expected, of a standard normal
# Errors below this share of the mean change are as good as none: models of a straight line without
# noise have some of 1e-3 and 1e-6, and those which go on with it the larger ones.
_LEAST = 0.01


class PastScores(NamedTuple):
    """Mean CRPS of some models at the origins inside the series."""

    mean: Array  # (m, h); 0 where there are none
    number: Array  # (h,) of those that do not overlap
    least: float  # smaller ones are as good as none

    def factors(self, std: Array, counts: Flags) -> Array:
        """Factors (m, h) of the weights of models with stds (m, h), the largest 1 at each step.

        `counts`: the models that count at each step, (m, h); the factors of others are 0.
        """
        total = _EXPECTED * _CRPS * std + self.number * self.mean
        score = np.maximum(total / (_EXPECTED + self.number), self.least)
        best = np.where(counts, score, np.inf).min(axis=0)
        ratio = score / np.where(counts.any(axis=0), best, 1.0)
        hopeless = (ratio > _HOPELESS) & (self.number >= _FEWEST)
        return np.where(counts & ~hopeless, ratio**-_POWER, 0.0)


def past_scores(rolling: Rolling, spreads: RollingSpreads) -> PastScores:
    """Mean CRPS of the models where every model whose forecast has that many steps has a score."""
    steps = spreads.width.shape[1]
    observed = rolling.observed(steps)
    scores = _scores_at_origins(observed, spreads)
    has_step = (spreads.width > 0.0)[:, None]  # the others diverge before
    comparable = (np.isfinite(scores) | ~has_step).all(axis=0) & np.isfinite(observed)
    mean = recent_means(np.where(has_step, scores, 0.0), comparable)
    share = comparable[:, 0].mean() if len(comparable) else 0.0
    number = rolling.n_values * share / np.arange(1, steps + 1)
    number = np.where(np.isfinite(mean).all(axis=0), number, 0.0)
    least = _least_score(rolling.models[0].history.y)
    return PastScores(np.where(number > 0.0, mean, 0.0), number, least)


def _scores_at_origins(observed: Array, spreads: RollingSpreads) -> Array:
    """CRPS (m, k, h) of the forecasts from k origins; without a width, the absolute error."""
    scores = np.abs(observed - spreads.past_median)
    wide = np.isfinite(scores) & np.isfinite(spreads.past_width) & (spreads.past_width > 0.0)
    actual = np.broadcast_to(observed, scores.shape)[wide]
    scores[wide] = crps(actual, spreads.past_median[wide], spreads.past_width[wide])
    return scores


def _least_score(y: Array) -> float:
    """Score of a model that is as good as one without errors, by the mean change of a series."""
    changes = np.abs(np.diff(y[~np.isnan(y)]))
    share = _LEAST * float(changes.mean()) if len(changes) else 0.0
    return max(share, least_std(y))


def weights_by_scores(
    rolling: Rolling, noise: Noises, members: Predictions, counts: Flags
) -> Array:
    """Factors (m, h) of the weights of the models' predictions of the next steps, by past scores.

    `members`: a prediction a model of `rolling`, None if it has none; `counts` as of `factors`;
    `noise`: each model's own of the next steps, at least so many.
    """
    steps = counts.shape[1]
    stds = _stds(members, steps)
    # over the same steps as the scores, as from a single origin
    std = recent_means(stds[:, None], np.ones((1, steps), dtype=np.bool_))
    scores = past_scores(rolling, rolling_spreads(rolling, members, noise, steps))
    return scores.factors(std, counts)


def weights_by_step(rolling: Rolling, noise: Noises, first: Predictions) -> ScoreFactors:
    """Factors (m, n) of the weights of one-step predictions of n past times, by past scores.

    `first`: predictions of one time, whose widths the scores are of; `noise`: each model's there.
    """
    scores = past_scores(rolling, rolling_spreads(rolling, first, noise, 1))
    return lambda members, counts: scores.factors(_stds(members, counts.shape[1]), counts)


def _stds(members: Predictions, steps: int) -> Array:
    """Widths of the 95 % bands (m, steps) as stds: a tail counts; 0 beyond the end."""
    return band_widths(members, steps) / (2.0 * ndtri(0.975))
