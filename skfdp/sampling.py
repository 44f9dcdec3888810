"""Which records enter a step: the private coins, and the public batch.

The members and the size of a private batch are secrets: they are not logged or returned
to users, and averages divide by the expected size.
"""

from __future__ import annotations

import math

import numpy as np


class PoissonBatches:
    """Batches that each row enters independently with probability `rate`.

    The gaps between members are geometric, ``floor(E / -log(1 - rate))`` with E
    exponential: the cost of a batch is that of its members, not of all rows.

    Parameters
    ----------
    generator : Generator
        A private stream, which nothing public shares.
    n_rows : int
        Rows to draw from.
    rate : float
        Probability of each row, in (0, 1].

    Notes
    -----
    **Guarantees.** The gap before the next member exceeds g with probability
    ``(1 - rate)**(g + 1)``, whatever came before, so that the coins of all rows are
    independent, up to the resolution of float64.

    The memory is allocated once. It is that of a batch eight standard deviations above
    the expected size; a larger one is drawn in several pieces, and is the only one
    that allocates.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        self._generator = generator
        self._n_rows = n_rows
        self._pace = -math.log1p(-rate) if rate < 1 else math.inf
        spread = math.sqrt(n_rows * rate * (1 - rate))
        room = min(n_rows, math.ceil(n_rows * rate + 8 * spread)) + 1
        self._gaps = np.empty(room)
        self._members = np.empty(room, dtype=np.int64)

    def draw(self) -> np.ndarray:
        """Return the next batch.

        Returns
        -------
        batch : int64 ndarray, increasing
            May be empty; an empty batch makes a noise-only step. Valid until the next
            `draw`.
        """
        batch = self._piece(-1)
        if len(batch) < len(self._members):
            return batch
        pieces = [batch.copy()]
        while len(batch) == len(self._members):
            batch = self._piece(int(batch[-1]))
            pieces.append(batch.copy())
        return np.concatenate(pieces)

    def _piece(self, last: int) -> np.ndarray:
        """Return the members after `last`, as many as there is room for."""
        gaps = self._generator.standard_exponential(out=self._gaps)
        gaps /= self._pace
        np.floor(gaps, out=gaps)
        # A gap beyond the end ends the batch; cut, so that sums stay exact integers.
        np.minimum(gaps, self._n_rows, out=gaps)
        gaps += 1
        gaps[0] += last
        np.cumsum(gaps, out=gaps)
        self._members[:] = gaps
        return self._members[: np.searchsorted(gaps, self._n_rows)]


def uniform_batch(
    generator: np.random.Generator, n_rows: int, size: int | None
) -> np.ndarray:
    """Draw `size` rows without replacement; None means all of them."""
    if size is None or size >= n_rows:
        return np.arange(n_rows)
    return np.sort(generator.choice(n_rows, size=size, replace=False))
