"""How sure are we about this series, k steps ahead?"""

__version__ = "0.1.0"
