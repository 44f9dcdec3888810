"""The public facts of one fit: what is trained, and on which plan."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np

from skfdp import defaults
from skfdp.losses import Loss
from skfdp.privacy import Event, PrivacyPlan, calibrate, gdp_mu
from skfdp.rows import RowMap
from skfdp.validation import MOST_ROWS


@dataclasses.dataclass(frozen=True)
class Problem:
    """A validated training problem.

    ``X`` and ``codes`` are private except where ``public`` and ``public_target`` say
    otherwise; every other field is a public fact.
    """

    X: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    classes_source: str
    columns: tuple
    public: np.ndarray
    public_target: bool
    public_labels: np.ndarray | None
    row_map: RowMap
    n_public: int
    loss: Loss
    class_weight: np.ndarray

    @property
    def n_outputs(self) -> int:
        """Columns of the margins."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def capacity(self) -> int:
        """Public bound on the number of rows, for the grid; see `public_count`."""
        return MOST_ROWS * self.n_public

    @property
    def public_columns(self) -> tuple:
        """Names of the public columns."""
        return tuple(
            name
            for name, public in zip(self.columns, self.public, strict=True)
            if public
        )


@dataclasses.dataclass(frozen=True)
class Training:
    """The plan of one fit; events are derived from it.

    Attributes
    ----------
    plan : PrivacyPlan
        Of the loop; the private mean is among its `other_events`.
    mean_event : Event or None
        The private mean, None where there is none.
    exact_mean : bool
        Centre by the exact mean, because all columns are public.
    learning_rate : float
        First step size, on the clipped sum over ``q n clip_norm``.
    private_weight : float
        Factor of the private gradient.
    events : tuple of Event
        Everything that will be released, to be charged before it is.
    """

    plan: PrivacyPlan
    mean_event: Event | None
    exact_mean: bool
    learning_rate: float
    private_weight: float
    events: tuple[Event, ...]


def plan_training(estimator, problem: Problem, seeded: bool) -> Training:
    """Resolve every "auto" and calibrate the noise; sees public facts alone."""
    relation = estimator.neighboring_relation
    reach = 2.0 if relation == "replace_one" else 1.0
    # The rules of `defaults` are for sensitivity clip_norm.
    mu = gdp_mu(estimator.epsilon, estimator.delta) / reach
    n, d = problem.n_public, problem.X.shape[1]
    s2n = defaults.signal_to_noise(mu, n, d, problem.n_outputs)
    if s2n < 2:
        warnings.warn(
            f"the budget is small for n={n} records and {d} features (signal-to-noise "
            f"index {s2n:.2g} < 2): expect little more than the majority class.",
            defaults.UtilityWarning,
            stacklevel=4,
        )
    facts = about(estimator, problem, seeded)
    mean_event, exact_mean = _mean(estimator, problem, mu, reach, facts)
    rate, n_steps = _schedule(estimator, n)
    clip = _clip_norm(estimator, problem, s2n)
    weights = None
    if rate == 1:
        weights = defaults.noise_weights(n_steps, estimator.noise_decay)
    plan = calibrate(
        estimator.epsilon,
        estimator.delta,
        n_steps=n_steps,
        sampling_rate=rate,
        clip_norm=clip,
        sensitivity=reach * clip,
        neighboring_relation=relation,
        noise_weights=weights,
        other_events=() if mean_event is None else (mean_event,),
        accountant=estimator.accountant,
    )
    loop = dataclasses.replace(plan.event, label="descent", **facts)
    return Training(
        plan=plan,
        mean_event=mean_event,
        exact_mean=exact_mean,
        learning_rate=_learning_rate(estimator, problem, mu, plan),
        private_weight=getattr(estimator, "private_weight", 1.0),
        events=(loop,) if mean_event is None else (mean_event, loop),
    )


def about(estimator, problem: Problem, seeded: bool) -> dict:
    """Return what an event says of the whole fit."""
    return {
        "neighboring_relation": estimator.neighboring_relation,
        "public_features": problem.public_columns,
        "public_target": problem.public_target,
        "classes_source": problem.classes_source,
        "seeded": seeded,
    }


def _clip_norm(estimator, problem: Problem, s2n: float) -> float:
    if estimator.clip_norm != "auto":
        return estimator.clip_norm
    largest = problem.loss.max_residual(len(problem.classes))
    largest *= math.hypot(1.0, defaults.BIAS_FEATURE) * problem.class_weight.max()
    return defaults.clip_norm(s2n, largest)


def _learning_rate(estimator, problem: Problem, mu: float, plan: PrivacyPlan) -> float:
    if estimator.learning_rate != "auto":
        return estimator.learning_rate
    return defaults.learning_rate(
        mu,
        problem.n_public,
        plan.n_steps,
        clip_norm=plan.clip_norm,
        momentum=estimator.momentum,
        curvature=problem.loss.curvature,
    )


def _schedule(estimator, n: int) -> tuple[float, int]:
    """Return the sampling rate and the number of steps."""
    batch = estimator.expected_batch(n)
    rate = 1.0 if batch is None else min(1.0, batch / n)
    n_steps = estimator.max_iter
    if n_steps == "auto":
        n_steps = defaults.N_STEPS
        if rate < 1:
            n_steps = math.ceil(defaults.N_EPOCHS / rate)
    return rate, int(n_steps)


def _mean(estimator, problem, mu, reach, facts) -> tuple[Event | None, bool]:
    """Return the event of the private mean, and whether the exact mean is public."""
    centering = estimator.centering
    if centering is None or not estimator.fit_intercept:
        return None, False
    if problem.public.all():
        return None, True
    n, d = problem.n_public, problem.X.shape[1]
    share = getattr(estimator, "mean_fraction", "auto")
    if share == "auto":
        share = defaults.mean_fraction(mu, n, d)
    event = Event(
        label="mean",
        noise_std=(1 / (math.sqrt(share) * mu),),
        clip_norm=1.0,
        sensitivity=reach,
        **facts,
    )
    return event, False
