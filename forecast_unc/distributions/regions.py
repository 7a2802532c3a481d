"""Highest-density regions: the shortest sets of values that hold a probability."""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from forecast_unc._typing import Array, Flags
from forecast_unc.distributions.marginals import Marginals
from forecast_unc.series.rows import runs_of

_ENDS = np.linspace(-5.0, 5.0, 2001)[None]  # scores between cells of up to .002
_FAR = 600  # place of the score -2
_SMOOTHED = 0.02  # of the 95 % interval to each side: the density of a few paths has wiggles
_GAP = 0.03  # of the whole region's width; narrower ones are between wiggles of the density


class Region(NamedTuple):
    """A piece of the region of one step."""

    step: int
    lower: float
    upper: float
    probability: float


def highest_density(q: Marginals, coverage: float) -> list[Region]:
    """Pieces of the region of each step, by cells of the highest density; whole single values."""
    ends, mass = q(_ENDS), np.diff(ndtr(_ENDS))[0]
    pieces = _of_density if q.grid is None else _of_single_values
    return [piece for step, row in enumerate(ends) for piece in pieces(step, row, mass, coverage)]


def _of_density(step: int, ends: Array, mass: Array, coverage: float) -> list[Region]:
    """Pieces of the region of a step, in the order of values."""
    middle, half = 0.5 * (ends[1:] + ends[:-1]), _SMOOTHED * (ends[-_FAR] - ends[_FAR])
    if not half > 0.0:
        return _of_single_values(step, ends, mass, coverage)
    around = [np.interp(middle + side, ends, ndtr(_ENDS[0])) for side in (half, -half)]
    kept = _likeliest(around[0] - around[1], mass, coverage)
    single = ends[1:] == ends[:-1]  # as at a bound
    kept |= single & np.isin(middle, middle[kept & single])
    inside = ends[:-1][kept], ends[1:][kept]
    widest = _GAP * (inside[1][-1] - inside[0][0])
    starts, stops = np.array(runs_of(kept)).T
    apart = ends[starts[1:]] - ends[stops[:-1]] > widest
    starts, stops = starts[np.append(True, apart)], stops[np.append(apart, True)]
    return [
        Region(step, float(ends[a]), float(ends[b]), float(mass[a:b].sum()))
        for a, b in zip(starts, stops, strict=True)
    ]


def _of_single_values(step: int, ends: Array, mass: Array, coverage: float) -> list[Region]:
    """Runs of the likeliest values, of a step that has few."""
    values, at = np.unique(ends, return_inverse=True)
    # a cell in which it jumps is of both, half and half
    below, above = (np.bincount(side, mass, len(values)) for side in (at[:-1], at[1:]))
    share = np.asarray(0.5 * (below + above), dtype=np.float64)
    return [
        Region(step, float(values[a]), float(values[b - 1]), float(share[a:b].sum()))
        for a, b in runs_of(_likeliest(share, share, coverage))
    ]


def _likeliest(density: Array, mass: Array, coverage: float) -> Flags:
    """The cells of the highest density that hold as much together."""
    order = np.argsort(-density, kind="stable")
    kept = np.zeros(len(mass), dtype=np.bool_)
    kept[order[: 1 + int(np.searchsorted(mass[order].cumsum(), coverage))]] = True
    return kept
