"""The next steps of one model, with their joint distribution."""
