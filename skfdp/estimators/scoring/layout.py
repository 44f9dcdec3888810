"""Metrics of private scores: the table that they need, and what they make of it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import expit

from skfdp.estimators.scoring.estimates import Estimate, NoisyTable
from skfdp.queries.score_table import ScoreTable
from skfdp.records.checks import shown

TWO, SEVERAL, NUMBERS = "two classes", "several classes", "numbers"
#: Of tables of counts: shares of records, and the counts themselves.
_RATES = ("recall", "false_positive_rate", "selection_rate")
_LOSSES = ("log_loss", "brier_score")
_ERRORS = ("mean_absolute_error", "mean_squared_error")
METRICS = {
    TWO: ("accuracy", "confusion_matrix", "roc_auc", *_RATES, *_LOSSES),
    SEVERAL: ("accuracy", "confusion_matrix", *_LOSSES),
    NUMBERS: _ERRORS,
}
DEFAULTS = {
    TWO: ("accuracy", "confusion_matrix", "roc_auc"),
    SEVERAL: ("accuracy", "confusion_matrix"),
    NUMBERS: _ERRORS,
}
#: Those that are the better, the smaller.
SMALLER = (*_LOSSES, *_ERRORS, "false_positive_rate")
#: Bins are even in log odds, out to these: rare classes have scores near 0.
FURTHEST = 6.0
_FEWEST, _MOST = 24, 96


@dataclasses.dataclass(frozen=True)
class Layout:
    """The cells and losses of the scored records; public facts alone.

    Attributes
    ----------
    task : str
        One of `METRICS`.
    metrics : tuple of str
    n_classes : int
    edges : tuple of float
        Scores that part the bins of two classes; a score on an edge is below it.
    threshold : float
        The edge above which two classes are predicted positive.
    bounds : mapping from str to float
        What losses and errors are cut to, in their units, by metric.
    counts_are_public : bool
        Whether the number of records is known.
    """

    task: str
    metrics: tuple[str, ...]
    n_classes: int
    edges: tuple[float, ...]
    threshold: float
    bounds: dict[str, float]
    counts_are_public: bool

    @property
    def counts(self) -> str:
        """What is counted: "bins", "pairs", "right", "records" or "nothing"."""
        tabled = set(self.metrics) - {"accuracy", *_LOSSES, *_ERRORS}
        if tabled:
            return "bins" if self.task == TWO else "pairs"
        if "accuracy" in self.metrics:
            return "right"
        return "nothing" if self.counts_are_public else "records"

    @property
    def n_bins(self) -> int:
        """Number of bins of two classes."""
        return len(self.edges) + 1

    @property
    def n_cells(self) -> int:
        """Number of cells; the last one is for records that cannot be scored."""
        return {
            "bins": 2 * self.n_bins + 1,
            "pairs": self.n_classes**2 + 1,
            "right": 2,
            "records": 1,
            "nothing": 0,
        }[self.counts]

    @property
    def losses(self) -> tuple[str, ...]:
        """Metrics that are means of losses, in the order of the table."""
        return tuple(name for name in self.metrics if name in self.bounds)

    def planned(self, n_groups: int) -> ScoreTable:
        """Return the table of no records."""
        return ScoreTable.planned(self.n_cells, len(self.losses), n_groups)

    # -- private: what one record is, a function of that record -----------------------
    def cells(
        self, codes: np.ndarray, scores: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """Return the cell of each record; private.

        Parameters
        ----------
        codes : int64 ndarray of shape (n_rows,)
            Class of each record, -1 where it has none.
        scores : float64 ndarray of shape (n_rows,)
            Of two classes, NaN where there is none.
        labels : int64 ndarray of shape (n_rows,)
            Predicted class, -1 where there is none.
        """
        last = np.full(len(codes), self.n_cells - 1)
        if self.counts in ("records", "nothing"):
            return np.zeros(len(codes), dtype=np.int64)
        known = codes >= 0
        if self.task == TWO:
            known &= ~np.isnan(scores)
            labels = (scores > self.threshold).astype(np.int64)
            place = codes * self.n_bins + np.searchsorted(self.edges, scores)
        else:
            known &= labels >= 0
            place = codes * self.n_classes + labels
        if self.counts == "right":
            return np.where(known & (labels == codes), 0, last)
        return np.where(known, place, last)

    def losses_of_classes(
        self, codes: np.ndarray, probabilities: np.ndarray
    ) -> np.ndarray:
        """Return the losses of each record in units of their bounds; private.

        Parameters
        ----------
        codes : int64 ndarray of shape (n_rows,)
        probabilities : float64 ndarray of shape (n_rows, n_classes)

        Returns
        -------
        losses : float64 ndarray of shape (n_rows, n_losses)
            1, the worst, for a record without class or probabilities.
        """
        valid = (codes >= 0) & np.isfinite(probabilities).all(axis=1)
        chances = np.clip(probabilities, 0.0, 1.0)
        rows, codes = np.arange(len(codes)), np.maximum(codes, 0)
        found = {}
        if "log_loss" in self.losses:
            found["log_loss"] = -np.log(chances[rows, codes])
        if "brier_score" in self.losses:
            right = np.zeros(chances.shape)
            right[rows, codes] = 1.0
            square = ((chances - right) ** 2).sum(axis=1)
            found["brier_score"] = square / 2 if self.task == TWO else square
        return self._in_units(found, valid)

    def losses_of_numbers(self, target: np.ndarray, predicted: np.ndarray):
        """Return the errors of each record in units of their bounds; private."""
        error = np.abs(predicted - target)
        found = {"mean_absolute_error": error, "mean_squared_error": error**2}
        return self._in_units(found, np.isfinite(error))

    def _in_units(self, found: dict[str, np.ndarray], valid: np.ndarray) -> np.ndarray:
        """Return losses over their bounds, cut to [0, 1]."""
        columns = [found[name] / self.bounds[name] for name in self.losses]
        losses = np.array(columns).reshape(len(columns), len(valid)).T
        return np.where(valid[:, None], np.clip(losses, 0.0, 1.0), 1.0)

    # -- of released numbers ----------------------------------------------------------
    def estimates(self, table: NoisyTable) -> dict[str, Estimate]:
        """Return the estimate of every metric but the confusion matrix."""
        found = {}
        for name in self.metrics:
            if name in self.bounds:
                mean = table.mean_loss(self.losses.index(name))
                found[name] = mean.scaled(self.bounds[name])
            elif name == "roc_auc":
                found[name] = table.auc(*np.arange(2 * self.n_bins).reshape(2, -1))
            elif name != "confusion_matrix":
                found[name] = self._share(name, table)
        return found

    def _share(self, name: str, table: NoisyTable) -> Estimate:
        """Return a metric that is a share of records."""
        if self.counts == "right":
            return table.share(np.array([True, False]))
        if self.counts == "pairs":
            right = np.append(np.eye(self.n_classes, dtype=bool).ravel(), False)
            return table.share(right)
        actual, above = self._sides()
        if name == "accuracy":
            return table.share((actual == above) & (actual >= 0))
        if name == "selection_rate":
            return table.share(above == 1)
        side = actual == (name == "recall")
        return table.ratio(side & (above == 1), side)

    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the class of each cell of bins, and that predicted there; -1: none."""
        upper = np.arange(self.n_bins) > self.edges.index(self.threshold)
        actual = np.append(np.repeat([0, 1], self.n_bins), -1)
        return actual, np.append(np.tile(upper, 2).astype(int), -1)

    def confusion_matrix(self, table: NoisyTable) -> np.ndarray | None:
        """Return noisy counts of actual by predicted class, None if not asked for."""
        if "confusion_matrix" not in self.metrics:
            return None
        counts = table.counts
        if self.counts == "pairs":
            return counts[:-1].reshape(self.n_classes, self.n_classes)
        actual, above = self._sides()
        return np.array(
            [
                [counts[(actual == i) & (above == j)].sum() for j in (0, 1)]
                for i in (0, 1)
            ]
        )


