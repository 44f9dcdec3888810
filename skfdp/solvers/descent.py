"""Noisy gradient descent of linear models: preparation, plan and run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from skfdp.data._basis import MISSING, OTHER, contrasts
from skfdp.data.grid import Integers
from skfdp.data.records import Coordinates, PublicRecords, Records
from skfdp.data.target import RECODED, class_shares, log_odds
from skfdp.data.validation import UtilityWarning, warn_caller
from skfdp.kernels.losses import Loss
from skfdp.mechanisms.descent import HeavyBall, descent, warn_of_noise_left
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import Event
from skfdp.privacy.events import ASSUMED, Relation
from skfdp.queries.linear import LinearQuery, has_public_signs, label_bound
from skfdp.queries.statistics import LabelSum
from skfdp.solvers import NoisyGradientDescent, parameters, postprocessing, public_model
from skfdp.solvers.centring import Centring, Moments, public_moments
from skfdp.solvers.method import Budget, Needs, Plan
from skfdp.solvers.postprocessing import (
    ESTIMATED,
    CoefficientNoise,
    LinearFit,
    curve_noise,
    matrix_of,
    path_noise,
)
from skfdp.solvers.public_model import resolve_public_model
from skfdp.solvers.target_scales import TargetScales


class DescentStart(NamedTuple):
    """The result of preparing a descent.

    `moments` are those of the public columns. `has_model` is whether the descent starts
    at a model of the public columns: `public_model`, or a released one. `offset` are
    its margins for the training rows, shape (n_rows, n_outputs). At the margins
    `fitted`, `public_model.clipped_away` estimates the bias of clipping. If every
    column is public, `coordinates` are the centring and scaling of the rows, and `rows`
    the quantised rows.
    """

    moments: Moments | None = None
    public_model: Any = None
    has_model: bool = False
    offset: np.ndarray | None = None
    fitted: np.ndarray | None = None
    coordinates: Coordinates | None = None
    rows: Integers | None = None

    def at(self, margins: np.ndarray) -> DescentStart:
        """Return the start at the margins of a released model."""
        return self._replace(offset=margins)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescentPlan(Plan):
    """The plan of a descent.

    The first step size, `learning_rate`, multiplies the noisy sum of clipped gradients,
    divided by ``q n clip_norm`` for n records and the sampling rate q. `norms` are the
    typical norms of the public and of the private part of a row. For `orthant` and
    `label_bound` see `LinearQuery`.

    `centred` is the plan to use instead if the released mean is long enough to be
    subtracted. After the subtraction signs are not public, so it has a smaller clip
    norm at the same sensitivity. None: the plan does not depend on the mean.
    """

    learning_rate: float
    norms: tuple[float, float] = (1.0, 1.0)
    orthant: bool = False
    label_bound: float | None = None
    centred: DescentPlan | None = None

    @functools.cached_property
    def with_signs(self) -> DescentPlan:
        """The plan for contributions whose signs are public; its `centred` is this one.

        The clip norm is then sqrt(2) times as large, at the same sensitivity and noise.
        """
        *others, event = self.events
        clip_norm = math.sqrt(2) * event.clip_norm
        return dataclasses.replace(
            self,
            events=(*others, dataclasses.replace(event, clip_norm=clip_norm)),
            assumptions=(ASSUMED["columns_non_negative_or_centred"], *self.assumptions),
            orthant=True,
            centred=self,
        )


def gradients(
    records: Records,
    offset: np.ndarray | None = None,
    rows: Integers | None = None,
    *,
    coordinates: Coordinates,
    at_random: bool,
    pads: bool,
    padded: Integers | None,
    **settings: Any,
) -> LinearQuery:
    """Return the query for the sum of clipped gradients; a recipe of `Records.query`.

    `rows` are the quantised rows, if all columns are public; otherwise rows are
    quantised here, and may be coded. With `at_random` targets are stored beside them.
    `pads` is whether a public loss replaces private columns (padding), and `padded` are
    its rows; None: the same `rows`, because all columns are public.
    """
    public = records.public
    if rows is None:
        target, cuts = (records.target if at_random else None), coordinates.longest
        if not pads and cuts is None and public.mask.any():
            rows = coordinates.of_codes(records.coded)
        elif not pads and cuts is None:
            divisor = coordinates.input_scaler.divisor_of_integers
            given = coordinates.mean, coordinates.bias, 1 / divisor
            rows = records.taken().moved(*given, float(coordinates.scale), target)
        if rows is None:
            table = records.mapped if cuts is None else records.floats
            rows = coordinates.grid(table, target)
        vars(records).pop("integers", None)  # frees the memory
    return LinearQuery(
        rows=rows,
        target=records.target,
        n_outputs=public.n_outputs,
        capacity=public.capacity,
        class_weight=public.class_weight,
        padded=rows if pads and padded is None else padded,
        public_target=public.has_target,
        offset=offset,
        units=public.units,
        exposure=records.exposure,
        **settings,
    )


CLASS_COUNTS = "class counts"
#: Error of a released frequency to aim at, and least and largest share of ``mu**2``.
FREQUENCY_ERROR, COUNT_SHARES = 0.035, (0.02, 0.4)
#: Share of records without a declared label beyond which a fit warns.
MOST_UNDECLARED = 0.05
#: The steps last at most this many time constants of the pull of a penalty. After 8,
#: exp(-8) of the start remains.
TIME_CONSTANTS = 8.0


def released_log_odds(
    records: Records, found: Event, mechanism: Mechanism
) -> np.ndarray:
    """Release and check class counts; return log odds of the classes, (n_outputs,).

    They follow from the posterior mean of the class frequencies. The prior is uniform:
    the frequency p of one of K classes has a density proportional to
    ``(1 - p)**(K - 2)``.
    """
    public = records.public
    n, n_classes = public.n_records, public.n_classes
    recipe = functools.partial(LabelSum.of, n_outputs=n_classes, row_bound=1.0)
    counts = mechanism.release(CLASS_COUNTS, records.query(recipe))[:, 0]
    noise_std = float(found.noise_std[0])
    check_counts(counts, noise_std, public, Relation.of(found.neighboring_relation))
    # The frequencies sum to 1, so their mean is known.
    noisy = 1 / n_classes + (counts - counts.mean()) / n
    std = max(noise_std * math.sqrt(1 - 1 / n_classes) / n, 1e-9)
    ends = np.minimum(noisy, 1) - 8 * std, np.maximum(noisy, 0) + 8 * std
    share = np.linspace(*np.clip(ends, 0, 1), 201)
    log = -(((share - noisy) / std) ** 2) / 2
    weight = np.exp(log - log.max(axis=0)) * (1 - share) ** (n_classes - 2)
    found = np.average(share, axis=0, weights=weight)
    # n records without noise, of which k are of a class, have its posterior mean at
    # (k + 1) / (n + K). So no class counts as empty.
    return log_odds((n * found / found.sum() + 1) / (n + n_classes))


def check_counts(
    counts: np.ndarray, noise_std: float, public: PublicRecords, relation: Relation
) -> None:
    """Check the declared labels against released class counts, as post-processing.

    `counts` have noise of standard deviation `noise_std`. Raise ValueError if a
    declared class is nearly empty while many records have no declared label, as when
    scikit-learn has coded the labels as 0, ..., k - 1. Noise alone exceeds four
    standard deviations in 1 of 30,000 fits, and three in 1 of 740.

    **Guarantees.** The check uses released and public numbers alone. It is skipped if
    the number of records is private, or if the classes were read from y.
    """
    if not relation.counts_are_public or public.classes_source != "declared":
        return
    missing, doubt = public.n_records - counts.sum(), math.sqrt(len(counts)) * noise_std
    if missing <= 4 * doubt:
        return
    without = (
        f"of {public.n_records} {public.unit}s about "
        f"{min(missing, public.n_records):.0f} (a released count, "
        f"with noise of standard deviation {doubt:.0f}) have no label of classes="
        f"{public.classes.tolist()!r}"
    )
    remedy = "declare every label that can occur"
    if not public.private_bounded and public.levels is None:
        without += ", or a missing value in a column without bounds"
        remedy += ", and bounds of every column"
    empty = int(counts.argmin())
    if counts[empty] <= 3 * noise_std:
        raise ValueError(
            f"{without}, and class {public.classes.tolist()[empty]!r} has about "
            f"{max(counts[empty], 0):.0f} {public.unit}s (with noise of standard "
            f"deviation {noise_std:.0f}). {RECODED}"
        )
    if missing > MOST_UNDECLARED * public.n_records:
        warn_caller(f"{without}; they are ignored: {remedy}.", UtilityWarning)


# Larger iterates or gradients are not used, because their products could overflow.
_MOST_STEP = 1e50


def answer_of(
    rule: HeavyBall,
    steps: list[tuple[np.ndarray, np.ndarray]] | None,
    public: PublicRecords,
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the result of `path_noise`, or None without usable steps."""
    if steps is None or np.abs(steps).max() > _MOST_STEP:
        return None
    n_outputs, n_columns = steps[0][0].shape
    axes = np.eye(n_columns)
    levels = np.array([-1]) if public.levels is None else public.levels
    # The one-hot columns of a categorical column sum to 0 after centring. The loss
    # therefore has no curvature along the sum of their weights. The axes of these
    # weights are their sum and differences.
    for k in np.unique(levels[levels >= 0]):
        at = np.flatnonzero(levels == k)
        ones = np.full((len(at), 1), len(at) ** -0.5)
        axes[np.ix_(at, at)] = np.hstack([ones, contrasts(len(at))])
    axes = np.kron(np.eye(n_outputs), axes)
    # Weights of one kind have a common prior. The kinds are private numbers, public
    # numbers, the categories of each column, and the intercept.
    own = np.where(public.mask, -2, -1)
    if public.levels is not None:
        own = np.where(public.levels < 0, own, public.levels)
    kinds = np.full((n_outputs, n_columns), -3)
    kinds[:, : own.size] = own
    return path_noise(steps, rule, axes, kinds.ravel())


