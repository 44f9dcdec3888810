"""The labels of a classifier: which there are, and which one each record has."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skfdp.records.blocks import blocks
from skfdp.records.checks import (
    check_size,
    shown,
)

#: Classes are held as int16.
MOST_CLASSES = 2**15


@dataclasses.dataclass(frozen=True)
class Labels:
    """The label set and the class of each record.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    codes : int64 ndarray of shape (n_rows,)
        Position of each label in `classes`; 0 where there is no label.
    source : {"declared", "data"}
    missing : bool ndarray of shape (n_rows,) or None
        Records without a label of `classes`; None: there are none.
    """

    classes: np.ndarray
    codes: np.ndarray
    source: str
    missing: np.ndarray | None = None

    @classmethod
    def unseen(cls, classes: Sequence, n_rows: int) -> Labels:
        """Return declared labels without a look at y: every code is 0."""
        declared = declared_labels(classes)
        return cls(declared, np.zeros(n_rows, dtype=np.int64), "declared")


def encode_any(y: np.ndarray, classes: Sequence) -> Labels:
    """Encode y over the declared classes, whatever it holds.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Of any type: only whether it is text or numbers may be refused, by its dtype.
    classes : sequence
    """
    declared = declared_labels(classes)
    kinds = {y.dtype.kind, declared.dtype.kind} - {"O"}
    if len({"text" if kind in "US" else "no text" for kind in kinds}) > 1:
        raise ValueError(
            f"y and `classes`={declared.tolist()!r} differ in type, text and numbers, "
            "so that no label is declared: convert one of them."
        )
    position = {label: code for code, label in enumerate(declared.tolist())}
    if y.dtype.kind == "O":  # without an order, and with labels that have no hash
        places = np.array([_place(label, position) for label in y], dtype=np.int64)
    else:
        seen, codes = _seen_and_codes(y)
        found = [position.get(label, -1) for label in seen.tolist()]
        places = np.array(found, dtype=np.int64)[codes]
    missing = places < 0
    codes = np.maximum(places, 0)
    return Labels(declared, codes, "declared", missing if missing.any() else None)


def _place(label: Any, position: Mapping[Any, int]) -> int:
    try:
        return position.get(label, -1)
    except Exception:  # whatever the hash, or the comparison, of a user's object raises
        return -1


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y over the declared classes, or over those that it holds."""
    # Not `check_classification_targets`: its warning about many classes would tell how
    # many occur, and silencing it is not safe where threads fit at the same time.
    kind, seen, codes = _kind_and_codes(y)
    if seen is None:
        raise ValueError(
            "y holds labels of several types, which have no order: convert them to one "
            "type."
        )
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"Unknown label type: {kind}. A classifier expects discrete classes: use a "
            "regressor for continuous values."
        )
    _check_number(seen)
    if classes is None:
        if len(seen) < 2:
            raise ValueError(
                "y holds one class only, a classifier needs at least two: declare "
                "`classes` if the others are merely absent."
            )
        return Labels(seen, codes.astype(np.int64), "data")
    declared = declared_labels(classes)
    position = {label: code for code, label in enumerate(declared.tolist())}
    places = [position.get(label, -1) for label in seen.tolist()]
    if -1 in places:
        raise ValueError(
            f"y holds labels outside `classes`={declared.tolist()!r}: declare every "
            "label that can occur."
        )
    return Labels(declared, np.asarray(places, dtype=np.int64)[codes], "declared")


def _kind_and_codes(y: np.ndarray) -> tuple:
    """Return the kind of y, its labels and their codes; None of each without order."""
    try:
        return type_of_target(y, input_name="y"), *_seen_and_codes(y)
    except TypeError:  # not raised from here: its context may be of values
        return None, None, None


def _seen_and_codes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `numpy.unique` does, with no more memory than that of the codes."""
    if y.dtype.kind == "O":
        return np.unique(y, return_inverse=True)
    parts = [y[block] for block in blocks(len(y), 1)]
    seen = np.unique(np.concatenate([y[:0], *map(np.unique, parts)]))
    codes = np.empty(len(y), dtype=np.int64)
    for block in blocks(len(y), 1):
        codes[block] = np.searchsorted(seen, y[block])
    return seen, codes


def _check_number(labels: np.ndarray) -> None:
    if len(labels) > MOST_CLASSES:
        raise ValueError(
            f"y or `classes` has more than {MOST_CLASSES} labels: merge rare ones."
        )


def declared_labels(classes: Any) -> np.ndarray:
    """Return the declared labels, sorted, each once; at least two."""
    labels = None
    if isinstance(classes, Collection) and not isinstance(classes, (str, Mapping)):
        with contextlib.suppress(TypeError, ValueError):  # of labels without an order
            labels = np.asarray(classes)
            labels = np.unique(labels) if labels.ndim == 1 else None
    if labels is None:
        raise ValueError(
            f"classes={shown(classes)} must be a sequence of labels of one type."
        )
    _check_number(labels)
    if len(labels) < 2:
        raise ValueError(f"classes={shown(classes)} must hold at least two labels.")
    return labels


def resolve_class_weight(class_weight: Any, classes: np.ndarray) -> np.ndarray:
    """Return one public weight per class."""
    weights = np.ones(len(classes))
    if class_weight is None:
        return weights
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight={shown(class_weight)} must be None or a dict from labels to "
            "weights: 'balanced' would read the label counts, which may be private."
        )
    position = {label: code for code, label in enumerate(classes.tolist())}
    for label, weight in class_weight.items():
        if label not in position:
            raise ValueError(
                f"class_weight names the label {label!r}, which is not in `classes`."
            )
        check_size(f"class_weight[{label!r}]", weight, zero=True)
        weights[position[label]] = weight
    if not weights.any():
        raise ValueError(
            f"class_weight={class_weight!r} gives every class the weight 0: at least "
            "one must count."
        )
    return weights
