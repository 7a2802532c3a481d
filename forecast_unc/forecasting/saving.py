"""Fitted models in files: what was given and learned, from which all else is made again.

A file holds only numbers, text and the classes of `_CLASSES`; nothing is executed. docs/saving.md
has the format.
"""

from __future__ import annotations

import datetime
import hashlib
import inspect
import io
import json
import math
import os
import re
import zipfile
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries import offsets
from pandas.tseries.frequencies import to_offset
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import FARTHEST, check_path, refusal
from forecast_unc._files import whole_file
from forecast_unc._typing import Array
from forecast_unc._version import __version__
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.choose.arguments import LONGEST
from forecast_unc.forecasting.choose.specification import (
    Averaging,
    CountSpecification,
    Rules,
    SmoothingSpecification,
    Specification,
)
from forecast_unc.forecasting.horizon.differencing import Differencing
from forecast_unc.forecasting.models.autoregression import Autoregression
from forecast_unc.forecasting.models.design import NoiseChoice
from forecast_unc.forecasting.models.effects import CalendarEffects, Effects
from forecast_unc.forecasting.models.exog_effects import ExogColumns, ExogEffects
from forecast_unc.forecasting.models.phase_units import PhaseUnits
from forecast_unc.forecasting.models.relative_noise import RelativeNoise
from forecast_unc.forecasting.models.seasonal_noise import SeasonalNoise
from forecast_unc.forecasting.models.smoothing_filter import Nodes, Smoothing
from forecast_unc.forecasting.models.volatility import Volatility
from forecast_unc.forecasting.pool.backcast import Rolling
from forecast_unc.forecasting.pool.pool import MODELS, Ensemble, Refusal
from forecast_unc.regression.errors_in_variables import ErrorsInVariablesGP
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.gp_base import GaussianProcess
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.linear import LinearRegressor
from forecast_unc.regression.noisy_inputs.noisy_inputs_evidence import Round
from forecast_unc.regression.reduced_rank.reduced_rank import ReducedRankGPRegressor
from forecast_unc.regression.rvm.rvm import RVMRegressor
from forecast_unc.series.history import History
from forecast_unc.series.opening import Opening

FORMAT = 7
_KIND = "forecast_unc"
# The last bytes of a file: the digest of all before them.
_LABEL = b"sha256:"
_TAIL = len(_LABEL) + 2 * hashlib.sha256().digest_size

_CLASSES: tuple[type, ...] = (History, Rules, Averaging, Refusal, Specification, PowerTransform)
_CLASSES += (Differencing, NoiseChoice, SmoothingSpecification, Smoothing, Nodes)
_CLASSES += (CountSpecification, Effects, ExogColumns, ExogEffects)
_CLASSES += (Opening, RelativeNoise, Autoregression, SeasonalNoise, PhaseUnits, Volatility)
_CLASSES += (GPRegressor, ErrorsInVariablesGP, RVMRegressor, ReducedRankGPRegressor)
_CLASSES += (LinearRegressor, GaussianProcess, Round, CalendarEffects)
_CLASSES += (KernelPosterior,)  # of which rows are linearized: a mean alone
"""What a file may hold beside the forecasters that save it, each by its fields."""
# Attributes of estimators that `condition` makes again, or that scikit-learn sets for a frame.
_MADE = {"posterior_", "_held", "feature_names_in_"}

# What a field must be, by its annotation, where that is not the type itself.
_ACCEPTED: dict[Any, Any] = {
    bool: bool,
    int: Integral,
    float: Real,
    str: str,
    get_origin(Array): np.ndarray,  # from numpy 2.5 on an alias of its own
    NoneType: NoneType,
}

_LABELS = re.compile(r"object|str|string|bool|u?int\d+|float\d+")
_FROM_UTC = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")


def _by_name(*kinds: Any) -> dict[str, Any]:
    return {one.__name__: one for one in kinds}


# Frequencies whose name does not say all of them.
_OFFSETS = _by_name(offsets.BusinessDay, offsets.BusinessHour, offsets.CustomBusinessDay)
_OFFSETS |= _by_name(offsets.CustomBusinessHour, offsets.CustomBusinessMonthBegin)
_OFFSETS |= _by_name(offsets.CustomBusinessMonthEnd, offsets.DateOffset)
_BIT_GENERATORS = _by_name(
    np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64
)


