"""Base classes of the estimators: check, plan, charge, run and report a fit."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import math
import numbers
import operator
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skfdp import kernels
from skfdp.addresses import Versioned, wing
from skfdp.data.arrays import (
    is_dask,
    name_facts,
    numeric_target,
    one_column,
    readable,
    shaped_target,
)
from skfdp.data.cells import type_kind
from skfdp.data.grid import row_blocks
from skfdp.data.records import PublicRecords, Records
from skfdp.data.target import (
    RECODED,
    check_kind,
    check_target,
    class_shares,
    encode_any,
)
from skfdp.data.validation import (
    UtilityWarning,
    guarded_fit,
    users_state,
    warn_caller,
    without_traps,
)
from skfdp.mechanisms import release
from skfdp.mechanisms.release import Mechanism, check_random_state
from skfdp.privacy.accounting import Budget
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.events import (
    ASSUMED,
    Assumption,
    Relation,
    check_budget,
    warn_of_weakness,
)
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.reader import SHORT, Declaration, Reader
from skfdp.schema import TableSchema
from skfdp.solvers import Choice
from skfdp.solvers.method import BESIDE, Method, Needs, OnStep, Plan
from skfdp.solvers.parameters import ASSUMPTIONS

try:  # scikit-learn 1.9 and later; before, callbacks are ignored
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Replacement for scikit-learn's mixin before 1.9, without `set_callbacks`."""

        def _init_callback_context(self, **_):
            """Return nothing: there are no callbacks."""

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


# Shared documentation of parameters and attributes, by name.
_SHARED = r"""
public_target : bool, default=False
    Whether the target is public.
solver : name or object of `skfdp.solvers`, default="auto"
    Training method: "noisy-gd" is noisy gradient descent on full batches, "noisy-sgd"
    on Poisson batches. "auto" is "noisy-gd". Pass an object to set parameters:
    ``NoisyGradientDescent(clip_norm=0.5)``.
centering : name, object of `skfdp.solvers` or None, default="auto"
    How private columns are centred; public columns are always centred exactly.
    "gaussian" uses a mean released by the Gaussian mechanism. "adaptive" uses a mean
    whose error depends on the spread of the rows; nothing may be public then. "auto" is
    "gaussian", with one exception. If the signs of private columns reduce the
    sensitivity by the factor sqrt(2) (see the guarantees), these columns stay uncentred
    if their mean is small or cannot be estimated. None means no centring. Without
    private columns only "auto" and None are possible. Pass an object to set parameters:
    ``AdaptiveCentering(clip_features=True)``.
neighboring_relation : {"replace_one", "replace_special"} or AddOrRemoveOne
    Neighbouring relation; see :ref:`protected`. ``AddOrRemoveOne(n_records=...)`` is
    possible only if nothing is public.
schema : TableSchema, default=None
    Declares the columns of a raw table, and which are public; see :ref:`raw-tables`.
    Columns are selected by name; linear models smooth splines. A schema replaces the
    other declarations. None: X holds numbers.
target : str, default=None
    With a schema, the name of the outcome that y holds. Without a schema, the name of
    the column that y is (or is computed from), for reports and ledgers. None takes the
    name of y.
bounds : pair, mapping, "private", False or None, default=None
    Declared public bounds of the columns: ``(low, high)`` of scalars or arrays, or a
    mapping by column. Columns are clipped and scaled to [0, 1]. False leaves columns
    unchanged; None does the same with a warning. "private" first releases bounds with a
    share of the budget; bounds of public columns are exact (:ref:`unknown-bounds`).
fit_intercept : bool, default=True
    False also turns off centring; a `centering` is then refused.
classes : array-like, default=None
    The public set of labels. None reads it from y; if the target is private, the report
    then lists the assumption that this set is public.
ledger : str, path or PrivacyLedger, default=None
    Counts all fits on the same data. Charged before anything private is read.
random_state : int, default=None
    None uses cryptographic randomness. An int is reproducible and gives **no
    guarantee**.
n_jobs : int, default=None
    Number of threads, at most one per core; it does not change the result.
encoder_ : DeclaredEncoder
    Encoder of the columns; only with a schema. `coef_` then has the weights of the
    encoded columns ``encoder_.get_feature_names_out()``, and ``encoder_.transform(X)``
    takes the place of X in the formulas above.
coef_noise_ : CoefficientNoise
    Noise in the coefficients, as in `coefficients_table`; missing with ``epsilon=inf``.
interactions_ : Interactions
    Interactions of columns, if the schema of a table with a private target has them and
    the budget is large enough. Their margins, ``interactions_.beside(rows)`` of encoded
    rows, are added to those of `coef_`.
input_scaler_ : InputScaler
    Clipping and scaling of inputs; the same function in `fit` and `predict`.
solver_ : object of `skfdp.solvers`
    The training method with its parameters.
n_iter_ : int
    Number of steps taken.
privacy_ : PrivacyReport
n_features_in_ : int
feature_names_in_ : ndarray of shape (`n_features_in_`,)
"""
_SHARED_TEXTS = {
    text.partition(" :")[0].partition("\n")[0]: text
    for text in re.split(r"\n(?=\S)", _SHARED.strip())
}


