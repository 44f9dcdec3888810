"""Temperatures that are fitted to a released table of labels and bins of scores."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from skfdp.addresses import public
from skfdp.estimators.scoring.adjusted import AdjustedClassifier
from skfdp.estimators.scoring.layout import FURTHEST

if TYPE_CHECKING:
    from skfdp.privacy.report import PrivacyReport

# Standard errors by which the size of a class must differ from nothing.
_CLEAR = 2.0
# By how much a log-likelihood must be better for each parameter. Noise alone does that
# for one parameter in 1 of 200 cases; it would in 1 of 20 for 2, and in three ways.
_BETTER = 4.0
# Log odds of the first and the last bin that are tried; float64 has none beyond 37.
_LARGEST, _N_BEYOND = 37.0, 63


@public("skfdp")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivateTemperature:
    """Calibration of two classes; `PrivateScore.best_temperature` returns it.

    It follows from a release and costs nothing more. Calibrated log odds are those of
    the model, divided by `temperature`, plus `shift`.

    Attributes
    ----------
    temperature : float
        Above 1 for a model that is too sure of itself.
    shift : float
        In log odds of the last class.
    is_default : bool
        Whether nothing changes, because the release does not show that it should.
    privacy_ : PrivacyReport
        Of the score.
    """

    temperature: float
    shift: float
    privacy_: PrivacyReport

    @property
    def is_default(self) -> bool:
        """Whether nothing changes: temperature 1 and shift 0."""
        return self.temperature == 1 and self.shift == 0

    def apply(self, model: Any) -> AdjustedClassifier:
        """Return the model with calibrated probabilities, ready to predict.

        Parameters
        ----------
        model : fitted classifier
            The one that was scored.

        Returns
        -------
        classifier : AdjustedClassifier
            `skfdp.report` tells of the fit and of the score.

        Raises
        ------
        ValueError
            If the model is of another class than the scored one, or not fitted.
        """
        return AdjustedClassifier(
            model,
            temperature=self.temperature,
            shift=self.shift,
            release=self.privacy_,
        ).fit()


def fitted_temperature(
    counts: np.ndarray,
    edges: tuple[float, ...],
    noise_std: float,
    spread: float = 1.0,
) -> tuple[float, float]:
    r"""Return the temperature and the shift that the counts speak for.

    Parameters
    ----------
    counts : float64 ndarray of shape (2, n_bins)
        Released counts of the negatives and of the positives, by increasing score.
    edges : tuple of float
        Scores that part the bins.
    noise_std : float
        Standard deviation of the noise of each count.
    spread : float, default=1.0
        How many times the variance by drawing is that of rows one by one.

    Returns
    -------
    temperature, shift : float
        (1, 0) where nothing speaks against the scores as they are.

    Notes
    -----
    A function of released numbers. In a bin whose log odds are z, the chance of a
    positive is :math:`p = \operatorname{expit}(a z + b)`, so that its counts
    :math:`(n_0, n_1)` lie in the direction :math:`(1 - p, p)`, of length d, wherever
    the number of its records is. What lies across,
    :math:`u = ((1 - p) n_1 - p n_0) / d`, has mean zero and variance
    :math:`s^2 + (n_0 + n_1)_+\, p (1 - p) / d^2`: by noise, which has no direction, and
    by sampling. Minimised is the negative logarithm of the normal likelihood of u,
    summed over the bins. A bin of noise alone adds nothing to its expectation,
    wherever it is, while estimating equations would weigh it by :math:`z^2`.

    The first and the last bin have the log odds -6 and 6, at which `AdjustedClassifier`
    cuts. Without a change nothing is cut, and theirs are whichever beyond fit best.

    *Shrinkage.* With slope a and shift b at the log odds c of the released share of
    positives, ``a (z - c) + c + b``, the sum above gets :math:`(\log^2 a + b^2) / 2`, a
    normal prior around no change. A slope, a shift, or both are taken if that is better
    than no change by 4 for each: as likely by noise alone as what is 2.8 standard
    errors away.
    """
    odds = logit(np.array(edges))
    middles = (odds[1:] + odds[:-1]) / 2
    middles = np.concatenate([[-FURTHEST], middles, [FURTHEST]])
    centre = _centre(counts, noise_std)

    def unlikely(log_slope: float, shift: float) -> float:
        margins = math.exp(log_slope) * (middles - centre) + centre + shift
        fit = _unlikely(margins, counts, noise_std, spread).sum()
        return float(fit + (log_slope**2 + shift**2) / 2)

    beyond = np.linspace(FURTHEST, _LARGEST, _N_BEYOND)[:, None]
    ends = _unlikely(beyond * [-1, 1], counts[:, [0, -1]], noise_std, spread).min(
        axis=0
    )
    inner = _unlikely(middles[1:-1], counts[:, 1:-1], noise_std, spread)
    best, least = None, float(ends.sum() + inner.sum())
    for free in ((True, False), (False, True), (True, True)):
        place = np.flatnonzero(free)

        def of_free(values: np.ndarray, place: np.ndarray = place) -> float:
            return unlikely(*np.bincount(place, values, minlength=2))

        found = minimize(of_free, np.zeros(len(place)), method="Nelder-Mead")
        value = float(found.fun) + _BETTER * len(place)
        if value < least:
            best, least = np.bincount(place, found.x, minlength=2), value
    if best is None:
        return 1.0, 0.0
    slope, shift = math.exp(best[0]), float(best[1])
    return 1 / slope, shift + centre * (1 - slope)


def _centre(counts: np.ndarray, noise_std: float) -> float:
    """Return the log odds of the share of positives; 0 where noise hides a class."""
    negatives, positives = counts.sum(axis=1)
    if min(negatives, positives) <= _CLEAR * noise_std * math.sqrt(counts.shape[1]):
        return 0.0
    return math.log(positives / negatives)


def _unlikely(
    margins: np.ndarray, counts: np.ndarray, noise_std: float, spread: float
) -> np.ndarray:
    """Return minus the log-likelihood of each bin that has these log odds."""
    p, rest = expit(margins), expit(-margins)
    length = np.hypot(p, rest) * noise_std
    square = ((rest * counts[1] - p * counts[0]) / length) ** 2
    records = spread * np.maximum(counts.sum(axis=0), 0.0)
    sampling = records * p * rest / length**2
    return (square / (1 + sampling) + np.log1p(sampling)) / 2