class Unreadable(ValueError):
    """Why a file cannot be read, as the end of a sentence about it."""


def save(model: BaseEstimator, path: str | PathLike[str], kinds: tuple[type, ...]) -> None:
    """Write a fitted forecaster, which is of one of the kinds, whole or not at all."""
    check_is_fitted(model)
    arrays: list[NDArray[Any]] = []
    content = {"format": _KIND, "version": FORMAT, "written_by": __version__}
    recipe = {"model": _Coder(kinds, arrays).plain("model", model)}
    _write(path, _sealed(content | recipe, arrays))


def load(path: str | PathLike[str], kinds: tuple[type, ...]) -> Any:
    """Read a fitted forecaster of one of the kinds; any fault of the file is one ValueError."""
    data, remedy, code = _read(path), "Save it again.", "unreadable"
    must = "name a file written by Forecaster.save or Combination.save, whole and unchanged"
    try:
        content, arrays = _parsed(data)
        version = content["version"]
        if content["format"] != _KIND:
            raise Unreadable("which is incomplete or of another kind")
        if version not in range(1, FORMAT + 1):
            by = f"by forecast_unc {content['written_by']}, where {__version__} reads format"
            raise Unreadable(f"of format {version!r}, {by} {FORMAT}")
        if version < FORMAT:
            must, code = f"name a file of format {FORMAT}", ""
            remedy = "Load it with the version that wrote it, save its series from "
            remedy += (
                "model.ensemble_.history (y, index, exog) and its model.get_params(), and fit "
            )
            remedy += "them here."
            held = "which holds posteriors as that version made them"
            raise Unreadable(f"of format {version}, {held}")
        model = _Coder(kinds, arrays).made(content["model"])
        if type(model) not in kinds:
            raise Unreadable(f"which holds a {type(model).__name__}")
        check_is_fitted(model)
    except Exception as error:  # a crafted file can raise any: all become one
        why: object = error
        if not isinstance(error, Unreadable):
            why = "whose content is not that of a model of this version"
        raise refusal("path", must, f"{path}, {why}", remedy, code=code) from error
    return model


# Models and what they are made of


def _learned_names(cls: type) -> set[str]:
    """Attributes that a fit sets, by their annotations; those that are made again left out."""
    named = {name for name, hint in _hints(cls) if get_origin(hint) is not ClassVar}
    return named - set(inspect.signature(cls).parameters) - _MADE


@cache
def _hints(cls: type) -> list[tuple[str, Any]]:
    """Fields and attributes with what the class says that they are."""
    return [*get_type_hints(cls).items()]


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a class states, down to the entries of a tuple."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if kind is Literal:
        return isinstance(value, str | int | np.bool_ | None) and value in inner
    if kind is tuple:
        if not isinstance(value, tuple | range):
            return False
        each = inner[:1] * len(value) if inner[1:] == (Ellipsis,) else inner or (Any,) * len(value)
        return len(value) == len(each) and all(map(_fits, value, each))
    if kind is Sequence:
        return isinstance(value, list | tuple | range | np.ndarray)
    if kind in _ACCEPTED:
        return isinstance(value, _ACCEPTED[kind])
    # of a protocol, which has methods alone, and of names of types nothing is known
    stated = isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", 0)
    return not stated or isinstance(value, kind)


def _has_gaps(value: Any) -> bool:
    return isinstance(value, float | np.ndarray) and bool(np.isnan(value).any())