#: The name of an entry of a docstring's section, and the rest of the entry.
_ENTRY = re.compile(r"^    (\w+)(.*\n(?:     .*\n)*)", re.M)


def documented(kind: type) -> type:
    """Complete a docstring: a line ``<name>`` becomes the shared documentation.

    In a section, ``<inherited>`` becomes the entries of the base class that the section
    lacks, without those of public parts, which the subclass fixes.
    """

    def shared(line: re.Match) -> str:
        return textwrap.indent(_SHARED_TEXTS[line[2]], line[1])

    def inherited(section: re.Match) -> str:
        title, own = section.groups()
        theirs = kind.__base__.__doc__.partition(f"\n{title}\n")[2].partition("\n\n")[0]
        known = dict(_ENTRY.findall(own))
        left = [
            f"    {name}{text}"
            for name, text in _ENTRY.findall(f"{theirs}\n")
            if name not in known and not name.startswith("public_")
        ]
        return f"{title}\n{own}{''.join(left)}".rstrip()

    if kind.__doc__:  # python -OO removes docstrings
        text = re.sub(r"^( *)<((?!inherited)\w+)>$", shared, kind.__doc__, flags=re.M)
        kind.__doc__ = re.sub(
            r"^( {4}.*\n {4}-+)\n((?:.+\n)*) {4}<inherited>$",
            inherited,
            text,
            flags=re.M,
        )
    return kind


def _has_probabilities(model) -> bool:
    loss = getattr(model, "loss", "log_loss")
    if loss == "log_loss":
        return True
    raise AttributeError(
        f"predict_proba and predict_log_proba need loss='log_loss', but loss={loss!r}."
    )


def weights_of_kept(kept: np.ndarray, what: str, sample_weight: Any) -> Any:
    """Return the sample weights of the `kept` rows with a target; warn about others."""
    if not kept.any():
        raise ValueError(f"y has no {what}: pass rows that have a target.")
    if not kept.all():
        warn_caller(
            f"{(~kept).sum()} of {len(kept)} rows have no {what}: they are left out of "
            "the score.",
            UtilityWarning,
        )
    return None if sample_weight is None else np.asarray(sample_weight)[kept]


def accuracy(guesses: np.ndarray, y: Any, classes: np.ndarray, weights: Any) -> float:
    """Return the accuracy on the rows with a label of `classes`; errors quote none."""
    check_kind(type_kind(one_column(y)), classes)
    labels = encode_any(shaped_target(y, len(guesses)), classes)
    kept = np.ones(len(guesses), bool) if labels.missing is None else ~labels.missing
    expected = f"label of classes_={classes.tolist()!r}"
    weights = weights_of_kept(kept, expected, weights)
    right = guesses[kept] == classes[labels.codes[kept]]
    return float(np.average(right, weights=weights))


