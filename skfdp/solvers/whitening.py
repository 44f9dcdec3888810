"""The public basis of rows and the public weights of records in label-DP.

The loss ``sum_i w_i a(<theta, phi_i>) - <theta, S>`` depends on the labels only through
the released ``S = sum_i w_i phi_i (x) label_i`` (:ref:`label-statistic`). Here phi_i is
the public row of record i in some basis, w_i its weight, and a the log-partition
function. The basis and the weights are computed from public rows and the level of the
noise, so they cost no privacy.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.linalg import eigh
from sklearn.utils.extmath import randomized_svd

from skfdp.data._basis import EXPLAINED, shares_of_norm
from skfdp.data.grid import GridRows, InputScaler, blocks, lazy_rows

#: Largest number of principal directions in the basis.
MOST_DIRECTIONS = 1024
#: With more columns a randomised PCA replaces the covariance of all columns.
MOST_COLUMNS = 4096
#: Factor of the sampling variance in `shares_of_norm`. Above `CHANCE_ROWS` rows this
#: variance does not decrease further, because a linear model has an error that does not
#: vanish for large n.
CHANCE, CHANCE_ROWS = 10.0, 5000
#: Least share of the squared norm of a row for the constant column.
LEAST_BIAS = 0.04
#: The bound of the rows is a quantile of the public norms, at one of these levels.
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 1.0)
#: Number of public rows from which the bound is chosen, and number of rounds that fit
#: the shares of the directions to a bound.
SAMPLE_ROWS, BOUNDINGS = 4096, 3
#: Largest norm of a row on the grid.
LONGEST_ROW = 1.0


@dataclasses.dataclass(frozen=True)
class Whitening:
    """Public map from scaled rows to phi, ``[(row - mean) @ basis, bias]``.

    The columns of `basis` are principal directions, scaled by `shares_of_norm` and
    divided by the bound of the rows. `bias` is the value of the constant last column;
    None: no intercept. `prior` is the variance of each weight that `shares_of_norm`
    expects, for a loss of curvature 1.
    """

    mean: np.ndarray
    basis: np.ndarray
    bias: float | None
    prior: np.ndarray

    @classmethod
    def learn(
        cls,
        rows: np.ndarray,
        mean_prior: float | None,
        noise: float,
        shares: np.ndarray | None = None,
    ):
        """Compute the map from public rows with weights `shares`.

        `mean_prior` is the prior variance of the target's mean, divided by the target's
        variance; None: no intercept, and the rows are not centred. For `noise` see
        `data._basis.shares_of_norm`.
        """
        fit_intercept = mean_prior is not None
        # A power of two, so that no square over- or underflows.
        peaks = [np.abs(rows[block]).max(initial=0) for block in blocks(*rows.shape)]
        unit = math.ldexp(1.0, -math.frexp(max(peaks))[1])
        rows = lazy_rows(rows, lambda block: block * unit, rows.shape[1])
        n_rows, n_features = rows.shape
        shares = np.ones(n_rows) if shares is None else shares
        n_records = float(shares.sum())
        mean = np.zeros(n_features)
        if fit_intercept:
            for block in blocks(*rows.shape):
                mean += (rows[block] * shares[block, None]).sum(axis=0) / n_records
        variance, directions = _principal(rows, mean, shares)
        kept = variance > 1e-12 * variance[0]
        variance, directions = variance[kept], directions[:, kept]
        prior = EXPLAINED * variance / (variance.sum() or 1.0)
        directions = directions / np.sqrt(variance)
        if fit_intercept:  # the constant column is one more direction
            prior = np.r_[prior, mean_prior]
        elif not kept.any():  # no column varies: keep one direction of zeros
            prior, directions = np.ones(1), np.zeros((n_features, 1))
        part = slice(None, None, -(-n_rows // SAMPLE_ROWS))
        some = rows[part]
        squares = ((some - mean) @ directions) ** 2
        if fit_intercept:
            squares = np.c_[squares, np.ones(len(squares))]
        least = LEAST_BIAS if fit_intercept else 0.0
        counts = shares[part], n_records
        level, share = _shares(squares, prior, noise, counts, least)
        scale = np.sqrt(share)
        kept = share[: directions.shape[1]] > 0
        basis = directions[:, kept] * scale[: len(kept)][kept]
        bias = scale[-1] if fit_intercept else 0.0
        phi = ((rows[block] - mean) @ basis for block in blocks(*rows.shape))
        norms = np.concatenate([_norms(block, bias) for block in phi])
        radius = np.quantile(norms, level) or norms.max() or 1.0
        return cls(
            mean / unit,
            basis / radius * unit,
            bias / radius if fit_intercept else None,
            (prior / np.where(share > 0, share, 1.0))[share > 0] * radius**2,
        )

    def grid(self, rows: np.ndarray) -> tuple[GridRows, np.ndarray]:
        """Return phi of the rows times w on the grid, and w, ``min(1, 1 / |phi|)``."""
        bias, weights = 0.0 if self.bias is None else self.bias, []

        def weighted(block: np.ndarray) -> np.ndarray:
            phi = (block - self.mean) @ self.basis
            weight = 1 / np.maximum(1.0, _norms(phi, bias))
            weights.append(weight)
            if self.bias is not None:
                phi = np.c_[phi, np.full(len(phi), bias)]
            return phi * weight[:, None]

        n_columns = self.basis.shape[1] + (self.bias is not None)
        grid = GridRows.build(rows, weighted, n_features=n_columns)
        return grid, np.concatenate(weights)

    def spans(self, rows: np.ndarray) -> bool:
        """Whether the basis has every direction in which public rows vary."""
        axes, _ = np.linalg.qr(self.basis)
        total = left = 0.0
        for block in blocks(*rows.shape):
            centred = rows[block] - self.mean
            total += float((centred**2).sum())
            left += float(((centred - centred @ axes @ axes.T) ** 2).sum())
        return left <= 1e-9 * total

    @property
    def varying(self) -> np.ndarray:
        """Mask of the columns of phi that are not the constant column."""
        return np.arange(len(self.prior)) < self.basis.shape[1]

    def fold(
        self, theta: np.ndarray, input_scaler: InputScaler
    ) -> tuple[np.ndarray, np.ndarray]:
        """Convert weights on phi to (coef, intercept) on ``input_scaler(X)``."""
        weights = theta[:, : self.basis.shape[1]] @ self.basis.T
        coef, offset = input_scaler.coefficients(weights)
        intercept = offset - weights @ self.mean
        if self.bias is not None:
            intercept = intercept + self.bias * theta[:, -1]
        return coef, intercept


def _norms(phi: np.ndarray, bias: float) -> np.ndarray:
    return np.sqrt(np.einsum("ij,ij->i", phi, phi) + bias**2)


def _principal(rows: np.ndarray, mean, shares) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances along principal directions, largest first, and these."""
    n_rows, n_features = rows.shape
    n_records, root = float(shares.sum()), np.sqrt(shares)[:, None]
    few = n_features > MOST_DIRECTIONS and n_rows <= min(n_features, MOST_COLUMNS)
    if few or n_features > MOST_COLUMNS:
        centred = np.empty(rows.shape, dtype=np.float64 if few else np.float32)
        for block in blocks(*rows.shape):
            centred[block] = (rows[block] - mean) * root[block]
        if few:
            return _principal_of_few(centred, n_records)
        rank = min(MOST_DIRECTIONS, n_rows)
        found = randomized_svd(centred, rank, random_state=0)
        scale, directions = (one.astype(np.float64) for one in found[1:])
        return scale**2 / n_records, directions.T
    covariance = np.zeros((n_features, n_features))
    for block in blocks(*rows.shape):
        centred = rows[block] - mean
        centred *= root[block]
        covariance += centred.T @ centred / n_records
    first = max(0, n_features - MOST_DIRECTIONS)
    variance, directions = eigh(covariance, subset_by_index=(first, n_features - 1))
    return variance[::-1], directions[:, ::-1]


