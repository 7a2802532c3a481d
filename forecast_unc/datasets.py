"""Series to try the package on: public-domain records, and two chaotic systems to generate.

Each is a float64 Series without missing values, the frequency of its index set and its unit in
``series.attrs["unit"]``. Origin, terms and preparation: the README of the folder of the records.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.interpolate import make_interp_spline

from forecast_unc._checks import RandomState, as_float, check_whole, generator, refusal
from forecast_unc._typing import Array

__all__ = [
    "load_co2",
    "load_elnino",
    "load_nile",
    "load_sunspots",
    "load_us_gdp",
    "make_lorenz",
    "make_mackey_glass",
]


_LONGEST, _MOST = 1e3, 10_000_000  # a delay or step, in the system's own time; values


def load_co2() -> pd.Series[float]:
    """Load the monthly carbon dioxide concentration of the air at Mauna Loa, Hawaii.

    452 monthly means in ppmv (parts per million by volume), May 1964 to December 2001. A trend that
    steepens and a yearly cycle of about 6 ppmv: long horizons are forecast well.
    """
    return _load("co2", freq="MS", unit="ppmv")


def load_elnino() -> pd.Series[float]:
    """Load the monthly sea surface temperature off Peru and Ecuador, where El Nino is felt first.

    732 monthly means in degrees Celsius over 0-10 degrees South and 80-90 degrees West (Nino 1+2),
    January 1950 to December 2010. A strong yearly cycle, and warm episodes every two to seven years
    that are hard to foresee.
    """
    return _load("elnino", freq="MS", unit="degrees Celsius")


def load_nile() -> pd.Series[float]:
    """Load the yearly flow of the Nile at Aswan.

    100 yearly discharges in 1e8 cubic meters, 1871 to 1970: short and noisy, with a drop of the
    level near 1898.
    """
    return _load("nile", freq="YS", unit="1e8 m^3")


def load_sunspots() -> pd.Series[float]:
    """Load the yearly sunspot number, 1700 to 2008.

    309 weighted counts on the scale in use before the revision of 2015.
    Non-negative, with steep rises, slow falls and a cycle of about 11 years whose height varies.
    """
    return _load("sunspots", freq="YS", unit="sunspot number")


def load_us_gdp() -> pd.Series[float]:
    """Load the quarterly real gross domestic product of the United States.

    203 quarters in 1e9 US dollars of 2005 (chained), as yearly rates, first quarter of 1959 to
    third quarter of 2009, dated by the first day of the quarter and seasonally adjusted. Growth is
    in proportion to the level; the series ends in the recession of 2008-2009.
    """
    return _load("us_gdp", freq="QS", unit="1e9 US dollars of 2005 per year")


def make_mackey_glass(
    n: int, tau: float = 17, noise_std: float = 0, random_state: RandomState = None
) -> pd.Series[float]:
    r"""Generate the Mackey-Glass series, sampled once per unit of time.

    .. math:: \dot x(t) = \frac{0.2\, x(t - \tau)}{1 + x(t - \tau)^{10}} - 0.1\, x(t)

    The state is 1.2 before time zero, and the first 1000 units of time are discarded, with an error
    of 2.5e-9 at tau = 17. Beyond a few thousand values the last bit of the arithmetic decides which
    path of the chaotic system it is (M. C. Mackey and L. Glass, Science 197 (1977) 287-289,
    https://doi.org/10.1126/science.267326).

    ``n`` is the number of values, ``tau`` the delay, from 1 to 1000. From about 17 the series is
    chaotic; 30 is harder to forecast. White noise of std ``noise_std`` and seed ``random_state`` is
    added to what is observed, not to the state. The clean series has a std of about 0.23.
    """
    n = _checked_size(n, noise_std)
    if not 1 <= as_float(tau) <= _LONGEST:
        raise refusal("tau", f"be from 1 to {_LONGEST:g}", f"{tau}", "17 is usual.")
    tau = float(tau)
    per_delay = math.ceil(tau / 0.05)  # steps of the integrator
    step = tau / per_delay
    start = 1000
    n_steps, history = math.ceil((start + n) / step), np.full(2 * per_delay + 1, 1.2)
    x = _mackey_glass(history, n_steps, step, production=0.2, exponent=10, decay=0.1)
    # A delay like 17.31 puts the samples between the steps; the quintic is finer than the steps.
    spline = make_interp_spline(step * np.arange(len(x)), x, k=5)
    return _observe(spline(start + np.arange(n)), "mackey_glass", noise_std, random_state)


def make_lorenz(
    n: int, step: float = 0.05, noise_std: float = 0, random_state: RandomState = None
) -> pd.Series[float]:
    r"""Generate the first coordinate of the Lorenz system, sampled once per `step`.

    .. math:: \dot x = 10 (y - x), \quad \dot y = x (28 - z) - y, \quad \dot z = x y - 8 z / 3

    The system starts from (-8, 8, 27), and the first 10 units of time are discarded. The error is
    3e-7 at the first value and 0.02 after 15 units of time; then the last bit of the arithmetic
    decides which path it is (E. N. Lorenz, Journal of the Atmospheric Sciences 20 (1963) 130-141,
    https://doi.org/10.1175/1520-0469(1963)020<0130:DNF>2.0.CO;2).

    ``n`` is the number of values; ``step``, positive, is the time between two. The system orbits in
    about 0.75; the longer the step, the harder the forecast. ``noise_std`` and ``random_state`` are
    those of :func:`make_mackey_glass`; the clean series has a std of about 7.9.
    """
    n = _checked_size(n, noise_std)
    if not 0 < as_float(step) <= _LONGEST:
        raise refusal("step", f"be positive, up to {_LONGEST:g}", f"{step}", "0.05 is usual.")
    states = _lorenz((-8.0, 8.0, 27.0), 10 + float(step) * np.arange(n, dtype=np.float64))
    return _observe(states[:, 0], "lorenz", noise_std, random_state)


def _mackey_glass(
    history: Array, n_steps: int, step: float, *, production: float, exponent: float, decay: float
) -> Array:
    """Solution (n_steps + 1,) at 0, step, ... from that (2 k + 1,) on [-k step, 0], two a step."""
    # As the delay is a whole number of steps, the classic Runge-Kutta method asks for the past at
    # steps and midpoints only, and the cubic Hermite midpoint keeps its fourth order.
    # Lists of Python floats: 0.08 s against 0.20 s with an ndarray, for 6000 units of time.
    past = [float(value) for value in history]

    def produced(x: float) -> float:
        return production * x / (1 + math.pow(x, exponent))

    x, gain = past[-1], produced(past[0])
    slope = gain - decay * x
    for i in range(0, 2 * n_steps, 2):
        gain_mid, gain_end = produced(past[i + 1]), produced(past[i + 2])
        k2 = gain_mid - decay * (x + step / 2 * slope)
        k3 = gain_mid - decay * (x + step / 2 * k2)
        k4 = gain_end - decay * (x + step * k3)
        x_end = x + step / 6 * (slope + 2 * k2 + 2 * k3 + k4)
        slope_end = gain_end - decay * x_end
        past += [(x + x_end) / 2 + step / 8 * (slope - slope_end), x_end]
        x, slope = x_end, slope_end
    return np.array(past[len(history) - 1 :: 2])


def _lorenz(state: tuple[float, float, float], times: Array) -> Array:  # (n, 3)
    """States of the Lorenz system at `times`, from `state` at time zero."""

    def slope(_: float, s: Array) -> list[float]:
        x, y, z = s.tolist()
        return [10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z]

    span = 0.0, times[-1]
    from scipy.integrate import solve_ivp  # kept out of the import

    path = solve_ivp(slope, span, state, "DOP853", t_eval=times, rtol=1e-12, atol=1e-12)
    return np.asarray(path.y.T)


def _observe(
    values: Array, name: str, noise_std: float, random_state: RandomState
) -> pd.Series[float]:
    if noise_std > 0:
        values = values + generator(random_state).normal(0, noise_std, len(values))
    series = pd.Series(values, name=name)
    series.attrs["unit"] = "dimensionless"
    return series


def _load(name: str, freq: str, unit: str) -> pd.Series[float]:
    package = Path(__file__).parent
    installed = package / "_data"  # in a wheel; else the files lie beside the package
    folder = installed if installed.is_dir() else package.parent / "datasets"
    time, values = np.loadtxt(
        folder / f"{name}.csv", dtype=str, delimiter=",", skiprows=1, unpack=True
    )
    index = pd.DatetimeIndex(pd.to_datetime(time, format="ISO8601"), freq=freq)
    series = pd.Series(values.astype(np.float64), index, name=name)
    series.attrs["unit"] = unit
    return series


def _checked_size(n: int, noise_std: float) -> int:
    """Number of values as an int, if it and the noise are valid."""
    n = check_whole("n", n, 1, "It is the number of values returned.")
    if n > _MOST:
        raise refusal("n", f"be at most {_MOST:,}", f"{n:,}", "Chaotic series say no more later.")
    if not 0 <= as_float(noise_std) < math.inf:
        remedy = "Pass 0 for the clean series."
        raise refusal("noise_std", "be finite and not negative", f"{noise_std}", remedy)
    return n
