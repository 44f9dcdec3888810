"""Canaries of a one-run audit: records with two values each, told in a table."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.base import is_classifier, is_regressor

from skfdp.audit.one_run.fits import Parts
from skfdp.records.checks import shown

KINDS = ("flip", "mirror", "noise", "swap")
TAILS = ("auto", "other", "null")


@dataclasses.dataclass(frozen=True)
class Canaries:
    """Records of a table with two values each.

    Attributes
    ----------
    rows : int ndarray of shape (n_canaries,)
        Their positions in the table.
    X_a, y_a : table and target of n_canaries records
        What heads puts into the table.
    X_b, y_b : table and target of n_canaries records
        The other value, which scores compare with.
    X_tails, y_tails : table and target of n_canaries records, or None
        What tails puts into the table: the other value, or null. None: nothing, the
        record is left out.
    kind : str
    tails : {"other", "null", "out"}
    n_steps : {1, 2}
        Neighbouring steps from what heads puts there to what tails does.
    """

    rows: np.ndarray
    X_a: Any
    y_a: Any
    X_b: Any
    y_b: Any
    X_tails: Any
    y_tails: Any
    kind: str
    tails: str
    n_steps: int

    def table(self, X: Any, y: Any, heads: np.ndarray) -> tuple[Any, Any]:
        """Return the table that the coins choose.

        Parameters
        ----------
        X, y
            The whole table.
        heads : bool ndarray of shape (n_canaries,)
        """
        n_rows, n = n_records(X), len(self.rows)
        chosen = np.arange(n_rows)
        chosen[self.rows] = n_rows + np.arange(n)
        if self.tails == "out":
            chosen = np.delete(chosen, self.rows[~heads])
            return _stacked([X, self.X_a], chosen), _stacked([y, self.y_a], chosen)
        chosen[self.rows[~heads]] += n
        return (
            _stacked([X, self.X_a, self.X_tails], chosen),
            _stacked([y, self.y_a, self.y_tails], chosen),
        )


def make_canaries(
    parts: Parts,
    X: Any,
    y: Any,
    *,
    n_canaries: int,
    kind: Any,
    tails: str,
    rng: np.random.Generator,
) -> Canaries:
    """Return canaries among the records of a table; see `audit_estimator`."""
    rows = np.sort(rng.choice(n_records(X), n_canaries, replace=False))
    name = _default_kind(parts, X) if kind is None else kind
    if isinstance(name, str):
        pair = _made(parts, X, y, rows, name, rng)
    else:
        pair, name = _given(parts, X, y, rows, kind), "given"
    null = None if tails == "other" else _null(parts, X, y, rows, pair)
    if not parts.relation.counts_are_public:
        told, tails, n_steps = (None, None), "out", 1
    elif parts.relation.replaces:
        told, tails, n_steps = pair[2:], "other", 1
    elif null is not None:
        told, tails, n_steps = null, "null", 1
    elif tails == "null":
        raise ValueError(
            "tails='null' needs a null that this table can tell: declared classes or a "
            "regressor, with a private target, or a private column without bounds in "
            "an X of floats; choose tails='other'."
        )
    else:
        told, tails, n_steps = pair[2:], "other", 2
    return Canaries(rows, *pair, *told, kind=name, tails=tails, n_steps=n_steps)


def n_records(X: Any) -> int:
    """Return the number of records of a table."""
    return X.shape[0]


def _default_kind(parts: Parts, X: Any) -> str:
    if not len(parts.columns):
        return "flip"
    numeric = not hasattr(X, "iloc") or all(
        X.dtypes.iloc[j].kind in "fiub" for j in parts.columns
    )
    encoded = parts.setting("encoder") is not None
    return "noise" if numeric and not encoded else "swap"


def _made(
    parts: Parts, X: Any, y: Any, rows: np.ndarray, kind: Any, rng: np.random.Generator
) -> tuple[Any, Any, Any, Any]:
    """Return X_a, y_a, X_b, y_b of a kind."""
    if kind not in KINDS:
        raise ValueError(
            f"canaries={shown(kind)} is unknown; choose one of "
            f"{', '.join(map(repr, KINDS))}, None, or a pair (X, y) of other values."
        )
    private = parts.private_target
    if kind == "flip" and not private or kind != "flip" and not len(parts.columns):
        part = "target" if kind == "flip" else "columns"
        raise ValueError(
            f"canaries={kind!r} changes the {part} of a record, and here they are "
            "public: leave canaries out for those that fit."
        )
    if kind == "flip":
        y_a, y_b = _flipped(parts, y, len(rows), rng)
        return _rows(X, rows), _like(y, y_a), _rows(X, rows), _like(y, y_b)
    if kind == "swap":
        others = np.roll(rows, 1)
        X_b = _with_private(X, rows, parts, _rows(X, others))
        y_b = _rows(y, others if private else rows)
        return _rows(X, rows), _rows(y, rows), X_b, y_b
    low, high = _ranges(parts, X)
    if kind == "noise":
        signs = rng.random((len(rows), len(low))) < 0.5
        a, b = np.where(signs, high, low), np.where(signs, low, high)
    else:
        own = _dense(X, rows, parts.columns)
        a, b = own, low + high - own
    y_a = _rows(y, rows)
    if private and kind == "noise":
        y_a = _like(y, _flipped(parts, y, len(rows), rng)[0])
    return (
        _with_private(X, rows, parts, a),
        y_a,
        _with_private(X, rows, parts, b),
        y_a,
    )


def _given(
    parts: Parts, X: Any, y: Any, rows: np.ndarray, given: Any
) -> tuple[Any, Any, Any, Any]:
    """Return the pairs of a table and the user's other values of its private parts."""
    fits = isinstance(given, tuple) and len(given) == 2 and hasattr(given[0], "shape")
    if not fits or given[0].shape != X.shape:
        raise ValueError(
            f"canaries={shown(given)} must be one of {', '.join(map(repr, KINDS))}, "
            "None, or a pair (X, y) of other values, of the shape of X and y."
        )
    X_b = _with_private(X, rows, parts, _rows(given[0], rows))
    y_b = _rows(y, rows)
    if parts.private_target and given[1] is not None:
        y_b = _like(y, _rows(np.asarray(given[1]), rows))
    return _rows(X, rows), _rows(y, rows), X_b, y_b


