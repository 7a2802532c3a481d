"""What an object of a class may hold: its fields, their types and their shapes."""

import dataclasses
import inspect
import types
from collections.abc import Mapping
from dataclasses import MISSING
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

Shapes = Mapping[str, str | Mapping[str, str]]
"""By field: the axes of an array, "n d+1"; of objects, what their axes are, {"d": "d"}.

Letters are sizes, the same throughout an object; "" is the length of a tuple of objects. Before
"... d d" there may be other axes.
"""
Classes = Mapping[type, Shapes]
"""Classes that may be in a file, with the shapes of their fields."""

# That scikit-learn gives a regressor fitted to a frame; as a parameter it is cloned, without them.
_COLUMN_NAMES = "feature_names_in_"


class Field(NamedTuple):
    """What a field holds, and whether it has to be there."""

    hint: Any
    required: bool
    learned: bool = False  # of an estimator, by its fit


@cache
def fields_of(cls: type) -> dict[str, Field]:
    """Fields of a dataclass or named tuple, parameters and learned attributes of an estimator.

    A dataclass leaves out those with the metadata ``{"stored": False}``, an estimator all
    attributes without an annotation.

    Parameters
    ----------
    cls : type
        The class.

    Returns
    -------
    dict of str to Field
    """
    hints = get_type_hints(cls)
    if dataclasses.is_dataclass(cls):
        fields = [one for one in dataclasses.fields(cls) if one.metadata.get("stored", True)]
        return {one.name: Field(hints[one.name], one.default is MISSING) for one in fields}
    if not issubclass(cls, BaseEstimator):
        named: Any = cls
        defaults = named._field_defaults
        return {name: Field(hints[name], name not in defaults) for name in named._fields}
    parameters = inspect.signature(cls).parameters
    return {
        **{name: Field(Any, one.default is one.empty) for name, one in parameters.items()},
        **{
            name: Field(hint, not hasattr(cls, name), learned=True)
            for name, hint in hints.items()
            if name not in parameters and get_origin(hint) is not ClassVar
        },
    }


def state_of(obj: object) -> dict[str, object]:
    """The fields of an object, of an estimator those that are set.

    Parameters
    ----------
    obj : object
        Of a class that `fields_of` knows.

    Returns
    -------
    dict of str to object

    Raises
    ------
    TypeError
        If an estimator was given attributes that its class does not have.
    """
    cls: type = type(obj)
    fields = fields_of(cls)
    if not isinstance(obj, BaseEstimator):
        return {name: getattr(obj, name) for name in fields}
    state = {name: value for name, value in vars(obj).items() if name != _COLUMN_NAMES}
    more = [name for name in state if name not in fields]
    if more:
        raise TypeError(
            f"model must have the attributes of {cls.__name__} alone to be saved; got "
            f"{more[0]!r}. Delete it, and keep it beside the file."
        )
    return state


def with_state(cls: type, state: Mapping[str, Any]) -> Any:
    """An object of a class from its fields, with their types checked.

    Parameters
    ----------
    cls : type
        The class.
    state : dict
        As of `state_of`.

    Returns
    -------
    object

    Raises
    ------
    TypeError
        If a field is missing, unknown or of another type.
    """
    fields = fields_of(cls)
    fitted = any(name in state and field.learned for name, field in fields.items())
    for name, field in fields.items():
        if name not in state:
            if field.required and (fitted or not field.learned):
                raise TypeError(f"{cls.__name__}.{name} is missing")
        elif not fits(state[name], field.hint):
            raise TypeError(f"{cls.__name__}.{name} is of another type")
    if set(state) - set(fields):
        raise TypeError(f"{cls.__name__} has more fields than this version knows")
    given = {name: value for name, value in state.items() if not fields[name].learned}
    obj = cls(**given)
    for name, value in state.items():
        if fields[name].learned:
            setattr(obj, name, value)
    return obj


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type; an int is a float, a truth value no number.

    Parameters
    ----------
    value : object
        The value.
    hint : type
        Of a field, resolved.

    Returns
    -------
    bool
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is np.ndarray:
        (scalar,) = get_args(inner[1])
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(scalar)
    if origin is dict:
        pairs = value.items() if isinstance(value, dict) else [(value, None)]
        return isinstance(value, dict) and all(
            fits(key, inner[0]) and fits(one, inner[1]) for key, one in pairs
        )
    if origin in (list, tuple):
        if not isinstance(value, origin):
            return False
        some = inner[:1] * len(value) if origin is list or inner[-1] is Ellipsis else inner
        return len(some) == len(value) and all(map(fits, value, some))
    if hint is bool:
        return isinstance(value, (bool, np.bool_))
    if hint in (int, float):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        return whole or (hint is float and isinstance(value, float))
    return isinstance(value, origin or hint)


def sizes_of(obj: object, shapes: Shapes, known: Mapping[int, Mapping[str, int]]) -> dict[str, int]:
    """The sizes that an object has, by letter, if they agree with each other.

    Parameters
    ----------
    obj : object
        The object.
    shapes : dict
        Of its fields.
    known : dict
        The sizes of the objects in it, by their identity.

    Returns
    -------
    dict of str to int

    Raises
    ------
    ValueError
        If the shapes of two fields do not go together.
    """
    sizes: dict[str, int] = {}
    for name, pattern in shapes.items():
        value: Any = getattr(obj, name, None)
        if isinstance(pattern, str):
            if isinstance(value, (np.ndarray, pd.Index, tuple)):
                lengths = value.shape if isinstance(value, np.ndarray) else (len(value),)
                _agree(sizes, pattern.split(), lengths, f"{type(obj).__name__}.{name}")
            continue
        several = isinstance(value, (tuple, list))
        for one in value if several else [value]:
            theirs = {**known.get(id(one), {}), **({"": len(value)} if several else {})}
            shared = [letter for letter in pattern if letter in theirs]
            _agree(
                sizes,
                [pattern[letter] for letter in shared],
                tuple(theirs[letter] for letter in shared),
                f"{type(obj).__name__}.{name}",
            )
    return sizes


def _agree(sizes: dict[str, int], axes: list[str], lengths: tuple[int, ...], where: str) -> None:
    """Note the letters that are new, and raise unless the others are as they were."""
    if axes[:1] == ["..."]:
        axes, lengths = axes[1:], lengths[1 - len(axes) :]
    if len(axes) != len(lengths):
        raise ValueError(f"{where} has {len(lengths)} axes")
    for axis, length in zip(axes, lengths, strict=True):
        terms = axis.split("+")
        new = [term for term in terms if not term.isdigit() and term not in sizes]
        rest = length - sum(int(t) if t.isdigit() else sizes[t] for t in terms if t not in new)
        if len(new) == 1:
            sizes[new[0]] = rest
        if rest < 0 or (rest > 0 and not new):
            raise ValueError(f"{where} has {length} entries along {axis}")
