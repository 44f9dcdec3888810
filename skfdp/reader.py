"""Read users' tables as the parameters of an estimator, or a schema, declare them."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from skfdp.addresses import wing
from skfdp.data.arrays import (
    blanked,
    check_arrays,
    check_complete,
    check_finite,
    check_no_path,
    column_labels,
    column_names,
    declared_numbers,
    either,
    is_dask,
    numeric_target,
    one_column,
    readable,
    shaped_target,
    target_name,
)
from skfdp.data.cells import exact, objects, type_kind
from skfdp.data.encoder import MOST_DENSE, DeclaredEncoder, Encoding
from skfdp.data.grid import InputScaler, divisor_of_rows, resolve_bounds
from skfdp.data.records import PublicRecords, Records
from skfdp.data.sources import LargeTable, chosen_rows
from skfdp.data.target import (
    FURTHEST,
    Labels,
    TargetMap,
    calling,
    check_exactly,
    check_kind,
    check_target,
    check_target_bounds,
    declared_labels,
    encode_any,
    encode_labels,
    loss_name,
    resolve_class_weight,
)
from skfdp.data.units import (
    check_named,
    kept_rows,
    units_of,
    without_column,
    without_group_column,
)
from skfdp.data.validation import UtilityWarning, check_choice, read_safely, warn_caller
from skfdp.kernels.losses import OF_RATES
from skfdp.privacy import gdp_mu
from skfdp.privacy.checks import shown
from skfdp.privacy.events import Relation, nominal_count, public_count
from skfdp.schema import Column, TableSchema

#: The parameters that declare a table without a schema, and their defaults.
SHORT = {
    "public_features": None,
    "public_target": False,
    "bounds": None,
    "classes": None,
    "target_bounds": None,
}
#: Placeholder for bounds before their release. A plan may assume that every column will
#: have bounds, and nothing else about them.
UNKNOWN = (0.0, 1.0)
# What the outcome of a schema is instead of each kind of target, and what to do.
_OTHERWISE = {
    "labels": "a number: use FeatureDPRegressor, or declare a Label",
    "numbers": "a label: use FeatureDPLogisticRegression",
}
#: Step of the grid of a private target, divided by the width of its bounds.
TARGET_STEP = 2.0**-24
# Parameters with which the partitions of a table are read.
_SENT = (
    *("epsilon", "class_weight", "loss", "neighboring_relation"),
    *("row_norm", "normalize"),
)
#: Names of columns with identifiers of people, in English and German.
_IDENTIFIER = re.compile(
    r"""(?:^|[^a-z])(?:id|uuid|guid|mrn|ssn|nr|no|number|nummer)$   # patient_id
    |[a-z](?:Id|ID|Nr|nummer)$                                      # PatientID
    |^(?:patient|person|customer|client|user|member|subject|household|kunde)s?$""",
    re.VERBOSE,
)


class Declaration(NamedTuple):
    """What a schema, or the parameters of an estimator, say about a table beforehand.

    Notes
    -----
    **Guarantees.** The object is made at the start of a fit from the parameters of
    `get_params`. No other attribute of an estimator declares public parts or bounds.
    """

    #: All parameters, including those of the chosen algorithms. The ledger is left out,
    #: because a saved model must not contain the path of the ledger.
    parameters: Mapping[str, Any]
    schema: TableSchema | None = None
    public_features: Any = None
    public_target: bool = False
    target_name: str | None = None
    bounds: Any = None
    classes: Any = ()
    target_bounds: tuple | None = None
    max_rows_per_group: int | None = None
    n_records: int | None = None
    #: Whether epsilon is finite.
    is_private: bool = True
    #: Whether the fit releases the bounds of the columns.
    releases_bounds: bool = False
    #: The column of exposures.
    exposure_name: str | None = None
    exposure: Column | None = None

    @classmethod
    def of(cls, model: Any, y: Any) -> Declaration:
        """Return what the parameters of an estimator declare about X and y."""
        given, linear = model._given(), model._rows == "linear"
        if "public_target" in given:
            check_choice("public_target", given["public_target"], (True, False))
        names = [*filter(given.__contains__, SHORT)]
        found = dict(zip(names, map(given.get, names), strict=True))
        relation = given.get("neighboring_relation", "replace_one")
        found["n_records"] = nominal_count(relation)
        found["target_name"] = target_name(given.get("target"), readable(y))
        schema = given.get("schema")
        if schema is not None:
            if not isinstance(schema, TableSchema):
                raise ValueError(
                    f"schema={shown(schema)} must be a TableSchema or None: "
                    "TableSchema.load(path) reads a file."
                )
            selector = calling("sklearn.feature_selection._from_model", "fit")
            if selector and selector.f_locals["self"].importance_getter == "auto":
                raise ValueError(
                    "SelectFromModel reads coef_, which a schema makes longer than the "
                    "columns: pass importance_getter, a function of the fitted model "
                    "that returns one number for each column."
                )
            for name, usual in SHORT.items():
                if name in given and not (given[name] is None or given[name] is usual):
                    raise ValueError(
                        f"{name}={shown(given[name])} cannot be combined with a "
                        "schema: declare it in the schema."
                    )
            found |= schema.parameters(given.get("target"), y) | {"schema": schema}
            if (name := schema.exposure) is not None:
                _check_exposure(model, given, found)
                found |= {"exposure_name": name, "exposure": schema.columns[name]}
            if (found["target_bounds"] is None) != (model._target == "labels"):
                raise ValueError(
                    f"the outcome {found['target_name']!r} of the schema is "
                    f"{_OTHERWISE[model._target]}."
                )
            if schema.group is not None and not linear:
                raise ValueError(
                    f"{type(model).__name__} protects single rows, but the schema has "
                    f"group={schema.group!r}: use a linear estimator, which protects "
                    "all rows of a person together."
                )
            _warn_of_identifier(schema)
        bounds = found.get("bounds")
        # Comparing an array with "private" would compare each element.
        releases = linear and isinstance(bounds, str) and bounds == "private"
        given.pop("ledger", None)
        private = given["epsilon"] != math.inf
        known = {"is_private": private, "releases_bounds": releases and private}
        return cls(given, **known, **found)

    def target_limits(self) -> tuple[float, float]:
        """Return the declared bounds of numbers; infinite if none count."""
        bounds = self.target_bounds if self.is_private else None
        required = self.is_private and not self.public_target
        return check_target_bounds(bounds, self.parameters["loss"], required)

    def read_target(self, y: Any, typed: bool = True) -> Any:
        """Return y, converted by the schema if there is one."""
        if self.schema is None or y is None or is_dask(y):
            return y
        return self.schema.read_outcome(self.target_name, y, typed)


def _check_exposure(model: Any, given: Mapping, found: Mapping) -> None:
    schema, loss = found["schema"], loss_name(given["loss"])
    private, name = given["epsilon"] != math.inf, schema.exposure
    rates = model._target == "numbers" and loss in OF_RATES
    for remedy, holds in {
        "a regressor with loss='poisson', 'gamma' or 'tweedie'": rates,
        "fit_intercept=True": not private or given.get("fit_intercept", True),
        "a private target; if both are public, fit y / exposure with sample_weight="
        "exposure and a schema without it": not (private and found["public_target"]),
        "to be private under 'add_or_remove_one', which protects whole records": (
            found["n_records"] is None or not schema.columns[name].public
        ),
    }.items():
        if not holds:
            raise ValueError(f"exposure={name!r} of the schema needs {remedy}.")


def _warn_of_identifier(schema: TableSchema) -> None:
    ignored = [n for n, c in schema.columns.items() if not c.is_feature]
    named = [name for name in ignored if _IDENTIFIER.search(name)]
    if named and schema.group is None:
        warn_caller(
            f"the schema ignores {named[0]!r}, which looks like an identifier, "
            "and declares no group, so each row is protected separately: "
            f"declare group={named[0]!r} if a person may have several rows.",
            UtilityWarning,
        )


@dataclasses.dataclass(frozen=True)
class Reader:
    """Reader of tables, the same for fits, plans, predictions and Dask partitions.

    Four attributes of an estimator say how its records differ from those of others:

    * `_target`: "labels", "numbers", or None without a target;
    * `_rows`: "linear" for a linear model, which may read sparse rows; "clipped" for
      dense rows whose norms are clipped; "raw" for numbers without an input scaler,
      whose missing values stay;
    * `_smoothing`: noise relative to that of linear classifiers, because more noise
      means more smoothing of encoded columns; None: no smoothing;
    * `_omits_zeros`: whether encoded rows with many columns may be sparse.

    ``_norm(parameters, mask)`` returns the parameters `row_norm` and `normalize`.
    `read` makes a reader with all fields.
    """

    declaration: Declaration
    encoder: DeclaredEncoder | None = None
    #: The column of X that `groups` named, which is not a feature.
    group_column: str | None = None
    #: Mask of the public columns of X.
    mask: np.ndarray | None = None
    #: The fitted attributes that describe X: its columns, and the encoder.
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def sent(self, classes: np.ndarray | None) -> Reader:
        """Return the reader for workers, with those parameters that they need."""
        known = {name: self.declaration.parameters[name] for name in _SENT}
        changes = {"public_features": None, "parameters": known}
        if classes is not None:
            changes["classes"] = classes.tolist()
        declared = self.declaration._replace(**changes)
        return dataclasses.replace(self, declaration=declared)

    def transform(self, model: Any, X: Any) -> np.ndarray | csr_array | LargeTable:
        """Convert new rows in the same way as `read`, for a fitted model."""
        if self.encoder is not None:
            return self.encoder.coded(self.encoder.columns(X))
        X = self.checked(model, without_column(X, self.group_column), reset=False)
        check_finite(X, self.mask)
        return X

    def read(
        self,
        like: Any,
        X: Any,
        y: Any,
        *,
        planning: bool = False,
        sample_weight: Any = None,
        groups: Any = None,
        whole: int | None = None,
        part: Records | None = None,
    ) -> Records:
        """Validate the user's table, and convert it to records.

        With `planning` private columns become zeros, and so does a private target,
        unless its labels must be read from y. `sample_weight` and `groups` are public.
        `like` is a copy of the estimator, in which scikit-learn stores the names of
        columns. `whole` is the number of rows of the whole table if X has none; then y
        is the checked public target of all. For the rows of a partition, `part` has the
        public facts of the whole table, which this reader has read without rows.
        """
        declared, schema = self.declaration, self.declaration.schema
        # The types of a whole table are checked. Those of a part depend on its rows.
        encoder, group_column, typed = self.encoder, None, part is None
        X, y, sample_weight, groups = map(readable, (X, y, sample_weight, groups))
        y = y if whole is not None else declared.read_target(y, typed)
        exposure, counts = None, True
        if schema is not None:
            check_no_path(X)
            raw, X = X, schema.select(X, coded=True, typed=typed)
            groups, exposure = schema.groups(raw, groups), schema.exposures(raw)
            if exposure is not None and declared.exposure.public:
                counts = ~np.isnan(exposure)
                _warn_of_exposure(schema.exposure, counts)
        elif isinstance(groups, str):
            check_named(declared.public_features, declared.bounds, groups)
            group_column, (X, groups) = groups, without_group_column(X, groups)
        elif not typed:  # the type of the target depends on private values
            kinds, public_y = ("integer", "number"), declared.public_target
            plain = like._target == "numbers" and type_kind(y) in kinds
            if not (plain or public_y or getattr(y, "ndim", 0) != 1):
                y = objects(exact(y))
        frame, smooths = X, like._smoothing is not None and declared.is_private
        mask = self.mask
        if schema is not None:
            if typed:
                encoder = schema.encoder().fit_to_smooth(smooths)
                wide = encoder.n_encoded > MOST_DENSE and whole is None
                encoder.sparse_output = wide and like._omits_zeros
                mask = np.isin(schema.features, declared.public_features or [])
            X = encoder.coded(X, ~mask if declared.is_private else ())
        how = {"reset": typed or schema is not None, "enough": typed and whole is None}
        X = self.checked(like, X, typed, **how)
        sparse = issparse(X)
        if like._rows == "raw" and not sparse:  # the release of bounds reads no blocks
            X = np.asarray(X)
        if whole is None:
            y = self.checked_target(like, y, X.shape[0], planning)
        most, of_rows = declared.max_rows_per_group, None
        relation = Relation.of(declared.parameters["neighboring_relation"])
        if sample_weight is not None or groups is not None or not np.all(counts):
            given = sample_weight, groups, X.shape[0], relation, most, counts
            rows, *of_rows = kept_rows(*given)  # others are not read later
            X, y = chosen_rows(X, rows), None if y is None else y[rows]
            exposure = None if exposure is None else exposure[rows]
        if typed:
            named = vars(like if encoder is None else encoder)
            known = "n_features_in_", "feature_names_in_"
            n_features, names = named[known[0]], named.get(known[1])
            attributes = {known[0]: n_features}
            attributes |= {} if names is None else {known[1]: names}
            if encoder is None:
                mask = public_mask(declared.public_features, n_features, names, frame)
                if isinstance(declared.bounds, Mapping):
                    for key in declared.bounds:
                        if isinstance(key, numbers.Integral):
                            _check_position(key, _labels_of(names, frame), "bounds")
            encoding = None if encoder is None else Encoding(encoder, mask)
            own = mask if encoding is None else encoding.mask
            some = own.any() or declared.public_target
            if declared.is_private and declared.public_target and own.all():
                raise ValueError(
                    "public_target=True, and every column is declared public, so there "
                    "is nothing to protect: use a scikit-learn estimator."
                )
            if declared.is_private and some and declared.n_records is not None:
                raise ValueError(
                    "neighboring_relation='add_or_remove_one' protects whole records, "
                    "so no part of them can be public: use 'replace_one' or "
                    "'replace_special'."
                )
        else:
            encoding = part.public.encoding
        if encoding is None:  # encoded rows are always finite
            check_finite(X, mask)
            X = blanked(X, mask) if planning else X
        elif planning:
            X = encoding.blanked(X)
        encoded = None if encoding is None else encoding.public_part(X)
        target, missing, facts = None, None, {}
        if like._target is not None:
            n_targets = X.shape[0] if y is None else len(y)
            target, missing, facts = self.target(like, y, n_targets)
        if exposure is not None and (planning or not declared.exposure.public):
            own = np.isnan(exposure) | planning
            exposure = np.where(own, np.mean(declared.exposure.bounds), exposure)
            missing = either(missing, None if planning else own)
        of_public = {"target": target} if declared.public_target else {}
        if not typed:
            X = X if encoding is None else encoding.rows(X)
            is_null = part.public.input_scaler.nulls(X) if encoding is None else None
            of_public |= {"encoded": encoded, "_table": X}
            public = dataclasses.replace(part.public, **of_public)
            return Records(X, target, public, either(is_null, missing))
        columns = column_names(names, n_features)
        attributes |= {} if encoder is None else {"encoder_": encoder}
        reader = Reader(declared, encoder, group_column, mask, attributes)
        units, n_outputs = None, len(facts.get("classes", ()))
        n_outputs = 1 if n_outputs <= 2 else n_outputs
        epsilon, delta = declared.parameters["epsilon"], declared.parameters["delta"]
        if of_rows is not None:
            noise = None
            if declared.is_private:
                noise = (relation.sensitivity(1.0) / gdp_mu(epsilon, delta)) ** 2
                noise *= X.shape[1] * n_outputs
            units = units_of(*of_rows, noise)
        n = (X.shape[0] if whole is None else whole) if units is None else units.n_units
        n = public_count(n, declared.n_records, epsilon, delta)
        of_table = {}
        if encoding is not None:
            _warn_of_levels(encoder, columns, n)
            if smooths:
                mu = gdp_mu(epsilon, delta) / relation.sensitivity(1.0)
                mu = mu if units is None else mu / units.reach
                signal = mu * n / like._smoothing
                encoding = encoding.smooth(signal, n, n_outputs)
            X, mask, names = encoding.rows(X), encoding.mask, None
            columns = tuple(columns[encoder.blocks_[j].parent] for j in encoding.block)
            of_table = {
                "private_reach": math.sqrt(int((~encoding.public_blocks).sum())),
                "encoding": encoding,
                "encoded": encoded,
                "levels": encoding.levels,
            }
        input_scaler = self._scaler(like, X.shape[1], names, mask, encoding, sparse)
        is_null = None
        if declared.releases_bounds:
            # Malformed values are replaced after the release of the bounds, in
            # `BoundsFirst.run`.
            input_scaler = wing("bounds").with_public_bounds(input_scaler, X, mask)
        elif like._rows != "raw" and encoding is None:
            is_null = input_scaler.nulls(X)
        public = PublicRecords(
            mask=mask,
            input_scaler=input_scaler,
            n_records=n,
            columns=columns,
            sparse=sparse,
            target_name=declared.target_name,
            units=units,
            is_weighted=sample_weight is not None,
            reader=reader,
            exposure=declared.exposure,
            _table=X,
            **of_public,
            **of_table,
            **facts,
        )
        return Records(X, target, public, either(is_null, missing), exposure)

    def checked(self, like: Any, X: Any, typed: bool = True, **how: bool) -> Any:
        """Return X as a table of numbers; `typed` as for `declared_numbers`."""
        if self.declaration.schema is None:
            declared = self.declaration.bounds
            if like._rows == "raw":
                declared = dict.fromkeys(range(len(column_labels(X))))
            X = declared_numbers(X, declared, typed)
        return check_arrays(like, X, accept_sparse=like._rows != "clipped", **how)

    def checked_target(
        self, like: Any, y: Any, n_rows: int, planning: bool = False
    ) -> np.ndarray | None:
        """Return y as an array, or None without a target; errors quote no value."""
        declared = self.declaration
        # Whether an unknown target counts as missing, without an error.
        takes_any = declared.classes is not None and not declared.public_target
        unread = takes_any or (y is None and not declared.public_target)
        if like._target is None or (planning and unread):
            return None
        y, model = numeric_target(y) if like._target == "numbers" else y, type(like)
        if y is None:
            raise ValueError(
                f"{model.__name__} requires y to be passed, but the target y is None."
            )
        if like._target == "labels" and declared.classes is not None:
            check_kind(type_kind(one_column(y)), declared.classes)
        found = shaped_target(y, n_rows, as_objects=takes_any)
        if not takes_any:
            check_complete(found, y)
        return found

    def target(
        self, like: Any, y: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None, dict[str, Any]]:
        """Return the target, the mask of the records without one, and public facts.

        The facts are fields of `PublicRecords`. `y` is None for a plan without y.
        """
        declared, public = self.declaration, bool(self.declaration.public_target)
        if like._target == "numbers":
            loss = declared.parameters["loss"]
            low, high = declared.target_limits()
            y = np.zeros(n_rows) if y is None else y
            y = check_target(y, loss, math.isfinite(low), finite=public)
            missing = ~np.isfinite(y)
            if missing.any():
                y = np.where(missing, np.clip(0.0, low, high), y)
            if math.isinf(high) and np.abs(y).max(initial=0.0) > FURTHEST:
                raise ValueError(
                    f"y holds numbers beyond {FURTHEST:g}, whose squares overflow "
                    "float64: rescale the target, or declare target_bounds."
                )
            # Integers at the door, as of columns.
            if math.isfinite(high) and not public:
                step = (high - low) * TARGET_STEP
                y = low + np.rint((np.clip(y, low, high) - low) / step) * step
            target_map = TargetMap(log=loss_name(loss) in OF_RATES, low=low, high=high)
            return y, missing if missing.any() else None, {"target_map": target_map}
        classes = declared.classes
        if y is not None:
            encode = encode_labels if classes is None or public else encode_any
            labels = encode(y, classes)
            several = len(labels.classes) > 2  # which `predict` would refuse
            if several and calling("sklearn.multiclass", "_fit_binary"):
                raise ValueError(
                    f"classes={shown(labels.classes.tolist())} has more than two "
                    "labels, but each member of one-vs-rest is fitted to 0 and 1: "
                    "declare [0, 1] (in OutputCodeClassifier [-1, 1]), or fit all "
                    "classes without it."
                )
            if not declared.is_private:
                check_exactly(y, labels)
        elif classes is not None:  # code 0 for every record
            codes = np.zeros(n_rows, dtype=np.int64)
            labels = Labels(declared_labels(classes), codes, "declared")
        else:
            raise ValueError(
                "classes=None and y=None are not enough for a plan: declare `classes`, "
                "or pass y."
            )
        weight, source = declared.parameters["class_weight"], labels.source
        facts = {
            "classes": labels.classes,
            "classes_source": "public target" if public and classes is None else source,
            "class_weight": resolve_class_weight(weight, labels.classes),
        }
        return labels.codes, labels.missing, facts

    def _scaler(
        self,
        like: Any,
        n_features: int,
        names: Sequence[str] | None,
        mask: np.ndarray,
        encoding: Encoding | None,
        sparse: bool,
    ) -> InputScaler:
        """Return the input scaler of the declared bounds.

        In rows of a linear model it divides only the private part.
        """
        declared, linear = self.declaration, like._rows == "linear"
        bounds, longest = declared.bounds, None
        if encoding is not None:
            # Smooth terms are in [-1, 1], and blocks have norms up to 1.
            bounds = encoding.smoothing is None and (0.0, 1.0)
            longest = math.sqrt(max(1, len(encoding.encoder.blocks_)))
        bound, normalize = like._norm(declared.parameters, mask)
        exact = not declared.is_private and like._target is not None
        if exact and not (linear and isinstance(bounds, str) and bounds == "private"):
            resolve_bounds(bounds, n_features, names)
        if exact or like._rows == "raw":
            return InputScaler(feature_bound=math.inf)
        if longest is not None and not linear:
            bound = min(bound, longest)
        bounds = UNKNOWN if declared.releases_bounds else bounds
        low, span = resolve_bounds(bounds, n_features, names)
        if span is None or np.isinf(span).any():
            _warn_of_bounds(bounds, span, mask, names)
        elif longest is None:
            longest = math.sqrt(n_features)
        shortens = not linear or bool(normalize)
        if not shortens:
            bound = divisor_of_rows(longest)
        elif bound == "auto":
            # Columns without bounds are assumed to be scaled.
            bound = 1.0 if longest is None else longest
        public = mask if linear and mask.any() and not mask.all() else None
        found = InputScaler(low, span, float(bound), bool(normalize), public, shortens)
        if sparse and np.any(found.offset):
            raise ValueError(
                "bounds must have low == 0 in every column of a sparse X, so that "
                "zeros stay zeros: declare (0, high), or scale the columns and pass "
                "bounds=False, or pass a dense X."
            )
        return found


def _warn_of_bounds(
    bounds: Any, span: np.ndarray | None, public: np.ndarray, names: Any
) -> None:
    """Warn if columns have no bounds, unless bounds=False; from public facts alone."""
    n_private = int((~public).sum())
    declare = "bounds=(low, high) or a mapping by column"
    if bounds is None and not n_private:
        warn_caller(
            "bounds=None: no column bounds are declared, and columns of unequal scale "
            f"train badly; pass {declare}, or False if the columns are scaled already.",
            UtilityWarning,
        )
    elif bounds is None:
        warn_caller(
            "bounds=None: expect no better than chance, because no column bounds are "
            f"declared for {n_private} private column(s): columns of unequal scale "
            "train badly, and a row with a missing value is ignored. Declare "
            f"{declare}, or a TableSchema where the estimator takes one, or use the "
            "bounds that private_bounds releases; bounds=False is for "
            "columns that are scaled already.",
            UtilityWarning,
        )
    if span is None or not (left := ~public & np.isinf(span)).any():
        return
    places = np.flatnonzero(left).tolist()
    columns = places if names is None else [str(names[i]) for i in places]
    listed = ", ".join(map(repr, columns[:5])) + ", ..." * (len(columns) > 5)
    warn_caller(
        f"bounds do not cover {len(columns)} private column(s): {listed}; declare "
        "them, (0, 1) for columns of zeros and ones: columns of unequal scale train "
        "badly, and rows with a missing value in such a column are ignored.",
        UtilityWarning,
    )


def _warn_of_exposure(name: str, counts: np.ndarray) -> None:
    if not counts.any():
        raise ValueError(f"no value of the public exposure {name!r} is above 0.")
    if not counts.all():
        warn_caller(
            f"{(~counts).sum()} of {len(counts)} values of the public exposure "
            f"{name!r} are missing or not above 0: their rows are left out.",
            UtilityWarning,
        )


def _warn_of_levels(encoder: DeclaredEncoder, columns: tuple, n_records: int) -> None:
    for block in encoder.blocks_:
        n_levels = len(block.levels)
        if block.kind == "categories" and n_levels > max(32, n_records / 20):
            warn_caller(
                f"column {columns[block.parent]!r} has {n_levels} declared levels for "
                f"{n_records} records, so few records share a level, which costs "
                "accuracy and time: declare groups of levels, such as the first digits "
                "of a code, or leave the column out.",
                UtilityWarning,
            )


# The declaration of public columns: names, patterns, positions, mask or slice.
#
# If a declaration were misread, private columns would be disclosed without an error.
# Ambiguous declarations are therefore refused, and the message says what to write
# instead.


_UNKNOWN = (
    "public_features={} is unknown: expected None, 'all', column names, patterns, "
    "positions, a boolean mask or a slice of positions (of a Series or a mapping, a "
    "list of names)."
)
_PUBLIC = "public_features"
_ODD_LABELS = (
    "{name}={shown} could mean labels or positions, because the labels of X's columns "
    "are neither all strings nor 0, 1, 2, … in order: rename the columns to strings "
    "(X.columns = X.columns.astype(str)) and use these names."
)


def public_mask(
    public_features: Any, n_features: int, names: Sequence[str] | None, X: Any = None
) -> np.ndarray:
    """Return the boolean mask of the public columns.

    `public_features` is None, "all", column names, fnmatch patterns, indices, a boolean
    mask or a slice. `names` are the names of the columns; None: X has no names. Only
    the column labels of X are read.

    Notes
    -----
    **Guarantees.** The mask is a function of the parameter, the column labels and the
    number of columns. Integers are read as positions only if X is an array, if all
    labels are strings, or if the labels are 0, 1, 2, … in order.
    """
    spec, mask = public_features, np.zeros(n_features, dtype=bool)
    if spec is None:
        return mask
    labels = _labels_of(names, X)
    if isinstance(spec, str) and spec == "all":
        if labels is not None and "all" in labels:
            raise ValueError(
                "public_features='all' means every column, and one column of X is "
                "called 'all': write ['all'] for that column, or slice(None) for "
                "every column."
            )
        return ~mask
    if isinstance(spec, slice):
        if spec != slice(None) and not _counted(labels):
            raise ValueError(_ODD_LABELS.format(name=_PUBLIC, shown=shown(spec)))
        places, message = range(n_features), _UNKNOWN.format(repr(spec))
        found = read_safely(places.__getitem__, spec, message=message, kind=ValueError)
        mask[[*found]] = True
        return mask
    items = _as_list(spec)
    flags = [isinstance(item, (bool, np.bool_)) for item in items]
    if any(flags):
        if isinstance(spec, Set) or not all(flags):
            raise ValueError(_UNKNOWN.format(shown(spec)))
        if len(items) != n_features:
            raise ValueError(
                f"public_features is a mask of length {len(items)}, but X has "
                f"{n_features} columns: give one entry per column."
            )
        return np.asarray(items, dtype=bool)
    integers = [item for item in items if isinstance(item, numbers.Integral)]
    listed = not isinstance(spec, (Set, range, numbers.Integral))
    whole = integers and len(items) == len(integers) == n_features
    if listed and whole and set(items) <= {0, 1}:
        raise ValueError(
            f"public_features={shown(spec)} could be a mask or positions, because X "
            f"has {n_features} column(s): write a mask with True and False, or "
            "positions as a set, {0, 1}."
        )
    for item in items:
        found = item
        if isinstance(item, numbers.Integral):
            _check_position(int(item), labels, _PUBLIC)
            if not -n_features <= item < n_features:
                raise ValueError(
                    f"public_features holds the index {item}, but X has {n_features} "
                    "columns: indices count from 0."
                )
        else:
            found = _named(item, names)
        mask[found] = True
    return mask


def _labels_of(names: Sequence[str] | None, X: Any) -> list | None:
    """Return the labels of X's columns, of any type; None if X has no labels."""
    return column_labels(X) or (None if names is None else list(names))


