"""The way from a user's table to checked records, the same in fit and predict."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from skfdp.encoding.encoded import EncodedTable
from skfdp.encoding.encoder import DeclaredEncoder
from skfdp.encoding.tables import is_frame, raw_column
from skfdp.encoding.values import Column, as_array, exact
from skfdp.estimators.arrays import (
    blanked,
    check_arrays,
    check_finite,
    declared_numbers,
    either,
)
from skfdp.estimators.bounds.first import UNKNOWN, is_private, with_public_bounds
from skfdp.estimators.parameters import (
    check_split,
    parameters_of,
    public_count,
    resolve_row_map,
    shown_parameters,
)
from skfdp.estimators.partitions import reading
from skfdp.estimators.partitions.collections import is_collection
from skfdp.estimators.units import (
    RowsOfUnits,
    check_named,
    without_column,
    without_group_column,
    without_name,
)
from skfdp.privacy.events import PrivacyBudgetError
from skfdp.privacy.ledger import PrivacyLedger
from skfdp.privacy.relations import Relation
from skfdp.records.blocks import row_blocks
from skfdp.records.checks import is_auto, shown
from skfdp.records.guards import UtilityWarning, warn_caller
from skfdp.records.large import chosen_rows, whole_table
from skfdp.records.names import column_names, target_name
from skfdp.records.public_columns import public_mask
from skfdp.records.records import PublicRecords, Records
from skfdp.records.row_map import RowMap
from skfdp.records.spelling import text_of
from skfdp.records.units import Units


class TableEstimator(BaseEstimator):
    """Base of every estimator: what it makes of a table."""

    # Declarations that shared code reads, of estimators without such a parameter.
    public_features = None
    public_target = False
    target_name = None
    names = None
    n_records = None
    encoder = None
    on_invalid = "replace"
    bounds = None
    public_loss = None
    classes: Any = ()
    class_weight = None
    loss = "log_loss"
    max_rows_per_person = None

    #: Declarations that are the same for all estimators of a class.
    _fixed: dict[str, Any] = {}
    _accepts_sparse = False
    _has_target = True
    #: Whether the model is one of rows that are cut to `feature_bound`.
    _shortens_rows = True
    #: Whether rows may be those of a Dask collection.
    _takes_partitions = False
    #: Whether the method takes bounds that are released before it begins.
    _may_release_bounds = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, unless it declares what no parameter of `get_params` does.

        Notes
        -----
        **Guarantees.** What a fit declares public, clips and charges follows from
        parameters that `get_params` shows. Another attribute of such a name is not
        stored, with a warning.
        """
        mine = type(self)
        declares = name in DECLARATIONS or name in parameters_of(mine)
        if declares and name not in shown_parameters(mine):
            warn_caller(
                f"{mine.__name__} has no parameter {name!r}, so that setting this "
                "attribute has no effect: pass parameters to the constructor or to "
                "set_params.",
                UtilityWarning,
            )
            return
        super().__setattr__(name, value)

    def _check_declarations(self) -> None:
        """Raise ValueError if a class attribute stands where a parameter should."""
        mine = type(self)
        for name, default in (DECLARATIONS | mine._fixed).items():
            if name not in parameters_of(mine) and getattr(mine, name) != default:
                raise ValueError(
                    f"{mine.__name__}.{name} is a class attribute, and a fit reads its "
                    "declarations from parameters alone: pass it to the constructor of "
                    "an estimator that has this parameter."
                )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Public columns must be finite, and private ones need not be.
        private = self.public_features is None
        tags.input_tags.allow_nan = private and self.on_invalid == "replace"
        return tags

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

    @property
    def _smooths(self) -> bool:
        """Whether curves of encoded columns are smoothed."""
        return False

    def _in_coordinates(
        self,
        table: EncodedTable,
        n_records: int,
        facts: Mapping[str, Any],
        units: Units | None,
    ) -> EncodedTable:
        """Return an encoded table in the columns that the method is to see."""
        return table

    def _row_map(
        self,
        n_features: int,
        names,
        mask: np.ndarray,
        sparse: bool,
        table: EncodedTable | None,
    ) -> RowMap:
        """Return the row map of the bounds; public columns keep their scale."""
        if math.isinf(self.epsilon):
            return RowMap(feature_bound=math.inf)
        bounds = self.bounds if table is None else table.bounds
        row_map = resolve_row_map(
            UNKNOWN if self._releases_bounds else bounds,
            self.feature_bound,
            self._normalizes,
            n_features,
            names,
            sparse,
            public=mask,
            shortens=self._shortens_rows,
            longest=None if table is None else table.longest,
        )
        mixed = mask.any() and not mask.all()
        return dataclasses.replace(row_map, public=mask if mixed else None)

    @property
    def _needs_whole_table(self) -> bool:
        """Whether X is given to what reads no blocks, such as a user's function."""
        return callable(self.public_loss)

    @property
    def _releases_bounds(self) -> bool:
        """Whether the fit itself finds the bounds of the columns."""
        wanted = is_private(self.bounds)
        return wanted and self._may_release_bounds and math.isfinite(self.epsilon)

    @property
    def _normalizes(self) -> bool:
        """Whether rows are scaled to one norm; "auto": encoded rows are not."""
        if is_auto(self.normalize):
            return self.encoder is None
        return bool(self.normalize)

    def _records(self, X, y, planning: bool = False, **of_rows: Any) -> Records:
        """Validate, split and map; the last time that the user's objects are touched.

        Rows of a Dask collection are read where they are: see `partitions.reading`.
        Parameters are those of `_records_in_memory`.
        """
        if is_collection(X):
            return reading.read(self, X, y, planning, **of_rows)
        return self._records_in_memory(X, y, planning, **of_rows)

    def _records_in_memory(
        self, X, y, planning: bool = False, sample_weight=None, groups=None, whole=None
    ) -> Records:
        """Return the records of a table in memory.

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
        frame, named = X, target_name(self.target_name, y) if self._has_target else None
        if self.encoder is not None:
            X = self._encoded(X)
        checked = self._checked(X, y, planning) if whole is None else whole.of(self, X)
        n_given = checked[0].shape[0] if whole is None else whole.n_rows
        X, y, given = self._rows_that_count(*checked, sample_weight, groups)
        names = self._take_raw_columns()
        mask = public_mask(self.public_features, self.n_features_in_, names, frame)
        columns, table = column_names(self.names, names, self.n_features_in_), None
        if isinstance(self.ledger, PrivacyLedger) and not planning:
            rows = None if given is None else given.rows
            source = X if self.encoder is None else frame
            read = functools.partial(values_of, source, rows, whole is not None)
            self.ledger.check_column(columns, mask.tolist(), read)
        if self.encoder is not None:
            if whole is None:
                warn_of_unread(self.encoder_, frame, mask, columns)
            table, names = EncodedTable(self.encoder_, X, mask), None
            mask = table.mask
        self._check_split(mask)
        check_finite(X, mask)
        if planning:
            X = blanked(X, mask)
        target, missing, facts = (
            self._target(y, X.shape[0]) if self._has_target else (None, None, {})
        )
        shows_target = self._has_target and bool(self.public_target)
        units = None if given is None else self._units(given, X.shape[1], facts)
        n_rows = X.shape[0] if whole is None else whole.n_rows
        n = n_rows if units is None else units.n_units
        n = public_count(n, self.n_records, self.epsilon, self.delta)
        if table is not None:
            table = dataclasses.replace(table, encoded=X)
            table = self._in_coordinates(table, n, facts, units)
            X, mask, columns = table.rows(), table.mask, table.names(columns)
        row_map = self._row_map(X.shape[1], names, mask, issparse(X), table)
        row_map, X, void = self._filled(row_map, X, mask)
        self._public_mask = mask
        public = PublicRecords(
            mask=mask,
            row_map=row_map,
            n_records=n,
            columns=columns,
            sparse=issparse(X),
            target=target if shows_target else None,
            labels=y if shows_target else None,
            target_name=named,
            private_reach=None if table is None else table.longest_private,
            encoding=None if table is None else table.public_part(),
            units=units,
            n_given=n_given,
            _table=X,
            **facts,
        )
        return Records(X, target, public, either(void, missing))

    def _filled(self, row_map: RowMap, X, mask: np.ndarray) -> tuple:
        """Return the row map, finite rows under it, and which have no number for one.

        With bounds that are yet to be released there is no such row: see
        `Records.bounded_by`.
        """
        if self._releases_bounds:
            return with_public_bounds(row_map, X, mask), X, None
        return row_map, *row_map.filled(X)

    def _encoded(self, X) -> np.ndarray | csr_array:
        """Return encoded rows; `_checked` counts them."""
        smooth = self._smooths and not self.encoder.sparse_output
        encoder = clone(self.encoder)
        if (name := self._group_column) is not None:
            for given in ("bounds", "categories"):
                declared = getattr(encoder, given)
                if isinstance(declared, Mapping) and name in declared:
                    raise ValueError(
                        f"groups={name!r} takes a column out of X that the encoder "
                        f"declares in {given}: put it into ignore."
                    )
            encoder.ignore = without_name(encoder.ignore, name)
        self.encoder_ = encoder.fit_to_smooth(X, smooth)
        return self.encoder_.encoded(X, least=0)

    def _take_groups(self, X, groups) -> tuple[Any, Any]:
        """Return X without the column that `groups` names, and the groups."""
        self._group_column = groups if isinstance(groups, str) else None
        if self._group_column is not None:
            check_named(self.public_features, self.bounds, groups)
        return without_group_column(X, groups)

    def _rows_that_count(
        self, X, y, sample_weight, groups
    ) -> tuple[Any, Any, RowsOfUnits | None]:
        """Return the rows that count: what is left out here, nothing looks at."""
        self._has_weights = sample_weight is not None
        given = self._rows_of_units(sample_weight, groups, X.shape[0])
        if given is None:
            return X, y, None
        return chosen_rows(X, given.rows), None if y is None else y[given.rows], given

    def _rows_of_units(self, sample_weight, groups, n_rows) -> RowsOfUnits | None:
        """Return which rows count, and for whom; None: each is a record of its own."""
        return None

    def _units(
        self, given: RowsOfUnits, n_columns: int, facts: Mapping[str, Any]
    ) -> Units | None:
        """Return how rows count; None: each is a record, and counts as one."""
        raise NotImplementedError

    def _checked(
        self, X, y, planning: bool, **how: bool
    ) -> tuple[Any, np.ndarray | None]:
        """Return X and y as arrays; y is None where there is none, or no need of it."""
        finite = self.on_invalid == "raise" and not planning
        if self.encoder is None:
            X = declared_numbers(X, self.bounds, finite)
        checked = {"accept_sparse": self._accepts_sparse, "finite": finite, **how}
        if not self._has_target or (planning and self._plans_without(y)):
            X, y = check_arrays(self, X, **checked), None
        else:
            any_target = self._takes_any_target
            X, y = check_arrays(self, X, y, any_target=any_target, **checked)
        return (whole_table(X) if self._needs_whole_table else X), y

    def _take_raw_columns(self) -> np.ndarray | None:
        """Return the names of the raw columns of X; those of encoded ones are not."""
        if self.encoder is not None:
            self.n_features_in_ = self.encoder_.n_features_in_
            if hasattr(self.encoder_, "feature_names_in_"):
                self.feature_names_in_ = self.encoder_.feature_names_in_
        return getattr(self, "feature_names_in_", None)

    @property
    def _takes_any_target(self) -> bool:
        """Whether no value of the target is refused."""
        return self.on_invalid == "replace" and not self.public_target

    def _plans_without(self, y) -> bool:
        """Whether a plan has no need to look at y."""
        declared = self.classes is not None
        return not self.public_target and (y is None or declared)

    def _check_split(self, mask: np.ndarray) -> None:
        """Raise ValueError if nothing is left to protect, or nothing may be public."""
        if math.isfinite(self.epsilon):
            check_split(
                mask,
                bool(self.public_target),
                Relation.of(self.neighboring_relation),
                self.public_loss,
            )

    def _rows_to_predict(self, X) -> np.ndarray | csr_array:
        """Return new rows as `fit` would read them, ready for the row map."""
        check_is_fitted(self)
        X = without_column(X, getattr(self, "_group_column", None))
        if hasattr(self, "encoder_"):
            return self.encoder_.encoded(X)
        finite, sparse = self.on_invalid == "raise", self._accepts_sparse
        X = declared_numbers(X, self.bounds, finite)
        X = check_arrays(self, X, reset=False, accept_sparse=sparse, finite=finite)
        check_finite(X, self._public_mask)
        return self.row_map_.filled(X)[0]


def warn_of_unread(
    encoder: DeclaredEncoder, X: Any, public: np.ndarray, names: Sequence[str | int]
) -> None:
    """Warn of public columns with values that are no numbers or no dates.

    Parameters
    ----------
    encoder : DeclaredEncoder
        Fitted.
    X : table
        Raw; its public columns are looked at and no others.
    public : bool ndarray of shape (n_features,)
    names : sequence of str or int
    """
    for block in encoder.blocks_:
        what = {"number": "numbers", "date": "dates"}.get(block.reads)
        place = block.parents[0]
        if what is None or not public[place]:
            continue
        raw = raw_column(X, place)
        missing = np.isnan(Column(raw).read(block.reads))
        unread = sum(text_of(value) is not None for value in exact(raw)[missing])
        if unread:
            warn_caller(
                f"{unread} of {len(missing)} values of the public column "
                f"{names[place]!r} are no {what} and count as missing: convert them, "
                "or declare categories.",
                UtilityWarning,
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


#: What estimators without such a parameter declare, by name.
DECLARATIONS: dict[str, Any] = {
    name: value
    for name, value in vars(TableEstimator).items()
    if not name.startswith("_")
}


def check_encoder(encoder: Any, bounds: Any) -> None:
    """Refuse what is no encoder, and bounds beside it."""
    if encoder is None:
        return
    if not isinstance(encoder, DeclaredEncoder):
        raise ValueError(
            f"encoder={shown(encoder)} must be None or a DeclaredEncoder: any other "
            "transformer goes before the estimator, in a Pipeline."
        )
    if bounds is not None:
        raise ValueError(
            f"bounds={shown(bounds)} and an encoder are given: declare the bounds of "
            "raw columns in the encoder, DeclaredEncoder(bounds=...), or take those of "
            "private_bounds."
        )