class _Coder:
    """A model as JSON's values or ``{kind: what it is made of}``, with its arrays; and back."""

    def __init__(self, kinds: tuple[type, ...], arrays: list[NDArray[Any]]) -> None:
        self._classes = _by_name(*_CLASSES, *kinds)
        self._kinds = kinds
        self._arrays = arrays

    def plain(self, name: str, value: Any) -> Any:
        """Text of a value that messages call by this name."""
        kind = type(value)
        if value is None or kind in (bool, int, str, np.str_):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is list:
            return [self.plain(name, one) for one in value]
        if kind in (tuple, range):
            ends = (value.start, value.stop, value.step) if kind is range else value
            return {kind.__name__: [self.plain(name, one) for one in ends]}
        if kind is dict:
            pairs = [(self.plain(name, k), self.plain(str(k), one)) for k, one in value.items()]
            return {"dict": pairs}
        if (kind is np.ndarray or isinstance(value, np.generic)) and _is_plain(value.dtype):
            self._arrays.append(np.asarray(value))
            return {"array": len(self._arrays) - 1}
        fields = _PARTS[kind][0](name, value) if kind in _PARTS else self._fields(name, value)
        return {kind.__name__: {key: self.plain(key, one) for key, one in fields.items()}}

    def _fields(self, name: str, value: Any) -> dict[str, Any]:
        """The fields of an object, or an error if only other code could read it back."""
        cls: type = type(value)
        if self._classes.get(cls.__name__) is not cls:
            remedy = "Only code of its own could read it back, and a saved model runs none: use "
            remedy += "one of the package's in its place, or pickle the model for yourself alone."
            raise _unsavable(name, "be of this package, or plain data,", repr(value), remedy)
        parameters = inspect.signature(cls).parameters
        if not isinstance(value, BaseEstimator):
            return {one: getattr(value, one) for one in parameters}
        state = {key: one for key, one in vars(value).items() if key not in _MADE}
        more = sorted(set(state) - _learned_names(cls) - set(parameters))
        if more:
            must = f"have the attributes of {cls.__name__} alone"
            raise _unsavable("model", must, repr(more[0]), "Keep it beside the file.")
        return state

    def made(self, plain: Any) -> Any:
        """The value that something stands for."""
        if isinstance(plain, list):
            return [self.made(one) for one in plain]
        if not isinstance(plain, dict):
            return plain
        ((kind, value),) = plain.items()
        if kind in _BUILT_IN and isinstance(value, str if kind == "float" else list):
            return _BUILT_IN[kind](self.made(value))
        if kind == "array":
            return self._arrays[range(len(self._arrays))[value]][()]  # of no dimension: a number
        fields = {name: self.made(one) for name, one in value.items()}
        return _MAKE[kind](**fields) if kind in _MAKE else self._object(kind, fields)

    def _object(self, kind: str, fields: dict[str, Any]) -> Any:
        """An object of a kind from its fields, or an error about one that is none of it."""
        cls = self._classes[kind]
        for name, hint in _hints(cls):
            if name not in fields:
                continue
            # only series may have gaps
            if not _fits(fields[name], hint) or (cls is not History and _has_gaps(fields[name])):
                raise Unreadable(f"whose {name} of a {kind} is of another kind")
        members = fields.get("forecasters_")  # of a Combination
        if members is not None and (not members or {*map(type, members)} - {*self._kinds}):
            raise Unreadable("whose members are of another kind")
        learned = _learned_names(cls) & set(fields) if issubclass(cls, BaseEstimator) else set()
        made = cls(**{name: one for name, one in fields.items() if name not in learned})
        for name in learned:
            setattr(made, name, fields[name])
        return made


def _unsavable(name: str, must: str, got: str, remedy: str) -> Exception:
    return refusal(name, f"{must} in a model that is saved", got, remedy, TypeError)


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array is of truth values or numbers that every machine has."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _recipe_of(_: str, ensemble: Ensemble) -> dict[str, Any]:
    """Recipe of a model: two series, the posteriors' and the origin's, and more."""
    history, learned = ensemble.history, ensemble.trained[0].history
    return {
        "learned": learned.instants or learned,
        "origin": None if history is learned else history.instants or history,
        "models": [model.recipe() for model in ensemble.trained],
        "rules": ensemble.rules,
        "refused": ensemble.refused,
        "by_clock": history.instants is not None,
    }


def _ensemble(
    learned: History,
    origin: History | None,
    models: Sequence[dict[str, Any]],
    by_clock: bool = False,  # of files of before it was there, too
    **rest: Any,
) -> Ensemble:
    """An ensemble by its recipe: each model as `extend` makes it, and moved as by `at`."""
    for one in (learned, origin or learned):
        if len({len(each) for each in (one.y, one.stds, one.index, one.exog, one.outliers)}) > 1:
            raise Unreadable("whose series is not as long as its index")
    if by_clock:
        learned = learned.by_clock()
        origin = None if origin is None else origin.by_clock()
    for model in models:
        _check_within(model["specification"], len(learned.y))
        _check_scale(model.get("differencing"))
    others = all(_fits(rest[name], hint) for name, hint in _hints(Ensemble) if name in rest)
    if not models or not others:
        raise Unreadable("whose models or rules are of another kind")
    trained = tuple(MODELS[type(one["specification"])].made(learned, **one) for one in models)
    now = trained if origin is None else tuple(model.at(origin) for model in trained)
    return Ensemble(origin or learned, now, rolling=Rolling(trained), **rest)


