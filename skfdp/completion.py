"""Any classifier on public records completed by draws from a private statistic."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtr, ndtri
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.metaestimators import available_if

from skfdp.addresses import public
from skfdp.base import PrivateClassifier, PrivateEstimator, delegates
from skfdp.data.grid import GridRows, blocks
from skfdp.data.input_scaler import InputScaler, resolve_bounds
from skfdp.data.records import PublicRecords, Records
from skfdp.data.validation import check_choice, check_number, check_size, without_traps
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy import assumptions
from skfdp.privacy.assumptions import enforced
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation
from skfdp.queries.statistics import ClassSum, SecondMoment
from skfdp.solvers import parameters
from skfdp.solvers.method import Budget, OnStep, Plan
from skfdp.solvers.parameters import warn_of_no_bounds, warn_of_unscaled

# A model of the private columns given the class, learnt from released sums.
#
# The scaled private columns of a record of class k are a Gaussian vector, cut to [0, 1]
# where bounds are declared:
#
# .. math:: p_j = \min(1, \max(0, \tfrac12 + s_j (z_j + h_{kj}))), \qquad z \sim N(0,
# R).
#
# A steep slope s gives a binary column, a flat one a continuous one. Everything here is
# post-processing of releases and public facts.


#: Slope of a column that is drawn as 0 or 1.
STEP = 1e6
#: What exceeds the noise of its release by less than this factor counts as noise.
CERTAIN = 2.0
# Slopes among which `_slopes` interpolates, from nearly normal to nearly binary.
_SLOPES = np.geomspace(0.03, 30, 16)
_LEAST = 1e-4
# Share of a binary column's variance that any bounded column keeps.
_LEAST_SHARE = 0.02


@dataclasses.dataclass(frozen=True)
class Released:
    """The released statistics of the private rows, in units of the scaled columns.

    `second` is the symmetric sum of the outer products, None if it was not released.
    `second_std` is the deviation of the noise on its diagonal; entries off it have
    1 / sqrt(2) of that, because two triangles were averaged. Columns that are `bounded`
    are within [0, 1].
    """

    counts: np.ndarray  # public
    sums: np.ndarray
    sums_std: float
    second: np.ndarray | None
    second_std: float
    bounded: np.ndarray
    feature_bound: float

    @property
    def n_rows(self) -> int:
        """Number of records."""
        return int(self.counts.sum())


@dataclasses.dataclass(frozen=True)
class PrivateColumns:
    """The distribution of the scaled private columns given the class.

    `means` are denoised ones of each class. `location` is h of bounded columns and the
    mean of others. `factor` is L of the correlation L L' of the Gaussian vector; None:
    independent.
    """

    means: np.ndarray
    location: np.ndarray
    slope: np.ndarray
    factor: np.ndarray | None
    bounded: np.ndarray

    @classmethod
    def learn(cls, released: Released) -> PrivateColumns:
        """Denoise the statistics and match the moments."""
        counts, bounded = released.counts, released.bounded
        share = counts / counts.sum()
        grand = released.sums.sum(axis=0) / released.n_rows
        grand = np.where(bounded, np.clip(grand, _LEAST, 1 - _LEAST), grand)
        interior = _interior(released, grand)
        means = shrunk_means(released, grand, _variance(released, grand, interior))
        binary = share @ (means * (1 - means))  # variance of a binary column
        interior = np.minimum(interior, (1 - _LEAST_SHARE) * np.maximum(binary, 0))
        free = _variance(released, grand, interior, share @ means**2)
        variance = np.where(bounded, binary - interior, free)
        slope = np.where(bounded, STEP, np.sqrt(variance))
        location = np.where(bounded, ndtri(np.where(bounded, means, 0.5)), means)
        soft = np.flatnonzero(bounded & (interior > 0))
        if soft.size:
            slope[soft] = _slopes(means[:, soft], share, interior[soft])
            location[:, soft] = _locations(means[:, soft], slope[soft])
        factor = _factor(released, means, np.sqrt(np.maximum(variance, 1e-3)))
        return cls(means, location, slope, factor, bounded)

    def draw(self, codes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return one row for each class code, float64."""
        rows = generator.standard_normal((len(codes), len(self.slope)))
        if self.factor is not None:
            rows = rows @ self.factor.T
        location = self.location[codes]
        cut = np.clip(0.5 + self.slope * (rows + location), 0.0, 1.0)
        return np.where(self.bounded, cut, location + self.slope * rows)


