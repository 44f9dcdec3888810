"""The rows of persons, cut into blocks and threads that part nobody."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def thread_shares(ends: np.ndarray, n_jobs: int) -> np.ndarray:
    """Return which persons each thread begins with, and their number at the end.

    Parameters
    ----------
    ends : int64 ndarray of shape (n_persons + 1,)
        Where the rows of each person begin and end.
    n_jobs : int
        Threads; they get about equally many rows.
    """
    wanted = ends[-1] * np.arange(n_jobs + 1) // n_jobs
    return np.searchsorted(ends, wanted)


def person_blocks(
    rows: np.ndarray, ends: np.ndarray, start: int, stop: int, size: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of persons ``start`` to ``stop - 1``, some persons at a time.

    Parameters
    ----------
    rows : int64 ndarray
        One person after the other.
    ends : int64 ndarray of shape (n_persons + 1,)
    start, stop : int
    size : int
        Rows of a block, which is longer only for one person who has more.

    Yields
    ------
    part : int64 ndarray
    ends : int64 ndarray
        Where the rows of each person begin and end in the part.
    """
    while start < stop:
        last = int(np.searchsorted(ends, ends[start] + size, side="right")) - 1
        last = min(max(last, start + 1), stop)
        yield rows[ends[start] : ends[last]], ends[start : last + 1] - ends[start]
        start = last
