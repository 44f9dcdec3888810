"""``fit``, once: check, prepare, plan, charge, run, publish, report."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import math
import numbers
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skfdp._callbacks import CallbackSupportMixin, with_callbacks
from skfdp.data.arrays import (
    as_array,
    blanked,
    check_arrays,
    check_finite,
    check_no_path,
    declared_numbers,
    either,
    is_dask,
    is_frame,
    raw_column,
    shaped_target,
)
from skfdp.data.columns import column_names, name_facts, public_mask, target_name
from skfdp.data.encoder import MOST_DENSE, DeclaredEncoder, EncodedTable
from skfdp.data.grid import row_blocks
from skfdp.data.input_scaler import InputScaler
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import chosen_rows, whole_table
from skfdp.data.target import (
    RECODED,
    Labels,
    are_codes,
    check_recoded,
    class_shares,
    encode_any,
    encode_labels,
    resolve_class_weight,
)
from skfdp.data.units import (
    RowsOfUnits,
    check_named,
    noise_of_sums,
    without_column,
    without_group_column,
)
from skfdp.data.validation import (
    UtilityWarning,
    check_choice,
    guarded_fit,
    users_state,
    warn_caller,
    without_traps,
)
from skfdp.mechanisms import noise
from skfdp.mechanisms.checkpoint import OPEN, Journal, ResumingMechanism
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.assumptions import (
    BALANCED,
    NOT_COPIED,
    ONE_STEP,
    ORDER_IS_PUBLIC,
    SAME_PARTITIONS,
    SAME_ROWS,
    WEIGHTS_ARE_PUBLIC,
    Assumption,
    enforced,
    of_limit,
)
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import FitPlan, Receipt
from skfdp.privacy.events import (
    AddOrRemoveOne,
    PrivacyBudgetError,
    Relation,
    check_budget,
)
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.report import PrivacyReport
from skfdp.schema import Ignore, TableSchema
from skfdp.solvers import Choice
from skfdp.solvers.bounds import (
    UNKNOWN,
    BoundsFirst,
    told_of_released,
    with_public_bounds,
)
from skfdp.solvers.method import Budget, Method, OnStep, Plan
from skfdp.solvers.parameters import (
    ASSUMPTIONS,
    nominal_count,
    parameters_of,
    public_count,
    resolve_input_scaler,
    shown_parameters,
    warn_of_weakness,
)

# The common part of classifiers: labels as codes, and the most likely label.


def _has_probabilities(model) -> bool:
    loss = model._given()["loss"]
    if loss == "log_loss":
        return True
    raise AttributeError(
        f"predict_proba and predict_log_proba need loss='log_loss', but loss={loss!r}."
    )


def delegates(fitted: str, name: str) -> Callable[[Any], bool]:
    """Return a check that the inner estimator has a method; the fitted one decides."""

    def check(model: Any) -> bool:
        getattr(getattr(model, fitted, model.estimator), name)
        return True

    return check


def weights_of_kept(kept: np.ndarray, what: str, sample_weight: Any) -> Any:
    """Return the weights of the scored rows; warn of those without a target."""
    if not kept.any():
        raise ValueError(f"y has no {what}: score needs rows with one.")
    if not kept.all():
        warn_caller(
            f"of {len(kept)} rows {(~kept).sum()} have no {what}: they are left out of "
            "the score.",
            UtilityWarning,
        )
    return None if sample_weight is None else np.asarray(sample_weight)[kept]


class PrivateClassifier(ClassifierMixin):
    """The classifiers' part of an estimator."""

    _fixed = {"classes": None}

    def _check_schema(self, schema: TableSchema, found: Mapping[str, Any]) -> None:
        if found["target_bounds"] is not None:
            raise ValueError(
                f"the outcome {found['target_name']!r} of the schema is a number: use "
                "FeatureDPRegressor, or declare a Label."
            )

    def _target(
        self, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict]:
        classes = self._declared.classes
        if y is not None:
            if classes is not None:
                check_recoded(y, classes)
            encode = encode_any if self._declared.any_target else encode_labels
            labels = encode(y, classes)
        elif classes is not None:
            labels = Labels.unseen(classes, n_rows)
        else:
            raise ValueError(
                "classes=None and y=None: a plan needs the labels; declare `classes`, "
                "or pass y."
            )
        source = labels.source
        if source == "data" and self._declared.public_target:
            source = "public target"
        weight = self._declared.parameters["class_weight"]
        facts = {
            "classes": labels.classes,
            "classes_source": source,
            "class_weight": resolve_class_weight(weight, labels.classes),
        }
        return labels.codes, labels.missing, facts

    @property
    def _balances(self) -> bool:
        """Whether class frequencies are taken off the intercept of a private model."""
        weight = self._declared.parameters["class_weight"]
        return isinstance(weight, str) and math.isfinite(self.epsilon)

    def _weights_without_privacy(self, records: Records) -> np.ndarray | None:
        """Return one weight per class, None where there is no class weight."""
        weight, public = self._declared.parameters["class_weight"], records.public
        if not isinstance(weight, str):
            return None if weight is None else public.class_weight
        known = records.target, public.n_classes, public.shares
        return 1 / (public.n_classes * class_shares(*known))

    def _planned(self, public: PublicRecords) -> tuple[Method, Any, Plan]:
        found, given = super()._planned(public), self._declared.parameters
        if not self._balances:
            return found
        tell = "class counts", "label statistic"
        known = public.has_target or any(
            e.label.endswith(tell) for e in found[-1].events
        )
        odds = given["loss"] == "log_loss" and given.get("fit_intercept", True)
        if not (odds and known):
            raise ValueError(
                "class_weight='balanced' needs the log loss, an intercept and class "
                "counts, which no network with a private target releases, and no fit "
                "with C, public_loss, max_weight_norm, gradient_scale, averaged "
                "iterates, a public_model of yours or next to no budget: give a dict "
                "of weights from nothing private, such as {0: 1.0, 1: 5.0}."
            )
        return found

    @without_traps()
    def score(self, X, y, sample_weight=None):
        """Return the accuracy on X, y; not private.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels in any spelling of the declared ones. Rows with another label, or
            with none, are left out, with a warning that counts them.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float

        Raises
        ------
        ValueError
            If no row has a label of `classes_`.
        """
        guesses = self.predict(X)
        y = shaped_target(y, len(guesses))
        labels = encode_any(y, self.classes_)
        kept = np.ones(len(y), bool) if labels.missing is None else ~labels.missing
        lacking = f"label of classes_={self.classes_.tolist()!r}"
        sample_weight = weights_of_kept(kept, lacking, sample_weight)
        right = guesses[kept] == self.classes_[labels.codes[kept]]
        return float(np.average(right, weights=sample_weight))

    def decision_function(self, X):
        """Return the margins of the model on ``input_scaler_(X)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        return self._margins(X)

    def predict(self, X):
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
    def predict_proba(self, X):
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
            # The difference is 0 from a margin of 37 on; the probability is not.
            negative = np.where(positive < 1, 1 - positive, expit(-margins))
            return np.column_stack([negative, positive])
        return softmax(margins, axis=1)

    @available_if(_has_probabilities)
    @without_traps()
    def predict_log_proba(self, X):
        """Return the logarithm of each probability; only for ``loss="log_loss"``.

        It is computed from the margins, and stays finite where a probability is too
        small for a float.

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


