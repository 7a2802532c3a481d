"""Write the CSV files of this folder from the public-domain series that statsmodels carries.

    python datasets/make_datasets.py [folder]

Without a folder the files beside this script are rewritten. One line a file is printed: name, rows,
first and last time, SHA-256, as recorded in README.md.
"""

import hashlib
import sys
from pathlib import Path

import pandas as pd
from statsmodels.datasets import co2, elnino, macrodata, nile, sunspots


def monthly_co2() -> pd.Series:
    """Monthly mean of the weeks observed, from the month after the last one without any."""
    weekly = co2.load_pandas().data["co2"]
    # The weeks are dated by their Saturday; `mean` leaves out weeks without a value.
    monthly = weekly.resample("MS").mean()
    last_empty = monthly.index[monthly.isna()].max()
    return monthly[monthly.index > last_empty]


def monthly_elnino() -> pd.Series:
    """One value a month from a table of one row a year."""
    wide = elnino.load_pandas().data.set_index("YEAR")
    index = pd.date_range(f"{wide.index[0]:.0f}-01", periods=wide.size, freq="MS")
    return pd.Series(wide.to_numpy().ravel(), index)


def quarterly_us_gdp() -> pd.Series:
    """Real gross domestic product, dated by the first month of its quarter."""
    table = macrodata.load_pandas().data
    index = pd.date_range(f"{table['year'].iloc[0]:.0f}-01", periods=len(table), freq="QS")
    if not (index.year == table["year"]).all() or not (index.quarter == table["quarter"]).all():
        raise ValueError("macrodata must have one row a quarter; got a gap. Look at statsmodels.")
    return pd.Series(table["realgdp"].to_numpy(), index)


def yearly(years: pd.Series, values: pd.Series) -> pd.Series:
    """Values dated by the first day of their year."""
    index = pd.DatetimeIndex([f"{year:.0f}-01-01" for year in years], freq="YS")
    return pd.Series(values.to_numpy(), index)


def main(folder: Path) -> None:
    """Write every file into `folder`."""
    for module in (co2, elnino, macrodata, nile, sunspots):
        if "public domain" not in module.COPYRIGHT:
            raise ValueError(f"{module.__name__} is no longer public domain: {module.COPYRIGHT}")
    sun, flow = sunspots.load_pandas().data, nile.load_pandas().data
    tables = {
        "co2": (monthly_co2(), "%Y-%m"),
        "elnino": (monthly_elnino(), "%Y-%m"),
        "nile": (yearly(flow["year"], flow["volume"]), "%Y"),
        "sunspots": (yearly(sun["YEAR"], sun["SUNACTIVITY"]), "%Y"),
        "us_gdp": (quarterly_us_gdp(), "%Y-%m"),
    }
    for name, (series, time_format) in tables.items():
        # Eight digits hold every published value exactly, and a monthly mean to 1e-5 ppmv, while
        # differences of summation order in the last bit cannot change the file.
        rows = [
            f"{time},{value:.8g}"
            for time, value in zip(series.index.strftime(time_format), series, strict=True)
        ]
        content = "\n".join([f"time,{name}", *rows, ""]).encode()
        (folder / f"{name}.csv").write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        first, last = rows[0].split(",")[0], rows[-1].split(",")[0]
        print(f"{name}.csv {len(rows)} {first} {last} {digest}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
