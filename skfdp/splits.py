"""What is public: column names, indices, masks, slices or callables, resolved."""

from __future__ import annotations

import fnmatch
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

_NO_NAMES = (
    "public_features={spec!r} names columns, but X has no column names: pass a "
    "DataFrame (set_output(transform='pandas') on the step before, with "
    "sparse_output=False), or indices."
)


def public_mask(
    public_features: Any, n_features: int, names: Sequence[str] | None, X: Any = None
) -> np.ndarray:
    """Return the boolean mask of the public columns.

    Parameters
    ----------
    public_features : None, "all", str, int, sequence, slice, mask or callable
        Column names, fnmatch patterns, indices, a boolean mask, a slice, or a
        callable of X that returns one of them (`make_column_selector`).
    n_features : int
        Number of columns.
    names : sequence of str or None
        Column names where X has them.
    X : DataFrame or array, default=None
        A callable gets its first zero rows: names and dtypes, no values.

    Returns
    -------
    mask : bool ndarray of shape (n_features,)
    """
    spec = public_features
    if callable(spec):
        spec = spec(X.iloc[:0] if hasattr(X, "iloc") else X[:0])
    mask = np.zeros(n_features, dtype=bool)
    if spec is None:
        return mask
    if isinstance(spec, str) and spec == "all":
        return ~mask
    if isinstance(spec, slice):
        mask[spec] = True
        return mask
    if isinstance(spec, str) or isinstance(spec, numbers.Integral):
        spec = [spec]
    spec = list(spec)
    if spec and all(isinstance(item, (bool, np.bool_)) for item in spec):
        if len(spec) != n_features:
            raise ValueError(
                f"public_features is a mask of length {len(spec)}, but X has "
                f"{n_features} columns: give one entry per column."
            )
        return np.asarray(spec, dtype=bool)
    for item in spec:
        for index in _indices(item, n_features, names):
            if mask[index]:
                raise ValueError(
                    f"public_features={public_features!r} names column "
                    f"{item!r} twice: name each column once."
                )
            mask[index] = True
    return mask


def _indices(item: Any, n_features: int, names: Sequence[str] | None) -> list[int]:
    if isinstance(item, numbers.Integral) and not isinstance(item, bool):
        if not -n_features <= item < n_features:
            raise ValueError(
                f"public_features holds the index {item}, but X has {n_features} "
                "columns: indices count from 0."
            )
        return [int(item) % n_features]
    if not isinstance(item, str):
        raise ValueError(
            f"public_features holds {item!r}: expected column names, patterns, "
            "indices, a boolean mask, a slice or a callable."
        )
    if names is None:
        raise ValueError(_NO_NAMES.format(spec=item))
    names = list(names)
    if item in names:  # an exact name wins, even if it looks like a pattern
        found = [index for index, name in enumerate(names) if name == item]
        if len(found) > 1:
            raise ValueError(f"column {item!r} occurs {len(found)} times in X.")
        return found
    found = [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, item)]
    if not found:
        raise ValueError(
            f"public_features holds {item!r}, which matches no column of X: the "
            f"columns are {_shortened(names)}."
        )
    return found


def _shortened(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(map(repr, names[:limit]))
    return shown if len(names) <= limit else f"{shown}, … ({len(names)} in all)"