def r_squared(guesses: np.ndarray, y: Any, weights: Any) -> float:
    """Return R squared on the rows with a number; errors quote none."""
    y = shaped_target(numeric_target(y), len(guesses))
    y = check_target(y, "squared_error", True, finite=False)
    kept = np.isfinite(y) & np.isfinite(guesses)
    weights = weights_of_kept(kept, "number", weights)
    from sklearn.metrics import r2_score

    return r2_score(y[kept], guesses[kept], sample_weight=weights)


class PrivateClassifier(ClassifierMixin):
    """Mixin of all private classifiers: labels, class weights and predictions."""

    _target = "labels"

    @property
    def _balances(self) -> bool:
        return isinstance(self.class_weight, str) and math.isfinite(self.epsilon)

    def _weights_without_privacy(self, records: Records) -> np.ndarray | None:
        """Return one weight per class, None without class weights."""
        weight, public = self.class_weight, records.public
        if not isinstance(weight, str):
            return None if weight is None else public.class_weight
        known = records.target, public.n_classes, public.shares
        return 1 / (public.n_classes * class_shares(*known))

    @without_traps()
    def score(self, X, y, sample_weight=None) -> float:
        """Return the accuracy on X, y, without differential privacy.

        Use `private_score` for a score that can be published.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels, in any spelling of the labels in `classes_` (the text "1" is the
            label 1). Rows without a label of `classes_` are left out. A warning gives
            their number.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If no row has a label of `classes_`.
        """
        return accuracy(self.predict(X), y, self.classes_, sample_weight)

    def decision_function(self, X) -> np.ndarray:
        """Return the margins of the model on ``input_scaler_(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The first shape is for two classes.
        """
        return self._margins(X)

    def predict(self, X) -> np.ndarray:
        """Return the most likely label of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return self.classes_[(margins > 0).astype(np.intp)]
        return self.classes_[margins.argmax(axis=1)]

    @available_if(_has_probabilities)
    @without_traps()
    def predict_proba(self, X) -> np.ndarray:
        """Return the probability of each class; only for ``loss="log_loss"``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            positive = expit(margins)
            # For margins above 37 ``1 - positive`` is 0, but the probability is not.
            negative = expit(-margins, out=1 - positive, where=positive == 1)
            return np.column_stack([negative, positive])
        return softmax(margins, axis=1)

    @available_if(_has_probabilities)
    @without_traps()
    def predict_log_proba(self, X) -> np.ndarray:
        """Return the logarithm of each probability; only for ``loss="log_loss"``.

        The logarithm is computed from the margins, so it is finite even if a
        probability underflows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        logs : ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        if margins.ndim == 1:
            return np.column_stack([log_expit(-margins), log_expit(margins)])
        return log_softmax(margins, axis=1)


#: Names of declarations. An attribute with such a name is not stored, unless it is a
#: parameter of the estimator.
_DECLARES = {*SHORT, "schema", "target", "class_weight", "loss", "solver"}


#: Attributes that hold models, whose margins are added to those of the weights, and
#: whether they read the public columns alone.
BESIDE_WEIGHTS = {"public_model_": True, "interactions_": False}
#: For each parameter that takes a name or an object: an example of an object.
_EXAMPLES = {
    "solver": "NoisyGradientDescent()",
    "centering": "GaussianCentering()",
    "loss": "Huber()",
    "backend": "NumpyBackend()",
}
#: Values that shared code uses for parameters that the chosen algorithm does not have.
_UNDECLARED = {
    "row_norm": "auto",
    "normalize": False,
    "public_loss": None,
    "threshold": "auto",
    "power": 1.5,
    "class_weight": None,
    "loss": "log_loss",
}


@functools.cache
def shown_parameters(estimator_class: type) -> frozenset[str]:
    """Return the names of the constructor's parameters, which `get_params` returns."""
    return frozenset(_parameters_of(estimator_class.__init__)) - {"self"}


