"""Predictions of a fixed model, record by record, whatever the records hold."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from skfdp.estimators.scoring.layout import NUMBERS, TWO, Layout
from skfdp.records.checks import shown
from skfdp.records.guards import without_traps
from skfdp.records.labels import encode_any
from skfdp.records.spelling import number

_WITHHELD = (
    "the model failed on these records; its message is withheld because it may quote "
    "the data: try it on made-up records of the same shape to see it."
)
_REFUSED = (
    "on_invalid='raise': a record has no label of the model's classes, or no "
    "prediction; the charge is kept; score with on_invalid='replace' instead."
)


@dataclasses.dataclass(frozen=True)
class Model:
    """The model that is scored, and how it tells its predictions; public facts.

    Attributes
    ----------
    estimator : object
    task : str
    classes : ndarray of shape (n_classes,) or None
    by : str
        Name of the method that gives scores of two classes: "predict_proba",
        "decision_function" or "predict".
    """

    estimator: Any
    task: str
    classes: np.ndarray | None
    by: str

    def needs(self, layout: Layout) -> tuple[str, ...]:
        """Return the names of the methods that a table needs."""
        if self.task == NUMBERS:
            return ("predict",)
        found = ["predict_proba"] * bool(layout.losses)
        if layout.counts in ("bins", "pairs", "right"):
            found.append(self.by)
        return tuple(dict.fromkeys(found))


@without_traps()
def table_of(
    model: Model, layout: Layout, X: Any, y: np.ndarray, *, raises: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell and the losses of each record; private.

    Parameters
    ----------
    model : Model
    layout : Layout
    X : table
        Anything that `rows_of` takes.
    y : ndarray of shape (n_rows,)
    raises : bool
        Whether to refuse records without a label or a prediction.

    Returns
    -------
    cells : int64 ndarray of shape (n_rows,)
    losses : float64 ndarray of shape (n_rows, n_losses)

    Notes
    -----
    **Guarantees.** If the model predicts each row by itself, then the cell and the
    losses of a record are a function of that record, of its position and of the number
    of records; of that record alone where the number is private. No exception of the
    model and no warning comes out. A row that it refuses has no prediction; the others
    are predicted in a table of the same shape, in which another row stands in for it,
    so that not a bit of theirs depends on it.
    """
    alone = not layout.counts_are_public
    outputs = {
        name: predicted(getattr(model.estimator, name), X, len(y), alone=alone)
        for name in model.needs(layout)
    }
    if model.task == NUMBERS:
        numbers = _numbers(outputs["predict"], (len(y),))
        target = _real(y)
        invalid = ~np.isfinite(numbers) | ~np.isfinite(target)
        cells = np.zeros(len(y), dtype=np.int64)
        losses = layout.losses_of_numbers(target, numbers)
    else:
        codes, invalid, cells, losses = _of_classes(model, layout, outputs, y)
    if raises and invalid.any():
        raise ValueError(_REFUSED)
    return cells, losses