def _check_position(item: int, labels: list | None, name: str) -> None:
    if not _counted(labels):
        raise ValueError(_ODD_LABELS.format(name=name, shown=item))
    n_labels = 0 if labels is None else len(labels)
    if not -n_labels <= item < n_labels or labels[item] in (str(item), item):
        return
    if str(item) in labels:
        raise ValueError(
            f"{name} holds the index {item}, and another column of X is called "
            f"'{item}': give the name as a string."
        )


def _counted(labels: list | None) -> bool:
    """Whether an integer can mean only one column, by label or by position."""
    if labels is None or all(isinstance(label, str) for label in labels):
        return True
    whole = (
        isinstance(x, numbers.Integral) and not isinstance(x, bool) for x in labels
    )
    return all(whole) and labels == list(range(len(labels)))


def _as_list(spec: Any) -> list:
    """Return the entries of a declaration; a name or position is one entry."""
    single = isinstance(spec, (str, numbers.Integral))
    flat = getattr(spec, "ndim", 1) == 1 and (single or isinstance(spec, Iterable))
    # The index of a Series may have another order than the columns of X.
    keyed = hasattr(spec, "iloc") and not all(isinstance(item, str) for item in spec)
    unlisted = bool, bytes, bytearray, Iterator, Mapping
    if not flat or keyed or isinstance(spec, unlisted):
        raise ValueError(_UNKNOWN.format(shown(spec)))
    return [spec] if single else list(spec)


def _named(item: Any, names: Sequence[str] | None) -> list[int]:
    """Return the positions of the columns that a name or a pattern selects."""
    if not isinstance(item, str):
        raise ValueError(_UNKNOWN.format(f"{shown(item)} in a list"))
    if names is None:
        raise ValueError(
            f"public_features={item!r} names columns, but the columns of X have no "
            "names that are strings: rename them, X.columns.astype(str), or pass a "
            "DataFrame (set_output(transform='pandas') on the step before, with "
            "sparse_output=False), or indices."
        )
    found = [j for j, name in enumerate(names) if name == item]
    found = found or [j for j, name in enumerate(names) if fnmatchcase(name, item)]
    if not found:
        listed = ", ".join(map(repr, names[:8])) + ", …" * (len(names) > 8)
        raise ValueError(
            f"public_features holds {item!r}, which matches no column of X: the "
            f"{len(names)} columns are {listed}."
        )
    return found
