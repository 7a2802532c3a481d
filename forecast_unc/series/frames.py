"""Series and frames of other libraries as those of pandas, by narwhals."""

from __future__ import annotations

from typing import Any

import pandas as pd

_LIBRARIES = ("polars.", "pyarrow.", "modin.", "cudf.")  # that narwhals reads, eagerly


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
    nw = narwhals(frame, name)
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise TypeError(
            f"{name} must be a DataFrame of pandas, polars, pyarrow or another library that "
            f"narwhals reads; got {kind(frame)}. Collect a lazy frame first; "
            "docs/how_to/panels.md shows how Dask forecasts one part after the other."
        ) from error
    # pandas has no dates but those with a time of day
    dates = [
        nw.col(c).cast(nw.Datetime("us")) for c, kind in table.schema.items() if kind == nw.Date
    ]
    pandas: pd.DataFrame = table.with_columns(dates).to_pandas()
    return pandas


def by_time(data: object, name: str) -> pd.DataFrame:
    """A frame of another library with its one column of dates or times as the index, or an error.

    Parameters
    ----------
    data : object
        What came in the place of a Series of pandas.
    name : str
        Name of the argument in messages.

    Returns
    -------
    DataFrame
        Of pandas.

    Raises
    ------
    TypeError
        If it is no such frame; with what to do.
    """
    if not kind(data).startswith(_LIBRARIES):
        raise TypeError(
            f"{name} must be a pandas Series; got {type(data).__name__}. Wrap it, for example "
            "pd.Series(values, index=times)."
        )
    if not hasattr(type(data), "columns"):
        raise TypeError(
            f"{name} must be a pandas Series; got {kind(data)}, which has no index of times. Pass "
            f'the frame with its times instead, such as df[["ds", "y"]], or take df["y"] and make '
            'an index: pd.Series(df["y"].to_numpy(), index=pd.DatetimeIndex(df["ds"].to_numpy())).'
        )
    frame = to_pandas(data, name)
    times = [c for c, dtype in frame.dtypes.items() if pd.api.types.is_datetime64_any_dtype(dtype)]
    if len(times) != 1:
        raise TypeError(
            f"{name} must have one column of dates or times; got {times or 'none'} in a "
            f"{kind(data)} of columns {list(frame.columns)}. Select it and the values, and convert "
            "text to dates first."
        )
    return frame.set_index(times[0])


def narwhals(frame: object, name: str) -> Any:
    """The library narwhals, or an error that says what needs it.

    Parameters
    ----------
    frame : object
        What it is to read.
    name : str
        Name of the argument in the message.
    """
    try:
        import narwhals as nw
    except ImportError as error:
        raise TypeError(
            f"{name} must be a pandas DataFrame; got {kind(frame)}. Other dataframes need "
            "narwhals: install forecast_unc[dataframes]."
        ) from error
    return nw


def kind(frame: object) -> str:
    """The library and the type of an object, such as polars.DataFrame."""
    found = type(frame)
    return f"{found.__module__.partition('.')[0]}.{found.__name__}"
