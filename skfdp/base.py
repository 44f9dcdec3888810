"""Base classes of the estimators: check, plan, charge, run and report a fit."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skfdp._callbacks import CallbackSupportMixin, with_callbacks
from skfdp.addresses import Versioned
from skfdp.data.arrays import (
    blanked,
    check_arrays,
    check_finite,
    check_no_path,
    declared_numbers,
    either,
    is_dask,
    readable,
    shaped_target,
)
from skfdp.data.columns import (
    check_keys,
    column_names,
    name_facts,
    public_mask,
    target_name,
)
from skfdp.data.encoder import MOST_DENSE, DeclaredEncoder, EncodedTable
from skfdp.data.input_scaler import InputScaler, resolve_bounds
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import chosen_rows, whole_table
from skfdp.data.target import (
    RECODED,
    Labels,
    are_codes,
    check_exactly,
    check_member,
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
from skfdp.mechanisms.checkpoint import OPEN
from skfdp.mechanisms.noise import Streams, check_random_state
from skfdp.mechanisms.release import Mechanism
from skfdp.privacy.assumptions import (
    BALANCED,
    COUNTS_SEEN,
    KEY_UNREAD,
    ONE_STEP,
    ORDER_IS_PUBLIC,
    SAME_PARTITIONS,
    WEIGHTS_ARE_PUBLIC,
    Assumption,
    of_limit,
)
from skfdp.privacy.checks import shown
from skfdp.privacy.entries import FitPlan
from skfdp.privacy.events import (
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
from skfdp.solvers.method import BESIDE, Budget, Method, OnStep, Plan
from skfdp.solvers.parameters import (
    ASSUMPTIONS,
    nominal_count,
    parameters_of,
    public_count,
    resolve_input_scaler,
    shown_parameters,
    warn_of_weakness,
)

# Code that all classifiers share.


def _has_probabilities(model) -> bool:
    loss = model._given()["loss"]
    if loss == "log_loss":
        return True
    raise AttributeError(
        f"predict_proba and predict_log_proba need loss='log_loss', but loss={loss!r}."
    )


def weights_of_kept(kept: np.ndarray, what: str, sample_weight: Any) -> Any:
    """Return the sample weights of the rows with a target; warn about other rows.

    `kept` marks the rows with a target, and `what` describes a target.
    """
    if not kept.any():
        raise ValueError(f"y has no {what}: pass rows that have a target.")
    if not kept.all():
        warn_caller(
            f"{(~kept).sum()} of {len(kept)} rows have no {what}: they are left out of "
            "the score.",
            UtilityWarning,
        )
    return None if sample_weight is None else np.asarray(sample_weight)[kept]


class PrivateClassifier(ClassifierMixin):
    """Mixin of all private classifiers: labels, class weights and predictions."""

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
            check_member(labels.classes)
            if math.isinf(self.epsilon):
                check_exactly(y, labels)
        elif classes is not None:
            labels = Labels.unseen(classes, n_rows)
        else:
            raise ValueError(
                "classes=None and y=None are not enough for a plan: declare `classes`, "
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
        """Whether log odds of class frequencies are subtracted from the intercept."""
        weight = self._declared.parameters["class_weight"]
        return isinstance(weight, str) and math.isfinite(self.epsilon)

    def _weights_without_privacy(self, records: Records) -> np.ndarray | None:
        """Return one weight per class, None without class weights."""
        weight, public = self._declared.parameters["class_weight"], records.public
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
        guesses = self.predict(X)
        y = shaped_target(y, len(guesses))
        labels = encode_any(y, self.classes_)
        kept = np.ones(len(y), bool) if labels.missing is None else ~labels.missing
        expected = f"label of classes_={self.classes_.tolist()!r}"
        sample_weight = weights_of_kept(kept, expected, sample_weight)
        right = guesses[kept] == self.classes_[labels.codes[kept]]
        return float(np.average(right, weights=sample_weight))

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
            negative = np.where(positive < 1, 1 - positive, expit(-margins))
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


# Conversion of a user's table to validated records, the same for fit and predict.


@dataclasses.dataclass(frozen=True)
class Declared:
    """Declarations about the table of a fit, from a schema or from parameters.

    Notes
    -----
    **Guarantees.** The object is made at the start of a fit from the parameters of
    `get_params`. No other attribute of an estimator declares public parts or bounds.
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
    #: Whether a target that is not in `classes` counts as missing, without an error.
    any_target: bool = False
    #: Whether the fit releases the bounds of the columns.
    releases_bounds: bool = False
    #: All parameters, including those of the chosen algorithms. The ledger is left out,
    #: because a saved model must not contain the path of the ledger.
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def read_target(self, y: Any, typed: bool = True) -> Any:
        """Return y, converted by the schema if there is one.

        `typed` has the same meaning as in `TableSchema.read_outcome`.
        """
        if self.schema is None or y is None or is_dask(y):
            return y
        return self.schema.read_outcome(self.target_name, y, typed)


