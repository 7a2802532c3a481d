r"""Bands made as wide as rolling origins inside the training part found them to be needed.

With z the errors of the averaged forecast from origins in the last k values, in units of half the
width of its 68 % band s_h, the bands of step h are widened by

.. math::

    \log c_h^2 = \beta_0 + \frac{m}{4 + m} \left[2 \log \tfrac{\overline{|z|}}{\sqrt{2/\pi}}\right]
    + \beta_1 \left[\log \tfrac{\mathrm{Var}\,y}{s_h^2}\right] + \frac{\beta_2}{\sqrt{1 + k}},
    \qquad m = k / h

with the mean of |z| over the steps from h // 2 (or 1) to h, each weighted by its unit and by
exp(-2 a), the age a of its origin from 0, of the last, to 1, and what is in brackets between -1 and
1. So the errors count for what they are worth: m of them do not overlap, in-sample hyper-parameters
make them too small where values are few, and bands that are narrow beside the series' own spread
are too narrow more often than others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from forecast_unc._checks import refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.marginals import error_scores, error_sizes
from forecast_unc.forecasting.pool.backcast import Noises, Rolling, recent_means, rolling_spreads
from forecast_unc.forecasting.pool.weights import Predictions

# By maximum likelihood of what followed origins inside the training parts of 1,300 series: 17 sets
# of real ones, simulated ones, ordinary ones; docs/benchmarks/all.md.
_BETA = (-0.35, 0.15, 2.01)
_MEAN_ABS = float(np.sqrt(2.0 / np.pi))  # E|z| of a standard normal
_MOST_Z = 6.0  # an error counts for no more stds: a single one would decide
# Correlations of so many neighbouring steps, and the share of what they show that is believed.
_NEIGHBOURS, _BELIEVED = 3, 0.6
# The prior of the degrees of freedom: log(dof - 2) ~ N(log 5, 1), on a grid.
_DOF = np.array([3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 14.0, 20.0, 30.0])
_LOG_PRIOR = -0.5 * (np.log(_DOF - 2.0) - np.log(5.0)) ** 2
# Share of the weights that an origin needs: with less the errors describe a different forecast.
_LEAST_WEIGHT = 0.3
# Fewer values with origins than so many count as so many, errors count beside so many that say
# nothing, and fewer errors of one step tell of no tails.
_FEWEST = 4
# An error of 0 throughout says that the bands are too wide, not that they are infinitely so.
_LEAST_SIZE = 1e-3
_EM_STEPS = 20
_FEWEST_CONFORMAL = 8


class Errors(NamedTuple):
    """Errors of an averaged forecast from origins inside the training part."""

    z: Array  # (k, h), in units of half its 68 % band there; NaN where nothing was observed
    unit: Array  # (k, h), that half, in units of y
    level: Array  # (h,), log of the variance of the series over the square of that unit
    n_values: int  # from the first origin on

    def first(self, steps: int | None) -> Errors:
        """Errors of the first steps; None for all."""
        z, unit, level = self.z[:, :steps], self.unit[:, :steps], self.level[:steps]
        return self._replace(z=z, unit=unit, level=level)


class Calibration(NamedTuple):
    """Changes of bands and correlations; see `Forecast.recalibrated`."""

    factor: Array  # (h,)
    dof: float
    correlation: float

    def of(self, joint: Joint) -> Joint:
        """The joint with other bands and correlations; the last factor counts beyond it."""
        beyond = max(len(joint) - len(self.factor), 0)
        factor = np.pad(self.factor, (0, beyond), mode="edge")[: len(joint)]
        return joint.recalibrated(factor, self.dof, self.correlation)


def rolling_errors(
    rolling: Rolling,
    noise: Noises,
    members: Predictions,
    shares: Array,
    disagreement: bool = False,
) -> Errors:
    """Errors of an average by shares (k, h), from origins inside the history of its models.

    Widths there are those of the members, times the slope of the transform there over that here.
    """
    y, h = rolling.models[0].history.y, shares.shape[1]
    medians, widths, values, scales = rolling_spreads(rolling, members, noise, h)
    good = (shares[:, None] > 0) & np.isfinite(values) & (scales > 0.0) & np.isfinite(scales)
    inside = np.where(good, shares[:, None], 0.0)
    center, unit = _average(values, scales, inside, disagreement)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (rolling.observed(h) - center) / unit
        now = _average(medians, widths, np.where(widths > 0.0, shares, 0.0), disagreement)[1]
        level = np.log(np.nanvar(y)) - 2.0 * np.log(now)
    enough = inside.sum(axis=0) > _LEAST_WEIGHT * shares.sum(axis=0)
    level = np.where(np.isnan(now), 0.0, level)
    return Errors(np.where(enough, z, np.nan), unit, level, rolling.n_values)


def _average(
    centers: Array, units: Array, shares: Array, disagreement: bool
) -> tuple[Array, Array]:
    """Center and unit of an average over the first axis; NaN where none has a share."""
    with np.errstate(invalid="ignore", over="ignore"):  # what explodes has an infinite unit
        shares = shares / shares.sum(axis=0)
        used = shares > 0.0
        center = np.where(used, shares * centers, 0.0).sum(axis=0)
        unit = np.where(used, shares * units, 0.0).sum(axis=0)
        between = np.where(used, shares * (centers - center) ** 2, 0.0).sum(axis=0)
    known = used.any(axis=0)
    unit = np.hypot(unit, np.sqrt(between)) if disagreement else unit
    return np.where(known, center, np.nan), np.where(known, unit, np.nan)


def calibration(errors: Errors, reference: Joint, look_ahead: int) -> Calibration:
    """Calibration by errors in units of the bands of the reference; see `Forecast.recalibrated`.

    The correlations are taken from the steps looked ahead: they do not depend on the horizon.
    """
    known = np.isfinite(errors.z[:, 0])  # whatever the horizon
    k = max(_FEWEST, errors.n_values * known.sum() / max(len(known), 1))
    apart = k / np.arange(1, errors.z.shape[1] + 1)
    spread = 2.0 * np.log(_mean_sizes(errors) / _MEAN_ABS)
    log_var = _BETA[0] + apart / (_FEWEST + apart) * np.clip(spread, -1.0, 1.0)
    log_var += _BETA[1] * np.clip(errors.level, -1.0, 1.0) + _BETA[2] / np.sqrt(1.0 + k)
    cov = reference.cov[:look_ahead, :look_ahead]
    correlation = _correlation(errors.z[:, :look_ahead], cov)
    return Calibration(np.exp(0.5 * log_var), _degrees_of_freedom(errors.z[:, 0]), correlation)


def conformal(joint: Joint, errors: Errors) -> Joint:
    """The joint with the bands of the errors of each step, or of the last step with 8."""
    sizes: list[NDArray[np.floating[Any]]] = []
    for z in errors.z.T[: len(joint)]:
        own = np.abs(z[np.isfinite(z)])
        if len(own) < _FEWEST_CONFORMAL and not sizes:
            must = f"not be 'conformal' with fewer than {_FEWEST_CONFORMAL} errors"
            got = f"{len(own)} from origins inside the series"
            raise refusal("calibrate", must, got, "Use True, or give more history.")
        sizes.append(own if len(own) >= _FEWEST_CONFORMAL else sizes[-1])
    sizes += [sizes[-1]] * (len(joint) - len(sizes))
    most = len(errors.z)  # of any step, whatever the horizon
    scores = error_scores(most)
    least = [np.maximum(np.sort(own), _LEAST_SIZE) for own in sizes]
    return joint.conformal(np.array([error_sizes(scores, own) for own in least]))


def _mean_sizes(errors: Errors) -> Array:
    """Mean of |z| over the steps from h/2 to h, (h,); where there is none, of the steps before.

    An error counts by the width there: the sum of errors over that of widths, both in units of y.
    """
    # All alike, nights narrow the bands of the day: with widths CRPS of 14 sets is .1 % lower,
    # MSIS .7, of street counts by the hour 4.5, of the sum of a day 80 % hold .75, not .69.
    weights = np.where(np.isfinite(errors.z), errors.unit, 0.0)
    means, last = recent_means(np.minimum(np.abs(errors.z), _MOST_Z), weights), _MEAN_ABS
    for step, mean in enumerate(means):
        last = last if np.isnan(mean) else max(mean, _LEAST_SIZE)
        means[step] = last
    return means


def _correlation(z: Array, cov: Array) -> float:
    """Change of the correlations, -1 to 1, by a share of what neighbouring steps' errors show."""
    h, std = len(cov), np.sqrt(cov.diagonal())
    own = cov / np.outer(std, std)
    z = np.clip(z[:, :h], -_MOST_Z, _MOST_Z)
    product = 0.0
    size = 0.0
    said = []
    for lag in range(1, min(_NEIGHBOURS, h - 1) + 1):
        both, squares = z[:, lag:] * z[:, :-lag], 0.5 * (z[:, lag:] ** 2 + z[:, :-lag] ** 2)
        product, size = product + np.nansum(both), size + np.nansum(squares)
        said.append(np.diagonal(own, lag))
    if not size > 0.0:
        return 0.0
    before = float(np.concatenate(said).mean())
    after = max(before + _BELIEVED * (product / size - before), 0.0)
    if after < before:
        return after / before - 1.0
    return float(1.0 - (1.0 - after) / (1.0 - before)) if 0.0 <= before < 1.0 else 0.0


def _degrees_of_freedom(z: Array) -> float:
    """Degrees of freedom of Student's t: E log(dof - 2) on a grid, at the likeliest scale."""
    z = z[np.isfinite(z)]
    log_p = _LOG_PRIOR.copy()
    if len(z) >= _FEWEST and z.any():
        dof, var = _DOF[:, None], np.mean(z**2)
        for _ in range(_EM_STEPS):
            var = np.mean((dof + 1.0) * z**2 / (dof + z**2 / var), axis=1, keepdims=True)
        log_p += np.sum(stats.t.logpdf(z, dof, scale=np.sqrt(var)), axis=1)
    weights = np.exp(log_p - log_p.max())
    return float(2.0 + np.exp(weights @ np.log(_DOF - 2.0) / weights.sum()))
