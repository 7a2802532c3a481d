"""Electricity demand of Victoria, a day ahead by the hour, from a temperature that is a forecast.

A model learns demand from its lags and the measured temperature. For tomorrow there is only a
forecast of the temperature. Here its errors are simulated, added to the measured temperature: an
AR(1) process whose std grows from 0.7 K in the first hour to 2.5 K in the last. The same fitted
model then forecasts with the temperature known exactly, with its forecast treated as known, and
with the forecast and the covariance of its errors (`exog_cov`), or their stds alone (`exog_std`).

The data are not part of the package: pass a CSV with the columns Time (UTC), Demand (MW),
Temperature (C) and Holiday, half-hourly; "vic_elec" of the R package tsibbledata is such a table.

    python examples/electricity.py --data vic_electricity_halfhourly.csv.gz --output DIR
    python examples/electricity.py --data vic_electricity_halfhourly.csv.gz --output DIR --quick

Written to DIR: electricity.md (tables), electricity.png. Without the data, --quick says so and
succeeds.
"""

import argparse
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from forecast_unc import Combination, Forecaster, GPRegressor, plot, scores

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "vic_electricity_halfhourly.csv.gz"
STEPS = 24
# Three models, each overconfident in a different way: hour by hour with yesterday and a week ago,
# hour by hour from the regressors, and the whole day at once.
LAGS = ((1, 2, 3, 24, 25, 48, 168), (1, 2), (24, 25, 48, 168))
KNOWN, AS_KNOWN = "temperature known", "forecast taken as known"
WITH_STD, WITH_COV = "forecast with stds", "forecast with exog_cov"
# Hours of the errors' path -> errors of each step's columns: temperature, and its mean over a day.
EFFECT = np.zeros((STEPS, 4, STEPS))
EFFECT[:, 0] = np.eye(STEPS)
EFFECT[:, 1] = np.tril(np.ones((STEPS, STEPS))) / 24
EFFECT = EFFECT.reshape(-1, STEPS)


def read(path):
    """Hourly demand in GW and its regressors, in local time."""
    table = pd.read_csv(path)
    table.index = pd.to_datetime(table["Time"], utc=True).dt.tz_convert("Australia/Melbourne")
    hours = table[["Demand", "Temperature", "Holiday"]].resample("h").mean()
    workday = ((hours["Holiday"] == 0) & (hours.index.day_of_week < 5)).astype(float)
    temperature = hours["Temperature"]
    exog = pd.DataFrame(
        {
            "temperature": temperature,
            "temperature, day": temperature.rolling(24).mean(),
            "workday": workday,
            "workday before": workday.shift(24),
        }
    )[24:]
    demand = (hours["Demand"][24:] / 1000).rename("demand")
    return demand, exog


def error_cov():
    """Covariance of the temperature forecast's errors over the hours ahead, in K^2."""
    std = np.linspace(0.7, 2.5, STEPS)
    apart = np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS)))
    return std[:, None] * std * 0.9**apart


def forecasts(model, exog, error):
    """Forecast by name, all of one fitted model."""
    cov = EFFECT @ error_cov() @ EFFECT.T
    forecast = exog + (EFFECT @ error).reshape(STEPS, -1)
    std = pd.DataFrame(
        np.sqrt(np.diagonal(cov)).reshape(STEPS, -1), index=exog.index, columns=exog.columns
    )
    return {
        KNOWN: model.forecast(STEPS, exog),
        AS_KNOWN: model.forecast(STEPS, forecast),
        WITH_STD: model.forecast(STEPS, forecast, exog_std=std),
        WITH_COV: model.forecast(STEPS, forecast, exog_cov=cov),
    }


def day_ahead(demand, exog, day, window, max_train, seed):
    """Forecasts of a day by name, made at its midnight; and the observations."""
    start = demand.index.get_loc(day)
    past, ahead = slice(start - window, start), slice(start, start + STEPS)
    model = Combination(
        [
            Forecaster(
                GPRegressor(),
                lags=lags,
                transform="log",
                seasonal_period=24,
                calendar="fourier",
                max_train=max_train,
            )
            for lags in LAGS
        ]
    ).fit(demand[past], exog[past])
    rng = np.random.default_rng([seed, start])
    error = rng.multivariate_normal(np.zeros(STEPS), error_cov())
    return forecasts(model, exog[ahead], error), demand[ahead]


def width(forecast):
    """Mean width of the 95 % band, in GW."""
    return np.ptp(forecast.interval(0.95).to_numpy(), axis=1).mean()


