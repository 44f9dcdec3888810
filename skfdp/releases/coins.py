"""Batches: private coins, and the public batch.

The members and the size of a private batch are secrets: they are not logged or returned
to users, and averages divide by the expected size.
"""

from __future__ import annotations

import math

import numpy as np

from skfdp.releases.exact_draws import exact_gap
from skfdp.releases.noise import random_words

# Words are drawn in blocks that stay in the cache.
_BLOCK_WORDS = 2**13


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
    independent. This is exact if the words are uniform and independent (where one word
    and float64 do not decide a gap, further words and longer integers do), but for the
    rate, which is lowered by less than one part in 2**48: never above the stated one.

    The memory of the members is allocated once. It is that of a batch eight standard
    deviations above the expected size; a larger one is drawn in several pieces, which
    are copied. The random words of a block are a new array, of 64 KiB at most.
    """

    def __init__(self, generator: np.random.Generator, n_rows: int, rate: float):
        # Imported here: `import skfdp` does not load numba.
        from skfdp.kernels.sampling import poisson_members

        self._write_members = poisson_members
        self._generator = generator
        self._n_rows = n_rows
        # A little less, so that rounding does not make it the pace of a higher rate.
        self._pace = -math.log1p(-rate) * (1 - 2.0**-49) if rate < 1 else math.inf
        spread = math.sqrt(n_rows * rate * (1 - rate))
        room = min(n_rows, math.ceil(n_rows * rate + 8 * spread)) + 1
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
        room, count = len(self._members), 0
        while count < room:
            words = random_words(self._generator, min(room - count, _BLOCK_WORDS))
            while len(words):
                found, unsure = self._write_members(
                    words, self._pace, last, self._n_rows, self._members[count:]
                )
                if found:
                    count += found
                    last = int(self._members[count - 1])
                if unsure:
                    last += 1 + exact_gap(int(words[found]), self._pace, self._more)
                    if last < self._n_rows:
                        self._members[count] = last
                        count, found = count + 1, found + 1
                if found < len(words) and not (unsure and last < self._n_rows):
                    return self._members[:count]
                words = words[found:]
        return self._members[:count]

    def _more(self, n_words: int) -> list[int]:
        return random_words(self._generator, n_words).tolist()


def not_void(
    batch: np.ndarray | None, void: np.ndarray | None, n_rows: int
) -> np.ndarray | None:
    """Return what is left of a batch without void records.

    Parameters
    ----------
    batch : int64 ndarray or None
        Row numbers; None: every row.
    void : bool ndarray of shape (n_rows,) or None
        Records that add nothing to any release; None: there are none.
    n_rows : int
        Of the query.
    """
    if void is None:
        return batch
    if len(void) != n_rows:
        raise ValueError("a query at this desk is over other records than its own.")
    if batch is None:
        return np.flatnonzero(~void)
    return batch[~void[batch]]


def uniform_batch(
    generator: np.random.Generator, n_rows: int, size: int | None
) -> np.ndarray:
    """Draw `size` rows without replacement; None means all of them."""
    if size is None or size >= n_rows:
        return np.arange(n_rows)
    return np.sort(generator.choice(n_rows, size=size, replace=False))
