"""Long frames of other libraries, by narwhals."""

from __future__ import annotations

from typing import Any, TypeVar

import pandas as pd

FrameT = TypeVar("FrameT")


def to_pandas(frame: object, name: str) -> pd.DataFrame:
    """A frame of any library as one of pandas, or an error.

    Parameters
    ----------
    frame : DataFrame
        Of pandas, or an eager one that narwhals reads (polars, pyarrow).
    name : str
        Name of the argument in messages.

    Returns
    -------
    DataFrame
        The frame itself if it is one of pandas.
    """
    if isinstance(frame, pd.DataFrame):
        return frame
    nw = _narwhals(frame, name)
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a DataFrame of pandas, polars, pyarrow or another library that "
            f"narwhals reads; got {_kind(frame)}. Collect a lazy frame first; "
            "docs/how_to/panels.md shows how Dask forecasts one part after the other."
        ) from error
    # pandas has no dates but those with a time of day
    dates = [
        nw.col(c).cast(nw.Datetime("us")) for c, kind in table.schema.items() if kind == nw.Date
    ]
    pandas: pd.DataFrame = table.with_columns(dates).to_pandas()
    return pandas


def like(result: pd.DataFrame, frame: FrameT) -> FrameT:
    """A result as a frame of the library that the user's frame is from.

    Parameters
    ----------
    result : DataFrame
        Of pandas, with a default index.
    frame : DataFrame
        The user's, of any library.

    Returns
    -------
    DataFrame
        Columns that both have are of the user's types.
    """
    if isinstance(frame, pd.DataFrame):
        return result  # type: ignore[return-value]  # FrameT is pd.DataFrame here
    nw = _narwhals(frame, "frame")
    given = nw.from_native(frame, eager_only=True)
    table = nw.from_arrow(result.astype({"error": pd.StringDtype()}), backend=given.implementation)
    types = {name: given.schema[name] for name in table.columns if name in given.schema}
    ours = [nw.col(name).cast(kind) for name, kind in types.items() if table.schema[name] != kind]
    native: FrameT = table.with_columns(ours).to_native()
    return native


def _narwhals(frame: object, name: str) -> Any:
    try:
        import narwhals as nw
    except ImportError as error:
        raise TypeError(
            f"{name} must be a pandas DataFrame; got {_kind(frame)}. Other dataframes need "
            "narwhals: install forecast_unc[dataframes]."
        ) from error
    return nw


def _kind(frame: object) -> str:
    kind = type(frame)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