def levels_of(
    public: PublicRecords, coordinates: Coordinates
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """Return the `blocks` of `curve_noise`; the last one has all other columns."""
    known = coordinates.input_scaler.divisor, coordinates.mean, coordinates.scale
    divisor, mean, scale = np.broadcast_arrays(*known)
    n_columns, of_block = len(mean) + 1, public.encoding.block
    rows, found = np.zeros((len(public.encoding.public_encoded), n_columns)), []
    own = slice(len(of_block))
    rows[:, own] = public.encoding.weights(np.eye(len(of_block))).T / divisor[own]
    rows[:, own] = (rows[:, own] - mean[own]) * scale[own]
    for place, block in enumerate(public.effects):
        columns = np.flatnonzero(of_block == place)
        n_drawn = len({*block.levels} - {MISSING, OTHER})
        found.append((columns, rows[block.start : block.stop, columns], n_drawn))
    others = np.arange(len(of_block), n_columns)
    return [*found, (others, np.eye(len(others)), 0)]


def noise_of(
    rule: HeavyBall,
    answer: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
    path: tuple[np.ndarray, np.ndarray, np.ndarray],
    coordinates: Coordinates,
    public: PublicRecords,
    counts: Event | None,
    along: np.ndarray,
    measured: float,
    follows: bool,
) -> CoefficientNoise:
    """Return the noise of the coefficients: an estimate, or an upper bound.

    The noise of the intercept includes the errors of the released mean and of the log
    odds at which the descent starts, as if the steps did not reduce these errors.

    `answer` is the result of `path_noise`; None: return an upper bound. `path` are the
    weights at the start, after the last step, and as published. `counts` is the event
    of the class counts, if their log odds are the starting intercept. For `along` and
    `measured` see `postprocessing.scaled`. `follows` is whether the steps start at the
    margins of a released model.
    """
    start, ended, theta = path
    weights = (theta[:, : public.mask.size] * coordinates.scale)[:, ~public.mask]
    variance = coordinates.mean_error**2 * (weights**2).sum(axis=1)
    if counts is not None:
        std = float(counts.noise_std[0]) / public.n_records
        margins, n_classes = coordinates.bias * start[:, -1], public.n_classes
        if len(margins) == 1:
            # Frequencies are centred, so each has half of the difference of the two
            # noises.
            share = 1 / (1 + np.exp(-margins))
            variance = variance + (std / (share * (1 - share))) ** 2 / 2
        else:
            share = np.exp(margins - margins.max())
            own = (std * share.sum() / share) ** 2
            variance = variance + (own * (1 - 2 / n_classes) + own.sum() / n_classes**2)
    # The factor that multiplied each column of the released step.
    step, scaled = ended - start, theta - start
    if len(step) > 1:  # predictions do not depend on the mean over the classes
        step, scaled = step - step.mean(axis=0), scaled - scaled.mean(axis=0)
    square = (step**2).sum(axis=0)
    factor = (step * scaled).sum(axis=0) / np.where(square > 0, square, 1.0)
    factor = np.broadcast_to(factor, step.shape)
    if answer is None:
        # The factor is computed from the noisy step. A factor below 1 therefore does
        # not always reduce the noise, and counts as 1.
        left = rule.noise_left() * np.maximum(factor, 1.0)
        return CoefficientNoise.of_independent(left, coordinates, np.sqrt(variance))
    covariance, remaining, curvature, *at_most = answer
    n_outputs, n_columns = theta.shape
    each = np.eye(n_outputs)
    # The published part of the step, as a linear map of the step.
    taken = np.diag(factor.ravel())
    if theta is not ended and n_outputs > 1:  # the scaled step has no class mean
        taken = np.kron(each - 1 / n_outputs, np.eye(n_columns)) @ taken
    step = (theta - start).ravel()
    pull = step @ curvature
    if measured and pull @ step > 0:
        # The measured factor minimises the loss along the noisy step. It corrects noise
        # in this direction.
        taken = taken - measured * np.outer(step, pull @ taken) / (pull @ step)
    shape = n_outputs, n_columns, n_outputs, n_columns
    each = taken @ covariance @ taken.T
    own = np.einsum("kakb->kab", each.reshape(shape))
    own = own + along[:, :, None] * along[:, None]
    noise = CoefficientNoise.of_weights(own, coordinates.fold, ESTIMATED, *at_most)
    noise.covariance[(slice(None), *(-1,) * (noise.covariance.ndim - 1))] += variance
    if not follows or noise.covariance.ndim == 2:
        return noise
    each = taken @ (np.eye(step.size) - remaining)
    gone = np.einsum("kakb->kab", each.reshape(shape))
    J = matrix_of(coordinates.fold, n_columns)
    remaining = np.eye(len(J)) - J @ gone @ np.linalg.pinv(J)
    return dataclasses.replace(noise, remaining=remaining)


#: What ``class_weight="balanced"`` needs of a descent.
BALANCED_NEEDS = (
    "the log loss, an intercept and class counts, which fits with C, public_loss, "
    "max_weight_norm, gradient_scale, your own public_model or a "
    "tiny budget do not release (a dict of public weights needs none of them)"
)
_FEW_CLASSES = f"fewer than {public_model.MOST_BOOSTED} classes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Descent:
    """Noisy gradient descent of a linear model.

    This is DP-SGD. With private centring it is DPSGD-F (Sun, Suresh and Menon 2023),
    and with a public loss Algorithm 1 of Mahloujifar et al. (2023).

    Classifiers have the strength s of a `penalty` ``s / 2 |w|**2`` per record, and
    regressions the `scales` of their target and penalty. `padding` names the values
    that replace private columns in a public loss, "zero" or "gaussian". `public_model`
    is the model to start from, as in `FeatureDPLogisticRegression`, and `beside` one
    that it may average with a linear model, an estimator instead of trees.
    `follows` is whether the descent starts at the margins of a released model instead.
    """

    loss: Loss
    loop: NoisyGradientDescent
    centring: Centring
    penalty: float | None = None
    scales: TargetScales | None = None
    padding: str | None = None
    public_model: Any = None
    beside: Any = None
    follows: bool = False
    n_jobs: int = 1

    def needs(self, public: PublicRecords, budget: Budget) -> Needs:
        """Return the needs: any table, unless there is a public loss."""
        padded, name = self.padding is not None, f"public_loss={self.padding!r}"
        fills = self.padding == "gaussian" and public.n_private > 0
        table = (
            *(Needs.IN_MEMORY, Needs.OWN_ROW) * padded,
            *(Needs.DENSE,) * fills,
            *(budget.counted() if padded else ()),
        )

        def balanced() -> tuple[str, ...]:
            mine = not (self.public_model is None or isinstance(self.public_model, str))
            counted = not mine and self._counts(public, budget) is not None
            usual = self.loss.name == "log_loss" and self.centring.fit_intercept
            return (BALANCED_NEEDS,) * (not usual or not (public.has_target or counted))

        rate, _ = parameters.batches_of(self.loop, public.n_records, 1)
        partly = Needs.PUBLIC_COLUMNS, Needs.PRIVATE_COLUMNS
        free = (
            "loss fit_intercept class_weight threshold power C alpha public_model=None"
        )
        honours = {
            **parameters.honoured_by_loop(self.loop, rate, self.padding),
            **self.centring.honours(),
            **dict.fromkeys(free.split(), ()),
            "class_weight='balanced'": balanced,
            "public_model": partly,
            "public_model='boosting'": (
                *partly,
                *(Needs.DENSE,) * (public.encoding is None),
                *(_FEW_CLASSES,) * (public.n_classes >= public_model.MOST_BOOSTED),
            ),
        }
        return Needs(name if padded else "a noisy descent", honours, table)

    def prepare(self, public: PublicRecords, budget: Budget) -> DescentStart:
        """Compute the moments of public columns, a public model, and public rows."""
        known = public, self.centring.centres
        moments = public_moments(*known) if public.mask.any() else None
        found: dict[str, Any] = {"moments": moments, "has_model": self.follows}
        if self.scales is None and public.mask.all():  # label-DP: public rows
            known = public, moments, self.centring.bias
            coordinates = self.centring.public_coordinates(*known)
            found["coordinates"] = coordinates
            if budget.relation.replaces:
                found["rows"] = coordinates.grid(public.mapped)
        spec, model = None if public.mask.all() else self.public_model, None
        if isinstance(spec, str) and spec == "auto":
            usual = self.scales is None or self.scales.fit_intercept
            usual = usual and public.has_target and self.padding is None
            size = public.n_records, public.n_classes, public.n_private
            many = public.n_classes >= parameters.MANY_CLASSES
            if not usual or (many and parameters.is_far(budget.mu, *size)):
                spec = None
        if spec is not None:
            model = self._resolved(spec, public)
            margins = model.training_margins(public.rows(), public.target, public.units)
            if not np.isfinite(margins).all():
                raise ValueError(
                    f"public_model={self.public_model!r} predicts margins that are not "
                    "finite: fit it on rows like input_scaler_(X), or scale it down."
                )
            # A published model must not contain margins of rows.
            model = dataclasses.replace(model, out_of_fold=None)
            found |= {"public_model": model, "has_model": True, "offset": margins}
            found["fitted"] = margins
        cuts = self.scales is not None and not public.target_map.log
        partly = public.mask.any() and not public.mask.all()
        automatic = model is not None and isinstance(self.public_model, str)
        if public.has_target and cuts and partly and not automatic:
            # Estimate the bias of clipping at a fitted model, because residuals of a
            # poor start are too large.
            known = public.rows(), public.target, public.units
            found["fitted"] = self._resolved("auto", public).training_margins(*known)
        return DescentStart(**found)

    def _resolved(self, spec: Any, public: PublicRecords) -> Any:
        # Trees would take every core, and many times as long if others use them.
        with threadpool_limits(self.n_jobs, "openmp"):
            return resolve_public_model(spec, public, self.beside)

    def plan(self, public, prepared, budget: Budget) -> DescentPlan:
        """Resolve every "auto" and calibrate the noise."""
        replaced = budget.mu / budget.relation.sensitivity(1.0)
        # Whether contributions have public signs if no mean is subtracted.
        signed = (
            self.centring.kind not in ("gaussian", "adaptive")
            and self.padding is None
            and (public.units is None or not public.units.joint)
            and has_public_signs(public, self.loss)
        )
        learns = self.centring.can_learn_mean(public, replaced, signed)
        orthant = signed and not learns
        reach = budget.relation.sensitivity(1.0, math.sqrt(2) if orthant else None)
        # The rules of `parameters` assume that the sensitivity is the clip norm.
        mu, n = budget.mu / reach, public.n_records
        s2n = mu * n / math.sqrt(public.n_features * public.n_outputs)
        others = self._other_events(public, prepared.has_model, budget, mu, learns)
        enough = parameters.n_steps(mu * n, public.n_features)
        rate, n_steps = parameters.batches_of(self.loop, n, enough)
        clip = self.loop.clip_norm
        if clip == "auto":
            clip = parameters.clip_norm(s2n, regression=self.scales is not None)
        # A person's rows are clipped together. So a person has the sensitivity of one
        # record.
        calibrate = functools.partial(
            budget.calibrate,
            "descent",
            n_steps=n_steps,
            sampling_rate=rate,
            clip_norm=clip,
            noise_decay=self.loop.noise_decay,
            other_events=others,
        )
        last = calibrate(sensitivity=reach * clip)
        automatic = self._learning_rate(public, mu, last, prepared.has_model)
        chosen = self.loop.learning_rate
        learning_rate = automatic if chosen == "auto" else chosen
        penalty = self.penalty if self.scales is None else self.scales.alpha
        if penalty is None:  # which would limit the noise in the weights
            # Steps above the automatic size enlarge the weights, but not their error,
            # because the loss saturates.
            least = min(learning_rate, automatic)
            warn_of_noise_left(parameters.rule_of(self.loop, last, n, least))
        bound = None
        if prepared.rows is not None:  # public rows: use the smaller sensitivity
            of_labels = label_bound(public, self.loss, prepared.rows, last)
            if of_labels < last.sensitivity:
                bound, last = of_labels, calibrate(sensitivity=of_labels)
        plan = DescentPlan(
            events=(*others, last),
            assumptions=(ASSUMED["columns_non_negative"],) * orthant
            + (ASSUMED["only_label_private"],) * (bound is not None),
            n_steps=last.n_steps,
            expected_gap=parameters.gap_of(
                2 * replaced * public.n_effective,
                sum(public.sizes),
                public.sizes[1],
                public.n_classes,
                public.has_target,
            )
            if self.beside is None
            else None,
            counts_labels=budget.relation.counts_are_public
            and CLASS_COUNTS in map(operator.attrgetter("label"), others),
            learning_rate=learning_rate,
            norms=parameters.block_norms(
                prepared.has_model,
                s2n if self.scales is None else 0.0,
                public.sizes,
                public.n_classes,
            ),
            orthant=orthant,
            label_bound=bound,
        )
        decides = signed and learns and budget.relation.replaces and rate == 1
        if decides and self.loop.clip_norm == "auto":
            signs = math.sqrt(2) * mu, plan.with_signs.events[-1], prepared.has_model
            rate = self._learning_rate(public, *signs) if chosen == "auto" else chosen
            return dataclasses.replace(plan.with_signs, learning_rate=rate)
        return plan

    def _other_events(self, public, has_model, budget, mu, learns) -> tuple[Event, ...]:
        target, rate, scale = (), None, None
        if self.scales is not None:
            target = self.scales.events(public, budget, mu, has_model)
            rate = self.scales.rate_event(public, budget, mu)
        counts = None if has_model else self._counts(public, budget)
        centring = self.centring.events(public, budget, mu, mean=learns)
        if postprocessing.is_measured(self, public):
            scale = postprocessing.slope_event(public, budget, self.loss, mu, has_model)
        return tuple(filter(None, (*target, counts, *centring, scale, rate)))

    def _counts(self, public: PublicRecords, budget: Budget) -> Event | None:
        """Return the event of the counts at which a descent without a model starts.

        None: the start does not depend on them, or their noise exceeds the grid.
        """
        if public.has_target or self.scales is not None or self.centring.bias is None:
            return None
        if not postprocessing.is_measured(self, public):
            return None
        n, query = public.n_effective, LabelSum.planned(public.n_classes, 1.0)
        enough = public.n_outputs / (FREQUENCY_ERROR * budget.mu * n) ** 2
        clip, moved = query.clip_norm, query.sensitivity(budget.relation)
        noise_std = moved / (math.sqrt(np.clip(enough, *COUNT_SHARES)) * budget.mu)
        if not query.fits_grid(noise_std, public.units):
            return None
        given = {"clip_norm": clip, "sensitivity": moved}
        return budget.event(CLASS_COUNTS, noise_std, **given)

    def _learning_rate(self, public, mu, event: Event, has_model) -> float:
        rate_of = functools.partial(
            parameters.learning_rate,
            n=public.n_records,
            n_steps=event.n_steps,
            clip_norm=event.clip_norm,
            momentum=parameters.momentum_of(self.loop, event.n_steps),
            curvature=self.loss.curvature,
            regression=self.scales is not None,
        )
        rate = rate_of(mu)
        if self._is_shrunk:
            blocks = postprocessing.target_blocks(public, has_model)
            rate *= postprocessing.pull(mu, public.n_records, blocks)
            rate = min(rate, rate_of(mu * postprocessing.quietness(blocks)))
        return rate

    def run(self, records, prepared, plan, mechanism, on_step) -> LinearFit:
        """Release the planned scales and means, and run the descent."""
        loss, target_map, offset = self.loss, None, prepared.offset
        if self.scales is not None:
            target_map = self.scales.released(records, plan, mechanism, offset)
            records, loss = self.scales.scaled(records, target_map, loss)
            fitted = target_map.margins(prepared.fitted)
            offset = target_map.margins(offset)
            prepared = prepared._replace(offset=offset, fitted=fitted)
        public = records.public
        counts, odds = plan.event(CLASS_COUNTS), None
        if counts is not None:
            odds = released_log_odds(records, counts, mechanism)
        elif public.has_target and self.scales is None:
            known = public.target, public.n_classes, public.shares
            odds = log_odds(class_shares(*known))
        coordinates = self._coordinates(records, prepared, plan, mechanism, target_map)
        if plan.centred is not None and coordinates.mean[~public.mask].any():
            plan = plan.centred
        query = self._query(records, loss, coordinates, prepared, plan, mechanism)
        start, last = np.zeros(query.shape), plan.events[-1]
        further = public.n_products * (public.n_outputs == 1)
        few = start.size <= postprocessing.MOST_WEIGHTS + further
        few = few and last.n_steps <= postprocessing.MOST_PATH
        steps = [] if few and last.sampling_rate == 1 else None
        if counts is not None:
            start[:, -1] = odds / coordinates.bias

        def found(theta: np.ndarray, n_iter: int, noise: Any = None) -> LinearFit:
            known = n_iter, prepared.public_model, target_map, noise
            return LinearFit(*coordinates.fold(theta), *known, log_odds=odds)

        rule = self._rule(public, plan, query, coordinates, target_map)
        # Exact gradients: of a public loss, and a correction of the bias of clipping.
        exact = []
        if self.padding is not None:
            given = query, mechanism.public("batch"), self.loop.public_batch_size
            exact.append(public_model.padded_gradient(*given))
        # With a log link no correction is needed, because the mean rate is released.
        if public.has_target and self.scales is not None and not target_map.log:
            known = records.target, loss, prepared.fitted, public, coordinates
            exact.append(public_model.clipped_away(query, *known))
        theta, n_iter = descent(
            mechanism,
            query,
            rule,
            n_records=public.n_records,
            private_weight=self.loop.gradient_scale,
            exact=exact,
            on_step=on_step,
            model=found,
            start=start,
            path=steps,
        )
        ended, taken = theta, rule
        if n_iter < last.n_steps:  # a callback stopped the descent
            taken = rule._replace(stds=rule.stds[:n_iter])
        answer = answer_of(taken, steps, public)
        along, measured = np.zeros_like(theta), 0.0
        known = (public, query, coordinates, rule), prepared, plan, mechanism
        if self.scales is not None:
            own = ended, records, target_map, *known
            theta, along, measured = self._rescaled(*own)
        elif plan.event(postprocessing.TEMPERATURE) is not None:
            given = start, ended, answer, self.centring.bias, *known
            theta, along, measured = postprocessing.scaled(*given)
        if answer is not None and public.encoding is not None and len(theta) == 1:
            if taken.curvature is None and coordinates.bias is not None:
                # An error would lose a fit that was charged.
                with contextlib.suppress(RuntimeError, ValueError):
                    answer = curve_noise(steps, taken, levels_of(public, coordinates))
        follows = prepared.has_model and prepared.public_model is None
        more = coordinates, public, counts, along, measured, follows
        noise = noise_of(taken, answer, (start, ended, theta), *more)
        return found(theta, n_iter, noise)

    def _rescaled(self, theta, records, target_map, known, prepared, plan, mechanism):
        """Shrink and scale the weights of a regression; as `postprocessing.scaled`."""
        public, query, coordinates, rule = known
        blocks = postprocessing.target_blocks(public, prepared.has_model)

        def shrink(theta: np.ndarray, curvature: float = 1.0) -> np.ndarray:
            if not self._is_shrunk:
                return theta
            used, clip = blocks, plan.events[-1].clip_norm
            if public.mask.all() and target_map.error > 0 and coordinates.bias:
                # Rows are centred exactly, so the intercept only corrects the released
                # mean of the target.
                places, square = np.array([public.n_features]), coordinates.bias**2
                doubt = (target_map.error / target_map.scale) ** 2
                used = [*blocks, postprocessing.Spread(places, square, doubt)]
            # With a log link, a weight that is too large costs more than a small one.
            own = {"curvature": curvature, "learns": not target_map.log}
            return postprocessing.shrunk(theta, used, rule, clip, **own)

        rate, event = plan.event("mean rate"), plan.event(postprocessing.TEMPERATURE)
        if rate is None:
            theta = shrink(theta)
        else:
            given = theta, records, coordinates, prepared.offset, shrink
            theta = self.scales.calibrated(*given, rate, mechanism)
        if event is None:
            return theta, np.zeros_like(theta), 0.0
        given = theta, query, blocks, rule, public
        return postprocessing.rescaled(*given, event, mechanism)

    def _coordinates(self, records, prepared, plan, mechanism, target_map):
        if prepared.coordinates is not None:
            return prepared.coordinates
        public, bias = records.public, self.centring.bias
        learns = public.mask.any() and self._is_shrunk and not target_map.log
        if learns and bias is not None:
            doubt = target_map.error / target_map.scale
            bias = parameters.bias_of_target(doubt, public.n_features)
            if public.mask.all():
                # With this value the intercept learns as fast as a usual weight.
                bias = max(bias, public.n_features**-0.5)
        known = records, prepared.moments, plan, mechanism, bias
        return self.centring.coordinates(*known)

    def _query(self, records, loss, coordinates, prepared, plan, mechanism):
        public = records.public
        padded, pads = None, self.padding is not None
        if pads and not public.mask.all():
            scale = self.loop.padding_scale if self.padding == "gaussian" else 0.0
            drawn = scale, mechanism.public("padding")
            padded = public_model.drawn_rows(public, coordinates, *drawn)
        recipe = functools.partial(
            gradients,
            coordinates=coordinates,
            at_random=plan.events[-1].sampling_rate < 1,
            pads=pads,
            padded=padded,
            loss=loss,
            clip_norm=plan.events[-1].clip_norm,
            orthant=plan.orthant,
            label_bound=plan.label_bound,
            n_jobs=self.n_jobs,
        )
        return records.query(recipe, offset=prepared.offset, rows=prepared.rows)

    def _rule(self, public, plan, query, coordinates, target_map) -> HeavyBall:
        loop, rate, strength = self.loop, plan.learning_rate, self.penalty
        rule = parameters.rule_of(loop, plan.events[-1], public.n_records, rate)
        if self.scales is not None:
            strength = self.scales.penalty(self.loss, target_map, public.total_weight)
        if strength is None:
            return rule
        curvature = coordinates.penalty_curvature(strength) / query.clip_norm
        curvature = np.ascontiguousarray(np.broadcast_to(curvature, query.shape))
        # A penalty of curvature D pulls a weight to zero. With steps that last more
        # time constants of this pull, ``sum of rate_t D / (1 - momentum)``, the last
        # iterate would depend only on the last releases, which are the noisiest.
        pace = 2 * (1 - rule.momentum) / rule.n_steps
        rate = np.minimum(rate, TIME_CONSTANTS * pace / np.maximum(curvature, 1e-300))
        return rule._replace(learning_rate=rate, curvature=curvature)

    def shrinks_blocks(self, public: PublicRecords) -> bool:
        """Whether each block of weights is shrunk by itself, as with defaults."""
        if self.centring.kind != "auto" or self.centring.clip_features:
            return False
        return self._is_shrunk or (
            self.scales is None and postprocessing.is_measured(self, public)
        )

    @property
    def _is_shrunk(self) -> bool:
        """Whether to shrink the weights to reduce their noise; for regressions only."""
        free = self.loop.max_weight_norm is None and self.scales is not None
        return free and self.scales.alpha is None
