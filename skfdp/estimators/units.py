"""The units of a fit: a user's weights and groups, checked, and how rows count."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skfdp.encoding.tables import check_names, check_no_path
from skfdp.privacy import gdp_mu
from skfdp.privacy.relations import Relation
from skfdp.records.checks import is_missing, shown, unmasked
from skfdp.records.units import (
    Units,
    balanced,
    first_rows,
    numbered,
    rounded,
)

# Of weights where there is no noise, and hence no grid that has to hold them.
_FINE = 2**32
_NOT_WEIGHTS = (
    "sample_weight must be one finite number that is not negative for each row: public "
    "weights, which depend on nothing private; leave it out where all count alike."
)
_NO_WEIGHT = (
    "sample_weight is zero in every row, so that none counts: give some row a positive "
    "weight."
)
_MISSING = (
    "groups has missing entries: give each such row a name of its own, or the name of "
    "its person."
)
_NOT_NAMES = (
    "groups holds entries that cannot be told apart as names of persons: pass texts, "
    "or numbers, not a mixture of both."
)


def check_named(public_features: Any, bounds: Any, groups: str) -> None:
    """Refuse positions of columns beside the name of a column that is taken out.

    They could be counted with that column or without it: one column too far, and a
    private one would be disclosed.
    """
    for name, given in (("public_features", public_features), ("bounds", bounds)):
        entries = None
        if isinstance(given, Mapping):
            entries = list(given)
        elif name == "public_features" and not (
            given is None or isinstance(given, str) or callable(given)
        ):
            entries = list(given) if isinstance(given, Iterable) else [given]
        if entries and not all(isinstance(entry, str) for entry in entries):
            raise ValueError(
                f"{name}={shown(given)} gives positions, and groups={shown(groups)} "
                "takes a column out of X before they are counted: name the columns, or "
                "pass that column by itself, groups=X[...]."
            )


def without_group_column(X: Any, groups: Any) -> tuple[Any, Any]:
    """Return X without the column that names persons, and that column.

    Parameters
    ----------
    X : array-like
    groups : str, array-like or None
        A string is the name of a column of X; anything else is returned as it is.
    """
    if not isinstance(groups, str):
        return X, groups
    check_no_path(X)
    check_names(X)
    if groups not in _labels(X):
        raise ValueError(
            f"groups={shown(groups)} is not the name of a column of X: pass a frame "
            "with that column, or one entry for each row."
        )
    return without_column(X, groups), X[groups]


def without_name(names: Any, name: str) -> Any:
    """Return a column, or a list of columns, without one that was taken out of X."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        return () if names == name else names
    return [one for one in names if one != name]


def without_column(X: Any, name: str | None) -> Any:
    """Return a frame without the column of this name, if it has one."""
    if name is None or name not in _labels(X):
        return X
    if hasattr(X, "iloc"):
        return X.drop(columns=[name])
    return X.drop([name]) if hasattr(X, "column_names") else X.drop(name)


def _labels(X: Any) -> list:
    """Return the names of the columns of a frame or a large table, or none."""
    if hasattr(X, "column_names"):  # pyarrow, whose `columns` are values
        return list(X.column_names)
    columns = getattr(X, "columns", None)
    return [] if columns is None else list(columns)


@dataclasses.dataclass(frozen=True)
class RowsOfUnits:
    """The rows that count, their weights as a user gave them, and their persons.

    Attributes
    ----------
    rows : int64 ndarray of shape (n_kept,)
        Row numbers in the user's table. The others are left out before anything else
        looks at them: those of weight 0, and of a person with too many.
    weights : float64 ndarray of shape (n_kept,)
        Positive.
    persons : int64 ndarray of shape (n_kept,) or None
    """

    rows: np.ndarray
    weights: np.ndarray
    persons: np.ndarray | None

    @classmethod
    def checked(
        cls,
        sample_weight: Any,
        groups: Any,
        n_rows: int,
        relation: Relation,
        most: int | None = None,
    ) -> RowsOfUnits | None:
        """Return what a user gave; None where each row is a record and counts as one.

        Parameters
        ----------
        sample_weight : array-like of shape (n_rows,) or None
        groups : array-like of shape (n_rows,) or None
        n_rows : int
        relation : Relation
        most : int, default=None
            Rows of a person after this many do not count. None: all do.

        Raises
        ------
        ValueError
            For other shapes, values that are no weights, missing persons, or a relation
            under which the rows cannot be counted in public.
        """
        if groups is None and most is not None:
            raise ValueError(
                f"max_rows_per_person={shown(most)} needs to know whose rows they are: "
                "pass groups to fit, or leave it out."
            )
        if sample_weight is None and groups is None:
            return None
        weights, persons = _taken(sample_weight, groups, n_rows, relation)
        rows = np.flatnonzero(weights > 0)
        if persons is not None and most is not None:
            rows = rows[first_rows(persons[rows], most)]
        if persons is not None:
            persons = numbered(persons[rows])
        return cls(rows, weights[rows], persons)

    def units(self, noise: float | None) -> Units | None:
        """Return how the rows count; None where each is a record and counts as one.

        Parameters
        ----------
        noise : float or None
            As `balanced` has it; None: nothing is released, and no row counts less.
        """
        weights = self.weights
        if self.persons is None and (weights == 1).all():
            return None
        if noise is None:
            whole = rounded(weights, _FINE)
        elif self.persons is None:
            whole = rounded(weights)
        else:
            weights = balanced(weights, self.persons, noise)
            whole = rounded(weights)
        count = float(weights.sum()) / int(whole.sum())
        return Units(whole, self.persons, count)


