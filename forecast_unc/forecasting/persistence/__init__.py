"""Models on disk, in files that hold data and no code."""
