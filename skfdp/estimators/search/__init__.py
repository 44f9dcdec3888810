"""Searches over candidates that share one budget."""
