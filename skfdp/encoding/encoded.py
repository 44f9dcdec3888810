"""Encoded tables: what an encoder makes of the raw table of a fit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.encoding.encoder import DeclaredEncoder
from skfdp.encoding.smoothing import Smoothing


@dataclasses.dataclass(frozen=True)
class EncodedTable:
    """The rows of a fit, and which raw columns each of their columns comes from.

    Attributes
    ----------
    encoder : DeclaredEncoder
        Fitted.
    encoded : float64 ndarray or csr_array of shape (n_rows, n_encoded)
        Private but for its public columns.
    raw_mask : bool ndarray of shape (n_raw,)
        The public raw columns.
    smoothing : Smoothing or None
        Between encoded columns and those of the loop; None: they are the same.
    """

    encoder: DeclaredEncoder
    encoded: np.ndarray | csr_array
    raw_mask: np.ndarray
    smoothing: Smoothing | None = None

    @property
    def block(self) -> np.ndarray:
        """The block of each column of the loop, shape (n_columns,)."""
        if self.smoothing is not None:
            return self.smoothing.block
        return self._block_of_encoded

    @property
    def _block_of_encoded(self) -> np.ndarray:
        sizes = [len(block.levels) for block in self.encoder.blocks_]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def public_blocks(self) -> np.ndarray:
        """Whether all that a block comes from is public, shape (n_blocks,)."""
        return np.array(
            [self.raw_mask[list(b.parents)].all() for b in self.encoder.blocks_],
            dtype=bool,
        )

    @property
    def takes_private_types(self) -> bool:
        """Whether the type of a private column tells its categories."""
        return not self.raw_mask[self.encoder.categories_from_types()].all()

    @property
    def mask(self) -> np.ndarray:
        """The public columns of the loop, shape (n_columns,)."""
        return self.public_blocks[self.block]

    @property
    def public_encoded(self) -> np.ndarray:
        """The public encoded columns, shape (n_encoded,)."""
        return self.public_blocks[self._block_of_encoded]

    @property
    def longest_private(self) -> float:
        """Bound of the norm of the private columns of a row."""
        return math.sqrt(int((~self.public_blocks).sum()))

    @property
    def longest(self) -> float:
        """Bound of the norm of a row: each block is at most 1 long."""
        return math.sqrt(max(1, len(self.encoder.blocks_)))

    @property
    def bounds(self) -> tuple[float, float] | bool:
        """Bounds of the columns of the loop, as estimators take them."""
        return (0.0, 1.0) if self.smoothing is None else False

    def names(self, raw: Sequence[str | int]) -> tuple[str | int, ...]:
        """Return the raw column that stands for each column of the loop.

        Of a pair it is a private one, if either is.

        Parameters
        ----------
        raw : sequence of str or int
            Names of the raw columns.
        """
        owners = [
            next((p for p in block.parents if not self.raw_mask[p]), block.parents[0])
            for block in self.encoder.blocks_
        ]
        return tuple(raw[owners[j]] for j in self.block)

    def smooth(self, signal: float, n_records: int, n_outputs: int) -> EncodedTable:
        """Return the table in smooth coordinates; parameters as for `Smoothing.of`.

        CSR rows stay as they are: they would be filled in.
        """
        if issparse(self.encoded):
            return self
        blocks = self.encoder.blocks_
        smoothing = Smoothing.of(blocks, signal, n_records, n_outputs)
        return dataclasses.replace(self, smoothing=smoothing)

    def public_part(self) -> EncodedTable:
        """Return the same without the private columns of `encoded`."""
        shown = self.encoded[:, self.public_encoded]
        return dataclasses.replace(self, encoded=shown)

    def rows(self) -> np.ndarray | csr_array:
        """Return the rows of the loop, shape (n_rows, n_columns)."""
        return (
            self.encoded
            if self.smoothing is None
            else self.smoothing.rows(self.encoded)
        )

    def weights(self, coef: np.ndarray) -> np.ndarray:
        """Return weights on encoded columns, given weights on those of the loop.

        Parameters
        ----------
        coef : ndarray of shape (n_outputs, n_columns)

        Returns
        -------
        weights : ndarray of shape (n_outputs, n_encoded)
        """
        return coef if self.smoothing is None else self.smoothing.weights(coef)

    def variances(self, variances: np.ndarray) -> np.ndarray:
        """Return variances of `weights`, given those of independent weights.

        Parameters
        ----------
        variances : ndarray of shape (n_outputs, n_columns)

        Returns
        -------
        variances : ndarray of shape (n_outputs, n_encoded)
        """
        if self.smoothing is None:
            return variances
        return self.smoothing.variances(variances)