def _interior(released: Released, grand: np.ndarray) -> np.ndarray:
    """Return the mean of p (1 - p): zero for binary columns, and where uncertain."""
    if released.second is None:
        return np.zeros(len(grand))
    n = released.n_rows
    interior = grand - np.diag(released.second) / n
    certain = released.bounded & (interior > CERTAIN * released.second_std / n)
    return np.where(certain, interior, 0.0)


def _variance(
    released: Released,
    grand: np.ndarray,
    interior: np.ndarray,
    square: np.ndarray | None = None,
) -> np.ndarray:
    """Return the variance of each column: about its mean, or the squares given."""
    binary = np.maximum(grand * (1 - grand), _LEAST)
    bounded = np.maximum(binary - interior, _LEAST_SHARE * binary)
    # What a row of the largest norm spreads over its columns, where nothing is known.
    free = np.full(len(grand), released.feature_bound**2 / len(grand))
    if released.second is not None:
        n = released.n_rows
        found = np.diag(released.second) / n - (grand**2 if square is None else square)
        free = np.where(found > CERTAIN * released.second_std / n, found, free)
    return np.where(released.bounded, bounded, free)


def shrunk_means(
    released: Released, grand: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Shrink the class means to the grand mean, as far as they are noise.

    Empirical Bayes: the deviation of class k in column j has the prior variance
    ``t variance_j``, with t from the squared deviations less those of the noise, and
    less one standard deviation of that difference, because a classifier trusts what it
    is given (James and Stein 1961). A column that hardly varies is not trusted to
    separate the classes. Means of bounded columns are strictly within (0, 1).
    """
    present = released.counts > 0
    counts = np.maximum(released.counts, 1)[:, None]
    noise = (released.sums_std / counts) ** 2 * (1 - counts / (released.n_rows + 1))
    noise = np.maximum(noise, 1e-300)
    apart = released.sums / counts - grand
    apart[~present] = 0.0
    # Weighted by the certainty of a class, 1 / noise**2, over the largest.
    weight = np.where(present[:, None], (noise.min() / noise) ** 2, 0.0)
    excess = (weight * (apart**2 - noise)).sum()
    excess -= np.sqrt(2 * grand.size * ((weight * noise) ** 2).sum())
    prior = max(0.0, excess) / (weight.sum() * variance.sum()) * variance
    apart *= prior / (prior + noise)
    means = grand + apart
    return np.where(released.bounded, np.clip(means, _LEAST, 1 - _LEAST), means)


def _factor(
    released: Released, means: np.ndarray, spread: np.ndarray
) -> np.ndarray | None:
    """Return L of the correlation within classes, what is noise set to zero."""
    if released.second is None:
        return None
    n, scale = released.n_rows, np.outer(spread, spread)
    between = (means.T * released.counts) @ means
    found = (released.second - between) / n / scale
    noise = CERTAIN * released.second_std / np.sqrt(2) / n / scale
    found = np.sign(found) * np.maximum(0.0, np.abs(found) - noise)
    # Correlation of the Gaussians from that of their signs (Sheppard 1899).
    found = np.sin(np.pi / 2 * np.clip(found, -1, 1))
    np.fill_diagonal(found, 1.0)
    values, vectors = eigh(found)
    factor = vectors * np.sqrt(np.maximum(values, 1e-3))
    return factor / np.linalg.norm(factor, axis=1, keepdims=True)


def clipped_moments(
    location: np.ndarray, slope: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of p and p (1 - p) for ``p = clip(1/2 + s(z + h), 0, 1)``."""
    centre = 0.5 + slope * location
    low, high = -centre / slope, (1 - centre) / slope
    inside = ndtr(high) - ndtr(low)
    at_low, at_high = (np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) for z in (low, high))
    mean = ndtr(-high) + centre * inside + slope * (at_low - at_high)
    interior = centre * (1 - centre) * inside
    interior += slope * (1 - 2 * centre) * (at_low - at_high)
    interior -= slope**2 * (inside + low * at_low - high * at_high)
    return mean, interior


def _locations(means: np.ndarray, slope: np.ndarray | float) -> np.ndarray:
    """Return the h that give these means, by bisection."""
    high = np.broadcast_to(8 + 0.5 / np.asarray(slope), means.shape).copy()
    low = -high
    for _ in range(45):
        middle = (low + high) / 2
        below = clipped_moments(middle, slope)[0] < means
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _slopes(means: np.ndarray, share: np.ndarray, interior: np.ndarray) -> np.ndarray:
    """Return the slopes that give the mean of p (1 - p) over the classes."""
    found = [
        share @ clipped_moments(_locations(means, slope), slope)[1] for slope in _SLOPES
    ]
    logs = np.log(_SLOPES)
    columns = zip(interior, np.array(found).T, strict=True)
    # The interior falls as the slope grows.
    return np.exp([np.interp(-wanted, -column, logs) for wanted, column in columns])