@functools.cache
def parameters_of(estimator_class: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of an estimator by name, including those of its bases.

    A user's subclass need not list them.
    """
    found: dict[str, inspect.Parameter] = {}
    for one in reversed(estimator_class.__mro__):
        if "__init__" in vars(one) and one is not object:
            found |= _parameters_of(one)
    return found


@functools.cache
def own_parameters(estimator_class: type) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of this package, without those of a user's subclass."""
    for one in estimator_class.__mro__:
        if f"{one.__module__}.".startswith("skfdp."):
            return parameters_of(one)
    return {}


def _parameters_of(function: Callable) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function without ``*args`` and ``**kwargs``."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    given = inspect.signature(function).parameters
    return {name: p for name, p in given.items() if p.kind in kinds}


def digest_of(model: Any) -> str | None:
    """Return the SHA-256 of the released numbers of a model; see `PrivacyReport`."""
    found, empty = hashlib.sha256(), hashlib.sha256().digest()
    for name in (*model._released, "interactions_"):
        value = getattr(model, name, None)
        value = getattr(value, "weights", value)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, float | np.floating | np.ndarray):
                found.update(np.asarray(part, dtype="<f8").tobytes())
    return None if found.digest() == empty else found.hexdigest()


def refusal_of(
    needs: Needs, public: PublicRecords, asked: Mapping[str, str]
) -> str | None:
    """Return why the method cannot fit as asked, or None if it can.

    `asked` are the parameters that differ from their defaults, as texts by name.
    The result depends on public facts alone.
    """
    facts = {
        needs.PRIVATE_COLUMNS: public.n_private > 0,
        needs.PUBLIC_COLUMNS: public.mask.any(),
        needs.NO_PRIVATE_COLUMN: public.n_private == 0,
        needs.NO_PUBLIC_COLUMN: not public.mask.any(),
        needs.PRIVATE_TARGET: not public.has_target,
        needs.PUBLIC_TARGET: public.has_target,
        needs.DENSE: not public.sparse,
        needs.IN_MEMORY: not public.in_partitions,
        needs.EQUAL_RECORDS: public.units is None,
        needs.OWN_ROW: public.units is None or not public.units.joint,
        needs.NO_SCHEMA: public.encoding is None,
    }
    honours = {"": needs.table, **needs.honours}
    for name, text in (("", needs.name), *asked.items()):
        needed = honours.get(text, honours.get(name))
        if needed is None:
            return (
                f"{text} has no effect with {needs.name}: leave {name} out, or "
                "choose another method."
            )
        for need in needed() if callable(needed) else needed:
            if not facts.get(need, False):
                remedy = f"leave {name} out" if name else "choose another method"
                return f"{text} needs {need}: change this, or {remedy}."
    return None


