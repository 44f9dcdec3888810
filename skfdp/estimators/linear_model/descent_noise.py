"""The noise of a descent: a warning before it, and what it leaves in coefficients."""

from __future__ import annotations

import numpy as np

from skfdp.estimators.linear_model.coefficient_noise import CoefficientNoise
from skfdp.privacy import Event
from skfdp.records.coordinates import Coordinates
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.records import PublicRecords


def warn_of_little(s2n: float, n: int, d: int, usual: str) -> None:
    """Warn, before anything is charged, of a budget that can teach next to nothing.

    Parameters
    ----------
    s2n : float
        Signal-to-noise index.
    n, d : int
        Numbers of records and columns.
    usual : str
        What the model will predict.
    """
    if s2n < 2:
        warn_caller(
            f"the budget is small for n={n} records and {d} features "
            f"(signal-to-noise index {s2n:.2g} < 2): expect little more than "
            f"{usual}.",
            UtilityWarning,
        )


def grown(step: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Return what each column of a released step was multiplied by, if by more than 1.

    A factor below 1 is an estimate from the step itself, as noisy as the step is: it
    takes noise away on average, and not for sure.

    Parameters
    ----------
    step : ndarray of shape (n_outputs, n_columns)
    scaled : ndarray of shape (n_outputs, n_columns)
        The step after every factor.
    """
    if len(step) > 1:  # nothing depends on a sum over the classes
        step, scaled = step - step.mean(axis=0), scaled - scaled.mean(axis=0)
    square = (step**2).sum(axis=0)
    factor = (step * scaled).sum(axis=0) / np.where(square > 0, square, 1.0)
    return np.broadcast_to(np.maximum(factor, 1.0), step.shape)


def noise_of(
    left: np.ndarray,
    path: tuple[np.ndarray, np.ndarray, np.ndarray],
    coordinates: Coordinates,
    public: PublicRecords,
    counts: Event | None,
) -> CoefficientNoise:
    """Return the noise of the coefficients, as large as it can be.

    That of the intercept also has what earlier releases add to it, as if the steps,
    which make up for that, did nothing: the error of the private mean, and of the log
    odds at which the descent starts.

    Parameters
    ----------
    left : ndarray
        Standard deviation of the noise that the steps leave in each weight.
    path : tuple of three ndarrays of shape (n_outputs, n_columns)
        The weights at the start, at the end of the steps, and as they are published.
    coordinates : Coordinates
    public : PublicRecords
    counts : Event or None
        Of the log odds in the last column of the start.
    """
    start, ended, theta = path
    left = left * grown(ended - start, theta - start)
    weights = (theta[:, : public.mask.size] * coordinates.scale)[:, ~public.mask]
    variance = coordinates.mean_error**2 * (weights**2).sum(axis=1)
    if counts is not None:
        std = float(counts.noise_std[0]) / public.n_records
        variance = variance + _of_log_odds(coordinates.bias * start[:, -1], std)
    return CoefficientNoise.of_independent(left, coordinates, np.sqrt(variance))


def _of_log_odds(margins: np.ndarray, std: float) -> np.ndarray:
    """Return the variances of log odds of class frequencies with this noise."""
    if len(margins) == 1:  # a half of the difference of two counts
        share = 1 / (1 + np.exp(-margins))
        return (std / (share * (1 - share))) ** 2 / 2
    share = np.exp(margins - margins.max())
    own, n_classes = (std * share.sum() / share) ** 2, len(share)
    return own * (1 - 2 / n_classes) + own.sum() / n_classes**2