def _check_within(specification: Any, n: int) -> None:
    """Raise unless steps that a model looks back are those of a series of so many values."""
    looks_back = specification.depth if isinstance(specification, Specification) else 0
    steps = [*vars(specification).get("lags", ()), *vars(specification).get("differences", ())]
    if looks_back > n or min(steps, default=1) < 1:
        raise Unreadable(f"whose lags are not within its {n} values")
    periods = vars(specification).get("periods") or (vars(specification).get("period", 1),)
    if not 1 <= min(periods) <= max(periods) <= LONGEST:
        raise Unreadable(f"whose season is not of 1 to {LONGEST:,} steps")


def _check_scale(differencing: Any) -> None:
    """Raise unless variances of levels, in squares of the scale, fit a float."""
    if isinstance(differencing, Differencing):
        shift, scale = abs(float(differencing.shift)), float(differencing.scale)
        if not (0.0 < scale <= FARTHEST and shift <= FARTHEST):
            raise Unreadable(f"whose changes are not scaled by numbers up to {FARTHEST:g}")


def _index_of(name: str, index: pd.Index[Any]) -> dict[str, Any]:
    """The parts of an index of times, text or numbers, of which the same can be made again."""
    freq = getattr(index, "freq", None)
    parts: dict[str, Any] = {
        "values": index.asi8 if hasattr(index, "asi8") else index.tolist(),
        "dtype": str(index.dtype),
        "frequency": None if freq is None else _frequency_of(freq),
        "name": index.name,
    }
    try:
        again = _index(**parts)
        same = again.identical(index) and getattr(again, "freq", None) == freq
    except (ValueError, KeyError, OSError):  # a zone, a frequency or a type that has no name
        same = False
    if not same or (freq is not None and freq.kwds.get("offset")):  # which pandas does not compare
        must = "have text, numbers or times as labels, and a time zone and frequency with a name,"
        got = f"{type(index).__name__} of {index.dtype}" + (f" and {freq!r}" if freq else "")
        remedy = 'Convert it, as tz_convert("Europe/Berlin") and asfreq("B") do, and fit again.'
        raise _unsavable(name, must, got, remedy)
    return parts


def _index(values: Any, dtype: str, frequency: Any, name: Any) -> Any:
    """An index by its parts; those of times are whole numbers."""
    kind, _, rest = dtype.rstrip("]").partition("[")
    if kind in ("datetime64", "period") and (values.dtype != np.int64 or values.ndim != 1):
        raise ValueError(values.dtype)
    if kind == "period":
        periods: Any = pd.PeriodIndex  # of 2.2 on, which its stubs do not know
        return periods.from_ordinals(values, freq=rest, name=name)
    if kind == "datetime64":
        unit, _, zone = rest.partition(", ")
        index = pd.DatetimeIndex(values.view(f"M8[{unit}]"))
        if zone:
            if not _FROM_UTC.fullmatch(zone):
                zoneinfo.ZoneInfo(zone)  # no path of a file, which pandas would read
            index = index.tz_localize("UTC").tz_convert(zone)
        freq: Any = None if frequency is None else _frequency(frequency)
        return pd.DatetimeIndex(index, freq=freq, name=name)
    if not _LABELS.fullmatch(dtype):
        raise ValueError(dtype)
    return pd.Index(values, dtype=dtype, name=name)


