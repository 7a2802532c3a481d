"""Data files and generators: what the README says of them, where they are found, and oracles."""

import ast
import functools
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import make_interp_spline

from forecast_unc import datasets

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "datasets"

# name, frequency, first, last, rows, unit
SERIES = [
    ("co2", "MS", "1964-05-01", "2001-12-01", 452, "ppmv"),
    ("elnino", "MS", "1950-01-01", "2010-12-01", 732, "degrees Celsius"),
    ("nile", "YS-JAN", "1871-01-01", "1970-01-01", 100, "1e8 m^3"),
    ("sunspots", "YS-JAN", "1700-01-01", "2008-01-01", 309, "sunspot number"),
    ("us_gdp", "QS-JAN", "1959-01-01", "2009-07-01", 203, "1e9 US dollars of 2005 per year"),
]


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(name: str) -> pd.Series:
    return getattr(datasets, f"load_{name}")()


@pytest.mark.parametrize(("name", "freq", "first", "last", "rows", "unit"), SERIES)
def test_series_are_regular_complete_and_labeled(name, freq, first, last, rows, unit):
    series = load(name)
    assert series.name == name
    assert series.attrs["unit"] == unit
    assert series.dtype == np.float64
    assert series.notna().all()
    assert isinstance(series.index, pd.DatetimeIndex)
    assert series.index.freqstr == freq
    assert series.index.equals(pd.date_range(first, last, freq=freq))
    assert len(series) == rows


@pytest.mark.parametrize(("name", "freq", "first", "last", "rows", "unit"), SERIES)
def test_readme_states_rows_period_unit_and_checksum(name, freq, first, last, rows, unit):
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    [line] = re.findall(rf"^\| `{name}\.csv` \|.*$", readme, flags=re.MULTILINE)
    cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
    content = (FOLDER / f"{name}.csv").read_bytes()
    digits = 4 if freq.startswith("YS") else 7
    assert cells[2] == unit
    assert cells[4] == f"{first[:digits]} to {last[:digits]}"
    assert cells[5] == str(rows)
    assert "public domain" in cells[7]
    assert cells[8] == hashlib.sha256(content).hexdigest()
    assert b"\r" not in content


def test_no_file_is_undocumented():
    assert {path.stem for path in FOLDER.glob("*.csv")} == {row[0] for row in SERIES}
    assert {name for name in datasets.__all__ if name.startswith("load_")} == {
        f"load_{row[0]}" for row in SERIES
    }


@pytest.mark.slow
def test_script_writes_the_same_files(tmp_path):
    run(FOLDER / "make_datasets.py", tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FOLDER.glob("*.csv")}


def test_co2_is_the_mean_of_the_weeks_observed():
    co2 = pytest.importorskip("statsmodels.datasets.co2")
    weekly = co2.load_pandas().data["co2"].dropna()
    month = weekly.index.strftime("%Y-%m")
    for time, value in load("co2").items():
        assert value == pytest.approx(weekly[month == f"{time:%Y-%m}"].mean(), rel=1e-7)


LOAD_ALL = """
import forecast_unc, forecast_unc.datasets as d
print(forecast_unc.__file__)
for name in sorted(d.__all__):
    if name.startswith("load_"):
        series = getattr(d, name)()
        print(series.name, len(series), series.index.freqstr, float(series.sum()))
"""