# The method of completion: release class sums, draw private columns, train.


_ORTHANT = enforced(assumptions.CLASS_ORTHANT)
_SIGNED = enforced(assumptions.CLASS_SIGNED)
# Their label, and their share of mu**2 where they are released.
_SECOND, _SECOND_SHARE = "second moments", 0.5


def _bounded(public: PublicRecords) -> bool:
    """Return whether every private column has bounds."""
    return bool(public.bounded[~public.mask].all())


class Completed(NamedTuple):
    """A trained classifier, and denoised class means: None without privacy."""

    estimator: Any
    class_means: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Completion:
    """The completion of records by statistics of private columns given the class.

    Parameters are those of `PrivateCompletionClassifier`.
    """

    estimator: Any
    feature_bound: float
    covariance: bool | str
    n_draws: int

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing before the release."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Calibrate the releases."""
        bounded = _bounded(public)
        sums = ClassSum.planned(nonnegative=bounded)
        others, covariance = (), self.covariance
        if covariance == "auto":
            sizes = public.n_classes, public.n_private
            covariance = parameters.completion_covariance(*sizes, bounded)
        if covariance:
            second = SecondMoment.planned()
            reach = second.sensitivity(budget.relation)
            std = reach / (budget.mu * math.sqrt(_SECOND_SHARE))
            clip = second.clip_norm
            event = budget.event(_SECOND, std, clip_norm=clip, sensitivity=reach)
            others = (event,)
        schedule = budget.calibrate(
            n_steps=1,
            clip_norm=sums.clip_norm,
            sensitivity=sums.sensitivity(budget.relation),
            other_events=others,
        )
        return Plan(
            events=(*others, budget.named(schedule, "class sums")),
            schedule=schedule,
            assumptions=(_ORTHANT if bounded else _SIGNED,),
        )

    def run(
        self,
        records: Records,
        prepared: None,
        plan: Plan,
        mechanism: Mechanism,
        on_step: OnStep,
    ) -> Completed:
        """Release, denoise, draw, and train."""
        public = records.public
        model = PrivateColumns.learn(self._released(records, plan, mechanism))
        coins = mechanism.streams.public("draws")
        rows = _completed(public, model, self.n_draws, coins)
        target = np.tile(public.labels, self.n_draws)
        trained = clone(self.estimator).fit(rows, target)
        return Completed(trained, model.means)

    def _released(self, records: Records, plan: Plan, mechanism: Mechanism) -> Released:
        """Release the class sums, and the second moments where they are planned."""
        public, bound = records.public, self.feature_bound
        private = ~public.mask
        bounded = public.bounded[private]
        input_scaler = dataclasses.replace(
            public.input_scaler.part(private), feature_bound=bound
        )
        rows = GridRows.build(records.X[:, private], input_scaler.mapped)
        second, second_std = None, 0.0
        event = plan.event(_SECOND)
        if event is not None:
            second = mechanism.release(event.label, SecondMoment(rows))
            second = (second + second.T) * (bound**2 / 2)
            second_std = event.noise_std[0] * bound**2
        sums = ClassSum(
            rows, public.target, public.n_classes, nonnegative=_bounded(public)
        )
        return Released(
            counts=np.bincount(public.target, minlength=public.n_classes),
            sums=mechanism.release("class sums", sums) * bound,
            sums_std=plan.event("class sums").noise_std[0] * bound,
            second=second,
            second_std=second_std,
            bounded=bounded,
            feature_bound=bound,
        )


def _completed(
    public: PublicRecords,
    model: PrivateColumns,
    times: int,
    coins: np.random.Generator,
) -> np.ndarray:
    """Return the public columns beside drawn ones."""
    mask, n = public.mask, public.n_rows
    shared = public.input_scaler.part(mask).scale(public.X)
    rows = np.empty((times * n, len(mask)))
    for start in range(0, times * n, n):
        rows[start : start + n, mask] = shared
        for block in blocks(n, len(mask)):
            drawn = model.draw(public.target[block], coins)
            rows[start + block.start : start + block.stop, ~mask] = drawn
    return rows


