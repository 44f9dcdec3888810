"""Any estimator of scikit-learn with a private target: the target is randomised once.

The inner estimator gets public columns as they are, and random labels or numbers in
place of the target. Whatever it does with these is post-processing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import (
    ClassifierMixin,
    MetaEstimatorMixin,
    RegressorMixin,
    clone,
    is_classifier,
)
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _get_feature_names,
    _num_features,
    _num_samples,
    check_is_fitted,
)

from skfdp.base import (
    PrivateEstimator,
    accuracy,
    documented,
    r_squared,
    with_callbacks,
)
from skfdp.data.arrays import (
    check_enough,
    check_names,
    column_names,
    is_dask,
    raw_column,
    readable,
)
from skfdp.data.grid import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import encode_any
from skfdp.data.units import checked_weights
from skfdp.data.validation import (
    UtilityWarning,
    guarded_fit,
    users_state,
    warn_caller,
)
from skfdp.kernels.losses import OF_RATES
from skfdp.mechanisms.release import KEEPER, Mechanism, check_random_state, random_words
from skfdp.privacy import checks
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.events import ASSUMED, Event
from skfdp.reader import TARGET_STEP, Declaration, Reader
from skfdp.solvers.method import Budget, Plan
from skfdp.solvers.parameters import ASSUMPTIONS

#: Chances are integers over this number: one word of 64 bits draws an outcome.
WHOLE = 2**64
#: Number of cells of a randomised number; odd, so that one is in the middle.
N_CELLS = 4001
#: Half the number of steps between the bounds of a target.
HALF = round(0.5 / TARGET_STEP)
#: Least corrected probability of a class, times the number of classes: a sample of
#: random labels cannot rule a class out.
LEAST_CHANCE = 2e-3
# The largest integer of a cell, roughly, and the number of parts into which the chances
# of two neighbouring windows are divided.
_TOP, _PARTS = 2**16, 2**20


def ratio_bound(epsilon: float) -> int:
    """Return an integer just below ``exp(epsilon) * WHOLE``."""
    power = Fraction(Decimal(epsilon).exp(Context(prec=80)))
    return math.floor(power * WHOLE) - 1


@dataclasses.dataclass(frozen=True)
class Windows:
    """Chances of `n_cells` outcomes that depend on a private window of `width` cells.

    Each cell of the window has the chance ``high / WHOLE``, and each other cell has
    ``low / WHOLE``. What is left goes to the middle cell, whatever the window. With a
    width of 1 nothing is left: this is randomised response.

    Notes
    -----
    **Guarantees.** For every outcome, the chances given two windows have a ratio of at
    most ``exp(epsilon)``. The constructor checks this in exact integers. The window may
    be drawn at random, given the private value: a mixture of rows of a table keeps the
    largest ratio within a column.
    """

    epsilon: float
    n_cells: int
    width: int
    low: int = checks.computed()
    high: int = checks.computed()

    def __post_init__(self) -> None:
        bound, n, width = ratio_bound(self.epsilon), self.n_cells, self.width
        # Rounded up, towards more noise, from the share of the whole that a cell has if
        # the cells of the window have `bound / WHOLE` times as much.
        low = -(-WHOLE * WHOLE // ((n - width) * WHOLE + width * bound))
        high = (WHOLE - (n - width) * low) // width
        vars(self).update(low=low, high=high)
        rest = WHOLE - (n - width) * low - width * high
        ratios = [(low, high), (low + rest, high + rest)]  # any cell, the middle one
        if rest < 0 or not all(0 < a < b and b * WHOLE <= bound * a for a, b in ratios):
            raise AssertionError(f"no private chances at epsilon={self.epsilon!r}.")

    def drawn(self, starts: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return a cell for each window, int64.

        `starts` are the first cells of the windows, and `words` are uniform, uint64.
        """
        extra, low = np.uint64(self.high - self.low), np.uint64(self.low)
        bound = np.uint64(self.width) * extra
        inside = starts + (words // extra).astype(np.int64)
        anywhere = (words - bound) // low
        anywhere = np.where(anywhere < self.n_cells, anywhere, self.n_cells // 2)
        return np.where(words < bound, inside, anywhere.astype(np.int64))


@functools.lru_cache(maxsize=64)
def of_numbers(
    epsilon: float, n: int = N_CELLS
) -> tuple[Windows, np.ndarray, np.ndarray]:
    """Return the chances of a randomised number, its cells, and sums over windows.

    The cells are integers, which increase and are odd about the middle cell. Their form
    and the width of the window are fitted to the optimum of a linear program: for
    epsilon from 0.3 to 8 the variance is less than 1.25 times as large, both on average
    over values and at the worst value.
    """
    width = max(1, round(n / (1.1 + 0.9 * math.exp(epsilon / 3.1))))
    places = np.arange(1, n // 2 + 1)
    steep = 0.8 + epsilon**-1.5
    half = np.tanh(steep * 2 * places / n) / math.tanh(steep)
    half = np.rint(half * _TOP).astype(np.int64) + places
    cells = np.r_[-half[::-1], 0, half]
    sums = np.convolve(cells, np.ones(width, dtype=np.int64), "valid")
    return Windows(epsilon, n, width), cells, sums


def randomised(
    steps: np.ndarray, epsilon: float, generator: np.random.Generator
) -> np.ndarray:
    """Return unbiased random numbers for integers from -`HALF` to `HALF`.

    Notes
    -----
    **Guarantees.** The result has pure epsilon-DP for each integer, whose value it has
    in expectation, up to ``2**-20`` times the distance of two neighbouring windows.
    """
    chances, cells, sums = of_numbers(epsilon)
    # The expectation of a window is the sum of its cells times the excess of their
    # chances, because all cells together have the sum 0.
    wanted, known = np.clip(steps, -HALF, HALF) * sums[-1], sums * HALF
    before = np.clip(np.searchsorted(known, wanted, "right") - 1, 0, len(known) - 2)
    parts = (wanted - known[before]) * _PARTS // (known[before + 1] - known[before])
    coins, words = random_words(generator, 2 * len(steps)).reshape(2, -1)
    coins = (coins % np.uint64(_PARTS)).astype(np.int64)
    excess = (chances.high - chances.low) * int(sums[-1])
    return cells[chances.drawn(before + (coins < parts), words)] * (
        WHOLE * HALF / excess
    )


def _each(epsilon: float, n_outputs: int) -> float:
    """Return the epsilon of each output, rounded down."""
    return epsilon if n_outputs == 1 else math.nextafter(epsilon / n_outputs, 0.0)


@dataclasses.dataclass(frozen=True)
class _Randomise:
    """The method; ``fit(records, mechanism)`` makes its one release."""

    fit: Callable[[Records, Mechanism], Any]

    def prepare(self, public: PublicRecords, budget: Budget) -> None:
        """Learn nothing."""

    def plan(self, public: PublicRecords, prepared: None, budget: Budget) -> Plan:
        """Plan one pure release, of all outputs together."""
        sizes = {"noise_std": (), "clip_norm": 0.0, "sensitivity": 0.0}
        facts = {"pure_epsilon": budget.epsilon, **sizes, **budget.facts}
        return Plan(events=(Event(label="targets", **facts),))

    def run(self, records, prepared, plan, mechanism: Mechanism, on_step) -> Any:
        """Randomise the target, and fit the inner estimator."""
        return self.fit(records, mechanism)


def _columns_of(y: Any) -> list:
    """Return the columns of y; no entry of a list changes the type of another."""
    y = found = readable(y)
    if isinstance(y, list | tuple):
        with contextlib.suppress(ValueError):  # of rows of different lengths
            found = np.array(y, dtype=object)
    shape = getattr(found, "shape", ())
    if len(shape) != 2 or shape[1] <= 1:
        return [y]
    return [raw_column(found, j) for j in range(shape[1])]


def _needs_positive(given: Any) -> bool:
    """Whether an estimator, or the value of a parameter, has a loss of rates."""
    if hasattr(given, "fit") and not isinstance(given, type):
        return get_tags(given).target_tags.positive_only
    return isinstance(given, str) and given in OF_RATES


class _LabelDP(MetaEstimatorMixin, PrivateEstimator):
    """What the two meta-estimators share.

    A subclass has the name of its declaration (`_declares`), the space of an output
    (`_space`), and its random target (`_drawn`).
    """

    delta, neighboring_relation = 0.0, "replace_one"
    _released = ("estimator_",)

    @property
    def _inner(self) -> Any:
        return getattr(self, "estimator_", self.estimator)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of the arguments of `fit` to the inner estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        router = MetadataRouter(owner=type(self).__name__)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None, sample_weight=None, **fit_params):
        """Charge the ledger, randomise y once, and fit the inner estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Public; passed on as it is.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            The private target. Labels outside `classes` become the first class.
            Numbers are clipped to `target_bounds`, and missing ones are 0, clipped.
        sample_weight : array-like of shape (n_samples,), default=None
            Public weights, for the inner estimator.
        **fit_params : dict
            Further public arguments for the inner estimator; not protected. `groups`
            are refused, because a row is protected, and not a person.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            For bad parameters, arguments, types and shapes. Nothing is charged. An
            error of the inner estimator comes after the charge, which stays.
        PrivacyBudgetError
            If the ledger's limit would be exceeded. Nothing is charged or trained.
        """
        return self._fit(X, y, sample_weight=sample_weight, **fit_params)

    @guarded_fit
    def plan(self, X, y=None, sample_weight=None, **fit_params) -> FitPlan:
        """Return the release and cost of a fit, without charging it.

        Parameters are those of `fit`. y is read only if `classes` are not declared.
        """
        return self._plan(X, y, sample_weight=sample_weight, **fit_params)

    def predict(self, X) -> np.ndarray:
        """Return the labels with the largest probabilities.

        For a regressor, and without probabilities, they are the predictions of the
        inner estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        check_is_fitted(self)
        if not hasattr(self, "predict_proba"):
            return self.estimator_.predict(X)
        found = self.predict_proba(X)
        if not isinstance(found, list):
            return self.classes_[found.argmax(axis=1)]
        pairs = zip(self.classes_, found, strict=True)
        return np.column_stack([known[one.argmax(axis=1)] for known, one in pairs])

    def _compared(self, X, y) -> tuple[list, list]:
        """Return the predictions and the targets of each output."""
        found, given = np.asarray(self.predict(X)), _columns_of(y)
        known = [found] if found.ndim == 1 else [*found.T]
        if len(known) != len(given):
            raise ValueError(
                f"y has {len(given)} outputs, and the model {len(known)}: pass those "
                "of the fit."
            )
        return known, given

    # -- one fit ---------------------------------------------------------------------
    def _check_parameters(self, declared: Declaration) -> None:
        if np.ndim(self.epsilon) or self.epsilon != math.inf:
            expected = "a number from 0.001 to 50, or inf"
            checks.number("epsilon", self.epsilon, expected, 1e-3, 50)
        check_random_state(self.random_state)
        labels = self._target == "labels"
        fits = hasattr(self.estimator, "fit") and not isinstance(self.estimator, type)
        if not fits or is_classifier(self.estimator) != labels:
            raise ValueError(
                f"estimator={checks.shown(self.estimator)} must be a "
                f"{'classifier' if labels else 'regressor'} of scikit-learn: pass an "
                "object."
            )
        known = self.estimator, *self.estimator.get_params().values()
        if not labels and self.epsilon != math.inf and any(map(_needs_positive, known)):
            raise ValueError(
                f"estimator={checks.shown(self.estimator)} takes no negative target, "
                "but random numbers may be negative: use FeatureDPRegressor("
                "loss='poisson', public_features='all', ...)."
            )
        if KEEPER.get() is not None:
            raise ValueError(
                f"{type(self).__name__} cannot start again: fit outside of checkpoint."
            )

    def _on_records(
        self, use: Callable[[Records], Any], X: Any, y: Any, **how: Any
    ) -> Any:
        planning = how.pop("planning", False)
        declared, columns = Declaration.of(self, y), _columns_of(y)
        self._check_parameters(declared)
        if is_dask(X) or is_dask(y):
            raise ValueError("X and y must be in memory: pass X.compute().")
        check_names(X)
        n_rows, n_outputs, read = _num_samples(X), len(columns), []
        check_enough(self, n_rows)
        given = getattr(declared, self._declares)
        nested = isinstance(given, list | tuple | np.ndarray) and any(
            map(np.ndim, given)
        )
        if n_outputs == 1 or not nested:
            given = [given] * n_outputs
        if len(given) != n_outputs:
            raise ValueError(
                f"{self._declares}={checks.shown(given)} must be a list with an entry "
                f"for each of the {n_outputs} columns of y."
            )
        for column, own in zip(columns, given, strict=True):
            reader = Reader(declared._replace(**{self._declares: own}))
            column = reader.checked_target(self, column, n_rows, planning)
            read.append(reader.target(self, column, n_rows))
        targets, _, facts = zip(*read, strict=True)
        own = {name: value for name, value in how.items() if value is not None}
        checked_weights(own.get("sample_weight"), n_rows)
        routes = own and get_config()["enable_metadata_routing"]
        routed = process_routing(self, "fit", **own).estimator.fit if routes else own
        # Unknown arguments and bad parameters are refused here, before the charge.
        inner = clone(self.estimator)
        inspect.signature(inner.fit).bind(X, y, **routed)
        if hasattr(inner, "_parameter_constraints"):
            inner._validate_params()
        n_features, named, names = 1, {}, _get_feature_names(X)
        with contextlib.suppress(TypeError):  # a list of texts has no columns
            named["n_features_in_"] = n_features = _num_features(X)
        if names is not None:
            named["feature_names_in_"] = names
        public = PublicRecords(
            mask=np.ones(n_features, dtype=bool),
            input_scaler=InputScaler(feature_bound=math.inf),
            n_records=n_rows,
            columns=column_names(names, n_features),
            target_name=declared.target_name,
            is_weighted="sample_weight" in own,
            reader=Reader(declared, attributes=named),
            **facts[0],
        )
        if self.epsilon != math.inf:
            self._warn_of_few(public, n_outputs)
        pairs = [*zip(targets, map(self._space, facts), strict=True)]
        return use(Records((inner, X, routed), pairs, public))

    def _warn_of_few(self, public: PublicRecords, n_outputs: int) -> None:
        n_rows = public.n_records
        n_classes = 0 if public.classes is None else len(public.classes)
        worth = n_rows * self._worth(_each(self.epsilon, n_outputs), n_classes)
        if worth < 10 * (public.n_features + 1) * max(1, n_classes - 1):
            other = "LogisticRegression" if n_classes else "Regressor"
            warn_caller(
                f"the budget is small: {n_rows} random targets are worth at most "
                f"about {worth:.0f} exact ones, fewer than 10 for each weight of a "
                "linear model. Raise epsilon, use more records, or use "
                f"FeatureDP{other}(public_features='all').",
                UtilityWarning,
            )

    def _method(self, public: PublicRecords, budget: Budget) -> _Randomise:
        return _Randomise(self._fit_inner)

    def _without_privacy(self, records: Records) -> Any:
        return self._fit_inner(records, None)

    def _fit_inner(self, records: Records, mechanism: Mechanism | None) -> Any:
        """Return the inner estimator, fitted to a random target, and the spaces.

        X of the records is the inner estimator with its X and further arguments, and
        their target has a pair for each output: its values, and its classes or bounds.
        """
        n_outputs, epsilon, generator = len(records.target), math.inf, None
        if mechanism is not None:
            epsilon = _each(mechanism.event("targets").pure_epsilon, n_outputs)
            shape = records.public.n_records, n_outputs
            generator = mechanism.private("targets", "targets", shape)
        y = [self._drawn(*pair, epsilon, generator) for pair in records.target]
        y = y[0] if n_outputs == 1 else np.column_stack(y)
        inner, X, routed = records.X
        with users_state():
            inner.fit(X, y, **routed)
        return inner, [space for _, space in records.target]

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        return {"estimator_": found[0]}

    def _assumed(self, declared: Declaration) -> tuple:
        clipped = (ASSUMED["target_clipped"],) * (self._target == "numbers")
        known = (one for one in ASSUMPTIONS if one is not ASSUMED["values_clipped"])
        return (*known, ASSUMED["target_randomised"], *clipped)


@documented
class LabelDPClassifier(ClassifierMixin, _LabelDP):
    """Any classifier with private labels and public columns, by randomised response.

    Each label is kept with a chance that follows from epsilon, and otherwise becomes
    another one, all with equal chances. The inner estimator is fitted to these labels,
    and its probabilities are corrected for the chances. All that it does is covered,
    such as a grid search. :ref:`any-estimator` says when to use it.

    Parameters
    ----------
    estimator : classifier of scikit-learn
        A clone of it is fitted.
    epsilon : float, default=1.0
        The privacy budget of a row, from 0.001 to 50; infinity means no privacy.
        Several outputs have equal shares.
    classes : sequence, default=None
        All labels, public; for several outputs, one for all or a list of sequences.
        None takes the labels found in y, which the report states as an assumption.
    <ledger>
    <random_state>

    Attributes
    ----------
    estimator_ : classifier
        The inner estimator; its own probabilities are not corrected.
    classes_ : ndarray of shape (n_classes,), or list of ndarray
    <n_features_in_>
    <feature_names_in_>
    <privacy_>

    Notes
    -----
    **Guarantees.** Pure epsilon-DP for the replacement of the label, or of all labels,
    of one row: a person with several rows is protected less. Columns and all arguments
    of `fit` except y are public. Chances are integers over ``2**64``, which are checked
    (:ref:`randomised-targets`). A search *around* this estimator charges every fit, and
    its scores use private labels and are not covered.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from skfdp import LabelDPClassifier
    >>> X = np.random.default_rng(0).random((1000, 3))
    >>> y = np.where(X[:, 0] > 0.5, "yes", "no")
    >>> forest = RandomForestClassifier(min_samples_leaf=50)
    >>> model = LabelDPClassifier(forest, epsilon=3.0, classes=["no", "yes"])
    >>> model.fit(X, y).privacy_.epsilon
    3.0
    >>> model.predict_proba(X).shape
    (1000, 2)
    """

    _target, _declares = "labels", "classes"

    def __init__(
        self, estimator, epsilon=1.0, *, classes=None, ledger=None, random_state=None
    ) -> None:
        self._set(locals())

    @staticmethod
    def _worth(epsilon: float, n_classes: int) -> float:
        # The share of labels that are kept, whose square divides the variance.
        kept = math.expm1(epsilon)
        return (kept / (kept + n_classes)) ** 2

    @staticmethod
    def _space(facts: Mapping[str, Any]) -> np.ndarray:
        check_classification_targets(facts["classes"])  # as the inner estimator does
        return facts["classes"]

    @staticmethod
    def _drawn(codes, classes, epsilon: float, generator: Any) -> np.ndarray:
        if generator is not None:
            words = random_words(generator, len(codes))
            codes = Windows(epsilon, len(classes), 1).drawn(codes, words)
        return classes[codes]

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        classes = found[1][0] if len(found[1]) == 1 else found[1]
        return {**super()._attributes(public, found), "classes_": classes}

    def score(self, X, y, sample_weight=None) -> float:
        """Return the accuracy on X, y, without differential privacy.

        For several outputs it is their mean. Rows without a label of `classes_` are
        left out; a warning gives their number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        check_is_fitted(self)
        classes = self.classes_ if isinstance(self.classes_, list) else [self.classes_]
        each = zip(*self._compared(X, y), classes, strict=True)
        return float(np.mean([accuracy(*one, sample_weight) for one in each]))

    @available_if(lambda self: hasattr(self._inner, "predict_proba"))
    def predict_proba(self, X) -> np.ndarray | list[np.ndarray]:
        """Return the probabilities of the labels before they were randomised.

        Those of the inner estimator are corrected, clipped to [0.002 / n_classes, 1]
        and divided by their sum.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            For several outputs, a list of arrays.
        """
        check_is_fitted(self)
        given, seen = self.estimator_.predict_proba(X), self.estimator_.classes_
        if not isinstance(self.classes_, list):
            return self._corrected(given, seen, self.classes_)
        each = zip(given, seen, self.classes_, strict=True)
        return [self._corrected(*one, len(self.classes_)) for one in each]

    def _corrected(self, given, seen, classes, n_outputs: int = 1) -> np.ndarray:
        found = np.zeros((len(given), len(classes)))
        found[:, encode_any(np.asarray(seen), classes).codes] = given
        if math.isfinite(epsilon := self.privacy_.target_epsilon):
            chances = Windows(_each(epsilon, n_outputs), len(classes), 1)
            kept = (chances.high - chances.low) / WHOLE
            least = LEAST_CHANCE / len(classes)
            found = np.clip((found - chances.low / WHOLE) / kept, least, 1.0)
        return found / found.sum(axis=1, keepdims=True)


@documented
class LabelDPRegressor(RegressorMixin, _LabelDP):
    """Any regressor with a private target and public columns.

    Each number of the target is clipped to its bounds and replaced by a random one,
    whose expectation is the clipped number. The inner estimator is fitted to these. All
    that it does is covered, such as a grid search. :ref:`any-estimator` says when to
    use it.

    Parameters
    ----------
    estimator : regressor of scikit-learn
        A clone of it is fitted.
    epsilon : float, default=1.0
        The privacy budget of a row, from 0.001 to 50; infinity means no privacy.
        Several outputs have equal shares.
    target_bounds : tuple (low, high), default=None
        Public bounds of the target; for several outputs, a pair for all or a list of
        pairs. Required if epsilon is finite.
    <ledger>
    <random_state>

    Attributes
    ----------
    estimator_ : regressor
    <n_features_in_>
    <feature_names_in_>
    <privacy_>

    Notes
    -----
    **Guarantees.** Pure epsilon-DP for the replacement of the target, or of all
    targets, of one row; otherwise as `LabelDPClassifier`. Random numbers are unbiased
    up to a relative 1e-8 of the bounds, and lie outside of the bounds, too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from skfdp import LabelDPRegressor
    >>> X = np.random.default_rng(0).random((1000, 3))
    >>> trees = HistGradientBoostingRegressor()
    >>> model = LabelDPRegressor(trees, epsilon=3.0, target_bounds=(0, 2))
    >>> model.fit(X, X[:, 0] + X[:, 1]).privacy_.delta
    0.0
    """

    _target, _declares = "numbers", "target_bounds"

    def __init__(
        self,
        estimator,
        epsilon=1.0,
        *,
        target_bounds=None,
        ledger=None,
        random_state=None,
    ) -> None:
        self._set(locals())

    def score(self, X, y, sample_weight=None) -> float:
        """Return R squared on X, y, without differential privacy.

        For several outputs it is their mean. Rows without a number are left out; a
        warning gives their number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        each = zip(*self._compared(X, y), strict=True)
        return float(np.mean([r_squared(*one, sample_weight) for one in each]))

    @staticmethod
    def _worth(epsilon: float, n_classes: int) -> float:
        chances, cells, sums = of_numbers(epsilon)
        scale = WHOLE / ((chances.high - chances.low) * int(sums[-1]))
        noise = chances.low / WHOLE * float(((cells * scale) ** 2).sum())
        return 1 / (1 + 3 * noise)  # exact numbers all over the bounds vary by 1 / 3

    @staticmethod
    def _space(facts: Mapping[str, Any]) -> tuple[float, float]:
        return facts["target_map"].low, facts["target_map"].high

    @staticmethod
    def _drawn(y, bounds, epsilon: float, generator: Any) -> np.ndarray:
        if generator is None:
            return y
        low, step = bounds[0], (bounds[1] - bounds[0]) * TARGET_STEP
        steps = np.rint((y - low) / step).astype(np.int64) - HALF
        return low + (HALF + randomised(steps, epsilon, generator)) * step
