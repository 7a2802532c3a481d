"""Sums over groups of a panel's series: draws of their quantiles that share a factor."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from forecast_unc._checks import as_float, refusal
from forecast_unc._typing import Array
from forecast_unc.distributions.export import nixtla_tails

POINTS = (np.arange(500) + 0.5) / 500  # probabilities of the quantiles that a draw is one of
_DRAWS = 20 * len(POINTS)
_SCORES = ndtri((np.arange(_DRAWS) + 0.5) / _DRAWS)  # equally probable normal scores
SAID = ("error", "status", "notes")  # columns that are text


class SeriesResult(NamedTuple):
    """Rows of the result of one series, and its part of the sums of its group."""

    times: Any  # (h,)
    figures: Array  # (h, 1 + 2 * levels), the mean and bounds
    quantiles: Array | None  # (h, points), at POINTS, where sums are asked for
    status: str = "ok"
    notes: str = ""  # Notes, where there are any


class Groups(NamedTuple):
    """Groups of some series of a panel, and the correlation of the series' errors."""

    labels: pd.DataFrame  # of each group, of the user's types
    sizes: Any  # (groups,) series of each, in the whole panel
    codes: Any  # (series,) the group of each
    correlation: float
    first: int = 0  # position in the panel of the first of these series

    @classmethod
    def checked(cls, labels: pd.DataFrame | None, correlation: object) -> Groups | None:
        """Groups by the labels of each series (series, by), or an error about the correlation."""
        if labels is None:
            if correlation is not None:
                must, remedy = "be None without by", "Name the columns to sum by, by=[] for all."
                raise refusal("correlation", must, repr(correlation), remedy)
            return None
        shared = as_float(correlation)
        if not 0 <= shared <= 1:
            must = "be a number from 0 to 1 with by"
            remedy = "It is that of two series' forecast errors at one time: 0 where they have "
            remedy += "nothing in common, .2 to .5 for shops that share weather and prices."
            raise refusal("correlation", must, repr(correlation), remedy)
        if len(labels.columns):
            by = labels.groupby(list(labels), sort=False, observed=True)
            codes = by.ngroup().to_numpy()
        else:
            codes = np.zeros(len(labels), dtype=int)
        _, first = np.unique(codes, return_index=True)
        sizes = np.bincount(codes, minlength=len(first))
        return cls(labels.take(first), sizes, codes, shared)

    def part(self, some: slice) -> Groups:
        """Group of some of the series."""
        return self._replace(codes=self.codes[some], first=self.first + some.start)

    def columns(self, rows: np.ndarray) -> dict[Hashable, Any]:
        """Labels of the series at these positions, column by column."""
        labels = self.labels.take(self.codes[rows])
        return {name: labels[name].array for name in labels}

    def totals(self, series: Iterable[SeriesResult]) -> pd.DataFrame:
        """Sums of each group and time over these series, but those without a forecast."""
        found: dict[tuple[int, Any], list[Any]] = {}
        for i, (group, steps) in enumerate(zip(self.codes.tolist(), series, strict=True)):
            if steps.quantiles is None:
                continue
            drawn, modelled = steps.quantiles[:, self._points(self.first + i)], steps.status == "ok"
            for time, mean, draws in zip(steps.times, steps.figures[:, 0], drawn, strict=True):
                _add(found, group, time, [mean, 1, int(modelled), draws])
        return _frame(found)

    def _points(self, position: int) -> Array:
        """Indices of the POINTS that draws of a series take, each as often; a factor is shared."""
        own = np.random.default_rng([position]).permutation(_SCORES)
        scores = np.sqrt(self.correlation) * _SCORES + np.sqrt(1 - self.correlation) * own
        ranks = np.empty(_DRAWS, dtype=int)
        ranks[np.argsort(scores, kind="stable")] = np.arange(_DRAWS)
        return ranks * len(POINTS) // _DRAWS

    def table(
        self, parts: Sequence[pd.DataFrame], like: pd.DataFrame, levels: tuple[float, ...]
    ) -> pd.DataFrame:
        """Rows for the groups, from the sums of all parts, with the columns of the series' rows."""
        found: dict[tuple[int, Any], list[Any]] = {}
        for group, time, *figures in pd.concat(parts).itertuples(index=False):
            _add(found, group, time, figures)
        totals = _frame(found).sort_values(["group", "time"], ignore_index=True)
        draws = np.array([*totals["draws"]]).reshape(-1, _DRAWS)
        bounds = np.quantile(draws, nixtla_tails(levels), axis=1, method="inverted_cdf")
        id_col, time_col, *by = like.columns[: 2 + len(self.labels.columns)]
        names = [name for name in like.columns[2 + len(by) :] if name not in SAID]
        labels = self.labels.take(totals["group"].to_numpy())
        columns: dict[Hashable, Any] = {
            id_col: pd.Series([None] * len(totals), dtype=like[id_col].dtype),
            time_col: totals["time"].astype(like[time_col].dtype),
            **{name: labels[name].array for name in by},
            **dict(zip(names, [totals["mean"], *bounds], strict=True)),
            "error": pd.Series([None] * len(totals), dtype=object),
            "status": self._status(totals),
            "notes": pd.Series([""] * len(totals), dtype=object),
        }
        return pd.DataFrame(columns)

    def _status(self, totals: pd.DataFrame) -> pd.Series[str]:
        """Status of a sum: "ok" if all series of its group are in it, each by its model."""
        said = []
        for group, items, modelled in zip(
            totals["group"], totals["items"], totals["modelled"], strict=True
        ):
            notes = []
            if items < self.sizes[group]:
                notes.append(f"{items} of {self.sizes[group]} series have a forecast of this time")
            if modelled < items:
                notes.append(f"{items - modelled} of {items} series without a model")
            said.append("; ".join(notes) or "ok")
        return pd.Series(said, dtype="string")


def _add(found: dict[tuple[int, Any], list[Any]], group: int, time: Any, more: list[Any]) -> None:
    known = found.get((group, time))
    added = more if known is None else [a + b for a, b in zip(known, more, strict=True)]
    found[group, time] = added


def _frame(found: dict[tuple[int, Any], list[Any]]) -> pd.DataFrame:
    rows = [(*key, *figures) for key, figures in found.items()]
    return pd.DataFrame(rows, columns=["group", "time", "mean", "items", "modelled", "draws"])