# Fits that may be stopped and go on: their checkpoint, and how they are charged.


#: They may change while a fit is stopped.
_MAY_CHANGE = frozenset({"backend", "device", "ledger", "n_jobs", "random_state"})


def promise_of(
    estimator: Any,
    parameters: Mapping[str, Any],
    public: PublicRecords,
    told: FitPlan,
    ledger: PrivacyLedger | None,
) -> dict[str, Any]:
    """Return the public facts that a fit keeps when it goes on, as JSON values.

    Private values do not enter, by digests either: what a parameter holds that is
    neither number nor text, such as a function that may see the table, is told by its
    type alone.
    """
    kind = type(estimator)
    return {
        "estimator": f"{kind.__module__}.{kind.__qualname__}",
        "ledger": None if ledger is None else ledger.dataset,
        "number of records": told.n_records,
        **{n: _told(v) for n, v in parameters.items() if n not in _MAY_CHANGE},
        "plan": [event.to_dict() for event in told.events],
        "public part": _digest(public),
    }


@contextlib.contextmanager
def journal_of(checkpoint: Any, promise: Mapping[str, Any]) -> Iterator[Journal]:
    """Hold the journal of a fit; that of an audit is a file of its own, and goes."""
    if noise.current() is None:
        with Journal(checkpoint, promise) as journal:
            yield journal
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Journal(os.path.join(folder, "checkpoint"), promise) as journal,
    ):
        yield journal


def charged(
    ledger: PrivacyLedger | None, told: FitPlan, journal: Journal
) -> tuple[FitPlan, Receipt | None]:
    """Charge a fit, or find what it was charged; return what to tell of it."""
    facts = {"label": told.subject, "n_rows": told.n_rows}
    lease, receipt = None, None
    if ledger is not None and noise.current() is not None:
        receipt = ledger.charge(told.events, **facts)
    elif ledger is not None:
        try:
            lease, receipt = ledger.lease(
                journal.fit, told.events, begun=journal.begun, **facts
            )
        except PrivacyBudgetError:
            journal.forget()  # a new one would stand in the way of a smaller fit
            raise
    journal.settle(lease)
    texts = [NOT_COPIED] * (lease is None) + [SAME_ROWS] * journal.begun
    more = tuple(Assumption(text, enforced=False) for text in texts)
    return dataclasses.replace(told, assumptions=told.assumptions + more), receipt


def _digest(public: PublicRecords) -> str:
    """Return a digest of public columns, a public target, weights and persons."""
    found = hashlib.blake2b(digest_size=16)

    def add(array: np.ndarray | None) -> None:
        if array is not None:
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(np.ascontiguousarray(array).data)

    if public.mask.any():
        for block in public.blocks():
            parts = (
                (block,)
                if isinstance(block, np.ndarray)
                else (block.data, block.indices, block.indptr)
            )
            for part in parts:
                add(part)
    add(public.target)
    if public.units is not None:
        add(public.units.weights)
        add(public.units.persons)
    return found.hexdigest()


