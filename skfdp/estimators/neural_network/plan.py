"""The public facts of one fit of a network: what is trained, and on which plan."""

from __future__ import annotations

import dataclasses
import math
import numbers

import numpy as np

from skfdp.estimators import defaults
from skfdp.estimators.neural_network.linear_start import LinearStart
from skfdp.estimators.parameters import MOST_ROWS, resolved_parameters
from skfdp.privacy import Event, PrivacyPlan, Receipt, Relation, calibrate, gdp_mu
from skfdp.queries.class_sums import ClassSum
from skfdp.queries.linear import gradient_sensitivity
from skfdp.queries.losses import Loss
from skfdp.queries.network import WIDEST
from skfdp.records.blocks import blocks
from skfdp.records.checks import shown
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.names import name_facts
from skfdp.records.row_map import RowMap
from skfdp.releases.steps import noise_left, warn_of_noise_left

#: Parameters that do nothing without a loop, and their defaults.
OF_THE_LOOP = {
    "trained_layers": "auto",
    "public_loss": "auto",
    "public_batch_size": None,
    "private_weight": 1.0,
    "clip_norm": "auto",
    "max_iter": "auto",
    "batch_size": "auto",
    "learning_rate": "auto",
    "learning_rate_decay": 1.0,
    "momentum": 0.9,
    "average": "last",
    "noise_decay": 0.75,
    "radius": None,
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A validated training problem of a network.

    ``X`` and ``codes`` are private except where ``public`` and ``public_target`` say
    otherwise; every other field is a public fact.
    """

    X: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    classes_source: str
    columns: tuple
    target_name: str | None
    public: np.ndarray
    public_target: bool
    row_map: RowMap
    n_public: int
    loss: Loss
    class_weight: np.ndarray
    hidden: tuple[int, ...]
    receipt: Receipt | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """Width of every layer, the input's without a constant."""
        n_classes = len(self.classes)
        return (self.X.shape[1], *self.hidden, 1 if n_classes == 2 else n_classes)

    @property
    def capacity(self) -> int:
        """Public bound on the number of rows, for the grid."""
        return MOST_ROWS * self.n_public

    @property
    def private_bound(self) -> float:
        """Guess of the norm of the private columns of a row, each within [0, 1]."""
        private, mean_square = ~self.public, None
        if self.row_map.span is not None and self.public.any():
            public = self.row_map.of_public(self.public)
            squares = (
                float((public.scale(self.X[block][:, self.public]) ** 2).sum())
                for block in blocks(*self.X.shape)
            )
            mean_square = sum(squares) / (len(self.X) * int(self.public.sum()))
        return defaults.sums_bound(int(private.sum()), mean_square)

    @property
    def bounded(self) -> bool:
        """Whether every column has declared bounds."""
        span = self.row_map.span
        return span is not None and bool(np.isfinite(span).all())

    @property
    def private_bounded(self) -> bool:
        """Whether every private column has declared bounds."""
        span = self.row_map.span
        return span is not None and bool(np.isfinite(span[~self.public]).all())


def network_parameters(estimator, problem: Problem) -> dict:
    """Return the parameters of a fit as they were resolved, for its streams."""
    return resolved_parameters(
        estimator,
        problem.public,
        problem.row_map,
        classes=len(problem.classes),
        class_weight=problem.class_weight,
        hidden_layer_sizes=problem.hidden,
    )


@dataclasses.dataclass(frozen=True)
class NetworkTraining:
    """The plan of one fit; events are derived from it.

    Attributes
    ----------
    plan : PrivacyPlan or None
        Of the loop; None where what comes before takes the whole budget.
    sums_event : Event or None
        The class sums.
    linear : LinearStart or None
        The linear model.
    pretraining : {None, "public", "class_sums", "linear"}
        What the network learns from before the loop.
    trained_layers : {"all", "last"}
    learning_rate : float
        First step, on the clipped sum over ``q n clip_norm``.
    row_map : RowMap
        Of the rows that the network meets.
    events : tuple of Event
        Everything that will be released, to be charged before it is.
    """

    plan: PrivacyPlan | None
    sums_event: Event | None
    linear: LinearStart | None
    pretraining: str | None
    trained_layers: str
    learning_rate: float
    row_map: RowMap
    events: tuple[Event, ...]

    @property
    def n_steps(self) -> int:
        """Steps of the loop."""
        return 0 if self.plan is None else self.plan.n_steps


def plan_network(estimator, problem: Problem, seeded: bool) -> NetworkTraining:
    """Resolve every "auto" and calibrate the noise; sees public facts alone."""
    facts = {
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
    pretraining, share = _pretraining(estimator, problem)
    sums, linear, first, row_map = None, None, (), problem.row_map
    if pretraining == "class_sums":
        sums = _sums_event(estimator, problem, share, facts)
        first = (sums,)
    if pretraining == "linear":
        linear = LinearStart.plan(
            estimator, problem, problem.private_bound, share, facts
        )
        first = linear.events
        # Rows that the network shortened would meet other weights than were trained.
        longest = math.sqrt(problem.X.shape[1])
        row_map = dataclasses.replace(row_map, feature_bound=longest)
        if share == 1:
            row_map = linear.problem.row_map
    layers = _trained_layers(estimator, problem, pretraining)
    if share == 1.0:
        return NetworkTraining(
            None, sums, linear, pretraining, layers, 0.0, row_map, first
        )
    plan = _loop(estimator, problem, layers, first)
    loop = dataclasses.replace(plan.event, label="descent", **facts)
    rate = _learning_rate(estimator, problem, layers, plan)
    if pretraining is None and not problem.public_target:
        _warn_of_chance(estimator, problem, plan, rate)
    _warn_of_noise(estimator, problem, plan, rate)
    return NetworkTraining(
        plan=plan,
        sums_event=sums,
        linear=linear,
        pretraining=pretraining,
        trained_layers=layers,
        learning_rate=rate,
        row_map=row_map,
        events=(*first, loop),
    )


def _warn_of_noise(estimator, problem: Problem, plan: PrivacyPlan, rate: float):
    """Warn where the schedule leaves little but noise in the weights."""
    if estimator.radius is not None:  # a ball bounds what the noise can do
        return
    steps = np.arange(plan.n_steps) / plan.n_steps
    expected = plan.sampling_rate * problem.n_public * plan.clip_norm
    warn_of_noise_left(
        noise_left(
            rate * (1 - estimator.learning_rate_decay * steps),
            estimator.momentum,
            estimator.private_weight * plan.noise_std / expected,
        )
    )


def _warn_of_chance(estimator, problem: Problem, plan: PrivacyPlan, rate: float):
    """Warn where the random start says more than the budget can teach."""
    pace = (1 - estimator.learning_rate_decay / 2) / (1 - estimator.momentum)
    index = defaults.network_index(rate * plan.n_steps * pace, problem.widths)
    if index < 2:
        warn_caller(
            f"the budget is small for a network of hidden layers {problem.hidden} with "
            f"a private target, {problem.n_public} records and {problem.widths[0]} "
            f"features (signal-to-noise index {index:.2g} < 2): unless the classes lie "
            "far apart, expect little more than chance, which its random start "
            "decides. FeatureDPLogisticRegression needs far less.",
            UtilityWarning,
        )


def _pretraining(estimator, problem: Problem) -> tuple[str | None, float | None]:
    """Return what to learn from before the loop, and its share of mu**2, if any."""
    chosen = estimator.pretraining
    possible = problem.public_target and problem.private_bounded
    if chosen == "auto":
        chosen = None
        plain = estimator.public_loss in ("auto", None)
        if plain and _refusal_of_linear(estimator, problem) is None:
            chosen = "linear"
        elif possible and len(problem.classes) >= defaults.MANY_CLASSES:
            chosen = "class_sums"
        elif problem.public_target and problem.public.any():
            chosen = "public"
    if chosen == "linear":
        refusal = _refusal_of_linear(estimator, problem)
        if refusal is not None:
            raise ValueError(f"pretraining='linear' {refusal}")
    if chosen == "class_sums" and not possible:
        raise ValueError(
            "pretraining='class_sums' sums private columns by public class: it needs "
            "public_target=True and bounds for every private column."
        )
    if chosen == "public" and not (problem.public_target and problem.public.any()):
        raise ValueError(
            "pretraining='public' learns from public columns: it needs "
            "public_target=True and public_features."
        )
    if estimator.public_loss == "impute" and chosen != "class_sums":
        raise ValueError(
            "public_loss='impute' draws private columns given the class: it needs "
            "pretraining='class_sums'."
        )
    if chosen not in defaults.PRETRAINING_SHARES:
        return chosen, None
    return chosen, _share(estimator, chosen)


def _share(estimator, pretraining: str) -> float:
    """Return the share of mu**2 for what is released before the loop."""
    if estimator.pretraining_share != "auto":
        return min(1.0, float(estimator.pretraining_share))
    share = defaults.PRETRAINING_SHARES[pretraining]
    if any(getattr(estimator, name) != auto for name, auto in OF_THE_LOOP.items()):
        share = min(share, 0.5)  # who sets them wants a loop
    return share


def _refusal_of_linear(estimator, problem: Problem) -> str | None:
    """Return why a network cannot start at a linear model, None if it can."""
    least = 2 * problem.widths[-1]
    if not problem.public_target or min(problem.hidden, default=0) < least:
        return (
            "starts from a linear model, which two neurons for each output pass on: it "
            f"needs public_target=True and hidden layers of at least {least} neurons."
        )
    if estimator.normalize or estimator.feature_bound != "auto":
        return (
            "maps the rows as FeatureDPLogisticRegression does: it needs "
            "normalize=False and feature_bound='auto'."
        )
    if _share(estimator, "linear") < 1 and not problem.bounded:
        return (
            "with a loop needs bounds for every column: declare them, or set "
            "pretraining_share=1.0 and no parameter of the loop."
        )
    return None


def _trained_layers(estimator, problem: Problem, pretraining: str | None) -> str:
    layers = estimator.trained_layers
    if layers == "auto":
        layers = "last" if pretraining in defaults.PRETRAINING_SHARES else "all"
        if not problem.hidden or estimator.public_loss not in ("auto", None):
            layers = "all"
    # Inputs may be negative, activations may not: the bound of the sensitivity.
    if layers == "last" and (
        not problem.hidden
        or pretraining is None
        or estimator.public_loss not in ("auto", None)
    ):
        raise ValueError(
            "trained_layers='last' needs hidden layers that were pretrained and no "
            f"public loss, got pretraining={pretraining!r} and "
            f"public_loss={estimator.public_loss!r}."
        )
    return layers


def _sums_event(estimator, problem: Problem, share: float, facts: dict) -> Event:
    """Return the event of the class sums, in units of rows of norm 1."""
    query = ClassSum.planned(nonnegative=problem.private_bounded)
    reach = query.sensitivity(Relation.of(estimator.neighboring_relation))
    mu = math.sqrt(share) * gdp_mu(estimator.epsilon, estimator.delta)
    # Rounding may not push the sums alone above the budget.
    std = reach / mu * (1 + 1e-12)
    return Event(
        label="class sums",
        noise_std=(std,),
        clip_norm=query.clip_norm,
        sensitivity=reach,
        **facts,
    )


def _loop(estimator, problem: Problem, layers: str, others: tuple) -> PrivacyPlan:
    relation, n = estimator.neighboring_relation, problem.n_public
    clip, batch = estimator.clip_norm, estimator.batch_size
    if clip == "auto":
        clip = {
            "all": defaults.NETWORK_CLIP,
            "last": defaults.LAST_LAYER_CLIP,
        }[layers]
    # Activations are not negative and the target fixes the signs of the errors.
    orthant = layers == "last" and problem.public_target
    if batch == "auto":
        batch = defaults.network_batch(n) if layers == "all" else None
    rate = 1.0 if batch is None else min(1.0, batch / n)
    n_steps = estimator.max_iter
    if n_steps == "auto":
        n_steps = defaults.NETWORK_STEPS
        if rate < 1:
            n_steps = math.ceil(defaults.NETWORK_EPOCHS / rate)
    return calibrate(
        estimator.epsilon,
        estimator.delta,
        n_steps=n_steps,
        sampling_rate=rate,
        clip_norm=clip,
        sensitivity=gradient_sensitivity(Relation.of(relation), clip, orthant=orthant),
        neighboring_relation=relation,
        noise_decay=estimator.noise_decay if rate == 1 else 0.0,
        other_events=others,
        accountant=estimator.accountant,
    )


def _learning_rate(estimator, problem: Problem, layers: str, plan: PrivacyPlan):
    if estimator.learning_rate != "auto":
        return estimator.learning_rate
    n, momentum = problem.n_public, estimator.momentum
    first = float(plan.noise_std[0]) / plan.clip_norm
    if layers == "last" and plan.sampling_rate == 1:
        # mu of the loop for sensitivity clip_norm, as the rule wants it
        mu = math.sqrt(float((plan.clip_norm**2 / plan.noise_std**2).sum()))
        return defaults.last_layer_learning_rate(
            mu,
            n,
            problem.widths[-2] + 1,
            len(problem.classes),
            plan.n_steps,
            momentum,
        )
    return defaults.network_learning_rate(
        first, plan.sampling_rate * n, plan.n_steps, momentum
    )


def hidden_layers(hidden_layer_sizes) -> tuple[int, ...]:
    """Return the widths of the hidden layers, or raise ValueError."""
    sizes = hidden_layer_sizes
    if isinstance(sizes, numbers.Integral) and not isinstance(sizes, bool):
        sizes = (sizes,)
    valid = isinstance(sizes, (tuple, list, np.ndarray)) and all(
        isinstance(size, numbers.Integral) and 1 <= size <= WIDEST for size in sizes
    )
    if not valid:
        raise ValueError(
            f"hidden_layer_sizes={shown(hidden_layer_sizes)} must be an int or a "
            f"sequence of ints from 1 to {WIDEST}."
        )
    return tuple(int(size) for size in sizes)
