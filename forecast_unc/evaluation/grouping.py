"""The groups of a backtest's rows whose coverage is asked for, and the table of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from forecast_unc._checks import refusal
from forecast_unc.evaluation.conditional import shares_tested, standard_error
from forecast_unc.evaluation.folds import percent
from forecast_unc.evaluation.results import Grouping, Groups, Results
from forecast_unc.plot import horizons
from forecast_unc.series.times import DAYS

_DAY = pd.Timedelta(days=1)
# Parts of the date, with the length of steps from which on a part need not change with each.
_PARTS: dict[str, tuple[pd.Timedelta, Callable[[pd.DatetimeIndex], Any]]] = {
    "hour": (_DAY, lambda times: times.hour),
    "weekday": (7 * _DAY, lambda times: np.array(DAYS, dtype=object)[times.day_of_week]),
    "month": (365 * _DAY, lambda times: times.month),
    "hour_of_week": (7 * _DAY, lambda times: 24 * times.day_of_week + times.hour),
}
WORDS = (*_PARTS, "level")
_THIRDS = ("low", "middle", "high")
_ORDER: dict[Any, tuple[str, ...]] = {"weekday": DAYS, "level": _THIRDS}


def parts_of(frame: pd.DataFrame) -> list[str]:
    """Parts of the date that change with the steps of a backtest's frame; none without dates."""
    times, origins = (_dates(frame[name]) for name in ("time", "origin"))
    if times is None or origins is None:
        return []
    length = ((times - origins) / frame["step"].to_numpy()).min()
    return [part for part, (too_long, _) in _PARTS.items() if length < too_long]


def check_part(by: str, frame: pd.DataFrame) -> None:
    """Raise if a part of the date does not change with each step of a backtest's frame."""
    if by in _PARTS and by not in parts_of(frame):
        got = f"{by!r} of times that are too far apart, or no dates"
        remedy = f"Use {', '.join(map(repr, (*parts_of(frame), 'level')))} or 'step'."
        raise refusal("by", "be a part of the date that changes with each step", got, remedy)


def coverage_table(backtest: Results, by: Groups, of_series: bool | None) -> pd.DataFrame:
    """The table of `Backtest.coverage`; values of one series are correlated, or of one origin."""
    frame, labels = backtest.frame, _labels(backtest, by)
    groups, sizes = np.zeros(len(frame), dtype=np.intp), []
    for one in labels.values():
        sizes.append(size := len(one.categories))
        groups = np.where((groups < 0) | (one.codes < 0), -1, groups * size + one.codes)
    units, tables, y = _units(backtest, labels, of_series), [], frame["actual"].to_numpy()
    bands = {
        level: [frame[f"{end}_{percent(level)}"].to_numpy() for end in ("lower", "upper")]
        for level in backtest.coverages
    }
    for model in frame["model"].unique():
        own = (frame["model"] == model).to_numpy() & (groups >= 0) & ~np.isnan(y)
        for level, (lower, upper) in bands.items():
            at = np.flatnonzero(own & ~np.isnan(lower) & ~np.isnan(upper))
            if not at.size:
                continue
            codes, of_group = np.unique(groups[at], return_inverse=True)
            of_unit = np.unique(units[at], return_inverse=True)[1]
            values, low, high = y[at], lower[at], upper[at]
            held = ((low <= values) & (values <= high)) * 1.0
            # A value on an end is one of many alike (a count, a bound), of which the interval needs
            # a part only: it counts as what is to be expected.
            alike = (low == values) | (values == high)
            tests = shares_tested(np.where(alike, level, held), of_group, of_unit, level)
            share = np.bincount(of_group, held) / tests.n
            keys = {"model": model, "code": codes, "coverage": level, "held": share}
            columns = {"std_error": standard_error(share, tests.n_effective), **tests._asdict()}
            tables.append(pd.DataFrame(keys | columns))
    if not tables:
        must, remedy = "hold values that were scored", "Take origins before the end of the series."
        raise refusal("coverage", must, "none", remedy)
    table = pd.concat(tables)
    numbers = table["model"].map({name: i for i, name in enumerate(table["model"].unique())})
    table = table.iloc[np.lexsort([table["coverage"], table["code"], numbers])]
    places = np.unravel_index(table["code"], sizes) if sizes else ()
    for (name, one), codes in zip(labels.items(), places, strict=True):
        table[name] = one.categories[codes]
    return table.drop(columns="code").set_index(["model", *labels, "coverage"])


