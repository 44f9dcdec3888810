"""Compiled elementwise functions of the network query, around BLAS products.

Every matrix entry is an integer that its dtype represents exactly. Each row is computed
separately, and sums of squares are integers below 2**53. No result depends on the order
of summation or on other rows. fastmath may reorder exact sums, but ``nnan`` and
``ninf`` are never set, because the guards must recognise NaN.
"""

from __future__ import annotations

import math

import numpy as np

from skfdp.kernels.compiling import REORDER, kernel, twin_of

# Below this share of non-zero entries, skipping zeros is faster than BLAS.
_SPARSE = 0.2


def _skips(a: np.ndarray) -> bool:
    """Guess from the first rows whether a is sparse; this only affects the time."""
    head = a[:64]
    return np.count_nonzero(head) < _SPARSE * head.size


@kernel()
def _compressed(a):
    """Return the CSR form of a matrix: row starts, columns and non-zero entries.

    The loop has no branch, because a branch would be slow.
    """
    starts, place = np.empty(a.shape[0] + 1, np.int64), 0
    columns, entries = np.empty(a.size + 1, np.int32), np.empty(a.size + 1, a.dtype)
    for i in range(a.shape[0]):
        starts[i] = place
        row = a[i]
        for j in range(row.shape[0]):
            columns[place] = j
            entries[place] = row[j]
            place += row[j] != 0
    starts[a.shape[0]] = place
    return starts, columns, entries


@kernel()
def _turned(n_columns, starts, columns, entries):
    """Return the CSC form, in float64, of the CSR form that `_compressed` returns."""
    column_starts = np.zeros(n_columns + 1, np.int64)
    rows, values = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for t in range(starts[-1]):
        column_starts[columns[t] + 1] += 1
    for j in range(column_starts.shape[0] - 1):
        column_starts[j + 1] += column_starts[j]
    place = column_starts[:-1].copy()
    for i in range(starts.shape[0] - 1):
        for t in range(starts[i], starts[i + 1]):
            rows[place[columns[t]]] = i
            values[place[columns[t]]] = entries[t]
            place[columns[t]] += 1
    return column_starts, rows, values


@kernel(fastmath=REORDER)
def _add_combinations(starts, indices, entries, vectors, out):
    """Add a linear combination of vectors to each row of out, four terms at a time.

    Row i gets the sum of ``entries[t] * vectors[indices[t]]`` over t from starts[i] to
    starts[i + 1] - 1.
    """
    for i in range(out.shape[0]):
        row, t = out[i], starts[i]
        while t + 4 <= starts[i + 1]:
            a, b = vectors[indices[t]], vectors[indices[t + 1]]
            c, d = vectors[indices[t + 2]], vectors[indices[t + 3]]
            p, q, r, s = entries[t], entries[t + 1], entries[t + 2], entries[t + 3]
            for k in range(row.shape[0]):
                row[k] += p * a[k] + q * b[k] + r * c[k] + s * d[k]
            t += 4
        while t < starts[i + 1]:
            a, p = vectors[indices[t]], entries[t]
            for k in range(row.shape[0]):
                row[k] += p * a[k]
            t += 1


def _add_sparse_product(a, vectors, out):
    _add_combinations(*_compressed(a), vectors, out)


@twin_of(_add_sparse_product)
def add_product(a, vectors, out):
    """Add ``a @ vectors`` to out; the kernel skips zeros of a."""
    out += a @ vectors


def _add_turned_product(a, vectors, out):
    _add_combinations(*_turned(a.shape[1], *_compressed(a)), vectors, out)


@twin_of(_add_turned_product)
def add_turned_product(a, vectors, out):
    """Add ``a.T @ vectors`` to out, in float64; the kernel skips zeros of a."""
    out += a.T.astype(np.float64) @ vectors


@kernel(error_model="numpy")
def _activate(z, row_scale, column_scale, bits):
    width = z.shape[1]
    out, scale = np.empty((z.shape[0], width + 1), z.dtype), np.empty(z.shape[0])
    row = np.empty(width + 2)
    for i in range(z.shape[0]):
        for k in range(width):
            row[k] = z[i, k] * column_scale[k] if z[i, k] > 0 else 0.0
        row[width] = 1.0 / row_scale[i]
        power = _round_row(row, bits, out[i])
        scale[i] = row_scale[i] / power if power > 0 else 0.0
    return out, scale


