"""A forecast against sample paths of the same model: whether its joint distribution holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.stats import kurtosis, skew

from forecast_unc._checks import refusal
from forecast_unc._typing import Array, Axes, Flags
from forecast_unc.distributions.average import average
from forecast_unc.distributions.joint import Joint
from forecast_unc.distributions.picture import finish, given_or_new_axes
from forecast_unc.distributions.prediction import Prediction
from forecast_unc.distributions.sums import linear

# What matters, beyond two Monte Carlo errors. A std 10 % off costs a 95 % interval 1.6 to 2.2
# points of coverage, and a mean .15 stds off .5; both are a KL divergence of .01.
_STD_OFF, _MEAN_OFF, _ERRORS = 0.10, 0.15, 2.0
# Of the distribution function. One of 20 samples is off by more than 1.36 / sqrt(n) by chance.
_DISTRIBUTION_OFF, _BY_CHANCE = 0.05, 1.36


@dataclass(frozen=True, eq=False, repr=False)
class Check:
    """A forecast compared with sample paths of the same model; of `Forecast.check`.

    Attributes
    ----------
    frame : DataFrame
        One row a step and one for their sum, "sum": ``mean_error`` and ``std_error`` of the
        forecast in Monte Carlo errors (the std's in its logarithm); ``std_ratio``, its std over
        that of the paths; their ``skewness`` and ``excess_kurtosis``; ``bimodal``, whether Sarle's
        coefficient exceeds 5/9, that of a uniform distribution; ``kl``, the Kullback-Leibler
        divergence of the normal with the moments of the paths from that of the forecast. After a
        transform these are of the transformed steps, which the moments take for normal; their sum
        is weighted by half the 68 % band of each step in units of y. ``distance`` is the largest
        difference of the forecast's distribution function from that of the paths, in units of y; of
        an average it is the members' mean.
    verdict : str
        The propagation to use: that of the forecast, unless the std of a step or of the sum is off
        by more than 10 %, or a mean by .15 stds, both by more than two Monte Carlo errors, or the
        distribution function of the sum by more than .05 and 1.36 / sqrt(n_samples); or more than a
        tenth of the steps, or the sum, are bimodal or as skewed as an exponential distribution, and
        the forecast does not have its shape from paths. Then "mixture"; "monte_carlo" where a
        mixture is off, or an average has such a shape.
    reasons, n_samples, members, numbers : tuple of str, int, tuple of Check, tuple of int
        What was found, with how many sample paths: too wide, too narrow, biased, another
        distribution or shape, each with its worst figure; of an average, the checks of its members,
        and their numbers in it.
    kept : bool
        Whether the verdict is the propagation of the forecast.
    """

    frame: pd.DataFrame
    verdict: str
    reasons: tuple[str, ...]
    n_samples: int
    members: tuple[Check, ...] = ()
    numbers: tuple[int, ...] = ()
    kept: bool = False

    def __repr__(self) -> str:
        lines = [f"{self._advice} ({self.n_samples} sample paths)", *self.reasons]
        members = zip(self.numbers, self.members, strict=True)
        lines += [f"member {i}: use {member.verdict!r}" for i, member in members]
        return "\n".join([*lines, self.frame.round(3).to_string()])

    @property
    def _advice(self) -> str:
        return f'{"keep" if self.kept else "use"} propagation="{self.verdict}"'

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors of mean and std by step, in stds, with two Monte Carlo errors.

        The gray band is what is tolerated of the std; squares at the lower edge are steps that are
        skewed or bimodal; the points on the right belong to the sum. ``ax`` is where to draw, by
        default a new figure.
        """
        ax = given_or_new_axes(ax)
        shift, log_ratio, error = _errors(self.frame, self.n_samples)
        h = len(self.frame) - 1
        at = np.append(np.arange(1.0, h + 1), h + 1.0 + 0.05 * h)
        ax.axhspan(-_STD_OFF, _STD_OFF, color="0.92", lw=0)
        ax.axhline(0.0, color="0.5", lw=0.8)
        for name, values, half, side in (
            ("mean", shift, np.full(h + 1, _ERRORS / np.sqrt(self.n_samples)), -1.0),
            ("std", np.expm1(log_ratio), _ERRORS * error * np.exp(log_ratio), 1.0),
        ):
            (line,) = ax.plot(at[:h], values[:h], marker="." if h == 1 else None, label=name)
            color, (low, high) = line.get_color(), (values - half, values + half)
            ax.fill_between(at[:h], low[:h], high[:h], color=color, alpha=0.2, lw=0)
            beside = at[h] + side * 0.01 * h
            ax.errorbar(beside, values[h], half[h], color=color, marker="o", ms=4)
        odd = at[_odd(self.frame, self.n_samples)]
        if odd.size:
            edge = np.full(odd.size, 0.02), ax.get_xaxis_transform()
            label = "skewed or bimodal"
            ax.plot(odd, edge[0], "s", color="0.3", ms=4, label=label, transform=edge[1])
        steps = [int(t) for t in ax.get_xticks() if 1 <= t <= 0.92 * h and t == int(t)] or [1]
        ax.set_xticks([*steps, at[h]], [*map(str, steps), "sum"])
        ax.set(xlabel="step", ylabel="error / std of the sample paths")
        ax.set_title(self._advice, loc="left")
        return finish(ax)


def check(
    prediction: Prediction, labels: Sequence[str], n_samples: int, seed: int | None
) -> tuple[Check, Joint]:
    """Check of the uncertain steps before any calibration, and the joint with moments of paths."""
    prediction = prediction.uncalibrated()
    uncertain = np.flatnonzero(~prediction.joint.q.certain)
    if 0 < len(uncertain) < len(prediction):
        labels = [labels[i] for i in uncertain.tolist()]
        prediction = prediction.each(uncertain)
    names = prediction.propagations or ("exact",)
    kind = next((name for name in ("monte_carlo", "mixture") if name in names), names[0])
    members = prediction.members
    if not members:
        return check_model(prediction.joint, labels, kind, n_samples, seed)
    found = [check(one, labels[: len(one)], n_samples, seed) for one, _, _ in members]
    pairs = [(one.joint, weight) for one, weight, _ in members]
    apart = prediction.disagreement
    checked, drawn = check_average(prediction.joint, pairs, apart, found, labels, kind)
    return replace(checked, numbers=tuple(member.number for member in members)), drawn


def check_model(
    joint: Joint, labels: Sequence[str], propagation: str, n_samples: int, seed: int | None
) -> tuple[Check, Joint]:
    """Check against sample paths of the model, and the joint with the moments of these."""
    if joint.draw is None:
        must, got = "be called on a forecast that knows its model", "one that does not"
        remedy = "Check what Forecaster.forecast returns: a forecast built by hand, what is left "
        remedy += "after `condition`, a maximum or the aggregate of an average have no sample "
        remedy += "paths."
        raise refusal("check", must, got, remedy)
    paths = joint.draw(n_samples, seed).T  # (h, n)
    total = linear(joint, np.ones((1, len(joint)))).marginals.cdf(paths.sum(axis=0, keepdims=True))
    distance = _distance(np.vstack([joint.marginals.cdf(paths), total]))
    scores = joint.q.latent_score(paths).T  # (n, h)
    std = joint.q.spread.scale
    weights = std / np.sqrt(std @ joint.cor @ std)
    columns = np.column_stack([scores, scores @ weights])
    center, spread = columns.mean(axis=0), columns.std(axis=0)
    # those that do not vary have no shape
    safe = np.where(spread > 0, columns, np.arange(len(columns))[:, None])
    shape = (np.where(spread > 0, each(safe), 0.0) for each in (skew, kurtosis))
    frame = _frame(labels, -center / spread, 1.0 / spread, *shape, n=len(scores))
    frame["distance"] = distance
    cor = np.cov(scores, rowvar=False, bias=True) / np.outer(spread[:-1], spread[:-1])
    sampled = Joint.of(joint.q.at_scores(center[:-1], spread[:-1]), np.atleast_2d(cor))
    shaped = joint.scores is not None
    return _judged(frame, propagation, len(scores), shaped), sampled


def _distance(probabilities: Array) -> Array:
    """Largest differences (h,) of uniform distribution functions from those of values (h, n)."""
    u, n = np.sort(probabilities, axis=1), probabilities.shape[1]
    after = np.arange(1, n + 1) / n
    return np.asarray(np.maximum(after - u, u - after + 1.0 / n).max(axis=1))


def check_average(
    joint: Joint,
    members: Sequence[tuple[Joint, Array]],
    disagreement: bool,
    found: Sequence[tuple[Check, Joint]],
    labels: Sequence[str],
    propagation: str,
) -> tuple[Check, Joint]:
    """Check an average of members by weights (h,) against that of what is found of each."""
    checks, drawn = zip(*found, strict=True)
    sampled = average(drawn, np.array([w for _, w in members]), disagreement)
    (center, spread), (center_mc, spread_mc) = map(_with_sum, (joint, sampled))
    n, h = checks[0].n_samples, len(labels)
    own = [w[: len(m)] * m.q.spread.scale for m, w in members]
    shares = np.array([np.pad(part, (0, h - len(part))) for part in own])
    shares /= shares.sum(axis=0)
    shares = np.column_stack([shares, shares.mean(axis=1)])

    def averaged(column: str) -> Array:
        values = [check.frame[column].to_numpy() for check in checks]
        table = [np.concatenate([v[:-1], np.zeros(h + 1 - len(v)), v[-1:]]) for v in values]
        return np.asarray((shares * table).sum(axis=0))

    shift, ratio = (center - center_mc) / spread_mc, spread / spread_mc
    frame = _frame(labels, shift, ratio, averaged("skewness"), averaged("excess_kurtosis"), n=n)
    frame["distance"] = averaged("distance")
    shaped = None if joint.scores is None else True
    return replace(_judged(frame, propagation, n, shaped), members=checks), sampled


def _with_sum(joint: Joint) -> tuple[Array, Array]:
    """Medians and scales of the steps and, last, of their sum, (h + 1,) each."""
    median, scale = joint.q.spread
    of_sum = np.sqrt(scale @ joint.cor @ scale)
    return np.append(median, median.sum()), np.append(scale, of_sum)


def _frame(
    labels: Sequence[str], shift: Array, ratio: Array, skewness: Array, excess: Array, *, n: int
) -> pd.DataFrame:
    """The table, of shifts of the mean in stds of the paths and ratios of the stds, (h + 1,)."""
    # Sarle's coefficient, with the kurtosis of n normal values
    normal = 3.0 * (n - 1) ** 2 / ((n - 2) * (n - 3))
    sarle = (skewness**2 + 1.0) / (excess + normal)
    return pd.DataFrame(
        {
            "mean_error": shift * np.sqrt(n),
            "std_error": np.log(ratio) / _log_error(excess, n),
            "std_ratio": ratio,
            "skewness": skewness,
            "excess_kurtosis": excess,
            "bimodal": sarle > 5.0 / 9.0,  # of a uniform distribution; 1/3 is normal, 1 two points
            "kl": 0.5 * ((1.0 + shift**2) / ratio**2 - 1.0) + np.log(ratio),
        },
        index=pd.Index([*labels, "sum"], name="step"),
    )


def _log_error(excess: Array, n: int) -> Array:
    """Standard error of the log of the std of n values of this excess kurtosis."""
    return np.asarray(np.sqrt((excess + 2.0) / (4.0 * n)))


def _errors(frame: pd.DataFrame, n: int) -> tuple[Array, Array, Array]:
    """Shift of the mean in stds, log of the ratio of the stds, and the error of that."""
    shift = frame["mean_error"].to_numpy() / np.sqrt(n)
    error = _log_error(frame["excess_kurtosis"].to_numpy(), n)
    return shift, np.log(frame["std_ratio"].to_numpy()), error


def _odd(frame: pd.DataFrame, n: int) -> Flags:
    """Rows that are bimodal, or more skewed than an exponential distribution: by more than 2."""
    error = np.sqrt(6.0 / n)  # of a normal skewness
    skewed = frame["skewness"].abs().to_numpy() - _ERRORS * error > 2.0
    return np.asarray(skewed | frame["bimodal"].to_numpy())


def _judged(frame: pd.DataFrame, propagation: str, n: int, shaped: bool | None = None) -> Check:
    """The verdict; `shaped` says if the shape is that of paths, and is None of a normal average."""
    shift, log_ratio, error = _errors(frame, n)
    too_wide, too_narrow = (
        side - _ERRORS * error > np.log1p(_STD_OFF) for side in (log_ratio, -log_ratio)
    )
    biased = np.abs(shift) - _ERRORS / np.sqrt(n) > _MEAN_OFF
    odd = _odd(frame, n) & (not shaped)
    distance = frame["distance"].to_numpy()
    apart = distance - _BY_CHANCE / np.sqrt(n) > _DISTRIBUTION_OFF
    reasons, h = [], len(frame) - 1
    ratio, off_by = np.exp(log_ratio), "off by up to"
    for text, which, size, shown in (
        ("too wide, the std is up to {:.2f} of that of the paths", too_wide, log_ratio, ratio),
        ("too narrow, the std is {:.2f} of that of the paths", too_narrow, -log_ratio, ratio),
        (f"biased, the mean is {off_by} {{:+.2f}} stds of the paths", biased, np.abs(shift), shift),
        (f"the distribution function is {off_by} {{:.2f}}", apart, distance, distance),
        ("skewed or bimodal, as no normal distribution is; first", odd, odd, odd),
    ):
        if which.any():
            at, steps = int(np.where(which, size, 0.0).argmax()), int(which[:h].sum())
            rows = [f"{steps} of {h} steps"] if steps else []
            rows += ["the sum"] if which[h] else []
            place = " of the sum" if at == h else f" at {frame.index[at]}"
            reasons.append(f"{' and '.join(rows)}: {text.format(shown[at])}{place}")
    verdict, off = propagation, bool((too_wide | too_narrow | biased).any() or apart[-1])
    odd_enough = bool(odd[-1] or odd[:-1].mean() > 0.1)
    if off or odd_enough:
        enough = propagation not in ("mixture", "monte_carlo") and not (
            odd_enough and shaped is None
        )
        verdict = "mixture" if enough else "monte_carlo"
    return Check(frame, verdict, tuple(reasons), n, kept=verdict == propagation)
