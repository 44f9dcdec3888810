"""The comparison table, and fits whose messages can be shown."""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Iterable, Sequence

import numpy as np

from skfdp.cli.arguments import CommandError
from skfdp.defaults import UtilityWarning


@dataclasses.dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    label : str
    epsilon : str
        What it costs.
    scores : list of float
        Accuracies of its repetitions; none where it cannot be fitted.
    """

    label: str
    epsilon: str
    scores: list[float] = dataclasses.field(default_factory=list)

    def cells(self) -> tuple[str, str, str]:
        """Return the text of the three columns."""
        if not self.scores:
            return self.label, self.epsilon, "-"
        accuracy = f"{100 * np.mean(self.scores):5.1f} %"
        if len(self.scores) > 1:
            accuracy += f" +- {100 * np.std(self.scores, ddof=1):.1f}"
        return self.label, self.epsilon, accuracy


def print_table(rows: Sequence[Row]) -> None:
    """Print rows in aligned columns."""
    cells = [("model", "epsilon", "accuracy"), *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(3)]
    rule = tuple("-" * width for width in widths)
    for label, epsilon, accuracy in (cells[0], rule, *cells[1:]):
        line = f"{label:<{widths[0]}}  {epsilon:>{widths[1]}}  {accuracy:<{widths[2]}}"
        print(line.rstrip())


def accuracy(model, X, y) -> float:
    """Return the share of right predictions."""
    return float(np.mean(model.predict(X) == np.asarray(y)))


def fit_private(model, X, y):
    """Fit a model of skfdp, or a Pipeline that ends in one.

    Refusals become a `CommandError`: those of skfdp quote no data. Of the warnings
    only those are shown that depend on public facts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
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
        if issubclass(warning.category, UtilityWarning) or text.startswith("delta="):
            _show_once(text)


@functools.cache
def _show_once(text: str) -> None:
    print(f"python -m skfdp: warning: {text}", file=sys.stderr)
