"""The way from a Dask collection to records that stay where they are."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np

from skfdp.encoding.tables import types_of
from skfdp.estimators.arrays import (
    blanked,
    check_arrays,
    check_finite,
    declared_numbers,
    either,
)
from skfdp.estimators.partitions.collections import (
    is_collection,
    parts_of,
    places_of,
    sample_of,
)
from skfdp.estimators.partitions.places import Places
from skfdp.estimators.partitions.shelf import RAW, RECORDS
from skfdp.estimators.partitions.table import (
    PartitionedRecords,
    PublicTable,
)
from skfdp.records.checks import unmasked
from skfdp.records.records import PublicRecords, Records

# What a worker has no need of.
_STAYS = ("ledger", "random_state", "public_features", "public_model", "public_loss")


@dataclasses.dataclass(frozen=True)
class Whole:
    """Facts of a whole table, of which only a sample is looked at.

    Attributes
    ----------
    n_rows : int
    y : ndarray of shape (n_rows,) or None
        A public target.
    """

    n_rows: int
    y: np.ndarray | None

    def of(self, estimator: Any, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a sample and the whole public target, as arrays that were checked."""
        if estimator.encoder is None:
            X = declared_numbers(X, estimator.bounds)
        X = check_arrays(estimator, X, finite=False)
        if self.y is None:
            return X, None
        rows = np.zeros((self.n_rows, 1))
        return X, check_arrays(copy.copy(estimator), rows, self.y)[1]


@dataclasses.dataclass(frozen=True)
class Reader:
    """The way from a partition to its records, where it is; can be pickled.

    Attributes
    ----------
    estimator : TableEstimator
        Without its ledger and its seed.
    none : Records
        The table without rows.
    planning : bool
        Look at nothing private.
    """

    estimator: Any
    none: Records
    planning: bool

    def __call__(self, raw: tuple[Any, Any]) -> Records:
        """Return the records of a partition ``(X, y)``."""
        if not raw[0].shape[0]:
            return self.none
        public = self.none.public
        return _records_of_part(self.estimator, *raw, public, self.planning)


def check_estimator(estimator: Any, X: Any) -> None:
    """Refuse a Dask collection where the estimator needs a table in memory."""
    if is_collection(X) and not getattr(estimator, "_takes_partitions", False):
        raise TypeError(
            f"{type(estimator).__name__} takes no Dask collection yet, as the linear "
            "estimators do: pass X.compute() if it fits."
        )


def check_method(records: Any, method: Any) -> None:
    """Refuse partitions where a method needs the rows in one place.

    A method says what for: ``needs_whole_table() -> str or None``. Of one that says
    nothing, it is the method itself.
    """
    if not isinstance(records, PartitionedRecords):
        return
    told = getattr(method, "needs_whole_table", None)
    reason = f"{type(method).__name__} is a method that" if told is None else told()
    if reason is not None:
        raise ValueError(
            f"{reason} needs a table in memory, and not a Dask collection: choose "
            "another, or pass X.compute() if it fits."
        )


def close(records: Any) -> None:
    """Let workers go of what they keep of the records of a fit."""
    if isinstance(records, PartitionedRecords):
        records.close()


def read(
    estimator: Any, X: Any, y: Any, planning: bool, **of_rows: Any
) -> PartitionedRecords:
    """Return the records of a Dask collection.

    Parameters
    ----------
    estimator : TableEstimator
        It learns the names of columns, as from any table.
    X, y
        As for `TableEstimator._records`.
    planning : bool
    of_rows
        Weights and groups, for which there is no way yet.

    Notes
    -----
    **Guarantees.** Of the values of a collection, its public columns, a public target
    and the sizes of its partitions come into this process, and nothing else before
    something is released.
    """
    _check(estimator, X, y, planning, of_rows)
    places = places_of(parts_of(X, y))
    try:
        return _read(estimator, places, sample_of(X), y, planning)
    except BaseException:
        places.close()
        raise


def _check(
    estimator: Any, X: Any, y: Any, planning: bool, of_rows: dict[str, Any]
) -> None:
    """Refuse what there is no way for, before a partition is looked at."""
    given = [name for name, value in of_rows.items() if value is not None]
    if given:
        raise ValueError(
            f"{' and '.join(given)} cannot be given with a Dask collection yet: pass a "
            "table in memory, or leave it out."
        )
    if math.isinf(estimator.epsilon):
        raise ValueError(
            "epsilon=inf cannot be fitted to a Dask collection: use scikit-learn or "
            "dask-ml, or a finite epsilon."
        )
    if estimator._releases_bounds:
        raise ValueError(
            "bounds='private' cannot be released from a Dask collection yet: declare "
            "bounds, or take those of private_bounds of a part in memory."
        )
    if y is None and not (planning and not estimator.public_target):
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed: a Dask array or "
            "Series with the partitions of X."
        )
    declared = estimator.classes is not None
    if not declared and not estimator.public_target:
        raise ValueError(
            "classes=None: the labels of a Dask collection are private and stay where "
            "they are; declare `classes`."
        )
    encoder = estimator.encoder
    if encoder is None:
        return
    if encoder.sparse_output:
        raise ValueError(
            "encoder has sparse_output=True, and partitions are dense: leave it out."
        )
    types_of(X, encoder.categories or ())