#: The parameters that declare a table without a schema, and their defaults.
_SHORT = {
    "public_features": None,
    "public_target": False,
    "bounds": None,
    "classes": None,
    "target_bounds": None,
}
#: Names of declarations. An attribute with such a name is not stored, unless it is a
#: parameter of the estimator.
_DECLARES = {*_SHORT, "schema", "target", "class_weight", "loss", "solver"}


#: For each parameter that takes a name or an object: an example of an object.
_EXAMPLES = {
    "solver": "NoisyGradientDescent()",
    "centering": "GaussianCentering()",
    "loss": "Huber()",
    "pretraining": "Pretraining()",
    "backend": "NumpyBackend()",
}
#: Values that shared code uses for parameters that the chosen algorithm does not have.
_UNDECLARED = {
    "row_norm": "auto",
    "normalize": False,
    "public_loss": None,
    "threshold": "auto",
    "class_weight": None,
    "loss": "log_loss",
}


class TableEstimator(Versioned, BaseEstimator):
    """Base class of all estimators: conversion of a table to records."""

    #: Declarations that the class fixes for every table, by name.
    _fixed: Mapping[str, Any] = {}
    #: The declarations of the current or last fit.
    _declared: Declared
    _accepts_sparse = False
    #: Whether encoded rows with many columns may be stored as a sparse matrix.
    _omits_zeros = False
    _has_target = True
    #: Whether all rows of a person can be protected together.
    _protects_groups = False
    #: Whether X may be a Dask collection.
    _takes_partitions = False
    #: Whether the fit can release bounds before the method starts.
    _may_release_bounds = False
    #: Whether a private fit uses smooth terms for encoded columns.
    _smooths = False
    #: Whether the method needs all rows at once, not in blocks.
    _needs_whole_table = False
    #: Whether values that are not finite are replaced.
    _fills_in = True
    #: The object of `skfdp.solvers` with which the estimator trains.
    _solver: Choice | None = None

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
        given = self.get_params(deep=False)
        schema, mask = given.get("schema"), given.get("public_features")
        some = schema.public if isinstance(schema, TableSchema) else mask is not None
        tags.input_tags.allow_nan = not some
        tags.input_tags.string = True  # as a missing number, or with a schema
        return tags

    def _declare(self, y: Any) -> Declared:
        """Return the declarations of the parameters about X and y."""
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
                    f"schema={shown(schema)} must be a TableSchema or None: "
                    "TableSchema.load(path) reads a file."
                )
            for name, usual in _SHORT.items():
                if name in given and not (given[name] is None or given[name] is usual):
                    raise ValueError(
                        f"{name}={shown(given[name])} cannot be combined with a "
                        "schema: declare it in the schema."
                    )
            found |= schema.parameters(given.get("target"), y) | {"schema": schema}
            if schema.group is not None and not self._protects_groups:
                raise ValueError(
                    f"{type(self).__name__} protects single rows, but the schema has "
                    f"group={schema.group!r}: use a linear estimator, which protects "
                    "all rows of a person together."
                )
            self._check_schema(schema, found)
            # An ignored column whose name looks like an identifier of persons.
            ignored = [n for n, c in schema.columns.items() if isinstance(c, Ignore)]
            named = [name for name in ignored if _IDENTIFIER.search(name)]
            if named and schema.group is None:
                warn_caller(
                    f"the schema ignores {named[0]!r}, which looks like an identifier, "
                    "and declares no group, so each row is protected separately: "
                    f"declare group={named[0]!r} if a person may have several rows.",
                    UtilityWarning,
                )
        declared = Declared(**{**self._fixed, **found})
        # Comparing an array with "private" would compare each element.
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
        """Refuse a schema with declarations that this estimator does not support."""

    def _target(
        self, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict]:
        """Return the target as int64 or float64, a mask, and public facts.

        The mask marks the records that have no target; it is None if all have one. The
        facts are values of fields of `PublicRecords`, by name. `y` is None for a plan
        without y.
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
        """Return the input scaler of the declared bounds.

        In rows with public and private columns the scaler shortens only the private
        part.
        """
        if math.isinf(self.epsilon):
            self._check_bounds(n_features, names, table)
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
            shortens=False,
            longest=None if table is None else table.longest,
        )
        mixed = mask.any() and not mask.all()
        return dataclasses.replace(input_scaler, public=mask if mixed else None)

    def _check_bounds(self, n_features: int, names, table: EncodedTable | None) -> None:
        """Raise ValueError for bad bounds, which a fit without privacy does not use."""
        bounds = self._declared.bounds
        released = isinstance(bounds, str) and bounds == "private"
        if table is None and not (released and self._may_release_bounds):
            resolve_bounds(bounds, n_features, names)

    def _given(self) -> dict[str, Any]:
        """Return the parameters by name, including those of the chosen algorithms."""
        mine = parameters_of(type(self))
        values = operator.attrgetter(*mine)(self)
        given = _UNDECLARED | dict(zip(mine, values, strict=True))
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
        """Convert X and y to records, and return ``use(records)``.

        The parameters are checked first. Fitted attributes of an earlier fit are
        deleted, so that a failed fit leaves none. The partitions of a Dask collection
        stay on their workers, which free them after `use`. `planning` and `of_rows` are
        passed to `_records`.
        """
        for name in [v for v in vars(self) if v.endswith("_") and v[0] != "_"]:
            delattr(self, name)
        X, y = readable(X), readable(y)
        of_rows = {name: readable(held) for name, held in of_rows.items()}
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
        """Validate the user's table, and convert it to records.

        With `planning` no private values are read. Private columns then become zeros,
        and so does a private target, unless its labels must be read from y.
        `sample_weight` and `groups` are public. `whole` has facts about the whole table
        if X is a sample of its rows; then y is not read.
        """
        X, groups = self._take_groups(X, groups)
        frame, named = X, self._declared.target_name
        if self._declared.encoder is not None:
            encoder = clone(self._declared.encoder)
            smooths = self._smooths and math.isfinite(self.epsilon)
            self.encoder_ = encoder.fit_to_smooth(X, smooths)
            wide = self.encoder_.n_encoded > MOST_DENSE
            self.encoder_.sparse_output = wide and self._omits_zeros and whole is None
            X = self.encoder_.coded(X)
        checked = self._checked(X, y, planning) if whole is None else whole.of(self, X)
        X, y = checked
        most, given = self._declared.max_rows_per_group, None
        self._has_weights = sample_weight is not None
        if self._has_weights or groups is not None or most is not None:
            relation = Relation.of(self.neighboring_relation)
            given = RowsOfUnits.checked(
                sample_weight, groups, X.shape[0], relation, most
            )
        if given is not None:  # rows that are left out are not read later
            X, y = chosen_rows(X, given.rows), None if y is None else y[given.rows]
        if self._declared.encoder is not None:
            self.n_features_in_ = self.encoder_.n_features_in_
            if hasattr(self.encoder_, "feature_names_in_"):
                self.feature_names_in_ = self.encoder_.feature_names_in_
        names = getattr(self, "feature_names_in_", None)
        mask = public_mask(
            self._declared.public_features, self.n_features_in_, names, frame
        )
        if self._declared.encoder is None:
            check_keys(self._declared.bounds, names, frame)
        columns, table = column_names(names, self.n_features_in_), None
        if self._declared.encoder is not None:
            table, names = EncodedTable(self.encoder_, X, mask), None
            mask = table.mask
        self._check_split(mask)
        if table is None:  # encoded rows are always finite
            check_finite(X, mask)
        if planning and table is None:
            X = blanked(X, mask)
        elif planning:
            table = table.blanked()
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
                # Fewer than 20 records per level on average.
                if block.reads == "category" and n_levels > max(32, n / 20):
                    warn_caller(
                        f"column {columns[block.parent]!r} has {n_levels} declared "
                        f"levels for {n} records, so few records share a level, which "
                        "costs accuracy and time: declare groups of levels, such as "
                        "the first digits of a code, or leave the column out.",
                        UtilityWarning,
                    )
            if self._smooths and math.isfinite(self.epsilon):
                table = self._in_coordinates(table, n, facts, units)
            X, mask, columns = table.rows(), table.mask, table.names(columns)
        input_scaler = self._input_scaler(X.shape[1], names, mask, issparse(X), table)
        is_null = None
        if self._declared.releases_bounds:
            # Malformed values are replaced after the release of the bounds, in
            # `BoundsFirst.run`.
            input_scaler = with_public_bounds(input_scaler, X, mask)
        elif self._fills_in and table is None:
            is_null = input_scaler.nulls(X)
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
            _table=X,
            **facts,
        )
        return Records(X, target, public, either(is_null, missing))

    def _take_groups(self, X, groups) -> tuple[Any, Any]:
        """Return X without the column of persons, and the person of each row."""
        schema, self._group_column = self._declared.schema, None
        if schema is not None:
            check_no_path(X)
            return schema.select(X, coded=True), schema.groups(X, groups)
        if isinstance(groups, str):
            check_named(self._declared.public_features, self._declared.bounds, groups)
            self._group_column = groups
            return without_group_column(X, groups)
        return X, groups

    def _checked(
        self, X, y, planning: bool, **how: bool
    ) -> tuple[Any, np.ndarray | None]:
        """Return X and y as arrays; y is None if there is no target to read."""
        if self._declared.encoder is None:
            X = declared_numbers(X, self._declared.bounds)
        checked = {"accept_sparse": self._accepts_sparse, **how}
        if not self._has_target or (planning and self._plans_without(y)):
            X, y = check_arrays(self, X, **checked), None
        else:
            any_target = self._declared.any_target
            X, y = check_arrays(self, X, y, any_target=any_target, **checked)
        # A user's public loss, and some methods, cannot read blocks.
        whole = callable(self._declared.parameters["public_loss"])
        return (whole_table(X) if whole or self._needs_whole_table else X), y

    def _plans_without(self, y) -> bool:
        """Whether a plan can be made without reading y."""
        declared = self._declared.classes is not None
        return not self._declared.public_target and (y is None or declared)

    def _check_split(self, mask: np.ndarray) -> None:
        """Raise ValueError if nothing is private, or if public parts are forbidden."""
        if math.isinf(self.epsilon):
            return
        shows_target = bool(self._declared.public_target)
        if mask.all() and shows_target:
            raise ValueError(
                "public_target=True, and every column is declared public, so there is "
                "nothing to protect: use a scikit-learn estimator."
            )
        if self._declared.n_records is not None and (mask.any() or shows_target):
            raise ValueError(
                "neighboring_relation='add_or_remove_one' is of whole records, so no "
                "part of them can be public: use 'replace_one' or 'replace_special'."
            )

    def _rows_to_predict(self, X) -> np.ndarray | csr_array:
        """Convert new rows in the same way as `fit`, to inputs of `input_scaler_`."""
        check_is_fitted(self)
        X = readable(X)
        if self._declared.schema is not None:
            check_no_path(X)
            return self.encoder_.encoded(self._declared.schema.select(X, coded=True))
        if is_dask(X):
            from skfdp.dask_tables import computed

            (X,) = computed(X)
        X = declared_numbers(
            without_column(X, self._group_column), self._declared.bounds
        )
        sparse = self._accepts_sparse
        X = check_arrays(self, X, reset=False, accept_sparse=sparse)
        check_finite(X, self._public_mask)
        return X


#: Names of columns with identifiers of people, in English and German.
_IDENTIFIER = re.compile(
    r"""(?:^|[^a-z])(?:id|uuid|guid|mrn|ssn|nr|no|number|nummer)$   # patient_id
    |[a-z](?:Id|ID|Nr|nummer)$                                      # PatientID
    |^(?:patient|person|customer|client|user|member|subject|household|kunde)s?$""",
    re.VERBOSE,
)


def digest_of(model: Any) -> str:
    """Return the SHA-256 of the released numbers of a model; see `PrivacyReport`."""
    found = hashlib.sha256()
    for name in model._released:
        value = getattr(model, name, None)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, float | np.floating | np.ndarray):
                found.update(np.asarray(part, dtype="<f8").tobytes())
    return found.hexdigest()


class PrivateEstimator(CallbackSupportMixin, TableEstimator):
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
    #: Assumptions of the report, in addition to those that depend on the fit.
    _assumptions: tuple[Assumption, ...] = ASSUMPTIONS

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
        """Fit to X and y; `of_rows` are further arguments of `_records`."""
        return self._on_records(self._fit_records, X, y, **of_rows)

    def _fit_records(self, records: Records):
        """Charge the ledger, and fit to validated records.

        Notes
        -----
        Whatever can fail for public reasons comes before the charge, which is never
        refunded: the plan, the report, callbacks, and the compilation of the noise.
        """
        public = records.public
        ledger = None if self.ledger is None else PrivacyLedger.resolve(self.ledger)
        if math.isinf(self.epsilon):
            fit_plan = self._fit_plan(public, None)
            kept = records.without_nulls()
            if kept.n_rows == 0:
                raise ValueError(
                    "every row lacks a target, or a value without a replacement: pass "
                    "rows that have both."
                )
            report, context = self._report(public, fit_plan, ledger), self._begun()
            if ledger is not None:
                receipt = ledger.charge_nonprivate(label=fit_plan.subject)
                report = dataclasses.replace(report, receipts=(receipt,))
            run = functools.partial(self._without_privacy, kept)
            return self._train(lambda on_step: run(), public, context, report)
        warn_of_weakness(self.epsilon, self.random_state)
        method, prepared, plan = self._planned(public)
        fit_plan = self._fit_plan(public, plan)
        run = functools.partial(method.run, records, prepared, plan)
        of_rows = records.is_null, public.units
        report = self._report(public, fit_plan, ledger, plan.n_steps)
        context = self._begun(plan.n_steps)
        key = None if noise.current() is not None else OPEN.get()
        if key is not None:
            key.open(records, self._declared.parameters, fit_plan)
        streams = Streams(self.random_state, type(self), key)
        mechanism = Mechanism(plan.events, streams, *of_rows)
        if ledger is not None:
            charge = functools.partial(key.charge, ledger) if key else ledger.charge
            receipt = charge(fit_plan.events, label=fit_plan.subject)
            report = dataclasses.replace(report, receipts=(receipt,))
        run = functools.partial(run, mechanism)
        return self._train(run, public, context, report)

    def _report(
        self,
        public: PublicRecords,
        fit_plan: FitPlan,
        ledger: PrivacyLedger | None,
        n_steps: int | None = None,
    ) -> PrivacyReport:
        """Return the report of a fit; `n_steps` is None without a training loop."""
        has_loop = self._has_target if math.isinf(self.epsilon) else n_steps is not None
        return PrivacyReport.from_events(
            subject=fit_plan.subject,
            events=fit_plan.events,
            delta=fit_plan.delta,
            target_epsilon=fit_plan.target_epsilon,
            n_records=fit_plan.n_records,
            feature_names=public.columns,
            target_name=public.target_name,
            released=self._released
            + ("input_scaler_",) * self._declared.releases_bounds
            + ("every intermediate step of the training",) * has_loop,
            assumptions=(
                *fit_plan.assumptions,
                *(ONE_STEP,) * self._may_be_a_step,
                *of_limit(ledger),
            ),
            seeded=self._seeded,
        )

    @users_state()
    def _begun(self, n_steps: int | None = None) -> Any:
        """Call the callbacks at the start of the fit, and return their context."""
        subtasks = {} if n_steps is None else {"max_subtasks": n_steps}
        context = self._init_callback_context(**subtasks)
        context.call_on_fit_task_begin(estimator=self)
        return context

    def _train(
        self,
        run: Callable[[OnStep], Any],
        public: PublicRecords,
        context: Any,
        report: PrivacyReport,
    ):
        """Run the charged fit, set attributes and report, and call the callbacks."""
        on_step = None
        if getattr(self, "_skl_callbacks", None):
            on_step = self._on_step(context, public, report)
        attributes = self._attributes(public, run(on_step))
        return self._finish(context, attributes, report)

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
        own = copy.copy(self)  # so that attributes of this estimator do not change

        def planned(records: Records) -> FitPlan:
            public = records.public
            private = math.isfinite(own.epsilon)
            return own._fit_plan(public, own._planned(public)[-1] if private else None)

        return own._on_records(planned, X, y, planning=True, **of_rows)

    # -- methods that a subclass defines or extends ------------------------------------
    def _check_parameters(self) -> None:
        """Raise ValueError for bad parameters, without reading data."""
        check_budget(self.epsilon, self.delta, allow_infinite=True)
        check_random_state(self.random_state)
        n_jobs = self._declared.parameters.get("n_jobs")
        integral = isinstance(n_jobs, numbers.Integral) and not isinstance(n_jobs, bool)
        if n_jobs is not None and not (integral and n_jobs != 0):
            raise ValueError(
                f"n_jobs={shown(n_jobs)} must be None or an int other than 0: pass the "
                "number of threads, or -1 for all cores."
            )

    def _methods(self, public: PublicRecords) -> Iterable[Method]:
        """Return methods for the parameters; the first one that can fit does so."""
        raise NotImplementedError

    def _without_privacy(self, records: Records) -> Any:
        """Fit without privacy, for ``epsilon=inf``, and return the result."""
        raise NotImplementedError

    def _attributes(self, public: PublicRecords, found: Any) -> dict[str, Any]:
        """Return the fitted attributes by name, from the result of the method."""
        raise NotImplementedError

    @property
    def _seeded(self) -> bool:
        """Whether the noise can be reproduced: with a seed, or within an audit."""
        return self.random_state is not None or noise.current() is not None

    # -- from records to a model -----------------------------------------------------
    def _budget(self, public: PublicRecords) -> Budget:
        """Return the budget of a fit, with the public fields that its events share."""
        names = name_facts(
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
            **names,
        }
        if public.units is not None:
            facts["unit"] = public.units.unit
        return Budget(
            float(self.epsilon), float(self.delta), relation, facts, reach=public.reach
        )

    def _method(self, public: PublicRecords, budget: Budget) -> Method:
        """Return the first method that can fit and honours all that was asked."""
        # A user's subclass may have parameters of its own.
        kinds = [
            k for k in type(self).__mro__ if f"{k.__module__}.".startswith("skfdp.")
        ]
        asked, refusal = {}, None
        for name, parameter in parameters_of(kinds[0]).items():
            value = getattr(self, name)
            parts = {name: (value, parameter.default, "")}
            if isinstance(value, Choice):
                for part, own in value.get_params(deep=False).items():
                    parts[part] = own, getattr(type(value)(), part), f" of {name}"
            for part, (own, usual, where) in parts.items():
                same = own is usual or (np.isscalar(own) and own == usual)
                if part not in BESIDE and not same:
                    asked[part] = f"{part}={shown(own)}{where}"
        for method in self._methods(public):
            if self._declared.releases_bounds and public.n_private:
                method = BoundsFirst(method)
            refusal = method.needs(public, budget).refusal(public, asked)
            if refusal is None:
                return method
        raise ValueError(refusal)

    def _planned(self, public: PublicRecords) -> tuple[Method, Any, Plan]:
        """Return the method, its preparation from public facts, and its plan."""
        budget = self._budget(public)
        method = self._method(public, budget)
        prepared = method.prepare(public, budget)
        plan = method.plan(public, prepared, budget)
        gap = plan.expected_gap
        if gap is not None and gap[2] >= 1:
            known = "what public columns tell" if public.has_target else "a constant"
            warn_caller(
                f"the budget is small for n={public.n_records} {public.unit}s and "
                f"{public.n_features} features: the median of fits like this one lost "
                f"{100 * gap[1]:.0f} % of the gain over {known}, and a quarter was "
                "worse than that (skfdp.metrics.expected_gap). Raise epsilon, use more "
                "records or fewer columns, or declare columns as public.",
                UtilityWarning,
            )
        seen = public.classes_source != "declared" or public.has_target
        seen = seen or plan.counts_labels or public.classes.dtype.kind not in "iu"
        if not (seen or are_codes(public.classes)):
            warn_caller(
                f"classes={public.classes.tolist()!r} are not 0, ..., k-1, and "
                f"this fit cannot notice if y is coded as 0, ..., k-1. {RECODED}",
                UtilityWarning,
            )
        return method, prepared, plan

    def _fit_plan(self, public: PublicRecords, plan: Plan | None) -> FitPlan:
        """Return the plan for users, ledgers and reports.

        `plan` is the plan of the method, and None for ``epsilon=inf``.
        """
        declared = self._declared
        by = getattr(declared.schema, "declared_by", None)
        chosen = (
            f"The bounds and categories declared in the file {by!r} were chosen "
            "without looking at private data."
        )
        assumptions = (
            *self._assumptions,
            *([] if by is None else [Assumption("schema_file_chosen", chosen)]),
            *(COUNTS_SEEN,) * bool(getattr(declared.schema, "counts_seen", False)),
            # The assumption is listed for all weights, even if they are 0 or 1 and only
            # leave out rows.
            *(WEIGHTS_ARE_PUBLIC,) * self._has_weights,
            *(ORDER_IS_PUBLIC,)
            * (declared.max_rows_per_group is not None and public.has_persons),
            *(SAME_PARTITIONS,) * public.in_partitions,
            *(KEY_UNREAD,) * (OPEN.get() is not None),
            *(BALANCED,) * getattr(self, "_balances", False),
            *(() if plan is None else plan.assumptions),
        )
        if plan is not None and declared.releases_bounds and public.n_private:
            assumptions = told_of_released(assumptions)
        return FitPlan(
            subject=self._subject or type(self).__name__,
            events=() if plan is None else plan.events,
            delta=self.delta,
            target_epsilon=self.epsilon,
            n_records=public.n_records,
            assumptions=assumptions,
            schedule=None if plan is None else plan.schedule,
            expected_gap=None if plan is None else plan.expected_gap,
        )

    def _on_step(self, context, public: PublicRecords, report: PrivacyReport) -> OnStep:
        """Return a function that calls the callbacks after a step of the training.

        The function returns whether a callback wants to stop the training.
        """

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
        """Return the fitted attributes at the current step."""
        return {**self._attributes(public, found()), "privacy_": report}

    def _finish(self, context, attributes: dict[str, Any], report: PrivacyReport):
        """Set the fitted attributes, and call the callbacks at the end of the fit."""
        for name in self._weights:
            found = attributes[name]
            parts = found if isinstance(found, list) else [found]
            if not np.isfinite(np.concatenate([*map(np.ravel, parts)])).all():
                raise ValueError(
                    "the fitted weights are not finite in the units of X: declare "
                    "bounds of moderate size, or rescale the columns; the charge for "
                    "this fit stays."
                )
        for name, value in attributes.items():
            setattr(self, name, value)
        self.privacy_ = dataclasses.replace(report, sha256=digest_of(self))
        with users_state():
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes={})
        return self
