"""Estimates of metrics from a noisy table, with intervals for noise and sampling.

The truth that an interval is about is that of the population: what the metric would be
on very many records like the scored ones. All of it is computed from released numbers
and public facts.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from skfdp.estimators.scoring.intervals import bounded_interval
from skfdp.queries.score_table import SQUARES

#: What bins tell of the order in the next one, and in the one after; see `auc_kernel`.
_WITHIN = (7 / 60, -1 / 60)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """One number of a score, in the units of its metric; NaN where undetermined."""

    value: float
    low: float
    high: float

    @classmethod
    def undetermined(cls) -> Estimate:
        """Return the estimate of what the release says nothing about."""
        return cls(math.nan, math.nan, math.nan)

    @classmethod
    def of(cls, estimate: float, variance, confidence: float) -> Estimate:
        """Return a number in [0, 1] and its interval."""
        low, high = bounded_interval(estimate, variance, confidence)
        return cls(min(max(estimate, 0.0), 1.0), low, high)

    def scaled(self, factor: float) -> Estimate:
        """Return the same in other units."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)


@dataclasses.dataclass(frozen=True)
class NoisyTable:
    """The released table of one group of records.

    Attributes
    ----------
    cells : float64 ndarray of shape (n_cells,)
        Counts with noise.
    losses : float64 ndarray of shape (n_losses, 2)
        Sums of losses and of weighted squares, with noise.
    noise_std : float
        Standard deviation of the noise of each entry.
    n_records : float or None
        Number of records, or the sum of their shares where rows have weights; None
        where it is private.
    confidence : float
    spread : float, default=1.0
        How many times the variance is that rows of equal weights would have, drawn one
        by one: `row_spread` has a bound.
    """

    cells: np.ndarray
    losses: np.ndarray
    noise_std: float
    n_records: float | None
    confidence: float
    spread: float = 1.0

    @property
    def noise(self) -> float:
        """Variance of the noise of each entry."""
        return self.noise_std**2

    @property
    def counts(self) -> np.ndarray:
        """The counts, made to add up to the number of records where it is public."""
        if self.n_records is None:
            return self.cells
        excess = self.cells.sum() - self.n_records
        return self.cells - excess / len(self.cells)

    def share(self, chosen: np.ndarray) -> Estimate:
        """Return the share of all records that is in some cells.

        Parameters
        ----------
        chosen : bool ndarray of shape (n_cells,)
        """
        n, size = self.n_records, int(chosen.sum())
        if n is None:
            return self.ratio(chosen, np.ones_like(chosen))
        if n == 0:
            return Estimate.undetermined()
        # The noise that is left once the counts add up to n.
        noise = self.noise * (size - size**2 / len(chosen)) / n**2
        found = float(self.counts[chosen].sum() / n)
        return Estimate.of(found, lambda a: self._drawn(a) / n + noise, self.confidence)

    def _drawn(self, a: np.ndarray) -> np.ndarray:
        """Return the variance that drawing gives a share a, times their number."""
        return self.spread * a * (1 - a)

    def ratio(self, chosen: np.ndarray, among: np.ndarray) -> Estimate:
        """Return the share of some cells among others, whose number is noisy.

        Tested is ``chosen - a * among = 0`` for each a, whose noise is normal: the
        interval of a quotient by Fieller (1954).
        """
        within, total = int(chosen.sum()), float(self.cells[among].sum())
        if not total > 0:
            return Estimate.undetermined()
        others = int(among.sum()) - within

        def variance(a: np.ndarray) -> np.ndarray:
            noise = self.noise * (within * (1 - a) ** 2 + others * a**2)
            return self._drawn(a) / total + noise / total**2

        found = float(self.cells[chosen].sum() / total)
        return Estimate.of(found, variance, self.confidence)

    def mean_loss(self, j: int) -> Estimate:
        """Return the mean of one loss, in units of its bound."""
        n = self.n_records
        total = float(self.cells.sum()) if n is None else n
        if not total > 0:
            return Estimate.undetermined()
        noisy_cells = len(self.cells) if n is None else 0
        found, square = self.losses[j] / [total, SQUARES * total]
        # The square of a noisy mean is too large by the variance of its noise.
        own = square - found**2 + self.noise / total**2
        own = self.spread * max(own, 0.0) / max(1.0, 1 - 1 / total)

        def variance(a: np.ndarray) -> np.ndarray:
            noise = self.noise * (1 + noisy_cells * a**2) / total**2
            return np.minimum(own, self._drawn(a)) / total + noise

        return Estimate.of(float(found), variance, self.confidence)

    def auc(self, negatives: np.ndarray, positives: np.ndarray) -> Estimate:
        """Return the area under the ROC curve.

        Parameters
        ----------
        negatives, positives : int ndarray of shape (n_bins,)
            Their cells, by increasing score.

        Notes
        -----
        With counts p and q and the kernel A of `auc_kernel`, the area is
        ``p A q / (sum(p) sum(q))``. Tested is ``p (A - a) q = 0`` for each a.

        Whether scores in one bin are ties or have an order there, nobody can tell from
        the counts. The value takes them to be in order; the interval holds what either
        would give.
        """
        p, q = self.cells[negatives], self.cells[positives]
        if not (p.sum() > 0 and q.sum() > 0):
            return Estimate.undetermined()
        ordered, tied = (
            self._auc(p, q, auc_kernel(len(p), within)) for within in (_WITHIN, ())
        )
        low, high = min(ordered.low, tied.low), max(ordered.high, tied.high)
        return Estimate(ordered.value, low, high)

    def _auc(self, p: np.ndarray, q: np.ndarray, kernel: np.ndarray) -> Estimate:
        """Return the area that one kernel gives, and its interval."""
        pairs = float(p.sum() * q.sum())
        # Each part is a quadratic function of a: three values tell it.
        places = np.array([0.0, 0.5, 1.0])
        parts = [self._auc_variance(p, q, kernel - one) for one in places]
        curves = np.polyfit(places, np.array(parts) / pairs**2, 2)

        def variance(a: np.ndarray) -> np.ndarray:
            noise, least, sampling = np.vander(a, 3).dot(curves).T
            drawn = self.spread * np.maximum(sampling, 0.0)
            return np.maximum(noise, least) + drawn

        return Estimate.of(float(p @ kernel @ q / pairs), variance, self.confidence)

    def _auc_variance(
        self, p: np.ndarray, q: np.ndarray, kernel: np.ndarray
    ) -> tuple[float, float, float]:
        """Return the variance by noise, the least that it can be, and by sampling."""
        s2, squares = self.noise, kernel**2
        of_p, of_q = kernel @ q, p @ kernel
        least = s2**2 * squares.sum()
        noise = s2 * (of_p @ of_p + of_q @ of_q) - least
        # DeLong, DeLong and Clarke-Pearson 1988, freed of the squares of the noise.
        sampling = p @ (of_p**2 - s2 * squares.sum(axis=1))
        sampling += q @ (of_q**2 - s2 * squares.sum(axis=0))
        return noise, least, sampling