def _read(
    estimator: Any, places: Places, sample: Any, y: Any, planning: bool
) -> PartitionedRecords:
    sizes = tuple(places.ask(RAW, _size))
    n_rows, labels = sum(sizes), None
    if estimator.public_target:
        labels = np.concatenate(places.ask(RAW, _target))
    known = estimator._records_in_memory(
        sample,
        None if y is None else sample_of(y),
        planning=True,
        whole=Whole(n_rows, labels),
    )
    none = _without_rows(known)
    sent = dataclasses.replace(none, public=dataclasses.replace(none.public))
    reader = Reader(_sent(estimator, none.public), sent, planning)
    places.put(reader, RAW, name=RECORDS)
    places.drop(RAW)
    public = _with_rows(known.public, places, n_rows)
    return PartitionedRecords(places, sizes, none, public, public.target)


def _without_rows(known: Records) -> Records:
    """Return the table without rows, from two that no table holds."""
    public, X = known.public, known.X[:0]
    encoding = public.encoding
    if encoding is not None:
        encoding = dataclasses.replace(encoding, encoded=encoding.encoded[:0])
    public = dataclasses.replace(
        public,
        target=None if public.target is None else public.target[:0],
        labels=None if public.labels is None else public.labels[:0],
        encoding=encoding,
        _table=X,
    )
    target = None if known.target is None else known.target[:0]
    return Records(X, target, public)


def _with_rows(public: PublicRecords, places: Places, n_rows: int) -> PublicRecords:
    """Return the public part of the whole table."""
    mask, encoding = public.mask, public.encoding
    columns = np.empty((n_rows, 0))
    if mask.any():
        columns = np.concatenate(places.ask(RECORDS, _public_columns))
    if encoding is not None:
        shown = np.empty((n_rows, 0))
        if encoding.public_encoded.any():
            shown = np.concatenate(places.ask(RECORDS, _public_encoded))
        encoding = dataclasses.replace(encoding, encoded=shown)
    table = columns if mask.all() else PublicTable(columns, mask)
    return dataclasses.replace(
        public, encoding=encoding, in_partitions=True, _table=table
    )


def _sent(estimator: Any, public: PublicRecords) -> Any:
    """Return what a worker needs of an estimator."""
    own = copy.copy(estimator)
    for name in [name for name in vars(own) if "callback" in name]:
        delattr(own, name)
    for name in _STAYS:
        if hasattr(own, name):
            vars(own)[name] = None
    if public.classes is not None:
        vars(own)["classes"] = public.classes.tolist()
    return own


def _records_of_part(
    estimator: Any, X: Any, y: Any, public: PublicRecords, planning: bool
) -> Records:
    """Return the records of some rows, as those of the whole table would be.

    Parameters
    ----------
    estimator : TableEstimator
        It knows the columns, and the fitted encoder.
    X, y
        Some rows of the user's table.
    public : PublicRecords
        What is known of the whole table, without rows.
    planning : bool
    """
    own, encoded = copy.copy(estimator), estimator.encoder is not None
    if encoded:
        X = own.encoder_.encoded(X, least=0)
    X, y = own._checked(X, y, planning, reset=encoded, enough=False)
    if not encoded:
        check_finite(X, public.mask)
    target, missing, _ = own._target(y, X.shape[0])
    shows_target, table = bool(own.public_target), public.encoding
    if table is not None:
        table = dataclasses.replace(table, encoded=X)
        X, table = table.rows(), table.public_part()
    if planning:
        X = blanked(X, public.mask)
    X, void = public.row_map.filled(X)
    public = dataclasses.replace(
        public,
        target=target if shows_target else None,
        labels=y if shows_target else None,
        encoding=table,
        _table=X,
    )
    return Records(X, target, public, either(void, missing))


# -- Questions ------------------------------------------------------------------------


def _size(raw: tuple[Any, Any]) -> int:
    return raw[0].shape[0]


def _target(raw: tuple[Any, Any]) -> np.ndarray:
    return np.asarray(unmasked(raw[1], as_objects=True))


def _public_columns(records: Records) -> np.ndarray:
    return records.X[:, records.public.mask]


def _public_encoded(records: Records) -> np.ndarray:
    return records.public.encoding.encoded