def _flipped(
    parts: Parts, y: Any, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return random labels, or ends of the target's bounds, and other ones."""
    if is_regressor(parts.last):
        bounds = parts.setting("target_bounds")
        seen = _ends(np.asarray(y, dtype=float)[:, None])
        labels = np.ravel(seen if bounds is None else bounds).astype(float)
    else:
        classes = parts.setting("classes")
        labels = np.unique(np.asarray(y)) if classes is None else np.asarray(classes)
    first = rng.integers(len(labels), size=n)
    second = (first + rng.integers(1, len(labels), size=n)) % len(labels)
    return labels[first], labels[second]


def _null(
    parts: Parts, X: Any, y: Any, rows: np.ndarray, pair: Any
) -> tuple[Any, Any] | None:
    """Return records that count as null, None if a table cannot tell them."""
    special = parts.relation.counts_are_public and not parts.relation.replaces
    if not special or parts.setting("on_invalid") == "raise":
        return None
    X_a, y_a = pair[:2]
    classes = parts.setting("classes")
    if parts.private_target and is_regressor(parts.last):
        return X_a, _like(y, np.full(len(rows), np.nan))
    if parts.private_target and is_classifier(parts.last) and classes is not None:
        labels = np.asarray(classes)
        if labels.dtype.kind in "iuf":
            return X_a, _like(y, np.full(len(rows), labels.max() + 1))
        if labels.dtype.kind == "U":
            return X_a, _like(y, np.full(len(rows), "no " + " ".join(labels)))
    unbounded = parts.setting("bounds") is False and parts.setting("encoder") is None
    floats = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    if parts.direct and unbounded and floats and len(parts.columns):
        X_null = X_a.copy()
        X_null[:, parts.columns] = np.nan
        return X_null, y_a
    return None


def _ranges(parts: Parts, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the private columns: declared, or else seen."""
    columns, bounds = parts.columns, parts.setting("bounds")
    declared = isinstance(bounds, tuple | list) and len(bounds) == 2
    seen = _ends(_dense(X, np.arange(n_records(X)), columns))
    if not (declared and parts.direct and parts.setting("encoder") is None):
        return seen
    ends = [
        np.broadcast_to(np.asarray(end, dtype=float), len(parts.mask))[columns]
        for end in bounds
    ]
    low, high = (
        np.where(np.isfinite(a), a, b) for a, b in zip(ends, seen, strict=True)
    )
    return low, high


def _ends(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the largest finite number of each column, or 0."""
    known = np.isfinite(values)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    some = known.any(axis=0)
    return np.where(some, low, 0.0), np.where(some, high, 0.0)


def _dense(X: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    if issparse(X):
        return X.tocsr()[rows].tocsc()[:, columns].toarray().astype(float)
    found = (
        X.iloc[rows, columns].to_numpy() if hasattr(X, "iloc") else X[rows][:, columns]
    )
    return found.astype(float)


def _with_private(X: Any, rows: np.ndarray, parts: Parts, values: Any) -> Any:
    """Return rows of X with other private columns.

    Parameters
    ----------
    values : ndarray of the private columns, or a table of whole rows
    """
    columns = parts.columns
    whole = values.shape[1] == len(parts.mask)
    if hasattr(X, "iloc"):
        found = _rows(X, rows)
        for k, j in enumerate(columns):
            if hasattr(values, "iloc"):
                found[found.columns[j]] = values.iloc[:, j].to_numpy()
            else:
                found[found.columns[j]] = values[:, k]
        return found.astype(dict(X.dtypes))
    dense = X.tocsr()[rows].toarray() if issparse(X) else X[rows].copy()
    if issparse(values):
        values = values.toarray()
    dense[:, columns] = values[:, columns] if whole else values
    return type(X)(dense) if issparse(X) else dense


def _rows(table: Any, rows: np.ndarray) -> Any:
    if table is None:
        return None
    if issparse(table):
        return table.tocsr()[rows]
    if hasattr(table, "iloc"):
        return table.iloc[rows].reset_index(drop=True)
    return table[rows]


def _like(y: Any, values: np.ndarray) -> Any:
    """Return values as a target of the kind of y, with its name."""
    return type(y)(values, name=y.name) if hasattr(y, "iloc") else values


def _stacked(tables: list[Any], chosen: np.ndarray) -> Any:
    if tables[0] is None:
        return None
    if hasattr(tables[0], "iloc"):
        import pandas as pd

        return pd.concat(tables, ignore_index=True).iloc[chosen].reset_index(drop=True)
    if issparse(tables[0]):
        return _rows(vstack(tables, format="csr"), chosen)
    return np.concatenate(tables)[chosen]
