"""What a model holds of pandas and numpy, as plain parts: indices, times, generators."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries import offsets
from pandas.tseries.frequencies import to_offset

Parts = dict[str, Any]

_UNITS = ("s", "ms", "us", "ns")
_LABELS = re.compile(r"object|str|string|bool|u?int\d+|float\d+")
_OFFSET_FROM_UTC = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")
# Frequencies whose name does not say all of them.
_OFFSETS: dict[str, Any] = {
    one.__name__: one
    for one in (
        offsets.BusinessDay,
        offsets.BusinessHour,
        offsets.CustomBusinessDay,
        offsets.CustomBusinessHour,
        offsets.CustomBusinessMonthBegin,
        offsets.CustomBusinessMonthEnd,
    )
}
_BIT_GENERATORS = {
    one.__name__: one
    for one in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}


def parts_of(name: str, value: object) -> Parts | None:
    """The parts of an object of pandas or numpy; None if it is of a class that has none here.

    Parameters
    ----------
    name : str
        Name of the argument in messages.
    value : object
        The object.

    Returns
    -------
    dict of str to plain values, or None

    Raises
    ------
    TypeError
        If it has a frequency or time zone without a name.
    """
    kind = type(value).__name__
    own = type(value).__module__.partition(".")[0] in ("pandas", "numpy")
    return _TAKEN_APART[kind](name, value) if own and kind in _TAKEN_APART else None


def made_of(kind: str, parts: Mapping[str, Any]) -> object:
    """The object of a class that has such parts.

    Parameters
    ----------
    kind : str
        Name of the class.
    parts : dict
        As of `parts_of`.

    Returns
    -------
    object
    """
    return _PUT_TOGETHER[kind](**parts)


def _range_parts(_: str, index: pd.RangeIndex) -> Parts:
    return {"start": index.start, "stop": index.stop, "step": index.step, "name": index.name}


def _date_parts(name: str, index: pd.DatetimeIndex) -> Parts:
    return {
        "values": index.asi8,
        "unit": index.unit,
        "zone": None if index.tz is None else _zone_named(name, index),
        "frequency": None if index.freq is None else _frequency_parts(name, index.freq),
        "name": index.name,
    }


def _dates(values: Any, unit: str, zone: str | None, frequency: Any, name: Any) -> pd.DatetimeIndex:
    if unit not in _UNITS:
        raise ValueError(unit)
    index = pd.DatetimeIndex(_ordinals(values).view(f"M8[{unit}]"))
    if zone is not None:
        index = index.tz_localize("UTC").tz_convert(_zone(zone))
    freq: Any = None if frequency is None else _frequency(frequency)
    return pd.DatetimeIndex(index, freq=freq, name=name)


def _period_parts(_: str, index: pd.PeriodIndex) -> Parts:
    return {"values": index.asi8, "frequency": index.freqstr, "name": index.name}


def _periods(values: Any, frequency: str, name: Any) -> object:
    kind: Any = pd.PeriodIndex  # of 2.2 on, which its stubs do not know
    return kind.from_ordinals(_ordinals(values), freq=frequency, name=name)


def _ordinals(values: Any) -> NDArray[np.int64]:
    """The numbers of times, checked."""
    if values.dtype != np.int64 or values.ndim != 1:
        raise ValueError(values.dtype)
    return np.asarray(values)


def _label_parts(name: str, index: pd.Index[Any]) -> Parts:
    dtype = str(index.dtype)
    if not _LABELS.fullmatch(dtype):
        raise TypeError(
            f"{name} must have text or numbers as labels in a model that is saved; got "
            f"{dtype}. Rename them, and fit again."
        )
    return {"values": index.tolist(), "dtype": dtype, "name": index.name}


def _labels(values: list[Any], dtype: str, name: Any) -> object:
    if not _LABELS.fullmatch(dtype):
        raise ValueError(dtype)
    return pd.Index(values, dtype=dtype, name=name)


def _nested_parts(_: str, index: pd.MultiIndex) -> Parts:
    return {"values": index.tolist(), "names": list(index.names)}


def _nested(values: list[tuple[Any, ...]], names: list[Any]) -> pd.MultiIndex:
    return pd.MultiIndex.from_tuples(values, names=names)


def _time_parts(_: str, time: Any) -> Parts:
    return {"index": pd.Index([time])}


def _time(index: pd.Index[Any]) -> object:
    return index[0]


def _generator_parts(name: str, generator: np.random.Generator) -> Parts:
    state: Any = generator.bit_generator.state
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise TypeError(
            f"{name} must be a generator of numpy's own in a model that is saved; got "
            f"{generator!r}. Pass np.random.default_rng(seed)."
        )
    return {"state": state}


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bits: Any = _BIT_GENERATORS[state["bit_generator"]](0)
    bits.state = state
    return np.random.Generator(bits)


def _zone_named(name: str, index: pd.DatetimeIndex) -> str:
    """The name of a time zone, or its distance from UTC."""
    zone = str(index.tz)
    try:
        same = pd.DatetimeTZDtype(index.unit, _zone(zone)) == index.dtype
    except (ValueError, KeyError, OSError):  # that no time zone has
        same = False
    if not same:
        raise TypeError(
            f"{name} must have a time zone with a name in a model that is saved; got {index.tz!r}. "
            'Fit to a series with one, as tz_convert("Europe/Berlin") gives.'
        )
    return zone


def _zone(text: str) -> str:
    """The text, if it names a time zone: no path of a file, which pandas would read."""
    if not _OFFSET_FROM_UTC.fullmatch(text):
        zoneinfo.ZoneInfo(text)
    return text


def _frequency_parts(name: str, freq: Any) -> str | tuple[str, int, bool, Parts]:
    """The name of a frequency, or its class, multiple and keywords where that is not all of it."""
    try:
        named = to_offset(freq.freqstr) == freq
    except ValueError:  # text that is no name
        named = False
    shifted = bool(freq.kwds.get("offset"))  # which pandas leaves out where it compares
    if named and not shifted:
        return str(freq.freqstr)
    given = {word: value for word, value in freq.kwds.items() if isinstance(value, (str, tuple))}
    words = {
        word: value if isinstance(value, str) else [str(one) for one in value]
        for word, value in given.items()
    }
    parts = type(freq).__name__, freq.n, freq.normalize, words
    if shifted or parts[0] not in _OFFSETS or _frequency(parts) != freq:
        raise TypeError(
            f"{name} must have a frequency that pandas can name in a model that is saved; got "
            f'{freq!r}. Fit to a series with one, as asfreq("B") gives.'
        )
    return parts


def _frequency(parts: Any) -> Any:
    """The frequency of a name, or of a class, multiple and keywords."""
    if isinstance(parts, str):
        return to_offset(parts)
    kind, n, normalize, words = parts
    return _OFFSETS[kind](n, normalize, **{word: _times(value) for word, value in words.items()})


def _times(value: Any) -> Any:
    """Keywords as pandas takes them: hours as HH:MM."""
    clock = isinstance(value, list) and all(re.fullmatch(r"\d\d:\d\d:\d\d", one) for one in value)
    return [one[:5] for one in value] if clock else value


_TAKEN_APART: dict[str, Callable[[str, Any], Parts]] = {
    "RangeIndex": _range_parts,
    "DatetimeIndex": _date_parts,
    "PeriodIndex": _period_parts,
    "Index": _label_parts,
    "MultiIndex": _nested_parts,
    "Timestamp": _time_parts,
    "Period": _time_parts,
    "Generator": _generator_parts,
}
_PUT_TOGETHER: dict[str, Callable[..., object]] = {
    "RangeIndex": pd.RangeIndex,
    "DatetimeIndex": _dates,
    "PeriodIndex": _periods,
    "Index": _labels,
    "MultiIndex": _nested,
    "Timestamp": _time,
    "Period": _time,
    "Generator": _generator,
}
