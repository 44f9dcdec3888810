"""Step rules: what happens to a gradient after it is released.

Post-processing: nothing here sees data, so nothing here costs privacy.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.mechanisms.release import Mechanism
from skfdp.queries import Query

# Of one weight on rows of norm about 1: ten times what the defaults leave, and more.
MOST_NOISE_LEFT = 20.0

AVERAGES = ("last", "tail", "uniform")


@dataclasses.dataclass(frozen=True)
class HeavyBall:
    """Momentum descent with a step size that decays linearly, to zero by default.

    Parameters
    ----------
    learning_rate : float
        First step size; beside a penalty also one for each weight, an ndarray of
        theta's shape.
    momentum : float
        Factor of the velocity, in [0, 1).
    n_steps : int
        Length of the decay.
    radius : float or None
        Project the iterate onto the L2 ball of this radius after each step.
    decay : float
        Share of the first step size that is gone at the end; 0: constant steps.
    curvature : float64 ndarray of theta's shape, or None
        D of a penalty ``sum of D theta**2 / 2``, in the units of the gradient.

    Notes
    -----
    The gradient of the penalty is taken where the step ends and not where it starts.
    For a step size r, a velocity v and a released gradient g,

        v' = momentum v + g + D theta',        theta' = theta - r v',

    hence ``theta' = (theta - r (momentum v + g)) / (1 + r D)``. A step along the
    gradient at its start multiplies the weights by ``1 - r D``, and diverges from
    ``r D = 2 (1 + momentum)`` on. This one is stable for every D where the step without
    a penalty is, and ends at the same optimum.
    """

    learning_rate: float | np.ndarray
    momentum: float
    n_steps: int
    radius: float | None = None
    decay: float = 1.0
    curvature: np.ndarray | None = None

    def update(
        self, theta: np.ndarray, velocity: np.ndarray, gradient: np.ndarray, step: int
    ) -> np.ndarray:
        """Return the next iterate, in the memory of `gradient`; `velocity` changes."""
        rate = self.learning_rate * (1 - self.decay * step / self.n_steps)
        velocity *= self.momentum
        velocity += gradient
        moved = np.multiply(velocity, rate, out=gradient)
        following = np.subtract(theta, moved, out=moved)
        if self.curvature is not None:
            kept = 1 / (1 + rate * self.curvature)
            velocity += self.curvature * theta
            velocity *= kept
            following *= kept
        if self.radius is not None:
            norm = np.linalg.norm(following)
            if norm > self.radius:
                following *= self.radius / norm
        return following

    def noise_left(self, stds: np.ndarray, average: str = "last") -> np.ndarray:
        """Return the noise that the steps leave in each published weight.

        Standard deviations, without the curvature of the loss, but with that of the
        penalty; the radius is left out.

        Parameters
        ----------
        stds : ndarray of shape (n_iter,)
            Standard deviation of the noise in one entry of the gradient of each step
            that was taken.
        average : {"last", "tail", "uniform"}

        Returns
        -------
        noise : float64 ndarray of theta's shape, or of shape () for all weights alike

        Notes
        -----
        **Guarantees.** For a loss of constant curvature H, symmetric with eigenvalues
        h, each step's noise moves the last iterate by a matrix polynomial of H, whose
        value at h is ``-u(h)``. From the last step backwards, with w = 1 at first,

            u' = momentum u + rate w,        w' = w - h u'.

        Where ``|w| <= 1`` all along, ``|u(h)| <= u(0)`` by induction, so that the
        covariance of the noise is at most that of h = 0 times the identity: the noise
        of every linear combination of weights is at most the one returned here. Two
        cases are proved. For step sizes that do not grow and ``rate h <= 2 (1 -
        momentum)`` for the largest of them, ``w**2 + momentum (w - w_before)**2 /
        (rate h)`` does not grow backwards. For constant step sizes up to
        the edge of stability, ``rate h = 2 (1 + momentum)``, u is the sum of products
        ``z_1**i z_2**(n - 1 - i)`` of the two roots, whose product is the momentum, and
        that is largest where the roots are 1 and the momentum, which is at h = 0.
        Between the two cases it was computed, for linearly decaying steps, and not
        proved. A curvature that changes along the path, as that of all losses but the
        squared error does, is not covered: there this is an approximation.
        """
        rate, penalty = np.asarray(self.learning_rate), np.asarray(0.0)
        if self.curvature is not None:
            penalty = self.curvature
        shape = np.broadcast_shapes(rate.shape, penalty.shape)
        pairs = np.stack([np.broadcast_to(a, shape).ravel() for a in (rate, penalty)])
        # A few pairs at most: columns of one scale share theirs.
        (rate, penalty), places = np.unique(pairs, axis=1, return_inverse=True)
        walk = self.walk(stds, rate)
        published = self.published(len(stds), average)
        _, variance = walk.moments(penalty=penalty, published=published)
        return np.sqrt(variance)[places.reshape(-1)].reshape(shape)

    def walk(self, stds: np.ndarray, rate: np.ndarray | None = None) -> Walk:
        """Return the steps that were taken, of shape (n_iter, n_weights or 1)."""
        rate = np.ravel(self.learning_rate) if rate is None else rate
        decay = 1 - self.decay * np.arange(len(stds)) / self.n_steps
        return Walk(rate * decay[:, None], self.momentum, stds)

    def published(self, n_iter: int, average: str) -> np.ndarray:
        """Return the weights of the iterates in what is published."""
        first = min(first_published(average, self.n_steps), n_iter - 1)
        chosen = np.arange(n_iter) >= first
        return chosen / chosen.sum()


def first_published(average: str, n_steps: int) -> int:
    """Return the step, counted from 0, from which on iterates are published.

    "last" is the last one alone, "tail" the second half, "uniform" all after the start.
    """
    return {"last": n_steps - 1, "tail": n_steps // 2, "uniform": 0}[average]


@dataclasses.dataclass(frozen=True)
class Walk:
    """The steps of a descent with momentum: their sizes, and the noise in gradients.

    Attributes
    ----------
    rates : ndarray of shape (n_steps,) or (n_steps, n_weights)
        Step size of each step.
    momentum : float
    stds : ndarray of shape (n_steps,)
        Standard deviation of the noise in one entry of each gradient.
    """

    rates: np.ndarray
    momentum: float
    stds: np.ndarray

    def outcome(self, curvature: float = 0.0) -> tuple[float, float]:
        """Return where the steps end on ``curvature (theta - 1)**2 / 2``, and noise.

        The end of the noiseless steps from 0, and the standard deviation of what the
        noise adds to it; both are infinite or NaN for steps that explode.
        """
        end, variance = self.moments(curvature)
        # NumPy's numbers overflow to infinity; Python's would raise.
        noise = math.sqrt(variance) if variance < math.inf else math.inf
        return np.float64(end), np.float64(noise)

    def moments(
        self,
        curvature: float = 0.0,
        penalty: np.ndarray | float = 0.0,
        published: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the end of the noiseless steps, and the variance of the noise in it.

        Parameters
        ----------
        curvature : float, default=0.0
            Of the loss, whose optimum is at 1; the steps start at 0.
        penalty : float or ndarray of shape (n_weights,), default=0.0
            Curvature of a penalty, whose gradient is taken where a step ends.
        published : ndarray of shape (n_steps,), default=None
            Weights of the iterates in what is published. None: the last one alone.
        """
        n_steps = len(self.stds)
        if published is None:
            published = np.arange(n_steps) == n_steps - 1
        shape = np.shape(self.rates)[1:]
        weight = velocity = variance = np.zeros(shape)
        with np.errstate(all="ignore"):  # of steps that explode
            # How far a gradient moves what is published, from the last step backwards.
            for step in reversed(range(n_steps)):
                rate = self.rates[step]
                weight = weight + published[step] + penalty * velocity
                weight = weight / (1 + rate * penalty)
                reach = velocity - rate * weight
                variance = variance + (reach * self.stds[step]) ** 2
                weight = weight + curvature * reach
                velocity = self.momentum * reach
        return 1 - weight, variance


