"""All compiled loops over arrays: only this package imports numba."""