def row_spread(totals: np.ndarray) -> float:
    r"""Return a bound of how much the drawing of whole persons adds to a variance.

    Parameters
    ----------
    totals : float64 ndarray of shape (n_persons,)
        The sum T of the shares of each person's rows: public.

    Notes
    -----
    What a person adds to an error is :math:`\sum_r s_r z_r` over rows with shares s and
    deviations z, and by Cauchy and Schwarz
    :math:`(\sum_r s_r z_r)^2 \le T \sum_r s_r z_r^2`, with equality if all of a
    person's rows deviate alike. If how much a person weighs tells nothing of how its
    rows deviate, the sum of the right sides over all persons is
    :math:`\sum T^2 / \sum T` times what it is for rows that are drawn one by one.
    """
    whole = float(totals.sum())
    return float(totals @ totals) / whole if whole > 0 else 1.0


def auc_kernel(n_bins: int, within: tuple[float, ...] = _WITHIN) -> np.ndarray:
    r"""Return how much a pair of a negative and a positive in two bins counts.

    Parameters
    ----------
    n_bins : int
    within : tuple of float
        What pairs in bins at distance 1, 2, ... count more than 1 in the right order,
        and less than 0 in the wrong one. () takes scores in one bin for ties.

    Notes
    -----
    1 if the positive is in a later bin, 1/2 in the same. Within a bin positives are
    later on average, because densities go on changing, and the counts of the bins
    around tell how. Let the densities be waves of frequency :math:`\omega` (radians a
    bin). A bin averages them, which multiplies by
    :math:`\sin(\omega/2) / (\omega/2)`; the area of all pairs divides their product by
    :math:`i \omega`. So its kernel of counts has the Fourier transform
    :math:`\omega / (4 i \sin^2(\omega/2)) = (1/\omega + \omega/12 + \omega^3/240 +
    \dots) / i`, while that of ties is :math:`\cot(\omega/2) / 2i = (1/\omega -
    \omega/12 - \omega^3/720 - \dots) / i`. The difference,
    :math:`(\omega/6 + \omega^3/180)/i`, is that of 7/60 at distance 1 and -1/60 at
    distance 2, up to :math:`\omega^5`.
    """
    kernel = np.triu(np.ones((n_bins, n_bins)), 1) + np.eye(n_bins) / 2
    for distance, weight in enumerate(within, start=1):
        ahead = np.eye(n_bins, k=distance)
        kernel += weight * (ahead - ahead.T)
    return kernel
