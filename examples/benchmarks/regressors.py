"""Regressors known ahead, beside ARIMA with regressors and LightGBM by skforecast.

    pip install skforecast lightgbm
    python examples/benchmarks/regressors.py             # ten minutes of one core
    python examples/benchmarks/regressors.py --series "bikes, days" --origins 2
    python examples/benchmarks/regressors.py --hired FOLDER

Made series have a known truth; the demand for electricity of Victoria with its temperature is read
from ../shared/data, and bikes that were hired, with the weather, from the folder of day.csv and
hour.csv (UCI, Bike Sharing, 275); they are left out without these. All methods have the same
origins, values before them and regressors after them. Rivals are told the season: ARIMA as waves or
weekdays among its regressors, LightGBM as parts of the date among its inputs. One ARIMA is told the
shape of the effects, too: bends, delays, the logarithm, and which regressors do nothing.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm

from forecast_unc import Forecaster

LEVELS = np.round([0.025, *np.arange(1, 20) / 20, 0.975], 3)
DEMAND = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "vic_electricity_halfhourly.csv.gz"
)
HIRED: list[Path] = []  # the folder of the hired bikes, if it was given
ORDERS = ((1, 0, 0), (2, 0, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1))

Array = np.ndarray


class Case(NamedTuple):
    """A series with its regressors, and how it is forecast."""

    y: pd.Series
    exog: pd.DataFrame
    known: int  # values before an origin
    steps: int
    origins: int  # a horizon apart, the last one ends the series
    told: pd.DataFrame  # the regressors in the shape of their effects
    log: bool = False  # whether the effects are on the logarithm


# --- series


def errors(rng: np.random.Generator, n: int, phi: float, std: float) -> Array:
    e = np.zeros(n)
    for t in range(1, n):
        e[t] = phi * e[t - 1] + std * rng.standard_normal()
    return e


def bikes(rng: np.random.Generator) -> Case:
    """Hired by the day: warmth that bends, rain and wind of the day, weekdays."""
    index = pd.date_range("2022-01-01", periods=560, freq="D")
    year = 12 - 10 * np.cos(2 * np.pi * (index.dayofyear.to_numpy() - 20) / 365.25)
    temperature = year + errors(rng, len(index), 0.7, 2.5)
    rain = np.where(rng.random(len(index)) < 0.4, rng.gamma(0.8, 5.0, len(index)), 0.0)
    wind = 12 + 4 * np.abs(rng.standard_normal(len(index)))
    level = 900 + 130 * np.minimum(temperature, 24) - 60 * np.maximum(temperature - 26, 0)
    level = level - 350 * np.log1p(rain) - 25 * wind + 300 * (index.day_of_week < 5)
    y = np.maximum(level + errors(rng, len(index), 0.5, 180.0) + 1200, 0.0)
    exog = pd.DataFrame({"temperature": temperature, "rain": rain, "wind": wind}, index)
    told = exog.assign(over=(exog["temperature"] - 24).clip(lower=0), rain=np.log1p(rain))
    return Case(pd.Series(y, index), exog, 420, 14, 6, told)


def shop(rng: np.random.Generator) -> Case:
    """Sales by the day in proportion to what promotions, a price and holidays make of them."""
    index = pd.date_range("2022-01-03", periods=560, freq="D")
    promotion = np.repeat(rng.random(80) < 0.25, 7) * (index.day_of_week < 6)
    price = 5 + np.repeat(rng.choice([-0.5, 0.0, 0.4], 20), 28)
    holiday = rng.random(len(index)) < 0.03
    week = np.array([0.0, -0.1, -0.1, 0.0, 0.15, 0.4, -0.3])[index.day_of_week]
    level = 5 + week + 0.35 * promotion - 0.3 * (price - 5) - 0.8 * holiday
    level = level - 0.1 * np.append(False, promotion[:-1]) + errors(rng, len(index), 0.7, 0.08)
    columns = {"promotion": promotion * 1.0, "price": price, "holiday": holiday * 1.0}
    exog = pd.DataFrame(columns, index)
    told = exog.assign(after=np.append(False, promotion[:-1]) * 1.0)
    return Case(pd.Series(np.exp(level), index), exog, 420, 14, 6, told, log=True)


def months(rng: np.random.Generator) -> Case:
    """Months with a drift, a season and two regressors, of which one acts a month later."""
    index = pd.date_range("2008-01-01", periods=180, freq="MS")
    first, second = errors(rng, 180, 0.8, 1.0), errors(rng, 180, 0.5, 1.0)
    season = 6 * np.sin(2 * np.pi * np.arange(180) / 12)
    walk = np.cumsum(0.1 + rng.standard_normal(180))
    y = 100 + walk + season + 3 * first + 2 * np.append(0.0, second[:-1])
    exog = pd.DataFrame({"a": first, "b": second}, index)
    told = exog.assign(b=np.append(0.0, second[:-1]))
    return Case(pd.Series(y, index), exog, 108, 12, 6, told)


def useless(rng: np.random.Generator) -> Case:
    """Days with a week, and ten regressors that do nothing."""
    index = pd.date_range("2022-01-01", periods=400, freq="D")
    y = 50 + 5 * np.sin(2 * np.pi * np.arange(400) / 7) + errors(rng, 400, 0.8, 2.0)
    exog = pd.DataFrame({f"x{i}": errors(rng, 400, 0.6, 1.0) for i in range(10)}, index)
    return Case(pd.Series(y, index), exog, 290, 14, 6, exog[[]])


def demand(freq: str) -> Case:
    table = pd.read_csv(DEMAND)
    table.index = pd.to_datetime(table.pop("Time")).dt.tz_convert("Etc/GMT-10").dt.tz_localize(None)
    by = table.resample(freq)
    exog = pd.DataFrame({"temperature": by["Temperature"].mean()})
    if freq == "D":
        exog["warmest"] = by["Temperature"].max()
    exog["holiday"] = by["Holiday"].mean().round()
    y, warmth = by["Demand"].mean(), exog["temperature"]
    told = exog.assign(hot=(warmth - 20).clip(lower=0), before=warmth.shift(1))
    if freq == "D":
        some, known, steps, origins = slice(10, 910), 500, 14, 6
        told["hottest"] = (exog["warmest"] - 28).clip(lower=0)
    else:
        some, known, steps, origins = slice(5000, 6776), 1008, 48, 4
        told["day"] = told["hot"].rolling(24).mean()
    return Case(y[some], exog[some], known, steps, origins, told[some])


def hired(freq: str) -> Case:
    """Hired in Washington: hours without any are not in the file, and have the weather before."""
    table = pd.read_csv(HIRED[0] / ("day.csv" if freq == "D" else "hour.csv"))
    table.index = pd.to_datetime(table["dteday"])
    if freq == "h":
        table.index += pd.to_timedelta(table["hr"], unit="h")
    table = table.asfreq(freq)
    columns = ["temp", "hum", "windspeed", "weathersit", "holiday", "workingday"]
    exog = table[columns].ffill().astype(float)
    told = exog.assign(hot=(exog["temp"] - 0.6).clip(lower=0), rain=1.0 * (exog["weathersit"] > 2))
    y = table["cnt"].fillna(0.0)
    if freq == "D":
        return Case(y[:716], exog[:716], 380, 14, 6, told[:716])
    return Case(y[:9000], exog[:9000], 1008, 48, 4, told[:9000])


SERIES: dict[str, Callable[[], Case]] = {
    "bikes, days": lambda: bikes(np.random.default_rng(1)),
    "shop, days": lambda: shop(np.random.default_rng(2)),
    "months, two regressors": lambda: months(np.random.default_rng(3)),
    "ten useless regressors, days": lambda: useless(np.random.default_rng(4)),
    "demand with temperature, days": lambda: demand("D"),
    "demand with temperature, hours": lambda: demand("h"),
    "hired bikes, days": lambda: hired("D"),
    "hired bikes, hours": lambda: hired("h"),
}


# --- methods: values before, regressors before and after -> quantiles (steps, levels)


def ours(y: pd.Series, exog: pd.DataFrame, future: pd.DataFrame) -> Array:
    ahead = Forecaster().fit(y, exog).forecast(len(future), future)
    return ahead.quantile(LEVELS).to_numpy()


def without(y: pd.Series, exog: pd.DataFrame, future: pd.DataFrame) -> Array:
    return Forecaster().fit(y).forecast(len(future)).quantile(LEVELS).to_numpy()


def of_the_date(index: pd.DatetimeIndex, waves: bool) -> pd.DataFrame:
    """The season: weekdays and waves for a line, parts of the date for trees."""
    if not waves:
        parts = {"month": index.month, "weekday": index.day_of_week, "hour": index.hour}
        return pd.DataFrame(parts, index).astype(float)
    columns = {}
    if index.freqstr == "MS":
        columns = {f"month{i}": index.month == i for i in range(2, 13)}
    else:
        columns = {f"day{i}": index.day_of_week == i for i in range(1, 7)}
    if index.freqstr == "h":
        for k in range(1, 9):
            angle = 2 * np.pi * k * index.hour / 24
            weekend = 1 * (index.day_of_week > 4)
            columns |= {f"s{k}": np.sin(angle), f"c{k}": np.cos(angle)}
            columns |= {f"sw{k}": np.sin(angle) * weekend, f"cw{k}": np.cos(angle) * weekend}
    return pd.DataFrame(columns, index).astype(float)


def arima(y: pd.Series, exog: pd.DataFrame, future: pd.DataFrame) -> Array:
    """Regression with ARMA errors, of values or changes, the orders by Akaike's criterion."""
    from statsmodels.tsa.arima.model import ARIMA

    warnings.simplefilter("ignore")  # the import sets filters of its own
    past, ahead = (pd.concat([x, of_the_date(x.index, True)], axis=1) for x in (exog, future))
    changes = past.loc[:, past.std() > 0].columns
    past, ahead = past[changes], ahead[changes]
    best = None
    for order in ORDERS:
        trend = "c" if order[1] == 0 else "n"
        model = ARIMA(y, past, order=order, trend=trend)
        found = model.fit(method="innovations_mle", gls=True)
        if best is None or found.aic < best.aic:
            best = found
    forecast = best.get_forecast(len(ahead), exog=ahead)
    mean, std = (np.asarray(a)[:, None] for a in (forecast.predicted_mean, forecast.se_mean))
    return mean + std * norm.ppf(LEVELS)


