"""Sphinx: `make docs` writes docs/_build/html; a warning is an error."""

import os
import re
from pathlib import Path

from forecast_unc import __version__

ROOT = Path(__file__).parents[1]

project = "forecast_unc"
author = copyright = "forecast_unc developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# As on a code host: ```math fences, $, and links to headings by their words.
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4

autosummary_generate = True
add_module_names = False
autodoc_typehints = "none"  # numpydoc's sections name the types
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(?:^|/)(?!plot_)[^/]*\.py$",
    "within_subsection_order": "ExampleTitleSortKey",
    "nested_sections": False,
    "thumbnail_size": (440, 300),
    "download_all_examples": False,
    "abort_on_example_error": True,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "forecast_unc"
# Pages without a section have nothing to show beside them.
ALONE = "quickstart troubleshooting comparison experiments machines glossary changelog contributing"
html_sidebars = {page: [] for page in ALONE.split()}
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# Files outside docs/ that are pages here, too, with their one text.
OUTSIDE = {
    "changelog": ROOT / "CHANGELOG.md",
    "contributing": ROOT / "CONTRIBUTING.md",
    "datasets": ROOT / "datasets" / "README.md",
}
PLACES = {str(source.relative_to(ROOT)): f"/{page}.md" for page, source in OUTSIDE.items()}
PLACES |= {"README.md": "/index.md", "examples/README.rst": "/gallery/index.rst"}
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=(?:#[^)\s]*)?\))")


def turned(text: str, source: Path, page: Path) -> str:
    """Text of ``source`` as that of ``page``: its links lead to pages, or else to files."""

    def place(match: re.Match[str]) -> str:
        path = os.path.relpath((source.parent / match[1]).resolve(), ROOT)
        if example := re.fullmatch(r"examples/(plot_\w+)\.py", path):
            return f"/gallery/{example[1]}.rst"
        if path.startswith("docs/"):
            return path.removeprefix("docs")
        return PLACES.get(path, os.path.relpath(ROOT / path, page.parent))

    return LINK.sub(place, text)


def read(app, docname: str, text: list[str]) -> None:
    """Take the text of a page from outside docs/, and turn the links of all."""
    page = ROOT / "docs" / f"{docname}.md"
    if page.exists():
        source = OUTSIDE.get(docname, page)
        app.env.note_dependency(str(source))
        text[0] = turned(source.read_text(encoding="utf-8"), source, page)


def skip(
    app: object, what: str, name: str, obj: object, skip: bool, options: object
) -> bool | None:
    """Leave scikit-learn's own methods to scikit-learn's documentation."""
    return True if (getattr(obj, "__module__", None) or "").startswith("sklearn.") else None


def setup(app) -> None:
    app.connect("autodoc-skip-member", skip)
    app.connect("source-read", read)
