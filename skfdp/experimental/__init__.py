"""Features whose names and results may still change."""