def trees(y: pd.Series, exog: pd.DataFrame, future: pd.DataFrame) -> Array:
    """LightGBM on lagged values, iterated; residuals of forecasts of the last fifth, drawn anew."""
    from lightgbm import LGBMRegressor
    from skforecast.model_selection import TimeSeriesFold, backtesting_forecaster
    from skforecast.recursive import ForecasterRecursive

    past, ahead = (pd.concat([x, of_the_date(x.index, False)], axis=1) for x in (exog, future))
    lags = {"h": 48, "D": 14, "MS": 12}[y.index.freqstr]
    learner = LGBMRegressor(
        n_estimators=200, learning_rate=0.05, min_child_samples=10, verbose=-1, n_jobs=1
    )
    model = ForecasterRecursive(learner, lags=lags)
    folds = TimeSeriesFold(
        steps=len(future), initial_train_size=len(y) * 4 // 5, refit=False, verbose=False
    )
    _, tried = backtesting_forecaster(
        model, y, folds, "mean_absolute_error", exog=past, show_progress=False, n_jobs=1
    )
    model.fit(y, exog=past)
    actual = y[tried.index]
    model.set_out_sample_residuals(y_true=actual.to_numpy(), y_pred=tried["pred"].to_numpy())
    found = model.predict_quantiles(
        len(future), exog=ahead, quantiles=LEVELS.tolist(), n_boot=500, random_state=0,
        use_in_sample_residuals=False,
    )  # fmt: skip
    return np.sort(found.to_numpy(), axis=1)


