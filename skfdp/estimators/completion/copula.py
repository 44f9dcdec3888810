r"""A model of the private columns given the class, learnt from released sums.

The scaled private columns of a record of class k are a Gaussian vector, cut to [0, 1]
where bounds are declared:

.. math:: p_j = \min(1, \max(0, \tfrac12 + s_j (z_j + h_{kj}))), \qquad z \sim N(0, R).

A steep slope s gives a binary column, a flat one a continuous one. Everything here is
post-processing of releases and public facts.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtr, ndtri

#: Slope of a column that is drawn as 0 or 1.
STEP = 1e6
#: What exceeds the noise of its release by less than this factor counts as noise.
CERTAIN = 2.0
# Slopes among which `_slopes` interpolates, from nearly normal to nearly binary.
_SLOPES = np.geomspace(0.03, 30, 16)
_LEAST = 1e-4
# Share of a binary column's variance that any bounded column keeps.
_LEAST_SHARE = 0.02


@dataclasses.dataclass(frozen=True)
class Released:
    """The released statistics of the private rows, in units of the scaled columns.

    Attributes
    ----------
    counts : ndarray of shape (n_classes,)
        Public number of records of each class.
    sums : ndarray of shape (n_classes, n_columns)
    sums_std : float
        Standard deviation of the noise of an entry.
    second : ndarray of shape (n_columns, n_columns) or None
        Sum of the outer products, symmetric; None if it was not released.
    second_std : float
        Standard deviation of the noise of an entry of its diagonal; those off it have
        1 / sqrt(2) of it, because two triangles were averaged.
    bounded : bool ndarray of shape (n_columns,)
        Columns within [0, 1].
    feature_bound : float
        L2 bound of a row.
    """

    counts: np.ndarray
    sums: np.ndarray
    sums_std: float
    second: np.ndarray | None
    second_std: float
    bounded: np.ndarray
    feature_bound: float

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.counts.sum())


@dataclasses.dataclass(frozen=True)
class PrivateColumns:
    """The distribution of the scaled private columns given the class.

    Attributes
    ----------
    means : ndarray of shape (n_classes, n_columns)
        Denoised class means.
    location : ndarray of shape (n_classes, n_columns)
        h of bounded columns, the mean of others.
    slope : ndarray of shape (n_columns,)
    factor : ndarray of shape (n_columns, n_columns) or None
        L of the correlation L L' of the Gaussian vector; None: independent.
    bounded : bool ndarray of shape (n_columns,)
    """

    means: np.ndarray
    location: np.ndarray
    slope: np.ndarray
    factor: np.ndarray | None
    bounded: np.ndarray

    @classmethod
    def learn(cls, released: Released) -> PrivateColumns:
        """Denoise the statistics and match the moments."""
        counts, bounded = released.counts, released.bounded
        share = counts / counts.sum()
        grand = released.sums.sum(axis=0) / released.n_rows
        grand = np.where(bounded, np.clip(grand, _LEAST, 1 - _LEAST), grand)
        interior = _interior(released, grand)
        means = shrunk_means(released, grand, _variance(released, grand, interior))
        binary = share @ (means * (1 - means))  # variance of a binary column
        interior = np.minimum(interior, (1 - _LEAST_SHARE) * np.maximum(binary, 0))
        free = _variance(released, grand, interior, share @ means**2)
        variance = np.where(bounded, binary - interior, free)
        slope = np.where(bounded, STEP, np.sqrt(variance))
        location = np.where(bounded, ndtri(np.where(bounded, means, 0.5)), means)
        soft = np.flatnonzero(bounded & (interior > 0))
        if soft.size:
            slope[soft] = _slopes(means[:, soft], share, interior[soft])
            location[:, soft] = _locations(means[:, soft], slope[soft])
        factor = _factor(released, means, np.sqrt(np.maximum(variance, 1e-3)))
        return cls(means, location, slope, factor, bounded)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return one row for each class code, float64."""
        rows = generator.standard_normal((len(codes), len(self.slope)))
        if self.factor is not None:
            rows = rows @ self.factor.T
        location = self.location[codes]
        cut = np.clip(0.5 + self.slope * (rows + location), 0.0, 1.0)
        return np.where(self.bounded, cut, location + self.slope * rows)


def _interior(released: Released, grand: np.ndarray) -> np.ndarray:
    """Return the mean of p (1 - p): zero for binary columns, and where uncertain."""
    if released.second is None:
        return np.zeros(len(grand))
    n = released.n_rows
    interior = grand - np.diag(released.second) / n
    certain = released.bounded & (interior > CERTAIN * released.second_std / n)
    return np.where(certain, interior, 0.0)


