"""Loops over arrays, compiled by numba, and their twins in NumPy, with equal results.

Only this package imports numba. A small table does not wait for the compiler: its fit
calls the twin of each loop that is not in the cache on the disk.
"""

#: A table is small if its rows times columns times outputs are fewer than this.
SMALL = 2_000_000
#: Whether loops that are not in the cache are compiled: not for a small table, whose
#: fit computes the same by their twins. A fit and its queries set it.
compiles = False


class NotCompiledError(Exception):
    """A loop is not in the cache, and the table is too small to compile it."""