METHODS = {
    "Forecaster()": ours,
    "ARIMA with regressors": arima,
    "ARIMA, told the shape": arima,
    "LightGBM by skforecast": trees,
    "Forecaster() without regressors": without,
}


# --- scores


def scores(q: Array, y: Array) -> dict[str, float]:
    """Of quantiles (steps, levels): CRPS by 19 of them, MAE of the median, the 95 % interval's."""
    apart = y[:, None] - q[:, 1:-1]
    pinball = np.where(apart > 0, LEVELS[1:-1], LEVELS[1:-1] - 1) * apart
    low, high = q[:, 0], q[:, -1]
    beyond = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return {
        "CRPS": 2 * pinball.mean(),
        "MAE": np.abs(y - q[:, len(LEVELS) // 2]).mean(),
        "interval score": (high - low + 2 / 0.05 * beyond).mean(),
        "coverage": np.mean(beyond == 0),
    }


def run(name: str, origins: int | None) -> pd.DataFrame:
    """Scores and seconds by method, means over origins."""
    case = SERIES[name]()
    n, rows = len(case.y), []
    for origin in range(case.origins if origins is None else origins):
        cut = n - (origin + 1) * case.steps
        past, ahead = slice(cut - case.known, cut), slice(cut, cut + case.steps)
        for method, quantiles in METHODS.items():
            told = method.endswith("told the shape")
            exog, log = (case.told, case.log) if told else (case.exog, False)
            start = time.perf_counter()
            q = quantiles(np.log(case.y[past]) if log else case.y[past], exog[past], exog[ahead])
            q = np.exp(q) if log else q
            took = time.perf_counter() - start
            rows.append({"method": method, **scores(q, case.y[ahead].to_numpy()), "seconds": took})
    return pd.DataFrame(rows).groupby("method", sort=False).mean()


def cell(row: pd.Series, digits: int) -> str:
    each = " / ".join(f"{row[name]:.{digits}f}" for name in ("CRPS", "MAE", "interval score"))
    return f"{each} / {row['coverage']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--series", nargs="+", default=list(SERIES), choices=list(SERIES))
    parser.add_argument("--origins", type=int, help="fewer than those of each series")
    parser.add_argument("--hired", type=Path, help="folder of day.csv and hour.csv, hired bikes")
    options = parser.parse_args()
    HIRED.extend([options.hired] * (options.hired is not None))
    warnings.simplefilter("ignore")
    print(f"| series | {' | '.join(METHODS)} |")
    print("|---" * (1 + len(METHODS)) + "|")
    took = []
    for name in options.series:
        if name.startswith("demand") and not DEMAND.exists():
            print(f"| {name} | left out: no {DEMAND.name} in ../shared/data |")
            continue
        if name.startswith("hired") and not HIRED:
            print(f"| {name} | left out: no --hired |")
            continue
        table = run(name, options.origins)
        digits = int(np.clip(2 - np.floor(np.log10(table["CRPS"].min())), 0, 3))
        cells = [cell(row, digits) for _, row in table.iterrows()]
        best = int(table["CRPS"].to_numpy().argmin())
        cells[best] = f"**{cells[best]}**"
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        took.append(table["seconds"])
    seconds = pd.concat(took, axis=1).mean(axis=1)
    print(f"| seconds a forecast | {' | '.join(f'{one:.1f}' for one in seconds)} |")


if __name__ == "__main__":
    main()