def _units(backtest: Results, labels: dict[str, Any], of_series: bool | None) -> Any:
    """The number of each row's unit (n,): its series, or origins as `_apart` has them."""
    frame, id_col = backtest.frame, backtest.id_col
    is_series = id_col in labels
    if id_col is not None and (not is_series if of_series is None else of_series):
        return pd.factorize(frame[id_col])[0]
    if not is_series:
        return _apart(frame).to_numpy()
    apart = pd.concat([_apart(rows) for _, rows in frame.groupby(id_col, observed=True)])
    return frame.groupby([frame[id_col], apart.reindex(frame.index)]).ngroup().to_numpy()


def _apart(frame: pd.DataFrame) -> pd.Series[int]:
    """Numbers of the rows' origins; where horizons overlap, of stretches two horizons long."""
    # Of one horizon each, neighbors overlap: of 240 right origins, 4 a horizon, tests at 5 %
    # rejected up to 10 %, with stretches of two 6 % (examples/benchmarks/conditional.py).
    numbers = horizons(frame)
    return numbers // 2 if numbers.nunique() < frame["origin"].nunique() else numbers


def _labels(backtest: Results, by: Groups) -> dict[str, Any]:
    """The labels of the rows by each of what groups them, by its name; none for all together."""
    listed = isinstance(by, Sequence) and not isinstance(by, str)
    several = cast("Sequence[Grouping]", by if listed else [by])
    labels: dict[str, Any] = {}
    for one in several:
        if one is None or (isinstance(one, str) and one == "model"):
            continue
        found, name = _label(backtest, one), "group" if callable(one) else one
        if name in labels:
            remedy = "Leave one out, or make one function of two."
            raise refusal("by", "name what groups the values once", f"{name!r} twice", remedy)
        labels[name] = found
    return labels


def _label(backtest: Results, by: Grouping) -> Any:
    """The label of each row (n,), a Categorical with none where it is missing; or an error."""
    frame = backtest.frame
    if callable(by):
        labels = by(pd.Index(frame["time"]))
        if np.shape(labels) != (len(frame),):
            got = f"{type(labels).__name__} of shape {np.shape(labels)}"
            remedy = "It is given the times of all rows, such as lambda times: times.hour // 6."
            raise refusal("by", f"return a label for each of {len(frame)} rows", got, remedy)
        return pd.Categorical(labels)
    exog = backtest.regressors
    if backtest.request is not None and backtest.request.plan.exog is not None:
        exog = backtest.request.plan.exog.reindex(pd.Index(frame["time"]))
    columns, named = [*frame, *([] if exog is None else exog)], isinstance(by, Hashable)
    if named and by in frame:
        return pd.Categorical(frame[by])
    if isinstance(by, str) and by in _PARTS:
        check_part(by, frame)
        return pd.Categorical(_PARTS[by][1](_dates(frame["time"])), _ORDER.get(by))
    if isinstance(by, str) and by == "level":
        return _thirds(frame, [key for key in ("model", backtest.id_col) if key is not None])
    if exog is not None and named and by in exog:
        return pd.Categorical(exog[by])
    must = f"be {', '.join(map(repr, WORDS))}, a column, a function of times, or several"
    kind = ValueError if isinstance(by, str) else TypeError
    raise refusal("by", must, repr(by), f"Columns are {', '.join(map(str, columns))}.", kind)


def _thirds(frame: pd.DataFrame, keys: list[str]) -> Any:
    """Thirds of each model's medians, those of each series by itself; equal ones stay together."""
    medians = frame["median"]
    groups = medians.groupby([frame[key] for key in keys], observed=True)
    low, high = (groups.transform("quantile", q) for q in (1 / 3, 2 / 3))
    codes = np.where(medians.isna(), -1, 0 + (medians > low) + (medians > high))
    return pd.Categorical.from_codes(codes, pd.Index(_THIRDS))


def _dates(values: pd.Series[Any]) -> Any:
    """Times of a column as local dates; None of whole numbers."""
    index = pd.Index(values)
    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp()
    return index if isinstance(index, pd.DatetimeIndex) else None
