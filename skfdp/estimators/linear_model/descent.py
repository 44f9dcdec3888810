"""The public facts of one fit: what is trained, and on which plan."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.linear_model.padding import cross_event
from skfdp.estimators.linear_model.sensitivity import ORTHANT
from skfdp.estimators.parameters import MOST_ROWS
from skfdp.privacy import Event, PrivacyPlan, Receipt, Relation, calibrate, gdp_mu
from skfdp.queries.linear import gradient_sensitivity
from skfdp.queries.losses import Loss
from skfdp.records.grid import GridRows
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.names import name_facts
from skfdp.records.row_map import RowMap
from skfdp.records.target import TargetMap
from skfdp.releases.steps import noise_left, warn_of_noise_left

if TYPE_CHECKING:
    from skfdp.estimators.linear_model.public_model import PublicModel


@dataclasses.dataclass(frozen=True)
class Problem:
    """A validated training problem.

    ``X`` and ``target`` are private except where ``public`` and ``public_target`` say
    otherwise; every other field is a public fact. A target is the class of each
    record, 0-based, or for regressors, which have no classes, its value.
    """

    X: np.ndarray
    target: np.ndarray
    classes: np.ndarray | None
    classes_source: str | None
    columns: tuple
    target_name: str | None
    public: np.ndarray
    public_target: bool
    public_labels: np.ndarray | None
    row_map: RowMap
    n_public: int
    loss: Loss
    class_weight: np.ndarray | None
    target_map: TargetMap | None = None
    receipt: Receipt | None = None

    @property
    def n_outputs(self) -> int:
        """Columns of the margins."""
        return 1 if self.n_classes <= 2 else self.n_classes

    @property
    def n_classes(self) -> int:
        """Number of classes, 0 for a regressor."""
        return 0 if self.classes is None else len(self.classes)

    @property
    def largest_residual(self) -> float:
        """Norm that no weighted residual exceeds; inf where there is none."""
        largest = self.loss.max_residual(self.n_classes)
        if self.class_weight is not None:
            largest *= self.class_weight.max()
        return largest

    @property
    def capacity(self) -> int:
        """Public bound on the number of rows, for the grid; see `public_count`."""
        return MOST_ROWS * self.n_public


@dataclasses.dataclass(frozen=True)
class Training:
    """The plan of one fit; events are derived from it.

    Attributes
    ----------
    plan : PrivacyPlan
        Of the loop; the private mean is among its `other_events`.
    mean_event : Event or None
        The private mean, None where there is none.
    cross_event : Event or None
        The cross moments that impute the padding of a public loss.
    exact_mean : bool
        Centre the public columns by their exact mean.
    block_norms : (float, float)
        Typical norms of the public and of the private part of a row that has both.
    target_event, length_event : Event or None
        Released scales of the target, and of the centred rows; regressors only.
    learning_rate : float
        First step size, on the clipped sum over ``q n clip_norm``.
    private_weight : float
        Factor of the private gradient.
    events : tuple of Event
        Everything that will be released, to be charged before it is.
    orthant : bool
        The signs of a contribution are public.
    label_bound : float or None
        How far a replaced label moves a contribution, where that is known better.
    public_model : PublicModel or None
        Margins of a public model, in which the descent starts.
    offset : ndarray of shape (n_rows, n_outputs) or None
        Those margins for the training rows.
    rows : GridRows or None
        The rows of the loop, where the plan needed them because all are public.
    assumptions : tuple of Assumption
        What the guarantee of this plan rests on.
    """

    plan: PrivacyPlan
    mean_event: Event | None
    cross_event: Event | None
    exact_mean: bool
    block_norms: tuple[float, float]
    target_event: Event | None
    length_event: Event | None
    learning_rate: float
    private_weight: float
    events: tuple[Event, ...]
    orthant: bool = False
    label_bound: float | None = None
    public_model: PublicModel | None = None
    offset: np.ndarray | None = None
    rows: GridRows | None = None
    assumptions: tuple = ()

    def noise_in_gradients(self, n_public: int) -> np.ndarray:
        """Return the standard deviation of the noise in each step's gradient."""
        expected = self.plan.sampling_rate * n_public * self.plan.clip_norm
        return self.private_weight * self.plan.noise_std / expected


