"""The public side of mixed moments: rows of norm 1 at most, and their weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh

from skfdp.estimators.linear_model.whitening import EXPLAINED, water_filling
from skfdp.records.blocks import blocks, squared_norms
from skfdp.records.grid import GRID, GridRows

#: Noise of a release that shares its budget with others, in what the whole one buys.
NOISE = 8.0
#: Share of the variance of a target that no linear model explains but weights may bend.
CURVED = 0.1
# Directions below this share of the largest variance are rounding.
_NEGLIGIBLE = 1e-9
# Quantiles of the lengths that rows may be compared with.
_QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
# Rows have a norm of at most 1 up to rounding; this covers the rounding.
_SHRINK = 1 - 1e-9


@dataclasses.dataclass(frozen=True)
class PublicSide:
    """``z = (constant, basis' (u - mean))`` of public columns u, and its weights.

    All of it is exact and free.

    Attributes
    ----------
    mean : ndarray of shape (n_public,)
    basis : ndarray of shape (n_public, n_directions)
    constant : ndarray of shape (1,) or (0,)
        Empty without an intercept.
    weight : ndarray of shape (n_rows,)
        ``min(1, 1 / |z|)``, of each record in the loss: it bounds what a record
        contributes, and does not bend a linear relation.
    grid : GridRows
        The weighted rows, of norm at most 1.
    moments : ndarray of shape (n_columns, n_columns)
        The mean of ``weight z z'``.
    """

    mean: np.ndarray
    basis: np.ndarray
    constant: np.ndarray
    weight: np.ndarray
    grid: GridRows
    moments: np.ndarray

    @classmethod
    def learn(
        cls,
        rows: Callable[[slice], np.ndarray],
        shape: tuple[int, int],
        *,
        intercept: bool,
        signal: float,
        shares: np.ndarray | None = None,
    ) -> PublicSide:
        """Learn from the public columns.

        Parameters
        ----------
        rows : callable
            ``rows(block)`` returns the public columns of a slice of records.
        shape : (int, int)
            Records and public columns. Without columns nothing is read but the number
            of records, which sizes the rows of the sum.
        intercept : bool
        signal : float
            ``mu n``: records over the noise of a sum of unit vectors.
        shares : float64 ndarray of shape (n_rows,), default=None
            How often each record counts in the means; None: once.
        """
        n_rows = shape[0]
        shares = np.ones(n_rows) if shares is None else shares
        mean, basis, width = _directions(rows, shape, intercept, signal, shares)
        share = _constant_share(width, signal) if intercept else 0.0
        constant = np.full(int(intercept), np.sqrt(share))
        if basis.shape[1]:
            lengths = np.empty(n_rows)
            for block in blocks(*shape):
                lengths[block] = np.sqrt(squared_norms((rows(block) - mean) @ basis))
            root = np.sqrt(1 - share)
            basis = basis * (root / _reach(lengths, shares, width / signal / root))
        side = cls(mean, basis, constant, np.ones(n_rows), None, None)
        return side._weighted(rows, shape, shares)

    def _weighted(self, rows, shape, shares) -> PublicSide:
        weight = np.empty(shape[0])

        def short(numbers: np.ndarray) -> np.ndarray:
            block = slice(numbers[0, 0], numbers[-1, 0] + 1)
            z = self.rows(rows(block))
            weight[block] = _SHRINK / np.maximum(np.sqrt(squared_norms(z)), 1.0)
            return z * weight[block, None]

        numbers = np.arange(shape[0])[:, None]
        width = len(self.constant) + self.basis.shape[1]
        grid = GridRows.build(numbers, short, n_features=width)
        if not shape[1]:  # the number of records may be private: no mean over them
            return dataclasses.replace(
                self, weight=weight, grid=grid, moments=np.diag(self.constant**2)
            )
        total = np.zeros((width, width))
        for block in blocks(shape[0], max(width, shape[1])):
            z = self.rows(rows(block)) * shares[block, None]
            total += (grid.values[block] * GRID).T @ z
        total = (total + total.T) / 2 / shares.sum()
        return dataclasses.replace(self, weight=weight, grid=grid, moments=total)

    def rows(self, u: np.ndarray) -> np.ndarray:
        """Return z of some records, not shortened."""
        first = np.broadcast_to(self.constant, (len(u), len(self.constant)))
        return np.column_stack([first, (u - self.mean) @ self.basis])

    def fold(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return weights on u and a constant, given weights on z."""
        split = len(self.constant)
        on_u = self.basis @ weights[split:]
        return on_u, float(self.constant @ weights[:split] - on_u @ self.mean)


def _directions(
    rows, shape, centre: bool, signal: float, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the mean, the principal directions in shares of 1, and their number.

    Shares are those of the label statistic: the noise leaves the small directions out,
    and little noise makes all of them alike. A tenth goes by the roots of the
    variances, so that none is lost. The number is that of equal shares.
    """
    n_records, width = float(shares.sum()), shape[1]
    mean, square = np.zeros(width), np.zeros((width, width))
    if width and centre:
        for block in blocks(*shape):
            mean += (rows(block) * shares[block, None]).sum(axis=0)
        mean /= n_records
    for block in blocks(*shape) if width else ():
        u = rows(block) - mean
        u *= np.sqrt(shares[block, None])
        square += u.T @ u
    if not width or not square.any() or not np.isfinite(square).all():
        return mean, np.zeros((width, 0)), 0.0  # no columns, or beyond float64
    values, vectors = eigh(square / n_records)
    kept = values > _NEGLIGIBLE * values[-1]
    values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
    root = np.sqrt(values)
    prior = EXPLAINED * values / values.sum()
    share = water_filling(prior, NOISE / 2 / signal, n_records)
    share = 0.9 * share / share.sum() + 0.1 * root / root.sum()
    return mean, vectors * np.sqrt(share / values), float(1 / (share @ share))


def _constant_share(width: float, signal: float) -> float:
    """Return the share of the squared norm of a public row that its constant has.

    With k columns beside it the noise of a prediction has a variance in proportion to
    ``1 / share + k**2 / (1 - share)``, which is least at ``1 / (1 + k)``. Where the
    columns have little hope, the constant has the most.
    """
    if not width:
        return 1.0
    return 1 - min(1.0, signal / (10 * width)) ** 2 * width / (1 + width)


def _reach(lengths: np.ndarray, shares: np.ndarray, noise: float) -> float:
    """Return the length beyond which public rows weigh less.

    A long reach costs noise, a short one weight: the mean weight that is lost is what
    a model that is not linear may be biased by. No noise, no weights.
    """
    best, least = 1.0, np.inf
    for reach in np.quantile(lengths, _QUANTILES):
        reach = max(reach, 1e-6)
        weight = np.minimum(1.0, reach / np.maximum(lengths, 1e-300))
        weight = float(np.average(weight, weights=shares))
        variance = (NOISE * noise * reach / weight) ** 2
        risk = variance / (1 + variance) + CURVED * (1 - weight) ** 2
        if risk < least:
            best, least = reach, risk
    return best