def _variance(
    released: Released,
    grand: np.ndarray,
    interior: np.ndarray,
    square: np.ndarray | None = None,
) -> np.ndarray:
    """Return the variance of each column: about its mean, or the squares given."""
    binary = np.maximum(grand * (1 - grand), _LEAST)
    bounded = np.maximum(binary - interior, _LEAST_SHARE * binary)
    # What a row of the largest norm spreads over its columns, where nothing is known.
    free = np.full(len(grand), released.feature_bound**2 / len(grand))
    if released.second is not None:
        n = released.n_rows
        found = np.diag(released.second) / n - (grand**2 if square is None else square)
        free = np.where(found > CERTAIN * released.second_std / n, found, free)
    return np.where(released.bounded, bounded, free)


def shrunk_means(
    released: Released, grand: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Shrink the class means to the grand mean, as far as they are noise.

    Empirical Bayes: the deviation of class k in column j has the prior variance
    ``t variance_j``, with t from the squared deviations less those of the noise, and
    less one standard deviation of that difference, because a classifier trusts what it
    is given. A column that hardly varies is not trusted to separate the classes.

    Parameters
    ----------
    released : Released
    grand : ndarray of shape (n_columns,)
    variance : ndarray of shape (n_columns,)

    Returns
    -------
    means : ndarray of shape (n_classes, n_columns)
        Those of bounded columns strictly within (0, 1).

    References
    ----------
    James and Stein (1961), *Estimation with quadratic loss*.
    """
    present = released.counts > 0
    counts = np.maximum(released.counts, 1)[:, None]
    noise = (released.sums_std / counts) ** 2 * (1 - counts / (released.n_rows + 1))
    noise = np.maximum(noise, 1e-300)
    apart = released.sums / counts - grand
    apart[~present] = 0.0
    # Weighted by the certainty of a class, 1 / noise**2, over the largest.
    weight = np.where(present[:, None], (noise.min() / noise) ** 2, 0.0)
    excess = (weight * (apart**2 - noise)).sum()
    excess -= np.sqrt(2 * grand.size * ((weight * noise) ** 2).sum())
    prior = max(0.0, excess) / (weight.sum() * variance.sum()) * variance
    apart *= prior / (prior + noise)
    means = grand + apart
    return np.where(released.bounded, np.clip(means, _LEAST, 1 - _LEAST), means)


def _factor(
    released: Released, means: np.ndarray, spread: np.ndarray
) -> np.ndarray | None:
    """Return L of the correlation within classes, what is noise set to zero."""
    if released.second is None:
        return None
    n, scale = released.n_rows, np.outer(spread, spread)
    between = (means.T * released.counts) @ means
    found = (released.second - between) / n / scale
    noise = CERTAIN * released.second_std / np.sqrt(2) / n / scale
    found = np.sign(found) * np.maximum(0.0, np.abs(found) - noise)
    # Correlation of the Gaussians from that of their signs (Sheppard 1899).
    found = np.sin(np.pi / 2 * np.clip(found, -1, 1))
    np.fill_diagonal(found, 1.0)
    values, vectors = eigh(found)
    factor = vectors * np.sqrt(np.maximum(values, 1e-3))
    return factor / np.linalg.norm(factor, axis=1, keepdims=True)


def clipped_moments(
    location: np.ndarray, slope: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of p and p (1 - p) for ``p = clip(1/2 + s(z + h), 0, 1)``."""
    centre = 0.5 + slope * location
    low, high = -centre / slope, (1 - centre) / slope
    inside = ndtr(high) - ndtr(low)
    at_low, at_high = _density(low), _density(high)
    mean = ndtr(-high) + centre * inside + slope * (at_low - at_high)
    interior = centre * (1 - centre) * inside
    interior += slope * (1 - 2 * centre) * (at_low - at_high)
    interior -= slope**2 * (inside + low * at_low - high * at_high)
    return mean, interior


def _density(z: np.ndarray) -> np.ndarray:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _locations(means: np.ndarray, slope: np.ndarray | float) -> np.ndarray:
    """Return the h that give these means, by bisection."""
    high = np.broadcast_to(8 + 0.5 / np.asarray(slope), means.shape).copy()
    low = -high
    for _ in range(45):
        middle = (low + high) / 2
        below = clipped_moments(middle, slope)[0] < means
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _slopes(means: np.ndarray, share: np.ndarray, interior: np.ndarray) -> np.ndarray:
    """Return the slopes that give the mean of p (1 - p) over the classes."""
    found = [
        share @ clipped_moments(_locations(means, slope), slope)[1] for slope in _SLOPES
    ]
    logs = np.log(_SLOPES)
    columns = zip(interior, np.array(found).T, strict=True)
    # The interior falls as the slope grows.
    return np.exp([np.interp(-wanted, -column, logs) for wanted, column in columns])
