"""Many series at once: a long frame in, one job a series, a long frame out."""
