"""The comparison table, and fits whose messages can be shown."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import r2_score, roc_auc_score

from skfdp.cli.output import CommandError, complain, say
from skfdp.records.guards import UtilityWarning

#: What is said of a model, and how.
_FORMATS = {
    "accuracy": ("{:5.1f} %", 100),
    "AUC": ("{:.3f}", 1),
    "log loss": ("{:.3f}", 1),
    "R2": ("{:.3f}", 1),
    "RMSE": ("{:.4g}", 1),
}
#: Whose spread over the repetitions is shown.
_SPREAD = ("accuracy", "R2")


@dataclasses.dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    label : str
    epsilon : str
        What it costs.
    scores : list of dict of str to float
        Those of its repetitions, by name; none where it cannot be fitted.
    """

    label: str
    epsilon: str
    scores: list[dict[str, float]] = dataclasses.field(default_factory=list)

    def cells(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the text of the columns."""
        return self.label, self.epsilon, *(self._cell(name) for name in names)

    def _cell(self, name: str) -> str:
        found = [scores[name] for scores in self.scores if name in scores]
        if not found:
            return "-"
        form, unit = _FORMATS[name]
        text = form.format(unit * np.mean(found))
        if name in _SPREAD and len(found) > 1:
            spread = form.removesuffix(" %").format(unit * np.std(found, ddof=1))
            text += f" +- {spread.strip()}"
        return text


def print_table(rows: Sequence[Row]) -> None:
    """Print rows in aligned columns."""
    known = {name for row in rows for scores in row.scores for name in scores}
    names = [name for name in _FORMATS if name in known]
    cells = [("model", "epsilon", *names), *(row.cells(names) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rule = tuple("-" * width for width in widths)
    for line in (cells[0], rule, *cells[1:]):
        aligned = [
            f"{cell:>{width}}" if place == 1 else f"{cell:<{width}}"
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        say("  ".join(aligned).rstrip())


def accuracy(model, X, y) -> float:
    """Return the share of right predictions."""
    return float(np.mean(model.predict(X) == np.asarray(y)))


def scores(model, X, y) -> dict[str, float]:
    """Return accuracy, log loss, and for two classes the area under the ROC curve.

    Accuracy alone says nothing where one class is rare. For a regressor: the share of
    the variance that is explained, and the root of the mean squared error.
    """
    if is_regressor(model):
        predicted = model.predict(X)
        found = {"RMSE": float(np.sqrt(np.mean((predicted - y) ** 2)))}
        if len(y) > 1:
            found["R2"] = float(r2_score(y, predicted))
        return found
    y, known = np.asarray(y), np.asarray(model.classes_)
    chances = model.predict_proba(X)
    # A label that the model does not know has no chance.
    right = (y[:, None] == known) * chances
    losses = -np.log(np.maximum(right.sum(axis=1), 1e-15))
    found = {"accuracy": accuracy(model, X, y), "log loss": float(losses.mean())}
    if len(known) == 2 and len(np.unique(y == known[1])) == 2:
        found["AUC"] = float(roc_auc_score(y == known[1], chances[:, 1]))
    return found


def fit_private(model, X, y, **of_rows):
    """Fit a model of skfdp, or a Pipeline that ends in one.

    `of_rows` is what `fit` takes beside them.

    Refusals become a `CommandError`: those of skfdp quote no data. Of the warnings
    only those are shown that depend on public facts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, **of_rows)
        except (ValueError, OSError) as error:
            raise CommandError(" ".join(str(error).split())) from None
    _show(caught)
    return model


def fit_baseline(model, X, y):
    """Fit a model without privacy; its warnings tell about the data and are dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def seed_of(seed: int | None, repeat: int) -> int | None:
    """Return the `random_state` of one repetition."""
    return None if seed is None else seed + repeat


def _show(caught: Iterable[warnings.WarningMessage]) -> None:
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if "values of the public column" in text:
            continue  # the job has said so, with what to do about it here
        shown = issubclass(warning.category, UtilityWarning)
        if shown or text.startswith(("delta=", "epsilon=")):
            _show_once(text)


@functools.cache
def _show_once(text: str) -> None:
    complain(f"warning: {text}")
