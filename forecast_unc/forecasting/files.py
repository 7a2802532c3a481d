"""Fitted models in files of data: what was given and learned, from which all else is made again.

A file is a zip of arrays as numpy writes it, the first of them the bytes of JSON, followed by the
SHA-256 digest of all before. It holds numbers, text and the classes of `_CLASSES`, and no code.
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
import secrets
import zoneinfo
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries import offsets
from pandas.tseries.frequencies import to_offset
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc._checks import check_path, refusal
from forecast_unc._version import __version__
from forecast_unc.distributions.power import PowerTransform
from forecast_unc.forecasting.averaging import Averaging
from forecast_unc.forecasting.ensemble import MODELS, Ensemble, Refusal
from forecast_unc.forecasting.resolve import Rules
from forecast_unc.forecasting.rolling import Rolling
from forecast_unc.forecasting.rows import Differencing, NoiseChoice
from forecast_unc.forecasting.smoothing import Nodes, Smoothing
from forecast_unc.forecasting.smoothing_model import SmoothingSpecification
from forecast_unc.forecasting.specification import Specification
from forecast_unc.regression.errors_in_variables import ErrorsInVariablesGP
from forecast_unc.regression.gp import GPRegressor
from forecast_unc.regression.kernel_posterior import KernelPosterior
from forecast_unc.regression.noisy_inputs.evidence import Round
from forecast_unc.regression.reduced_rank.regressor import ReducedRankGPRegressor
from forecast_unc.regression.rvm import RVMRegressor
from forecast_unc.regression.search import SearchEnd
from forecast_unc.series.history import History

FORMAT = 2
_KIND = "forecast_unc"
# The last bytes of a file: the digest of all before them.
_LABEL = b"sha256:"
_TAIL = len(_LABEL) + 2 * hashlib.sha256().digest_size

_CLASSES: tuple[type, ...] = (
    History,
    Rules,
    Averaging,
    Refusal,
    Specification,
    SmoothingSpecification,
    PowerTransform,
    Differencing,
    NoiseChoice,
    Smoothing,
    Nodes,
    GPRegressor,
    ErrorsInVariablesGP,
    RVMRegressor,
    ReducedRankGPRegressor,
    KernelPosterior,  # of which rows are linearized: a mean alone
    Round,
    SearchEnd,
)
"""What a file may hold beside the forecasters that save it, each by its fields."""
# Attributes of estimators that `condition` makes again, or that scikit-learn sets for a frame.
_MADE = {"posterior_", "_held", "feature_names_in_"}

_LABELS = re.compile(r"object|str|string|bool|u?int\d+|float\d+")
_FROM_UTC = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")


def _by_name(*kinds: Any) -> dict[str, Any]:
    return {one.__name__: one for one in kinds}


# Frequencies whose name does not say all of them.
_OFFSETS = _by_name(
    offsets.BusinessDay,
    offsets.BusinessHour,
    offsets.CustomBusinessDay,
    offsets.CustomBusinessHour,
    offsets.CustomBusinessMonthBegin,
    offsets.CustomBusinessMonthEnd,
)
_BIT_GENERATORS = _by_name(
    np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64
)


class Unreadable(ValueError):
    """Why a file cannot be read, as the end of a sentence about it."""


class Outdated(ValueError):
    """The format of a file of an earlier version."""


def save(model: BaseEstimator, path: str | PathLike[str], kinds: tuple[type, ...]) -> None:
    """Write a fitted forecaster, which is of one of the kinds, whole or not at all."""
    arrays: list[NDArray[Any]] = []
    content = {
        "format": _KIND,
        "version": FORMAT,
        "written_by": __version__,
        "model": _Coder(kinds, arrays).plain("model", model),
    }
    _write(path, _sealed(content, arrays))


def load(path: str | PathLike[str], kinds: tuple[type, ...]) -> Any:
    """Read a fitted forecaster of one of the kinds; any fault of the file is one ValueError."""
    data = _read(path)
    try:
        content, arrays = _parsed(data)
        version = content["version"]
        if content["format"] != _KIND:
            raise Unreadable("which is incomplete or of another kind")
        if version not in range(1, FORMAT + 1):
            raise Unreadable(
                f"of format {version!r}, by forecast_unc {content['written_by']}, where "
                f"{__version__} reads format {FORMAT}"
            )
        if version < FORMAT:
            raise Outdated(version)
        model = _Coder(kinds, arrays).made(content["model"])
        if type(model) not in kinds:
            raise Unreadable(f"which holds a {type(model).__name__}")
        check_is_fitted(model)
    except Outdated as error:
        raise refusal(
            "path",
            f"name a file of format {FORMAT}",
            f"{path}, of format {error}, which holds posteriors as an earlier version made them",
            "Load it with the version that wrote it, save its series from model.ensemble_.history "
            "(y, index, exog) and its model.get_params(), and fit them here.",
        ) from error
    except Exception as error:  # a crafted file can raise any: all become one
        known = isinstance(error, Unreadable)
        why = error if known else "whose content is not that of a model of this version"
        raise refusal(
            "path",
            "name a file written by Forecaster.save or Combination.save, whole and unchanged",
            f"{path}, {why}",
            "Save it again.",
        ) from error
    return model


# Models and what they are made of


def _learned_names(cls: type) -> set[str]:
    """Attributes that a fit sets, by their annotations; those that are made again left out."""
    hints = [pair for base in cls.__mro__ for pair in inspect.get_annotations(base).items()]
    named = {name for name, hint in hints if "ClassVar" not in str(hint)}
    return named - set(inspect.signature(cls).parameters) - _MADE


class _Coder:
    """A model as JSON's values or ``{kind: what it is made of}``, with its arrays; and back."""

    def __init__(self, kinds: tuple[type, ...], arrays: list[NDArray[Any]]) -> None:
        self._classes = _by_name(*_CLASSES, *kinds)
        self._arrays = arrays

    def plain(self, name: str, value: Any) -> Any:
        """What stands for a value that messages call by this name."""
        kind = type(value)
        if value is None or kind in (bool, int, str, np.str_):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is list:
            return [self.plain(name, one) for one in value]
        if kind is tuple:
            return {"tuple": [self.plain(name, one) for one in value]}
        if kind is dict:
            pairs = [(self.plain(name, k), self.plain(str(k), one)) for k, one in value.items()]
            return {"dict": pairs}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        if (kind is np.ndarray or isinstance(value, np.generic)) and _is_plain(value.dtype):
            self._arrays.append(np.asarray(value))
            return {"array": len(self._arrays) - 1}
        fields = _PARTS[kind][0](name, value) if kind in _PARTS else self._fields(name, value)
        return {kind.__name__: {key: self.plain(key, one) for key, one in fields.items()}}

    def _fields(self, name: str, value: Any) -> dict[str, Any]:
        """The fields of an object, or an error if only other code could read it back."""
        cls: type = type(value)
        if self._classes.get(cls.__name__) is not cls:
            raise refusal(
                name,
                "be of this package, or plain data, in a model that is saved",
                repr(value),
                "Only code of its own could read it back, and a saved model runs none: use one of "
                "the package's in its place, or pickle the model for yourself alone.",
                TypeError,
            )
        parameters = inspect.signature(cls).parameters
        if not isinstance(value, BaseEstimator):
            return {one: getattr(value, one) for one in parameters}
        state = {key: one for key, one in vars(value).items() if key not in _MADE}
        more = sorted(set(state) - _learned_names(cls) - set(parameters))
        if more:
            must = f"have the attributes of {cls.__name__} alone to be saved"
            remedy = "Delete it, and keep it beside the file."
            raise refusal("model", must, repr(more[0]), remedy, TypeError)
        return state

    def made(self, plain: Any) -> Any:
        """The value that something stands for."""
        if isinstance(plain, list):
            return [self.made(one) for one in plain]
        if not isinstance(plain, dict):
            return plain
        ((kind, value),) = plain.items()
        if kind in _BUILT_IN:
            return _BUILT_IN[kind](self.made(value))
        if kind == "array":
            return self._arrays[range(len(self._arrays))[value]][()]  # of no dimension: a number
        fields = {name: self.made(one) for name, one in value.items()}
        if kind in _MAKE:
            return _MAKE[kind](**fields)
        cls = self._classes[kind]
        learned = _learned_names(cls) & set(fields) if issubclass(cls, BaseEstimator) else set()
        made = cls(**{name: one for name, one in fields.items() if name not in learned})
        for name in learned:
            setattr(made, name, fields[name])
        return made


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether an array is of truth values or numbers that every machine has."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _recipe_of(_: str, ensemble: Ensemble) -> dict[str, Any]:
    """What it is made of again: two series, the posteriors' and the origin's, and more."""
    learned = ensemble.trained[0].history
    return {
        "learned": learned,
        "origin": None if ensemble.history is learned else ensemble.history,
        "models": [model.recipe() for model in ensemble.trained],
        "rules": ensemble.rules,
        "refused": ensemble.refused,
    }