def _of_classes(
    model: Model, layout: Layout, outputs: dict[str, np.ndarray | list], y: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return codes, invalid records, cells and losses of a classifier."""
    labels = encode_any(y, model.classes)
    codes = labels.codes.copy()
    if labels.missing is not None:
        codes[labels.missing] = -1
    n_rows, n_classes = len(y), len(model.classes)
    # Columns are those of `classes_`, codes those of the sorted labels.
    order = np.argsort(np.argsort(model.classes, kind="stable"), kind="stable")
    scores, guesses = np.zeros(n_rows), np.zeros(n_rows, dtype=np.int64)
    chances = np.zeros((n_rows, n_classes))
    if "predict_proba" in outputs:
        given = _numbers(outputs["predict_proba"], (n_rows, n_classes))
        chances[:, order] = given
        scores = chances[:, -1]
    if "decision_function" in outputs:
        margins = _numbers(outputs["decision_function"], (n_rows,))
        scores = expit(margins if order[-1] == 1 else -margins)
    if "predict" in outputs:
        if outputs["predict"].shape != (n_rows,):
            raise RuntimeError(_WITHHELD)
        found = encode_any(outputs["predict"], model.classes)
        guesses = found.codes.copy()
        if found.missing is not None:
            guesses[found.missing] = -1
        if model.task == TWO:
            scores = np.where(guesses < 0, math.nan, guesses)
    invalid = (codes < 0) | (guesses < 0) | ~np.isfinite(scores)
    invalid |= ~np.isfinite(chances).all(axis=1)
    scores = np.where(np.isfinite(scores), scores, math.nan)
    cells = layout.cells(codes, scores, guesses)
    losses = layout.losses_of_classes(codes, chances)
    return codes, invalid, cells, losses


def predicted(
    call: Callable[[Any], Any], X: Any, n_rows: int, *, alone: bool = False
) -> np.ndarray:
    """Return what a method predicts for each row; None for rows that it refuses.

    Parameters
    ----------
    call : callable
    X : table
    n_rows : int
    alone : bool, default=False
        Whether to predict each row in a table of its own, because the number of rows is
        private: products of matrices round by the shape of the table.

    Returns
    -------
    found : ndarray of shape (n_rows, ...)
        Of type object where rows were refused, or are alone.
    """
    everyone, result = np.arange(n_rows), np.full(n_rows, None, dtype=object)
    if alone or n_rows == 0:
        for row in everyone:
            found = _attempt(call, rows_of(X, everyone[row : row + 1]))
            result[row] = None if found is None else found[0]
        return result
    # A copy, as where rows stand in: equal memory makes equal bits.
    found = _attempt(call, rows_of(X, everyone))
    if found is not None:
        return found
    passing = _passing(call, X, n_rows)
    if not passing.any():
        return result
    stand_in = np.flatnonzero(passing)[0]
    found = _attempt(call, rows_of(X, np.where(passing, everyone, stand_in)))
    if found is None:
        raise RuntimeError(_WITHHELD)
    for row in np.flatnonzero(passing).tolist():
        result[row] = found[row]
    return result


def _passing(call: Callable[[Any], Any], X: Any, n_rows: int) -> np.ndarray:
    """Return which rows are predicted, by halving what is refused.

    Rows are tried in a table of the public size, repeated as often as it takes: a model
    that refuses short tables must not lose the rows beside one that it refuses.
    """
    passing, left = np.ones(n_rows, dtype=bool), [np.arange(n_rows)]
    while left:
        rows = left.pop()
        if _attempt(call, rows_of(X, np.resize(rows, n_rows))) is not None:
            continue
        if len(rows) == 1:
            passing[rows] = False
            continue
        left += np.array_split(rows, 2)
    return passing


def _attempt(call: Callable[[Any], Any], X: Any) -> np.ndarray | None:
    """Return the predictions of some rows, None if there are not as many."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(call(X))
            fits = found.ndim > 0 and len(found) == n_rows_of(X)
        except Exception:  # whatever a user's model raises; it may quote the data
            return None
    return found if fits else None


def rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a table, in a new table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "schema") and hasattr(X, "take") else X[rows]


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0])


def _numbers(found: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return predictions as floats, NaN where there is none."""
    if found.dtype.kind in "biuf" and found.shape == shape:
        return found.astype(np.float64)
    if found.dtype.kind in "biuf" and found.size == math.prod(shape):
        return found.astype(np.float64).reshape(shape)
    result = np.full(shape, math.nan)
    if found.dtype.kind == "O" and found.ndim == 1:
        for row, value in enumerate(found):
            numbers = np.asarray(math.nan if value is None else value)
            if numbers.dtype.kind in "biuf" and numbers.size == math.prod(shape[1:]):
                result[row] = numbers.reshape(shape[1:])
        return result
    raise RuntimeError(_WITHHELD)


def _real(y: np.ndarray) -> np.ndarray:
    """Return a target as floats, NaN where an entry is no number."""
    if y.dtype.kind in "biuf":
        return y.astype(np.float64)
    real = (float, np.floating)  # may be infinite
    found = [float(one) if isinstance(one, real) else number(one) for one in y]
    return np.array(found, dtype=np.float64)


def model_of(estimator: Any) -> Model:
    """Return how a fitted model tells its predictions, or raise ValueError."""
    if not hasattr(estimator, "predict"):
        raise ValueError(
            f"model={shown(estimator)} has no predict: pass a fitted classifier or "
            "regressor, or a Pipeline that ends with one."
        )
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return Model(estimator, NUMBERS, None, "predict")
    if isinstance(classes, list) or np.ndim(classes) != 1 or len(classes) < 2:
        raise ValueError(
            "model has several targets or fewer than two classes: score a model of one "
            "target."
        )
    classes = np.asarray(classes)
    if len(classes) > 2:
        return Model(estimator, "several classes", classes, "predict")
    for name in ("predict_proba", "decision_function"):
        if hasattr(estimator, name):
            return Model(estimator, TWO, classes, name)
    return Model(estimator, TWO, classes, "predict")
