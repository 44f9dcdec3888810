"""Resolve the declaration of public columns: names, patterns, positions, mask or slice.

A misread declaration would disclose private columns, and nobody would notice. Ambiguous
declarations are therefore refused, and the message says what to write instead.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from skfdp.data.arrays import is_dask
from skfdp.privacy.checks import shown, spelling

_EXPECTED = (
    "expected None, 'all', column names, patterns, positions, a boolean mask or a "
    "slice of positions."
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

    Parameters
    ----------
    public_features : None, "all", str, int, sequence, slice or mask
        Column names, fnmatch patterns, indices, a boolean mask or a slice.
    n_features : int
    names : sequence of str or None
        Names of the columns; None if X has no names.
    X : DataFrame or array, default=None
        Only the column labels of X are read.

    Notes
    -----
    **Guarantees.** The mask is a function of the parameter, the column labels and the
    number of columns. Integers are read as positions only if X is an array, if all
    labels are strings, or if the labels are 0, 1, 2, … in order.
    """
    spec, labels = public_features, _labels_of(names, X)
    mask = np.zeros(n_features, dtype=bool)
    if spec is None:
        return mask
    if isinstance(spec, str) and spec == "all":
        if labels is not None and "all" in labels:
            raise ValueError(
                "public_features='all' means every column, and one column of X is "
                "called 'all': write ['all'] for that column, or slice(None) for "
                "every column."
            )
        return ~mask
    if isinstance(spec, slice):
        ends = [end for end in (spec.start, spec.stop, spec.step) if end is not None]
        if not all(isinstance(end, numbers.Integral) for end in ends) or spec.step == 0:
            raise ValueError(
                f"public_features={spec!r} must be a slice of positions, with a step "
                "other than 0: list the public columns instead."
            )
        if ends and not _counted(labels):
            raise ValueError(_ODD_LABELS.format(name=_PUBLIC, shown=shown(spec)))
        mask[spec] = True
        return mask
    items = _listed(spec)
    flags = [isinstance(item, (bool, np.bool_)) for item in items]
    if any(flags):
        if isinstance(spec, Set) or not all(flags):
            raise ValueError(
                "public_features mixes booleans with something else: give one boolean "
                "per column, or a list of names."
            )
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
        if isinstance(item, numbers.Integral):
            found = [_position(int(item), n_features, labels)]
        else:
            found = _named(item, names, labels)
        for index in found:
            if mask[index]:
                raise ValueError(
                    f"public_features={shown(spec)} names column {item!r} twice: name "
                    "each column once."
                )
            mask[index] = True
    return mask


def _labels_of(names: Sequence[str] | None, X: Any) -> list | None:
    """Return the labels of X's columns, of any type; None if X has no labels."""
    own = getattr(X, "columns", None)
    if own is not None and not callable(own):
        return list(own)
    return None if names is None else list(names)


def check_keys(bounds: Any, names: Sequence[str] | None, X: Any) -> None:
    """Refuse integer keys of `bounds` that may be labels or positions of X's columns.

    The rule is that of `public_mask`.
    """
    if isinstance(bounds, Mapping):
        labels = _labels_of(names, X)
        for key in bounds:
            if isinstance(key, numbers.Integral):
                _check_position(key, labels, "bounds")


def _check_position(item: int, labels: list | None, name: str) -> None:
    """Refuse an integer that could be the label of another column."""
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
    """Whether an integer can mean only one column, by label or by position.

    This holds if there are no labels, if all are strings, or if they are 0, 1, 2, …
    """
    if labels is None or all(isinstance(label, str) for label in labels):
        return True
    whole = (
        isinstance(x, numbers.Integral) and not isinstance(x, bool) for x in labels
    )
    return all(whole) and labels == list(range(len(labels)))


