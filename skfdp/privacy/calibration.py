"""Calibration: find the least noise that stays within (epsilon, delta)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from skfdp.addresses import public
from skfdp.privacy import checks
from skfdp.privacy.accounting import PrivacyCurve, check_events, compose, gdp_mu, tails
from skfdp.privacy.events import Event, Relation, check_budget, inverse_squares

# Largest fraction of epsilon that a plan may leave unspent. A finer search would take
# too long.
_TOLERANCE = 2e-4


@public("skfdp.privacy")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """A schedule of noisy sums within a budget; the result of `calibrate`.

    Attributes
    ----------
    target_epsilon, target_delta : float
        The total budget of this schedule and `other_events`.
    event : Event
        The schedule: number of steps, sampling rate, clip norm, sensitivity and noise.
        Epsilon is computed from it. So the noise that is added is the noise that is
        accounted for.
    other_events : tuple of Event
        Further releases that share the budget.
    """

    target_epsilon: float
    target_delta: float
    event: Event
    other_events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        check_budget(self.target_epsilon, self.target_delta)
        check_events([self.event], "event")
        vars(self).update(
            target_epsilon=float(self.target_epsilon),
            target_delta=float(self.target_delta),
            other_events=check_events(self.other_events, "other_events"),
        )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the first step's noise, divided by the clip norm.

        See :term:`noise multiplier`.
        """
        return self.event.noise_std[0] / self.event.clip_norm

    @property
    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise of each step, shape (n_steps,)."""
        return self.event.step_stds

    @functools.cached_property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of the whole composition, `other_events` included."""
        return compose((*self.other_events, self.event))

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter of the composition, None if not Gaussian."""
        return self.curve.mu

    def epsilon(self, delta: float) -> float:
        """Return the epsilon spent by the whole composition at delta."""
        return self.curve.epsilon(delta)


def calibrate(
    epsilon: float,
    delta: float,
    *,
    n_steps: int,
    sampling_rate: float = 1.0,
    clip_norm: float = 1.0,
    sensitivity: float | None = None,
    neighboring_relation: str = "replace_one",
    noise_decay: float = 0.0,
    other_events: Sequence[Event] = (),
) -> PrivacyPlan:
    r"""Return the plan with the least noise that stays within (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        The total budget of the planned releases and `other_events`; finite.
    n_steps : int
        Number of planned releases.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch (Poisson sampling); 1
        means the full batch.
    clip_norm : float, default=1.0
        L2 bound of one record's contribution to one sum.
    sensitivity : float, default=None
        The L2 :term:`sensitivity` of one sum over the full batch. None means
        ``2 * clip_norm`` under "replace_one" and ``clip_norm`` otherwise. The caller
        must prove a smaller number.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        The relation between neighbours; see :ref:`protected`.
    noise_decay : float, default=0.0
        Schedule of a full-batch plan: ``1 / noise_multiplier[t]**2`` is proportional to
        ``(1 - t / n_steps)**noise_decay``. 0 is constant noise.
    other_events : sequence of Event, default=()
        Other releases that share the budget, such as a private mean. They are composed
        exactly; epsilon is not split.

    Raises
    ------
    ValueError
        If a parameter is out of range, or if `other_events` already spend the budget.

    Notes
    -----
    **Guarantees.** ``plan.epsilon(delta) <= epsilon``, always: the search errs on the
    side of more noise, and checks its result. Results are cached.

    Examples
    --------
    >>> from skfdp.privacy import calibrate
    >>> plan = calibrate(1.0, 1e-5, n_steps=1, neighboring_relation="replace_special")
    >>> round(plan.noise_multiplier, 3)
    3.731
    """
    others = check_events(other_events, "other_events")
    schedule = n_steps, sampling_rate, clip_norm, sensitivity
    given = epsilon, delta, *schedule, neighboring_relation, noise_decay, others
    try:
        return _calibrated(*given)
    except TypeError:  # a value without a hash
        return _calibrated.__wrapped__(*given)


@functools.lru_cache(maxsize=512, typed=True)
def _calibrated(
    epsilon: float,
    delta: float,
    n_steps: int,
    sampling_rate: float,
    clip_norm: float,
    sensitivity: float | None,
    neighboring_relation: str,
    noise_decay: float,
    others: tuple[Event, ...],
) -> PrivacyPlan:
    """Return the plan with the least noise that stays within the budget."""
    clip_norm = checks.positive("clip_norm", clip_norm)
    if sensitivity is None:
        sensitivity = Relation.of(neighboring_relation).sensitivity(clip_norm)
    event = Event(
        label="steps",
        noise_std=(clip_norm,),  # a placeholder
        clip_norm=clip_norm,
        sensitivity=sensitivity,
        n_steps=n_steps,
        sampling_rate=sampling_rate,
        neighboring_relation=neighboring_relation,
        noise_decay=noise_decay,
        **(others[0].fit_facts if others else {}),
    )
    draft = PrivacyPlan(
        target_epsilon=epsilon, target_delta=delta, event=event, other_events=others
    )
    n_steps, factor = event.n_steps, event.sensitivity / event.clip_norm
    epsilon, delta = draft.target_epsilon, draft.target_delta
    if others and compose(others).epsilon(delta) >= epsilon:
        raise ValueError(
            f"other_events already spend epsilon={epsilon!r} at delta={delta!r}: raise "
            "the budget or give them more noise."
        )
    # Noise multiplier of the first step, if the schedule with `noise_decay` costs as
    # much as a constant noise multiplier of 1.
    relative = 1.0
    if event.noise_decay:
        total = inverse_squares(1.0, n_steps, event.noise_decay)
        relative = math.sqrt(total / n_steps)

    def scaled(scale: float) -> PrivacyPlan:
        noise = (relative * scale * event.clip_norm,)
        return dataclasses.replace(
            draft, event=dataclasses.replace(event, noise_std=noise)
        )

    # Compute the noise multiplier by Gaussian DP; the result is exact on full batches.
    mus, q = [other.mu for other in others], event.sampling_rate
    spent = math.fsum([mu**2 for mu in mus if mu is not None])
    mu = math.sqrt(max(gdp_mu(epsilon, delta) ** 2 - spent, 1e-12))
    if q == 1:
        scale = factor * math.sqrt(n_steps) / mu
    else:
        # Bu, Dong, Long and Su (2020): mu = q sqrt(n_steps (exp((factor / scale)**2) -
        # 1)), approximately. Solve in logarithms, because (mu / q)**2 may overflow.
        log_growth = 2 * (math.log(mu) - math.log(q)) - math.log(n_steps)
        with tails():
            scale = factor / math.sqrt(float(np.logaddexp(0.0, log_growth)))
    if scaled(scale).curve.mu is None:  # otherwise the closed form gave the result
        scale = _search(scaled, scale, epsilon, delta, factor / 30)
    step = 1e-13
    while (plan := scaled(scale)).curve.epsilon(delta) > epsilon:
        scale, step = scale * (1 + step), step * 2
    return plan


def _search(
    scaled: Callable[[float], PrivacyPlan],
    start: float,
    epsilon: float,
    delta: float,
    least: float,
) -> float:
    """Return the noise multiplier at which a plan spends epsilon.

    ``scaled(scale)`` returns the plan with noise multiplier `scale`. The equation is
    solved by the secant method in log-log coordinates. If delta exceeds the probability
    that a record is ever in a batch, even a plan without noise would stay within the
    budget. The search then ends at the noise multiplier `least`.
    """

    def excess(log_scale: float) -> float:
        spent = scaled(math.exp(log_scale)).epsilon(delta)
        return math.log(min(max(spent, 1e-12), 1e12) / epsilon)

    low, high = -math.inf, math.inf  # log scales known to be too small / large enough
    lowest = math.log(least)
    x0 = max(math.log(start), lowest)
    f0, slope = excess(x0), -1.0  # epsilon falls at least as fast as 1 / scale
    for _ in range(40):
        low, high = (max(low, x0), high) if f0 > 0 else (low, min(high, x0))
        if -_TOLERANCE < f0 <= 0 or (f0 <= 0 and x0 == lowest):
            break
        # Aim just below the budget, so that the last point can be the answer.
        x1 = x0 - min(max((f0 + _TOLERANCE / 2) / slope, -0.7), 0.7)
        if not low < x1 < high and math.isfinite(low + high):
            x1 = (low + high) / 2
        x1 = max(x1, lowest)
        if x1 == x0:  # epsilon jumps between two neighbouring floats
            break
        f1 = excess(x1)
        slope = min((f1 - f0) / (x1 - x0), -0.1)
        x0, f0 = x1, f1
    return math.exp(high if math.isfinite(high) else x0)
