"""Gradient descent with noisy private sums.

Everything after a release is post-processing: it does not read the data, so it costs
no privacy.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.mechanisms.release import Mechanism
from skfdp.queries import Query

# If the noise in one weight has a larger standard deviation than this, `fit` warns. The
# number is for rows of norm about 1. The defaults leave less than a tenth of that.
MOST_NOISE_LEFT = 20.0


class HeavyBall(NamedTuple):
    """Momentum descent with a step size that decays linearly, to zero by default.

    Notes
    -----
    The gradient of the penalty is evaluated at the end of the step (an implicit step).
    For a step size r, a velocity v and a released gradient g,

        v' = momentum v + g + D theta',        theta' = theta - r v',

    hence ``theta' = (theta - r (momentum v + g)) / (1 + r D)``. An explicit step would
    multiply the weights by ``1 - r D``, and diverge for ``r D >= 2 (1 + momentum)``.
    The implicit step is stable for every D if the step without a penalty is stable, and
    has the same optimum.
    """

    #: First step size; with a penalty it may have theta's shape.
    learning_rate: float | np.ndarray
    momentum: float  # factor of the velocity, in [0, 1)
    n_steps: int  # over which the step size decays
    #: Standard deviation of the noise in one entry of each gradient, shape (n_iter,),
    #: for up to `n_steps` steps.
    stds: np.ndarray
    radius: float | None = None  # of the L2 ball onto which iterates are projected
    decay: float = 1.0  # fraction of the first step size, over all steps
    #: Curvature D of a penalty ``sum of D theta**2 / 2``, in the units of the gradient,
    #: float64 of theta's shape; None means no penalty.
    curvature: np.ndarray | None = None

    def update(
        self, theta: np.ndarray, velocity: np.ndarray, gradient: np.ndarray, step: int
    ) -> np.ndarray:
        """Return the next iterate, in the memory of `gradient`; change `velocity`."""
        rate = self.learning_rate * (1 - self.decay * step / self.n_steps)
        velocity *= self.momentum
        velocity += gradient
        step_taken = np.multiply(velocity, rate, out=gradient)
        iterate = np.subtract(theta, step_taken, out=step_taken)
        if self.curvature is not None:
            kept = 1 / (1 + rate * self.curvature)
            velocity += self.curvature * theta
            velocity *= kept
            iterate *= kept
        if self.radius is not None:
            norm = max(self.radius, float(np.linalg.norm(iterate)))
            iterate *= self.radius / norm
        return iterate

    def rates(self) -> np.ndarray:
        """Return the step sizes, (n_iter, n_weights), or (n_iter,) if all are equal."""
        first = self.learning_rate
        decay = 1 - self.decay * np.arange(len(self.stds)) / self.n_steps
        return np.ravel(first) * decay[:, None] if np.ndim(first) else first * decay

    def outcome(self, curvature: float = 0.0) -> tuple[float, float]:
        """Return the last iterate on ``curvature (theta - 1)**2 / 2``, and its noise.

        The first is that of noiseless steps from 0, and the second the standard
        deviation with noise. Both are infinite or NaN if the steps diverge.
        """
        end, variance = self.moments(curvature)
        # NumPy's numbers overflow to infinity; Python's numbers would raise an error.
        noise = math.sqrt(variance) if variance < math.inf else math.inf
        return np.float64(end), np.float64(noise)

    def moments(
        self, curvature: float, penalty: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of noiseless steps, and the variance that noise adds to it.

        The steps start at 0. The loss is quadratic, with this curvature and optimum 1.
        `penalty` is the curvature of a penalty, whose gradient is evaluated at the end
        of a step.
        """
        rates = self.rates()
        # Python's numbers are faster than arrays without axes.
        shape = rates.shape[1:]
        velocity = variance = np.zeros(shape) if shape else 0.0
        weight = velocity + 1.0
        rates = rates if shape else rates.tolist()
        steps = zip(rates, self.stds.tolist(), strict=True)
        with np.errstate(all="ignore"):  # steps may diverge
            # From the last step to the first: the effect of each gradient on the
            # result.
            for rate, std in reversed([*steps]):
                weight = weight + penalty * velocity
                weight = weight / (1 + rate * penalty)
                effect = velocity - rate * weight
                variance = variance + effect * std * (effect * std)
                weight = weight + curvature * effect
                velocity = self.momentum * effect
        return np.asarray(1 - weight)[()], np.asarray(variance)[()]

    def noise_left(self) -> np.ndarray:
        """Return the standard deviation of the noise in each published weight.

        The curvature of the penalty is included. The curvature of the loss and the
        projection onto the radius are not. The result has the shape of theta, or the
        shape () if all weights have the same noise.

        Notes
        -----
        **Guarantees.** Let the loss have a constant curvature H, symmetric with
        eigenvalues h. The noise of a step is multiplied by a matrix polynomial of H
        before it is added to the last iterate. The value of the polynomial at h is
        ``-u(h)``. From the last step backwards, starting with u = 0 and w = 1,

            u' = momentum u + rate w,        w' = w - h u'.

        If ``|w| <= 1`` for all steps, then ``|u(h)| <= u(0)`` by induction, because w
        is always 1 for h = 0. The covariance of the noise is then at most the variance
        for h = 0 times the identity. So the noise of a linear combination of weights,
        with coefficients of L2 norm 1, is at most the noise returned here.

        The bound is proved in two cases. In the first case the step sizes do not
        increase, and the largest has ``rate h <= 2 (1 - momentum)``. Then
        ``w**2 + momentum (w - w_before)**2 / (rate h)`` does not increase from update
        to update, where w_before is the w of the update before. In the second case the
        step sizes are constant, and at most at the limit of stability,
        ``rate h = 2 (1 + momentum)``. Then u after n updates is rate times the sum of
        ``z_1**i z_2**(n - 1 - i)`` over i < n, where the product of the roots z_1 and
        z_2 is the momentum. The sum is largest at h = 0, where the roots are 1 and the
        momentum. Between the two cases the bound was computed for linearly decaying
        steps, but it is not proved. If the curvature of the loss changes (for every
        loss except the squared error), the result is an approximation.
        """
        rate = np.asarray(self.learning_rate)
        penalty = np.asarray(0.0 if self.curvature is None else self.curvature)
        shape = np.broadcast_shapes(rate.shape, penalty.shape)
        pairs = np.stack([np.broadcast_to(a, shape).ravel() for a in (rate, penalty)])
        # Columns of equal scale have equal pairs, so there are few distinct pairs.
        (rate, penalty), places = np.unique(pairs, axis=1, return_inverse=True)
        _, variance = self._replace(learning_rate=rate).moments(0.0, penalty)
        return np.sqrt(variance)[places.reshape(-1)].reshape(shape)