def rows(day, ahead, actual):
    for name, forecast in ahead.items():
        row = forecast.score(actual)[["crps"]].reset_index(drop=True) * 1000  # MW
        for level in (80, 95):
            band = forecast.interval(level / 100)
            row[level] = scores.coverage(actual, band["lower"], band["upper"])
        row["width"] = (band["upper"] - band["lower"]).to_numpy() * 1000
        yield row.assign(model=name, day=day, step=np.arange(1, STEPS + 1))


def table(frame):
    lines = [
        "|  | 95 % band covers | steps 1-6 | 7-12 | 13-18 | 19-24 | December to February "
        "| 80 % band covers | width of the 95 % band (MW) | CRPS (MW) |",
        "|---|" + "---:|" * 9,
    ]
    for name, part in frame.groupby("model", sort=False):
        quarters = part.groupby((part["step"] - 1) // 6)[95].mean()
        summer = part[part["day"].dt.month.isin((12, 1, 2))][95].mean()
        shares = [part[95].mean(), *quarters, summer, part[80].mean()]
        cells = " | ".join("-" if np.isnan(share) else f"{100 * share:.1f} %" for share in shares)
        lines.append(
            f"| {name} | {cells} | {part['width'].mean():.0f} | {part['crps'].mean():.1f} |"
        )
    return "\n".join(lines)


def draw(frame, ahead, actual, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    hours = np.arange(1, STEPS + 1)
    for name, color, alpha in ((WITH_COV, plot.COLORS[0], 0.25), (AS_KNOWN, plot.COLORS[1], 0.35)):
        band = ahead[name].interval(0.95)
        left.fill_between(
            hours, band["lower"], band["upper"], color=color, alpha=alpha, lw=0, label=name
        )
        left.plot(hours, ahead[name].median, color=color)
    left.plot(hours, actual, "o", color="black", ms=3, label="actual")
    left.set(xlabel=f"hours after midnight, {actual.index[0]:%d %B %Y}", ylabel="demand (GW)")
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    for number, (name, part) in enumerate(frame.groupby("model", sort=False)):
        if name == WITH_STD:
            continue
        color = {WITH_COV: plot.COLORS[0], AS_KNOWN: plot.COLORS[1]}.get(name, "0.4")
        blocks = part.groupby((part["step"] - 1) // 3)[95].mean()
        right.plot(blocks.index * 3 + 2, blocks, "o^xs"[number] + "-", color=color, label=name)
    right.axhline(0.95, color="black", lw=0.8, ls=":", label="nominal")
    right.set(xlabel="hours ahead (averages of 3)", ylabel="share inside the 95 % band")
    right.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9)
    for axis in (left, right):
        axis.set_xticks(range(0, STEPS + 1, 6))
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, metavar="CSV")
    parser.add_argument("--output", type=Path, default=Path("output"), metavar="DIR")
    parser.add_argument("--quick", action="store_true", help="two days, 300 rows")
    parser.add_argument("--every", type=int, default=4, help="days between origins")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=0, help="of the temperature errors")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    if not args.data.is_file():
        absent = f"The electricity data are not at {args.data}: pass --data CSV. No forecast made."
        if not args.quick:
            sys.exit(absent)
        (args.output / "electricity.md").write_text(absent + "\n", encoding="utf-8")
        print(absent)
        return
    demand, exog = read(args.data)
    # The model was chosen on every eighth day from the 4th of January; these are others.
    days = pd.date_range("2014-01-06", "2014-12-30", freq=f"{args.every}D", tz=demand.index.tz)
    max_train = 1200
    if args.quick:
        days, max_train = days[:2], 300
    made = Parallel(n_jobs=args.jobs)(
        delayed(day_ahead)(demand, exog, day, max_train + 200, max_train, args.seed) for day in days
    )
    frame = pd.concat(row for day, one in zip(days, made, strict=True) for row in rows(day, *one))
    shown = max(made, key=lambda one: width(one[0][WITH_COV]) - width(one[0][AS_KNOWN]))
    text = (
        f"{len(days)} days of 2014, {args.every} days apart, {STEPS} hours from midnight; "
        f"{max_train} rows to learn from.\n\n{table(frame)}\n"
    )
    (args.output / "electricity.md").write_text(text, encoding="utf-8")
    draw(frame, *shown, args.output / "electricity.png")
    print(text)


if __name__ == "__main__":
    main()