def _listed(spec: Any) -> list:
    """Return the entries of a declaration as a list; a name or position is one entry.

    Refuse anything that is not a sequence, a set, a name or a position.
    """
    if isinstance(spec, Mapping):
        raise ValueError(
            "public_features is a mapping, and its values would be ignored: pass a "
            "list of the public columns."
        )
    single = isinstance(spec, (str, numbers.Integral))
    flat = getattr(spec, "ndim", 1) == 1 and (single or isinstance(spec, Iterable))
    if not flat or isinstance(spec, (bool, bytes, bytearray, Iterator)):
        raise ValueError(f"public_features={shown(spec)} is unknown: {_EXPECTED}")
    if hasattr(spec, "iloc") and not all(isinstance(item, str) for item in spec):
        raise ValueError(
            "public_features is a Series, whose index may have another order than X's "
            "columns: pass its to_numpy() if the orders agree, or a list of names."
        )
    return [spec] if single else list(spec)


def _named(item: Any, names: Sequence[str] | None, labels: list | None) -> list[int]:
    if not isinstance(item, str):
        raise ValueError(f"public_features holds {shown(item)}: {_EXPECTED}")
    if names is None:
        if labels is not None:
            raise ValueError(
                f"public_features={item!r} names columns, but the labels of X's "
                "columns are not strings: rename them, X.columns = "
                "X.columns.astype(str)."
            )
        raise ValueError(
            f"public_features={item!r} names columns, but X has no column names: pass "
            "a DataFrame (set_output(transform='pandas') on the step before, with "
            "sparse_output=False), or indices."
        )
    found = [j for j, name in enumerate(names) if name == item]
    times = len(found)
    found = found or [j for j, name in enumerate(names) if fnmatchcase(name, item)]
    if not found:
        listed = ", ".join(map(repr, names[:8])) + ", …" * (len(names) > 8)
        raise ValueError(
            f"public_features holds {item!r}, which matches no column of X: the "
            f"{len(names)} columns are {listed}."
        )
    if times > 1:
        raise ValueError(f"column {item!r} occurs {times} times in X: rename one.")
    return found


def _position(item: int, n_features: int, labels: list | None) -> int:
    _check_position(item, labels, _PUBLIC)
    if not -n_features <= item < n_features:
        raise ValueError(
            f"public_features holds the index {item}, but X has {n_features} "
            "columns: indices count from 0."
        )
    return item % n_features


def column_names(own: Sequence[str] | None, n_features: int) -> tuple[str | int, ...]:
    """Return the names of the columns of X, or their positions if X has no names."""
    if own is None:
        return tuple(range(n_features))
    return tuple(spelling(str(name)) for name in own)


def target_name(declared: str | None, y: Any) -> str | None:
    """Return the declared name of the target, or the name of y; None without either.

    A Series, or a DataFrame of one column, has a name. The name of a Dask array is
    ignored, because this name is a digest of the array's values.
    """
    if declared is None:
        if is_dask(y) and not hasattr(type(y), "divisions"):
            return None
        columns = getattr(y, "columns", None)
        found = getattr(y, "name", None)
        if columns is not None and len(columns) == 1:
            found = columns[0]
        return (spelling(found) or None) if isinstance(found, str) else None
    if not isinstance(declared, str) or not spelling(declared):
        raise ValueError(
            f"target={shown(declared)} must be the name of the column that y holds, or "
            "is computed from."
        )
    return spelling(declared)


def name_facts(
    columns: Sequence[str | int],
    public: np.ndarray,
    *,
    target: str | None = None,
    has_target: bool = True,
    public_target: bool = False,
) -> dict[str, Any]:
    """Return the names of columns and target that are recorded in events of a fit.

    Refuse a name that is both public and private.
    """
    names = {False: {}, True: {}}  # names of private and of public columns, in order
    for name, is_public in zip(columns, public, strict=True):
        names[bool(is_public)][name] = None
    shown = tuple(names[True])
    if target is not None:
        names[bool(public_target)][target] = None
    both = names[True].keys() & names[False]
    both = sorted([name for name in both if isinstance(name, str)])
    if both:
        raise ValueError(
            f"{both[0]!r} is the name of a public and of a private column or target of "
            "this fit: declare both public or both private, or rename one."
        )
    unnamed = ["columns"] * (not all([isinstance(name, str) for name in columns]))
    unnamed += ["target"] * (has_target and target is None)
    return {
        "public_features": shown,
        "public_target": public_target,
        "target_name": target,
        "unnamed": tuple(unnamed),
    }