def _ensemble(
    learned: History, origin: History | None, models: Sequence[dict[str, Any]], **rest: Any
) -> Ensemble:
    """An ensemble by its recipe: each model as `extend` makes it, and moved as by `at`."""
    trained = tuple(MODELS[type(one["specification"])].made(learned, **one) for one in models)
    now = trained if origin is None else tuple(model.at(origin) for model in trained)
    return Ensemble(origin or learned, now, rolling=Rolling(trained), **rest)


def _dates_of(name: str, index: pd.DatetimeIndex) -> dict[str, Any]:
    return {
        "values": index.asi8,
        "unit": index.unit,
        "zone": None if index.tz is None else _zone_of(name, index),
        "frequency": None if index.freq is None else _frequency_of(name, index.freq),
        "name": index.name,
    }


def _dates(values: Any, unit: str, zone: str | None, frequency: Any, name: Any) -> Any:
    index = pd.DatetimeIndex(_ordinals(values).view(f"M8[{unit}]"))
    if zone is not None:
        index = index.tz_localize("UTC").tz_convert(_zone(zone))
    freq: Any = None if frequency is None else _frequency(frequency)
    return pd.DatetimeIndex(index, freq=freq, name=name)


def _periods(values: Any, frequency: str, name: Any) -> Any:
    kind: Any = pd.PeriodIndex  # of 2.2 on, which its stubs do not know
    return kind.from_ordinals(_ordinals(values), freq=frequency, name=name)