def loaded_from(folder: Path, cwd: Path) -> list[str]:
    """Lines that LOAD_ALL prints in a fresh interpreter which finds the package in `folder`."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    package, *lines = run("-c", LOAD_ALL, cwd=cwd, env=environment).splitlines()
    assert Path(package).parent == folder / "forecast_unc"
    return lines


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return [
        f"{name} {rows} {freq} {float(load(name).sum())}" for name, freq, _, _, rows, _ in SERIES
    ]


def test_a_checkout_reads_the_top_folder():
    assert not (ROOT / "forecast_unc" / "_data").exists()
    assert Path(datasets.__file__).parents[1] == ROOT


@pytest.mark.slow
def test_checkout_and_editable_install_read_the_top_folder(tmp_path, expected):
    assert loaded_from(ROOT, tmp_path) == expected


@pytest.mark.slow
def test_wheel_carries_the_files(tmp_path, expected):
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("needs hatchling to build the wheel")
    run("-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    installed, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert not (installed / "datasets").exists()
    assert loaded_from(installed, elsewhere) == expected


def test_module_itself_imports_arrays_and_pandas_alone():
    tree = ast.parse(Path(datasets.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {
        *("__future__", "math", "numpy", "pandas", "pathlib"),
        "scipy.interpolate",
        *("forecast_unc._checks", "forecast_unc._typing"),
    }


# Generators


def mackey_glass_oracle(tau: float, until: float) -> Callable[[float], float]:
    """Method of steps: one ordinary equation per delay, the past being its dense solution."""
    pieces = [lambda _: [1.2]]
    for k in range(int(until / tau) + 1):

        def slope(t, x, past=pieces[-1]):
            lagged = past(t - tau)[0]
            return 0.2 * lagged / (1 + lagged**10) - 0.1 * x

        span = (k * tau, (k + 1) * tau)
        start = pieces[-1](span[0])
        solved = solve_ivp(slope, span, start, "DOP853", dense_output=True, rtol=1e-9, atol=1e-11)
        pieces.append(solved.sol)
    return lambda t: pieces[1 + int(t / tau)](t)[0]


@pytest.mark.parametrize("tau", [17.31])
def test_mackey_glass_is_what_the_method_of_steps_gives(tau):
    # The first 1000 units of time are discarded; errors have grown some fortyfold by then.
    oracle = mackey_glass_oracle(tau, 1050)
    expected = [oracle(1000.0 + i) for i in range(50)]
    np.testing.assert_allclose(datasets.make_mackey_glass(50, tau), expected, atol=1e-6)


@pytest.mark.parametrize("start", [302, 342, 382, 422, 462, 502, 542, 560])
def test_mackey_glass_integrator_against_a_published_solution(shared_data, start):
    # x' = 2 x(t-2) / (1 + x(t-2)^9.65) - x. This system is chaotic: whatever error the interpolated
    # history has grows about tenfold in 25 units of time. Restarted from the file every 40 units,
    # the whole span 302..600 is met within 5e-6; in one run from 304 on, 1e-4 holds up to 411.
    time, x, lagged = pd.read_csv(shared_data / "mackeyglass_dde_tau2.csv").to_numpy().T
    np.testing.assert_array_equal(x[:-20], lagged[20:])
    step = 0.01
    history = make_interp_spline(time, x, k=5)(start - 2 + step / 2 * np.arange(401))
    got = datasets._mackey_glass(
        history, n_steps=4000, step=step, production=2, exponent=9.65, decay=1
    )
    first = round((start - 300) / 0.1)
    np.testing.assert_allclose(got[::10], x[first : first + 401], rtol=0, atol=1e-4)


def test_mackey_glass_integrator_is_of_fourth_order():
    def solution(per_unit: int) -> np.ndarray:
        history = np.full(2 * 17 * per_unit + 1, 1.2)
        x = datasets._mackey_glass(
            history,
            n_steps=300 * per_unit,
            step=1 / per_unit,
            production=0.2,
            exponent=10,
            decay=0.1,
        )
        return x[::per_unit]

    finest = solution(64)
    errors = [np.abs(solution(per_unit) - finest).max() for per_unit in (4, 8, 16)]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    np.testing.assert_allclose(orders, 4, atol=0.2)


def lorenz_file(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    time, *states = pd.read_csv(folder / "lorenz_pysindygui.csv.gz").to_numpy().T
    return time, np.array(states).T


def test_lorenz_against_a_published_solution(shared_data):
    # From the same start, 1e-4 holds up to t = 5; at t = 10 chaos has made 1e-2 of the 2e-6 by
    # which the two differ in the first half unit (at any tolerance from 1e-9 to 1e-12 here).
    time, states = lorenz_file(shared_data)
    until = time <= 5
    np.testing.assert_array_equal(states[0], [-8, 8, 27])
    got = datasets._lorenz((-8.0, 8.0, 27.0), time[until])
    np.testing.assert_allclose(got, states[until], rtol=0, atol=1e-4)


def test_lorenz_against_a_published_solution_restarted(shared_data):
    time, states = lorenz_file(shared_data)
    for i in range(0, len(time) - 1, 2000):  # one unit of time of four
        part = slice(i, i + 501)
        got = datasets._lorenz(tuple(states[i]), time[part] - time[i])
        np.testing.assert_allclose(got, states[part], rtol=0, atol=1e-4)


def test_lorenz_series_is_the_first_coordinate_after_the_transient():
    states = datasets._lorenz((-8.0, 8.0, 27.0), np.arange(0, 11.1, 0.5))
    series = datasets.make_lorenz(3, step=0.5)
    np.testing.assert_allclose(series, states[20:, 0], rtol=1e-4)


GENERATORS = [(datasets.make_mackey_glass, "mackey_glass"), (datasets.make_lorenz, "lorenz")]


@pytest.mark.parametrize(("make", "name"), GENERATORS)
def test_generated_series_are_labeled_and_a_longer_one_begins_alike(make, name):
    series = make(120)
    assert series.name == name
    assert series.attrs["unit"] == "dimensionless"
    assert series.dtype == np.float64
    assert series.index.equals(pd.RangeIndex(120))
    pd.testing.assert_series_equal(series, make(120))
    # The last step of the shorter run is cut to its end, hence not the same bits.
    np.testing.assert_allclose(make(200)[:120], series, atol=1e-4)


@pytest.mark.parametrize(("make", "name"), GENERATORS)
def test_noise_is_additive_white_and_seeded(make, name):
    if name == "lorenz":
        make = functools.partial(make, step=0.001)  # less to integrate
    clean = make(600)
    noisy = make(600, noise_std=0.3, random_state=1)
    noise = noisy - clean
    # Five standard errors: 0.3 / sqrt(600), 0.3 / sqrt(1200), 1 / sqrt(600).
    assert abs(noise.mean()) < 0.061
    assert noise.std() == pytest.approx(0.3, abs=0.043)
    assert abs(noise.autocorr(1)) < 0.2
    noisy = make(90, noise_std=0.3, random_state=1)
    pd.testing.assert_series_equal(noisy, make(90, noise_std=0.3, random_state=1))
    generator = np.random.default_rng(1)
    pd.testing.assert_series_equal(noisy, make(90, noise_std=0.3, random_state=generator))
    again = make(90, noise_std=0.3, random_state=generator)
    assert not np.allclose(noisy, again)


@pytest.mark.parametrize(
    ("make", "name", "values", "message"),
    [
        *(
            (make, "n", (0, -3, 2.5, True), "be a whole number, at least 1; got {}. It is the num")
            for make, _ in GENERATORS
        ),
        *(
            (make, "noise_std", (-0.1, np.inf, np.nan), "be finite and not negative; got {}. Pass")
            for make, _ in GENERATORS
        ),
        (
            datasets.make_mackey_glass,
            "tau",
            (0, -17, 0.5, np.inf, np.nan),
            "be from 1 to 1000; got {}. 17 is usual.",
        ),
        (
            datasets.make_lorenz,
            "step",
            (0, -0.05, np.inf, np.nan),
            "be positive, up to 1000; got {}. 0.05 is usual.",
        ),
    ],
)
def test_bad_arguments_are_refused(make, name, values, message):
    for value in values:
        with pytest.raises(ValueError, match=re.escape(f"{name} must {message.format(value)}")):
            make(**{"n": 10, name: value})
