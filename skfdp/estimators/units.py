"""The units of a fit: a user's weights and groups, checked, and how rows count."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from skfdp.privacy.relations import Relation
from skfdp.records.checks import is_missing, shown
from skfdp.records.units import Units, balanced, first_rows, numbered, rounded

_NOT_WEIGHTS = (
    "sample_weight must be one finite number that is not negative for each row: public "
    "weights, which depend on nothing private; leave it out where all count alike."
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
    columns = getattr(X, "columns", None)
    if columns is None or groups not in list(columns):
        raise ValueError(
            f"groups={shown(groups)} is not the name of a column of X: pass a frame "
            "with that column, or one entry for each row."
        )
    return without_column(X, groups), X[groups]


def without_column(X: Any, name: str | None) -> Any:
    """Return a frame without the column of this name, if it has one."""
    columns = getattr(X, "columns", None)
    if name is None or columns is None or name not in list(columns):
        return X
    # pandas, or polars
    return X.drop(columns=[name]) if hasattr(X, "iloc") else X.drop(name)


def checked_units(
    sample_weight: Any,
    groups: Any,
    n_rows: int,
    relation: Relation,
    *,
    most: int | None = None,
    noise: float = 0.0,
) -> Units | None:
    """Return the units of a fit; None where each row is a record and counts as one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,) or None
    groups : array-like of shape (n_rows,) or None
    n_rows : int
    relation : Relation
    most : int, default=None
        Rows of a person after this many have no weight. None: all have.
    noise : float, default=0.0
        As `balanced` has it; see there.

    Raises
    ------
    ValueError
        For other shapes, values that are no weights, missing persons, or a relation
        under which the rows cannot be counted in public.
    """
    if sample_weight is None and groups is None:
        return None
    if not relation.counts_are_public:
        name = "sample_weight" if groups is None else "groups"
        raise ValueError(
            f"{name} needs a public number of rows, which neighboring_relation="
            f"{relation.name!r} makes private: use 'replace_one' or 'replace_special'."
        )
    weights = _weights(sample_weight, n_rows)
    if groups is None:
        return Units(rounded(weights))
    persons = _persons(groups, n_rows)
    if most is not None:
        weights = np.where(first_rows(persons, most), weights, 0.0)
        if not weights.any():
            raise ValueError(_no_weight())
    weights = rounded(balanced(weights, persons, noise))
    return Units(weights, persons)


def _weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return public weights as float64, quoting none of them."""
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = None
    if weights is None or weights.ndim > 1:
        raise ValueError(_NOT_WEIGHTS)
    if weights.ndim == 0:  # as scikit-learn has it: the same for all
        weights = np.full(n_rows, weights)
    if len(weights) != n_rows:
        raise ValueError(
            f"sample_weight has {len(weights)} entries, and X has {n_rows} rows: give "
            "one for each row."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(_NOT_WEIGHTS)
    if not weights.any():
        raise ValueError(_no_weight())
    return weights / weights.max()


def _no_weight() -> str:
    return (
        "sample_weight is 0 in every row that counts: give some row a positive weight."
    )


def _persons(groups: Any, n_rows: int) -> np.ndarray:
    """Return the number of the person of each row."""
    found = np.asarray(groups)
    if found.ndim != 1 or len(found) != n_rows:
        raise ValueError(
            f"groups must have one entry for each of the {n_rows} rows of X, the name "
            f"of its person, and has the shape {found.shape}."
        )
    if found.dtype.kind == "O":
        if any(map(is_missing, found)):
            raise ValueError(_MISSING)
        found = found.astype(str)
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(_MISSING)
    return numbered(found)


_MISSING = (
    "groups has missing entries: give each such row a name of its own, or the name of "
    "its person."
)


def noise_of_sums(mu: float, relation: Relation, n_columns: int) -> float:
    """Return the `noise` of `balanced` for a sum of rows of this many columns."""
    if not math.isfinite(mu):
        return 0.0
    return n_columns * (relation.moves(1.0) / mu) ** 2
