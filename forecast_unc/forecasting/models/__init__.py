"""One specification fitted on one history."""
