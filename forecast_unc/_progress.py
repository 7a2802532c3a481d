"""The bar of tqdm, as a terminal or a notebook draws it."""

import warnings

__all__ = ["tqdm"]

with warnings.catch_warnings():
    # In a notebook without ipywidgets it draws text, and would say so at every import.
    warnings.filterwarnings("ignore", "IProgress not found")
    from tqdm.auto import tqdm
