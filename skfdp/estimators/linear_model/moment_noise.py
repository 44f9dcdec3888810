"""The noise in weights that are solved for from released moments, to first order."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Projection:
    """The noise in the released products with z, and what they were multiplied by.

    Attributes
    ----------
    row_std, target_std : float
        Standard deviation of the noise in the products of the private columns, and of
        the target, per record. That of a public target is 0.
    of_rows, of_target : ndarray of shape (k, k)
        ``B = S @ of_rows`` and ``C = T @ of_target``.
    """

    row_std: float
    target_std: float
    of_rows: np.ndarray
    of_target: np.ndarray

    @classmethod
    def none(cls, k: int) -> Projection:
        """Return that of products which are not released."""
        return cls(0.0, 0.0, np.zeros((k, k)), np.zeros((k, k)))


def of_solved(
    found: Projection,
    B: np.ndarray,
    b: np.ndarray,
    inverse: np.ndarray,
    pair_std: float,
    cross_std: float,
) -> np.ndarray:
    """Return the covariance of the weights ``[C - b B, b]``, ``b = inverse @ cross``.

    Parameters
    ----------
    found : Projection
    B : ndarray of shape (d, k)
    b : ndarray of shape (d,)
    inverse : ndarray of shape (d, d)
        That of the noisy matrix G and the penalty.
    pair_std, cross_std : float
        Of the second moments and of their products with the target.

    Notes
    -----
    To first order ``db = inverse (dc - dG b)``. The noise of G is `pair_std` beside the
    diagonal and sqrt(2) times that on it, so that ``dG b`` has the covariance
    ``pair_std**2 (|b|**2 I + b b')``. What is left of the private columns does not
    correlate with z, so that errors of B and C move b in second order only.
    """
    square = float(b @ b)
    F = (cross_std**2 + pair_std**2 * square) * np.eye(len(b))
    own = inverse @ (F + pair_std**2 * np.outer(b, b)) @ inverse
    T, S = found.of_target, found.of_rows
    moved = found.target_std**2 * T @ T + found.row_std**2 * square * S @ S
    return np.block([[moved + B.T @ own @ B, -B.T @ own], [-own @ B, own]])


def of_penalised(
    found: Projection,
    B: np.ndarray,
    C: np.ndarray,
    weights: np.ndarray,
    b: np.ndarray,
    inverse: np.ndarray,
    pair_std: float,
    cross_std: float,
) -> np.ndarray:
    """Return the covariance of ``[weights, b] = inverse @ [T, cross of p]``.

    Parameters are those of `of_solved`, for the moments of z and p together.

    Notes
    -----
    With G the matrix and c the vector, ``dc - dG w`` is ``dT - dS' b`` for z, and
    ``f + B (dT - dS' b) + dS q`` for p, f being the noise of the second release and
    ``q = C - weights - B' b``.
    """
    k, d = len(weights), len(b)
    square, q = float(b @ b), C - weights - B.T @ b
    f = (cross_std**2 + pair_std**2 * square) * np.eye(d) + pair_std**2 * np.outer(b, b)
    a = (found.target_std**2 + found.row_std**2 * square) * np.eye(k)
    # Covariance of dS q with dT - dS' b.
    mixed = -(found.row_std**2) * np.outer(b, q)
    to_p = B @ a + mixed
    corner = f + B @ a @ B.T + mixed @ B.T + B @ mixed.T
    corner += found.row_std**2 * float(q @ q) * np.eye(d)
    return inverse @ np.block([[a, to_p.T], [to_p, corner]]) @ inverse
