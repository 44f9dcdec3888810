"""Second moments of private rows: with each other, and with public rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.queries import OfGridRows, chosen, no_rows, sum_unit
from skfdp.queries.class_sums import clipped
from skfdp.records.blocks import blocks, squared_norms
from skfdp.records.grid import GRID, GridRows

#: Integer weights of the squares, of the products of two columns, and of the products
#: with the target. 17 / 12 is just above sqrt(2): see the guarantees.
SQUARE, PAIR, CROSS = 12, 17, 12
# Rows and targets have a norm of at most 1 up to rounding; this covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class MomentSum(OfGridRows):
    """The sum of ``[12 x_i**2, 17 x_i x_j (i < j), 12 x_i y]`` over the records.

    Parameters
    ----------
    rows : GridRows
        Columns of x, then y; see `build`.
    capacity : int
        Public bound on the number of rows, for the grid.

    Notes
    -----
    **Guarantees.** With ``|x| <= 1`` and ``|y| <= 1`` the contribution v has ``|v|**2
    <= a |x|**4 + b |x|**2 y**2 <= a + b``, where ``a = 17**2 / 2`` and ``b = 12**2``,
    and replacing a record moves the sum by at most ``sqrt(a) (sqrt(2) + b / (a
    sqrt(2)))``, for ``b <= 2 a``; see the page "Second moments" of the documentation.
    Both hold in exact integers: rows are truncated toward zero to a grid first, and
    products and sums of integers are exact. NaN counts as 0, and x that leaves float64
    as no record.
    """

    rows: GridRows
    capacity: int

    @classmethod
    def planned(cls) -> MomentSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(no_rows(), 0)

    @classmethod
    def build(
        cls,
        n_rows: int,
        n_columns: int,
        joined: Callable[[slice], np.ndarray],
        capacity: int,
    ) -> MomentSum:
        """Shorten each record and quantise it.

        A record is scaled as a whole, x and y by one factor, until ``|x| <= 1``: a
        linear relation between them stays what it is. Then y is clipped to [-1, 1].

        Parameters
        ----------
        n_rows, n_columns : int
            n_columns counts y.
        joined : callable
            ``joined(block)`` returns the columns of x, then y, of a slice of records,
            each record by itself.
        capacity : int
        """

        def shortened(index: np.ndarray) -> np.ndarray:
            with np.errstate(all="ignore"):  # a warning would tell of a private value
                rows = np.nan_to_num(joined(slice(index[0, 0], index[-1, 0] + 1)))
                norm = np.sqrt(squared_norms(rows[:, :-1]))
                rows = rows * (_SHRINK / np.maximum(norm, 1.0))[:, None]
                rows[:, -1] = np.clip(rows[:, -1], -1.0, 1.0)
            return rows

        numbers = np.arange(n_rows)[:, None]
        return cls(GridRows.build(numbers, shortened, n_features=n_columns), capacity)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum: d squares, d (d - 1) / 2 products, d products with y."""
        d = self.rows.values.shape[1] - 1
        return (2 * d + d * (d - 1) // 2,)

    @property
    def clip_norm(self) -> float:
        """L2 bound of a contribution."""
        return math.sqrt(PAIR**2 / 2 + CROSS**2)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        a, b = PAIR**2 / 2, CROSS**2
        replaced = math.sqrt(a) * (math.sqrt(2) + b / (a * math.sqrt(2)))
        return relation.moves(self.clip_norm, replaced)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum, an even power of two."""
        unit = sum_unit(noise_std, self.clip_norm, self.capacity, GRID**2)
        return 4.0 ** math.ceil(math.log2(unit) / 2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every record."""
        (values,) = chosen(batch, self.rows.values)
        coarser = GRID / math.sqrt(unit)  # at most 1: drops bits of the rows
        d = values.shape[1] - 1
        total = np.zeros((d, d + 1), dtype=np.int64)
        for block in blocks(*values.shape):
            # 4096 products of 15 + 15 bits stay below 2**53: exact in float64.
            rows = np.trunc(values[block] * coarser)
            total += (rows[:, :-1].T @ rows).astype(np.int64)
        upper = np.triu_indices(d, 1)
        return np.concatenate(
            [SQUARE * np.diagonal(total), PAIR * total[upper], CROSS * total[:, d]]
        )


def unpacked(total: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the symmetric matrix of x x' and the vector of x y of a released sum."""
    gram = np.zeros((d, d))
    gram[np.triu_indices(d, 1)] = total[d:-d] / PAIR
    gram += gram.T
    gram[np.diag_indices(d)] = total[:d] / SQUARE
    return gram, total[-d:] / CROSS


@dataclasses.dataclass(frozen=True)
class OuterSum:
    """The sum of ``z q'`` over the records, z being public and q private.

    Parameters
    ----------
    private : callable
        ``private(index)`` returns float64 rows q of a slice or an array of records,
        each record by itself. It is asked for a block at a time, so that no copy of
        the table is kept.
    n_private : int
        Columns of q.
    public : int16 ndarray of shape (n_rows, n_public)
        Rows z in units of GRID.
    capacity : int
        Public bound on the number of rows, for the grid.

    Notes
    -----
    **Guarantees.** Rows q and z are shortened here to a norm of 1, if they are longer;
    NaN counts as 0, and a row that leaves float64 as no row. So a contribution has norm
    ``|z| |q| <= 1``. Neighbours share z, so that a replaced record moves the sum by
    ``|z| |q - q'| <= 2``, and one that is nulled or removed by at most 1. In exact
    integers: both rows are truncated toward zero, and products and sums of integers are
    exact.
    """

    private: Callable[[slice | np.ndarray], np.ndarray]
    n_private: int
    public: np.ndarray
    capacity: int
    clip_norm: float = 1.0

    @classmethod
    def planned(cls) -> OuterSum:
        """Return the sum of no records, for plans that need its bounds."""
        return cls(lambda index: np.empty((0, 0)), 0, np.empty((0, 0), np.int16), 0)

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.public)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the sum: a row for each public column."""
        return self.public.shape[1], self.n_private

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum: of the public rows, times that of q."""
        return sum_unit(noise_std, self.clip_norm, self.capacity, GRID**2)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch; None means every record."""
        n_rows = self.n_rows if batch is None else len(batch)
        total = np.zeros(self.shape, dtype=np.int64)
        for block in blocks(n_rows, sum(self.shape)):
            index = block if batch is None else batch[block]
            # 4096 products of 15 + 15 bits stay below 2**53: exact in float64.
            rows = np.trunc(shortened(self.private(index)) * (GRID / unit))
            total += (clipped(self.public[index]).T @ rows).astype(np.int64)
        return total


def shortened(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm at most 1; NaN counts as 0."""
    with np.errstate(all="ignore"):  # a warning would tell of a private value
        rows = np.nan_to_num(rows)
        factor = _SHRINK / np.maximum(np.sqrt(squared_norms(rows)), 1.0)
        return rows * factor[:, None]
