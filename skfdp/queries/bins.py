"""Counts of the numbers of each column in public bins."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.privacy.relations import Relation
from skfdp.queries import sum_unit
from skfdp.records.blocks import row_blocks

#: Bins of every rule, before those of its own: numbers that are missing, that are
#: infinite, and that are zero or too close to it for a declared bound.
MISSING, INFINITE, ZERO = range(3)
N_SPECIAL = 3
#: Binade e holds the sizes in (2**(e - 1), 2**e]. Sizes up to 2**(FIRST - 1) count as
#: zero, those above 2**LAST in the last binade: bounds are at most 1e100 in size, and
#: 1e-100 apart (`records.checks.check_interval`).
FIRST, LAST = -320, 332
N_BINADES = LAST - FIRST + 1
# Counts of 2**52 records are still below 2**62 units of it.
_FINEST = 2.0**-10


@dataclasses.dataclass(frozen=True)
class Binades:
    """The rule of binades: the size of a number up to a factor of 2, and its sign.

    The bins after the special ones are those of negative numbers, by size, then those
    of positive ones, by size.
    """

    n_bins: int = N_SPECIAL + 2 * N_BINADES

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the bin of each number, int64; any float64 has exactly one.

        Parameters
        ----------
        values : float64 ndarray
        columns : int ndarray
            The column of each, broadcast to them; of no account here.
        """
        mantissa, exponent = np.frexp(np.abs(values))
        # frexp gives [1/2, 1): a power of two belongs to the binade that it ends.
        size = exponent.astype(np.int64) - (mantissa == 0.5)
        place = np.clip(size, FIRST, LAST) - FIRST
        found = N_SPECIAL + place + N_BINADES * (values > 0)
        found = np.where((values == 0) | (size < FIRST), ZERO, found)
        return _with_special(found, values)


@dataclasses.dataclass(frozen=True)
class EvenBins:
    """The rule of even bins between the ends of each column.

    After the special bins come one for numbers up to the lower end, `n_even` bins,
    each with its right edge, and one for numbers above the upper end. Zero has its own
    bin here too, wherever it lies.

    Attributes
    ----------
    low, high : float64 ndarray of shape (n_columns,)
        Finite, low < high; public or released.
    n_even : int
    """

    low: np.ndarray
    high: np.ndarray
    n_even: int

    @property
    def n_bins(self) -> int:
        """Number of bins of a column."""
        return N_SPECIAL + self.n_even + 2

    def edges(self, column: int) -> np.ndarray:
        """Return the edges of the even bins of a column, shape (n_even + 1,)."""
        share = np.arange(self.n_even + 1) / self.n_even
        # Not low + share * (high - low): the difference may overflow.
        return self.low[column] * (1 - share) + self.high[column] * share

    def bins(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the bin of each number, int64; any float64 has exactly one.

        Parameters
        ----------
        values : float64 ndarray
        columns : int ndarray
            The column of each, broadcast to them.
        """
        low, high = self.low[columns], self.high[columns]
        share = (values - low) / (high - low) * self.n_even
        place = np.clip(np.ceil(share), 0, self.n_even + 1)
        # NaN as an integer would be any number.
        found = N_SPECIAL + np.where(np.isnan(place), 0, place).astype(np.int64)
        return _with_special(np.where(values == 0, ZERO, found), values)


def _with_special(found: np.ndarray, values: np.ndarray) -> np.ndarray:
    found = np.where(np.isinf(values), INFINITE, found)
    return np.where(np.isnan(values), MISSING, found).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class BinCounts:
    """The number of records in each bin of each of some columns.

    Parameters
    ----------
    X : ndarray, csr_array or MovedRows of shape (n_rows, n_columns)
        Private columns alone; any number, NaN and infinity included.
    rule : Binades, EvenBins or Shells
        Public, or made of released numbers.

    Notes
    -----
    **Guarantees.** A number of float64 is in exactly one bin, whatever it is. So a
    record adds 1 to one bin of each of the p columns, and 0 to all others:

    * the norm of its contribution is ``sqrt(p)``, exactly, and a nulled, added or
      removed record moves the counts by that;
    * a replaced record moves at most one 1 in each column to another bin, which changes
      two entries of it by 1: the counts move by at most ``sqrt(2 p)``.

    Counts are whole numbers of grid units, the same for dense and CSR rows;
    :ref:`bin-counts` has the proof.
    """

    X: np.ndarray | csr_array
    rule: Binades | EvenBins

    @classmethod
    def planned(cls, n_columns: int) -> BinCounts:
        """Return the counts of no records, for plans that need their bounds."""
        return cls(np.empty((0, n_columns)), Binades())

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return self.X.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the counts."""
        return self.X.shape[1], self.rule.n_bins

    @property
    def clip_norm(self) -> float:
        """L2 norm of a contribution."""
        return math.sqrt(self.X.shape[1])

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the counts; see the guarantees."""
        return relation.moves(self.clip_norm, math.sqrt(2 * self.X.shape[1]))

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the counts, at most 1: a record has to be a unit."""
        return min(1.0, sum_unit(noise_std, 1.0, 0, _FINEST))

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 counts of the batch, in `unit`; None means every row."""
        n_rows = self.n_rows if batch is None else len(batch)
        n_columns, n_bins = self.shape
        total = np.zeros(n_columns * n_bins, dtype=np.int64)
        for block in row_blocks(self.X):
            rows = self.X[block if batch is None else batch[block]]
            if issparse(rows):
                values, columns = rows.data, rows.indices
            else:
                values, columns = np.asarray(rows), np.arange(n_columns)
            columns = columns.astype(np.int64)
            with np.errstate(all="ignore"):  # a warning would tell of a private value
                found = self.rule.bins(values.astype(np.float64), columns)
            cells = (columns * n_bins + found).ravel()
            total += np.bincount(cells, minlength=total.size)
        counts = total.reshape(self.shape)
        # Zeros that CSR does not store; a dense block has none.
        counts[:, ZERO] += n_rows - counts.sum(axis=1)
        return counts * round(1 / unit)
