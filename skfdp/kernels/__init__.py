"""Compiled loops over arrays, the only ones: nothing else imports numba."""
