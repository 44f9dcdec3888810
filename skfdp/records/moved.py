"""Mapped rows about a centre, rotated or not, made block by block."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from skfdp.records.blocks import blocks, squared_norms
from skfdp.records.large import is_on_disk


@dataclasses.dataclass(frozen=True)
class Rotation:
    """Random signs, then the Hadamard matrix over the root of its size.

    Rows are padded with zeros to a power of two. Lengths and distances stay, and what
    is long in a few columns becomes short in all of them.

    Attributes
    ----------
    signs : float64 ndarray of shape (n_columns,)
        1 or -1, from coins that have to do with no record.

    Notes
    -----
    **Guarantees.** Each entry is made of its own row by additions, subtractions and
    products in a fixed order, each of which is rounded as IEEE 754 says: a row gives
    the same numbers to the last bit in whatever block it stands. A product of matrices
    or a transform of a library need not.
    """

    signs: np.ndarray

    @classmethod
    def draw(cls, generator: np.random.Generator, n_columns: int) -> Rotation:
        """Draw a rotation from a public stream."""
        return cls(1.0 - 2.0 * generator.integers(0, 2, size=n_columns))

    @property
    def width(self) -> int:
        """Columns of the rotated rows, a power of two."""
        return rotated_width(len(self.signs))

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Return rotated rows, float64 (n_rows, width)."""
        padded = np.zeros((len(X), self.width))
        padded[:, : X.shape[1]] = X * self.signs
        return _hadamard(padded)

    def back(self, row: np.ndarray) -> np.ndarray:
        """Return the vector whose rotation is nearest to a row of `width` columns."""
        return _hadamard(row[None])[0, : len(self.signs)] * self.signs


def rotated_width(n_columns: int) -> int:
    """Return the columns of rotated rows: the next power of two."""
    return 1 << max(0, n_columns - 1).bit_length()


def _hadamard(rows: np.ndarray) -> np.ndarray:
    """Return rows times the Hadamard matrix over the root of its size."""
    n_rows, width = rows.shape
    columns = rows.T.copy()  # so that what is added lies in one piece
    half = 1
    while half < width:
        pairs = columns.reshape(width // (2 * half), 2, half * n_rows)
        low, high = pairs[:, 0].copy(), pairs[:, 1]
        pairs[:, 0] += high
        np.subtract(low, high, out=pairs[:, 1])
        half *= 2
    return np.ascontiguousarray(columns.T) * width**-0.5


@dataclasses.dataclass(frozen=True)
class MovedRows:
    """Rows minus a centre, over a length, and perhaps rotated.

    Queries read them as they would read a table: nothing but a block is ever held.

    Attributes
    ----------
    rows : WholeRows or ndarray of shape (n_rows, n_columns)
        Finite; may be private.
    centre : float64 ndarray of shape (n_columns,)
        Public or released, like all that follows.
    length : float
        Above 0.
    rotation : Rotation or None
        After it the rows have its `width`.

    Notes
    -----
    **Guarantees.** A moved row is a function of that row and of released numbers. It
    may have infinite or missing entries where the row is beyond all measure.
    """

    rows: Any
    centre: np.ndarray
    length: float = 1.0
    rotation: Rotation | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        width = len(self.centre) if self.rotation is None else self.rotation.width
        return self.rows.shape[0], width

    @property
    def on_disk(self) -> bool:
        """Whether the rows lie in a file."""
        return is_on_disk(self.rows)

    def __getitem__(self, block: slice | np.ndarray) -> np.ndarray:
        """Return some of the rows, float64."""
        with np.errstate(all="ignore"):  # a warning would tell of a private value
            moved = (self.rows[block] - self.centre) / self.length
            return moved if self.rotation is None else self.rotation.rows(moved)

    def lengths(self) -> np.ndarray:
        """Return the norm of each row, float64 (n_rows,)."""
        found = np.empty(self.shape[0])
        for block in blocks(*self.shape):
            # einsum, which sums the squares, warns of no overflow.
            found[block] = np.sqrt(squared_norms(self[block]))
        return found
