"""The version, where both the package and its lowest modules can read it."""

__version__ = "0.1.0"