def warn_of_noise_left(std: float) -> None:
    """Warn, before anything is charged, of a schedule that ends in noise."""
    if not std <= MOST_NOISE_LEFT:
        warn_caller(
            f"this schedule leaves noise of standard deviation {std:.3g} in a weight "
            "on rows of norm about 1, where the defaults leave 1.5 or less: expect "
            "predictions that follow the noise; lower noise_decay, learning_rate or "
            "momentum, or raise epsilon.",
            UtilityWarning,
        )


# The loop of noisy releases.


#: A larger weight of the loop, whose rows have a norm of about 1, has diverged: margins
#: of 10,000 are probabilities of 0 or 1, or targets 10,000 spreads away.
LARGEST_WEIGHT = 1e4


def descent(
    mechanism: Mechanism,
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
    path: list[tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[np.ndarray, int]:
    """Descend along noisy private sums plus an exact public gradient.

    Paper 1, Algorithm 1, and with ``public_gradient=None`` DP-SGD.

    Parameters
    ----------
    mechanism : Mechanism
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
    path : list, default=None
        Gets the iterate before each step and the gradient there.

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
    velocity, published = np.zeros(query.shape), theta
    event = mechanism.event(label)
    first = first_published(average, event.n_steps)
    average_of_clipped = event.sampling_rate * n_records * query.clip_norm
    for step in range(event.n_steps):
        gradient = mechanism.release(label, query, theta)
        gradient *= private_weight / average_of_clipped
        if public_gradient is not None:
            with np.errstate(over="ignore"):  # told below, by an error
                gradient += public_gradient(theta) / query.clip_norm
        if path is not None:
            path.append((theta, gradient.copy()))
        theta = rule.update(theta, velocity, gradient, step)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the descent left the floating-point numbers in step {step + 1} of "
                f"{event.n_steps}: lower learning_rate (now "
                f"{np.max(rule.learning_rate):.3g}) or momentum, or scale down the "
                "gradients of a public_loss; the charge for this fit stays."
            )
        # The mean of the iterates from step `first` on, until then the last one.
        count = max(step - first, 0) + 1
        published = theta if count == 1 else published + (theta - published) / count
        if on_step is not None and on_step(step, published):
            break
    warn_of_divergence(published, start)
    return published, step + 1


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
