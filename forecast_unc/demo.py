"""The demo: the cost of ignoring input uncertainty, on sea surface temperatures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from forecast_unc import Forecast, Forecaster, backtest, datasets
from forecast_unc.distributions.picture import finish
from forecast_unc.evaluation.folds import OWN_NAME
from forecast_unc.plot import COLORS, fan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LAGS = (1, 2, 3, 4, 12, 13, 24)  # months: the last few and the same season of two years
_STEPS = 36
_NAMES = {
    "naive": "naive",
    "taylor": "Taylor",
    "exact": "exact",
    OWN_NAME: "mixture",
    "monte_carlo": "Monte Carlo",
}
# Scores, and decimals that agree to one unit on every processor that could be simulated.
_DECIMALS = {"RMSE": 2, "CRPS": 3, "NLPD": 1, "MSIS": 1}
_DECIMALS |= dict.fromkeys(("coverage_50", "coverage_80", "coverage_95"), 2)


def demo(output: Path, n_origins: int = 20) -> None:
    """Forecast the El Nino series with each propagation; write a picture and two tables of scores.

    They are ``demo.png``, ``scores.csv`` and ``scores.md`` in the folder `output`, made if absent.
    """
    output.mkdir(parents=True, exist_ok=True)
    (output / "scores.md").touch()  # what cannot be written fails now, not after the work
    y, model = datasets.load_elnino(), Forecaster(lags=_LAGS, random_state=0)
    past, future = y.iloc[:-_STEPS], y.iloc[-_STEPS:]
    past.attrs = y.attrs
    print(f"{y.name} ({y.attrs['unit']}), {len(past)} months, {_STEPS} held out.")
    model.fit(past)
    forecasts = {
        kind: model.forecast(_STEPS, propagation=kind)
        for kind in ("naive", "mixture", "monte_carlo")
    }
    print(f"Forecasting 24 months from {n_origins} origins, one a year, with each propagation ...")
    result = backtest(
        Forecaster(lags=_LAGS, random_state=0),
        y,
        steps=24,
        origins=n_origins,
        step=12,
        refit=5,
        compare={
            "naive": "naive propagation",
            **{name: name for name in ("taylor", "exact", "monte_carlo")},
        },
        progress=True,
    )
    scores = result.scores().loc[list(_NAMES), list(_DECIMALS)]
    table = pd.DataFrame(
        {name: scores[name].map(f"{{:.{k}f}}".format) for name, k in _DECIMALS.items()}
    )
    table = table.set_axis(pd.Index(_NAMES.values(), name="propagation"))
    table.to_csv(output / "scores.csv")
    head = ["propagation", *table.columns]
    rows = [list(map(str, row)) for row in table.itertuples()]
    lines = ["| " + " | ".join(row) + " |\n" for row in [head, ["---"] * len(head), *rows]]
    (output / "scores.md").write_text("".join(lines))
    _picture(forecasts, past, future).savefig(output / "demo.png", dpi=110)
    print(table.to_string())
    print(f"Wrote {output / 'demo.png'}, {output / 'scores.csv'} and {output / 'scores.md'}.")


def _picture(
    forecasts: dict[str, Forecast], past: pd.Series[float], future: pd.Series[float]
) -> Figure:
    """Fan charts of naive and the default with the observations; std by step, Monte Carlo too."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 7.2), layout="constrained")
    axes = figure.subplot_mosaic([["naive", "mixture"], ["std", "std"]], height_ratios=[1.4, 1])
    axes["mixture"].sharey(axes["naive"])
    unit = past.attrs["unit"]
    for kind, title, color in (
        ("naive", "naive: each forecast is fed back as if it were known", COLORS[1]),
        ("mixture", "the default: each forecast is fed back with its uncertainty", COLORS[0]),
    ):
        ax = axes[kind]
        fan(forecasts[kind], history=past.iloc[-48:], actual=future, ax=ax, color=color, label=kind)
        ax.set_title(title, loc="left", fontsize="medium")
    axes["naive"].set_ylabel(f"sea surface ({unit})")
    axes["mixture"].set_ylabel("")
    ax = axes["std"]
    styles = {
        "naive": ("--", COLORS[1]),
        "mixture": ("-", COLORS[0]),
        "monte_carlo": ("o", "black"),
    }
    for kind, (style, color) in styles.items():
        label = _NAMES.get(kind, kind)
        ax.plot(range(1, _STEPS + 1), forecasts[kind].std, style, color=color, ms=3.5, label=label)
    ax.set(xlabel="months ahead", ylabel=f"std ({unit})", ylim=(0, None))
    ax.set_title("Standard deviation of each step", loc="left", fontsize="medium")
    finish(ax)
    return figure
