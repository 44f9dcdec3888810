"""Calibration: the least noise that stays within (epsilon, delta)."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from skfdp.privacy.curves import PrivacyCurve, compose, gdp_mu
from skfdp.privacy.events import Event, check_budget, check_relation

# A plan may leave this share of epsilon unspent; another evaluation costs more.
_TOLERANCE = 2e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacyPlan:
    """Everything public about a schedule of noisy sums; the result of `calibrate`.

    The event is derived from the fields, so that the noise that is added and the
    noise that is accounted for cannot disagree.

    Attributes
    ----------
    target_epsilon, target_delta : float
        The budget asked for, `other_events` included.
    n_steps : int
        Number of releases.
    sampling_rate : float
        Probability per step that a record enters the private batch.
    clip_norm : float
        L2 bound of one record's contribution to one private sum.
    sensitivity : float
        How far one full-batch private sum moves between neighbours.
    neighboring_relation : str
        See :ref:`protected`.
    noise_multipliers : tuple of float
        Standard deviation of the noise over `clip_norm`; one number, or one a step.
    other_events : tuple of Event
        Releases that share the budget.
    accountant : str
        "auto" or "pld".
    """

    target_epsilon: float
    target_delta: float
    n_steps: int
    sampling_rate: float
    clip_norm: float
    sensitivity: float
    neighboring_relation: str
    noise_multipliers: tuple[float, ...]
    other_events: tuple[Event, ...] = ()
    accountant: str = "auto"

    @property
    def noise_multiplier(self) -> float:
        """Noise multiplier of a constant schedule."""
        if len(self.noise_multipliers) > 1:
            raise AttributeError(
                "noise_multiplier is not constant in this plan: read noise_multipliers."
            )
        return self.noise_multipliers[0]

    @property
    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise of each step, shape (n_steps,)."""
        stds = np.asarray(self.noise_multipliers) * self.clip_norm
        return np.broadcast_to(stds, (self.n_steps,))

    @property
    def event(self) -> Event:
        """The event of the schedule alone, without `other_events`."""
        inherited: dict[str, Any] = {}
        if self.other_events:
            inherited = self.other_events[0].fit_facts
        return Event(
            label="steps",
            noise_std=tuple(s * self.clip_norm for s in self.noise_multipliers),
            clip_norm=self.clip_norm,
            sensitivity=self.sensitivity,
            n_steps=self.n_steps,
            sampling_rate=self.sampling_rate,
            neighboring_relation=self.neighboring_relation,
            **inherited,
        )

    @functools.cached_property
    def curve(self) -> PrivacyCurve:
        """Privacy curve of the whole composition, `other_events` included."""
        return compose((*self.other_events, self.event), accountant=self.accountant)

    @property
    def mu(self) -> float | None:
        """Exact Gaussian-DP parameter of the whole, None where it is not Gaussian."""
        return self.curve.mu

    def epsilon(self, delta: float) -> float:
        """Return the epsilon spent by the whole composition at delta."""
        return self.curve.epsilon(delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-able values, losslessly."""
        return {
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "noise_multipliers": [float(value) for value in self.noise_multipliers],
            "other_events": [event.to_dict() for event in self.other_events],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PrivacyPlan:
        """Rebuild a plan from `to_dict`; unknown fields are refused."""
        unknown = set(values) - {field.name for field in dataclasses.fields(cls)}
        if unknown:
            raise ValueError(
                f"PrivacyPlan has unknown fields {sorted(unknown)}: it was written by "
                "a newer skfdp; upgrade to read it."
            )
        restored = {
            "noise_multipliers": tuple(values["noise_multipliers"]),
            "other_events": tuple(map(Event.from_dict, values["other_events"])),
        }
        return cls(**{**values, **restored})


def calibrate(
    epsilon: float,
    delta: float,
    *,
    n_steps: int,
    sampling_rate: float = 1.0,
    clip_norm: float = 1.0,
    sensitivity: float | None = None,
    neighboring_relation: str = "replace_one",
    noise_weights: Sequence[float] | None = None,
    other_events: Sequence[Event] = (),
    accountant: str = "auto",
) -> PrivacyPlan:
    r"""Find the smallest noise whose plan stays at or below (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        The budget of everything together; finite.
    n_steps : int
        Number of releases.
    sampling_rate : float, default=1.0
        Probability per step that a record enters the batch (Poisson sampling); 1
        means the full batch.
    clip_norm : float, default=1.0
        L2 bound of one record's contribution to one sum.
    sensitivity : float, default=None
        How far one sum over the full batch moves between neighbours. None means
        ``2 * clip_norm`` under "replace_one" and ``clip_norm`` otherwise. A smaller
        number is a claim that the caller must prove.
    neighboring_relation : {"replace_one", "replace_special", "add_or_remove_one"}
        See :ref:`protected`.
    noise_weights : array-like of shape (n_steps,), default=None
        Schedule of a full-batch plan: ``1 / noise_multiplier[t]**2`` is proportional
        to ``noise_weights[t]``. None means constant noise.
    other_events : sequence of Event, default=()
        Releases that share the budget (a private mean, say): one composition, not a
        split of epsilon.
    accountant : {"auto", "pld"}, default="auto"
        "auto" takes the closed form where every release is a full-batch Gaussian.

    Returns
    -------
    plan : PrivacyPlan

    Raises
    ------
    ValueError
        For parameters out of range, or if `other_events` already spend the budget.

    Notes
    -----
    **Guarantees.** ``plan.epsilon(delta) <= epsilon``, always: the search errs to the
    safe side and checks the result. Results are memoised on the arguments.

    Examples
    --------
    >>> from skfdp import calibrate
    >>> plan = calibrate(1.0, 1e-5, n_steps=1, neighboring_relation="replace_special")
    >>> round(plan.noise_multiplier, 3)
    3.731
    """
    check_budget(epsilon, delta)
    check_relation(neighboring_relation)
    _check_schedule(n_steps, sampling_rate, clip_norm)
    if sensitivity is None:
        sensitivity = clip_norm * (2 if neighboring_relation == "replace_one" else 1)
    if noise_weights is not None:
        noise_weights = tuple(float(w) for w in noise_weights)
        _check_weights(noise_weights, n_steps, sampling_rate)
    return _calibrate(
        float(epsilon),
        float(delta),
        int(n_steps),
        float(sampling_rate),
        float(clip_norm),
        float(sensitivity),
        neighboring_relation,
        noise_weights,
        tuple(other_events),
        accountant,
    )


def _check_schedule(n_steps: int, sampling_rate: float, clip_norm: float) -> None:
    if isinstance(n_steps, bool) or n_steps != int(n_steps) or n_steps < 1:
        raise ValueError(f"n_steps={n_steps!r} must be an int of at least 1.")
    if not 0 < sampling_rate <= 1:
        raise ValueError(
            f"sampling_rate={sampling_rate!r} must lie in (0, 1]; 1 means the full "
            "batch."
        )
    if not 0 < clip_norm < math.inf:
        raise ValueError(f"clip_norm={clip_norm!r} must be a finite positive number.")


def _check_weights(weights: tuple, n_steps: int, sampling_rate: float) -> None:
    if sampling_rate < 1:
        raise ValueError(
            f"noise_weights need the full batch, got sampling_rate={sampling_rate!r}; "
            "leave them out for constant noise."
        )
    if len(weights) != n_steps or not all(0 < w < math.inf for w in weights):
        raise ValueError(
            f"noise_weights must hold n_steps={n_steps} finite positive numbers, got "
            f"{len(weights)} entries."
        )


@functools.lru_cache(maxsize=512)
def _calibrate(
    epsilon: float,
    delta: float,
    n_steps: int,
    sampling_rate: float,
    clip_norm: float,
    sensitivity: float,
    relation: str,
    weights: tuple[float, ...] | None,
    other_events: tuple[Event, ...],
    accountant: str,
) -> PrivacyPlan:
    def plan_with(multipliers: tuple[float, ...]) -> PrivacyPlan:
        return PrivacyPlan(
            target_epsilon=epsilon,
            target_delta=delta,
            n_steps=n_steps,
            sampling_rate=sampling_rate,
            clip_norm=clip_norm,
            sensitivity=sensitivity,
            neighboring_relation=relation,
            noise_multipliers=multipliers,
            other_events=other_events,
            accountant=accountant,
        )

    if other_events and compose(other_events).epsilon(delta) >= epsilon:
        raise ValueError(
            f"other_events already spend epsilon={epsilon!r} at delta={delta!r}: raise "
            "the budget or give them more noise."
        )
    # relative[t] is the schedule at scale 1; the search finds the scale.
    shape = np.ones(1) if weights is None else np.asarray(weights, dtype=float)
    relative = np.sqrt(shape.mean() / shape)
    start = _central_limit_scale(
        epsilon, delta, n_steps, sampling_rate, sensitivity / clip_norm, other_events
    )

    def scaled(scale: float) -> PrivacyPlan:
        return plan_with(tuple((relative * scale).tolist()))

    if scaled(start).mu is not None:  # closed form: the start is the answer
        return _nudge(scaled, start, epsilon, delta)
    return _search(scaled, start, epsilon, delta)


def _central_limit_scale(
    epsilon: float,
    delta: float,
    n_steps: int,
    q: float,
    reach: float,
    other_events: tuple[Event, ...],
) -> float:
    """Return the noise multiplier by Gaussian-DP; exact where q = 1."""
    spent = math.fsum(e.mu**2 for e in other_events if e.mu is not None)
    mu = math.sqrt(max(gdp_mu(epsilon, delta) ** 2 - spent, 1e-12))
    if q == 1:
        return reach * math.sqrt(n_steps) / mu
    # mu = q sqrt(T (exp((reach / noise)**2) - 1)): Bu, Dong, Long and Su 2020.
    return reach / math.sqrt(math.log1p((mu / q) ** 2 / n_steps))


def _nudge(
    scaled: Callable[[float], PrivacyPlan], scale: float, epsilon: float, delta: float
) -> PrivacyPlan:
    """Return the first plan at or above scale that stays within the budget."""
    step = 1e-13
    while (plan := scaled(scale)).epsilon(delta) > epsilon:
        scale, step = scale * (1 + step), step * 2
    return plan


def _search(
    scaled: Callable[[float], PrivacyPlan], start: float, epsilon: float, delta: float
) -> PrivacyPlan:
    """Solve epsilon(scale) = epsilon by the secant method on log against log."""

    def excess(log_scale: float) -> float:
        spent = scaled(math.exp(log_scale)).epsilon(delta)
        return math.log(min(max(spent, 1e-12), 1e12) / epsilon)

    low, high = -math.inf, math.inf  # log scales known to be too small / enough
    x0 = math.log(start)
    f0, slope = excess(x0), -1.0  # epsilon falls at least about as the scale grows
    for _ in range(40):
        low, high = (max(low, x0), high) if f0 > 0 else (low, min(high, x0))
        if -_TOLERANCE < f0 <= 0:
            break
        # Aim just inside the budget, so that the last point is the answer.
        x1 = x0 - min(max((f0 + _TOLERANCE / 2) / slope, -0.7), 0.7)
        if not low < x1 < high and math.isfinite(low + high):
            x1 = (low + high) / 2
        f1 = excess(x1)
        slope = min((f1 - f0) / (x1 - x0), -0.1)
        x0, f0 = x1, f1
    return _nudge(scaled, math.exp(high if math.isfinite(high) else x0), epsilon, delta)
