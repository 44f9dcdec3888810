"""The loop of noisy releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from skfdp.queries import Query
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.releases.desk import Desk
from skfdp.releases.steps import Average, HeavyBall

#: A larger weight of the loop, whose rows have a norm of about 1, has diverged: margins
#: of 10,000 are probabilities of 0 or 1, or targets 10,000 spreads away.
LARGEST_WEIGHT = 1e4


def descent(
    desk: Desk,
    query: Query,
    rule: HeavyBall,
    *,
    label: str = "descent",
    n_records: int,
    average: str = "last",
    private_weight: float = 1.0,
    public_gradient: Callable[[np.ndarray], np.ndarray] | None = None,
    on_step: Callable[[int, np.ndarray], bool] | None = None,
    start: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Descend along noisy private sums plus an exact public gradient.

    Paper 1, Algorithm 1, and with ``public_gradient=None`` DP-SGD.

    Parameters
    ----------
    desk : Desk
        Gives out the steps; number of steps, sampling rate and noise are those of the
        charged event.
    query : Query
        The private sums.
    rule : HeavyBall
        What to do with a released gradient.
    label : str, default="descent"
        Of the event.
    n_records : int
        Public number of records: averages divide by the sampling rate times it, never
        by the size of a batch.
    average : {"last", "tail", "uniform"}
        Which iterate is published.
    private_weight : float
        Factor of the private gradient.
    public_gradient : callable, default=None
        ``theta -> ndarray``, a function of public facts alone.
    on_step : callable, default=None
        ``(step, iterate) -> stop``; sees released iterates only.
    start : float64 ndarray of the query's shape, default=None
        First iterate, a function of earlier releases and public facts; None: zero.

    Returns
    -------
    theta : float64 ndarray of the query's shape
    n_iter : int
        Steps taken; all of them stay charged.

    Raises
    ------
    ValueError
        If an iterate is not finite; the charge stays.

    Warns
    -----
    UtilityWarning
        If the result is beyond `LARGEST_WEIGHT`.

    Notes
    -----
    **Guarantees.** The output is a function of at most `n_steps` adaptive releases and
    of public facts, hence as private as the event says. So are the error and the
    warning, which look at iterates alone: post-processing of what is released.
    """
    theta = np.zeros(query.shape) if start is None else start
    velocity = np.zeros(query.shape)
    event = desk.event(label)
    path = Average(average, event.n_steps)
    average_of_clipped = event.sampling_rate * n_records * query.clip_norm
    for step in range(event.n_steps):
        gradient = desk.release(label, query, theta)
        gradient *= private_weight / average_of_clipped
        if public_gradient is not None:
            with np.errstate(over="ignore"):  # told below, by an error
                gradient += public_gradient(theta) / query.clip_norm
        theta = rule.update(theta, velocity, gradient, step)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the descent left the floating-point numbers in step {step + 1} of "
                f"{event.n_steps}: lower learning_rate (now "
                f"{np.max(rule.learning_rate):.3g}) or momentum, or scale down the "
                "gradients of a public_loss; the charge for this fit stays."
            )
        path.add(theta, step)
        if on_step is not None and on_step(step, path.value):
            break
    warn_of_divergence(path.value, start)
    return path.value, step + 1


def warn_of_divergence(theta: np.ndarray, start: np.ndarray | None = None) -> None:
    """Warn if released weights on rows of norm about 1 are of no use any more.

    Weights that were larger to start with may grow in proportion.
    """
    usual = 1.0 if start is None else max(1.0, float(np.abs(start).max()))
    if (np.abs(theta) > LARGEST_WEIGHT * usual).any():
        warn_caller(
            f"the fit diverged: a weight on rows of norm about 1 has passed "
            f"{LARGEST_WEIGHT * usual:.3g}, where predictions mean nothing; lower "
            "learning_rate or momentum, strengthen the penalty, or raise epsilon.",
            UtilityWarning,
        )


def check_weights(weights: Iterable[np.ndarray]) -> None:
    """Raise ValueError if a model that is about to be published is not finite.

    What it sees is released, or public: post-processing.
    """
    if not all(np.isfinite(part).all() for part in weights):
        raise ValueError(
            "the fitted weights are not finite in the units of X: declare bounds of "
            "moderate size, or rescale the columns; the charge for this fit stays."
        )
