"""Templates, tables and pictures of HTML, and what a notebook shows: no script, names escaped."""

from __future__ import annotations

import base64
import io
import numbers
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from sklearn import get_config

from forecast_unc._notes import kind_of
from forecast_unc.distributions.export import Steps, described
from forecast_unc.distributions.picture import fan
from forecast_unc.series.calendar import seasonal_periods

_INCHES = (5.6, 4.0)  # with letters of 11 points, which on a phone are still 10 pixels high
_DRAWING = threading.Lock()  # the style is the process's


class Explained(Steps, Protocol):
    """What the page asks of a forecast."""

    @property
    def std(self) -> pd.Series[float]:
        """Standard deviation of each step."""

    @property
    def propagation(self) -> str | tuple[str, ...] | None:
        """Name of the propagation."""

    @property
    def model(self) -> str | None:
        """The model, as text."""

    @property
    def members(self) -> Sequence[Any]:
        """Members of an average, each with its model and weight."""

    def __getitem__(self, key: slice) -> Self: ...


def render(package: str, template: str, **context: Any) -> str:
    """A template of a package, filled; all values are escaped but those that it calls safe."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # kept out of the import

    how: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined}
    how |= {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader(package, "."), **how)
    text = environment.get_template(template).render(**context).strip()
    return text.encode("utf-8", "xmlcharrefreplace").decode()  # half a pair of surrogates


card = partial(render, "forecast_unc.distributions", "notebook.html")
"""What a notebook shows: a kind of object, its name, sentences, a table and a picture, lists."""


def forecast_card(forecast: Explained) -> str:
    """A forecast in a notebook: the models behind it, its first steps and its picture."""
    said = _made_by(forecast)
    if forecast.propagation is not None:
        said += f" Propagation: {', '.join(np.atleast_1d(forecast.propagation))}."
    named = described(forecast.name, forecast.aggregated)
    return card(kind="Forecast", of=named, said=said, **_ahead(forecast))


def model_card(model: Any) -> str | None:
    """A model in a notebook: its choices and next steps; before the fit its settings."""
    if get_config()["display"] != "diagram":
        return None  # set_config(display="text") of scikit-learn
    arguments, choices = model.get_params(deep=False), getattr(model, "choices_", [])
    settings = [f"{key} = {value!r:.300}" for key, value in arguments.items()]
    shown = {"of": None, "said": "Not fitted yet."}
    if choices:
        # with a seed, so that a generator of the user's stays as it is
        seed = {"random_state": 0} if "random_state" in arguments else {}
        shown = _fitted_card(model, choices, partial(model.forecast, 12, **seed))
    lists = {"Choices": choices, "Settings": settings}
    return card(kind=type(model).__name__, lists=lists, **shown)


def _fitted_card(
    model: Any, choices: Sequence[str], forecast: Callable[[], Explained]
) -> dict[str, Any]:
    """Parts of a card of a fitted model: its series' name, what was chosen, the next steps."""
    general = takewhile(lambda line: kind_of(line) not in ("model", "weight"), choices)
    said = " ".join(f"{line[0].upper()}{line[1:]}." for line in general)
    y: pd.Series[float] | None = None
    with suppress(AttributeError, TypeError):  # members of other kinds have none
        history = getattr(model, "forecasters_", [model])[0].history_
        y = pd.Series(history.y, history.index, name=history.name)
    name = None if y is None else y.name
    try:
        ahead = forecast()
        steps = _ahead(ahead, None if y is None else past(y, ahead.index))
    except (TypeError, ValueError) as reason:
        return {"of": name, "said": f"{said} No forecast to show: {reason}"}
    return {"of": name, "said": f"{_made_by(ahead)} {said}", **steps}


def _made_by(forecast: Explained) -> str:
    if forecast.members:
        weights = [member.weight.iloc[0] for member in forecast.members]
        first = forecast.members[int(np.argmax(weights))].model
        largest = f"the largest weight at the first step, {100 * max(weights):.0f} %"
        return f"An average of {len(weights)} models; {largest}, is that of {first}."
    if forecast.model is not None:
        return f"One model: {forecast.model}."
    return "Which models made it is not noted, as after a sum or a condition."