def _generator_of(name: str, generator: np.random.Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    if state["bit_generator"] not in _BIT_GENERATORS:
        must, remedy = "be a generator of numpy's own", "Pass np.random.default_rng(seed)."
        raise _unsavable(name, must, repr(generator), remedy)
    return {"state": state}


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bits = _BIT_GENERATORS[state["bit_generator"]](0)
    bits.state = state
    return np.random.Generator(bits)


def _range(ends: list[int]) -> range:
    """A range, which is no longer than what a file could list."""
    made = range(*ends)
    if len(made) > 10_000:  # far more lags than any series has use for
        raise Unreadable(f"which holds a range of {len(made)}")
    return made


_BUILT_IN: dict[str, Any] = {"float": float, "tuple": tuple, "dict": dict, "range": _range}
_PARTS: dict[type, tuple[Any, Any]] = {
    Ensemble: (_recipe_of, _ensemble),
    **dict.fromkeys((pd.DatetimeIndex, pd.PeriodIndex, pd.Index), (_index_of, _index)),
    pd.RangeIndex: (
        lambda _, i: {"start": i.start, "stop": i.stop, "step": i.step, "name": i.name},
        pd.RangeIndex,
    ),
    pd.MultiIndex: (
        lambda _, i: {"tuples": i.tolist(), "names": list(i.names)},
        pd.MultiIndex.from_tuples,
    ),
    pd.Timestamp: (lambda _, time: {"index": pd.Index([time])}, lambda index: index[0]),
    pd.Period: (lambda _, time: {"index": pd.Index([time])}, lambda index: index[0]),
    np.random.Generator: (_generator_of, _generator),
}
"""From the name of a value in messages and the value itself to its parts, and back."""
_MAKE = {kind.__name__: make for kind, (_, make) in _PARTS.items()}


def _frequency_of(freq: Any) -> str | tuple[str, int, bool, dict[str, Any]]:
    """The name of a frequency, or its class, multiple and keywords where that is not all of it."""
    with suppress(ValueError):  # text that is no name
        if to_offset(freq.freqstr) == freq:
            return str(freq.freqstr)
    words = {
        word: [_word(one) for one in value] if isinstance(value, tuple) else value
        for word, value in freq.kwds.items()
        if isinstance(value, (str, int, tuple))
    }
    return type(freq).__name__, freq.n, freq.normalize, words


def _word(value: Any) -> str:
    """A holiday or a time of the day as pandas takes it."""
    return f"{value:%H:%M}" if isinstance(value, datetime.time) else str(value)


def _frequency(parts: Any) -> Any:
    """The frequency of a name, or of a class, multiple and keywords."""
    if isinstance(parts, str):
        return to_offset(parts)
    kind, n, normalize, words = parts
    return _OFFSETS[kind](n, normalize, **words)


# The file


def _write(path: str | PathLike[str], data: bytes) -> None:
    """Write a file, whole or not at all: what is there stays until the new file is complete."""
    check_path(path, writes=True)
    if Path(path).exists() and not Path(path).is_file():
        remedy = "Give the file a name of its own, such as model.npz."
        raise refusal("path", "name a file", f"{path}, which is none", remedy)
    with whole_file(path) as unfinished:
        unfinished.write_bytes(data)


def _sealed(content: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> bytes:
    """A zip as numpy writes it, and its digest."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    file, numbered = io.BytesIO(), {str(number): one for number, one in enumerate(arrays)}
    np.savez(file, content=np.frombuffer(text, np.uint8), **numbered)  # type: ignore[arg-type]
    data = file.getvalue()
    return data + _LABEL + hashlib.sha256(data).hexdigest().encode()


def _read(path: str | PathLike[str]) -> bytes:
    """The bytes of a file that ends as ours do; of any other the end alone."""
    check_path(path)
    with open(Path(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        tail = file.read(_TAIL)
        if not tail.startswith(_LABEL):  # which may be of any size
            return tail
        file.seek(0)
        return file.read(size)


def _parsed(data: bytes) -> tuple[Any, list[NDArray[Any]]]:
    """The JSON and the arrays of a file, if its bytes are those that were written."""
    body, tail = data[:-_TAIL], data[-_TAIL:]
    if len(tail) < _TAIL or not tail.startswith(_LABEL):
        raise Unreadable("which is incomplete or of another kind")
    if hashlib.sha256(body).hexdigest().encode() != tail[len(_LABEL) :]:
        raise Unreadable("which was damaged or changed after it was written")
    with zipfile.ZipFile(io.BytesIO(body)) as file:
        parts = file.infolist()
    names = [one.filename for one in parts]
    # stored as they are and once, so that no file grows when it is read
    grows = any(one.compress_type for one in parts)
    if grows or sum(one.file_size for one in parts) > len(data):
        raise Unreadable("whose parts are larger than the file")
    if names[1:] != [f"{number}.npy" for number in range(len(names) - 1)]:
        raise Unreadable("whose parts are not those of a model")
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        text, *others = (arrays[name] for name in names)
    if not all(_is_plain(one.dtype) for one in others):
        raise Unreadable("which holds an array of another type")
    native = [one.astype(one.dtype.newbyteorder("="), copy=False) for one in others]
    return json.loads(bytes(text).decode()), native  # of format 1 the text is a part of its own
