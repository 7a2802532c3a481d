"""One page of HTML that needs nothing else: sections, tables and pictures, all text escaped."""

from __future__ import annotations

import base64
import hashlib
import io
import numbers
import warnings
from collections.abc import Callable, Iterable, Mapping
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES = (5.6, 4.0)  # with letters of 11 points, which on a phone are still 10 pixels high
_MOST_POINTS = 5000  # of a line in vectors: 100,000 take 3 MB


def page(title: str, body: Iterable[str]) -> bytes:
    """A whole page, which loads nothing and runs no script but its own.

    Parameters
    ----------
    title : str
        Title of the window, as plain text.
    body : iterable of str
        HTML of the parts below each other.

    Returns
    -------
    bytes
        The page in UTF-8.
    """
    style, script = _file("page.css"), _file("page.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    text = Template(_file("page.html")).substitute(
        policy=policy, title=escape(title), style=style, script=script, body="\n".join(body)
    )
    return text.encode("utf-8", "xmlcharrefreplace")  # half a pair of surrogates has no bytes


def heading(text: str) -> str:
    """The one heading of the whole page, of plain text."""
    return f"<h1>{escape(text)}</h1>"


def section(heading: str, *parts: str) -> str:
    """A section under a heading.

    Parameters
    ----------
    heading : str
        The heading, as plain text.
    *parts : str
        HTML of what is in it; empty ones are left out.

    Returns
    -------
    str
    """
    name = _identifier(heading)
    inner = "\n".join(part for part in parts if part)
    head = f'<h2 id="{name}">{escape(heading)}</h2>'
    return f'<section aria-labelledby="{name}">\n{head}\n{inner}\n</section>'


def contents(headings: Iterable[str]) -> str:
    """Links to the sections of these headings."""
    links = (f'<a href="#{_identifier(name)}">{escape(name)}</a>' for name in headings)
    return f'<nav aria-label="Contents">{" ".join(links)}</nav>'


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text, of a class of the style sheet if given."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def listed(lines: Iterable[str]) -> str:
    """A list of lines of plain text."""
    return "<ul>\n" + "\n".join(f"<li>{escape(str(line))}</li>" for line in lines) + "\n</ul>"


def terms(pairs: Mapping[str, object]) -> str:
    """A list of names and what stands for each."""
    rows = (f"<dt>{escape(name)}</dt><dd>{escape(str(text))}</dd>" for name, text in pairs.items())
    return "<dl>\n" + "\n".join(rows) + "\n</dl>"


def table(frame: pd.DataFrame, caption: str) -> str:
    """A table that a click on the head of a column sorts, in a box of its own that scrolls.

    Parameters
    ----------
    frame : DataFrame
        Its columns, the first of which names the rows; the index is left out. A number is shown
        with 4 digits and kept with all in the attribute ``data-value``, by which its column is
        sorted.
    caption : str
        What it shows, as plain text.

    Returns
    -------
    str
    """
    kinds = [_kind(frame.iloc[:, i]) for i in range(frame.shape[1])]
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(str(name))}</th>'
        for name, kind in zip(frame.columns, kinds, strict=True)
    )
    columns = []
    for i, kind in enumerate(kinds):
        start, end = ("td", "td") if i else ('th scope="row"', "th")
        columns.append(
            [
                f'<{start} class="{kind}" data-value="{value}">{text}</{end}>'
                for value, text in _cells(frame.iloc[:, i], kind)
            ]
        )
    rows = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
    return (
        f'<div class="table" role="region" aria-label="{escape(caption)}" tabindex="0"><table>\n'
        f"<caption><span>{escape(caption)}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def pictures(*some: str) -> str:
    """Pictures beside each other where there is room."""
    return f'<div class="pictures">\n{"".join(some)}</div>'


def picture(draw: Callable[[Axes], Any], alt: str, caption: str) -> str:
    """A picture within the page, drawn in matplotlib's own style.

    Parameters
    ----------
    draw : callable
        Draws on the axes given.
    alt : str
        What is to be seen, for who cannot see it.
    caption : str
        How to read it.

    Returns
    -------
    str
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    plain = {"svg.hashsalt": "forecast_unc", "svg.fonttype": "path", "font.size": 11}
    with style.context(["default", plain]), warnings.catch_warnings():
        # Letters that the font lacks are boxes in the picture; the text of the page has them.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure = Figure(figsize=_INCHES, layout="constrained")
        ax = figure.subplots()
        draw(ax)
        for line in ax.lines:
            line.set_rasterized(np.size(line.get_xdata()) > _MOST_POINTS)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, dpi=150)
    data = base64.b64encode(file.getvalue()).decode()
    return (
        f'<figure><img src="data:image/svg+xml;base64,{data}" alt="{escape(alt)}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n"
    )


def number(value: Any) -> str:
    """A number as a reader wants it: 4 digits, none cut from before the point."""
    if isinstance(value, numbers.Integral):
        return str(value)
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _kind(column: pd.Series[Any]) -> str:
    """What is in a column, as a class of the style sheet."""
    if isinstance(column.dtype, pd.DatetimeTZDtype | pd.PeriodDtype) or column.dtype.kind == "M":
        return "time"
    is_number = pd.api.types.is_numeric_dtype(column.dtype) and column.dtype.kind != "b"
    return "number" if is_number else "text"


def _cells(column: pd.Series[Any], kind: str) -> list[tuple[str, str]]:
    """Of each cell what it is sorted by, and what is shown."""
    values = column.tolist()
    if kind == "number":
        return [(repr(value), number(value)) for value in values]
    if kind == "time":
        times = pd.Index(column)
        # In UTC no hour comes twice.
        order = (
            times.tz_convert("UTC") if isinstance(times, pd.DatetimeIndex) and times.tz else times
        )
        return list(zip(order.astype(str), times.astype(str), strict=True))
    return [(escape(str(value)), escape(str(value))) for value in values]


def _identifier(heading: str) -> str:
    return heading.lower().replace(" ", "-")


def _file(name: str) -> str:
    return files("forecast_unc.evaluation").joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