def check_metrics(metrics: Any, task: str) -> tuple[str, ...]:
    """Return the metrics that are asked for, each once."""
    if metrics is None:
        return DEFAULTS[task]
    named = [metrics] if isinstance(metrics, str) else metrics
    known = METRICS[task]
    try:
        found = tuple(dict.fromkeys(named))
    except TypeError:
        found = ()
    if not found or not all(isinstance(n, str) and n in known for n in found):
        raise ValueError(
            f"metrics={shown(metrics)} must be some of {', '.join(map(repr, known))} "
            f"for a model of {task}."
        )
    return found


def bin_edges(
    threshold: float, n_bins: int | None, noise_std: float, n_records: int
) -> tuple[float, ...]:
    """Return the edges of the bins of scores, the threshold among them.

    Parameters
    ----------
    threshold : float
        Within (0, 1).
    n_bins : int or None
        Before the threshold is added; 1: the threshold alone. None follows from public
        numbers: as many as leave the noise of the number of right predictions below
        the variance n / 8 that sampling gives it, from 24 to 96.
    noise_std : float
        Of a count.
    n_records : int
    """
    if n_bins is None:
        wanted = n_records / max(4 * noise_std**2, 1e-300)
        n_bins = 2 * math.floor(min(max(wanted, _FEWEST), _MOST) / 2)
    steps = np.arange(1, n_bins) - n_bins / 2
    edges = {float(edge) for edge in expit(2 * FURTHEST / n_bins * steps)}
    return tuple(sorted(edges | {float(threshold)}))
