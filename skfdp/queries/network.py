"""Clipped sums of per-example gradients of ReLU networks.

Every entry of a matrix product is an exact sum of integers (:ref:`mlp-theory`). So the
contribution of a record does not depend on the record's position or on the library that
multiplies.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from skfdp import kernels
from skfdp.addresses import wing
from skfdp.data.grid import GRID, GridRows, sum_unit
from skfdp.kernels.losses import loss_named
from skfdp.privacy.checks import computed
from skfdp.privacy.events import Relation

#: Wider hidden layers would make squared norms inexact.
WIDEST = 8192
# Rows of a block: a float64 sum over so many rows is exact.
_RUN = 1024
# Entries of a layer for the rows that are computed at once.
_MOST_ENTRIES = 2**24
_SUM_BITS = 53 - 10  # bits of one product, so that sums of 1024 products are exact
# Bits of a back-propagated error in a gradient.
_FACTOR_BITS = 20
_LARGEST_WEIGHT = 1e100
# With a public loss, a clipped contribution is a difference of two gradients. Each may
# be this many times as long as the clip norm. If one is longer, both may be scaled
# down.
_HEADROOM = 2.0**6


class Precision(NamedTuple):
    """Bits of an activation and of a back-propagated error in a matrix product.

    Integers up to ``2**mantissa`` are exact in the dtype. The weights of a neuron have
    the bits of the mantissa that the other factor of the product does not use.
    """

    dtype: str
    mantissa: int
    activation: int
    error: int

    @property
    def residual(self) -> int:
        """Bits of a clipped error in a sum of float64 products."""
        return _SUM_BITS - self.activation


def precision(dtype: str, widest: int) -> Precision:
    """Return the precision of a dtype; very wide layers need float64."""
    if dtype == "float32" and widest <= 4096:
        return Precision("float32", 24, 9, 10)
    return Precision("float64", 53, 15, 20)


#: Records as int16 values, and a float64 scale for each row.
Scaled = tuple[np.ndarray, np.ndarray]


def scaled_rows(rows: GridRows, factor: float, bits: int) -> Scaled:
    """Return the inputs of a network, grid rows times `factor`, as integers and scales.

    Each row is scaled by a power of two and rounded to integers of `bits` bits, at most
    15.
    """
    values, scale = np.empty_like(rows.values), np.empty(len(rows.values))
    for start in range(0, len(values), _RUN):
        block = slice(start, start + _RUN)
        floats = rows.values[block].astype(np.float64)
        shift = np.frexp(np.abs(floats).max(axis=1, initial=0.0))[1] - bits
        values[block] = np.rint(np.ldexp(floats, -shift[:, None]))
        scale[block] = np.ldexp(GRID * factor, shift)
    return values, scale


@dataclasses.dataclass(frozen=True)
class MLPQuery:
    """The sum of the clipped gradients of a network.

    A record contributes ``clip(gradient - public gradient)``. The public gradient is
    the gradient of the public loss, if there is one.

    theta is one vector, the concatenated matrices of all layers. Each matrix has the
    shape (outputs, inputs + 1), with the weight of the constant in the last column.

    Notes
    -----
    **Guarantees.** Each vector of `exact_sum` depends on its own record and theta only,
    and has an L2 norm of at most ``clip_norm / unit``, in exact arithmetic and with
    either backend. The norm is that of the integer factors, enlarged by a factor of 1 +
    1e-9, and the clipped errors are truncated toward zero. For a difference the clip
    norm is first reduced by the largest effect of truncation. A record whose errors are
    not finite contributes 0.
    """

    rows: Scaled  # including the constant last column
    target: np.ndarray  # class of each record, int64
    #: Widths of the layers: the input with its constant column, the hidden layers
    #: without a constant, and the output (1 for two classes).
    widths: tuple[int, ...]
    clip_norm: float  # L2 bound of a contribution, all layers together
    capacity: int  # public bound on the number of rows, fixes the grid
    class_weight: np.ndarray  # public factors of the errors, before the clip
    precision: Precision
    #: Public part of each record, padded to a full row, for a public loss.
    padded: Scaled | None = None
    public_target: bool = False  # whether the public loss may use the target
    backend: str = "numpy"
    device: str | None = None
    n_jobs: int = 1  # threads over row blocks; they do not change the result
    n_rows: int = computed()
    shapes: tuple[tuple[int, int], ...] = computed()  # of each layer's matrix
    shape: tuple[int] = computed()  # of theta and of the sum

    def __post_init__(self):
        inputs = [self.widths[0], *[width + 1 for width in self.widths[1:-1]]]
        shapes = tuple(zip(self.widths[1:], inputs, strict=True))
        vars(self).update(
            n_rows=len(self.rows[0]),
            shapes=shapes,
            shape=(sum([rows * columns for rows, columns in shapes]),),
        )

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum; see the guarantees."""
        return relation.sensitivity(self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        # The largest input of a row is at least 2**(activation - 1) as an integer, so
        # that clipped errors fit into the bits of `Precision.residual`.
        finest = self.clip_norm * 2.0 ** (2 - _SUM_BITS)
        if self.padded is not None:
            finest *= _HEADROOM
        finest = 2.0 ** math.ceil(math.log2(finest))
        return sum_unit(noise_std, self.clip_norm, self.capacity, finest)

    def exact_sum(self, theta, batch, unit: float) -> np.ndarray:
        """Return the int64 sum of clipped contributions, in `unit`.

        `batch` are row numbers, int64; None means every row.
        """
        if not (np.abs(theta) < _LARGEST_WEIGHT).all():
            # Gradients would be useless and inexact. theta is public, so that the zeros
            # reveal nothing.
            return np.zeros(self.shape, dtype=np.int64)
        batch = np.arange(self.n_rows) if batch is None else batch
        weights = self._weights(theta)
        if self.n_jobs == 1 or len(batch) < 2 * _RUN:
            return self._partial_sum(weights, batch, unit)
        parts = np.array_split(batch, self.n_jobs)
        sums = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._partial_sum)(weights, part, unit) for part in parts
        )
        return np.sum(sums, axis=0)

    def public_gradient(self, theta: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Return the mean gradient of the public loss over a public batch, float64.

        Only the padded rows are read, and the target if the public loss may use it.
        """
        weights = self._weights(theta)
        total = np.zeros(self.shape)
        for part in self._parts(batch):
            layers = self._pass(weights, part, public=True)
            for layer, out in zip(layers, self.split(total), strict=True):
                errors = self._ops.scaled(layer.errors, layer.scale)
                out += self._ops.sum_of_products(layer.inputs, errors).T
        return total / len(batch)

    def split(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return views of theta, one matrix for each layer."""
        ends = np.cumsum([rows * columns for rows, columns in self.shapes])
        parts = zip(np.split(theta, ends[:-1]), self.shapes, strict=True)
        return [part.reshape(shape) for part, shape in parts]

    @functools.cached_property
    def _ops(self) -> Any:
        kernels.compiles = self.n_rows * math.prod(self.shape) >= kernels.SMALL
        numpy = self.backend == "numpy"
        kind = Operations if numpy else wing("torch").Operations
        return kind(self.precision.dtype, self.device)

    @functools.cached_property
    def _placed(self) -> list:
        """The integers of `rows` and of `padded`, where they are multiplied."""
        given = self.rows, self.padded
        return [rows and self._ops.place(rows[0]) for rows in given]

    def _parts(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        room = _MOST_ENTRIES // (_RUN * max(self.widths))
        size = _RUN * max(1, min(self._ops.n_blocks, room))
        for start in range(0, len(batch), size):
            yield batch[start : start + size]

    def _weights(self, theta: np.ndarray) -> list[Weights]:
        p = self.precision
        layers = []
        for number, matrix in enumerate(self.split(theta)):
            forward, scale = _rounded_rows(matrix, p.mantissa - p.activation)
            # The errors of the first layer are not propagated further.
            backward, scale_back = matrix[:, :0].T, np.empty(0)
            if number:
                backward, scale_back = _rounded_rows(
                    matrix[:, :-1].T, p.mantissa - p.error
                )
            placed = map(self._ops.weights, (forward, backward))
            layers.append(Weights(*placed, scale, scale_back))
        return layers

    def _partial_sum(self, weights, batch, unit) -> np.ndarray:
        # Set here, because each thread has its own error state. An overflow warning
        # would reveal private margins.
        with np.errstate(all="ignore"):
            # The sums have the transposed shape of the matrices, like the products.
            out = [np.zeros(shape[::-1], dtype=np.int64) for shape in self.shapes]
            for part in self._parts(batch):
                full, public = self._pass(weights, part, public=False), ()
                if self.padded is not None:
                    public = self._pass(weights, part, public=True)
                factor = self._clip_factor(full, public, unit)
                for sign, layers in ((1, full), (-1, public)):
                    for layer, total in zip(layers, out, strict=False):
                        multiplier = factor * (layer.scale / unit)
                        multiplier[~np.isfinite(multiplier)] = 0.0
                        errors = self._ops.truncated(
                            layer.errors, multiplier, 2.0**self.precision.residual - 1
                        )
                        block = self._ops.exact_sum(layer.inputs, errors, _RUN)
                        total += sign * block
            return np.concatenate([total.T.ravel() for total in out])

    def _clip_factor(self, full, public, unit) -> np.ndarray:
        """Return the factor, at most 1, that clips the contribution of each record."""
        square, limit = self._squared_norm(full), self.clip_norm * (1 - 1e-9)
        if public:
            terms = square + self._squared_norm(public)
            cross = sum(
                self._ops.dots(f.errors, p.errors)
                * self._ops.dots(f.inputs, p.inputs)
                * (f.scale * p.scale)
                for f, p in zip(full, public, strict=True)
            )
            # The error of the subtraction is relative to the terms, not to the result.
            square = np.maximum(terms - 2 * cross, 0.0) + 1e-9 * terms
            # Truncation may lengthen the difference in each layer. The squares of these
            # increases add up over the layers.
            slack = sum(
                f.errors.shape[1]
                * (np.sqrt(f.squared_inputs) + np.sqrt(p.squared_inputs)) ** 2
                for f, p in zip(full, public, strict=True)
            )
            limit = np.maximum(limit - unit * np.sqrt(slack) * (1 + 1e-9), 0.0)
        norm = np.sqrt(square) * (1 + 1e-9)
        factor = np.where(norm > limit, limit / norm, 1.0)
        factor[~(norm < np.inf)] = 0.0
        # Both gradients get the same factor. If only one of them saturated, their
        # difference could become longer.
        top = 0.999 * unit * 2.0**self.precision.residual
        for layer in (*full, *public):
            largest = self._ops.largest(layer.errors) * layer.scale * factor
            factor *= np.where(largest > top, top / largest, 1.0)
        return factor

    def _squared_norm(self, layers) -> np.ndarray:
        return sum(
            self._ops.dots(layer.errors, layer.errors)
            * layer.squared_inputs
            * layer.scale**2
            for layer in layers
        )

    def _pass(self, weights, part, public: bool) -> list[Layer]:
        """Propagate some records forward and their errors back, in integers.

        With `public` the records are padded, and the loss is the public loss.
        """
        ops, bits = self._ops, self.precision
        inputs, scale = self._forward(weights, part, public)
        z = ops.host(inputs[-1] @ weights[-1].forward)
        # The loss always gets whole blocks, with zeros after the last record.
        margins = np.zeros((_RUN * math.ceil(len(z) / _RUN), z.shape[1]))
        np.multiply(z, weights[-1].forward_scale, out=margins[: len(z)])
        margins[: len(z)] *= scale[-1][:, None]
        loss = loss_named("log_loss")
        if public and not self.public_target:
            errors = loss.target_free_residual(margins)
        else:
            target = np.zeros(len(margins), dtype=np.int64)
            target[: len(part)] = self.target[part]
            errors = loss.residual(margins, target)
            errors *= self.class_weight[target][:, None]
        errors = ops.place(errors[: len(part)])
        errors, error_scale = ops.integers(errors, _FACTOR_BITS)
        layers = []
        for number in reversed(range(len(weights))):
            a = inputs[number]
            layers.append(Layer(a, errors, error_scale * scale[number], ops.dots(a, a)))
            if number:
                shortened, factor = ops.integers(errors, bits.error)
                errors, error_scale = ops.back(
                    shortened,
                    error_scale * factor,
                    weights[number].backward,
                    weights[number].backward_scale,
                    a,
                    _FACTOR_BITS,
                )
        return layers[::-1]

    def _forward(self, weights, part, public: bool) -> tuple[list, list]:
        """Return the inputs of each layer as integers, and the scales of their rows."""
        ops, rows = self._ops, self.padded if public else self.rows
        inputs, scale = [ops.take(self._placed[public], part)], [rows[1][part]]
        for layer in weights[:-1]:
            a, s = ops.activate(
                inputs[-1] @ layer.forward,
                scale[-1],
                layer.forward_scale,
                self.precision.activation,
            )
            inputs.append(a)
            scale.append(s)
        return inputs, scale


class Operations:
    """The operations of the network query on NumPy arrays; see `queries.torch`."""

    #: Number of blocks of rows that are computed at once.
    n_blocks = 1
    _library: Any = np

    def __init__(self, dtype: str, device: str | None = None):
        self._dtype = np.dtype(dtype)

    def place(self, values: np.ndarray) -> Any:
        """Return an array unchanged; `queries.torch` copies it to the device."""
        return values

    def host(self, a: Any) -> np.ndarray:
        """Return the array unchanged; `queries.torch` copies it from the device."""
        return a

    def _floats(self, a: Any) -> Any:
        """Return an array as float64."""
        return a.astype(np.float64, copy=False)

    def _factors(self, a: Any) -> Any:
        """Return integers in the dtype of the products."""
        return a.astype(self._dtype)

    def weights(self, integers: np.ndarray) -> Any:
        """Return transposed integer weights in the dtype of the products."""
        return self._factors(self.place(np.ascontiguousarray(integers.T)))

    def take(self, records: Any, part: np.ndarray) -> Any:
        """Return some int16 records in the dtype of the products."""
        return self._factors(records[self.place(part)])

    @np.errstate(all="ignore")  # a warning would reveal a private value
    def activate(self, z, row_scale, column_scale, bits):
        """Return the ReLU with a constant 1 appended, as integers, and row scales.

        The argument of the ReLU is ``row_scale[i] * column_scale[k] * z[i, k]``. Row i
        of the integers times its scale is the rounded activation.
        """
        scale, positive = self.place(row_scale), self._floats(z).clip(0.0)
        parts = positive * self.place(column_scale), (1.0 / scale)[:, None]
        whole, power = self._rounded(self._library.hstack(parts), bits)
        scale = self._library.where(power > 0, scale / power, 0.0)
        return whole, self.host(scale)

    @np.errstate(all="ignore")
    def integers(self, errors: Any, bits: int):
        """Return rows rounded to integers of at most `bits` bits, and their scales.

        Row i of the integers times its scale is the rounded row. A row with a NaN or
        infinite entry becomes 0.
        """
        whole, power = self._rounded(self._floats(errors), bits)
        return whole, self.host(self._library.where(power > 0, 1 / power, 0.0))

    def back(self, errors, scale, weights, weight_scale, inputs, bits):
        """Return the errors of the layer below as integers, and their scales."""
        z = self._floats(errors @ weights) * self.place(weight_scale)
        z = self._library.where(inputs[:, :-1] > 0, z, 0.0)
        out, factor = self.integers(z, bits)
        return out, scale * factor

    def dots(self, a: Any, b: Any) -> np.ndarray:
        """Return the inner product of each pair of rows, float64."""
        return np.einsum("ij,ij->i", a, b, dtype=np.float64)

    def largest(self, a: Any) -> np.ndarray:
        """Return the largest absolute value of each row."""
        return self.host(self._library.amax(abs(a), 1)).astype(np.float64)

    def truncated(self, errors, multiplier, largest: float) -> Any:
        """Return float64 ``trunc(errors * multiplier)``, saturated at `largest`.

        There is one multiplier for each row of errors.
        """
        scaled = self.scaled(errors, multiplier)
        return self._library.trunc(scaled.clip(-largest, largest))

    def scaled(self, errors, multiplier) -> Any:
        """Return each row of errors times its multiplier, float64."""
        return self._floats(errors) * self.place(multiplier)[:, None]

    def sum_of_products(self, inputs, errors) -> np.ndarray:
        """Return float64 ``inputs.T @ errors``, which is exact for integers."""
        return self.host(self._floats(inputs).T @ errors)

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
        return self._factors(whole), power


class Weights(NamedTuple):
    """Integer weights of one layer, forward and backward, and scales of their rows."""

    forward: Any
    backward: Any
    forward_scale: np.ndarray
    backward_scale: np.ndarray


class Layer(NamedTuple):
    """Factors of one layer's gradients.

    The gradient of a record is `scale` times the outer product of errors and inputs.
    """

    inputs: Any  # integers (n_rows, inputs + 1)
    errors: Any  # integers (n_rows, outputs)
    scale: np.ndarray  # power of two; in the first layer times a factor
    squared_inputs: np.ndarray  # squared norms of the inputs, exact integers


def _rounded_rows(matrix: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Round each row to integers whose absolute values sum to at most ``2**bits``.

    Return the integers and the scale of each row, a power of two. Integers times scale
    are the rounded row.
    """
    total = np.abs(matrix).sum(axis=1) * (1 + 1e-9)
    most = 2.0**bits - matrix.shape[1] / 2  # rounding adds up to 1/2 to an entry
    ratio = most / np.where(total > 1e-290, total, 1.0)  # subnormal weights are 0
    exponent = np.frexp(ratio)[1] - 1  # 2**exponent <= ratio
    return np.rint(np.ldexp(matrix, exponent[:, None])), np.ldexp(1.0, -exponent)
