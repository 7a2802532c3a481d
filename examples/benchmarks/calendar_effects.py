"""What holidays, trading days and Easter are worth: the default call with and without.

    python examples/benchmarks/calendar_effects.py --data DATA [--origins N] [--only NAME ...]

Rolling origins, evenly spaced, in the training parts of DATA and on the demand for electricity of
Victoria. MAE and CRPS of all steps, in units of the series (those of hospital and of cash machines
over their means), with the mean difference to the call without and its standard error: over
origins, of hospital and cash machines over series.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from forecast_unc import Forecaster
from forecast_unc.series.calendar import effect_inputs


def births(data: Path, letter: str, freq: str, test: int) -> pd.Series:
    y = pd.read_csv(data / f"gift_us_births_{letter}.csv.gz")["y"].to_numpy()
    return pd.Series(y, pd.date_range("1969-01-01", periods=len(y), freq=freq))[:-test]


def hospital(data: Path, number: int) -> list[pd.Series]:
    frame = pd.read_csv(data / "gift_hospital_M.csv.gz")
    found = []
    for _, one in list(frame.groupby("unique_id"))[:: max(1, 767 // number)][:number]:
        index = pd.date_range("2000-01-01", periods=len(one), freq="MS")
        y = pd.Series(one["y"].to_numpy(), index)[:-12]
        found.append(y / y.mean())
    return found


def cash_machines(data: Path, number: int) -> list[pd.Series]:
    """Training parts of NN5, withdrawals in England from 18 March 1996 on, up to one of four days.

    Each with the 28 days that follow: from November 1997 to February 1998.
    """
    frame = pd.read_csv(data / "nn5_dev.csv.gz")
    frame, found = frame[frame["is_test"] == 0], []
    for _, one in list(frame.groupby("unique_id"))[::2][:number]:
        index = pd.date_range("1996-03-18", periods=len(one), freq="D")
        y = pd.Series(one["y"].to_numpy(), index)
        found += [(y / y.mean())[:last] for last in (623, 651, 679, 707)]
    return found


def victoria(data: Path, freq: str) -> pd.Series:
    frame = pd.read_csv(data / "vic_electricity_halfhourly.csv.gz")
    times = pd.to_datetime(frame["Time"], utc=True).dt.tz_convert("Australia/Melbourne")
    y = pd.Series(frame["Demand"].to_numpy(), pd.DatetimeIndex(times).tz_localize(None))
    return y.groupby(level=0).mean().resample(freq).mean().interpolate()


def days(y: pd.Series, word: str) -> pd.DatetimeIndex:
    columns = effect_inputs(y.index, (word,))
    held = np.sum([one for (kind, _), one in columns.items() if kind == word], axis=0) > 0
    return y.index[held]


def score(y: pd.Series, origin: int, steps: int, calendar: object) -> tuple[float, float, float]:
    start = time.perf_counter()
    with threadpool_limits(1):
        ahead = Forecaster(calendar=calendar, random_state=0).fit(y[:origin]).forecast(steps)
    seconds = time.perf_counter() - start
    actual = y[origin : origin + steps]
    return (ahead.mean - actual).abs().mean(), ahead.score(actual)["crps"].mean(), seconds


def rows(data: Path, n: int) -> list[tuple[str, list[pd.Series], int, int, dict[str, object]]]:
    """Name, series, the least values before an origin, steps, and the calendars."""
    us, vic, gb = "holidays:US", "holidays:AU-VIC", "holidays:GB-ENG"
    b, v, h = births(data, "D", "D", 600), victoria(data, "D"), victoria(data, "h")
    long = pd.date_range("1968-01-01", "1990-12-31", freq="D")
    any_us = days(pd.Series(0.0, long), us)
    one = ("fourier", any_us)
    td = {"without": "auto", "trading_days": "trading_days", "easter": "easter"}
    td["both"] = ("trading_days", "easter")
    births_d = {"without": "auto", "one effect (DatetimeIndex)": one, us: us}
    return [
        ("births, days", [b], 1195, 30, births_d),
        ("electricity, days", [v], 700, 14, {"without": "auto", vic: vic}),
        ("electricity, hours", [h], 24 * 700, 48, {"without": "auto", vic: vic}),
        ("cash, days", cash_machines(data, n), 500, 28, {"without": "auto", gb: gb}),
        ("births, months", [births(data, "M", "MS", 24)], 60, 12, td),
        ("hospital, months", hospital(data, n), 60, 12, td),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--origins", type=int, default=48)
    parser.add_argument("--only", nargs="+")
    options = parser.parse_args()
    print("| series | calendar | MAE | CRPS | difference of MAE | of CRPS | seconds |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, series, least, steps, calendars in rows(options.data, options.origins):
        if options.only and name not in options.only:
            continue
        plain = None
        for label, calendar in calendars.items():
            if len(series) > 1:
                found = [score(y, len(y) - steps, steps, calendar) for y in series]
            else:
                (y,) = series
                origins = np.linspace(least, len(y) - steps, options.origins).astype(int)
                found = [score(y, origin, steps, calendar) for origin in origins]
            each = np.array(found)
            plain = each if plain is None else plain
            apart = (each - plain)[:, :2]
            if name.startswith("cash"):
                apart = apart.reshape(-1, 4, 2).mean(axis=1)
            error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
            mae, crps, seconds = each.mean(axis=0)
            gains = "".join(
                f" {d:+.4g} ± {e:.2g} |" for d, e in zip(apart.mean(axis=0), error, strict=True)
            )
            print(
                f"| {name} | {label} | {mae:.4g} | {crps:.4g} |{gains} {seconds:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
