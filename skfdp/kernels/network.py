"""Operations of the network query on NumPy arrays.

Every matrix entry is an integer that its dtype represents exactly. Each row is computed
separately, and sums of squares are integers below 2**53. No result depends on the order
of summation or on other rows.
"""

from __future__ import annotations

import numpy as np


class Operations:
    """The operations of the network query on NumPy arrays."""

    #: Number of blocks of rows that are computed at once.
    n_blocks = 1

    def __init__(self, dtype: str, device: str | None = None):
        self._dtype = np.dtype(dtype)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Return int16 records unchanged; `queries.torch` copies them to the device."""
        return values

    def host(self, a: np.ndarray) -> np.ndarray:
        """Return the array unchanged; `queries.torch` copies it from the device."""
        return a

    def weights(self, integers: np.ndarray) -> np.ndarray:
        """Return transposed integer weights in the dtype of the products."""
        return np.ascontiguousarray(integers.T, dtype=self._dtype)

    def take(self, records: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return some records in the dtype of the products."""
        return records[part].astype(self._dtype)

    def product(self, a: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``a @ weights``, exactly."""
        return a @ weights

    @np.errstate(all="ignore")  # a warning would reveal a private value
    def activate(self, z, row_scale, column_scale, bits):
        """Return the ReLU with a constant 1 appended, as integers, and row scales.

        The argument of the ReLU is ``row_scale[i] * column_scale[k] * z[i, k]``. Row i
        of the integers times its scale is the rounded activation.
        """
        rows = np.column_stack([np.maximum(z, 0) * column_scale, 1.0 / row_scale])
        whole, power = self._rounded(rows, bits)
        return whole, np.where(power > 0, row_scale / power, 0.0)

    @np.errstate(all="ignore")
    def integers(self, errors: np.ndarray, bits: int):
        """Return rows rounded to integers of at most `bits` bits, and their scales.

        Row i of the integers times its scale is the rounded row. A row with a NaN or
        infinite entry becomes 0.
        """
        whole, power = self._rounded(errors, bits)
        return whole, np.where(power > 0, 1 / power, 0.0)

    def back(self, errors, scale, weights, weight_scale, inputs, bits):
        """Return the errors of the layer below as integers, and their scales."""
        z = np.where(inputs[:, :-1] > 0, errors @ weights * weight_scale, 0.0)
        out, factor = self.integers(z, bits)
        return out, scale * factor

    def dots(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return the inner product of each pair of rows, float64."""
        return np.einsum("ij,ij->i", a, b, dtype=np.float64)

    def largest(self, a: np.ndarray) -> np.ndarray:
        """Return the largest absolute value of each row."""
        return np.abs(a).max(axis=1).astype(np.float64)

    def truncated(self, errors, multiplier, largest: float) -> np.ndarray:
        """Return float64 ``trunc(errors * multiplier)``, saturated at `largest`.

        There is one multiplier for each row of errors.
        """
        return np.trunc(np.clip(self.scaled(errors, multiplier), -largest, largest))

    def scaled(self, errors, multiplier) -> np.ndarray:
        """Return each row of errors times its multiplier, float64."""
        return errors * multiplier[:, None]

    def sum_of_products(self, inputs, errors) -> np.ndarray:
        """Return float64 ``inputs.T @ errors``, which is exact for integers."""
        return inputs.T.astype(np.float64) @ errors

    def exact_sum(self, inputs, errors, n_exact: int) -> np.ndarray:
        """Return int64 ``inputs.T @ errors`` of integers, for at most `n_exact` rows.

        `n_exact` is the number of rows for which float64 sums are exact.
        """
        return self.sum_of_products(inputs, errors).astype(np.int64)

    def _rounded(self, rows: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows as integers of at most `bits` bits, and a factor for each row.

        The factor is a power of two. An integer is the entry times the factor of its
        row, rounded. Integers and factor are 0 if the row is zero or not finite, or if
        the factor would be infinite.
        """
        largest = np.abs(rows).max(axis=1, initial=0.0)
        power = np.ldexp(1.0, bits - np.frexp(largest)[1])
        power[~((0.0 < largest) & (largest < np.inf) & (power < np.inf))] = 0.0
        whole = np.where(power[:, None] > 0.0, np.rint(rows * power[:, None]), 0.0)
        return whole.astype(self._dtype), power