def _told(value: Any) -> Any:
    """Return a parameter as JSON: plain values as they are, others by their type."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return "nan"  # which equals itself
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_told(one) for one in value]
    if isinstance(value, Mapping):
        return sorted([str(name), _told(one)] for name, one in value.items())
    if isinstance(value, np.ndarray):
        return [value.dtype.str, _told(value.tolist())]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [kind, _told(value.get_params(deep=False))]
    if isinstance(value, TableSchema):
        return [kind, value.to_toml()]
    if isinstance(value, AddOrRemoveOne):
        return [kind, value.n_records]
    return kind


# The way from a user's table to checked records, the same in fit and predict.


@dataclasses.dataclass(frozen=True)
class Declared:
    """What a fit is told of its table, by a schema or by parameters of its own.

    Notes
    -----
    **Guarantees.** It is made at the beginning of a fit, of what `get_params` shows:
    no other attribute of an estimator says what is public or what is clipped.
    """

    schema: TableSchema | None = None
    encoder: DeclaredEncoder | None = None
    public_features: Any = None
    public_target: bool = False
    target_name: str | None = None
    bounds: Any = None
    classes: Any = ()
    target_bounds: tuple | None = None
    max_rows_per_group: int | None = None
    n_records: int | None = None
    #: Whether no value of the target is refused.
    any_target: bool = False
    #: Whether the fit itself finds the bounds of the columns.
    releases_bounds: bool = False
    #: Every parameter, those of the chosen algorithms included; not the ledger, whose
    #: path must not travel with a model.
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def read_target(self, y: Any) -> Any:
        """Return y as the schema declares it."""
        if self.schema is None or y is None or is_dask(y):
            return y
        return self.schema.read_outcome(self.target_name, y)


#: The parameters that declare a table without a schema, and what leaves them out.
_SHORT = {
    "public_features": None,
    "public_target": False,
    "bounds": None,
    "classes": None,
    "target_bounds": None,
}
#: Names that declare something: as attributes they are refused.
_DECLARES = {*_SHORT, "schema", "target", "class_weight", "loss", "solver"}


#: An object for each parameter that also takes a name.
_EXAMPLES = {
    "solver": "NoisyGradientDescent()",
    "centering": "GaussianCentering()",
    "loss": "Huber()",
    "pretraining": "Pretraining()",
    "backend": "NumpyBackend()",
}
#: Parameters of algorithms that shared code reads, where the chosen one has none.
_UNDECLARED = {
    "row_norm": "auto",
    "normalize": False,
    "public_loss": None,
    "threshold": "auto",
    "class_weight": None,
    "loss": "log_loss",
}


class TableEstimator(BaseEstimator):
    """Base of every estimator: what it makes of a table."""

    #: What is declared of every table, by name.
    _fixed: Mapping[str, Any] = {}
    #: What the fit that runs, or ran last, was told of its table.
    _declared: Declared
    _accepts_sparse = False
    #: Whether wide encoded rows may be held without their zeros.
    _omits_zeros = False
    _has_target = True
    #: Whether the model is one of rows that are cut to `row_norm`.
    _shortens_rows = True
    #: Whether all rows of a person can be protected together.
    _protects_groups = False
    #: Whether rows may be those of a Dask collection.
    _takes_partitions = False
    #: Whether the method takes bounds that are released before it begins.
    _may_release_bounds = False
    #: Whether a private fit smooths the curves of encoded columns.
    _smooths = False
    #: Whether the method reads all rows at once, and not in blocks.
    _needs_whole_table = False
    #: Whether something stands in for what is not finite.
    _fills_in = True
    #: The object of `skfdp.solvers` that the estimator trains with.
    _solver: Choice | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless it declares what no parameter of `get_params` does.

        Notes
        -----
        **Guarantees.** What a fit declares public, clips and charges follows from
        parameters that `get_params` shows. Another attribute of such a name is not
        stored, with a warning.
        """
        mine = type(self)
        known = parameters_of(mine)
        # The constructor of a subclass may fix what its own signature does not show.
        new = name in known and name not in vars(self)
        declares = name in _DECLARES or name in known
        if declares and name not in shown_parameters(mine) and not new:
            warn_caller(
                f"{mine.__name__} has no parameter {name!r}, so that setting this "
                "attribute has no effect: pass parameters to the constructor or to "
                "set_params.",
                UtilityWarning,
            )
            return
        super().__setattr__(name, value)

    def set_params(self, **params):
        """Set parameters, those of algorithms too, as ``solver__clip_norm``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If there is no such parameter, or a name stands where an object of
            `skfdp.solvers` has to.
        """
        for name in params:
            part, _, inner = name.partition("__")
            value = params.get(part, getattr(self, part, None)) if inner else None
            if isinstance(value, str):
                raise ValueError(
                    f"{part}={value!r} has no parameters to set: pass "
                    f"{part}={_EXAMPLES.get(part, 'an object')}, which has."
                )
        return super().set_params(**params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Public columns must be finite, and private ones need not be.
        given = self.get_params(deep=False)
        schema, mask = given.get("schema"), given.get("public_features")
        shown = schema.public if isinstance(schema, TableSchema) else mask is not None
        tags.input_tags.allow_nan = not shown
        return tags

    def _declare(self, y: Any) -> Declared:
        """Return what the parameters declare of X and y."""
        given = self._given()
        if "public_target" in given:
            check_choice("public_target", given["public_target"], (True, False))
        found = {name: given[name] for name in _SHORT if name in given}
        relation = given.get("neighboring_relation", "replace_one")
        found["n_records"] = nominal_count(relation)
        found["parameters"] = {n: v for n, v in given.items() if n != "ledger"}
        if self._has_target:
            found["target_name"] = target_name(given.get("target"), y)
        schema = given.get("schema")
        if schema is not None:
            if not isinstance(schema, TableSchema):
                raise ValueError(
                    f"schema={shown(schema)} must be a TableSchema or None."
                )
            for name, usual in _SHORT.items():
                if name in given and not (given[name] is None or given[name] is usual):
                    raise ValueError(
                        f"{name}={shown(given[name])} and a schema are given: declare "
                        "it in the schema, which says what is known of the table and "
                        "what is public."
                    )
            found |= schema.parameters(given.get("target"), y) | {"schema": schema}
            if schema.group is not None and not self._protects_groups:
                raise ValueError(
                    f"{type(self).__name__} protects rows, and the schema has "
                    f"group={schema.group!r}: use a linear estimator, which protects "
                    "all rows of a person together."
                )
            self._check_schema(schema, found)
            # Ignored columns that are called like identifiers, without a group.
            ignored = [n for n, c in schema.columns.items() if isinstance(c, Ignore)]
            named = [name for name in ignored if _IDENTIFIER.search(name)]
            if named and schema.group is None:
                warn_caller(
                    f"the schema ignores {named[0]!r}, by its name an identifier, and "
                    "declares no group: each row is protected by itself. If a person "
                    f"may have several rows, declare group={named[0]!r}.",
                    UtilityWarning,
                )
        declared = Declared(**{**self._fixed, **found})
        # No array is asked whether it is "private": it would answer by entry.
        bounds = declared.bounds
        releases = isinstance(bounds, str) and bounds == "private"
        return dataclasses.replace(
            declared,
            any_target=declared.classes is not None and not declared.public_target,
            releases_bounds=releases
            and self._may_release_bounds
            and self.epsilon != math.inf,
        )

    def _check_schema(self, schema: TableSchema, found: Mapping[str, Any]) -> None:
        """Refuse a schema that declares what this estimator cannot do."""

    def _target(
        self, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict]:
        """Return the target as numbers, and what `PublicRecords` holds of it.

        Parameters
        ----------
        y : ndarray of shape (n_rows,) or None
            None where a plan is made without it.
        n_rows : int

        Returns
        -------
        target : int64 or float64 ndarray of shape (n_rows,)
        missing : bool ndarray of shape (n_rows,) or None
            Records without a target; None: there are none.
        facts : dict
        """
        raise NotImplementedError

    def _input_scaler(
        self,
        n_features: int,
        names,
        mask: np.ndarray,
        sparse: bool,
        table: EncodedTable | None,
    ) -> InputScaler:
        """Return the input scaler of the bounds; public columns keep their scale."""
        if math.isinf(self.epsilon):
            return InputScaler(feature_bound=math.inf)
        bounds = self._declared.bounds if table is None else table.bounds
        input_scaler = resolve_input_scaler(
            UNKNOWN if self._declared.releases_bounds else bounds,
            self._declared.parameters["row_norm"],
            bool(self._declared.parameters["normalize"]),
            n_features,
            names,
            sparse,
            public=mask,
            shortens=self._shortens_rows,
            longest=None if table is None else table.longest,
        )
        mixed = mask.any() and not mask.all()
        return dataclasses.replace(input_scaler, public=mask if mixed else None)

    def _given(self) -> dict[str, Any]:
        """Return the parameters by name, those of the chosen algorithms included."""
        mine = parameters_of(type(self))
        given = _UNDECLARED | {name: getattr(self, name) for name in mine}
        for algorithm in (self._solver, given["loss"]):
            if isinstance(algorithm, Choice):
                given |= algorithm.get_params(deep=False)
        return given

    def _on_records(
        self,
        use: Callable[[Records], Any],
        X: Any,
        y: Any,
        planning: bool = False,
        **of_rows: Any,
    ) -> Any:
        """Return what `use` makes of the records of X and y, whatever kind of table.

        The parameters are checked first. What an earlier fit left is deleted, so that a
        failed fit leaves nothing. The partitions of a Dask collection stay where they
        are, and are let go of afterwards. Parameters are those of `_records`.
        """
        for name in [v for v in vars(self) if v.endswith("_") and v[0] != "_"]:
            delattr(self, name)
        self._declared = self._declare(y)
        if self._declared.schema is not None:
            y = self._declared.read_target(y)
        self._check_parameters()
        if is_dask(X):
            from skfdp import dask_tables

            return dask_tables.on_records(self, use, X, y, planning, **of_rows)
        return use(self._records(X, y, planning=planning, **of_rows))

    def _records(
        self, X, y, planning: bool = False, sample_weight=None, groups=None, whole=None
    ) -> Records:
        """Validate, split and map; the last time that the user's objects are touched.

        Parameters
        ----------
        X, y
            As the user gave them.
        planning : bool, default=False
            Look at nothing private: private columns become zeros, and a private target
            too, unless its label set has to be read from it.
        sample_weight, groups : default=None
            As `fit` of the linear estimators takes them; both are public.
        whole : Whole, default=None
            What is known of the table, where X is a sample of it and y is not looked
            at.
        """
        X, groups = self._take_groups(X, groups)
        frame, named = X, self._declared.target_name
        if self._declared.encoder is not None:
            encoder = clone(self._declared.encoder)
            smooths = self._smooths and math.isfinite(self.epsilon)
            self.encoder_ = encoder.fit_to_smooth(X, smooths)
            wide = self.encoder_.n_encoded > MOST_DENSE
            self.encoder_.sparse_output = wide and self._omits_zeros and whole is None
            X = self.encoder_.encoded(X, least=0)  # `_checked` counts the rows
        checked = self._checked(X, y, planning) if whole is None else whole.of(self, X)
        X, y = checked
        n_given = X.shape[0] if whole is None else whole.n_rows
        most, given = self._declared.max_rows_per_group, None
        self._has_weights = sample_weight is not None
        if self._has_weights or groups is not None or most is not None:
            relation = Relation.of(self.neighboring_relation)
            given = RowsOfUnits.checked(
                sample_weight, groups, X.shape[0], relation, most
            )
        if given is not None:  # what is left out here, nothing looks at
            X, y = chosen_rows(X, given.rows), None if y is None else y[given.rows]
        if self._declared.encoder is not None:
            self.n_features_in_ = self.encoder_.n_features_in_
            if hasattr(self.encoder_, "feature_names_in_"):
                self.feature_names_in_ = self.encoder_.feature_names_in_
        names = getattr(self, "feature_names_in_", None)
        mask = public_mask(
            self._declared.public_features, self.n_features_in_, names, frame
        )
        columns, table = column_names(names, self.n_features_in_), None
        if isinstance(self.ledger, PrivacyLedger) and not planning:
            rows = None if given is None else given.rows
            source = X if self._declared.encoder is None else frame
            read = functools.partial(values_of, source, rows, whole is not None)
            self.ledger.check_column(columns, mask.tolist(), read)
        if self._declared.encoder is not None:
            table, names = EncodedTable(self.encoder_, X, mask), None
            mask = table.mask
        self._check_split(mask)
        check_finite(X, mask)
        if planning:
            X = blanked(X, mask)
        target, missing, facts = (
            self._target(y, X.shape[0]) if self._has_target else (None, None, {})
        )
        shows_target = self._has_target and bool(self._declared.public_target)
        units = None
        if given is not None:
            n_classes = len(facts.get("classes", ()))
            width = X.shape[1] * (1 if n_classes <= 2 else n_classes)
            noise = noise_of_sums(self.epsilon, self.delta, relation, width)
            units = given.units(noise)
        n_rows = X.shape[0] if whole is None else whole.n_rows
        n = n_rows if units is None else units.n_units
        n = public_count(n, self._declared.n_records, self.epsilon, self.delta)
        if table is not None:
            for block in self.encoder_.blocks_:
                n_levels = len(block.levels)
                # More declared levels than a twentieth of the records.
                if block.reads == "category" and n_levels > max(32, n / 20):
                    warn_caller(
                        f"{columns[block.parent]!r} has {n_levels} declared levels for "
                        f"{n} records: few records share a level, so that it costs "
                        "accuracy and time. Declare groups of levels, such as the "
                        "first digits of a code, or leave it out.",
                        UtilityWarning,
                    )
            table = dataclasses.replace(table, encoded=X)
            if self._smooths and math.isfinite(self.epsilon):
                table = self._in_coordinates(table, n, facts, units)
            X, mask, columns = table.rows(), table.mask, table.names(columns)
        input_scaler = self._input_scaler(X.shape[1], names, mask, issparse(X), table)
        is_null = None
        if self._declared.releases_bounds:
            # Then no row has to be filled: see `BoundsFirst.run`.
            input_scaler = with_public_bounds(input_scaler, X, mask)
        elif self._fills_in:
            X, is_null = input_scaler.filled(X)
        self._public_mask = mask
        public = PublicRecords(
            mask=mask,
            input_scaler=input_scaler,
            n_records=n,
            columns=columns,
            sparse=issparse(X),
            target=target if shows_target else None,
            labels=y if shows_target else None,
            target_name=named,
            private_reach=None if table is None else table.longest_private,
            encoding=None if table is None else table.public_part(),
            levels=None if table is None else table.levels,
            units=units,
            n_given=n_given,
            _table=X,
            **facts,
        )
        return Records(X, target, public, either(is_null, missing))

    def _take_groups(self, X, groups) -> tuple[Any, Any]:
        """Return X without the column that says whose a row is, and the groups."""
        schema, self._group_column = self._declared.schema, None
        if schema is not None:
            check_no_path(X)
            return schema.select(X), schema.groups(X, groups)
        if isinstance(groups, str):
            check_named(self._declared.public_features, self._declared.bounds, groups)
            self._group_column = groups
            return without_group_column(X, groups)
        return X, groups

    def _checked(
        self, X, y, planning: bool, **how: bool
    ) -> tuple[Any, np.ndarray | None]:
        """Return X and y as arrays; y is None where there is none, or no need of it."""
        if self._declared.encoder is None:
            X = declared_numbers(X, self._declared.bounds)
        checked = {"accept_sparse": self._accepts_sparse, **how}
        if not self._has_target or (planning and self._plans_without(y)):
            X, y = check_arrays(self, X, **checked), None
        else:
            any_target = self._declared.any_target
            X, y = check_arrays(self, X, y, any_target=any_target, **checked)
        # A user's function, or a method, may read no blocks.
        whole = callable(self._declared.parameters["public_loss"])
        return (whole_table(X) if whole or self._needs_whole_table else X), y

    def _plans_without(self, y) -> bool:
        """Whether a plan has no need to look at y."""
        declared = self._declared.classes is not None
        return not self._declared.public_target and (y is None or declared)

    def _check_split(self, mask: np.ndarray) -> None:
        """Raise ValueError if nothing is left to protect, or nothing may be public."""
        if math.isinf(self.epsilon):
            return
        shows_target = bool(self._declared.public_target)
        if mask.all() and shows_target:
            raise ValueError(
                "public_features names every column and public_target=True: there is "
                "nothing to protect; use a scikit-learn estimator."
            )
        if self._declared.n_records is None:
            return
        name = "add_or_remove_one"
        if mask.any() or shows_target:
            raise ValueError(
                f"neighboring_relation={name!r} adds whole records, so nothing of them "
                "can be public: use 'replace_one' or 'replace_special'."
            )
        public_loss = self._declared.parameters["public_loss"]
        if public_loss is not None:
            # An exact average over the rows would tell how many there are.
            raise ValueError(
                f"public_loss={shown(public_loss)} takes exact averages over the rows, "
                f"whose number is private under neighboring_relation={name!r}: leave "
                "it out, or use 'replace_one'."
            )

    def _rows_to_predict(self, X) -> np.ndarray | csr_array:
        """Return new rows as `fit` would read them, ready for the input scaler."""
        check_is_fitted(self)
        if self._declared.schema is not None:
            check_no_path(X)
            return self.encoder_.encoded(self._declared.schema.select(X))
        X = declared_numbers(
            without_column(X, self._group_column), self._declared.bounds
        )
        sparse = self._accepts_sparse
        X = check_arrays(self, X, reset=False, accept_sparse=sparse)
        check_finite(X, self._public_mask)
        return self.input_scaler_.filled(X)[0]


#: How identifiers of people are called, in English and German.
_IDENTIFIER = re.compile(
    r"""(?:^|[^a-z])(?:id|uuid|guid|mrn|ssn|nr|no|number|nummer)$   # patient_id
    |[a-z](?:Id|ID|Nr|nummer)$                                      # PatientID
    |^(?:patient|person|customer|client|user|member|subject|household|kunde)s?$""",
    re.VERBOSE,
)


def values_of(X: Any, rows: Any, is_sample: bool, place: int) -> list:
    """Return the values of a public column.

    Parameters
    ----------
    X : table
        Raw, or checked; of this the rows that count.
    rows : index or None
        The rows that count of a raw table; None: all.
    is_sample : bool
        Whether X is not the whole table.
    place : int
    """
    if is_sample:
        raise PrivacyBudgetError(
            "a part by a public column cannot be compared with a Dask collection: use "
            "a part by rows, or leave the column out of X."
        )
    if is_frame(X):
        values = as_array(raw_column(X, place))
        return (values if rows is None else values[rows]).tolist()
    blocks = (X[block][:, [place]] for block in row_blocks(X))
    dense = [one.toarray() if issparse(one) else np.asarray(one) for one in blocks]
    return np.concatenate(dense)[:, 0].tolist()


_ONE_STEP = Assumption(ONE_STEP, enforced=False)


class PrivateEstimator(CallbackSupportMixin, TableEstimator):
    """Base of every estimator: how a table becomes a model, and what is charged.

    An estimator gives the parts: its parameters, what it makes of a target
    (`_target`), the method that fits (`_method`), and the attributes that it publishes
    (`_attributes`).
    """

    #: Fitted attributes that are released; a fit is known by the first.
    _released: tuple[str, ...] = ()
    #: Those that must be finite.
    _weights: tuple[str, ...] = ()
    _has_loop = False
    #: Whether it may be a step of a Pipeline, of which its own report knows nothing.
    _may_be_a_step = True
    #: What the guarantee takes for granted beyond what events say.
    _assumptions: tuple[Assumption, ...] = ASSUMPTIONS
    #: Whether every release of a fit is charged, so that it may leave a checkpoint.
    _can_resume = True

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit came to its end."""
        return hasattr(self, self._released[0])

    @with_callbacks
    @guarded_fit
    def fit(self, X, y=None):
        """Fit to X and y within the budget, charging the ledger first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Each record once. Values outside `bounds` and rows longer than
            `row_norm` are clipped, silently; malformed private ones are replaced
            (:ref:`malformed`).
        y : array-like of shape (n_samples,), default=None
            Labels of any type; for regressors numbers; transformers ignore it.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            For bad parameters, malformed public values, wrong types and shapes, or the
            checkpoint of another fit; nothing is charged, no datum is quoted.
        PrivacyBudgetError
            If the ledger's limit would be passed, or its fit has gone on from a copy
            of the checkpoint; nothing is charged or trained.
        """
        return self._fit(X, y)

    def _fit(self, X, y, **of_rows: Any):
        """Fit; `of_rows` is what `_records` takes beside X and y."""
        return self._on_records(self._fit_records, X, y, **of_rows)

    def _fit_records(self, records: Records):
        """Fit to records that were read; nothing was charged yet."""
        public, receipt, checkpoint = records.public, None, OPEN.get()
        if checkpoint is not None:
            self._check_checkpoint(checkpoint)
        ledger = None if self.ledger is None else PrivacyLedger.resolve(self.ledger)
        if math.isinf(self.epsilon):
            told = self._fit_plan(public, None)
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=told.subject)
            return self._train(
                lambda on_step: self._without_privacy(records.without_nulls()),
                public,
                told,
                receipt,
                None,
            )
        warn_of_weakness(self.epsilon, self.random_state)
        method, prepared, plan = self._planned(public)
        told = self._fit_plan(public, plan)
        run = functools.partial(method.run, records, prepared, plan)
        of_rows = records.is_null, public.units
        if checkpoint is None:
            if ledger is not None:
                about = {"label": told.subject, "n_rows": told.n_rows}
                receipt = ledger.charge(told.events, **about)
            streams = Streams(self.random_state, type(self))
            run = functools.partial(run, Mechanism(plan.releases, streams, *of_rows))
            return self._train(run, public, told, receipt, plan.n_steps)
        promise = promise_of(self, self._declared.parameters, public, told, ledger)
        checkpoint["used"] = True
        with journal_of(checkpoint["path"], promise) as journal:
            told, receipt = charged(ledger, told, journal)
            streams = Streams(self.random_state, type(self), journal.public_key)
            mechanism = ResumingMechanism(
                plan.releases, streams, *of_rows, journal=journal
            )
            run = functools.partial(run, mechanism)
            self._train(run, public, told, receipt, plan.n_steps)
            journal.finish()
        return self

    def _train(
        self,
        run: Callable[[OnStep], Any],
        public: PublicRecords,
        told: FitPlan,
        receipt: Receipt | None,
        n_steps: int | None,
    ):
        """Release what was charged, publish the model, and tell the callbacks."""
        has_loop = self._has_loop if math.isinf(self.epsilon) else n_steps is not None
        ledger = None if receipt is None else PrivacyLedger.resolve(self.ledger)
        report = PrivacyReport.from_events(
            subject=told.subject,
            events=told.events,
            delta=told.delta,
            target_epsilon=told.target_epsilon,
            n_records=told.n_records,
            feature_names=public.columns,
            target_name=public.target_name,
            released=self._released
            + ("input_scaler_",) * self._declared.releases_bounds
            + ("every iterate of the loop",) * has_loop,
            assumptions=(
                *told.assumptions,
                *(_ONE_STEP,) * self._may_be_a_step,
                *of_limit(ledger),
            ),
            seeded=self._seeded,
            receipts=[receipt],
        )
        with users_state():
            subtasks = {} if n_steps is None else {"max_subtasks": n_steps}
            context = self._init_callback_context(**subtasks)
            context.call_on_fit_task_begin(estimator=self)
        on_step = None
        if getattr(self, "_skl_callbacks", None):
            on_step = self._on_step(context, public, report)
        attributes = self._attributes(public, run(on_step))
        return self._finish(context, attributes, report)

    @guarded_fit
    def plan(self, X, y=None) -> FitPlan:
        """Return what a fit on X, y would release and cost; nothing is charged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Only its shape, its column names and its public columns are looked at:
            private values may be missing.
        y : array-like of shape (n_samples,), default=None
            Only looked at if the target is public, or `classes` are not declared. None
            where the target is private; `classes` are required then.

        Returns
        -------
        plan : FitPlan
            `PrivacyLedger.what_if` takes it.

        Notes
        -----
        **Guarantees.** The plan is a function of what is public: equal, byte for byte,
        for all values of the private columns, of a private target whose `classes` are
        declared, and for any pattern of zeros in the private columns of a sparse X.
        """
        return self._plan(X, y)

    def _plan(self, X, y, **of_rows: Any) -> FitPlan:
        own = copy.copy(self)  # names and numbers of columns are kept there

        def planned(records: Records) -> FitPlan:
            public = records.public
            private = math.isfinite(own.epsilon)
            return own._fit_plan(public, own._planned(public)[-1] if private else None)

        return own._on_records(planned, X, y, planning=True, **of_rows)

    # -- the parts of an estimator ---------------------------------------------------
    def _check_parameters(self) -> None:
        """Raise ValueError for bad parameters; looks at no data."""
        check_budget(self.epsilon, self.delta, allow_infinite=True)
        check_random_state(self.random_state)
        n_jobs = self._declared.parameters.get("n_jobs")
        integral = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
        if n_jobs is not None and not (integral and n_jobs != 0):
            raise ValueError(
                f"n_jobs={shown(n_jobs)} must be None or an int other than 0: the "
                "number of threads, or -1 for all cores."
            )

    def _check_checkpoint(self, place: Mapping[str, Any]) -> None:
        """Raise ValueError where a fit cannot have the `skfdp.checkpoint` it is in."""
        reason = None
        if place["used"]:
            reason = "holds one fit, and a second one begins: enter one for each fit"
        elif not self._can_resume:
            reason = (
                "would tell what a search keeps secret, its other runs and how many "
                "there were: leave it out"
            )
        elif math.isinf(self.epsilon):
            reason = "is for releases, and epsilon=inf makes none: leave it out"
        elif self.random_state is not None:
            reason = (
                "needs random_state=None: a fit that goes on has to draw fresh noise, "
                "and a seed would repeat the noise of before"
            )
        if reason is not None:
            raise ValueError(f"checkpoint({shown(place['path'])}) {reason}.")

    def _method(self, public: PublicRecords) -> Method:
        """Return how to fit, with every number that it needs."""
        raise NotImplementedError

    def _without_privacy(self, records: Records) -> Any:
        """Return the model of ``epsilon=inf``."""
        raise NotImplementedError

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        """Return the fitted attributes of a model."""
        raise NotImplementedError

    @property
    def _seeded(self) -> bool:
        """Whether others can compute the noise: from a seed, or inside of an audit."""
        return self.random_state is not None or noise.current() is not None

    def _subject(self) -> str:
        """Return the name of a fit in ledgers and reports."""
        return type(self).__name__

    # -- the way from records to a model ---------------------------------------------
    def _budget(self, public: PublicRecords) -> Budget:
        """Return what a fit may spend, and what its events say of it."""
        told = name_facts(
            public.columns,
            public.mask,
            target=public.target_name,
            has_target=self._has_target,
            public_target=public.has_target,
        )
        relation = Relation.of(self.neighboring_relation)
        facts = {
            "neighboring_relation": relation.name,
            "classes_source": public.classes_source,
            "seeded": self._seeded,
            **told,
        }
        if public.units is not None:
            facts["unit"] = public.units.unit
        return Budget(
            float(self.epsilon),
            float(self.delta),
            relation,
            facts,
            reach=public.reach,
        )

    def _planned(self, public: PublicRecords) -> tuple[Method, Any, Plan]:
        """Return the method, what it learnt in public, and its plan."""
        method, budget = self._method(public), self._budget(public)
        if getattr(public, "in_partitions", False):  # a search has none
            from skfdp import dask_tables

            dask_tables.check_method(method)
        if self._declared.releases_bounds and public.n_private:
            method = BoundsFirst(method)
        prepared = method.prepare(public, budget)
        plan = method.plan(public, prepared, budget)
        declared = getattr(public, "classes_source", None) == "declared"
        if declared and not public.has_target and public.classes.dtype.kind in "iu":
            if not (plan.counts_labels or are_codes(public.classes)):
                warn_caller(
                    f"classes={public.classes.tolist()!r} are not 0, ..., k-1, and no "
                    f"release of this fit would show that y is coded so. {RECODED}",
                    UtilityWarning,
                )
        return method, prepared, plan

    def _fit_plan(self, public: PublicRecords, plan: Plan | None) -> FitPlan:
        """Return what users, ledgers and reports are told; None: epsilon=inf."""
        declared, texts = self._declared, []
        if declared.schema is not None and declared.schema.declared_by is not None:
            texts.append(
                "Bounds and categories are those that the file "
                f"{declared.schema.declared_by!r} declares, and derive from nothing "
                "private."
            )
        # Weights of 0 and 1 leave rows out, and no units.
        texts += [WEIGHTS_ARE_PUBLIC] * getattr(self, "_has_weights", False)
        if declared.max_rows_per_group is not None and public.has_persons:
            texts.append(ORDER_IS_PUBLIC)
        balanced = getattr(self, "_balances", False)
        texts += [SAME_PARTITIONS] * getattr(public, "in_partitions", False)
        assumptions = (
            *self._assumptions,
            *[Assumption(text, enforced=False) for text in texts],
            *(enforced(BALANCED),) * balanced,
            *(() if plan is None else plan.assumptions),
        )
        if plan is not None and declared.releases_bounds and public.n_private:
            assumptions = told_of_released(assumptions)
        return FitPlan(
            subject=self._subject(),
            events=() if plan is None else plan.events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=public.n_records,
            n_rows=public.n_given if declared.n_records is None else None,
            assumptions=assumptions,
            schedule=None if plan is None else plan.schedule,
            expected_gap=None if plan is None else plan.expected_gap,
        )

    def _on_step(self, context, public: PublicRecords, report: PrivacyReport) -> OnStep:
        """Return what tells the callbacks of a step, and whether they stop the loop."""

        @users_state()
        def on_step(step: int, found: Callable[[], Any]) -> bool:
            task = context.subcontext(task_name="step")
            task.call_on_fit_task_begin(estimator=self)
            snapshot = functools.partial(self._snapshot, public, found, report)
            return task.call_on_fit_task_end(
                estimator=self, reconstruction_attributes=snapshot
            )

        return on_step

    @without_traps()
    def _snapshot(
        self, public: PublicRecords, found: Callable[[], Any], report: PrivacyReport
    ) -> dict[str, Any]:
        """Return the fitted attributes of the moment."""
        return {**self._attributes(public, found()), "privacy_": report}

    def _finish(self, context, attributes: dict[str, Any], report: PrivacyReport):
        """Publish a model, and tell the callbacks that the fit has ended."""
        for name in self._weights:
            found = attributes[name]
            parts = found if isinstance(found, list) else [found]
            if not all([np.isfinite(part).all() for part in parts]):
                raise ValueError(
                    "the fitted weights are not finite in the units of X: declare "
                    "bounds of moderate size, or rescale the columns; the charge for "
                    "this fit stays."
                )
        for name, value in attributes.items():
            setattr(self, name, value)
        self.privacy_ = report
        with users_state():
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes={})
        return self