def plan_training(
    estimator,
    problem: Problem,
    seeded: bool,
    *,
    orthant: bool = False,
    public_model: PublicModel | None = None,
) -> Training:
    """Resolve every "auto" and calibrate the noise; sees public facts alone."""
    relation = Relation.of(estimator.neighboring_relation)
    reach = gradient_sensitivity(relation, 1.0, orthant=orthant)
    # The rules of `defaults` are for sensitivity clip_norm.
    mu = gdp_mu(estimator.epsilon, estimator.delta) / reach
    n, d = problem.n_public, problem.X.shape[1]
    s2n = defaults.signal_to_noise(mu, n, d, problem.n_outputs)
    if public_model is None:
        _warn_of_noise(estimator, s2n, n, d)
    facts = about(estimator, problem, seeded)
    mean_event = cross = None
    if not orthant:
        mean_event = plan_mean(estimator, problem, mu, reach, facts)
    if getattr(estimator, "public_loss", None) == "impute" and not problem.public.all():
        cross = cross_event(problem, reach * mu, facts)
    target_event, length_event = estimator.scale_events(problem, mu, reach, facts)
    first = tuple(filter(None, (target_event, mean_event, length_event, cross)))
    sampling_rate, n_steps = _schedule(estimator, n)
    clip = _clip_norm(estimator, problem, s2n, public_model)
    plan = calibrated_loop(
        estimator,
        n_steps=n_steps,
        sampling_rate=sampling_rate,
        clip_norm=clip,
        sensitivity=gradient_sensitivity(relation, clip, orthant=orthant),
        other_events=first,
    )
    automatic = _automatic_rate(estimator, problem, mu, plan, public_model)
    rate = automatic if estimator.learning_rate == "auto" else estimator.learning_rate
    training = Training(
        plan=plan,
        mean_event=mean_event,
        cross_event=cross,
        exact_mean=centres_exactly(estimator, problem),
        target_event=target_event,
        length_event=length_event,
        block_norms=defaults.block_norms(problem.public, public_model is not None),
        learning_rate=rate,
        private_weight=getattr(estimator, "private_weight", 1.0),
        events=(*first, dataclasses.replace(plan.event, label="descent", **facts)),
        orthant=orthant,
        public_model=public_model,
        assumptions=(ORTHANT,) * orthant,
    )
    # A penalty, or a ball, bounds what the noise can do.
    if estimator._penalty_strength(problem, None) is None and estimator.radius is None:
        _warn_of_schedule(estimator, training, automatic, n)
    return training


def _warn_of_schedule(estimator, training: Training, automatic: float, n: int) -> None:
    """Warn where the schedule leaves little but noise in the weights."""
    n_steps = training.plan.n_steps
    # Longer steps make larger weights, not worse ones: the loss bends them back.
    rate = min(training.learning_rate, automatic)
    steps = rate * (1 - np.arange(n_steps) / n_steps)
    noise = training.noise_in_gradients(n)
    warn_of_noise_left(noise_left(steps, estimator.momentum, noise))


def _warn_of_noise(estimator, s2n: float, n: int, d: int) -> None:
    if s2n < 2:
        warn_caller(
            f"the budget is small for n={n} records and {d} features (signal-to-noise "
            f"index {s2n:.2g} < 2): expect little more than {estimator.baseline}.",
            UtilityWarning,
        )


def calibrated_loop(estimator, *, sampling_rate: float, **schedule) -> PrivacyPlan:
    """Calibrate a loop within the estimator's budget; see `calibrate`."""
    return calibrate(
        estimator.epsilon,
        estimator.delta,
        sampling_rate=sampling_rate,
        neighboring_relation=estimator.neighboring_relation,
        noise_decay=estimator.noise_decay if sampling_rate == 1 else 0.0,
        accountant=estimator.accountant,
        **schedule,
    )


def walk_std(training: Training, momentum: float, n_public: int) -> float:
    """Return the noise that the steps add up to in one weight, without curvature."""
    plan = training.plan
    left = 1 - np.arange(plan.n_steps) / plan.n_steps
    steps = training.learning_rate * left / (1 - momentum) * training.private_weight
    expected = plan.sampling_rate * n_public * plan.clip_norm
    return float(np.sqrt(((steps * plan.noise_std / expected) ** 2).sum()))


def about(estimator, problem: Problem, seeded: bool) -> dict:
    """Return what an event says of the whole fit."""
    return {
        "neighboring_relation": estimator.neighboring_relation,
        "classes_source": problem.classes_source,
        "seeded": seeded,
        **name_facts(
            problem.columns,
            problem.public,
            target=problem.target_name,
            public_target=problem.public_target,
        ),
    }


def _clip_norm(estimator, problem: Problem, s2n: float, public_model) -> float:
    if estimator.clip_norm != "auto":
        return estimator.clip_norm
    if public_model is not None:
        return defaults.clip_norm_from_public_model(len(problem.classes))
    largest = problem.largest_residual * math.hypot(1.0, defaults.BIAS_FEATURE)
    return defaults.clip_norm(s2n, largest, regression=problem.classes is None)


def _automatic_rate(
    estimator, problem: Problem, mu: float, plan: PrivacyPlan, public_model
) -> float:
    if public_model is not None:
        return defaults.learning_rate_from_public_model(
            mu,
            problem.n_public,
            plan.n_steps,
            n_classes=len(problem.classes),
            n_private=int((~problem.public).sum()),
            momentum=estimator.momentum,
        )
    return defaults.learning_rate(
        mu,
        problem.n_public,
        plan.n_steps,
        clip_norm=plan.clip_norm,
        momentum=estimator.momentum,
        curvature=problem.loss.curvature,
        regression=problem.classes is None,
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


def _centres(estimator) -> bool:
    return estimator.centering is not None and bool(estimator.fit_intercept)


def centres_exactly(estimator, problem: Problem) -> bool:
    """Whether there are public columns to be centred by their exact mean."""
    return _centres(estimator) and bool(problem.public.any())


def plan_mean(
    estimator, problem: Problem, mu: float, reach: float, facts: dict
) -> Event | None:
    """Return the event of the mean of the private columns, None for no centring."""
    if not _centres(estimator) or problem.public.all():
        return None
    n, d = problem.n_public, int((~problem.public).sum())
    share = getattr(estimator, "mean_fraction", "auto")
    if share == "auto":
        share = defaults.mean_fraction(mu, n, d)
    return Event(
        label="mean",
        noise_std=(1 / (math.sqrt(share) * mu),),
        clip_norm=1.0,
        sensitivity=reach,
        **facts,
    )