class PrivateEstimator(CallbackSupportMixin, Versioned, BaseEstimator):
    """Base class of all private estimators: planning, charging, training, reporting.

    A subclass defines its parameters, the conversion of the target (`_target`), the
    method that fits (`_method`), and the fitted attributes (`_attributes`).
    """

    #: Released attributes; an estimator is fitted if it has the first one.
    _released: tuple[str, ...] = ()
    #: Attributes that must be finite.
    _weights: tuple[str, ...] = ()
    #: Name of a fit in ledgers and reports; None: the name of the class.
    _subject: str | None = None
    #: Whether the report assumes that no earlier step of a Pipeline learnt from data.
    _may_be_a_step = True

    # See `Reader`.
    _target: str | None = None
    #: Whether fitted weights have the declared order of monotone columns.
    _keeps_order = False
    _rows = "clipped"
    _smoothing: float | None = None
    _omits_zeros = False
    #: The object of `skfdp.solvers` with which the estimator trains.
    _solver: Choice | None = None

    def _set(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of a constructor, given its ``locals()``."""
        vars(self).update(given)
        for beside in ("self", "__class__"):
            vars(self).pop(beside, None)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless it looks like a declaration but is not a parameter.

        Notes
        -----
        **Guarantees.** Public parts, clipping and charges of a fit follow from the
        parameters of `get_params`. Any other attribute with the name of a declaration
        is not stored, and a warning is raised.
        """
        mine = type(self)
        known = parameters_of(mine)
        # The constructor of a subclass may set a parameter that users cannot set.
        new = name in known and name not in vars(self)
        declares = name in _DECLARES or name in known
        if declares and name not in shown_parameters(mine) and not new:
            warn_caller(
                f"{mine.__name__} has no parameter {name!r}, so setting this "
                "attribute has no effect: pass parameters to the constructor or to "
                "set_params.",
                UtilityWarning,
            )
            return
        super().__setattr__(name, value)

    def set_params(self, **params):
        """Set parameters, also of algorithms, such as ``solver__clip_norm``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is no such parameter, or if it belongs to an algorithm that is
            given by name and not by an object of `skfdp.solvers`.
        """
        for name in params:
            part, _, inner = name.partition("__")
            value = params.get(part, getattr(self, part, None)) if inner else None
            if isinstance(value, str):
                raise ValueError(
                    f"{part}={value!r} has no parameters to set: pass an object such "
                    f"as {part}={_EXAMPLES.get(part, 'NoisyGradientDescent()')}."
                )
        return super().set_params(**params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Public columns must be finite; private columns need not be.
        given = vars(self).get
        schema, mask = given("schema"), given("public_features")
        some = schema.public if isinstance(schema, TableSchema) else mask is not None
        tags.input_tags.allow_nan = not some
        tags.input_tags.string = True  # as a missing number, or with a schema
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit was completed."""
        return hasattr(self, self._released[0])

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None):
        """Charge the ledger, and fit to X and y within the budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each record once. Values outside `bounds` are clipped, and rows longer than
            `row_norm` are scaled down, without a warning. Malformed private values are
            replaced (:ref:`malformed`).
        y : array-like of shape (n_samples,), default=None
            Labels of any type; numbers for regressors; ignored by transformers.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters, malformed public values, wrong types and shapes, or the
            checkpoint of another fit. Nothing is charged, and no datum is quoted.
        PrivacyBudgetError
            If the ledger's limit would be exceeded. Nothing is charged or trained.
        """
        return self._fit(X, y)

    def _fit(self, X, y, **of_rows: Any):
        # A failed fit leaves no attributes of an earlier one.
        for name in [*vars(self)]:
            if name.endswith("_") and name[0] != "_":
                delattr(self, name)
        return self._on_records(self._fit_records, X, y, **of_rows)

    def _on_records(
        self, use: Callable[[Records], Any], X: Any, y: Any, **how: Any
    ) -> Any:
        """Check parameters, convert X and y to records, and return ``use(records)``.

        The partitions of a Dask collection stay on their workers, which free them after
        `use`.
        """
        declared, like = Declaration.of(self, y), object.__new__(type(self))
        vars(like).update(vars(self))
        self._check_parameters(declared)
        if is_dask(X):
            return wing("dask").on_records(Reader(declared), like, use, X, y, **how)
        return use(Reader(declared).read(like, X, y, **how))

    def _fit_records(self, records: Records):
        """Charge the ledger, and fit to validated records.

        Notes
        -----
        Whatever can fail for public reasons comes before the charge, which is never
        refunded: the plan, the report, callbacks, and the compilation of the noise.
        """
        if math.isfinite(self.epsilon):
            warn_of_weakness(self.epsilon, self.random_state)
        else:
            records = records.without_nulls()
        public = records.public
        ledger = None if self.ledger is None else PrivacyLedger.resolve(self.ledger)
        run, prepared, plan = self._planned(public)
        facts, declared = self._facts(public, plan), public.declared
        facts["assumptions"] += (ASSUMED["no_step_before"],) * self._may_be_a_step
        facts["assumptions"] += (ASSUMED["no_limit"],) * (
            getattr(ledger, "epsilon", 0) is None
        )
        report = PrivacyReport.from_events(
            **facts,
            feature_names=[*public.columns, *filter(None, [declared.exposure_name])],
            target_name=public.target_name,
            released=self._released
            + plan.also_released
            + ("input_scaler_",) * declared.releases_bounds
            + ("every intermediate step of the training",) * (plan.n_steps is not None),
            seeded=self._seeded,
        )
        calls, on_step = bool(getattr(self, "_skl_callbacks", None)), None
        with users_state():
            context = self._init_callback_context(max_subtasks=plan.n_steps or 0)
            if calls:
                context.call_on_fit_task_begin(estimator=self)
        mechanism, report = self._charged(records, report, ledger)
        if calls:
            on_step = self._on_step(context, public, report)
        found = run(records, prepared, plan, mechanism, on_step)
        self._publish(public, found, report)
        if calls:
            ended = users_state()(context.call_on_fit_task_end)
            ended(estimator=self, reconstruction_attributes={})
        return self

    @guarded_fit
    def plan(self, X, y=None) -> FitPlan:
        """Return the releases and cost of a fit on X, y, without charging them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape, its column names and its public columns are read, so private
            values may be missing.
        y : array-like of shape (n_samples,), default=None
            Only read if the target is public, or if `classes` are not declared. It may
            be None if the target is private and `classes` are declared.

        Returns
        -------
        plan : FitPlan
            Pass it to `PrivacyLedger.what_if`.

        Notes
        -----
        **Guarantees.** The plan depends on public facts only. It is equal, byte for
        byte, for all values of the private columns, for all values of a private target
        with declared `classes`, and for any pattern of zeros in the private columns of
        a sparse X.
        """
        return self._plan(X, y)

    def _plan(self, X, y, **of_rows: Any) -> FitPlan:
        def planned(records: Records) -> FitPlan:
            plan = self._planned(records.public)[-1]
            facts = self._facts(records.public, plan)
            return FitPlan(**facts, expected_gap=plan.expected_gap)

        return self._on_records(planned, X, y, planning=True, **of_rows)

    # -- methods that a subclass defines or extends ------------------------------------
    def _norm(self, given: Mapping[str, Any], mask: np.ndarray) -> tuple[Any, bool]:
        """Return `row_norm` and `normalize` for the input scaler; see `Reader`."""
        return given["row_norm"], given["normalize"]

    def _given(self) -> dict[str, Any]:
        """Return the parameters by name, with those of the chosen algorithms."""
        mine = parameters_of(type(self))
        values = operator.attrgetter(*mine)(self)
        given = _UNDECLARED | dict(zip(mine, values, strict=True))
        solver = self._solver
        if solver is not None:
            given["solver"] = solver
        for algorithm in (solver, given["loss"]):
            if isinstance(algorithm, Choice):
                given |= algorithm.get_params(deep=False)
        return given

    def _check_parameters(self, declared: Declaration) -> None:
        """Raise ValueError for bad parameters, without reading data."""
        check_budget(self.epsilon, self.delta, allow_infinite=True)
        check_random_state(self.random_state)
        n_jobs = declared.parameters.get("n_jobs")
        integral = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
        if n_jobs is not None and not (integral and n_jobs != 0):
            raise ValueError(
                f"n_jobs={shown(n_jobs)} must be None or an int other than 0: pass the "
                "number of threads, or -1 for all cores."
            )

    def _methods(self, public: PublicRecords) -> Iterable[Method]:
        """Return methods for the parameters; the first one that can fit does so."""

    def _without_privacy(self, records: Records) -> Any:
        """Fit without privacy, for ``epsilon=inf``, and return the result."""

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        """Return the fitted attributes by name, from the result of the method."""

    @property
    def _seeded(self) -> bool:
        """Whether the noise can be reproduced: with a seed, or within an audit."""
        return self.random_state is not None or release.current() is not None

    def _rows_to_predict(self, X) -> np.ndarray | csr_array:
        """Convert new rows in the same way as `fit`, to inputs of `input_scaler_`."""
        check_is_fitted(self)
        X = readable(X)
        if is_dask(X) and self._reader.encoder is None:
            (X,) = wing("dask").materialised(X)
        return self._reader.transform(self, X)

    def _summed(
        self, X, own: Callable[[np.ndarray], np.ndarray], n_outputs: int
    ) -> np.ndarray:
        """Return ``own(input_scaler_(X))``, plus the margins of models beside it."""
        X, scaler = self._rows_to_predict(X), self.input_scaler_
        models = [name for name in BESIDE_WEIGHTS if hasattr(self, name)]
        public = slice(None) if scaler.public is None else scaler.public
        margins = np.empty((X.shape[0], n_outputs))
        for block in row_blocks(X):
            rows = scaler(X[block])
            margins[block] = own(rows)
            for name in models:
                known = rows[:, public] if BESIDE_WEIGHTS[name] else rows
                margins[block] += getattr(self, name).beside(known)
        return margins[:, 0] if n_outputs == 1 else margins

    def _assumed(self, declared: Declaration) -> tuple[Assumption, ...]:
        """Return the assumptions of the report that follow from declarations."""
        return ASSUMPTIONS

    # -- from records to a model -----------------------------------------------------
    def _budget(self, public: PublicRecords) -> Budget:
        columns, mask, exposure = public.columns, public.mask, public.exposure
        if exposure is not None:
            columns = (*columns, public.declared.exposure_name)
            mask = [*mask, exposure.public]
        facts = name_facts(
            columns,
            mask,
            target=public.target_name,
            has_target=self._target is not None,
            public_target=public.has_target,
        )
        relation = Relation.of(self.neighboring_relation)
        facts |= {"neighboring_relation": relation.name, "unit": public.unit}
        facts |= {"classes_source": public.classes_source, "seeded": self._seeded}
        return Budget(
            float(self.epsilon), float(self.delta), relation, facts, reach=public.reach
        )

    def _method(self, public: PublicRecords, budget: Budget) -> Method:
        """Return the first method that can fit and honours all that was asked."""
        asked, refusal = {}, None
        for name, parameter in own_parameters(type(self)).items():
            value = getattr(self, name)
            parts = {name: (value, parameter.default, "")}
            if isinstance(value, Choice):
                for part, own in value.get_params(deep=False).items():
                    parts[part] = own, getattr(type(value)(), part), f" of {name}"
            for part, (own, usual, where) in parts.items():
                same = own is usual or (np.isscalar(own) and own == usual)
                if part not in BESIDE and not same:
                    asked[part] = f"{part}={shown(own)}{where}"
        if getattr(public.declared.schema, "interactions", None) == "pairs":
            asked["interactions"] = "interactions='pairs' of the schema"
        for method in self._methods(public):
            if public.declared.releases_bounds and public.n_private:
                method = wing("bounds").BoundsFirst(method)
            refusal = refusal_of(method.needs(public, budget), public, asked)
            if refusal is None:
                return method
        raise ValueError(refusal)

    def _planned(self, public: PublicRecords) -> tuple[Callable, Any, Plan]:
        """Return the `run` of the method, what the method prepared, and its plan."""
        usual = isinstance(getattr(self, "public_model", None), (str, type(None)))
        for block in public.effects:
            known = self._keeps_order and public.n_outputs == 1 and usual
            if block.monotone and not known:
                raise ValueError(
                    f"{block.name!r} is declared as monotone, which needs a linear "
                    "estimator, numbers or two classes, and no public_model of your "
                    "own: leave monotone out, or choose another estimator."
                )
        if math.isinf(self.epsilon):
            plan = Plan(events=())
            return lambda records, *_: self._without_privacy(records), None, plan
        budget = self._budget(public)
        method = self._method(public, budget)
        prepared = method.prepare(public, budget)
        plan = method.plan(public, prepared, budget)
        gap = plan.expected_gap
        if gap is not None and gap[2] >= 1:
            known = "the public columns" if public.has_target else "a constant"
            warn_caller(
                f"the budget is small for n={public.n_records} {public.unit}s and "
                f"{public.n_features} features: the median of fits like this one lost "
                f"{100 * gap[1]:.0f} % of the gain over {known}, and a quarter "
                "gained nothing (skfdp.metrics.expected_gap). Raise epsilon, use more "
                "records or fewer columns, or declare columns as public.",
                UtilityWarning,
            )
        seen = public.classes_source != "declared" or public.has_target
        seen = seen or plan.counts_labels or public.classes.dtype.kind not in "iu"
        if not (seen or np.array_equal(public.classes, range(public.n_classes))):
            warn_caller(
                f"classes={public.classes.tolist()!r} are not 0, ..., k-1, and "
                f"this fit cannot notice if y is coded as 0, ..., k-1. {RECODED}",
                UtilityWarning,
            )
        return method.run, prepared, plan

    def _facts(self, public: PublicRecords, plan: Plan) -> dict[str, Any]:
        """Return what the plan and the report of a fit have in common."""
        declared = public.declared
        by = getattr(declared.schema, "declared_by", None)
        chosen = (
            f"The bounds and categories declared in the file {by!r} were chosen "
            "without looking at private data."
        )
        assumptions = (
            *self._assumed(declared),
            *([] if by is None else [Assumption("schema_file_chosen", chosen)]),
            # The assumption is listed for all weights, even if they are 0 or 1 and only
            # leave out rows.
            *(ASSUMED["weights_public"],) * public.is_weighted,
            *(ASSUMED["row_order_public"],)
            * (declared.max_rows_per_group is not None and public.unit == "person"),
            *(ASSUMED["collection_deterministic"],) * public.in_partitions,
            *(ASSUMED["checkpoint_unread"],) * (release.KEEPER.get() is not None),
            *(ASSUMED["class_weight_from_releases"],)
            * getattr(self, "_balances", False),
            *plan.assumptions,
        )
        if declared.releases_bounds and public.n_private:
            assumptions = wing("bounds").told_of_released(assumptions)
        return {
            "subject": self._subject or type(self).__name__,
            "events": plan.events,
            "delta": self.delta,
            "target_epsilon": self.epsilon,
            "n_records": public.n_records,
            "assumptions": assumptions,
        }

    def _charged(
        self,
        records: Records,
        report: PrivacyReport,
        ledger: PrivacyLedger | None,
    ) -> tuple[Mechanism, PrivacyReport]:
        """Charge a fit; return the mechanism of its events, and the final report."""
        private, public, key = math.isfinite(self.epsilon), records.public, None
        if private and release.current() is None:
            key = release.KEEPER.get()
        if key is not None:
            key.open(records, public.declared.parameters, report)
        kernels.compiles = (
            public.n_records * public.n_features * public.n_outputs >= kernels.SMALL
        )
        mechanism = Mechanism(
            report.events,
            self.random_state,
            type(self),
            key=key,
            is_null=records.is_null,
            units=public.units,
        )
        if ledger is None:
            return mechanism, report
        if not private:
            receipt = ledger.charge_nonprivate(label=report.subject)
        elif key is None:
            receipt = ledger.charge(report.events, label=report.subject)
        else:
            receipt = key.charge(ledger, report.events, label=report.subject)
        return mechanism, dataclasses.replace(report, receipts=(receipt,))

    def _publish(
        self, public: PublicRecords, found: Any, report: PrivacyReport
    ) -> None:
        """Set the fitted attributes, from the result of the method."""
        attributes = self._attributes(public, found)
        for name in self._weights:
            weights = attributes[name]
            parts = weights if isinstance(weights, list) else [weights]
            if not np.isfinite(np.concatenate([*map(np.ravel, parts)])).all():
                raise ValueError(
                    "the fitted weights are not finite in the units of X: declare "
                    "bounds of moderate size, or rescale the columns; the charge for "
                    "this fit stays."
                )
        vars(self).update(attributes | public.reader.attributes, _reader=public.reader)
        self.privacy_ = dataclasses.replace(report, sha256=digest_of(self))

    def _on_step(self, context, public: PublicRecords, report: PrivacyReport) -> OnStep:
        """Return a function that calls the callbacks after a step, which may stop."""

        @users_state()
        def on_step(step: int, found: Callable[[], Any]) -> bool:
            @without_traps()
            def snapshot() -> dict[str, Any]:
                own = self._attributes(public, found()) | public.reader.attributes
                return own | {"_reader": public.reader, "privacy_": report}

            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self)
            return task.call_on_fit_task_end(
                estimator=self, reconstruction_attributes=snapshot
            )

        return on_step