@twin_of(_activate)
def activate(z, row_scale, column_scale, bits):
    """Return the ReLU with a constant 1 appended, as integers, and each row's scale.

    The argument of the ReLU is ``row_scale[i] * column_scale[k] * z[i, k]``. Row i of
    the integers times its scale is the rounded activation. Integers have at most `bits`
    bits.
    """
    rows = np.empty((len(z), z.shape[1] + 1))
    rows[:, :-1] = np.where(z > 0, z * column_scale, 0.0)
    rows[:, -1] = 1.0 / row_scale
    whole, power = _rounded_to_bits(rows, bits, z.dtype)
    return whole, np.where(power > 0, row_scale / power, 0.0)


@kernel(error_model="numpy")
def _masked(z, column_scale, inputs, bits):
    out, scale = np.empty(z.shape, z.dtype), np.empty(z.shape[0])
    row = np.empty(z.shape[1] + 1)
    for i in range(z.shape[0]):
        for k in range(z.shape[1]):
            row[k] = z[i, k] * column_scale[k] if inputs[i, k] > 0 else 0.0
        power = _round_row(row, bits, out[i])
        scale[i] = 1 / power if power > 0 else 0.0
    return out, scale


@twin_of(_masked)
def masked(z, column_scale, inputs, bits):
    """Set the errors of inactive neurons to zero, and round as `Operations.integers`.

    Neuron k of row i is active if inputs[i, k] > 0. Its error is ``z[i, k] *
    column_scale[k]``.
    """
    rows = np.where(inputs[:, : z.shape[1]] > 0, z * column_scale, 0.0)
    whole, power = _rounded_to_bits(rows, bits, z.dtype)
    return whole, np.where(power > 0, 1 / power, 0.0)


def dots(a, b):
    """Return a[i] . b[i] for each i, in float64."""
    return np.einsum("ij,ij->i", a, b, dtype=np.float64)


@kernel(error_model="numpy")
def _round_row(row, bits, out):
    """Multiply row, float64, by a power of two, and round it to `bits` bits in out.

    Return the power of two. If an entry is not finite, all are zero, or the power is
    infinite, write zeros and return 0. row has one entry more than out; its last entry
    is working memory.
    """
    # Absolute values have the same order as their bits, with NaN above infinity. The
    # loop reads the bits as integers, because LLVM vectorises a maximum of integers.
    sizes, largest = row.view(np.int64), np.int64(0)
    for k in range(out.shape[0]):
        largest = max(largest, sizes[k] & np.int64(0x7FFFFFFFFFFFFFFF))
    sizes[-1], power = largest, 0.0
    if 0.0 < row[-1] < np.inf:
        power = math.ldexp(1.0, bits - math.frexp(row[-1])[1])
        power = power if power < np.inf else 0.0
    for k in range(out.shape[0]):
        out[k] = np.rint(row[k] * power) if power > 0.0 else 0.0
    return power


def _rounded_to_bits(rows, bits, dtype):
    """Return what `_round_row` writes and returns, for several rows."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    power = np.ldexp(1.0, bits - np.frexp(largest)[1])
    power[~((0.0 < largest) & (largest < np.inf) & (power < np.inf))] = 0.0
    whole = np.where(power[:, None] > 0.0, np.rint(rows * power[:, None]), 0.0)
    return whole.astype(dtype), power


class Operations:
    """The operations of the network query on NumPy arrays."""

    activate, dots = staticmethod(activate), staticmethod(dots)
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
        """Return ``a @ weights``, which is exact with or without skipping zeros."""
        if not _skips(a):
            return a @ weights
        out = np.zeros((len(a), weights.shape[1]), dtype=self._dtype)
        add_product(a, weights, out)
        return out

    @np.errstate(all="ignore")  # a warning would reveal a private value
    def integers(self, errors: np.ndarray, bits: int):
        """Return rows rounded to integers of at most `bits` bits, and their scales.

        Row i of the integers times its scale is the rounded row. A row with a NaN or
        infinite entry becomes 0.
        """
        whole, power = _rounded_to_bits(errors, bits, self._dtype)
        return whole, np.where(power > 0, 1 / power, 0.0)

    def back(self, errors, scale, weights, weight_scale, inputs, bits):
        """Return the errors of the layer below as integers, and their scales."""
        out, factor = masked(errors @ weights, weight_scale, inputs, bits)
        return out, scale * factor

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
        if not _skips(inputs):
            return inputs.T.astype(np.float64) @ errors
        out = np.zeros((inputs.shape[1], errors.shape[1]))
        add_turned_product(inputs, errors, out)
        return out

    def exact_sum(self, inputs, errors, n_exact: int) -> np.ndarray:
        """Return int64 ``inputs.T @ errors`` of integers, for at most `n_exact` rows.

        `n_exact` is the number of rows for which float64 sums are exact.
        """
        return self.sum_of_products(inputs, errors).astype(np.int64)
