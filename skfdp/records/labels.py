"""The labels of a classifier: which there are, and which one each record has."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target

from skfdp.records.blocks import blocks
from skfdp.records.checks import check_size, shown
from skfdp.records.spelling import Spelling, number_in, spelling_of

#: What to do where labels seem to be coded.
RECODED = (
    "cross_val_predict(method='predict_proba'), voting, stacking, bagging and "
    "one-vs-rest of scikit-learn code labels as 0, ..., k-1 before fit: declare these "
    "numbers as `classes` there, or the labels that y holds."
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
        Of any type: only what its dtype shows may be refused.
    classes : sequence
        It decides the spelling: see `skfdp.records.spelling`.

    Raises
    ------
    ValueError
        If no value of the dtype of y can be one of the classes.
    """
    declared = declared_labels(classes)
    spelling = _spelling(declared)
    _check_type(y.dtype, declared, spelling)
    places = _places(y, spelling)
    missing = places < 0
    codes = np.maximum(places, 0)
    return Labels(declared, codes, "declared", missing if missing.any() else None)


def _places(y: np.ndarray, spelling: Spelling) -> np.ndarray:
    """Return the position of each label, below 0 where it is not declared."""
    if y.dtype.kind == "O":
        return spelling.places(y)
    seen, codes = _seen_and_codes(y)
    return spelling.places(seen)[codes]


def _spelling(declared: np.ndarray) -> Spelling:
    return spelling_of(declared.tolist(), "classes", "label")


def _check_type(dtype: np.dtype, declared: np.ndarray, spelling: Spelling) -> None:
    """Refuse a type of y in which no declared label can occur; looks at no value."""
    levels, kind = spelling.levels, dtype.kind
    if kind in "iu":
        holds, fits = "whole numbers", any(map(_spells_whole, levels))
    elif kind == "f":
        holds, fits = "numbers", any(map(_spells_number, levels))
    elif kind == "b":
        holds, fits = "booleans", any(spelling.place(one) >= 0 for one in (True, False))
    else:
        holds, fits = "complex numbers", kind != "c"
    if fits:
        return
    remedy = RECODED if kind in "iu" else "Convert one of them."
    raise ValueError(
        f"y holds {holds}, and none of `classes`={declared.tolist()!r} is one: y and "
        f"`classes` differ in type. {remedy}"
    )


def check_recoded(y: np.ndarray, classes: Any) -> None:
    """Refuse a y of whole numbers over declared booleans, which a fit would confuse.

    scikit-learn codes labels before some fits, and takes predictions for such codes.
    """
    if y.dtype.kind in "iu" and np.asarray(classes).dtype.kind == "b":
        raise ValueError(
            f"y holds whole numbers, and `classes`={list(classes)!r} holds booleans: y "
            f"and `classes` differ in type. {RECODED}"
        )


def are_codes(classes: np.ndarray) -> bool:
    """Whether the classes are 0, ..., k-1, as scikit-learn codes labels."""
    return np.array_equal(classes, np.arange(len(classes)))


def _spells_number(level: Any) -> bool:
    return not isinstance(level, str) or number_in(level) is not None


def _spells_whole(level: Any) -> bool:
    number = number_in(level) if isinstance(level, str) else level
    return number is not None and number == number // 1


def encode_labels(y: np.ndarray, classes: Sequence | None) -> Labels:
    """Encode y over the declared classes, or over those that it holds.

    Raises
    ------
    ValueError
        If y holds no labels, one label, or other labels than the declared ones.
    """
    if classes is not None:
        labels = encode_any(y, classes)
        if labels.missing is not None:
            raise ValueError(
                f"y holds labels outside `classes`={labels.classes.tolist()!r}: "
                "declare every label that can occur."
            )
        return labels
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
    if len(seen) < 2:
        raise ValueError(
            "y holds one class only, a classifier needs at least two: declare "
            "`classes` if the others are merely absent."
        )
    return Labels(seen, codes.astype(np.int64), "data")


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
    """Return the declared labels, sorted, each once; at least two.

    Raises
    ------
    ValueError
        If there are fewer than two, or two that differ only in spelling.
    """
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
    # An array has one type: in it 1, 1.0 and "1" may have become equal.
    if len({(type(label), label) for label in classes}) > len(labels):
        raise ValueError(
            f"classes={shown(classes)} holds one label in two types: keep one of them."
        )
    if len(labels) < 2:
        raise ValueError(f"classes={shown(classes)} must hold at least two labels.")
    _spelling(labels)
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
    spelling = _spelling(classes)
    for label, weight in class_weight.items():
        if (code := spelling.place(label)) < 0:
            raise ValueError(
                f"class_weight names the label {label!r}, which is not in `classes`."
            )
        check_size(f"class_weight[{label!r}]", weight, zero=True)
        weights[code] = weight
    if not weights.any():
        raise ValueError(
            f"class_weight={class_weight!r} gives every class the weight 0: at least "
            "one must count."
        )
    return weights
