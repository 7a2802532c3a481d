"""Objects of named classes as a table of plain data, and back; nothing else is ever made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from forecast_unc._version import __version__
from forecast_unc.forecasting.persistence.archive import (
    Unreadable,
    is_plain,
    parse_archive,
    read_bytes,
    write_archive,
)
from forecast_unc.forecasting.persistence.foreign import made_of, parts_of
from forecast_unc.forecasting.persistence.schema import (
    Classes,
    sizes_of,
    state_of,
    with_state,
)

FORMAT = 1
"""What the files of this version are; it reads those of earlier ones."""
_KIND = "forecast_unc"


def save_object(obj: object, path: str | PathLike[str], classes: Classes) -> None:
    """Write an object to a file, whole or not at all.

    Parameters
    ----------
    obj : object
        Of one of the classes.
    path : str or path
        Where; a file that is there is replaced.
    classes : dict
        Classes of all that it is made of.

    Raises
    ------
    TypeError
        If it holds something of another class.
    OSError
        If it cannot be written.
    """
    table = _Table(classes)
    root = table.stored("model", obj)
    content = {
        "format": _KIND,
        "version": FORMAT,
        "written_by": __version__,
        "objects": table.objects,
        "model": root,
    }
    write_archive(path, content, table.arrays)


def load_object(
    path: str | PathLike[str], classes: Classes, kinds: tuple[type, ...], writer: str
) -> Any:
    """Read an object that was saved.

    Parameters
    ----------
    path : str or path
        The file.
    classes : dict
        Classes that may be in it.
    kinds : tuple of type
        What it may be.
    writer : str
        The method that writes such files, for the message.

    Returns
    -------
    object

    Raises
    ------
    ValueError
        If it is no such file, or not as it was written.
    OSError
        If there is none.
    """
    data = read_bytes(path)
    try:
        found = _parsed(data, classes)
        if type(found) not in kinds:
            raise Unreadable(f"which holds a {type(found).__name__}")
        if isinstance(found, BaseEstimator):
            check_is_fitted(found)
    except Exception as error:  # a crafted file can raise any: all become one
        known = isinstance(error, Unreadable)
        why = error if known else "whose content is not that of a model of this version"
        raise ValueError(
            f"path must name a file written by {writer}, whole and unchanged; got {path}, {why}. "
            "Save it again."
        ) from error
    return found


def _parsed(data: bytes, classes: Classes) -> Any:
    """The object in a file."""
    content, arrays = parse_archive(data)
    if content["format"] != _KIND:
        raise Unreadable("which is incomplete or of another kind")
    if content["version"] not in range(1, FORMAT + 1):
        raise Unreadable(
            f"of format {content['version']!r}, by forecast_unc {content['written_by']}, where "
            f"{__version__} reads up to {FORMAT}"
        )
    return _Objects(classes, content["objects"], arrays).restored(content["model"])


class _Table:
    """Objects, each after what it is made of and once, and their arrays.

    A value is JSON's own, or ``{kind: what it is made of}``.

    Parameters
    ----------
    classes : dict
        Classes that objects may be of.
    """

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self.objects: list[dict[str, Any]] = []
        self.arrays: list[NDArray[Any]] = []
        # With the objects themselves: of one that is gone the identity may be another's.
        self._places: dict[int, tuple[object, dict[str, int]]] = {}

    def stored(self, name: str, value: Any) -> Any:
        """What stands for a value; `name` is what messages call it."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is np.str_:
            return str(value)
        if kind is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if kind is list:
            return [self.stored(name, one) for one in value]
        if kind is tuple:
            return {"tuple": [self.stored(name, one) for one in value]}
        if kind is dict:
            pairs = [(self.stored(name, k), self.stored(name, one)) for k, one in value.items()]
            return {"dict": pairs}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        if isinstance(value, np.generic) and is_plain(value.dtype):
            return {"number": [value.dtype.name, self.stored(name, value.item())]}
        if id(value) not in self._places:
            self._places[id(value)] = value, self._added(name, value)
        return self._places[id(value)][1]

    def _added(self, name: str, value: Any) -> dict[str, int]:
        """Where an array or object is, now that it is in the table."""
        if type(value) is np.ndarray and is_plain(value.dtype):
            self.arrays.append(value)
            return {"array": len(self.arrays) - 1}
        fields: Mapping[str, object] | None = parts_of(name, value)
        if type(value) in self._classes:
            fields = state_of(value)
        if fields is None:
            raise TypeError(
                f"{name} must be of this package, or plain data, in a model that is saved; got "
                f"{value!r}. Only code of its own could read it back, and a saved model runs none: "
                "use one of the package's in its place, or pickle the model for yourself alone."
            )
        entry = {
            "class": type(value).__name__,
            "fields": {field: self.stored(field, one) for field, one in fields.items()},
        }
        self.objects.append(entry)
        return {"object": len(self.objects) - 1}


class _Objects:
    """The objects of a table, made one after the other.

    Parameters
    ----------
    classes : dict
        Classes that they may be of.
    objects : list
        Of a `_Table`.
    arrays : list of ndarray
        Of a `_Table`.
    """

    def __init__(self, classes: Classes, objects: list[Any], arrays: list[NDArray[Any]]) -> None:
        self._named = {cls.__name__: cls for cls in classes}
        self._arrays, self._made = arrays, list[Any]()
        sizes: dict[int, dict[str, int]] = {}
        for entry in objects:
            kind, fields = entry["class"], entry["fields"]
            state = {name: self.restored(value) for name, value in fields.items()}
            if kind == "Forecaster":  # of earlier versions
                state.pop("prior", None)
            if kind in self._named:
                cls = self._named[kind]
                self._made.append(with_state(cls, state))
                sizes[id(self._made[-1])] = sizes_of(self._made[-1], classes[cls], sizes)
            else:
                self._made.append(made_of(kind, state))

    def restored(self, stored: Any) -> Any:
        """The value that something stands for; of objects those made before."""
        if isinstance(stored, list):
            return [self.restored(one) for one in stored]
        if not isinstance(stored, dict):
            return stored
        ((kind, value),) = stored.items()
        match kind:
            case "float":
                return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value]
            case "tuple":
                return tuple(map(self.restored, value))
            case "dict":
                return {self.restored(key): self.restored(one) for key, one in value}
            case "range":
                return range(*value)
            case "number":
                return self._number(*value)
            case "array":
                return _at(self._arrays, value)
            case "object":
                return _at(self._made, value)
        raise ValueError(kind)

    def _number(self, dtype: str, value: Any) -> np.generic:
        """A number of one of numpy's types."""
        plain = np.dtype(dtype)
        if not is_plain(plain) or type(number := self.restored(value)) not in (bool, int, float):
            raise ValueError(dtype)
        scalar: np.generic = plain.type(number)
        return scalar


def _at(items: list[Any], place: object) -> Any:
    """The item at a place, which is not counted from the end."""
    if type(place) is not int or place < 0:
        raise ValueError(place)
    return items[place]
