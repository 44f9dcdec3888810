"""Validation scores as sums of bounded contributions."""

from __future__ import annotations

import dataclasses

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.queries import chosen, sum_unit


@dataclasses.dataclass(frozen=True)
class ScoreSum:
    """The sum of one number in [-clip_norm, clip_norm] of one sign a record.

    Parameters
    ----------
    values : float ndarray of shape (n_rows,)
        What each record contributes: private.
    clip_norm : float
        Bound of the absolute values.
    sign : {-1, 1}
        The contributions are in ``[0, clip_norm]`` or ``[-clip_norm, 0]``.
    finest : float
        Smallest grid unit, a power of two.

    Notes
    -----
    **Guarantees.** Values are clipped to the interval, what is not finite counts as its
    worst end, and truncated toward zero to the grid. All contributions are in one
    interval of length `clip_norm` that contains 0, hence the sum moves by at most
    `clip_norm` under every relation, whether a record is replaced or nulled.
    """

    values: np.ndarray
    clip_norm: float
    sign: int
    finest: float

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int]:
        """Shape of the sum."""
        return (1,)

    def sensitivity(self, relation: Relation) -> float:
        """Return how far neighbours move the sum; see the guarantees."""
        return relation.moves(self.clip_norm, self.clip_norm)

    def unit(self, noise_std: float) -> float:
        """Return the grid unit of the sum."""
        return sum_unit(noise_std, self.clip_norm, len(self.values), self.finest)

    def exact_sum(
        self, theta: None, batch: np.ndarray | None, unit: float
    ) -> np.ndarray:
        """Return the int64 sum over the batch, in `unit`."""
        (values,) = chosen(batch, self.values)
        low, high = sorted((0.0, self.sign * self.clip_norm))
        bounded = np.clip(np.where(np.isfinite(values), values, low), low, high)
        # The unit is a power of two: the division is exact, truncation never lengthens.
        return np.trunc(bounded / unit).astype(np.int64).sum(keepdims=True)


def accuracy_sum(
    predicted: np.ndarray, target: np.ndarray, known: np.ndarray | None = None
) -> ScoreSum:
    """Return the number of records that were predicted right.

    `known` is False where a record has no target: no prediction is right there.
    """
    right = np.asarray(predicted == target, dtype=np.float64)
    if known is not None:
        right = np.where(known, right, 0.0)
    return ScoreSum(right, 1.0, 1, 2.0**-10)


def log_loss_sum(
    probabilities: np.ndarray, codes: np.ndarray, bound: float
) -> ScoreSum:
    """Return the sum of ``-min(log-loss, bound)``.

    Parameters
    ----------
    probabilities : ndarray of shape (n_rows, n_classes)
    codes : int ndarray of shape (n_rows,)
        Column of each record's class, -1 where there is none.
    bound : float
    """
    own = np.where(codes >= 0, probabilities[np.arange(len(codes)), codes], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(own)
    return ScoreSum(values, float(bound), -1, 2.0**-20)