def warn_of_noise_left(rule: HeavyBall) -> None:
    """Warn before any charge if steps leave too much noise in weights of any norm."""
    _, std = rule.outcome()
    if rule.radius is None and not std <= MOST_NOISE_LEFT:
        warn_caller(
            f"this schedule leaves noise of standard deviation {std:.3g} in a weight "
            "on rows of norm about 1, but the defaults leave at most 1.5: the noise "
            "will dominate the predictions; lower noise_decay, learning_rate or "
            "momentum, or raise epsilon.",
            UtilityWarning,
        )


#: A weight above this bound has diverged. Rows have a norm of about 1, and a margin of
#: 10,000 means a probability of 0 or 1, or a target 10,000 standard deviations away.
LARGEST_WEIGHT = 1e4


def descent(
    mechanism: Mechanism,
    query: Query,
    rule: HeavyBall,
    *,
    n_records: int,
    private_weight: float = 1.0,
    exact: Sequence[Callable[[np.ndarray], np.ndarray]] = (),
    on_step: Callable[[int, Callable[[], Any]], bool] | None = None,
    model: Callable[[np.ndarray, int], Any] = lambda theta, n_steps: theta,
    start: np.ndarray | None = None,
    path: list[tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[np.ndarray, int]:
    """Run gradient descent with noisy private sums plus exact public gradients.

    This is Algorithm 1 of Mahloujifar et al. (2023). Without `exact` gradients it is
    DP-SGD.

    The charged event "descent" of the mechanism fixes the number of steps, the sampling
    rate and the noise. Averages divide by the sampling rate times the public
    `n_records`, never by the size of a batch. `exact` gradients of theta and `start`
    (None: zero) are functions of public facts and earlier releases. ``on_step(step,
    found)`` returns whether to stop, where ``found()`` is ``model(iterate, n_steps)``.
    Each iterate and its released gradient are appended to `path`.

    The result is the last iterate, and the number of steps taken; all planned steps
    stay charged, also if an iterate that is not finite raises ValueError.

    Notes
    -----
    **Guarantees.** The output is a function of at most `n_steps` adaptive releases and
    of public facts, so the guarantee of the event holds for it. It also holds for the
    error and the warning, which depend on iterates only (post-processing).
    """
    theta = np.zeros(query.shape) if start is None else start
    velocity = np.zeros(query.shape)
    event = mechanism.event("descent")
    clipped = event.sampling_rate * n_records * query.clip_norm
    for step in range(event.n_steps):
        gradient = mechanism.release("descent", query, theta)
        gradient *= private_weight / clipped
        if exact:
            with np.errstate(over="ignore"):  # an overflow raises ValueError below
                gradient += sum(one(theta) for one in exact) / query.clip_norm
        if path is not None:
            path.append((theta, gradient.copy()))
        theta = rule.update(theta, velocity, gradient, step)
        if not np.isfinite(theta).all():
            raise ValueError(
                f"the descent overflowed in step {step + 1} of {event.n_steps}: lower "
                f"learning_rate (now {np.max(rule.learning_rate):.3g}) or momentum; "
                "the charge for this fit stays."
            )
        if on_step is not None:
            if on_step(step, functools.partial(model, theta, step + 1)):
                break
    warn_of_divergence(theta, start)
    return theta, step + 1


def warn_of_divergence(theta: np.ndarray, start: np.ndarray | None = None) -> None:
    """Warn if released weights are so large that the fit has diverged.

    The threshold holds for rows of norm about 1, and grows with the weights of `start`.
    """
    usual = 1.0 if start is None else max(1.0, float(np.abs(start).max()))
    if (np.abs(theta) > LARGEST_WEIGHT * usual).any():
        warn_caller(
            f"the fit diverged: a weight on rows of norm about 1 exceeds "
            f"{LARGEST_WEIGHT * usual:.3g}, so that predictions are useless; lower "
            "learning_rate or momentum, strengthen the penalty, or raise epsilon.",
            UtilityWarning,
        )