@public("skfdp")
class PrivateCompletionClassifier(
    MetaEstimatorMixin, PrivateClassifier, PrivateEstimator
):
    r"""Classifier trained on public records completed by private statistics.

    The sums of the private columns over each class are released once, with noise. They
    say how the private columns are distributed given the class. Each record's public
    columns and target are then completed by *drawn* private columns, and any
    scikit-learn classifier is trained on the completed records, as long as it likes:
    it never sees a private value.

    Parameters
    ----------
    estimator : classifier
        Any scikit-learn classifier or Pipeline; cloned. It is given an array with the
        columns of X in their order, those with `bounds` scaled to [0, 1].
    epsilon, delta : float, default=1.0, 1e-5
        The budget of one `fit`. ``epsilon=float("inf")``: no privacy; the estimator is
        trained on the records themselves.
    public_features : None, "all", names, indices, mask, slice or callable, default=None
        The public columns, as in `FeatureDPLogisticRegression`; at least one must stay
        private. The target is always public here.
    bounds : pair, mapping, False or None, default=None
        Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or
        a mapping by column. Columns are clipped and scaled to [0, 1]. Only private
        columns with bounds are known to be non-negative, which lowers the noise by a
        factor of sqrt(2) under "replace_one", and can be drawn within their range.
        False: none. None: the same, with a warning.
    row_norm : float or "auto", default="auto"
        L2 bound of the private columns of a record, after `bounds`, in the released
        sums; longer rows are shortened there. Set it to the norm of a typical record,
        such as the root of the number of one-hot groups. "auto": half the root of the
        number of private columns; the root itself if some have no bounds.
    covariance : {"auto", True, False}, default="auto"
        Whether half of the budget (of its square, in Gaussian terms) releases the
        second moments too, so that drawn columns are correlated within a class, and
        continuous columns have their variance. False: bounded columns are drawn as
        independent zeros and ones. "auto": fewer than 10 classes, or unbounded private
        columns, and at most 512 of them.
    n_draws : int or "auto", default="auto"
        Completions of each record; they are free, and the training set grows
        accordingly.
        "auto": about 10,000 rows, at most 5 draws.
    neighboring_relation : {"replace_one", "replace_special"}, default="replace_one"
        What changes between neighbouring data sets; see :ref:`protected`.
    target : str, default=None
        Name of the column that y is, or is computed from, if y is not a Series with
        this name: reports say it, and ledgers compare it.
    ledger : str, path or PrivacyLedger, default=None
        Charged before anything private is read.
    random_state : int, default=None
        Of noise and draws. None: cryptographic. An int: reproducible, **no
        guarantee**. The estimator's own `random_state` is left as it is.

    Attributes
    ----------
    estimator_ : classifier
        Trained on completed records.
    classes_ : ndarray of shape (n_classes,)
    class_means_ : ndarray of shape (n_classes, n_private)
        Released means of the scaled private columns, denoised; absent at
        ``epsilon=inf``.
    input_scaler_ : InputScaler
        The bounds; the same function in `fit` and `predict`.
    privacy_ : PrivacyReport
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)

    Notes
    -----
    **Guarantees.** The fitted attributes are (epsilon, delta)-differentially private
    for the private columns of a record under `neighboring_relation`, if `random_state`
    is None:

    * neighbours share the target and the public columns, hence the number of records
      of each class;
    * a scaled private row p is shortened to norm 1 (in units of `row_norm`). A
      replaced one moves its class's sum by ``|p - p'|``: at most sqrt(2) where declared
      bounds make p non-negative, else at most 2; a nulled one by at most 1;
    * it moves the sum of ``p p'`` by at most sqrt(2), whatever the signs;
    * both sums are released at most once, in exact integers, as one composition;
    * everything after that is computed from the releases, the public columns and the
      target, with coins of its own.

    `predict` reads the private columns of the record that it is asked about. A
    prediction reveals about *that* record what follows from its columns; the records
    of `fit` are protected.

    The model of the private columns is crude: they depend on the public ones through
    the class alone. Where that is wrong, more budget does not help.

    References
    ----------
    The draws are a Gaussian copula with clipped margins (a Tobit model, Tobin 1958),
    its parameters shrunk by the known noise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skfdp import PrivateCompletionClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PrivateCompletionClassifier(
    ...     RandomForestClassifier(random_state=0),
    ...     epsilon=1.0,
    ...     public_features=slice(0, 32),
    ...     bounds=(0, 16),
    ...     random_state=0,
    ... )
    >>> bool(model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.8)
    True
    """

    public_target = True
    _fixed = {"classes": None, "public_target": True}

    def __init__(
        self,
        estimator,
        epsilon=1.0,
        delta=1e-5,
        *,
        public_features=None,
        bounds=None,
        row_norm="auto",
        covariance="auto",
        n_draws="auto",
        neighboring_relation="replace_one",
        target=None,
        ledger=None,
        random_state=None,
    ):
        self.estimator = estimator
        self.epsilon = epsilon
        self.delta = delta
        self.public_features = public_features
        self.bounds = bounds
        self.row_norm = row_norm
        self.covariance = covariance
        self.n_draws = n_draws
        self.neighboring_relation = neighboring_relation
        self.target = target
        self.ledger = ledger
        self.random_state = random_state

    @property
    def _released(self) -> tuple[str, ...]:
        return ("estimator_",) + ("class_means_",) * math.isfinite(self.epsilon)

    def _check_parameters(self) -> None:
        relation = Relation.of(self.neighboring_relation)
        if not relation.counts_are_public:
            raise ValueError(
                f"neighboring_relation={relation.name!r} adds whole records, but the "
                "target is public here: use 'replace_one' or 'replace_special'."
            )
        super()._check_parameters()
        check_size("row_norm", self.row_norm, also=("auto",))
        check_choice("covariance", self.covariance, ("auto", True, False))
        check_number("n_draws", self.n_draws, integral=True, also=("auto",))
        inner = self.estimator
        instance = hasattr(inner, "fit") and not isinstance(inner, type)
        if not instance or not is_classifier(inner):
            raise TypeError(
                f"estimator={shown(inner)} must be a scikit-learn classifier: "
                "pass an instance, not a class, a name or a regressor."
            )

    def _check_split(self, mask: np.ndarray) -> None:
        if mask.all() and math.isfinite(self.epsilon):
            raise ValueError(
                f"public_features={shown(self.public_features)} names every column, "
                "and the target is public: there is nothing to protect; fit the "
                "estimator itself. For a private target use "
                "FeatureDPLogisticRegression."
            )

    @property
    def _needs_whole_table(self) -> bool:
        return True  # `estimator` takes all rows at once

    def _input_scaler(
        self, n_features: int, names, mask: np.ndarray, sparse: bool, table
    ) -> InputScaler:
        low, span = resolve_bounds(self.bounds, n_features, names)
        if self.bounds is None:
            warn_of_no_bounds(mask)
        warn_of_unscaled(span, mask, names)
        return InputScaler(low, span, feature_bound=math.inf)

    def _method(self, public: PublicRecords) -> Completion:
        bound, n_draws = self.row_norm, self.n_draws
        if bound == "auto":
            size, bounded = max(1, public.n_private), _bounded(public)
            bound = parameters.completion_bound(size, bounded)
        if n_draws == "auto":
            n_draws = parameters.n_draws(public.n_records)
        return Completion(self.estimator, float(bound), self.covariance, n_draws)

    def _without_privacy(self, records: Records) -> Completed:
        rows = records.input_scaler.scale(records.X)
        return Completed(clone(self.estimator).fit(rows, records.public.labels))

    def _attributes(self, public: PublicRecords, found: Completed) -> dict[str, Any]:
        attributes = {"classes_": public.classes, "input_scaler_": public.input_scaler}
        if found.class_means is not None:
            attributes["class_means_"] = found.class_means
        return attributes | {"estimator_": found.estimator}

    def _scaled(self, X) -> tuple[Any, np.ndarray]:
        """Return the inner estimator, and rows for it."""
        X = self._rows_to_predict(X)  # an unfitted one lacks what follows
        return self.estimator_, self.input_scaler_.scale(X)

    @without_traps()
    def predict(self, X):
        """Return the inner estimator's label of each row, private columns included."""
        inner, rows = self._scaled(X)
        return inner.predict(rows)

    @available_if(delegates("estimator_", "predict_proba"))
    @without_traps()
    def predict_proba(self, X):
        """Return the inner estimator's probability of each class."""
        inner, rows = self._scaled(X)
        return inner.predict_proba(rows)

    @available_if(delegates("estimator_", "predict_proba"))
    @without_traps()
    def predict_log_proba(self, X):
        """Return the inner estimator's logarithm of each probability.

        Its own `predict_log_proba` if it has one, else the logarithm of its
        `predict_proba`, which is ``-inf`` where that is 0.
        """
        inner, rows = self._scaled(X)
        if hasattr(inner, "predict_log_proba"):
            return inner.predict_log_proba(rows)
        return np.log(inner.predict_proba(rows))

    @available_if(delegates("estimator_", "decision_function"))
    @without_traps()
    def decision_function(self, X):
        """Return the inner estimator's decision function."""
        inner, rows = self._scaled(X)
        return inner.decision_function(rows)