def _principal_of_few(centred, n_records: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `_principal`, from products of rows with rows.

    These are fewer than products of columns if there are thousands of categories.
    """
    n_rows, n_features = centred.shape
    first = max(0, n_rows - MOST_DIRECTIONS)
    squares, sides = eigh(centred @ centred.T, subset_by_index=(first, n_rows - 1))
    kept = squares > 1e-10 * squares[-1]
    if not kept.any():  # all rows are equal
        return np.zeros(1), np.zeros((n_features, 1))
    squares, sides = squares[kept][::-1], sides[:, kept][:, ::-1]
    return squares / n_records, centred.T @ (sides / np.sqrt(squares))


def _shares(squares, prior, noise: float, counts: tuple, least: float):
    r"""Choose the bound of the rows, and the shares of directions for this bound.

    With a bound R the records have the weights ``w = min(1, R / |phi|)``, and the
    release has the noise ``R noise``. Let x_j be the coordinate of a row in direction
    j, with mean square 1, a_j the share of this direction and v_j its `prior`. In this
    direction the statistic estimates the correlation with the target times
    ``A_j = mean w x_j**2``. The noise variance is ``R**2 noise**2 / a_j``. The sampling
    variance is ``B_j / n``, where ``B_j = mean w**2 x_j**2``. The best linear estimates
    explain

    .. math:: \sum_j v_j^2 / (v_j + (B_j / n + R^2 noise^2 / a_j) / A_j^2)

    of the target's variance. Without noise, weights w of 1 are best, because
    ``A_j**2 <= B_j``. So the bound grows with the signal, up to the longest row.

    `squares` are ``x_j**2`` of some public rows. `counts` are the weights of these
    rows, and n. The last direction gets a share of at least `least`. Return (level,
    shares). The bound is the quantile of the norms at this level.
    """
    best, (own, n_records) = -np.inf, counts
    chance = CHANCE / min(n_records, CHANCE_ROWS)
    for level in LEVELS:
        effective = noise
        for _ in range(BOUNDINGS):
            share = shares_of_norm(prior, effective, chance)
            share[-1] = max(least, share[-1])
            share /= share.sum()
            norms = np.sqrt(squares @ share)
            radius = np.quantile(norms, level) or norms.max() or 1.0
            weight = 1 / np.maximum(1.0, norms / radius)
            first = (own * weight) @ squares / own.sum()
            # Weights that reduce the signal act like more noise.
            effective = noise * radius / max(first @ share, 1e-300)
        second = (own * weight**2) @ squares / own.sum()
        kept = share > 0
        a, v, A, B = share[kept], prior[kept], first[kept], second[kept]
        A = np.maximum(A, 1e-300)
        spoilt = (B / n_records + (radius * noise) ** 2 / a) / A**2
        explained = (v**2 / (v + spoilt)).sum()
        if explained > best:
            best, found = explained, (level, share)
    return found