def _ahead(forecast: Explained, history: pd.Series[float] | None = None) -> dict[str, Any]:
    """Parts of a card: the table of the first steps and the picture."""
    first, columns, levels = forecast[:6], {"mean": forecast.mean}, (0.8, 0.95)
    for level in levels:
        columns |= first.interval(level).add_suffix(f" {100 * level:g} %")
    frame = pd.DataFrame(columns, index=first.index)
    least = first.std[first.std > 0].min() if first.std.any() else 1.0
    decimals = int(1 - np.floor(np.log10(least)))  # two digits of the least std
    if -10 < decimals < 9:
        frame = frame.map(lambda value: f"{value:.{max(decimals, 0)}f}")
    frame.insert(0, "time", first.index)
    image = picture(partial(fan, forecast, levels, history=history), small=True)
    return {"table": table(frame), "later": len(forecast) - len(first), "picture": image}


def past(y: pd.Series[float], index: pd.Index[Any], horizons: int = 2) -> pd.Series[float]:
    """The last values before some times: some horizons, 24 and one season and a half at least."""
    season = min(seasonal_periods(y.index), default=0)
    n = max(horizons * len(index), 24, 3 * season // 2)
    last: pd.Series[float] = y.loc[y.index < index[0]].iloc[-n:]
    last.attrs = y.attrs
    return last


def picture(draw: Callable[..., Any], small: bool = False) -> str:
    """A drawing in matplotlib's own style, in base 64: SVG or small PNG."""
    from matplotlib import style
    from matplotlib.figure import Figure
    from PIL import Image

    plain = {"svg.hashsalt": "forecast_unc", "svg.fonttype": "path", "font.size": 11}
    with _DRAWING, style.context(["default", plain]), warnings.catch_warnings():
        # Letters that the font lacks are boxes in the picture; the text of the page has them.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure(figsize=(5.6, 3.2) if small else _INCHES, layout="constrained")
        ax = figure.subplots()
        draw(ax=ax)
        ax.yaxis.label.set_wrap(True)
        for line in ax.lines:
            line.set_rasterized(np.size(line.get_xdata()) > 5000)  # 100,000 in vectors take 3 MB
        file = io.BytesIO()
        if small:
            figure.savefig(file, dpi=150)
            # a quarter of the bytes; of 32 colors some would not be those of the models
            few, file = Image.open(file).convert("RGB").quantize(64), io.BytesIO()
            few.save(file, "png", optimize=True)
        else:
            figure.savefig(file, format="svg", metadata={"Date": None}, dpi=150)
    return base64.b64encode(file.getvalue()).decode()


def table(frame: pd.DataFrame) -> dict[str, Any]:
    """A table whose first column names the rows; numbers have 4 digits, and are sorted by all."""
    columns = [_column(frame.iloc[:, i]) for i in range(frame.shape[1])]
    heads = [(str(name), kind) for name, (kind, _) in zip(frame.columns, columns, strict=True)]
    return {"heads": heads, "rows": list(zip(*(cells for _, cells in columns), strict=True))}


def _column(column: pd.Series[Any]) -> tuple[str, list[tuple[str, str, str]]]:
    """The kind, a class of the style sheet; of each cell it, what it is sorted by, and the text."""
    values, dtype, kind = column.tolist(), column.dtype, "text"
    keys = texts = list(map(str, values))
    if isinstance(dtype, pd.DatetimeTZDtype | pd.PeriodDtype) or dtype.kind == "M":
        times, kind = pd.Index(column), "time"
        # in UTC no hour comes twice
        order = times.tz_convert("UTC") if isinstance(dtype, pd.DatetimeTZDtype) else times
        keys, texts = list(order.astype(str)), list(times.astype(str))
    elif pd.api.types.is_numeric_dtype(dtype) and dtype.kind != "b":
        even = bool((column % 1 > 0).any())  # then 136.0 beside 95.02, not 136
        keys, texts, kind = list(map(repr, values)), [number(v, even) for v in values], "number"
    return kind, [(kind, key, text) for key, text in zip(keys, texts, strict=True)]


def number(value: Any, even: bool = False) -> str:
    """A number as a reader wants it: 4 digits, none cut from before the point.

    `even`: with zeros at its end, as others of its column have digits there.
    """
    if isinstance(value, numbers.Integral):
        return str(value)
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    if 1e4 <= abs(value) < 1e12:
        return f"{value:.0f}"
    return f"{value:#.4g}".rstrip(".") if even and value else f"{value:.4g}"
