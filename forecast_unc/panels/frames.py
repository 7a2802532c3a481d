"""Results as frames of the library that the user's are of."""

from __future__ import annotations

from typing import TypeVar

import pandas as pd

from forecast_unc.series.values import narwhals

FrameT = TypeVar("FrameT")


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
    nw = narwhals(frame, "frame")
    given = nw.from_native(frame, eager_only=True)
    table = nw.from_arrow(result.astype({"error": pd.StringDtype()}), backend=given.implementation)
    types = {name: given.schema[name] for name in table.columns if name in given.schema}
    ours = [nw.col(name).cast(kind) for name, kind in types.items() if table.schema[name] != kind]
    native: FrameT = table.with_columns(ours).to_native()
    return native
