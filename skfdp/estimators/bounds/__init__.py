"""Bounds and knots of private columns, from released counts."""
