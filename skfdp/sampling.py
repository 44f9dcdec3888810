"""Which records enter a step: the private coins, and the public batch.

The members and the size of a private batch are secrets: they are not stored, logged
or returned to users, and averages divide by the expected size.
"""

from __future__ import annotations

import numpy as np


def poisson_batch(
    generator: np.random.Generator, n_rows: int, rate: float
) -> np.ndarray:
    """Draw each row independently with probability `rate`.

    Parameters
    ----------
    generator : Generator
        A stream that nothing public shares.
    n_rows : int
        Rows to draw from.
    rate : float
        Probability of each row.

    Returns
    -------
    batch : int64 ndarray, increasing
        May be empty; an empty batch makes a noise-only step.
    """
    return np.flatnonzero(generator.random(n_rows) < rate)


def uniform_batch(
    generator: np.random.Generator, n_rows: int, size: int | None
) -> np.ndarray:
    """Draw `size` rows without replacement; None means all of them."""
    if size is None or size >= n_rows:
        return np.arange(n_rows)
    return np.sort(generator.choice(n_rows, size=size, replace=False))
