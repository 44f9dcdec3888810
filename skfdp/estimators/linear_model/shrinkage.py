"""The shrinkage of released weights by the noise that is known to be in them.

A regression starts where it is right already: at the mean of the target, or at a model
of its public part. Where the budget is small the released weights are mostly noise, and
predictions are better with less of them. Functions of public and released numbers:
nothing here costs privacy.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy.special import ndtr

from skfdp.estimators import defaults
from skfdp.releases.steps import Walk

#: How much of the start's squared error the columns are expected to explain: all of
#: them beyond the mean; private ones beyond a model of public ones; and public ones
#: beside them, which that model has seen.
SHARE, PRIVATE_SHARE, PUBLIC_SHARE = 0.5, 0.1, 0.02
# Margins of rates beyond this are as good as infinite.
_LARGEST = 99.0


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of columns.

    Attributes
    ----------
    columns : bool ndarray of shape (n_features,)
    square : float
        Mean squared norm of its part of a row of the loop.
    share : float
        How much of the start's squared error it is expected to explain.
    """

    columns: np.ndarray
    square: float
    share: float


def kept(block: Block, walk: Walk, clip_norm: float) -> float:
    """Return the share of the block's weights to keep.

    The block's part of a prediction is a signal of variance `share`, in squared units
    of the residuals, and noise. The share of the sum with the least expected error is
    signal over signal and noise. Columns of a block count as independent and equal:
    correlated ones have less noise in predictions.
    """
    n_columns = int(block.columns.sum())
    mean_square = block.square / max(1, n_columns)
    # Residuals that the clip cuts do not pull harder as the weight grows.
    slope = math.erf(clip_norm / math.sqrt(2)) / clip_norm
    noise = block.square * walk.outcome(slope * mean_square)[1] ** 2
    return block.share / (block.share + noise)


def blocks_of(public: np.ndarray, has_public_model: bool) -> list[Block]:
    """Return the blocks of columns that are shrunk by themselves.

    Parameters
    ----------
    public : bool ndarray of shape (n_features,)
    has_public_model : bool
    """
    if public.all() or not public.any():
        return [Block(np.ones(len(public), dtype=bool), 1.0, SHARE)]
    norms = defaults.block_norms(has_public_model)
    ours, theirs = SHARE, SHARE
    if has_public_model:
        ours, theirs = PUBLIC_SHARE, PRIVATE_SHARE
    return [
        Block(public, norms[0] ** 2, ours),
        Block(~public, norms[1] ** 2, theirs),
    ]


def pull(mu: float, n: float, blocks: list[Block]) -> float:
    """Return the factor of the first step size: below 1 where little can be learnt.

    Without curvature, a step of size rate leaves noise of about ``rate / (mu n)`` in a
    weight and takes it ``rate / d`` of the way. If the d columns explain `share`, the
    best rate, in units of that for a large budget, is about ``share mu n / d``.

    Parameters
    ----------
    mu : float
        Of the whole budget, for releases of sensitivity `clip_norm`.
    n : float
        Number of records.
    blocks : list of Block
        The last one decides, the private one.
    """
    block = blocks[-1]
    return min(1.0, block.share * mu * n / max(1, int(block.columns.sum())))


def shrunk(
    theta: np.ndarray, blocks: list[Block], walk: Walk, clip_norm: float
) -> np.ndarray:
    """Return weights, shape (1, n_columns), each block times the share to keep."""
    theta = theta.copy()
    for block in blocks:
        theta[:, : len(block.columns)][:, block.columns] *= kept(block, walk, clip_norm)
    return theta


def variance(theta: np.ndarray, blocks: list[Block]) -> float:
    """Return the variance of the margins that weights give to rows of typical size.

    Columns of a block count as independent and equal.
    """
    total = 0.0
    for block in blocks:
        own = theta[0, : len(block.columns)][block.columns]
        total += block.square * float(own @ own) / max(1, len(own))
    return total


def rate_level(
    start: np.ndarray,
    variance: float,
    most: float,
    mean: float,
    shares: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return by how much margins are above their start, from their mean rate.

    Rates ``exp(start + level + z)``, z normal of this variance, are cut at `most`
    before their mean is taken.

    Parameters
    ----------
    start : ndarray of shape (n_rows,)
        Public.
    variance : float
    most : float
    mean : float
        Of the cut rates, between 0 and `most`.
    shares : float64 ndarray of shape (n_rows,), default=None
        How often each row counts in the mean; None: once.

    Returns
    -------
    level : float
    slope : float
        Of `mean` in it.
    """
    # Equal margins once: without a public model all are.
    margins, which = np.unique(np.minimum(start, _LARGEST), return_inverse=True)
    counts = np.bincount(which, shares)
    weights = counts / counts.sum()
    std = max(math.sqrt(variance), 1e-6)

    def rates(level: float) -> tuple[float, float]:
        """Return the means of those that are not cut, and of those that are."""
        mid = margins + level
        room = (math.log(most) - mid) / std
        below = np.exp(np.minimum(mid + std**2 / 2, _LARGEST)) * ndtr(room - std)
        return float(weights @ below), most * float(weights @ ndtr(-room))

    low, high = -_LARGEST, _LARGEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(rates(middle)) > mean else (middle, high)
    return middle, rates(middle)[0]