def units_as_weighted(
    sample_weight: Any, groups: Any, n_rows: int, relation: Relation
) -> Units | None:
    """Return the units of a number that has to mean what users say it does.

    Rows count as `sample_weight` says. Without it persons count alike, and so do the
    rows of each: nobody's rows reach further than those of somebody with one.

    Parameters and errors are those of `RowsOfUnits.checked`.
    """
    if sample_weight is None and groups is None:
        return None
    weights, persons = _taken(sample_weight, groups, n_rows, relation)
    if sample_weight is None:
        weights = weights / np.bincount(persons)[persons]
    return Units(rounded(weights), persons)


def _taken(
    sample_weight: Any, groups: Any, n_rows: int, relation: Relation
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the weights of the rows and their persons, checked."""
    if not relation.counts_are_public:
        name = "sample_weight" if groups is None else "groups"
        raise ValueError(
            f"{name} needs a public number of rows, which neighboring_relation="
            f"{relation.name!r} makes private: use 'replace_one' or 'replace_special'."
        )
    weights = _weights(sample_weight, n_rows)
    return weights, None if groups is None else _persons(groups, n_rows)


def _weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return public weights as float64, quoting none of them."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, str):
        raise ValueError(
            f"sample_weight={shown(sample_weight)} is a name: pass public numbers, one "
            "for each row. A private column cannot weigh rows, because how far a "
            "record may move a sum follows from the weights, which are disclosed."
        )
    try:
        found = np.asarray(unmasked(sample_weight))
        weights = found.astype(np.float64) if found.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError):
        weights = None
    # Outside the handler, so that no error that quotes a value is kept as a context.
    if weights is None:
        raise ValueError(_NOT_WEIGHTS)
    if weights.ndim == 0:  # as scikit-learn has it: the same for all
        weights = np.full(n_rows, weights)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weights.shape}, and X has {n_rows} rows: "
            "give one number for each row."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(_NOT_WEIGHTS)
    if not weights.any():
        raise ValueError(_NO_WEIGHT)
    return weights


def _persons(groups: Any, n_rows: int) -> np.ndarray:
    """Return the number of the person of each row, quoting no name."""
    try:
        groups = unmasked(groups, as_objects=True)
        found = np.asarray(groups)
        if isinstance(groups, (list, tuple)) and found.dtype.kind in "US":
            found = np.array(groups, dtype=object)  # a missing entry has become text
    except (TypeError, ValueError):  # ragged
        found = None
    if found is None or found.shape != (n_rows,):
        told = "lists of several lengths" if found is None else f"shape {found.shape}"
        raise ValueError(
            f"groups must have one entry for each of the {n_rows} rows of X, the name "
            f"of its person, and has {told}."
        )
    kind = found.dtype.kind
    if kind in "OTV":  # of "V", each name is a tuple
        return _by_name(np.fromiter(found.tolist(), dtype=object, count=n_rows))
    missing = {"f": np.isnan, "c": np.isnan, "M": np.isnat, "m": np.isnat}.get(kind)
    if missing is not None and missing(found).any():
        raise ValueError(_MISSING)
    return numbered(found)


def _by_name(names: np.ndarray) -> np.ndarray:
    """Return the numbers of Python objects; equal ones are one person."""
    if any(map(_lacks_name, names)):
        raise ValueError(_MISSING)
    texts = [isinstance(name, str) for name in names]
    try:
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
    except TypeError:  # a name that is a list, say
        number = None
    # A number and its text would be two persons, half of whose rows are protected.
    if number is None or (any(texts) and not all(texts)):
        raise ValueError(_NOT_NAMES)
    return np.array([number[name] for name in names], dtype=np.int64)


def _lacks_name(name: Any) -> bool:
    """Whether the name of a person is missing, or an entry of a tuple of names is."""
    if isinstance(name, tuple):
        return any(map(_lacks_name, name))
    return is_missing(name)


def noise_of_sums(
    epsilon: float, delta: float, relation: Relation, n_columns: int
) -> float | None:
    """Return the `noise` of `balanced` for a sum of rows of this many columns.

    None without privacy.
    """
    if math.isinf(epsilon):
        return None
    return n_columns * (relation.moves(1.0) / gdp_mu(epsilon, delta)) ** 2