def _ordinals(values: Any) -> NDArray[np.int64]:
    """The numbers of times, checked."""
    if values.dtype != np.int64 or values.ndim != 1:
        raise ValueError(values.dtype)
    return np.asarray(values)


def _labels_of(name: str, index: pd.Index[Any]) -> dict[str, Any]:
    dtype = str(index.dtype)
    if not _LABELS.fullmatch(dtype):
        must = "have text or numbers as labels in a model that is saved"
        raise refusal(name, must, dtype, "Rename them, and fit again.", TypeError)
    return {"values": index.tolist(), "dtype": dtype, "name": index.name}


def _labels(values: list[Any], dtype: str, name: Any) -> Any:
    if not _LABELS.fullmatch(dtype):
        raise ValueError(dtype)
    return pd.Index(values, dtype=dtype, name=name)


def _generator_of(name: str, generator: np.random.Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    if state["bit_generator"] not in _BIT_GENERATORS:
        must, remedy = "be a generator of numpy's own", "Pass np.random.default_rng(seed)."
        raise refusal(name, f"{must} in a model that is saved", repr(generator), remedy, TypeError)
    return {"state": state}


def _generator(state: dict[str, Any]) -> np.random.Generator:
    bits = _BIT_GENERATORS[state["bit_generator"]](0)
    bits.state = state
    return np.random.Generator(bits)


_BUILT_IN: dict[str, Any] = {
    "float": float,
    "tuple": tuple,
    "dict": dict,
    "range": lambda ends: range(*ends),
}
_PARTS: dict[type, tuple[Any, Any]] = {
    Ensemble: (_recipe_of, _ensemble),
    pd.RangeIndex: (
        lambda _, i: {"start": i.start, "stop": i.stop, "step": i.step, "name": i.name},
        pd.RangeIndex,
    ),
    pd.DatetimeIndex: (_dates_of, _dates),
    pd.PeriodIndex: (
        lambda _, i: {"values": i.asi8, "frequency": i.freqstr, "name": i.name},
        _periods,
    ),
    pd.Index: (_labels_of, _labels),
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


def _zone_of(name: str, index: pd.DatetimeIndex) -> str:
    """The name of a time zone, or its distance from UTC."""
    zone = str(index.tz)
    try:
        same = pd.DatetimeTZDtype(index.unit, _zone(zone)) == index.dtype
    except (ValueError, KeyError, OSError):  # that no time zone has
        same = False
    if not same:
        raise refusal(
            name,
            "have a time zone with a name in a model that is saved",
            repr(index.tz),
            'Fit to a series with one, as tz_convert("Europe/Berlin") gives.',
            TypeError,
        )
    return zone


def _zone(text: str) -> str:
    """The text, if it names a time zone: no path of a file, which pandas would read."""
    if not _FROM_UTC.fullmatch(text):
        zoneinfo.ZoneInfo(text)
    return text


def _frequency_of(name: str, freq: Any) -> str | tuple[str, int, bool, dict[str, Any]]:
    """The name of a frequency, or its class, multiple and keywords where that is not all of it."""
    try:
        named = to_offset(freq.freqstr) == freq
    except ValueError:  # text that is no name
        named = False
    shifted = bool(freq.kwds.get("offset"))  # which pandas leaves out where it compares
    if named and not shifted:
        return str(freq.freqstr)
    words = {
        word: value if isinstance(value, str) else [_word(one) for one in value]
        for word, value in freq.kwds.items()
        if isinstance(value, (str, tuple))
    }
    parts = type(freq).__name__, freq.n, freq.normalize, words
    if shifted or parts[0] not in _OFFSETS or _frequency(parts) != freq:
        raise refusal(
            name,
            "have a frequency that pandas can name in a model that is saved",
            repr(freq),
            'Fit to a series with one, as asfreq("B") gives.',
            TypeError,
        )
    return parts


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
    check_path(path)
    target = Path(path).resolve()  # a link stays, and what it leads to is replaced
    if target.exists() and not target.is_file():
        remedy = "Give the file a name of its own, such as model.npz."
        raise refusal("path", "name a file", f"{path}, which is none", remedy)
    unfinished = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(unfinished, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(target)) from error  # of its own kind
    finally:
        unfinished.unlink(missing_ok=True)


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
    with np.load(io.BytesIO(body), allow_pickle=False) as file:
        # stored as they are, so that no file grows when it is read
        if any(one.compress_type for one in file.zip.infolist()):
            raise Unreadable("whose parts are not those of a model")
        first, *numbers = file.files  # of format 1 a text, not the bytes of one
        content = json.loads(bytes(file[first]).decode())
        arrays = [file[number] for number in numbers]
    if not all(map(_is_plain, (one.dtype for one in arrays))):
        raise Unreadable("which holds an array of another type")
    return content, [one.astype(one.dtype.newbyteorder("=")) for one in arrays]
