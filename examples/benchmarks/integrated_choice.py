"""Does the automatic choice gain by integrated hyper-parameters where rows are few?

    python examples/benchmarks/integrated_choice.py --data m3.csv.gz --frequency Quarterly

Data: a file as for m4.py. Forecasts start inside the training parts, one and two horizons before
their ends. Each kind of the default average has its hyper-parameters at the mode, or integrated;
everything else is the same, the calibration of the bands too, which is switched off in a second
table. A line is the mean over series, beside it the difference over its standard error (paired by
series). Series are split at random: one half to choose on, the other in reserve.
"""

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from m4 import FREQUENCIES, split
from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

from forecast_unc import Forecast, Forecaster, scores
from forecast_unc.forecasting.choose.choice import resolve
from forecast_unc.forecasting.pool.pool import Ensemble
from forecast_unc.series.history import History

KINDS = ("mode", "integrated")
ROWS = (8, 20, 40, 80, 150)
LEVELS = np.array([0.025, *np.arange(1, 20) / 20, 0.975])
NAMES = ("mase", "msis", "crps", "cover80", "cover95", "seconds")


def fitted(y: pd.Series, kind: str) -> Forecaster:
    """The default forecaster with the hyper-parameters of all its kinds as said."""
    model = Forecaster()
    history = History.checked(y, None, None)
    specifications, rules = resolve(model, history)
    for one in specifications:
        one.regressor.set_params(hyperparameters=kind)
    model.ensemble_ = Ensemble.fit(specifications, rules, history)
    return model


def judged(ahead: Forecast, actual: np.ndarray, scale: float) -> dict[str, float]:
    """Scores in units of the scale, and coverage; the CRPS by 21 quantiles."""
    quantiles, y = ahead.quantile(LEVELS).to_numpy(), actual[:, None]
    low, high = quantiles[:, 0], quantiles[:, -1]
    pinball = np.maximum(LEVELS * (y - quantiles), (LEVELS - 1.0) * (y - quantiles))
    return {
        "mase": float(np.abs(actual - quantiles[:, 10]).mean() / scale),
        "msis": float(scores.interval_score(actual, low, high, 0.95).mean() / scale),
        "crps": float(2.0 * pinball.mean() / scale),
        "cover80": float(np.mean((actual >= quantiles[:, 2]) & (actual <= quantiles[:, -3]))),
        "cover95": float(np.mean((actual >= low) & (actual <= high))),
    }


def both(y: pd.Series, actual: np.ndarray, scale: float) -> list[dict[str, object]]:
    """Lines of both kinds, with calibrated bands and without."""
    lines: list[dict[str, object]] = []
    for kind in KINDS:
        started = time.process_time()
        model = fitted(y, kind)
        ahead = model.forecast(len(actual))
        seconds = time.process_time() - started
        rules = replace(model.ensemble_.rules, calibrate=False)
        model.ensemble_ = replace(model.ensemble_, rules=rules)
        plain = model.forecast(len(actual))
        for calibrated, one in ((True, ahead), (False, plain)):
            found = judged(one, actual, scale)
            lines.append({"kind": kind, "calibrated": calibrated, "seconds": seconds, **found})
    return lines


def series(data: pd.DataFrame, frequency: str, limit: int) -> pd.DataFrame:
    """Lines of some series of a frequency, drawn at random, from both origins."""
    groups = [g for _, g in data[data["freq"] == frequency].groupby("unique_id", sort=False)]
    chosen = np.random.default_rng(0).permutation(len(groups))[:limit]
    period, lines = FREQUENCIES[frequency][1], []
    for place, number in enumerate(tqdm(chosen)):
        y, test = split(groups[number])
        for back in (1, 2):
            end = len(y) - back * len(test)
            if not max(ROWS[0], period + 3) <= end < ROWS[-1]:
                continue
            known, actual = y.iloc[:end], y.iloc[end : end + len(test)].to_numpy()
            scale = float(scores.naive_scale(known, period))
            if scale > 0.0:
                where = {"series": y.name, "half": place % 2, "rows": end}
                lines += [{**where, **line} for line in both(known, actual, scale)]
    return pd.DataFrame(lines)


def table(lines: pd.DataFrame) -> pd.DataFrame:
    """Means at the mode and integrated, and differences in standard errors, by rows and half."""
    lines = lines.assign(rows=pd.cut(lines["rows"], ROWS, right=False).astype(str))
    found = []
    for (calibrated, rows, half), part in lines.groupby(["calibrated", "rows", "half"]):
        line: dict[str, object] = {"calibrated": calibrated, "rows": rows, "half": half}
        line["series"] = part["series"].nunique()
        means = part.pivot_table(list(NAMES), "series", "kind")
        for name in NAMES:
            mode, integrated = means[name]["mode"], means[name]["integrated"]
            away = integrated - mode
            error = away.std() / np.sqrt(len(away))
            line[name] = f"{mode.mean():.3f} > {integrated.mean():.3f} ({away.mean() / error:+.1f})"
        found.append(line)
    return pd.DataFrame(found)


def main() -> None:
    """Read the file, forecast, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="CSV file, may be compressed")
    parser.add_argument("--frequency", choices=FREQUENCIES, required=True)
    parser.add_argument("--limit", type=int, default=60, help="so many series")
    arguments = parser.parse_args()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = series(pd.read_csv(arguments.data), arguments.frequency, arguments.limit)
    print(table(found).to_string(index=False))


if __name__ == "__main__":
    main()
